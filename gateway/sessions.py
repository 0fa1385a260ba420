"""
When a conversation starts anew, and what its next session inherits. Pure: stores call it inside their transaction.

Three clocks: started, last interaction (only a person's message moves it), updated (any change).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.model import ChatType, EndReason, ResetNotice, ResetPolicy, Session, SessionId, SessionSource
from gateway.ports import Opening

_AUTOMATIC = (EndReason.IDLE, EndReason.DAILY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicies:
    """The policies of an installation; the more specific one replaces the whole of the less specific."""

    default: ResetPolicy = ResetPolicy()
    by_chat_type: Mapping[ChatType, ResetPolicy] = field(default_factory=dict)
    by_platform: Mapping[str, ResetPolicy] = field(default_factory=dict)

    def for_source(self, source: SessionSource) -> ResetPolicy:
        """The platform's, else the chat type's, else the default."""
        if source.platform in self.by_platform:
            return self.by_platform[source.platform]
        return self.by_chat_type.get(source.chat_type, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which session a key has from now on, and the one that ended to make room for it, if it ended just now."""

    session: Session
    is_new: bool
    ended: Session | None = None


def open_session(current: Session | None, opening: Opening, *, now: datetime, fresh_id: SessionId) -> Decision:
    """Keep the current session, or end it if its reset is due and start the next one."""
    if current is None:
        return Decision(session=_first_session(opening, now, fresh_id), is_new=True)
    if current.end_reason is not None:
        return Decision(session=next_session(current, now=now, fresh_id=fresh_id), is_new=True)
    reason = reset_due(current, opening.policy, now, opening.is_busy)
    if reason is None:
        return Decision(session=current, is_new=False)
    ended = end_session(current, reason, now)
    return Decision(session=next_session(ended, now=now, fresh_id=fresh_id), is_new=True, ended=ended)


def reset_due(
    session: Session, policy: ResetPolicy, now: datetime, is_busy: Callable[[SessionId], bool] | None = None
) -> EndReason | None:
    """Why this session must start anew now, or None. Idle is looked at first; running work holds everything back."""
    reason = _reason(session.last_interaction_at, policy, now)
    if reason is None or _may_be_busy(session.id, is_busy):
        return None
    return reason


def _reason(last_interaction: datetime, policy: ResetPolicy, now: datetime) -> EndReason | None:
    if policy.idle_after is not None and now - last_interaction > policy.idle_after:
        return EndReason.IDLE
    if policy.daily_at is not None and last_interaction < last_daily_reset(now, policy.daily_at, policy.zone):
        return EndReason.DAILY
    return None


def _may_be_busy(session: SessionId, is_busy: Callable[[SessionId], bool] | None) -> bool:
    """A check that fails counts as busy: losing a running conversation is worse than a late reset."""
    if is_busy is None:
        return False
    try:
        return is_busy(session)
    except Exception:  # noqa: BLE001 - the caller's code; whatever it raises, the safe answer is the same
        return True


def last_daily_reset(now: datetime, daily_at: time, zone: str) -> datetime:
    """The most recent instant, at or before now, at which a local day reached `daily_at`."""
    tz = ZoneInfo(zone)
    day = now.astimezone(tz).date()
    while True:
        moment = daily_reset_on(day, daily_at, tz)
        if moment is not None and moment <= now:
            return moment
        day -= timedelta(days=1)


def daily_reset_on(day: date, daily_at: time, tz: ZoneInfo) -> datetime | None:
    """
    The one instant of that local day, or None for a day that never was (Apia, 2011-12-30).

    A time that comes twice counts the first time. A time that is skipped counts at the same distance after the gap, or,
    when that would already be the next day, before it.
    """
    wanted = datetime.combine(day, daily_at.replace(tzinfo=None, fold=0))
    moment = wanted.replace(tzinfo=tz).astimezone(UTC)
    gap = moment.astimezone(tz).replace(tzinfo=None) - wanted
    if moment.astimezone(tz).date() != day:
        moment -= gap
    return moment if moment.astimezone(tz).date() == day else None


def end_session(session: Session, reason: EndReason, now: datetime) -> Session:
    """The session, ended and no longer what its key points at."""
    return replace(session, ended_at=now, end_reason=reason, updated_at=_later(session.updated_at, now), current=False)


def next_session(previous: Session, *, now: datetime, fresh_id: SessionId, title: str | None = None) -> Session:
    """A fresh session under the same key: origin, owner and display name survive, the talk does not."""
    notice = None
    if previous.end_reason in _AUTOMATIC:
        notice = ResetNotice(reason=previous.end_reason, had_activity=previous.had_activity, previous=previous.id)
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
    """An earlier session, current again. Asking for it is an interaction, or an idle policy would end it at once."""
    return replace(
        session,
        ended_at=None,
        end_reason=None,
        archived=False,
        current=True,
        last_interaction_at=_later(session.last_interaction_at, now),
        updated_at=_later(session.updated_at, now),
    )


def interacted(session: Session, now: datetime) -> Session:
    """A person wrote. A clock that jumped back moves nothing, so no age is ever negative."""
    return replace(
        session,
        last_interaction_at=_later(session.last_interaction_at, now),
        updated_at=_later(session.updated_at, now),
    )


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
