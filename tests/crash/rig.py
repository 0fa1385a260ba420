"""
A platform and a daemon in processes of their own, and a judge who sees only what people and
operators see.

The judge reads the platform's log and the command line, never the database.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests import zygote
from tests.commands import turngate
from tests.crash.daemon import DISCORD, PERSON, PERSON_ON_SLACK, PERSON_ON_TELEGRAM, SLACK, TELEGRAM
from tests.crash.power import Power
from turngate.gateway.daemon.control.client import ControlClient

PATIENCE = 60.0
REPEAT = "(possible repeat"
# How a preview ends. One that nothing took the place of is half an answer.
UNFINISHED = " …"
# What a person hears instead of an answer.
NOTICES = ("cut off each time", "I was interrupted", "Something went wrong here")

# Slack tries again within minutes, and here within seconds. Then an event is gone.
SLACK_IN_A_HURRY = {"retries": [0.0, 1.0, 5.0]}

_TOKEN = re.compile(r"\btok\d+\b")


@dataclass
class Verdict:
    """What became of what people said."""

    said: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    marked: int = 0
    noticed: int = 0

    @property
    def is_clean(self) -> bool:
        """Nothing lost, nothing twice."""
        return not self.lost and not self.twice


class Rig:
    """Inside its `with` block the platform runs; the daemon comes and goes."""

    def __init__(
        self,
        folder: Path,
        *,
        kind: str = "finding",
        idle: float | None = None,
        with_power: bool = False,
        agent: dict[str, object] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.state = folder / "state"
        self.state.mkdir(mode=0o700, exist_ok=True)
        self._kind = kind
        self._idle = idle
        self._agent = agent or {}
        self._environment = environment or {}
        self.power = Power(self.state, folder) if with_power else None
        self.log = folder / "daemon.log"
        self._errors = self.log.open("ab")
        self._platform: subprocess.Popen[str] | None = None
        self._daemon: subprocess.Popen[str] | None = None
        self._url = ""
        self._counted = 0
        self._numbers: dict[str, int] = {}
        self.said: list[str] = []
        self.seconds_to_ready: list[float] = []

    def __enter__(self) -> Rig:
        module = self._kind if self._kind in (TELEGRAM, SLACK, DISCORD) else "scripted"
        command = [sys.executable, "-m", f"tests.simulators.{module}"]
        if self._kind == "catching-up":
            command.append("--lossy")
        self._platform = zygote.Forked(command, stdout=subprocess.PIPE, text=True)
        assert self._platform.stdout is not None
        self._url = self._platform.stdout.readline().strip()
        if self._kind == SLACK:
            self._call("/_control/server", SLACK_IN_A_HURRY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        for process in (self._daemon, self._platform):
            if process is not None:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
        self._errors.close()

    def start(self, crash: str | None = None) -> bool:
        """Whether it got ready; a daemon that is to die on its way does not."""
        command = [sys.executable, "-m", "tests.crash.daemon", "--state-dir", str(self.state)]
        command += ["--platform", self._url, "--kind", self._kind]
        command += ["--agent", json.dumps(self._agent)]
        command += ["--crash", crash] if crash else []
        command += ["--idle", str(self._idle)] if self._idle is not None else []
        environment = {
            **os.environ,
            **self._environment,
            **(self.power.environment if self.power else {}),
        }
        began = time.monotonic()
        self._daemon = zygote.Forked(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )
        assert self._daemon.stdout is not None
        is_ready = self._daemon.stdout.readline() == "ready\n"
        if is_ready:
            self.seconds_to_ready.append(time.monotonic() - began)
        return is_ready

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Ends the daemon; returns how it ended."""
        assert self._daemon is not None
        self._daemon.send_signal(how)
        return self.ended()

    def tell_as_systemd_does(self) -> None:
        """The daemon was killed from outside: its unit leaves that for the next start."""
        (self.state / "exit-status").write_text("signal killed KILL\n")

    def ended(self) -> int:
        """How the daemon ended, once it has."""
        assert self._daemon is not None
        assert self._daemon.stdout is not None
        status = self._daemon.wait(timeout=PATIENCE)
        self._daemon.stdout.close()
        if self.power is not None and status == -signal.SIGKILL:
            self.power.come_back()
        return status

    @property
    def pid(self) -> int:
        """Of the daemon."""
        assert self._daemon is not None
        return self._daemon.pid

    def wait_for_store(self, words: str | None) -> str:
        """
        Until `status` says so of the store; None: until it says that the store is well. The whole
        reason.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            store = self.ask_quickly("status")["store"]
            if store["ok"] if words is None else words in (store["reason"] or ""):
                return store["reason"] or ""
            time.sleep(0.1)
        raise AssertionError(f"the store was never told to be {words or 'well'}, but {store}")

    def unacknowledged(self) -> set[str]:
        """What the platform would hand out again."""
        updates = self._call("/_control/updates", {})
        assert isinstance(updates, list)
        kept = [update["text"] for update in updates if not update["acknowledged"]]
        return {token for text in kept for token in _TOKEN.findall(text)}

    def has_died(self) -> bool:
        """Whether the daemon is gone."""
        return self._daemon is None or self._daemon.poll() is not None

    def say(self, chat: str, text: str = "") -> str:
        """A person writes something that no other message says."""
        self._counted += 1
        token = f"tok{self._counted}"
        where = self._where(chat)
        call = where.pop("call", "")
        self._call("/_control/say", {**where, "text": f"{call}{token} {text}".strip()})
        self.said.append(token)
        return token

    def _where(self, chat: str) -> dict[str, object]:
        """
        Telegram knows chats by numbers; at Slack every other one is a channel, where answers grow
        in threads.
        """
        number = self._numbers.setdefault(chat, 7000 + len(self._numbers))
        if self._kind == TELEGRAM:
            return {"chat": str(number), "user": PERSON_ON_TELEGRAM}
        if self._kind == SLACK:
            in_channel = bool(number % 2)
            return {
                "chat": f"{'C' if in_channel else 'D'}{number}",
                "user": PERSON_ON_SLACK,
                "mention": in_channel,
            }
        if self._kind == DISCORD:
            return self._on_discord(number)
        return {"chat": chat, "user": PERSON}

    def _on_discord(self, number: int) -> dict[str, object]:
        """
        Every other one is a channel, where the bot must be called; anybody has one direct chat with
        it at most.
        """
        name, in_channel = f"7{number}", bool(number % 2)
        if in_channel:
            self._call("/_control/open", {"chat": name, "kind": "text"})
        return {"chat": name, "user": name, "call": "<@7001> " if in_channel else ""}

    def heal(self) -> None:
        """Nothing goes wrong any more on the platform's side."""
        self._call("/_control/faults", method="DELETE")

    def lose_an_answer(self) -> None:
        """
        The next message arrives and its sender does not hear of it; the same with the next edit.
        """
        self.heal()
        self.break_next(
            *({"kind": "lost answer", "match": {"does": does}} for does in ("send", "edit"))
        )

    def break_next(self, *faults: dict[str, object]) -> None:
        """What goes wrong on the platform's side."""
        self._call("/_control/faults", list(faults))

    def settle(self) -> bool:
        """
        Wait until everything that was said has been answered, or has a notice, and nothing is on
        its way.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not self.has_died():
            if not self.verdict().lost and self._is_idle():
                return True
            time.sleep(0.1)
        return False

    def verdict(self) -> Verdict:
        """From the platform's log and, for what was given up, from the command line."""
        verdict, noticed = Verdict(said=len(self.said)), False
        answers, marked, halves = Counter[str](), Counter[str](), Counter[str]()
        for message in self._call("/_control/messages", {}):
            text = message["text"]
            noticed = noticed or any(words in text for words in NOTICES)
            is_half = text.endswith(UNFINISHED) or (message.get("stream") or {}).get("open")
            counts = halves if is_half else marked if text.startswith(REPEAT) else answers
            counts.update(set(_TOKEN.findall(text)))
        for token in self.said:
            verdict.marked += marked[token]
            if answers[token] > 1 or (answers[token] and halves[token]):
                verdict.twice.append(token)
            elif not answers[token] and not marked[token]:
                verdict.lost.append(token)
        if noticed and verdict.lost:
            dead = self._given_up()
            verdict.noticed = sum(token in dead for token in verdict.lost)
            verdict.lost = [token for token in verdict.lost if token not in dead]
        return verdict

    def _given_up(self) -> set[str]:
        """
        What was said in messages that the command line shows as dead letters; a notice told their
        chat.
        """
        rows = [row["id"] for row in self.queue()["inbox"] if row["state"] in ("dead", "failed")]
        return {
            token
            for row in rows
            for token in _TOKEN.findall(self._ask("queue", "show", row)["text"])
        }

    def queue(self) -> dict[str, list[dict[str, object]]]:
        """What `turngate queue list --json` says."""
        return self._ask("queue", "list")

    def status(self) -> dict[str, object]:
        """What `turngate status --json` says."""
        # Its exit status says whether the daemon is ready, which is not a failure here.
        asked = turngate(self.state, "status", "--json")
        return json.loads(asked.stdout)

    def _is_idle(self) -> bool:
        waiting = [
            row
            for rows in self.queue().values()
            for row in rows
            if row["state"] not in ("dead", "failed")
        ]
        return not waiting

    def _ask(self, *words: str) -> dict[str, object]:
        asked = turngate(self.state, *words, "--json")
        asked.check_returncode()
        return json.loads(asked.stdout)

    def ask_quickly(self, do: str) -> dict[str, Any]:
        """What the command line would, for those who ask again and again."""
        with ControlClient.connect(self.state / "control.sock") as daemon:
            return daemon.ask(do, {}, lambda item: None)

    def _call(self, path: str, body: object = None, *, method: str | None = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        address = self._url + path
        request = urllib.request.Request(address, data=data, method=method)  # noqa: S310 - our platform, on loopback
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
            return json.load(response)
