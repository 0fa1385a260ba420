"""Ask what an adapter or an agent can do beyond its port."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeGuard, TypeVar

T = TypeVar("T")


def can(whom: object, capability: type[T]) -> TypeGuard[T]:
    """
    Return whether an object has a capability, cached: it is asked in every turn and does not
    change. The object must be hashable.
    """
    protocol: object = capability
    return _can(whom, protocol)


@lru_cache(maxsize=1024)
def _can(whom: object, capability: object) -> bool:
    # Python 3.11 checks every member of a protocol at each isinstance: a tenth of the cost of a
    # turn. Cached by object, not by class: agents in Python get their methods per instance.
    return isinstance(capability, type) and isinstance(whom, capability)
