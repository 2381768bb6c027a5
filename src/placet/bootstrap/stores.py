"""A place and a key to an open store.

A new store makes its key file (mode 0600); an existing store without its key is refused, and so is a key that is there
where its store is not: an empty ledger would let everything that was done be done again, so it is never made in the
place of a lost one, or of one whose address was mistyped.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from placet.adapters.clock import RandomIds, SystemClock
from placet.adapters.keys import KeyRing, create_key_file, load_key_file
from placet.adapters.stores.memory import MemoryStore
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap.addresses import MEMORY, address_here, is_address, shown_store
from placet.bootstrap.extras import how_to_install
from placet.errors import ConfigurationError, KeyMaterialError, StoreMissing, StoreNotWritable
from placet.model.identifiers import WriterId
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import Meter
from placet.ports.store import Heard, Store, nobody
from placet.rules.addresses import refuse_other_url

if TYPE_CHECKING:
    from placet.adapters.stores.postgres.connection import Address

_STARTER_LOOKS, _STARTER_PAUSE_SECONDS = 40, 0.05


def open_store(
    where: str | Path,
    *,
    key: Path | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    meter: Meter | None = None,
    heard: Heard = nobody,
) -> tuple[KeyRing, Store]:
    """A store and its keys. A new store makes its key file (mode 0600); an existing store without its key is refused.

    Raises:
        KeyMaterialError: the key is absent, exposed or another store's.
        StoreError: the store cannot be opened.
    """
    clock, ids, meter = clock or SystemClock(), ids or RandomIds(), meter or QuietMeter()
    writer = WriterId(ids.new_id("w"))
    if str(where) == MEMORY:
        keys = KeyRing.ephemeral()
        return keys, MemoryStore(keys=keys, clock=clock, writer=writer, meter=meter, heard=heard)
    refuse_other_url(where)
    if is_address(where):
        return _open_database(str(where), key, clock=clock, writer=writer, meter=meter, heard=heard)
    path = _path_of_file(where)
    keys = _keys_of_file(path, partial(_keys_for, path, key, clock))
    from placet.adapters.stores.sqlite import SqliteStore

    return keys, SqliteStore(path, keys=keys, clock=clock, writer=writer, meter=meter, heard=heard)


def _path_of_file(where: str | Path) -> Path:
    path = Path(where)
    if is_too_long(path):
        raise ConfigurationError("store= is the path of a file, and this one is longer than the file system takes.")
    if not path.name or path.is_dir():
        raise ConfigurationError(f"store= is the path of a file, not of a folder: {str(where)!r}")
    return path


def _keys_of_file(path: Path, find: Callable[[], KeyRing]) -> KeyRing:
    with suppress(PermissionError):
        return find()
    raise StoreNotWritable(f"This user may not look into the folder of the store: {path.parent}")


def is_too_long(path: Path) -> bool:
    try:
        path.exists()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def open_existing_store(where: str | Path, *, key: Path | None = None) -> tuple[KeyRing, Store]:
    """Like `open_store`, for looking at something that must be there.

    Raises:
        StoreMissing: it is not.
    """
    refuse_other_url(where)
    if not (is_made(str(where)) if is_address(where) else Path(where).exists()):
        raise missing_store(where, key)
    return open_store(where, key=key)


def is_made(database: str) -> bool:
    """Whether there is a store in the database at a URL. Nothing is made.

    Raises:
        ConfigurationError, StoreError: it cannot be looked at.
    """
    require_asyncpg()
    from placet.adapters.stores import postgres

    return postgres.is_made(postgres.address_of(database))


def require_asyncpg() -> None:
    """Raises:
    ConfigurationError: the library of the store for many hosts, which is an extra, is not installed.
    """
    if find_spec("asyncpg") is None:
        raise ConfigurationError(
            "A PostgreSQL store needs asyncpg, which is not installed.",
            code="extra_missing",
            hint=how_to_install("postgres"),
        )


def make_store(where: str | Path, *, key: Path | None = None) -> tuple[KeyRing, Store]:
    """As `open_store`, for whoever asks for a new store: under a key that is there already it is made all the same.

    Raises:
        KeyMaterialError, StoreError: it cannot be made.
    """
    clock, writer = SystemClock(), WriterId(RandomIds().new_id("w"))
    if not is_address(where):
        return _make_file(where, key, clock=clock, writer=writer)
    address, key = _address(str(where)), _named_key(str(where), key)
    from placet.adapters.stores.postgres import PostgresStore, starting

    with starting(address) as is_there:
        keys = _keys_of_made(address, key) if is_there or key.exists() else _first_keys(address, key, clock)
        return keys, PostgresStore(address, keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody)


def _make_file(where: str | Path, key: Path | None, *, clock: Clock, writer: WriterId) -> tuple[KeyRing, Store]:
    if str(where) == MEMORY:
        return open_store(where)
    refuse_other_url(where)
    path = _path_of_file(where)
    given = key or key_path(path)

    def find() -> KeyRing:
        return load_key_file(given) if given.exists() else _keys_for(path, key, clock)

    keys = _keys_of_file(path, find)
    from placet.adapters.stores.sqlite import SqliteStore

    return keys, SqliteStore(path, keys=keys, clock=clock, writer=writer, meter=QuietMeter(), heard=nobody)


def _open_database(
    where: str, key: Path | None, *, clock: Clock, writer: WriterId, meter: Meter, heard: Heard
) -> tuple[KeyRing, Store]:
    """A database has no place beside it for a key: the file is always named. A new store makes it, as a file's does."""
    address, key = _address(where), _named_key(where, key)
    from placet.adapters.stores.postgres import PostgresStore, is_made, starting

    opened = partial(PostgresStore, address, clock=clock, writer=writer, meter=meter, heard=heard)
    if is_made(address):
        keys = _keys_of_made(address, key)
        return keys, opened(keys=keys)
    with starting(address) as is_there:  # one starter at a time: key and store are made by the same one
        if is_there:
            keys = _keys_of_made(address, key)
        elif key.exists():
            raise lost_store(where, key)
        else:
            keys = _first_keys(address, key, clock)
        return keys, opened(keys=keys)


