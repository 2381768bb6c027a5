"""MCP over standard input and output: one message a line, one client, whose principal the deployment names.

Standard output carries nothing else: while this lasts, descriptor 1 is standard error's, for handlers and whatever they
start. A line is bounded before anything reads it, and decoded once and strictly; what has no meaning, or more than one,
is answered without an id. When the input ends, calls under way are cancelled and their attempts closed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

from placet.errors import InvalidArguments
from placet.mcp_server.carried import Carried, decode_message
from placet.mcp_server.server import McpServer
from placet.mcp_server.tracing import trace_of
from placet.model.json import JsonObject
from placet.model.principal import Principal

_PIECE: Final = 65_536
_MALFORMED: Final = "The line is not one JSON-RPC message with exactly one meaning."
_UNSAYABLE: Final = "The answer cannot be written down. What was asked for may have happened."
_SETTLE_SECONDS: Final = 2.0


class StdioDoor:
    """The MCP front door of one client at the other end of two pipes."""

    def __init__(self, mcp: McpServer, *, principal: Principal) -> None:
        self._mcp = mcp
        self._principal = principal
        self._wide = mcp.gate.wide_fields
        self._most = mcp.settings.max_body_bytes
        self._leaving = asyncio.Event()
        self._open: set[str | int] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def leave(self) -> None:
        """Read nothing more, answer what is answered already, and go."""
        self._leaving.set()

    async def serve(self, source: int, sink: int) -> None:
        """Until the input ends, or it is told to leave.

        Args:
            source, sink: descriptors of the two pipes.
        """
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        reading = asyncio.ensure_future(self._read(source, to_server, outgoing.clone()))
        writing = asyncio.ensure_future(self._write(sink, from_server))
        try:
            server = self._mcp.server
            await server.run(incoming, outgoing, server.create_initialization_options())
            await asyncio.wait((writing,), timeout=_SETTLE_SECONDS)
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.wait((reading, writing))

    # ------------------------------------------------------------ in

    async def _read(self, source: int, to_server: Any, answers: Any) -> None:
        leaving = asyncio.ensure_future(self._leaving.wait())
        async with to_server, answers:
            lines = _lines(source, most=self._most)
            try:
                while True:
                    coming = asyncio.ensure_future(anext(lines, b""))
                    await asyncio.wait((coming, leaving), return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done():
                        coming.cancel()
                        await asyncio.wait((coming,))
                        await self._settled()
                        return
                    line = coming.result()
                    if line == b"":
                        return
                    await self._hear(line, to_server, answers)
            finally:
                leaving.cancel()

    async def _hear(self, line: bytes | None, to_server: Any, answers: Any) -> None:
        message = None if line is None else self._decoded(line)
        if message is None:
            error = ErrorData(code=PARSE_ERROR, message=_MALFORMED, data={"code": "message_malformed"})
            await answers.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
            return
        decoded, parsed = message
        if isinstance(parsed, JSONRPCRequest):
            self._open.add(parsed.id)
            self._quiet.clear()
        found = decoded.get("params")
        params = found if isinstance(found, dict) else {}
        if decoded.get("method") == "notifications/cancelled":
            self._answered(_request_id(params))
        meta = params.get("_meta")
        carried = Carried(
            principal=self._principal,
            message=decoded,
            request_id=trace_of(meta) if isinstance(meta, dict) else None,
        )
        await to_server.send(SessionMessage(parsed, metadata=ServerMessageMetadata(request_context=carried)))

    def _decoded(self, line: bytes) -> tuple[JsonObject, Any] | None:
        try:
            decoded = decode_message(line, max_bytes=self._most, wide=self._wide)
            return decoded, jsonrpc_message_adapter.validate_python(decoded, by_name=False)
        except (InvalidArguments, ValidationError):
            return None

    # ------------------------------------------------------------ out

    async def _write(self, sink: int, from_server: Any) -> None:
        async with from_server:
            pipe = await _Sink.at(sink)
            try:
                async for each in from_server:
                    if (line := _line_of(each.message)) is not None:
                        await pipe.write(line)
                    if isinstance(each.message, JSONRPCResponse | JSONRPCError):
                        self._answered(each.message.id)
            except OSError:  # the client has gone; the end of its input says so as well
                self._leaving.set()
            finally:
                pipe.close()

    def _answered(self, request: str | int | None) -> None:
        if request is not None:
            self._open.discard(request)
        if not self._open:
            self._quiet.set()

    async def _settled(self) -> None:
        """Until what has been decided is written. A call that its client has cancelled is not answered."""
        waiting = asyncio.ensure_future(self._quiet.wait())
        await asyncio.wait((waiting,), timeout=_SETTLE_SECONDS)
        waiting.cancel()


@contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Standard input and output for this process's protocol alone: descriptor 0 is empty meanwhile, 1 is error's."""
    source, sink = os.dup(0), os.dup(1)
    os.set_inheritable(source, False)
    os.set_inheritable(sink, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for each in (source, sink, nothing):
            with suppress(OSError):
                os.close(each)


def _line_of(message: Any) -> bytes | None:
    """What is written of a message. One that cannot be costs nobody else theirs: an answer becomes an error, and what
    nobody waits for falls away."""
    try:
        return str(message.model_dump_json(by_alias=True, exclude_unset=True)).encode() + b"\n"
    except (ValueError, TypeError, RecursionError):
        pass
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return None
    error = ErrorData(code=INTERNAL_ERROR, message=_UNSAYABLE, data={"code": "internal_error"})
    return _line_of(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))


def _request_id(params: JsonObject) -> str | int | None:
    found = params.get("requestId")
    return found if isinstance(found, str | int) else None


async def _lines(source: int, *, most: int) -> AsyncIterator[bytes | None]:
    """The lines of a descriptor, without their ends; None for one that is too long, of which nothing is kept."""
    reader = await _reader(source)
    begun, is_too_long = bytearray(), False
    while piece := await reader():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            begun += end
            line, begun = bytes(begun), bytearray()
            is_whole, is_too_long = not is_too_long and len(line) <= most, False
            if not is_whole:
                yield None
            elif line.strip():
                yield line
        begun += rest
        if len(begun) > most:
            begun, is_too_long = bytearray(), True


async def _reader(source: int) -> Any:
    if _is_there_at_once(source):

        async def read_file() -> bytes:
            return os.read(source, _PIECE)

        return read_file
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), _pipe(source, "rb"))

    async def read_pipe() -> bytes:
        return await stream.read(_PIECE)

    return read_pipe


class _Sink:
    """Where answers are written, one after the other."""

    def __init__(self, descriptor: int, stream: asyncio.StreamWriter | None) -> None:
        self._descriptor = descriptor
        self._stream = stream

    @classmethod
    async def at(cls, descriptor: int) -> _Sink:
        if _is_there_at_once(descriptor):
            return cls(descriptor, None)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, _pipe(descriptor, "wb"))
        return cls(descriptor, asyncio.StreamWriter(transport, protocol, None, loop))

    async def write(self, line: bytes) -> None:
        if self._stream is None:
            os.write(self._descriptor, line)
            return
        self._stream.write(line)
        await self._stream.drain()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def _is_there_at_once(descriptor: int) -> bool:
    """A file, or the null device: nothing of it is waited for, and the loop cannot watch it."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) or found.st_rdev == os.stat(os.devnull).st_rdev


def _pipe(descriptor: int, mode: str) -> BinaryIO:
    """A pipe of its own, so that the transport that closes it closes nothing else."""
    found: Any = os.fdopen(os.dup(descriptor), mode, buffering=0)
    return found  # type: ignore[no-any-return]
