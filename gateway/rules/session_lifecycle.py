"""
When a session is reset, and what its successor inherits. Pure: stores call it inside their
transaction.

Three times: started, last interaction (only a user's message moves it), updated (any change).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.session import (
    EndReason,
    ResetNotice,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.domain.text import cut
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Spent,
)

_AUTOMATIC = (EndReason.IDLE, EndReason.DAILY)
_PREVIEW_LENGTH = 120
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicies:
    """The reset policies; a more specific one replaces a less specific one as a whole."""

    default: ResetPolicy = ResetPolicy()
    by_chat_type: Mapping[ChatType, ResetPolicy] = field(default_factory=dict)
    by_platform: Mapping[str, ResetPolicy] = field(default_factory=dict)

    def for_source(self, source: SessionSource) -> ResetPolicy:
        """Return the platform's policy, else the chat type's, else the default."""
        return self.for_kind(source.platform, source.chat_type)

    def for_kind(self, platform: str, chat_type: ChatType) -> ResetPolicy:
        """Return the policy for a platform's chats of one type."""
        if platform in self.by_platform:
            return self.by_platform[platform]
        return self.by_chat_type.get(chat_type, self.default)

    @property
    def all(self) -> tuple[ResetPolicy, ...]:
        """Return every policy that applies somewhere."""
        return (self.default, *self.by_chat_type.values(), *self.by_platform.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDecision:
    """Which session a key has from now on, and the one it replaced."""

    session: Session
    is_new: bool
    ended: Session | None = None


def open_session(
    current: Session | None,
    opening: Opening,
    *,
    now: datetime,
    fresh_id: Callable[[], SessionId],
    is_busy: Callable[[SessionId], bool] | None = None,
) -> OpenDecision:
    """
    Keep the current session, or end it if its reset is due and start the next one.

    A store that knows of more work than the opening passes its own `is_busy`.
    """
    if current is None:
        return OpenDecision(session=_first_session(opening, now, fresh_id()), is_new=True)

    # One that the sweep has ended stays the key's current session until a message replaces it.
    if current.end_reason is None:
        reason = reset_due(current, opening.policy, now, is_busy or opening.is_busy)
        if reason is None:
            return OpenDecision(session=current, is_new=False)
        current = end_session(current, reason, now)

    return OpenDecision(
        session=next_session(current, now=now, fresh_id=fresh_id()),
        is_new=True,
        ended=replace(current, current=False),
    )


def reset_due(
    session: Session,
    policy: ResetPolicy,
    now: datetime,
    is_busy: Callable[[SessionId], bool] | None = None,
) -> EndReason | None:
    """
    Return why a session must be reset now, or None. Idle is checked first; running work prevents
    any reset.
    """
    reason = _reason(session.last_interaction_at, policy, now)
    if reason is None or _may_be_busy(session.id, is_busy):
        return None

    return reason


def due_before(policy: ResetPolicy, now: datetime) -> datetime | None:
    """Return the time before which a last interaction makes a session due; None if it never is."""
    # The rule of `_reason`, as a bound that an index can be searched with: keep the two alike. One
    # due reset is enough, so the later bound decides.
    moments = []
    if policy.idle_after is not None:
        moments.append(now - policy.idle_after)
    if policy.daily_at is not None:
        moments.append(last_daily_reset(now, policy.daily_at, policy.zone))
    return max(moments, default=None)


def _reason(last_interaction: datetime, policy: ResetPolicy, now: datetime) -> EndReason | None:
    if policy.idle_after is not None and now - last_interaction > policy.idle_after:
        return EndReason.IDLE
    if policy.daily_at is not None and last_interaction < last_daily_reset(
        now, policy.daily_at, policy.zone
    ):
        return EndReason.DAILY
    return None


def _may_be_busy(session: SessionId, is_busy: Callable[[SessionId], bool] | None) -> bool:
    """Treat a failed check as busy: losing a running session is worse than a late reset."""
    if is_busy is None:
        return False
    try:
        return is_busy(session)
    # The caller's code; whatever it raises, the safe answer is the same.
    except BaseException:  # noqa: BLE001
        return True


def last_daily_reset(now: datetime, daily_at: time, zone: str) -> datetime:
    """Return the most recent instant, at or before now, at which a local day reached `daily_at`."""
    tz = ZoneInfo(zone)
    # Tomorrow's reset may be past already: clocks set back at 00:01 (St. John's, 2010-11-07) return
    # to the day before.
    day = now.astimezone(tz).date() + timedelta(days=1)
    while True:
        moment = daily_reset_on(day, daily_at, tz)
        if moment is not None and moment <= now:
            return moment
        day -= timedelta(days=1)


@lru_cache(maxsize=1024)
def daily_reset_on(day: date, daily_at: time, tz: ZoneInfo) -> datetime | None:
    """
    Return the reset instant of a local day, or None for a day that never was (Apia, 2011-12-30).

    A time that occurs twice counts the first time. A skipped time counts at the same distance after
    the gap, or before it if that would be the next day.
    """
    # fold=0: the first of two equal local times.
    wanted = datetime.combine(day, daily_at.replace(tzinfo=None, fold=0))
    moment = wanted.replace(tzinfo=tz).astimezone(UTC)
    # A skipped local time comes back from UTC moved by the size of the gap; others come back equal.
    gap = moment.astimezone(tz).replace(tzinfo=None) - wanted
    if moment.astimezone(tz).date() != day:
        moment -= gap

    return moment if moment.astimezone(tz).date() == day else None


def end_session(session: Session, reason: EndReason, now: datetime) -> Session:
    """
    Return the session as ended, never before its last change. Its key points at it until the next
    one replaces it.
    """
    # The wall clock may have been set back: an end before the last change is a negative age.
    moment = _later(session.updated_at, now)
    return replace(session, ended_at=moment, end_reason=reason, updated_at=moment)


def next_session(
    previous: Session, *, now: datetime, fresh_id: SessionId, title: str | None = None
) -> Session:
    """
    Return a new session under the same key: origin, owner and display name survive, the history
    does not.
    """
    # Users who reset or switched know why the session is new; only an automatic reset is explained.
    notice = None
    if previous.end_reason in _AUTOMATIC:
        notice = ResetNotice(
            reason=previous.end_reason,
            had_activity=previous.had_activity,
            previous=previous.id,
            commands_only=previous.had_activity and not previous.has_talk,
        )

    return Session(
        id=fresh_id,
        key=previous.key,
        origin=previous.origin,
        owner=previous.owner,
        started_at=now,
        last_interaction_at=now,
        updated_at=now,
        title=title,
        notice=notice,
    )


def resumed(session: Session, now: datetime) -> Session:
    """
    Return an earlier session as current. Resuming counts as an interaction, or an idle policy would
    end it at once.
    """
    return replace(
        session,
        ended_at=None,
        end_reason=None,
        archived=False,
        current=True,
        last_interaction_at=_later(session.last_interaction_at, now),
        updated_at=_later(session.updated_at, now),
    )


def interacted(session: Session, entries: Sequence[Entry], now: datetime) -> Session:
    """
    Record messages of a user. A clock that jumped back changes nothing, so no age is ever negative.
    """
    preview, preview_by = _preview_with(session, entries)
    return replace(
        session,
        # Whoever goes on talking in an archived session wants to see it.
        archived=False,
        last_interaction_at=_later(session.last_interaction_at, now),
        updated_at=_later(session.updated_at, now),
        messages=session.messages + len(entries),
        preview=preview,
        preview_by=preview_by,
    )


def answered(
    session: Session, entries: Sequence[Entry], now: datetime, spent: Spent, *, told: bool
) -> Session:
    """
    Record output of the agent, a command or a delivery: not an interaction. `told`: the reset
    notice was shown.
    """
    preview, preview_by = _preview_with(session, entries)
    return replace(
        session,
        updated_at=_later(session.updated_at, now),
        messages=session.messages + len(entries),
        preview=preview,
        preview_by=preview_by,
        notice=None if told else session.notice,
        tokens=session.tokens + spent.tokens,
        tokens_estimated=session.tokens_estimated or spent.estimated,
        # A turn without a model call has no prompt: the size of the last one stays.
        last_prompt_tokens=spent.prompt_tokens or session.last_prompt_tokens,
        cost=_sum(session.cost, spent.cost),
        model=spent.model or session.model,
    )


def preview_of(entries: Iterable[Entry]) -> tuple[str, Role | None]:
    """
    Return the first message of a user, else of the assistant, on one line of at most 120
    characters.
    """
    first_answer: tuple[str, Role | None] = ("", None)
    for entry in entries:
        if entry.origin in (Origin.COMMAND, Origin.SUMMARY) or entry.role not in (
            Role.USER,
            Role.ASSISTANT,
        ):
            continue

        # Cut before splitting: a message may have a million characters.
        line = " ".join(entry.text[: 8 * _PREVIEW_LENGTH].split())
        if line and entry.role is Role.USER:
            return _shortened(line), Role.USER
        if line and not first_answer[0]:
            first_answer = _shortened(line), Role.ASSISTANT

    return first_answer


def _preview_with(session: Session, entries: Sequence[Entry]) -> tuple[str, Role | None]:
    # The first text of a user is final; one of the assistant only fills in until then.
    if session.preview_by is Role.USER:
        return session.preview, session.preview_by
    line, role = preview_of(entries)
    if role is Role.USER or session.preview_by is None:
        return line, role
    return session.preview, session.preview_by


def _shortened(line: str) -> str:
    return cut(line, _PREVIEW_LENGTH)


def _sum(one: Cost | None, other: Cost | None) -> Cost | None:
    """Add costs; an invalid number must not spoil the sum."""
    if other is not None and not math.isfinite(other.usd):
        other = replace(other, usd=0.0, status=CostStatus.PARTIAL)
    total = one + other if one and other else one or other
    if total is not None and not math.isfinite(total.usd):  # two finite amounts can overflow
        return one
    return total


def _first_session(opening: Opening, now: datetime, fresh_id: SessionId) -> Session:
    return Session(
        id=fresh_id,
        key=opening.key,
        origin=opening.source,
        owner=opening.owner,
        started_at=now,
        last_interaction_at=now,
        updated_at=now,
    )


def _later(one: datetime, other: datetime) -> datetime:
    return one if one > other else other


def touched(session: Session, now: datetime) -> Session:
    """Record a change that is not an interaction."""
    return replace(session, updated_at=_later(session.updated_at, now))
