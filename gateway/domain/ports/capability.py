"""Ask what an adapter or an agent can do beyond its port."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeGuard, TypeVar

T = TypeVar("T")


def can(whom: object, capability: type[T]) -> TypeGuard[T]:
    """
    Return whether an object has a capability. Cached by class: asked with every turn, and never
    changes.
    """
    protocol: object = capability
    return _can(whom, protocol)


@lru_cache(maxsize=1024)
def _can(whom: object, capability: object) -> bool:
    # Python 3.11 looks at every member of a protocol each time: that was a tenth of what a turn
    # costs.
    return isinstance(capability, type) and isinstance(whom, capability)
