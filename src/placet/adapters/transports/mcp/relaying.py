"""One MCP server, asked for what is no tool. Fulfils `UpstreamSide`.

Over the same sessions as calls, so never another tenant's, and of a server that remembers never another principal's.
All of it reads: a session that is lost on the way is replaced and the request sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from placet.adapters.transports.mcp import conversing
from placet.adapters.transports.mcp.channels import Era
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import FaultAnswered, NotAccepted, Refused, RequestFault, SessionGone
from placet.adapters.transports.mcp.messages import Noticed
from placet.adapters.transports.mcp.pool import Holder, Pool
from placet.adapters.transports.mcp.session import SUBSCRIPTION, Session
from placet.adapters.transports.traces import named_trace
from placet.errors import ToolError
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.relaying import Notice, Refusal
from placet.model.upstreams import Naming, Relayed, Upstream
from placet.ports.relay import RelayRefused

REQUEST_SECONDS: Final = 30.0
"""How long one request may take, the client's own answers included."""
SUBSCRIBE_SECONDS: Final = 5.0
MAX_NOTICES: Final = 256
"""Of one listener, that were not taken yet; of more, the newest fall away."""

_NO_ANSWER: Final = Refusal(code=-32603, message="The server behind this did not answer.")
_NO_RESULT: Final = Refusal(code=-32603, message="The server behind this wants to know something first.")
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


class McpSide:
    """
    Args:
        pool: gives the sessions of the open gate; raises `NotSent` while there are none.
    """

    def __init__(self, declared: Upstream, *, pool: Callable[[], Pool]) -> None:
        self._declared = declared
        self._pool = pool

    @property
    def server(self) -> str:
        return self._declared.name

    @property
    def relayed(self) -> frozenset[Relayed]:
        return self._declared.relayed

    @property
    def naming(self) -> Naming:
        return self._declared.naming

    def is_for(self, principal: Principal) -> bool:
        return self._declared.tenants is None or principal.tenant in self._declared.tenants

    def count_question(self, kind: str, answer: str) -> None:
        with suppress(ToolError):  # the gate has been closed meanwhile
            self._pool().note_question(kind, answer)

    async def request(self, principal: Principal, method: str, params: JsonObject) -> JsonObject:
        outcome = "failed"
        try:
            result = await self._requested(principal, method, params)
            outcome = "ok"
            return result
        except RelayRefused as refused:
            outcome = "failed" if refused.refusal in (_NO_ANSWER, _NO_RESULT) else "refused"
            raise
        finally:
            with suppress(ToolError):
                self._pool().note_request(method, outcome)

    async def _requested(self, principal: Principal, method: str, params: JsonObject) -> JsonObject:
        talk = conversing.talk(self.relayed, notes=self.count_question)
        refusal = _NO_ANSWER
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                brought = talk.params
                while True:
                    result = await self._answered(principal, method, {**params, **brought}, talk)
                    if result.get("resultType") != "input_required":
                        return result
                    brought = await talk.required(result)
        except (Refused, FaultAnswered) as fault:
            refusal = self._meaning(fault, talk)
        except (ToolError, conversing.Unanswered):
            refusal = _NO_RESULT
        except (RequestFault, TimeoutError):
            pass
        raise RelayRefused(refusal)

    @asynccontextmanager
    async def notices(self, principal: Principal, wanted: JsonObject) -> AsyncIterator[AsyncIterator[Notice]]:
        talk = conversing.talk(frozenset())
        refusal: Refusal | None = None
        try:
            async with (
                self._pool().listening(_holder(principal), talk) as link,
                _heard(link.session, wanted, talk) as heard,
            ):
                yield heard
                return
        except (RequestFault, ToolError, TimeoutError):
            refusal = _NO_ANSWER
        raise RelayRefused(refusal)

    # ------------------------------------------------------------ within

    async def _answered(self, principal: Principal, method: str, params: JsonObject, talk: Talk) -> JsonObject:
        """
        Raises:
            RequestFault, ToolError: there is no answer, or an error is.
        """
        holder = _holder(principal)
        meta = {**talk.meta, **named_trace()}
        sent = {**params, "_meta": meta} if meta else params
        try:
            async with self._pool().link(holder, talk) as link:
                return (await link.session.request(method, sent, talk=talk))[0]
        except SessionGone:
            pass
        async with self._pool().link(holder, talk) as link:
            return (await link.session.request(method, sent, talk=talk))[0]

    def _meaning(self, fault: Refused | FaultAnswered, talk: Talk) -> Refusal:
        try:
            talk.refused(fault.error)
        except ToolError:
            return _NO_RESULT
        return Refusal(code=fault.code, message="The server behind this refused.")


