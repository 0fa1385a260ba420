"""
Which of the agent's sessions belongs to which of ours, and how much of it the agent knows.

Stored in the session's folder, so that it survives a restart and is deleted with the session. The
agent can write there, too: everything read is checked, and at worst a new session is opened.
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
# The agent may have put a symbolic link or a FIFO there: neither is to be followed or waited for.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """
    A session that the agent holds, as of its last turn.

    The transcript then ended at entry `through`, and `asked` messages were sent. `system` and
    `context` are digests of the prompts it knows. `cost` is its total for the session, in USD.
    """

    session: str
    through: int = 0
    asked: int = 0
    system: str = ""
    context: str = ""
    cost: float = 0.0


class SessionMap:
    """The file of one agent in the folder of one session; without a folder nothing is kept."""

    def __init__(self, workdir: str | None, agent: str) -> None:
        self._file = (
            None if workdir is None else Path(workdir, f".acp-session-{quote(agent, safe='')}")
        )

    def recall(self) -> Held | None:
        """Read the file. None if it is missing or invalid."""
        if self._file is None:
            return None
        try:
            with os.fdopen(os.open(self._file, _READ), "rb") as file:
                return from_dict(Held, json.loads(file.read(_LONGEST)))
        except (OSError, ValueError, RecursionError, MalformedRecord):
            return None

    def keep(self, held: Held) -> None:
        """Replace the file atomically. A failure is ignored: the agent then gets history again."""
        if self._file is None:
            return

        # A random name, so that the agent cannot put a link there beforehand.
        draft = self._file.with_name(f"{self._file.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, _WRITE, 0o600), "w") as file:
                json.dump(to_dict(held), file)
            draft.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def forget(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


def is_rewound(held: Held, history: Sequence[Entry]) -> bool:
    """Return whether messages that the agent knows were removed from the transcript."""
    # The last turn added at least its messages after `through`: without any, it was undone.
    return last_seq(history) <= held.through


def last_seq(history: Sequence[Entry]) -> int:
    """Return the number of the last entry; 0 without entries."""
    return max((entry.seq for entry in history), default=0)


def unheard(held: Held, history: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries since its last turn that it does not know: turns of others, deliveries."""
    missed: list[Entry] = []
    asked = 0

    for entry in history:
        if entry.seq <= held.through or entry.origin is Origin.SUMMARY:
            continue
        # The first `asked` messages and what follows them are its own last turn.
        asked += entry.role is Role.USER and entry.origin is Origin.CHAT
        if asked > held.asked or entry.origin is Origin.DELIVERY:
            missed.append(entry)

    return tuple(missed)
