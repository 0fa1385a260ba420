"""Short programs for tests of whatever starts programs, and a way to know that nothing of them is left."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}

# Every process that comes of it inherits the lock, whatever it does to its group, its session and its parents.
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
    """Python with the usual modules, `say` and `wait`; holds the file `lock` in its folder for as long as it lives."""
    return [sys.executable, "-I", "-c", _LOCKED + body]


def is_gone(folder: Path) -> bool:
    """Whether no process is left of a program that worked there."""
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
