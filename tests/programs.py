"""
Short programs for tests of whatever starts programs, and a way to know that nothing of them is
left.
"""

from __future__ import annotations

import fcntl
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes import NOON, assistant, dm, message, user
from turngate.gateway.domain.agent_events import AgentEvent, Turn
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.session import (
    EndReason,
    Session,
    SessionEnded,
)
from turngate.gateway.domain.transcript import Text

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}

# Every process that comes of it inherits the lock, whatever it does to its group, its session and
# its parents.
_LOCKED = """
import fcntl, os, signal, sys, time
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)
def say(words="ready"):
    print(words, flush=True)
def wait():
    while True:
        time.sleep(60)
"""


def program(body: str) -> list[str]:
    """
    Python with the usual modules, `say` and `wait`; holds the file `lock` in its folder for as long
    as it lives.
    """
    return [sys.executable, "-I", "-c", _LOCKED + body]


def is_gone(folder: Path) -> bool:
    """Whether no process is left of a program that worked there."""
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def turn_in(folder: Path, text: str = "hello") -> Turn:
    """One message, in a session whose folder that is."""
    session = Session(
        id=SessionId("s1"),
        key=SessionKey("k"),
        origin=dm(),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
    )
    return Turn(
        id=TurnId(7), session=session, source=dm(), messages=(message(text),), workdir=str(folder)
    )


ENDING = SessionEnded(
    id=SessionId("s1"),
    reason=EndReason.IDLE,
    source=dm(),
    started_at=NOON,
    ended_at=NOON,
    title="Milk",
    history=(user("remember the milk"), assistant("I will")),
)


@dataclass
class Heard:
    """What came of a turn, and why it ended early, if it did."""

    events: list[AgentEvent] = field(default_factory=list)
    failure: AgentError | None = None

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(event.text for event in self.events if isinstance(event, Text))


async def heard(agent: Agent, turn: Turn) -> Heard:
    """The whole turn, with what was said before it failed."""
    whole = Heard()
    try:
        async for event in agent.run(turn):
            whole.events.append(event)
    except AgentError as exc:
        whole.failure = exc
    return whole
