"""The store in memory: for tests and for reads that need no history. It forgets everything with its process."""

from placet.adapters.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
