"""The SQLite store: durable, shared commits, nothing that grows with use."""

from turngate.gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
