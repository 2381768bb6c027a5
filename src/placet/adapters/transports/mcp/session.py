"""One session with one server: requests by their ids, questions and notices by whose they are.

    opened ── negotiated ── verified ──┬── calls go out while what is verified is current
                              ^        └── told of a change, or time is up: verified anew, calls wait
                              +--------+
    lost (process ended, session forgotten): calls that had left are in doubt, the others are not

Nothing that the server sends raises here, and none of it costs more than a look at it. Source: ADR 0046; CASES K01,
K04, K08.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from placet.adapters.transports.mcp import messages
from placet.adapters.transports.mcp.channels import Channel, Era
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import (
    AnswerGarbled,
    AnswerTooLarge,
    ConnectionLost,
    FaultAnswered,
    Flooded,
    NotAccepted,
    Refused,
    SessionGone,
)
from placet.adapters.transports.mcp.messages import (
    METHOD_NOT_FOUND,
    REFUSED_UNREAD,
    Answer,
    Asked,
    Fault,
    Garbled,
    Message,
    Noise,
    Noticed,
    Oversized,
    RequestId,
    Unread,
)
from placet.model.json import JsonObject
from placet.model.relaying import Refusal
from placet.model.upstreams import Relayed
from placet.ports.relay import RelayRefused
from placet.rules.relaying import INVALID_REQUEST, NOT_ASKED

_MOST_QUESTIONS: Final = 8
"""Of one session, that are being answered at once."""
_MOST_NOTICES: Final = 256
"""Of one request, that wait to be passed on; of more, the oldest fall away."""
_MOST_UNANSWERED: Final = 256
_NAMES_NO_CALL: Final = frozenset((Relayed.ELICITATION, Relayed.SAMPLING, Relayed.ROOTS, Relayed.LOGGING))
"""What a server says or asks without saying of which call."""
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_NOT_CANCELLED: Final = frozenset(("initialize", "server/discover"))
_OWN: Final = frozenset(("initialize", "server/discover", "subscriptions/listen", "tools/list"))
"""Requests that are nobody's call."""
_LAST_ANSWERS_SECONDS: Final = 10.0
"""How long a session that ends is kept for what is under way in it."""

