"""When a conversation starts anew by itself, and what its next session inherits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.fakes import NOON, assistant, dm, said, user
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.session import (
    EndReason,
    ResetNotice,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.domain.transcript import Origin, Role
from turngate.gateway.domain.usage import (
    Cost,
    Spent,
    Tokens,
)
from turngate.gateway.rules.session_lifecycle import (
    ResetPolicies,
    answered,
    daily_reset_on,
    end_session,
    interacted,
    last_daily_reset,
    next_session,
    open_session,
    preview_of,
    reset_due,
    resumed,
)

KEY = SessionKey("agent:main:telegram:dm:42")
FRESH = SessionId("fresh")
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

NEVER = ResetPolicy()
IDLE = ResetPolicy(idle_after=HOUR)
DAILY = ResetPolicy(daily_at=time(4), zone="UTC")
BOTH = ResetPolicy(idle_after=HOUR, daily_at=time(4), zone="UTC")


def a_session(*, last: datetime = NOON) -> Session:
    return Session(
        id=SessionId("old"),
        key=KEY,
        origin=dm(),
        started_at=last,
        last_interaction_at=last,
        updated_at=last,
    )


def opening(policy: ResetPolicy = NEVER) -> Opening:
    return Opening(key=KEY, source=dm(), owner="telegram:42", policy=policy)


def local(zone: str, *moment: int, fold: int = 0) -> datetime:
    """An instant by a wall clock; `fold=1` is the second time the clock shows it."""
    return datetime(*moment, tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def resets(zone: str, daily_at: time, moments: list[datetime]) -> list[bool]:
    """For each moment at which a person writes, whether that message finds a new session."""
    policy = ResetPolicy(daily_at=daily_at, zone=zone)
    session = a_session(last=moments[0])
    found = []
    for moment in moments[1:]:
        decision = open_session(session, opening(policy), now=moment, fresh_id=lambda: FRESH)
        found.append(decision.is_new)
        session = interacted(decision.session, [], moment)
    return found


def test_idle_is_not_due_at_exactly_the_idle_time() -> None:
    assert reset_due(a_session(), IDLE, NOON + HOUR) is None


def test_idle_is_due_strictly_after_the_idle_time() -> None:
    assert reset_due(a_session(), IDLE, NOON + HOUR + timedelta(microseconds=1)) is EndReason.IDLE


def test_idle_counts_from_the_last_interaction_and_not_from_the_start_or_the_last_update() -> None:
    written_later = replace(a_session(), last_interaction_at=NOON + HOUR)
    touched_later = replace(a_session(), updated_at=NOON + DAY)

    assert reset_due(written_later, IDLE, NOON + 2 * HOUR) is None
    assert reset_due(touched_later, IDLE, NOON + 2 * HOUR) is EndReason.IDLE


def test_an_idle_time_of_zero_is_a_policy_and_not_the_lack_of_one() -> None:
    policy = ResetPolicy(idle_after=timedelta(0))

    assert reset_due(a_session(), policy, NOON) is None
    assert reset_due(a_session(), policy, NOON + SECOND) is EndReason.IDLE


def test_daily_is_due_when_the_last_interaction_is_before_the_most_recent_daily_time() -> None:
    four = datetime(2026, 5, 5, 4, 0, tzinfo=UTC)

    assert reset_due(a_session(last=four - SECOND), DAILY, four) is EndReason.DAILY


def test_daily_is_not_due_before_the_daily_time() -> None:
    four = datetime(2026, 5, 5, 4, 0, tzinfo=UTC)

    assert reset_due(a_session(last=four - HOUR), DAILY, four - SECOND) is None


def test_daily_is_not_due_for_an_interaction_at_exactly_the_daily_time() -> None:
    four = datetime(2026, 5, 5, 4, 0, tzinfo=UTC)

    assert reset_due(a_session(last=four), DAILY, four + 23 * HOUR) is None


def test_daily_at_midnight_is_a_policy_and_not_the_lack_of_one() -> None:
    policy = ResetPolicy(daily_at=time(0, 0))

    assert reset_due(a_session(), policy, NOON + 12 * HOUR) is EndReason.DAILY


def test_daily_goes_by_the_clock_of_the_configured_zone() -> None:
    tokyo = ResetPolicy(daily_at=time(4), zone="Asia/Tokyo")
    session = a_session(last=local("Asia/Tokyo", 2026, 5, 5, 3, 59))

    assert reset_due(session, tokyo, local("Asia/Tokyo", 2026, 5, 5, 3, 59)) is None
    assert reset_due(session, tokyo, local("Asia/Tokyo", 2026, 5, 5, 4, 0)) is EndReason.DAILY


def test_with_both_set_idle_is_reported_first() -> None:
    assert reset_due(a_session(), BOTH, NOON + DAY) is EndReason.IDLE


def test_with_both_set_daily_is_due_when_idle_is_not() -> None:
    four = datetime(2026, 5, 5, 4, 0, tzinfo=UTC)

    assert reset_due(a_session(last=four - MINUTE), BOTH, four + MINUTE) is EndReason.DAILY


def test_with_both_set_neither_is_due_soon_after_a_message() -> None:
    assert reset_due(a_session(), BOTH, NOON + MINUTE) is None


def test_with_neither_set_a_reset_is_never_due() -> None:
    assert reset_due(a_session(), NEVER, NOON + 100 * 365 * DAY) is None


def test_the_policy_of_the_platform_goes_before_that_of_the_chat_type() -> None:
    policies = ResetPolicies(
        by_platform={"telegram": IDLE}, by_chat_type={ChatType.DM: DAILY}, default=BOTH
    )

    assert policies.for_source(dm(platform="telegram")) == IDLE


def test_the_policy_of_the_chat_type_goes_before_the_default() -> None:
    policies = ResetPolicies(
        by_platform={"slack": IDLE}, by_chat_type={ChatType.DM: DAILY}, default=BOTH
    )

    assert policies.for_source(dm(platform="telegram")) == DAILY


def test_the_default_policy_is_for_everything_else() -> None:
    policies = ResetPolicies(
        by_platform={"slack": IDLE}, by_chat_type={ChatType.GROUP: DAILY}, default=BOTH
    )

    assert policies.for_source(dm(platform="telegram")) == BOTH


def test_a_more_specific_policy_replaces_the_whole_of_a_less_specific_one() -> None:
    policies = ResetPolicies(by_platform={"telegram": IDLE}, default=DAILY)

    policy = policies.for_source(dm(platform="telegram"))

    assert policy.daily_at is None


@pytest.mark.parametrize(
    "policies",
    [
        ResetPolicies(
            by_platform={"telegram": NEVER}, by_chat_type={ChatType.DM: IDLE}, default=BOTH
        ),
        ResetPolicies(by_chat_type={ChatType.DM: NEVER}, default=BOTH),
    ],
    ids=["of the platform", "of the chat type"],
)
def test_an_empty_specific_policy_means_never(policies: ResetPolicies) -> None:
    policy = policies.for_source(dm(platform="telegram"))

    assert reset_due(a_session(), policy, NOON + 365 * DAY) is None


def test_without_any_policy_a_reset_is_never_due() -> None:
    assert ResetPolicies().for_source(dm()) == NEVER


@pytest.mark.parametrize("policy", [IDLE, DAILY, BOTH], ids=["idle", "daily", "both"])
def test_running_work_blocks_a_reset(policy: ResetPolicy) -> None:
    assert reset_due(a_session(), policy, NOON + DAY, lambda _: True) is None


@pytest.mark.parametrize("policy", [IDLE, DAILY, BOTH], ids=["idle", "daily", "both"])
def test_a_failing_check_for_work_blocks_a_reset(policy: ResetPolicy) -> None:
    def fails(_: SessionId) -> bool:
        raise OSError("cannot tell")

    assert reset_due(a_session(), policy, NOON + DAY, fails) is None


def test_a_check_that_finds_no_work_holds_nothing_back() -> None:
    assert reset_due(a_session(), IDLE, NOON + DAY, lambda _: False) is EndReason.IDLE


def test_the_check_for_work_is_about_this_session() -> None:
    assert reset_due(a_session(), IDLE, NOON + DAY, lambda asked: asked == "old") is None
    assert (
        reset_due(a_session(), IDLE, NOON + DAY, lambda asked: asked == "another") is EndReason.IDLE
    )


def test_a_message_to_a_busy_session_stays_in_it() -> None:
    session = a_session()
    busy = replace(opening(IDLE), is_busy=lambda _: True)

    decision = open_session(session, busy, now=NOON + DAY, fresh_id=lambda: FRESH)

    assert (decision.session, decision.is_new, decision.ended) == (session, False, None)


def test_a_store_that_knows_of_more_work_than_the_opening_holds_the_reset_back() -> None:
    free = replace(opening(IDLE), is_busy=lambda _: False)

    decision = open_session(
        a_session(),
        free,
        now=NOON + DAY,
        fresh_id=lambda: FRESH,
        is_busy=lambda asked: asked == "old",
    )

    assert not decision.is_new


def test_a_first_message_starts_all_three_clocks() -> None:
    session = open_session(None, opening(), now=NOON, fresh_id=lambda: FRESH).session

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON,
        NOON,
        NOON,
    )


def test_a_persons_message_moves_last_interaction_and_updated_and_not_started() -> None:
    session = interacted(a_session(), [], NOON + HOUR)

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON,
        NOON + HOUR,
        NOON + HOUR,
    )


def test_what_the_agent_a_command_or_a_schedule_says_moves_updated_only() -> None:
    session = answered(a_session(), [assistant("done")], NOON + HOUR, Spent(), told=False)

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON,
        NOON,
        NOON + HOUR,
    )


def test_an_idle_session_is_not_kept_alive_by_what_the_agent_says() -> None:
    session = answered(a_session(), [assistant("good morning")], NOON + HOUR, Spent(), told=False)

    assert reset_due(session, IDLE, NOON + HOUR + SECOND) is EndReason.IDLE


def test_opening_a_session_that_is_not_due_moves_no_clock() -> None:
    session = a_session()

    assert (
        open_session(session, opening(IDLE), now=NOON + MINUTE, fresh_id=lambda: FRESH).session
        == session
    )


def test_an_end_moves_updated_only() -> None:
    session = end_session(a_session(), EndReason.IDLE, NOON + HOUR)

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON,
        NOON,
        NOON + HOUR,
    )


def test_the_next_session_starts_all_three_clocks_anew() -> None:
    ended = end_session(a_session(), EndReason.IDLE, NOON + HOUR)

    session = next_session(ended, now=NOON + DAY, fresh_id=FRESH)

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON + DAY,
    ) * 3


def test_a_resumed_session_was_interacted_with_and_keeps_its_start() -> None:
    ended = end_session(a_session(), EndReason.IDLE, NOON + HOUR)

    session = resumed(ended, NOON + DAY)

    assert (session.started_at, session.last_interaction_at, session.updated_at) == (
        NOON,
        NOON + DAY,
        NOON + DAY,
    )


def test_a_resumed_session_is_not_reset_at_once_by_an_idle_policy() -> None:
    session = resumed(end_session(a_session(), EndReason.IDLE, NOON + 2 * HOUR), NOON + DAY)

    assert reset_due(session, IDLE, NOON + DAY + MINUTE) is None


def test_a_resumed_session_is_current_and_no_longer_ended_or_archived() -> None:
    put_away = replace(end_session(a_session(), EndReason.SWITCH, NOON + HOUR), archived=True)

    session = resumed(put_away, NOON + DAY)

    assert (session.current, session.archived, session.ended_at, session.end_reason) == (
        True,
        False,
        None,
        None,
    )


def test_new_york_2026_03_08_has_no_0230_and_resets_once_all_the_same() -> None:
    zone = "America/New_York"
    moments = [
        local(zone, 2026, 3, 8, *clock)
        for clock in [(1, 59), (3, 0), (3, 29), (3, 30), (3, 31), (12, 0)]
    ]

    assert resets(zone, time(2, 30), moments) == [False, False, True, False, False]


def test_the_skipped_time_counts_at_the_same_distance_after_the_gap() -> None:
    moment = daily_reset_on(date(2026, 3, 8), time(2, 30), ZoneInfo("America/New_York"))

    assert moment == local("America/New_York", 2026, 3, 8, 3, 30)


def test_new_york_2026_11_01_has_0130_twice_and_resets_the_first_time_only() -> None:
    zone = "America/New_York"
    first = [local(zone, 2026, 11, 1, 1, minute) for minute in (29, 30, 31)]
    second = [local(zone, 2026, 11, 1, 1, minute, fold=1) for minute in (29, 30, 31)]

    assert resets(zone, time(1, 30), first + second) == [True, False, False, False, False]


def test_someone_who_writes_only_after_the_second_0130_is_reset_once() -> None:
    zone = "America/New_York"
    moments = [
        local(zone, 2026, 10, 31, 22, 0),
        *(local(zone, 2026, 11, 1, 1, minute, fold=1) for minute in (29, 31)),
    ]

    assert resets(zone, time(1, 30), moments) == [True, False]


def test_apia_had_no_2011_12_30_so_that_day_has_no_reset() -> None:
    assert daily_reset_on(date(2011, 12, 30), time(4), ZoneInfo("Pacific/Apia")) is None


def test_apia_resets_on_the_days_around_the_missing_one() -> None:
    zone = "Pacific/Apia"
    before = local(zone, 2011, 12, 29, 4, 0)
    after = local(zone, 2011, 12, 31, 4, 0)

    assert after - before == DAY
    assert last_daily_reset(after, time(4), zone) == after
    assert last_daily_reset(after - SECOND, time(4), zone) == before


def test_lord_howe_skips_half_an_hour_and_resets_once() -> None:
    zone = "Australia/Lord_Howe"
    moments = [
        local(zone, 2026, 10, 4, *clock) for clock in [(1, 59), (2, 30), (2, 44), (2, 45), (2, 46)]
    ]

    assert resets(zone, time(2, 15), moments) == [False, False, True, False]


def test_lord_howe_repeats_half_an_hour_and_resets_once() -> None:
    zone = "Australia/Lord_Howe"
    first = [local(zone, 2026, 4, 5, 1, minute) for minute in (44, 45, 46)]
    second = [local(zone, 2026, 4, 5, 1, minute, fold=1) for minute in (44, 45, 46)]

    assert resets(zone, time(1, 45), first + second) == [True, False, False, False, False]


def test_a_skipped_time_whose_distance_after_the_gap_is_tomorrow_counts_before_the_gap() -> None:
    nuuk = ZoneInfo("America/Nuuk")

    moment = daily_reset_on(date(2026, 3, 28), time(23, 45), nuuk)

    assert moment == local("America/Nuuk", 2026, 3, 28, 22, 45)


def test_a_day_that_begins_twice_resets_when_it_first_begins() -> None:
    zone = "America/St_Johns"
    before = local(zone, 2010, 11, 6, 23, 50)
    again = [local(zone, 2010, 11, 6, 23, minute, fold=1) for minute in (2, 50)]
    after = local(zone, 2010, 11, 7, 0, 10)

    assert resets(zone, time(0, 0), [before, *again, after]) == [True, False, False]


def test_the_most_recent_daily_time_stays_when_the_calendar_goes_back_a_day() -> None:
    zone = "Antarctica/Casey"
    first = local(zone, 2010, 3, 5, 1, 30)

    assert local(zone, 2010, 3, 4, 23, 30, fold=1) > first
    assert last_daily_reset(local(zone, 2010, 3, 4, 23, 30, fold=1), time(1, 30), zone) == first


@pytest.mark.parametrize("policy", [IDLE, DAILY, BOTH], ids=["idle", "daily", "both"])
@pytest.mark.parametrize("jump", [SECOND, HOUR, DAY, 400 * DAY], ids=str)
def test_a_clock_jumping_backwards_resets_nothing(policy: ResetPolicy, jump: timedelta) -> None:
    assert reset_due(a_session(), policy, NOON - jump) is None


def test_a_clock_jumping_backwards_moves_no_clock_of_a_session() -> None:
    assert interacted(a_session(), [], NOON - DAY) == a_session()


def test_a_clock_jumping_backwards_and_forwards_again_resets_nothing() -> None:
    session = interacted(a_session(), [], NOON - DAY)

    assert reset_due(session, BOTH, NOON + MINUTE) is None


def test_a_session_ended_after_a_backward_jump_has_no_negative_age() -> None:
    session = end_session(interacted(a_session(), [], NOON + HOUR), EndReason.RESET, NOON - DAY)

    assert session.ended_at == session.updated_at == session.last_interaction_at == NOON + HOUR


def test_a_session_resumed_after_a_backward_jump_has_no_negative_age() -> None:
    session = resumed(end_session(a_session(), EndReason.SWITCH, NOON + HOUR), NOON - DAY)

    assert session.started_at <= session.last_interaction_at <= session.updated_at


def test_a_first_message_makes_a_session() -> None:
    decision = open_session(None, opening(), now=NOON, fresh_id=lambda: FRESH)

    assert (decision.session.id, decision.is_new, decision.ended) == (FRESH, True, None)
    assert (decision.session.key, decision.session.origin, decision.session.owner) == (
        KEY,
        dm(),
        "telegram:42",
    )


def test_a_first_session_has_no_notice() -> None:
    assert (
        open_session(None, opening(BOTH), now=NOON, fresh_id=lambda: FRESH).session.notice is None
    )


def test_a_message_before_the_reset_is_due_stays_in_the_session() -> None:
    decision = open_session(a_session(), opening(BOTH), now=NOON + MINUTE, fresh_id=lambda: FRESH)

    assert (decision.session, decision.is_new, decision.ended) == (a_session(), False, None)


@pytest.mark.parametrize(
    ("policy", "reason"), [(IDLE, EndReason.IDLE), (DAILY, EndReason.DAILY), (BOTH, EndReason.IDLE)]
)
def test_a_reset_that_fell_due_while_the_daemon_was_down_happens_at_the_next_message(
    policy: ResetPolicy, reason: EndReason
) -> None:
    back = NOON + 10 * DAY

    decision = open_session(a_session(), opening(policy), now=back, fresh_id=lambda: FRESH)

    assert (decision.session.id, decision.session.started_at, decision.is_new) == (
        FRESH,
        back,
        True,
    )
    assert decision.ended == replace(
        a_session(), ended_at=back, end_reason=reason, updated_at=back, current=False
    )


def test_days_without_a_message_cost_one_reset_and_not_one_each() -> None:
    decision = open_session(
        a_session(), opening(DAILY), now=NOON + 10 * DAY, fresh_id=lambda: FRESH
    )

    assert reset_due(decision.session, DAILY, NOON + 10 * DAY + MINUTE) is None


def test_an_ended_session_says_when_and_why() -> None:
    ended = end_session(a_session(), EndReason.DAILY, NOON + HOUR)

    assert (ended.ended_at, ended.end_reason) == (NOON + HOUR, EndReason.DAILY)


def test_an_ended_session_is_current_until_the_next_one_takes_its_place() -> None:
    swept = end_session(a_session(), EndReason.IDLE, NOON + 2 * HOUR)

    decision = open_session(swept, opening(IDLE), now=NOON + DAY, fresh_id=lambda: FRESH)

    assert swept.current
    assert decision.session.current
    assert decision.ended == replace(swept, current=False)


@pytest.mark.parametrize("reason", [EndReason.IDLE, EndReason.DAILY])
def test_a_session_that_the_sweep_ended_gives_a_new_one_with_a_notice(reason: EndReason) -> None:
    swept = end_session(replace(a_session(), messages=2, preview="hi"), reason, NOON + 2 * HOUR)

    decision = open_session(swept, opening(NEVER), now=NOON + DAY, fresh_id=lambda: FRESH)

    assert (decision.session.id, decision.is_new) == (FRESH, True)
    assert decision.session.notice == ResetNotice(
        reason=reason, had_activity=True, previous=SessionId("old")
    )


def test_a_session_that_the_sweep_ended_keeps_the_time_and_the_reason_of_its_end() -> None:
    swept = end_session(a_session(), EndReason.DAILY, NOON + 2 * HOUR)

    decision = open_session(swept, opening(IDLE), now=NOON + DAY, fresh_id=lambda: FRESH)

    assert decision.ended == replace(swept, current=False)


@pytest.mark.parametrize(
    ("policy", "reason"), [(IDLE, EndReason.IDLE), (DAILY, EndReason.DAILY)], ids=["idle", "daily"]
)
def test_the_notice_says_why_the_session_before_ended_and_which_it_was(
    policy: ResetPolicy, reason: EndReason
) -> None:
    session = open_session(
        a_session(), opening(policy), now=NOON + DAY, fresh_id=lambda: FRESH
    ).session

    assert session.notice == ResetNotice(
        reason=reason, had_activity=False, previous=SessionId("old")
    )


def test_commands_alone_were_activity_but_leave_no_way_back() -> None:
    used = replace(a_session(), messages=2)

    notice = open_session(
        used, opening(IDLE), now=NOON + DAY, fresh_id=lambda: FRESH
    ).session.notice

    assert notice is not None
    assert (notice.had_activity, notice.is_way_back) == (True, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": 1},
        {"archived_through": 1},
        {"tokens": Tokens(input=1)},
        {"tokens": Tokens(output=1)},
        {"tokens": Tokens(cache_read=1)},
        {"tokens": Tokens(cache_write=1)},
    ],
    ids=str,
)
def test_any_entry_or_any_token_was_activity(changes: dict[str, object]) -> None:
    used = replace(a_session(), preview="hi", **changes)

    notice = open_session(
        used, opening(IDLE), now=NOON + DAY, fresh_id=lambda: FRESH
    ).session.notice

    assert notice == ResetNotice(
        reason=EndReason.IDLE, had_activity=True, previous=SessionId("old")
    )


@pytest.mark.parametrize("reason", [EndReason.RESET, EndReason.SWITCH, EndReason.DELETED])
def test_a_reset_that_somebody_asked_for_has_no_notice(reason: EndReason) -> None:
    ended = end_session(replace(a_session(), messages=2), reason, NOON + HOUR)

    assert next_session(ended, now=NOON + HOUR, fresh_id=FRESH).notice is None


def test_the_notice_is_about_the_last_session_and_not_about_the_one_before_that() -> None:
    second = open_session(
        a_session(), opening(IDLE), now=NOON + DAY, fresh_id=lambda: SessionId("second")
    ).session

    third = open_session(
        second, opening(IDLE), now=NOON + 2 * DAY, fresh_id=lambda: SessionId("third")
    ).session

    assert third.notice == ResetNotice(
        reason=EndReason.IDLE, had_activity=False, previous=SessionId("second")
    )


def test_the_notice_stays_until_it_was_told() -> None:
    notice = ResetNotice(reason=EndReason.IDLE, had_activity=True, previous=SessionId("older"))
    session = replace(a_session(), notice=notice)

    assert interacted(session, [user("hi")], NOON).notice == notice
    assert answered(session, [], NOON, Spent(), told=False).notice == notice
    assert answered(session, [], NOON, Spent(), told=True).notice is None


def test_key_origin_and_owner_survive_a_reset() -> None:
    origin = SessionSource(
        platform="telegram", chat_type=ChatType.GROUP, chat_id="-100", chat_name="Ops"
    )
    session = replace(a_session(), origin=origin, owner="telegram:42")

    fresh = next_session(end_session(session, EndReason.IDLE, NOON), now=NOON, fresh_id=FRESH)

    assert (fresh.key, fresh.origin, fresh.owner) == (KEY, origin, "telegram:42")


def test_the_origin_of_a_key_survives_a_message_from_somebody_else() -> None:
    elsewhere = replace(opening(IDLE), source=dm("7"), owner="telegram:7")

    session = open_session(
        replace(a_session(), owner="telegram:42"), elsewhere, now=NOON + DAY, fresh_id=lambda: FRESH
    ).session

    assert (session.origin, session.owner) == (dm(), "telegram:42")


def test_a_title_does_not_survive_a_reset() -> None:
    titled = replace(a_session(), title="Taxes")

    assert (
        open_session(titled, opening(IDLE), now=NOON + DAY, fresh_id=lambda: FRESH).session.title
        is None
    )


def test_a_title_can_be_given_to_the_next_session() -> None:
    ended = end_session(replace(a_session(), title="Taxes"), EndReason.RESET, NOON)

    assert next_session(ended, now=NOON, fresh_id=FRESH, title="Holidays").title == "Holidays"


def test_nothing_of_the_talk_survives_a_reset() -> None:
    full = replace(
        a_session(),
        preview="hello",
        goal="finish",
        agent="coder",
        archived=True,
        important=True,
        messages=9,
        archived_through=3,
        consolidated_through=5,
        tokens=Tokens(input=7),
        last_prompt_tokens=7,
        cost=Cost(usd=1.0),
    )

    fresh = next_session(end_session(full, EndReason.RESET, NOON), now=NOON, fresh_id=FRESH)

    assert fresh == replace(a_session(), id=FRESH)


def test_entries_of_both_sides_are_counted_and_what_was_spent_adds_up() -> None:
    asked = interacted(a_session(), [user("hi"), user("there")], NOON)
    spent = Spent(tokens=Tokens(input=5, output=2), prompt_tokens=5, cost=Cost(usd=0.25))

    once = answered(asked, [assistant("hello")], NOON, spent, told=False)
    twice = answered(once, [assistant("again")], NOON, spent, told=False)

    assert (once.messages, once.tokens, once.cost) == (3, Tokens(input=5, output=2), Cost(usd=0.25))
    assert (twice.messages, twice.tokens, twice.cost) == (
        4,
        Tokens(input=10, output=4),
        Cost(usd=0.5),
    )


def test_the_last_prompt_does_not_add_up_and_is_kept_by_a_turn_without_one() -> None:
    first = answered(a_session(), [], NOON, Spent(prompt_tokens=5), told=False)
    second = answered(first, [], NOON, Spent(prompt_tokens=7), told=False)

    assert (first.last_prompt_tokens, second.last_prompt_tokens) == (5, 7)
    assert answered(second, [], NOON, Spent(), told=False).last_prompt_tokens == 7


def test_a_preview_is_the_first_thing_a_user_said() -> None:
    session = interacted(a_session(), [user("first"), user("second")], NOON)

    assert interacted(session, [user("third")], NOON).preview == "first"


def test_a_preview_of_an_answer_gives_way_to_the_first_thing_a_user_said() -> None:
    greeted = answered(a_session(), [assistant("good morning")], NOON, Spent(), told=False)

    assert (greeted.preview, greeted.preview_by) == ("good morning", Role.ASSISTANT)
    assert interacted(greeted, [user("hi")], NOON).preview == "hi"


def test_a_preview_skips_commands_and_entries_without_words() -> None:
    entries = [
        said(Role.USER, "/help", origin=Origin.COMMAND),
        said(Role.TOOL, "42"),
        user(" \n "),
        user("hi"),
    ]

    assert preview_of(entries) == ("hi", Role.USER)


def test_a_preview_is_one_line_of_at_most_120_characters() -> None:
    line, _ = preview_of([user("a\n b\t" + "c" * 500)])

    assert line == "a b " + "c" * 115 + "…"


def test_a_preview_of_nothing_is_empty() -> None:
    assert preview_of([]) == ("", None)
