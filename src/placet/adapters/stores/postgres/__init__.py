"""The store for many hosts: one PostgreSQL database; needs the extra `postgres`."""

from placet.adapters.stores.postgres.connection import address_of
from placet.adapters.stores.postgres.starting import is_made, make_tables, starting
from placet.adapters.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "address_of", "is_made", "make_tables", "starting"]