def _holder(principal: Principal) -> Holder:
    return Holder(tenant=principal.tenant, subject=principal.identity)


@asynccontextmanager
async def _heard(session: Session, wanted: JsonObject, talk: Talk) -> AsyncIterator[AsyncIterator[Notice]]:
    """What this session is told of the wanted kinds, from the moment the server has said so.

    Raises:
        RequestFault, TimeoutError: it does not.
    """
    waiting: asyncio.Queue[Notice] = asyncio.Queue(MAX_NOTICES)
    if session.era is Era.STATELESS:
        async with _stream(session, wanted, talk, waiting):
            yield _taken(waiting, session)
        return
    async with _subscriptions(session, wanted, talk, waiting):
        yield _taken(waiting, session)


@asynccontextmanager
async def _stream(
    session: Session, wanted: JsonObject, talk: Talk, waiting: asyncio.Queue[Notice]
) -> AsyncIterator[None]:
    flight = await session.begin("subscriptions/listen", {"notifications": wanted}, talk=talk)
    acknowledged = asyncio.get_running_loop().create_future()

    def listener(noticed: Noticed) -> None:
        meta = noticed.params.get("_meta")
        if not isinstance(meta, dict) or meta.get(SUBSCRIPTION) != flight.id:
            return
        if noticed.method != _ACKNOWLEDGED:
            _put(waiting, noticed)
        elif not acknowledged.done():
            acknowledged.set_result(None)

    silence = session.listen(listener)
    try:
        async with asyncio.timeout(SUBSCRIBE_SECONDS):
            await asyncio.wait((acknowledged, flight.answer), return_when=asyncio.FIRST_COMPLETED)
        if not acknowledged.done():
            flight.answer.result()
            raise NotAccepted("unacknowledged")
        yield
    finally:
        silence()
        acknowledged.cancel()
        session.give_up(flight, reason="nobody listens")
        session.forget(flight)


@asynccontextmanager
async def _subscriptions(
    session: Session, wanted: JsonObject, talk: Talk, waiting: asyncio.Queue[Notice]
) -> AsyncIterator[None]:
    """Before 2026-07-28 a session hears of lists anyway, and of a resource once it has subscribed to it."""
    uris = wanted.get("resourceSubscriptions")
    watched = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
    kinds = {
        f"notifications/{kind}/list_changed"
        for kind in ("tools", "prompts", "resources")
        if wanted.get(f"{kind}ListChanged") is True
    }

    def listener(noticed: Noticed) -> None:
        is_update = noticed.method == "notifications/resources/updated" and noticed.params.get("uri") in watched
        if is_update or noticed.method in kinds:
            _put(waiting, noticed)

    silence = session.listen(listener)
    try:
        async with asyncio.timeout(SUBSCRIBE_SECONDS):
            for uri in watched:
                await session.request("resources/subscribe", {"uri": uri}, talk=talk)
        yield
    finally:
        silence()  # unsubscribing would take the resource from whoever else of this session watches it


def _put(waiting: asyncio.Queue[Notice], noticed: Noticed) -> None:
    if not waiting.full():
        waiting.put_nowait(Notice(method=noticed.method, params=noticed.params))


async def _taken(waiting: asyncio.Queue[Notice], session: Session) -> AsyncIterator[Notice]:
    """What was told, until the session ends."""
    end = asyncio.ensure_future(session.end.wait())
    try:
        while True:
            told = asyncio.ensure_future(waiting.get())
            try:
                await asyncio.wait((told, end), return_when=asyncio.FIRST_COMPLETED)
            finally:
                told.cancel()
            if not told.done() or told.cancelled():
                return
            yield told.result()
    finally:
        end.cancel()
