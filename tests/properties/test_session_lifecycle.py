"""
One daily reset per local day, in every zone and on every day.

The zones and days are gone through, not drawn: a rule about every day is worth every day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zlib import crc32
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import NOON, dm
from tests.full_length import examples
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.session import (
    EndReason,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.rules.session_lifecycle import (
    daily_reset_on,
    end_session,
    interacted,
    last_daily_reset,
    open_session,
    reset_due,
    resumed,
)

INSTANT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

CHUNKS = 16
ZONES = sorted(available_timezones())
YEARS = (2011, 2026)
TIMES = (time(0, 0), time(0, 30), time(1, 30), time(2, 30), time(23, 45))

# Where clocks change at or around midnight, by two hours or by half of one, where days were left
# out or began twice.
AWKWARD = [
    ("America/Havana", 2026),
    ("America/New_York", 2026),
    ("America/Nuuk", 2026),
    ("America/Santiago", 2026),
    ("America/Sao_Paulo", 2011),
    ("America/St_Johns", 2010),
    ("Africa/Cairo", 2026),
    ("Africa/Casablanca", 2026),
    ("Antarctica/Casey", 2010),
    ("Antarctica/Troll", 2026),
    ("Asia/Beirut", 2026),
    ("Asia/Gaza", 2026),
    ("Asia/Tehran", 2011),
    ("Atlantic/Azores", 2026),
    ("Australia/Lord_Howe", 2026),
    ("Pacific/Apia", 2011),
    ("Pacific/Chatham", 2026),
    ("Pacific/Kiritimati", 1994),
    ("Pacific/Kwajalein", 1993),
]
# Where a message that resets comes on the local day whose reset it is: not where the calendar goes
# back a day.
WRITTEN_FROM = [
    (zone, year) for zone, year in AWKWARD if zone not in ("America/St_Johns", "Antarctica/Casey")
]


def days_of(year: int) -> Iterator[date]:
    first = date(year, 1, 1)
    return (first + timedelta(days=number) for number in range((date(year + 1, 1, 1) - first).days))


def never_was(day: date, tz: ZoneInfo) -> bool:
    """Nowhere in the three days around it did a clock of that zone show the day."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return all(
        (midnight + quarter * HOUR / 4).astimezone(tz).date() != day
        for quarter in range(-24 * 4, 48 * 4)
    )


