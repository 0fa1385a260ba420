"""
Which of the agent's sessions stands for which of ours, and what it has heard of it.

Kept in the folder of the conversation, so that it outlives the daemon and goes with the
conversation. The agent works there, too, and may write what it likes: whatever is read here is
checked, and at worst a new session is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)

_LONGEST = 10_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """
    A session that the agent holds.

    When it was last asked, the transcript reached `through`, and it got `asked` messages. `system`
    and `context` are digests of what it was told of itself and of the place. `cost` is what the
    session had cost by then, as it counts.
    """

    session: str
    through: int = 0
    asked: int = 0
    system: str = ""
    context: str = ""
    cost: float = 0.0


class SessionMap:
    """
    What is remembered of one agent in the folder of one conversation; without a folder, nothing.
    """

    def __init__(self, workdir: str | None, agent: str) -> None:
        self._file = (
            None if workdir is None else Path(workdir, f".acp-session-{quote(agent, safe='')}")
        )

    def recall(self) -> Held | None:
        """None if there is nothing, or nothing that makes sense."""
        if self._file is None:
            return None
        try:
            with os.fdopen(os.open(self._file, _READ), "rb") as file:
                return from_dict(Held, json.loads(file.read(_LONGEST)))
        except (OSError, ValueError, RecursionError, MalformedRecord):
            return None

    def keep(self, held: Held) -> None:
        """
        Replaces what was there, all or nothing. Where nothing can be written, the next daemon
        begins anew.
        """
        if self._file is None:
            return

        draft = self._file.with_name(f"{self._file.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, _WRITE, 0o600), "w") as file:
                json.dump(to_dict(held), file)
            draft.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def forget(self) -> None:
        """The session is of no use any more."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


def is_rewound(held: Held, history: Sequence[Entry]) -> bool:
    """
    Whether what the agent was last asked has been taken back: it remembers what is no longer so.
    """
    return last_seq(history) <= held.through


def last_seq(history: Sequence[Entry]) -> int:
    """How far a transcript reaches."""
    return max((entry.seq for entry in history), default=0)


def unheard(held: Held, history: Sequence[Entry]) -> tuple[Entry, ...]:
    """
    What was said since it was last asked and not by it or to it: by another agent, or on a
    schedule.
    """
    missed: list[Entry] = []
    asked = 0

    for entry in history:
        if entry.seq <= held.through or entry.origin is Origin.SUMMARY:
            continue
        asked += entry.role is Role.USER and entry.origin is Origin.CHAT
        if asked > held.asked or entry.origin is Origin.DELIVERY:
            missed.append(entry)

    return tuple(missed)