Listener = Callable[[Noticed], None]


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """A request that is under way.

    Attributes:
        answer: its result and how many bytes that took, or a `RequestFault`, or what `before` raised.
        left: done when a first byte has left.
        is_given_up: the server was told that nobody waits.
    """

    id: RequestId
    method: str
    talk: Talk
    answer: asyncio.Future[tuple[JsonObject, int]]
    left: asyncio.Future[None]
    is_given_up: bool = False
    notices: deque[Noticed] = field(default_factory=lambda: deque(maxlen=_MOST_NOTICES))
    passing_on: asyncio.Task[None] | None = None

    @property
    def has_left(self) -> bool:
        return self.left.done()

    def fails(self, fault: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(fault)


class Session:
    """Speaks with one server over one channel.

    Args:
        changed: is told that the server may describe its tools otherwise now.
        ended: is told once that the session is lost.
    """

    def __init__(self, *, relayed: frozenset[Relayed], changed: Callable[[], None], ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._relayed = relayed
        self._changed_by, self._ended_by = changed, ended
        self._channel: Channel | None = None
        self._flights: dict[RequestId, Flight] = {}
        self._last_id = 0
        self._unanswered: set[RequestId] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._listeners: set[Listener] = set()
        self.era = Era.HANDSHAKE
        self.envelope: JsonObject = {}
        self.capabilities: JsonObject = {}
        self.is_lost = self.has_flooded = False
        self.subscription: RequestId | None = None
        self.end = asyncio.Event()

    def over(self, channel: Channel) -> None:
        """The way to the server; before anything else."""
        self._channel = channel

    @property
    def channel(self) -> Channel:
        if self._channel is None:
            raise SessionGone
        return self._channel

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return any(each.method == "tools/call" for each in self._flights.values())

    @property
    def is_haunted(self) -> bool:
        """Whether its server may still ask about a call that was given up, so that nobody is asked or told anything."""
        return bool(self._unanswered) and not _NAMES_NO_CALL.isdisjoint(self._relayed)

    # ------------------------------------------------------------ requests

    async def begin(
        self,
        method: str,
        params: JsonObject,
        *,
        talk: Talk,
        before: Callable[[], None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Flight:
        """Send a request. What becomes of it is in the flight; whoever does not want it any more gives it up.

        Args:
            before: called when the first byte leaves next; what it raises keeps the request here.
            headers: of HTTP, besides those that the protocol asks for.
        """
        if self.is_lost:
            raise SessionGone
        self._last_id += 1
        answer: asyncio.Future[tuple[JsonObject, int]] = self._loop.create_future()
        flight = Flight(id=self._last_id, method=method, talk=talk, answer=answer, left=self._loop.create_future())
        flight.answer.add_done_callback(_taken_note_of)
        message = messages.request(flight.id, method, self._stamped(flight, params))
        self._flights[flight.id] = flight
        flight.answer.add_done_callback(lambda _: self._flights.pop(flight.id, None))

        def leaves() -> None:
            if flight.answer.done():
                raise NotAccepted("given_up")
            if before is not None:
                before()
            if not flight.left.done():
                flight.left.set_result(None)

        try:
            own = self._own_headers(method, params) if self.channel.has_headers else {}
            await self.channel.ask(flight.id, message, headers={**own, **(headers or {})}, before=leaves)
        except BaseException as fault:
            flight.fails(SessionGone() if isinstance(fault, asyncio.CancelledError) else fault)
            raise
        return flight

    async def request(
        self, method: str, params: JsonObject, *, talk: Talk, begun: Callable[[RequestId], None] | None = None
    ) -> tuple[JsonObject, int]:
        """Send a request and wait; whoever is cancelled meanwhile has it given up.

        Args:
            begun: is told its id, before anything of its answer is heard.

        Raises:
            RequestFault: it brought no result.
        """
        flight = await self.begin(method, params, talk=talk)
        if begun is not None:
            begun(flight.id)
        try:
            await asyncio.wait((flight.answer,))
        finally:
            self.give_up(flight, reason="nobody waits")
            self.forget(flight)
        return flight.answer.result()

    def give_up(self, flight: Flight, *, reason: str) -> bool:
        """Tell the server, once, that nobody waits for an answer; whether one may come all the same."""
        if flight.answer.done():
            return False
        if not flight.has_left or flight.method in _NOT_CANCELLED:
            flight.answer.cancel()
            return False
        if flight.is_given_up:
            return True
        flight.is_given_up = True
        return self.channel.give_up(flight.id, era=self.era, reason=reason)

    def forget(self, flight: Flight) -> None:
        """Nobody will hear its answer any more, and nothing of it is kept open."""
        if not flight.answer.cancel():
            return
        if self._channel is not None:
            self._channel.forget(flight.id)
        if flight.is_given_up and flight.method not in _OWN and len(self._unanswered) < _MOST_UNANSWERED:
            self._unanswered.add(flight.id)

    def tell(self, method: str, params: JsonObject) -> None:
        self.channel.add(messages.notice(method, params))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have every notice told that belongs to no request; the answer ends it."""
        self._listeners.add(listener)
        return partial(self._listeners.discard, listener)

    async def close(self) -> None:
        """End it: what is under way may still be answered, for a while."""
        self.retired()
        under_way = [each.answer for each in self._flights.values() if each.method not in _OWN]
        if under_way:
            await asyncio.wait(under_way, timeout=_LAST_ANSWERS_SECONDS)
        self._fail_all()
        for task in self._answering:
            task.cancel()
        if self._channel is not None:
            await self._channel.close()

    # ------------------------------------------------------------ what comes

    def heard(self, message: Message, related: RequestId | None) -> None:
        if isinstance(message, Answer | Fault | Garbled | Oversized) and message.id is not None:
            self._unanswered.discard(message.id)
        match message:
            case Answer(id=found, result=result, size=size):
                if (flight := self._flight(found, related)) is not None and not flight.answer.done():
                    flight.answer.set_result((result, size))
            case Fault(id=found, code=code, error=error):
                if (flight := self._flight(found, related)) is not None:
                    is_unread = code in REFUSED_UNREAD
                    flight.fails(Refused(code, error) if is_unread else FaultAnswered(code, error))
            case Garbled(id=found):
                if (flight := self._flight(found, related)) is not None:
                    flight.fails(AnswerGarbled())
            case Oversized(id=found):
                if (flight := self._flight(found, related)) is not None:
                    flight.fails(AnswerTooLarge())
            case Asked():
                self._asked(message, related)
            case Unread(id=found):
                self.channel.reply(messages.refusal(found, INVALID_REQUEST, "That is too large to be asked here."))
            case Noticed():
                self._noticed(message, related)
            case Noise():
                pass

    def failed(self, request_id: RequestId, fault: BaseException) -> None:
        if (flight := self._flights.get(request_id)) is not None:
            flight.fails(fault)

    def awaits(self, request_id: RequestId) -> bool:
        """Whether somebody waits for the answer to a request."""
        flight = self._flights.get(request_id)
        return flight is not None and flight.has_left and not flight.answer.done()

    def flooded(self) -> None:
        """It says too much without being asked; nothing more of it is heard."""
        self.has_flooded = True
        for flight in tuple(self._flights.values()):
            flight.fails(Flooded() if flight.has_left else NotAccepted("flooding"))
        self.retired()

    def lost(self) -> None:
        """Nothing more will come."""
        self._fail_all()
        self.retired()

    def missed(self) -> None:
        """What it said of its tools may have been said to nobody."""
        self._changed_by()

    def retired(self) -> None:
        """Nothing more is sent; what is under way may still be answered."""
        if not self.is_lost:
            self.is_lost = True
            self.end.set()
            self._ended_by()

    def _fail_all(self) -> None:
        for flight in tuple(self._flights.values()):
            flight.fails(ConnectionLost() if flight.has_left else SessionGone())

    def _flight(self, found: RequestId | None, related: RequestId | None) -> Flight | None:
        """The request that is answered; None for an id that is nobody's, or comes on another request's stream."""
        if found is None or (related is not None and found != related):
            return None
        flight = self._flights.get(found)
        return flight if flight is not None and flight.has_left else None

    def _whose(self, related: RequestId | None) -> Flight | None:
        """The call that a question or notice belongs to: that of its stream, or the only one there is.

        A call that was given up is nobody's any more, and its server may be at it still.
        """
        if related is not None:
            flight = self._flights.get(related)
            return None if flight is None or flight.is_given_up else flight
        calls = [each for each in self._flights.values() if each.method not in _OWN and each.has_left]
        is_certain = len(calls) == 1 and not calls[0].is_given_up and not self._unanswered
        return calls[0] if is_certain else None

    def _asked(self, question: Asked, related: RequestId | None) -> None:
        if question.method == "ping":
            self.channel.reply(messages.answer(question.id, {}))
            return
        flight = self._whose(related)
        if flight is None or len(self._answering) >= _MOST_QUESTIONS:
            self._refuse(question, Refusal(code=METHOD_NOT_FOUND, message="Method not found"))
            return
        self._in_background(self._answer(question, flight))

    async def _answer(self, question: Asked, flight: Flight) -> None:
        try:
            self.channel.reply(messages.answer(question.id, await flight.talk.asked(question.method, question.params)))
        except RelayRefused as refused:
            self._refuse(question, refused.refusal)

    def _refuse(self, question: Asked, refused: Refusal) -> None:
        """A question that nobody may be asked is declined, as if a person had said no (CASES K08)."""
        if question.method == "elicitation/create" and refused.code in (METHOD_NOT_FOUND, NOT_ASKED.code):
            self.channel.reply(messages.answer(question.id, {"action": "decline"}))
        else:
            self.channel.reply(messages.refusal(question.id, refused.code, refused.message))

    def _noticed(self, noticed: Noticed, related: RequestId | None) -> None:
        match noticed.method:
            case "notifications/subscriptions/acknowledged" if not self._is_our_own(noticed, related):
                pass  # of a client that listens
            case "notifications/tools/list_changed" | "notifications/subscriptions/acknowledged":
                self._changed_by()
            case "notifications/progress" | "notifications/message":
                self._pass_on(noticed, related)
            case _:
                pass
        for listener in tuple(self._listeners):
            listener(noticed)

    def _is_our_own(self, acknowledged: Noticed, related: RequestId | None) -> bool:
        """Whether it is the one subscription for changes of tools; where a server does not say which, it may be."""
        meta = acknowledged.params.get("_meta")
        said = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        found = related if said is None else said
        return found is None or found == self.subscription

    def _pass_on(self, noticed: Noticed, related: RequestId | None) -> None:
        if noticed.method == "notifications/progress":
            token = noticed.params.get("progressToken")
            flight = self._flights.get(token) if messages.is_id(token) else None  # type: ignore[arg-type]
            if flight is not None:
                flight.talk.progressed(noticed.params)
            return
        flight = self._whose(related)
        if flight is None or flight.talk.log_level is None:
            return
        flight.notices.append(noticed)
        self.channel.passed_on()
        if flight.passing_on is None:
            flight.passing_on = self._in_background(self._passes_on(flight))

    async def _passes_on(self, flight: Flight) -> None:
        """In the order they came; one task for a request, so that a flood waits instead of spreading."""
        try:
            while flight.notices:
                await flight.talk.logged(flight.notices.popleft().params)
        finally:
            flight.passing_on = None

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answered)
        return task

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled():
            task.exception()  # a front door's own fault; what it was is not for the log of a call

    # ------------------------------------------------------------ what every request carries

    def _stamped(self, flight: Flight, params: JsonObject) -> JsonObject:
        meta: JsonObject = {}
        if self.era is Era.STATELESS:
            meta.update(self.envelope)
            meta["io.modelcontextprotocol/clientCapabilities"] = flight.talk.capabilities
        said = params.get("_meta")
        if isinstance(said, dict):
            meta.update(said)
        if flight.talk.hears_progress and flight.method == "tools/call":
            meta["progressToken"] = flight.id
        return {**params, "_meta": meta} if meta else params

    def _own_headers(self, method: str, params: JsonObject) -> dict[str, str]:
        if self.era is not Era.STATELESS:
            return {}
        from mcp.shared.inbound import NAME_BEARING_METHODS, encode_header_value

        headers = {"mcp-method": method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers["mcp-name"] = encode_header_value(name)
        return headers


def _taken_note_of(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
