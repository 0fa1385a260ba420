"""What stands behind our own ports in tests: a clock that moves when told to, and short ways to make values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.model import ChatType, Entry, InboundMessage, Origin, Role, SessionSource, Text

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


class FrozenClock:
    """Stands still until it is moved."""

    def __init__(self, start: datetime = NOON) -> None:
        self.time = start

    def now(self) -> datetime:
        """Where the hands were put."""
        return self.time

    def advance(self, **amount: float) -> None:
        """Move, backwards too."""
        self.time += timedelta(**amount)


def dm(user: str = "42", *, platform: str = "telegram") -> SessionSource:
    """A direct message from one person."""
    return SessionSource(platform=platform, chat_type=ChatType.DM, chat_id=user, user_id=user, user_name=f"Ann {user}")


def message(text: str = "hello", *, id: str = "1", source: SessionSource | None = None) -> InboundMessage:  # noqa: A002
    """A plain message with the two names a platform may repeat it under."""
    source = source or dm()
    return InboundMessage(
        id=id,
        event_ids=(f"update:{source.chat_id}:{id}", f"message:{source.chat_id}:{id}"),
        source=source,
        text=text,
        sent_at=NOON,
    )


def said(role: Role, text: str, *, origin: Origin = Origin.CHAT, at: datetime = NOON) -> Entry:
    """One entry of plain text."""
    return Entry(role=role, content=(Text(text),), at=at, origin=origin)


def user(text: str) -> Entry:
    """A person's words."""
    return said(Role.USER, text)


def assistant(text: str) -> Entry:
    """The agent's words."""
    return said(Role.ASSISTANT, text)
