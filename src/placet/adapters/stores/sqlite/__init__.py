"""The embedded store: one SQLite file in WAL mode with `synchronous=FULL`; several processes may share it."""

from placet.adapters.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
