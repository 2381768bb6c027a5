"""A server's socket, seen through a wire that a test cuts: before a statement passes, behind it, or with its answer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from placet.adapters.stores.postgres.connection import Address
from tests.places import for_sockets
from tests.postgres.fixtures import Database

_QUIET_TURNS = 20
"""Of the loop, after which nothing that was let in is still to be served."""


class Wire:
    """Forwards bytes both ways. Each way of cutting waits for the next message that holds its mark.

    Attributes:
        cut_before: the message does not pass.
        cut_behind: it passes, and the server is still at work when the wire is gone.
        cut_after: it passes and the server has answered, which nobody hears.
        hold: it is held back while its caller sees the wire cut, and passes just before the next message with the mark.
    """

    def __init__(self, database: Database, path: Path) -> None:
        assert database.server is not None
        self._server = str(database.server.root / ".s.PGSQL.5432")
        self.path = path
        self.cut_before: bytes | None = None
        self.cut_behind: bytes | None = None
        self.cut_after: bytes | None = None
        self.hold: bytes | None = None
        self._held: tuple[bytes, bytes, asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.late_answer = b""
        self.is_down = False
        self.stays_down = False
        self.cuts = 0
        self.connections = 0
        self.refused = 0
        self._listening: Any = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Wire:
        self._listening = await asyncio.start_unix_server(self._accept, str(self.path / ".s.PGSQL.5432"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for (
            listening
        ) in self._listening.sockets:  # lets nobody in; closed at once it would forget whom it has just let in
            asyncio.get_running_loop().remove_reader(listening.fileno())
        quiet_turns = 0
        while quiet_turns < _QUIET_TURNS:  # what was let in right before begins to be served some turns later
            quiet_turns = 0 if self._serving else quiet_turns + 1
            for task in self._serving:
                task.cancel()
            if self._serving:
                await asyncio.wait(self._serving)
            await asyncio.sleep(0)  # transports that were aborted say goodbye to the loop
        self._listening.close()
        shutil.rmtree(self.path)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()  # also of one that was cancelled, or found no server, before it was passed on
            self._serving.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            self.refused += 1
            writer.transport.abort()
            return
        self.connections += 1
        up_reader, up_writer = await asyncio.open_unix_connection(self._server)
        answers = asyncio.ensure_future(_forward(up_reader, writer))
        try:
            await self._pass_on(reader, up_reader, up_writer, answers)
        finally:
            answers.cancel()
            writer.transport.abort()
            if self._held is None or self._held[3] is not up_writer:
                up_writer.transport.abort()
            await asyncio.gather(answers, return_exceptions=True)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
        answers: asyncio.Task[None],
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                if self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    self._cut()
                    break
                if self.hold is not None and self.hold in data:
                    self._held, self.hold = (self.hold, data, up_reader, up_writer), None
                    self._cut()
                    return
                await self._let_pass_what_was_held(data)
                is_behind = self.cut_behind is not None and self.cut_behind in data
                is_last = self.cut_after is not None and self.cut_after in data
                if is_last:
                    answers.cancel()  # from here on the caller hears nothing
                up_writer.write(data)
                await up_writer.drain()
                if is_behind:
                    self.cut_behind = None
                    self._cut()
                    break
                if is_last:
                    self.cut_after = None
                    self._cut()
                    await up_reader.read(1 << 20)  # the server has answered, so it has committed or refused
                    break

    def _cut(self) -> None:
        self.cuts += 1
        self.is_down = self.stays_down

    async def _let_pass_what_was_held(self, data: bytes) -> None:
        if self._held is None or self._held[0] not in data:
            return
        _, late, reader, writer = self._held
        self._held = None
        writer.write(late)
        await writer.drain()
        self.late_answer = await reader.read(1 << 20)
        writer.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


def a_wire(database: Database) -> Wire:
    return Wire(database, Path(tempfile.mkdtemp(prefix="plw-", dir=for_sockets())))


def through(wire: Wire, database: Database, *, patience_seconds: float = 10.0) -> Address:
    straight = database.address()
    assert database.server is not None
    return Address(
        url=straight.url.replace(str(database.server.root), str(wire.path)),
        shown=straight.shown,
        patience_seconds=patience_seconds,
    )
