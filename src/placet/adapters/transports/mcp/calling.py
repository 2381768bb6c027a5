"""Carries calls, and looks of probes, to one server; and says of each what is known afterwards.

    ready ── as accepted? ── guard ── first byte | ── answer ── result, refusal, or doubt
      ^          no: NotSent          nothing     |    given up: told once; a late answer of a write is still heard
      └── verified anew meanwhile     happened    |

Up to the bar nothing can have happened, and a session that is lost there is replaced and the call sent once more.
After it whatever is no answer is doubt, and nothing is sent again here. Source: ADR 0046; DESIGN sections 11 and 17;
CASES K01, K05 to K08.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from placet.adapters.transports.mcp import conversing, messages
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import (
    AnswerGarbled,
    AnswerTooLarge,
    ConnectionLost,
    FaultAnswered,
    Flooded,
    NotAccepted,
    Refused,
    RequestFault,
    SessionForgotten,
    SessionGone,
    StatusAnswered,
    TurnedAway,
    TurnedAwayAgain,
)
from placet.adapters.transports.mcp.links import Link
from placet.adapters.transports.mcp.pool import Holder, Pool
from placet.adapters.transports.mcp.session import Flight
from placet.adapters.transports.reports import TooLate
from placet.adapters.transports.traces import named_trace
from placet.errors import NotSent, RemoteStatus, ToolRejected, UpstreamFailed
from placet.model.attempt import BrokenResult
from placet.model.context import CallContext, CannotTell, ProbeAnswer, ProbeContext
from placet.model.contract import EffectClass
from placet.model.json import JsonObject
from placet.model.pins import Pin
from placet.model.upstreams import ProbeTerms, Relayed, ToolErrors
from placet.rules.upstream_probes import probe_answer, probe_arguments
from placet.rules.upstream_results import error_words, is_error, is_unfinished, result_of, wants_input

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("placet.upstreams")

KEY_META: Final = "io.placet/idempotency-key"
LATE_SECONDS: Final = 10.0
"""How long the answer to a write is still listened for after its time was over."""
_MOST_SENDS: Final = 2
_MOST_FORGOTTEN: Final = 256
_MOST_TURNED_AWAY: Final = 4_096
_WORDS: Final = {
    Flooded: "flooding",
    ConnectionLost: "connection_lost",
    AnswerGarbled: "answer_garbled",
    AnswerTooLarge: "answer_too_large",
    FaultAnswered: "error_answered",
    TurnedAwayAgain: "turned_away_again",
}
_LEAST_REST_SECONDS: Final = 0.25
_REST: Final = 0.2
"""This part of an attempt's time, and at least so many seconds, is kept back: what has not left by then does not."""


class _Meanwhile(NotAccepted):
    """The server said that it has changed between the look and the first byte."""

    def __init__(self) -> None:
        super().__init__("changed_meanwhile")


class _Forgetting:
    """Which holders' sessions were forgotten by the server, with no call answered since.

    A 404 says that a session is not known, so that nothing of the call was taken up. A server that says it of the
    session that was begun for that very reason either never keeps one, or acts and says so all the same.
    """

    def __init__(self) -> None:
        self._forgotten: OrderedDict[Holder, Link | None] = OrderedDict()

    def weighed(self, fault: RequestFault, holder: Holder, link: Link | None) -> RequestFault:
        """The same fault, or the doubt that it is."""
        if isinstance(fault, SessionForgotten):
            is_again = self._forgotten.setdefault(holder, link) is not link
            if len(self._forgotten) > _MOST_FORGOTTEN:
                self._forgotten.popitem(last=False)
            return StatusAnswered(404, None) if is_again else fault
        if not isinstance(fault, NotAccepted):
            self.known(holder)
        return fault

    def known(self, holder: Holder) -> None:
        """A call was answered."""
        self._forgotten.pop(holder, None)


