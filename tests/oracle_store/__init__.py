"""
A store that forgets: every promise of the port but durability, and the yardstick for the stores
that keep it.
"""

from tests.oracle_store.store import LIVE_ENTRIES, MemoryStore

__all__ = ["LIVE_ENTRIES", "MemoryStore"]
