"""
What other processes of the same user may read of this one.

Tokens and keys are in its environment and its memory, and programs of agents run as the same user.
"""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_to_others() -> None:
    """
    Keep others from reading our environment, memory and open files. Only Linux has that.

    It also ends core dumps, which would hold the same secrets. Root can still read everything.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