class _TurnedAway:
    """Which calls a server was sent and said, by a status, not to have taken up. One may be sent once more; whoever
    says so again cannot be told from one that acts and says so all the same.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def weighed(self, fault: RequestFault, context: CallContext) -> RequestFault:
        """The same fault, or the doubt that it is."""
        if not isinstance(fault, TurnedAway | SessionForgotten):
            return fault
        call = (context.tenant, context.run_id, context.call_id)
        is_again = call in self._calls or (isinstance(fault, TurnedAway) and fault.sends > 1)
        self._calls[call] = None
        self._calls.move_to_end(call)
        if len(self._calls) > _MOST_TURNED_AWAY:
            self._calls.popitem(last=False)
        return TurnedAwayAgain() if is_again else fault


class Carrier:
    """Carries to one server.

    Args:
        pool: gives the pool of the open gate; raises `NotSent` while there is none.
    """

    def __init__(
        self, server: str, *, pins: Mapping[str, Pin], relayed: frozenset[Relayed], pool: Callable[[], Pool]
    ) -> None:
        self._server = server
        self._pins = pins
        self._relayed = relayed
        self._pool = pool
        self._sessions = _Forgetting()
        self._turned_away = _TurnedAway()

    async def call(
        self, tool: str, arguments: JsonObject, context: CallContext, *, effect: EffectClass, errors: ToolErrors
    ) -> object:
        """One attempt of a call: what its contract is to be held to.

        Raises:
            NotSent: nothing was taken up.
            ToolRejected: the server, or the tool, says that it has not done it.
            RemoteStatus, UpstreamFailed: it cannot be told whether it was done.
        """
        talk = conversing.talk(
            self._relayed,
            is_approved=context.is_approved,
            hears=context.progress if context.is_progress_heard else None,
            notes=self._noted,
        )
        holder = Holder(tenant=context.tenant, subject=context.principal.identity)
        pin = self._pins[tool]
        asked: JsonObject = {**arguments}
        params: JsonObject = {"name": tool, "arguments": asked, **talk.params}
        proves = _is_proof(effect, errors)
        while True:
            params["_meta"] = {**talk.meta, **named_trace(), KEY_META: context.operation_key}
            result = await self._result(pin, params, holder, talk, context, effect=effect, errors=errors)
            if not is_unfinished(result):
                return self._meaning(pin, result, effect=effect, errors=errors)
            if not wants_input(result):
                raise self._doubt("kind_unknown")
            params = {"name": tool, "arguments": asked, **await self._more(result, talk, is_proof=proves)}

    async def probe(self, terms: ProbeTerms, context: ProbeContext) -> ProbeAnswer:
        """Look for an effect by asking another tool of the server, one that reads; the gate looks in its own name."""
        pin = self._pins.get(terms.tool)
        asked = probe_arguments(terms, context)
        if pin is None or asked is None:
            return CannotTell()
        talk = conversing.talk(frozenset())
        params: JsonObject = {"name": terms.tool, "arguments": asked}
        holder = Holder(tenant=context.tenant, subject=None)
        try:
            async with self._pool().link(holder, talk) as link:
                await link.ready()
                flight = await self._begin(link, pin, params, talk, guard=_nothing)
                try:
                    await asyncio.wait((flight.answer,))
                finally:
                    link.session.give_up(flight, reason="nobody waits")
                    link.session.forget(flight)
                result, _ = flight.answer.result()
        except (RequestFault, NotSent):
            return CannotTell()
        if is_error(result) is not False or is_unfinished(result):
            return CannotTell()
        value = result_of(result, schema=pin.definition.output_schema)
        return CannotTell() if isinstance(value, BrokenResult) else probe_answer(terms, value, context)

    def _noted(self, kind: str, answer: str) -> None:
        with suppress(NotSent):  # the gate has been closed meanwhile
            self._pool().note_question(kind, answer)

    # ------------------------------------------------------------ sending

    async def _result(
        self,
        pin: Pin,
        params: JsonObject,
        holder: Holder,
        talk: Talk,
        context: CallContext,
        *,
        effect: EffectClass,
        errors: ToolErrors,
    ) -> JsonObject:
        sends = 0
        while True:
            sends += 1
            fault: RequestFault
            link: Link | None = None
            flight: Flight | None = None
            try:
                async with AsyncExitStack() as held:
                    link, flight, most_seconds = await self._begun(held, pin, params, holder, talk, context)
                    result = await self._answered(
                        link, flight, leaves_within_seconds=most_seconds, is_write=effect.is_write
                    )
            except RequestFault as known:
                has_left = flight is not None and flight.has_left
                if isinstance(known, _Meanwhile):
                    if not has_left:
                        sends -= 1
                        continue
                    known = TurnedAway("not_let_in")  # a fresh token was not shown any more
                fault = self._sessions.weighed(known, holder, link)
                if link is not None and has_left:
                    fault = self._turned_away.weighed(fault, context)
                    if isinstance(fault, TurnedAway):
                        link.look_again()  # whoever lets nobody in is not sent it again
            else:
                self._sessions.known(holder)
                return result
            if sends < _MOST_SENDS and isinstance(fault, SessionGone):
                continue
            if (
                sends < _MOST_SENDS
                and isinstance(fault, Refused)
                and fault.code == messages.HEADER_MISMATCH
                and link is not None
            ):
                link.look_again()
                continue
            self._raise(fault, talk, is_proof=_is_proof(effect, errors))

    async def _begun(
        self, held: AsyncExitStack, pin: Pin, params: JsonObject, holder: Holder, talk: Talk, context: CallContext
    ) -> tuple[Link, Flight, float]:
        """Begin to send it within the part of the attempt's time that is for sending; connecting is part of it. What is
        left of that part goes back with it.

        Args:
            held: holds the session on.

        Raises:
            NotSent, NotAccepted: nothing left.
        """
        patience = context.remaining_seconds()
        kept_back = max(_LEAST_REST_SECONDS, patience * _REST)
        patience -= kept_back
        if patience <= 0.0:
            raise NotAccepted("too_slow")
        try:
            async with asyncio.timeout(patience):
                link = await held.enter_async_context(self._pool().link(holder, talk))
                await link.ready()
                flight = await self._begin(link, pin, params, talk, guard=context.guard)
                return link, flight, context.remaining_seconds() - kept_back
        except TimeoutError:
            pass
        raise NotAccepted("too_slow")

    async def _begin(
        self, link: Link, pin: Pin, params: JsonObject, talk: Talk, *, guard: Callable[[], None]
    ) -> Flight:
        tool, digest = pin.definition.tool, pin.digest

        def before() -> None:
            """The last look, when the first byte leaves next."""
            if not link.is_current():
                raise _Meanwhile
            if not link.is_as_accepted(tool, digest):
                raise NotSent("The server describes this tool otherwise than it was accepted.", code="schema_drift")
            guard()

        headers = link.argument_headers(pin.definition, params)
        return await link.session.begin("tools/call", params, talk=talk, before=before, headers=headers)

    async def _answered(
        self, link: Link, flight: Flight, *, leaves_within_seconds: float, is_write: bool
    ) -> JsonObject:
        """Wait for the answer. Whoever stops waiting has the server told so; what a write still answers is evidence.

        Raises:
            NotAccepted: nothing of it has left in time, and nothing of it will.
        """
        stays = asyncio.get_running_loop().call_later(max(0.0, leaves_within_seconds), _kept_here, link, flight)
        try:
            await asyncio.wait((flight.answer,))
        except asyncio.CancelledError:
            may_come = link.session.give_up(flight, reason="deadline passed, or nobody waits any more")
            try:
                if is_write and may_come:
                    await asyncio.wait((flight.answer,), timeout=LATE_SECONDS)
            finally:
                has_come = is_write and flight.answer.done() and not flight.answer.cancelled()
                if not has_come:
                    link.session.forget(flight)
            if not has_come:
                raise
        finally:
            stays.cancel()
        if flight.answer.cancelled():
            raise NotAccepted("too_slow")
        result, _ = flight.answer.result()
        return result

    # ------------------------------------------------------------ what it means

    def _meaning(self, pin: Pin, result: JsonObject, *, effect: EffectClass, errors: ToolErrors) -> object:
        match is_error(result):
            case False:
                return result_of(result, schema=pin.definition.output_schema)
            case True if _is_proof(effect, errors):
                raise ToolRejected(error_words(result) or "It gives no reason.")
            case True:
                raise self._doubt("tool_error")
            case None:
                raise self._doubt("answer_garbled")

    async def _more(self, result: JsonObject, talk: Talk, *, is_proof: bool) -> JsonObject:
        """What the server wanted to know.

        Raises:
            ToolRejected: it has not done it, and is not asked again within this attempt.
            UpstreamFailed: it gets no answer, and may have done a part of it before it asked.
        """
        try:
            return await talk.required(result)
        except conversing.Unanswered:
            pass
        if is_proof:
            raise ToolRejected(conversing.ASKS)
        raise self._doubt("input_required")

    def _raise(self, fault: RequestFault, talk: Talk, *, is_proof: bool) -> NoReturn:
        """Say what a request's fault means for the attempt. Always raises.

        Args:
            is_proof: the tool's own word that it failed is believed.
        """
        match fault:
            case Refused(error=error):
                talk.refused(error)
                raise ToolRejected("The server did not take the request up.")
            case FaultAnswered(code=messages.INVALID_PARAMS) if is_proof:
                raise ToolRejected("The server, or the tool, refuses these arguments.")
            case NotAccepted(reason=reason):
                _log.warning(
                    "the upstream %s took nothing up: %s",
                    self._server,
                    reason,
                    extra={"server": self._server, "code": reason},
                )
                kind = TooLate if reason == "too_slow" else NotSent
                raise kind("The server behind this tool cannot be reached now.", code="upstream_unavailable")
            case StatusAnswered(status=status, retry_after=retry_after):
                raise RemoteStatus(status, retry_after=retry_after)
            case _:
                raise self._doubt(_WORDS.get(type(fault), "doubtful"))

    def _doubt(self, reason: str) -> UpstreamFailed:
        _log.warning(
            "the answer of the upstream %s leaves in doubt what it did: %s",
            self._server,
            reason,
            extra={"server": self._server, "code": reason},
        )
        return UpstreamFailed("The server's answer does not tell what became of the request.")


def _is_proof(effect: EffectClass, errors: ToolErrors) -> bool:
    """Whether a tool that says that it failed has done nothing: a read, or one that the deployment says so of."""
    return not effect.is_write or errors is ToolErrors.REFUSED


def _kept_here(link: Link, flight: Flight) -> None:
    """What has not left by now does not."""
    if not flight.has_left:
        link.session.forget(flight)


def _nothing() -> None: ...
