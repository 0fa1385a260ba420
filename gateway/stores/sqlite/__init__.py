"""The SQLite store: durable, shared commits, nothing that grows with use."""

from gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
