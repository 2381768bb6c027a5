"""What befalls the database under load: three ends of a server of our own, or the command of whoever owns another.

A server of our own keeps its promises, fsync and synchronous_commit on, and lies on a disk that survives it, as every
database has to. Each end is followed by a start on what was left.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from placet.proof.private_server import NoServer, PrivateServer, private_server

COMMAND_SECONDS = 120.0
"""How long a command may take that restarts a database."""
_SETTINGS = {"fsync": "on", "synchronous_commit": "on", "listen_addresses": "", "max_connections": "120"}


class Takedown(StrEnum):
    """What is done to a database.

    KILLED: its first process, by SIGKILL; the others end by themselves, and what was committed is found in its log.
    QUIT: an immediate shutdown, which leaves as much behind.
    RESTARTED: a fast shutdown, which ends what runs and writes everything down.
    BY_COMMAND: whatever a command does that somebody gave us.
    """

    KILLED = "database killed"
    QUIT = "database shut down at once"
    RESTARTED = "database restarted"
    BY_COMMAND = "database restarted by command"


class Database(Protocol):
    """A database that things can be done to. When `suffer` returns True, it has been done, and it serves again.

    It comes to an end: what takes too long raises NoServer.
    """

    @property
    def takedowns(self) -> tuple[Takedown, ...]: ...

    async def suffer(self, takedown: Takedown) -> bool: ...


class OwnDatabase:
    """A private server."""

    def __init__(self, server: PrivateServer) -> None:
        self._server = server
        self._ends = {
            Takedown.KILLED: server.kill,
            Takedown.QUIT: server.quit,
            Takedown.RESTARTED: server.stop,
        }

    @property
    def takedowns(self) -> tuple[Takedown, ...]:
        return tuple(self._ends)

    async def suffer(self, takedown: Takedown) -> bool:
        await asyncio.to_thread(self._ends[takedown])
        await asyncio.to_thread(self._server.start)
        return True


class CommandedDatabase:
    """Somebody else's, restarted by a command in a shell, as it was typed."""

    takedowns = (Takedown.BY_COMMAND,)

    def __init__(self, command: str, *, within_seconds: float = COMMAND_SECONDS) -> None:
        self._command = command
        self._within_seconds = within_seconds

    async def suffer(self, takedown: Takedown) -> bool:
        process = await asyncio.create_subprocess_shell(self._command, start_new_session=True)
        try:
            async with asyncio.timeout(self._within_seconds):
                return await process.wait() == 0
        except TimeoutError:
            fault = NoServer(f"the command has not come to an end in {self._within_seconds:g} s")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and whatever it has started
        raise fault


@contextmanager
def own_database(folder: Path) -> Iterator[tuple[str, OwnDatabase]]:
    """The address of a new database, and what can be done to it, for as long as the block lasts.

    Raises:
        NoServer: it cannot be had here.
    """
    with private_server(folder, settings=_SETTINGS, environment={}) as server:
        yield server.url, OwnDatabase(server)
