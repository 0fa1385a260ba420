"""The SQLite store: durable, with shared commits and bounded memory."""

from turngate.gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