def times_for(zone: str) -> set[time]:
    """
    Two of the times, not the same two in every zone; all of them everywhere would take minutes.
    """
    number = crc32(zone.encode())
    return {TIMES[number % 5], TIMES[(number + 1 + number // 5 % 4) % 5]}


def check_year(zone: str, year: int, daily_at: time) -> None:
    tz = ZoneInfo(zone)
    case = f"{zone} at {daily_at}"
    previous = daily_reset_on(date(year - 1, 12, 31), daily_at, tz)
    assert previous, f"{case}: the year before had a last day"
    for day in days_of(year):
        moment = daily_reset_on(day, daily_at, tz)
        if moment is None:
            assert never_was(day, tz), f"{case}: no reset on {day}"
            continue
        assert moment.astimezone(tz).date() == day, f"{case}: the reset of {day} is on another day"
        assert moment > previous, f"{case}: the reset of {day} is not after the one before"
        assert last_daily_reset(moment, daily_at, zone) == moment, (
            f"{case}: nothing happens on {day}"
        )
        assert last_daily_reset(moment - INSTANT, daily_at, zone) == previous, (
            f"{case}: too early on {day}"
        )
        previous = moment


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_zone_has_exactly_one_daily_reset_on_every_local_day(chunk: int, year: int) -> None:
    for zone in ZONES[chunk::CHUNKS]:
        for daily_at in times_for(zone):
            check_year(zone, year, daily_at)


@pytest.mark.parametrize(("zone", "year"), AWKWARD)
def test_an_awkward_zone_has_exactly_one_daily_reset_on_every_local_day(
    zone: str, year: int
) -> None:
    for daily_at in TIMES:
        check_year(zone, year, daily_at)


@pytest.mark.parametrize(("zone", "year"), AWKWARD)
def test_the_most_recent_daily_reset_never_goes_back(zone: str, year: int) -> None:
    quarters = [
        datetime(year, 1, 1, tzinfo=UTC) + number * HOUR / 4 for number in range(366 * 24 * 4)
    ]
    around_changes = [
        quarter
        for quarter in quarters[96:-96]
        if (quarter - DAY / 2).astimezone(ZoneInfo(zone)).utcoffset()
        != (quarter + DAY / 2).astimezone(ZoneInfo(zone)).utcoffset()
    ]

    for daily_at in TIMES:
        found = [last_daily_reset(quarter, daily_at, zone) for quarter in around_changes]
        assert found
        assert found == sorted(found)


def local_days_with_resets(
    zone: str, year: int, daily_at: time, every: timedelta
) -> tuple[list[date], Counter[date]]:
    """
    The local days on which somebody wrote, and how many sessions began on each, for a year of
    steady writing.
    """
    tz = ZoneInfo(zone)
    now = datetime(year, 1, 1, 12, tzinfo=tz).astimezone(UTC)
    end = datetime(year + 1, 1, 1, tzinfo=tz).astimezone(UTC)
    opening = Opening(
        key=SessionKey("k"), source=dm(), policy=ResetPolicy(daily_at=daily_at, zone=zone)
    )
    session = open_session(None, opening, now=now, fresh_id=lambda: SessionId("first")).session
    seen: dict[date, None] = {}
    begun: Counter[date] = Counter()
    while now < end:
        today = now.astimezone(tz).date()
        decision = open_session(session, opening, now=now, fresh_id=lambda: SessionId("next"))
        session = interacted(decision.session, [], now)
        seen[today] = None
        begun[today] += decision.is_new
        now += every
    return list(seen), begun


@pytest.mark.parametrize("daily_at", TIMES[:-1], ids=str)
@pytest.mark.parametrize(("zone", "year"), WRITTEN_FROM)
def test_somebody_who_writes_every_few_hours_gets_one_new_session_a_day(
    zone: str, year: int, daily_at: time
) -> None:
    days, begun = local_days_with_resets(zone, year, daily_at, timedelta(hours=2, minutes=50))

    assert len(days) >= 364
    assert [begun[day] for day in days] == [0] + [1] * (len(days) - 1)


@pytest.mark.parametrize(("zone", "year"), [("America/Nuuk", 2026), ("Pacific/Apia", 2011)])
def test_somebody_who_writes_all_the_time_gets_one_new_session_late_each_day(
    zone: str, year: int
) -> None:
    days, begun = local_days_with_resets(zone, year, time(23, 45), timedelta(minutes=13))

    assert len(days) >= 364
    assert [begun[day] for day in days] == [1] * len(days)


moments = st.datetimes(
    min_value=datetime(2009, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2027, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
policies = st.builds(
    ResetPolicy,
    idle_after=st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30)),
    daily_at=st.none() | st.sampled_from(TIMES) | st.times(),
    zone=st.sampled_from([zone for zone, _ in AWKWARD]),
)


@settings(max_examples=examples(300), deadline=None)
@given(last=moments, now=moments, policy=policies)
def test_a_reset_is_due_only_after_the_last_interaction_and_never_right_after_a_message(
    last: datetime, now: datetime, policy: ResetPolicy
) -> None:
    session = Session(
        id=SessionId("s"),
        key=SessionKey("k"),
        origin=dm(),
        started_at=last,
        last_interaction_at=last,
        updated_at=last,
    )

    reason = reset_due(session, policy, now)

    assert reason is None or now > last
    assert reset_due(interacted(session, [], now), policy, now) is None


@settings(max_examples=examples(300), deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["write", "end", "resume"]), moments), max_size=12),
    policy=policies,
)
def test_no_jump_of_the_clock_makes_an_age_negative(
    steps: list[tuple[str, datetime]], policy: ResetPolicy
) -> None:
    opening = Opening(key=SessionKey("k"), source=dm(), policy=policy)
    session = open_session(None, opening, now=NOON, fresh_id=lambda: SessionId("s")).session
    verbs = {
        "write": lambda now: interacted(
            open_session(session, opening, now=now, fresh_id=lambda: SessionId("n")).session,
            [],
            now,
        ),
        "end": lambda now: end_session(session, EndReason.RESET, now),
        "resume": lambda now: resumed(session, now),
    }
    for verb, now in steps:
        session = verbs[verb](now)
        assert session.started_at <= session.last_interaction_at <= session.updated_at
        assert session.ended_at is None or session.ended_at >= session.last_interaction_at
