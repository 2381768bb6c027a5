"""Where scratch stores are kept, and what somebody with a database client may do to them without the key.

Each scenario has stores of its own: in files of a temporary folder, or in schemas of the database that the project's
store is kept in. They are of the project's kind, and none of them is the project's.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Protocol

import apsw

from placet.bootstrap.records import verify_audit
from placet.bootstrap.scratch import ScratchDatabase
from placet.bootstrap.stores import key_path, open_existing_store
from placet.rules.chain_check import ChainReport


class Scratch(Protocol):
    """Scratch stores by name.

    Attributes:
        folder: a temporary folder, for whatever else a scenario writes.
    """

    folder: Path

    async def place(self, name: str) -> str | Path:
        """Where a gate opens the store; made on the first mention, where it has to be."""
        ...

    def key(self, name: str) -> Path: ...

    async def changed(self, name: str, *statements: str) -> None:
        """Change a closed store by hand, past every trigger that might stand in the way of history."""
        ...

    async def texts(self, name: str) -> bytes:
        """Everything that lies in a closed store."""
        ...

    async def later(self, seconds: float) -> None:
        """Move the clock of the stores, where they have one of their own."""
        ...

    async def end(self) -> None:
        """Drop what was made; nothing of it is left."""
        ...


class ScratchFiles:
    """SQLite files in the folder, which whoever made it removes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def place(self, name: str) -> Path:
        return self._path(name)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def key(self, name: str) -> Path:
        return key_path(self._path(name))

    async def changed(self, name: str, *statements: str) -> None:
        connection = apsw.Connection(str(self._path(name)))
        try:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('audit_events', 'audit_heads')"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{trigger}"')
            for statement in statements:
                connection.execute(statement)
        finally:
            connection.close()

    async def texts(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    async def later(self, seconds: float) -> None:
        """Their clock is the gate's."""

    async def end(self) -> None: ...


class ScratchSchemas:
    """Schemas in the database at a URL."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._database = ScratchDatabase(url, label=secrets.token_hex(4))

    async def place(self, name: str) -> str:
        if name not in self._database.made:
            return await self._database.make(name, self.key(name))
        return self._database.url_of(name)

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    async def changed(self, name: str, *statements: str) -> None:
        await self._database.change(name, *statements)

    async def texts(self, name: str) -> bytes:
        return await self._database.texts(name)

    async def later(self, seconds: float) -> None:
        await self._database.later(seconds)

    async def end(self) -> None:
        await self._database.drop()


async def audit_of(scratch: Scratch, name: str) -> ChainReport:
    """The whole audit of a closed scratch store, held against its chains."""
    keys, opened = open_existing_store(await scratch.place(name), key=scratch.key(name))
    try:
        return await verify_audit(opened, keys)
    finally:
        await opened.close()
