"""Ways to kill a daemon, each with a verdict."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.crash.agents import POISON, answering
from tests.crash.daemon import DISCORD, SLACK
from tests.crash.rig import PATIENCE, Rig, Verdict
from turngate.gateway.domain.crashpoints import POINTS

# The adapter's own: before the platform is told, and after.
ALL_POINTS = (*POINTS[:2], "acking", "acked", *POINTS[2:])
# Not every platform comes there.
KIND_OF = {"catching-up": "catching-up", "preview-sending": "editing", "preview-sent": "editing"}
STORM, POISONED = "storm", "poison"
AT_THE_END = ("drain", "checkpoint")
AFTER_A_PAUSE = ("reset", "between-parts", "session-ended")
# Whoever can be asked whether a message arrived says no word twice, whatever gets lost.
LOSES_ANSWERS = (SLACK, DISCORD)
# Whoever never listened there has no past there.
TELLS_ONLY_LISTENERS = (DISCORD,)
# Seconds. The first three each end while the turns of the first messages run again.
LIVES_IN_A_STORM = (1.0, 1.0, 2.6, 0.5, 0.5, 0.5, 0.5, 0.5)
# One while it runs beside others, and three while it runs alone.
MOST_CRASHES_OF_POISON = 6
IDLE = 0.6
CHATS = 5


@dataclass
class Outcome:
    """What one way of killing did."""

    point: str
    kills: int
    verdict: Verdict
    seconds_to_ready: float
    reached: bool = True
    given_up: int = 0
    platform: str | None = None

    @property
    def row(self) -> str:
        """Its row in the table."""
        return self.point if self.platform is None else f"{self.point}, {self.platform}"

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing twice, and only what had to be given up."""
        is_expected = self.point not in (STORM, POISONED) or self.verdict.noticed == self.given_up
        return self.verdict.is_clean and is_expected


def kill_at(folder: Path, point: str, nth: int, *, kind: str | None = None) -> Outcome:
    """Kill the daemon the nth time it reaches a point, start it again, and see what people got."""
    kind = kind or KIND_OF.get(point, "finding")
    with Rig(folder, kind=kind, idle=IDLE if point in AFTER_A_PAUSE else None) as rig:
        crash = f"{point}:{nth}"
        if point == "catching-up":
            _go_away(rig)
        was_ready = rig.start(crash)
        if was_ready:
            _provoke(rig, point, nth)
        reached = rig.ended() == -signal.SIGKILL
        if was_ready or kind not in TELLS_ONLY_LISTENERS:
            rig.say("late", "after the crash")
        rig.start()
        rig.say("late", "after the return")
        rig.settle()
        return Outcome(point, 1, rig.verdict(), rig.seconds_to_ready[-1], reached)


def _go_away(rig: Rig) -> None:
    """There was a time before, and people wrote since."""
    rig.start()
    rig.say("a", "before")
    rig.settle()
    rig.kill()
    for number in range(5):
        rig.say("a", f"while it was away {number}")


def _provoke(rig: Rig, point: str, nth: int) -> None:
    """Talk until the point is reached."""
    for number in range(nth + 2):
        rig.say("a", f"message {number}")
        rig.say("b", "and words, " * 20)
        if point in AFTER_A_PAUSE:
            _wait(rig, IDLE * 2)
    if point in AT_THE_END:
        rig.settle()
        for number in range(3):
            rig.say("a", f"on the way out {number}")
        rig.kill(signal.SIGTERM)
        return
    deadline = time.monotonic() + PATIENCE
    while not rig.has_died() and time.monotonic() < deadline:
        rig.say("c", "once more")
        _wait(rig, IDLE * 2 if point in AFTER_A_PAUSE else 0.3)
    if not rig.has_died():
        rig.kill(signal.SIGTERM)


def kill_at_random(
    folder: Path, kills: int, *, kind: str = "finding", with_power: bool = False, seed: int = 0
) -> Outcome:
    """Kill it again and again while people talk."""
    chance = random.Random(seed)
    with Rig(folder, kind=kind, with_power=with_power) as rig:
        for _ in range(kills):
            rig.start()
            if kind in LOSES_ANSWERS:
                rig.lose_an_answer()
            _talk(rig, chance, chance.uniform(0.05, 1.2))
            rig.kill()
            # Half of them look like crashes, after which turns run one at a time and with pauses.
            if chance.random() < 0.5:
                rig.tell_as_systemd_does()
        rig.heal()
        rig.start()
        rig.settle()
        times = sorted(rig.seconds_to_ready)
        return Outcome(
            "power cut" if with_power else "random", kills, rig.verdict(), times[len(times) // 2]
        )


def storm(folder: Path, *, kind: str = "finding") -> Outcome:
    """Kill it eight times within about ten seconds while twelve chats talk."""
    with Rig(folder, kind=kind, agent=answering(seconds=1.0)) as rig:
        for number, seconds in enumerate(LIVES_IN_A_STORM):
            rig.start()
            for chat in range(12):
                rig.say(f"chat{chat}", f"storm {number}")
            _wait(rig, seconds)
            rig.kill()
        rig.start()
        rig.settle()
        kills = len(LIVES_IN_A_STORM)
        return Outcome(STORM, kills, rig.verdict(), max(rig.seconds_to_ready))


def poison(folder: Path, *, kind: str = "finding") -> Outcome:
    """One message of eleven chats kills the daemon whenever its turn runs."""
    crashes = 0
    with Rig(folder, kind=kind, agent=answering(seconds=0.3)) as rig:
        rig.start()
        for chat in range(10):
            rig.say(f"chat{chat}", "before")
        rig.say("poisoned", POISON)
        for chat in range(10):
            rig.say(f"chat{chat}", "after")
        while crashes < MOST_CRASHES_OF_POISON and not rig.settle():
            crashes += 1
            rig.ended()
            rig.start()
        return Outcome(POISONED, crashes, rig.verdict(), max(rig.seconds_to_ready), given_up=1)


def _talk(rig: Rig, chance: random.Random, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rig.say(f"chat{chance.randrange(CHATS)}", "word " * chance.randrange(12))
        time.sleep(min(chance.uniform(0.01, 0.15), max(end - time.monotonic(), 0)))


def _wait(rig: Rig, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not rig.has_died():
        time.sleep(0.02)
