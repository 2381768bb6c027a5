"""A server over streamable HTTP: each request is a POST whose body, plain or as events, brings the answer.

Redirects are not followed, nothing compressed is taken, bodies are counted while they are read. Whether a first byte
has left is known exactly: the connection says so right before. Source: MCP, transports, streamable HTTP, of both eras.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx

from placet.adapters.reaching import AddressRefused
from placet.adapters.referenced_secrets import SecretMissing
from placet.adapters.transports.mcp.attention import Share, has_more_marks, weight
from placet.adapters.transports.mcp.events import Event, EventReader
from placet.adapters.transports.mcp.faults import (
    NOT_NOW,
    AnswerGarbled,
    AnswerTooLarge,
    ConnectionLost,
    Flooded,
    NotAccepted,
    RequestFault,
    SessionForgotten,
    SessionGone,
    StatusAnswered,
    TurnedAway,
)
from placet.adapters.transports.mcp.hearing import MOST_MARKS, Awaits, hear
from placet.adapters.transports.mcp.messages import (
    Answer,
    Fault,
    Garbled,
    Message,
    Noise,
    Oversized,
    RequestId,
    read_message,
)
from placet.errors import PlacetError
from placet.ports.clock import Clock

SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
_LEAVES: Final = "send_request_headers.started"
_NOT_LET_IN: Final = frozenset((401, 403))
_MOVED_UNREAD: Final = frozenset((307, 308))
_MOST_TOLD_AT_ONCE: Final = 4
_MOST_RESUMED: Final = 5
_STREAM_FOLDS: Final = 4
"""So many times the largest message may come in all, notifications included, until the answer is there."""
_MOST_WAITING: Final = 64
_MOST_REST_BYTES: Final = 4_096
"""Of an answer to what was only told, that is read so that its connection can be used again."""
_SHORTEST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 2.0
_TELL_SECONDS: Final = 10.0
"""How long a server may take to take note of what it is told."""
_SLICE_BYTES: Final = 1_024
_FEW_LINES: Final = 64
"""A piece of a stream with more lines is looked at in slices of so many bytes, each of which may be many events."""
_FOREIGN: Final = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, UnicodeError, ValueError)

Heard = Callable[[Message, RequestId | None], None]


def _nothing() -> None: ...


class StreamableChannel:
    """The gate's end of one session with a server.

    Args:
        shown: headers and query members that let us in, read anew for each request.
        heard: is told of every message, and of the request on whose stream it came; it does not raise.
        failed: is told of a request that will bring no answer.
        flooded: is told once that the server says too much without being asked, right before the session is retired.
        retired: is told once that the server knows the session no more; what is under way may still be answered.
        missed: is told that what belongs to no request is heard again, after it was not for a while.
    """

    def __init__(
        self,
        url: str,
        transport: httpx.AsyncBaseTransport,
        *,
        shown: Callable[[], tuple[Mapping[str, str], Mapping[str, str]]],
        connect_seconds: float,
        most_bytes: int,
        clock: Clock,
        share: Share,
        awaits: Awaits,
        heard: Heard,
        failed: Callable[[RequestId, BaseException], None],
        flooded: Callable[[], None],
        retired: Callable[[], None],
        missed: Callable[[], None],
    ) -> None:
        self._url = httpx.URL(url)
        self._transport = transport
        self._shown = shown
        self._connect_seconds = connect_seconds
        self._most_bytes = most_bytes
        self._clock = clock
        self._share, self._awaits = share, awaits
        self._heard_by, self._failed_by = heard, failed
        self._flooded_by, self._retired_by, self._missed_by = flooded, retired, missed
        self._posts: dict[RequestId, asyncio.Task[None]] = {}
        self._told: set[asyncio.Task[None]] = set()
        self._to_tell: deque[bytes] = deque()
        self._tellers = 0
        self._session_id: str | None = None
        self._version: str | None = None
        self._knows_sessions = True
        self.is_lost = False

    async def ask(
        self, request_id: RequestId, message: bytes, *, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        """Begin to send a request; its answer, or why there is none, is told elsewhere.

        `before` is called right before the first byte leaves; what it raises keeps it here, and is told as it is.
        """
        if self.is_lost:
            raise SessionGone
        post = asyncio.create_task(self._ask(request_id, message, headers, before))
        self._posts[request_id] = post
        post.add_done_callback(lambda _: self._posts.pop(request_id, None))

    def give_up(self, request_id: RequestId) -> None:
        """Close the stream on which the request's answer would come."""
        if (post := self._posts.pop(request_id, None)) is not None:
            post.cancel()

    def add(self, message: bytes) -> None:
        """Send what may be lost."""
        if self.is_lost or len(self._to_tell) >= _MOST_WAITING:
            return
        self._to_tell.append(message)
        if self._tellers < _MOST_TOLD_AT_ONCE:
            self._tellers += 1
            self._begin(self._tell())

    def reply(self, message: bytes) -> None:
        """Send what the server asked for, at its own cost."""
        self._share.made_us_send()
        self.add(message)

    def passed_on(self) -> None:
        self._share.passed_on()

    def speaks(self, version: str | None, *, knows_sessions: bool) -> None:
        """From now on, this revision; one without sessions has no name for one, whatever else answers gives."""
        self._version, self._knows_sessions = version, knows_sessions
        if not knows_sessions:
            self._session_id = None

    def listen(self) -> None:
        """Open the stream on which a server of the older era says what belongs to no request, if it has one."""
        self._begin(self._listen())

    async def close(self) -> None:
        """Say goodbye, where the server knows sessions, and end everything."""
        was_lost, self.is_lost = self.is_lost, True
        running = [*self._posts.values(), *self._told]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._session_id is not None and not was_lost:
            with suppress(TimeoutError, RequestFault, SecretMissing, *_FOREIGN):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._left(self._request("DELETE", b"", {}, _nothing))
        await self._transport.aclose()

    # ------------------------------------------------------------ one request

    async def _ask(
        self, request_id: RequestId, message: bytes, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        fault: BaseException
        try:
            await self._post(request_id, message, headers, before)
            return
        except asyncio.CancelledError:
            fault = ConnectionLost()
        except (RequestFault, PlacetError) as known:  # what `before` raised among them
            fault = known
        self._failed_by(request_id, fault)

    async def _post(
        self, request_id: RequestId, message: bytes, headers: Mapping[str, str], before: Callable[[], None]
    ) -> None:
        has_left = False

        def leaves() -> None:
            nonlocal has_left
            before()
            has_left = True

        fault: RequestFault
        try:
            answer = await self._transport.handle_async_request(self._request("POST", message, headers, leaves))
            try:
                await self._take(request_id, answer)
            finally:
                await answer.aclose()
            return
        except SecretMissing:
            fault = NotAccepted("secret_missing")
        except AddressRefused:
            fault = NotAccepted("address_refused")
        except (RequestFault, PlacetError):
            raise
        except Exception:  # of the network, or of a library's own
            fault = ConnectionLost() if has_left else NotAccepted("unreachable")
        raise fault

    async def _take(self, request_id: RequestId, answer: httpx.Response) -> None:
        status = answer.status_code
        if status == 404 and self._session_id is not None:
            self._lose()
            raise SessionForgotten
        if status in _NOT_LET_IN or status in _MOVED_UNREAD:
            raise TurnedAway("not_let_in" if status in _NOT_LET_IN else "redirected")
        if not answer.is_success and not _is(answer, "application/json"):
            raise StatusAnswered(status, answer.headers.get("retry-after"))
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise AnswerGarbled
        given = answer.headers.get(SESSION_HEADER)
        if given is not None and self._session_id is None and self._knows_sessions:
            self._session_id = given if given.isascii() and given.isprintable() and len(given) <= 1_024 else None
        if _is(answer, "application/json"):
            await self._take_plain(request_id, answer)
        elif _is(answer, "text/event-stream") and status == 200:
            await self._take_events(request_id, answer)
        else:
            raise AnswerGarbled

    async def _take_plain(self, request_id: RequestId, answer: httpx.Response) -> None:
        body = bytearray()
        async with aclosing(_pieces(answer)) as pieces:
            async for piece in pieces:
                self._share.came(piece)
                await self._rest()
                body += piece
                if len(body) > self._most_bytes:
                    raise AnswerTooLarge
        if has_more_marks(body, MOST_MARKS):
            self._share.passed_over(len(body))
            raise AnswerTooLarge
        message = read_message(bytes(body))
        self._share.answered(weight(body))
        await self._rest()
        match message:
            case Fault(id=None, code=code, error=error):  # it could not read our id, or does not say it
                message = Fault(id=request_id, code=code, error=error)
            case Answer(id=found) | Fault(id=found) | Garbled(id=found) if found == request_id:
                pass
            case _ if not answer.is_success:
                raise StatusAnswered(answer.status_code, answer.headers.get("retry-after"))
            case _:
                raise AnswerGarbled
        self._heard_by(message, request_id)

    async def _take_events(self, request_id: RequestId, answer: httpx.Response) -> None:
        """Read until the answer is there; a stream of the older era that was cut off is taken up where it broke off."""
        progress = _Progress(left=self._most_bytes * _STREAM_FOLDS)
        for _ in range(_MOST_RESUMED + 1):
            try:
                if await self._has_brought(request_id, answer, progress):
                    return
            finally:
                await answer.aclose()
            if not (progress.last_id and self._can_resume):
                break
            await self._clock.sleep(min(max(progress.pause, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS))
            self._share.made_us_send()
            await self._rest()
            if (resumed := await self._resumed(progress.last_id)) is None:
                break
            answer = resumed
        raise ConnectionLost

    @property
    def _can_resume(self) -> bool:
        """Only a server of the older era takes a stream up again, and only once it was agreed that it is one."""
        return self._knows_sessions and (self._session_id is not None or self._version is not None)

    async def _has_brought(self, request_id: RequestId, answer: httpx.Response, progress: _Progress) -> bool:
        """Read one stream to its end, or to the answer; whether that was there."""
        reader = EventReader(self._most_bytes)
        with suppress(*_FOREIGN):
            async with aclosing(_pieces(answer)) as pieces:
                async for piece in pieces:
                    progress.left -= len(piece)
                    if progress.left < 0:
                        raise AnswerTooLarge
                    async for event in self._events(reader, piece, is_asked_for=True):
                        progress.last_id = event.id or progress.last_id
                        if event.retry_seconds is not None:
                            progress.pause = event.retry_seconds
                        if self._take_event(request_id, event):
                            return True
        return False

    async def _resumed(self, last_id: str) -> httpx.Response | None:
        """The stream that goes on behind this event. Whatever keeps us from it says nothing of the request: that had
        left, and may have been taken up."""
        with suppress(NotAccepted, SecretMissing, *_FOREIGN):
            request = self._request("GET", b"", {"last-event-id": last_id}, _nothing)
            answer = await self._transport.handle_async_request(request)
            if answer.status_code == 200 and _is(answer, "text/event-stream"):
                return answer
            await answer.aclose()
        return None

    def _take_event(self, request_id: RequestId, event: Event) -> bool:
        """Whether it was the answer."""
        if event.kind != "message" or not event.data:
            return False
        message = hear(event.data, self._share, lambda found: found == request_id and self._awaits(found))
        if isinstance(message, Noise):
            return False
        self._heard_by(message, request_id)
        return isinstance(message, Answer | Fault | Garbled | Oversized) and message.id == request_id

    # ------------------------------------------------------------ what belongs to no request

    async def _tell(self) -> None:
        try:
            while self._to_tell:
                message = self._to_tell.popleft()
                with suppress(RequestFault, SecretMissing, *_FOREIGN):
                    async with asyncio.timeout(_TELL_SECONDS):
                        await self._left(self._request("POST", message, {}, _nothing))
        finally:
            self._tellers -= 1

    async def _left(self, request: httpx.Request) -> None:
        answer = await self._transport.handle_async_request(request)
        try:
            said = answer.headers.get("content-length", "")
            if said.isdecimal() and len(said) <= 4 and int(said) <= _MOST_REST_BYTES:
                async with aclosing(_pieces(answer)) as pieces:
                    async for _ in pieces:
                        pass
        finally:
            await answer.aclose()

    async def _listen(self) -> None:
        pause, is_first, has_stream = _SHORTEST_PAUSE_SECONDS / 2.0, True, False
        while not self.is_lost:
            listened = _Listened()
            with suppress(RequestFault, SecretMissing, *_FOREIGN):
                await self._rest()
                answer = await self._transport.handle_async_request(self._request("GET", b"", {}, _nothing))
                try:
                    if answer.status_code == 404 and self._session_id is not None:
                        self._lose()
                        return
                    if answer.status_code == 200 and _is(answer, "text/event-stream"):
                        if not is_first:
                            self._missed_by()
                        has_stream = True
                        await self._hear(answer, listened)
                    elif not has_stream and answer.status_code not in NOT_NOW:
                        return  # there is no such stream; definitions are looked at again from time to time
                finally:
                    await answer.aclose()
            is_first = False
            pause = listened.pause_after(pause)
            await self._clock.sleep(pause)
            self._share.made_us_send()

    async def _hear(self, answer: httpx.Response, listened: _Listened) -> None:
        """Hear to the stream's end."""
        reader = EventReader(self._most_bytes)
        async with aclosing(_pieces(answer)) as pieces:
            async for piece in pieces:
                async for event in self._events(reader, piece, is_asked_for=False):
                    if event.retry_seconds is not None:
                        listened.wanted_seconds = event.retry_seconds
                    if event.kind == "message" and event.data:
                        message = hear(event.data, self._share, self._awaits)
                        listened.has_brought = listened.has_brought or not isinstance(message, Noise)
                        self._heard_by(message, None)

    # ------------------------------------------------------------ within

    async def _events(self, reader: EventReader, piece: bytes, *, is_asked_for: bool) -> AsyncGenerator[Event, None]:
        """The events that end in a piece, a few in each turn.

        Raises:
            AnswerTooLarge: one is larger than what is read.
            Flooded: the session is over.
        """
        lines = piece.count(b"\n") + piece.count(b"\r")
        self._share.came(piece, is_asked_for=is_asked_for)
        size = _SLICE_BYTES if lines > _FEW_LINES else len(piece)
        for begin in range(0, len(piece), size):
            await self._rest()
            for event in reader.read(piece[begin : begin + size]):
                yield event

    async def _rest(self) -> None:
        """Wait where the server has said so much that others have their turn; meanwhile nothing more of it is read.

        Raises:
            Flooded: the session is over.
        """
        if self._share.is_flooding:
            self._flooded_by()
            self._lose()
            raise Flooded
        pause = self._share.pause_seconds()
        while pause > 0.0 or self._share.has_had_its_turn():
            await self._clock.sleep(pause)
            pause = self._share.pause_seconds()

    def _request(
        self, method: str, body: bytes, headers: Mapping[str, str], before: Callable[[], None]
    ) -> httpx.Request:
        async def trace(event: str, _: Mapping[str, Any]) -> None:
            if event.endswith(_LEAVES):
                before()

        let_in, members = self._shown()
        own = {
            "accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
            "accept-encoding": "identity",
            "user-agent": "placet",
        }
        if body:
            own["content-type"] = "application/json"
        if self._session_id is not None:
            own[SESSION_HEADER] = self._session_id
        if self._version is not None:
            own[VERSION_HEADER] = self._version
        waits = {"connect": self._connect_seconds, "pool": self._connect_seconds, "read": None, "write": None}
        return httpx.Request(
            method,
            self._url.copy_merge_params(members) if members else self._url,
            headers={**own, **headers, **let_in},
            content=body,
            extensions={"timeout": waits, "trace": trace},
        )

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._retired_by()


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far an answer is that comes on several streams, one after the other.

    Attributes:
        left: how many bytes of it may still come.
        last_id: of the last event that had one; where the next stream goes on.
        pause: how long to wait before the next one.
    """

    left: int
    last_id: str | None = None
    pause: float = _SHORTEST_PAUSE_SECONDS


@dataclass(slots=True, kw_only=True)
class _Listened:
    """What one stream brought that belongs to no request."""

    wanted_seconds: float = 0.0
    has_brought: bool = False

    def pause_after(self, before: float) -> float:
        """How long to wait before the next one: longer each time, where none brings anything."""
        own = _SHORTEST_PAUSE_SECONDS if self.has_brought else 2.0 * before
        return min(max(own, self.wanted_seconds, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)


def _is(answer: httpx.Response, kind: str) -> bool:
    return bool(answer.headers.get("content-type", "").partition(";")[0].strip().lower() == kind)


async def _pieces(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes, nothing decoded."""
    if isinstance(answer.stream, httpx.AsyncByteStream):
        async for piece in answer.stream:
            yield piece
