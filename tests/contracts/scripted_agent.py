"""
What stands at the other end of the kinds that speak the contract's own events: a program, a server,
a Python object.

    python scripted_agent.py FOLDER text|jsonl

All of them play what `script.json` in the folder says, and without one say back what they were told
last.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

HANG, NEVER_END, BREAK = "hang", "never_end", "break"


def events(folder: Path, words: str) -> Iterator[dict[str, object] | str]:
    """Of one turn; the last may be one of the three words above, for what is no event."""
    file = folder / "script.json"
    script = (
        json.loads(file.read_text())
        if file.exists()
        else {"pieces": ["You said: ", words], "usage": {}}
    )
    if script.get("then") == "hang_at_once":
        yield HANG
    for text in script.get("thoughts", ()):
        yield {"type": "reasoning", "text": text}
    for number, name in enumerate(script.get("tools", ())):
        tool = {"type": "tool", "id": f"t{number}", "name": name}
        yield tool | {"status": "started", "input": {"q": 1}}
        yield tool | {"status": "done", "output": "found"}
    for text in script["pieces"]:
        yield {"type": "text", "text": text}
    yield {"type": "usage", "input": 7, "output": len(script["pieces"])} | (
        script.get("usage") or {}
    )
    if script.get("then") in (HANG, NEVER_END, BREAK):
        yield script["then"]


async def events_slowly(folder: Path, words: str) -> AsyncIterator[dict[str, object] | str]:
    """
    For those who share a loop with the test: others may work between two events, and a hang is one.
    """
    for event in events(folder, words):
        await asyncio.sleep(0)
        if event == HANG:
            await asyncio.Event().wait()
        while event == NEVER_END:
            yield {"type": "text", "text": "and "}
            await asyncio.sleep(0)
        yield event


def count_working(folder: Path) -> int:
    """How many programs run there: each holds a lock on a file of its own."""
    return sum(map(_is_held, (folder / "working").glob("*")))


def _is_held(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """Counted as one that works, until it leaves or dies."""
    (folder / "working").mkdir(exist_ok=True)
    with (folder / "working" / secrets.token_hex(8)).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(folder: Path, form: str) -> None:
    with working(folder):
        told = sys.stdin.read() if form == "text" else sys.stdin.readline()
        (folder / "told").write_text(told)
        words = told[:-1] if form == "text" else json.loads(told)["messages"][-1]["text"]
        for event in events(folder, words):
            _play(event, form)


def _play(event: dict[str, object] | str, form: str) -> None:
    if isinstance(event, dict):
        _say(event, form)
    elif event == BREAK:
        sys.exit(3)
    while event == HANG:
        time.sleep(60)
    while event == NEVER_END:
        _say({"type": "text", "text": "and "}, form)


def _say(event: dict[str, object], form: str) -> None:
    if form == "jsonl":
        print(json.dumps(event), flush=True)
    elif event["type"] == "text":
        print(event["text"], end="", flush=True)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), sys.argv[2])