def _address(where: str) -> Address:
    require_asyncpg()
    from placet.adapters.stores.postgres import address_of

    return address_of(where)


def _named_key(where: str, key: Path | None) -> Path:
    if key is not None:
        return key
    raise ConfigurationError(
        f"A PostgreSQL store needs its key file named: {shown_store(where)}",
        hint="Say where: key= in Python, --key, PLACET_KEY or key in placet.toml; a new store makes it there.",
    )


def _keys_of_made(address: Address, key: Path) -> KeyRing:
    """Asked after the store was seen: whoever makes one makes its key first."""
    if not key.exists():
        raise KeyMaterialError(f"The store {address.shown} exists, but its key does not: {key}")
    return load_key_file(key)


def _created(key: Path, clock: Clock) -> KeyRing:
    at = None
    with suppress(Exception):  # when it was made is told if the clock can tell; a key is made in any case
        at = clock.now()
    return create_key_file(key, at=at)


def _first_keys(address: Address, key: Path, clock: Clock) -> KeyRing:
    """Made after the tables are: a key that waits for a store that nobody could make is taken for a lost store's."""
    from placet.adapters.stores.postgres import make_tables

    make_tables(address)
    return _created(key, clock)


def missing_store(where: str | Path, key: Path | None, *, make: str = "placet init --store-only") -> StoreMissing:
    """What is said where there is no store: that it is lost if its key is here, or else which command makes one.

    Raises:
        ConfigurationError: the address of a database cannot be read.
        KeyMaterialError: the key cannot be looked at.
    """
    if not is_address(where):
        key = key or key_path(Path(where))
    if key is not None and is_key_here(key):
        return lost_store(where, key)
    look = "Look at placet_schema in the store's address. " if is_address(where) else ""
    return StoreMissing(f"There is no store at {_place(where)}", hint=f"{look}Create one with: {make}")


def is_key_here(key: Path) -> bool:
    """Raises:
    KeyMaterialError: it cannot be looked at.
    """
    with suppress(OSError, ValueError):
        return key.exists()
    raise KeyMaterialError(f"The key cannot be looked at: {key}")


def lost_store(where: str | Path, key: Path) -> StoreMissing:
    """What is said where a key is, and its store is not.

    Raises:
        ConfigurationError: the address of a database cannot be read.
    """
    look = "Look at database and placet_schema in the store's address" if is_address(where) else "Look at store and key"
    return StoreMissing(
        f"The key {key} is here and its store is not: {_place(where)}",
        code="store_lost",
        hint=f"{look}, or restore the store from a backup. "
        "Only if nothing was ever done under this key: placet init --store-only --new-ledger",
    )


def _place(where: str | Path) -> str:
    if not is_address(where):
        return str(where)
    address = address_here(where)
    return f"{address.shown}, in the schema {address.schema!r}"


def key_path(store: Path) -> Path:
    """Where a store's key is looked for unless said otherwise."""
    return store.with_name(store.name + ".key")


def _keys_for(store: Path, given: Path | None, clock: Clock) -> KeyRing:
    """The keys of a store. A key whose store is not there is a lost ledger's, or the path was mistyped.

    An empty ledger would let everything that was done be done again, so it is never made in the place of another.
    """
    key = given or key_path(store)
    had_store = store.exists()  # asked first: another starter makes the key before the store
    if key.exists():
        if not had_store and not _appears(store):
            raise lost_store(store, key)
        return load_key_file(key)
    if had_store:
        raise KeyMaterialError(f"The store {store} exists, but its key does not: {key}")
    if not store.parent.is_dir():
        raise StoreMissing(f"The folder of the store does not exist: {store.parent}", hint="Make the folder first.")
    if given is not None and not os.access(store.parent, os.W_OK):  # its key would be taken for a lost store's
        raise StoreNotWritable(f"The store cannot be written: {store}")
    return _created(key, clock)


def _appears(store: Path) -> bool:
    """Whether another starter, which has made the key, makes the store within its time."""
    waiting = threading.Event()
    for _ in range(_STARTER_LOOKS):
        if store.exists():
            return True
        waiting.wait(_STARTER_PAUSE_SECONDS)
    return store.exists()
