"""`tools/call`: through the gate, and on to a person where one has to say so first.

    submit ─► AwaitingApproval ─┬─ a client that can be sent to a page: input_required, with the page and sealed state
                                │       comes back with it ─► wait for the answer ─► submit again, or once more
                                └─ any other: pending, with the page and what to send along to ask again
                                        asks again ─► wait for the answer ─► submit again, or pending

What a client answers to being sent there is no approval, whatever it is: people decide in the console, signed in as
themselves. A question that has ended is said to have ended; only a new call asks anew.

The call runs in a task of its own. A client that cancels ends the waiting at once, and the gate closes the attempt; the
SDK's way of cancelling, over and over until its own scope is left, never reaches the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, CallToolRequestParams, ErrorData
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from placet.engine import replies
from placet.engine.gate import Gate
from placet.engine.waiting_room import WaitingRoom
from placet.errors import NotFound, PlacetError
from placet.mcp_server.carried import Carried, carried_of
from placet.mcp_server.listing import Listing
from placet.mcp_server.naming import MetaMalformed, Namer, Names
from placet.mcp_server.progressing import Reporter
from placet.mcp_server.relaying import Relay, Talking
from placet.mcp_server.rendering import Wire, malformed_meta, meta_of, rendered, unknown_tool
from placet.mcp_server.reopening import Reopened
from placet.mcp_server.settings import McpSettings
from placet.mcp_server.state import Round, round_from
from placet.mcp_server.tracing import here, resumed
from placet.model.approval import ApprovalState
from placet.model.call_progress import ProgressListener
from placet.model.contract import Contract
from placet.model.json import JsonObject
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.waking import approvals_topic
from placet.ports.clock import Clock

_ENDED: Final = {
    ApprovalState.EXPIRED: "approval_expired",
    ApprovalState.WITHDRAWN: "approval_withdrawn",
    ApprovalState.REVOKED: "approval_withdrawn",
}
_ANSWER: Final = "approval"
_ASKED: Final = (
    "A person has to approve exactly this call. Open the page, sign in there and decide, or have it decided."
)
Context = ServerRequestContext[Any, Any]


class NobodyThere(Exception):
    """Whoever waited is not who it was any more."""


class Calls:
    """The calls of one front door."""

    def __init__(
        self,
        *,
        gate: Gate,
        listing: Listing,
        namer: Namer,
        reopened: Reopened,
        waiting: WaitingRoom,
        clock: Clock,
        settings: McpSettings,
        pages: str | None,
        relay: Relay | None,
    ) -> None:
        """Args:
        pages: where people decide: the address before an approval's id; None where nobody was told.
        """
        self._gate = gate
        self._listing = listing
        self._namer = namer
        self._reopened = reopened
        self._waiting = waiting
        self._clock = clock
        self._settings = settings
        self._pages = pages
        self._relay = relay
        self._running: set[asyncio.Task[Any]] = set()

    async def answer(self, ctx: Context, params: CallToolRequestParams) -> Wire | ErrorData:
        """What becomes of one call."""
        carried = carried_of(ctx)
        said, arguments = carried.params.get("name"), carried.params.get("arguments")
        name = said if type(said) is str else ""
        if self._relay is not None:
            name = self._relay.inward(name)
        arguments = {} if arguments is None else arguments
        contract = self._gate.tool_for(name, carried.principal)
        if contract is not None and not self._listing.is_listable(contract):
            return unknown_tool()
        known = None if params.request_state is None else round_from(params.request_state)
        kept: JsonObject = {}
        if known is None and params.request_state is not None:
            if self._relay is None:
                return ErrorData(code=INVALID_PARAMS, message="Invalid or expired requestState")
            kept = self._relay.kept(params.request_state)
        try:
            names = known.names if known is not None else await self._named(carried, kept, name, arguments)
        except MetaMalformed as malformed:
            return malformed_meta(malformed.member)
        call = _OneCall(self, ctx, carried, contract, name, arguments, names)
        tool = "unknown" if contract is None else contract.name
        run = names.run if self._namer.has_named(names.run, principal=carried.principal) else None
        with resumed(names.trace, tool=tool, run=run, how=self._settings.resumed_traces):
            return await self._told(ctx, carried, call, known, _has_declined(params))

    async def _told(
        self, ctx: Context, carried: Carried, call: _OneCall, known: Round | None, has_declined: bool
    ) -> Wire | ErrorData:
        with self._talking(ctx, carried) as talking:
            if "progressToken" not in carried.meta:
                return await call.answered(known, has_declined, talking)
            reporter = Reporter(ctx, clock=self._clock, every_seconds=self._settings.progress_seconds)
            call.told = reporter.heard
            async with reporter.until_answered():
                return await call.answered(known, has_declined, talking)

    async def _named(self, carried: Carried, kept: JsonObject, tool: str, arguments: JsonObject) -> Names:
        meta, principal, reopened = carried.meta | kept, carried.principal, None
        if not self._namer.knows(meta, principal=principal, tool=tool, arguments=arguments):
            reopened = await self._reopened.run_of(tool, arguments, principal=principal)
        names = self._namer.names_of(
            meta,
            principal=principal,
            session=carried.session,
            tool=tool,
            arguments=arguments,
            reopened=reopened,
        )
        if reopened is not None:  # whatever becomes of this repeat: its client may give it up, and ask once more
            self._namer.remember(names, principal=principal, tool=tool, arguments=arguments)
            self._reopened.met(tool, arguments, principal=principal)
        return names

    def _talking(self, ctx: Context, carried: Carried) -> AbstractContextManager[Talking | None]:
        return nullcontext() if self._relay is None else self._relay.calling_for(ctx, carried)

    def page_of(self, approval_id: str) -> str | None:
        return None if self._pages is None else f"{self._pages}{approval_id}"

    async def apart(self, work: Any) -> Any:
        """What a task of its own answers. Whoever is cancelled meanwhile leaves at once; the task is cancelled once."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_heard)
            raise


class _OneCall:
    """One `tools/call` on its way.

    Attributes:
        told: hears how far it is; None where its client does not want to.
    """

    def __init__(
        self,
        calls: Calls,
        ctx: Context,
        carried: Carried,
        contract: Contract | None,
        tool: str,
        arguments: JsonObject,
        names: Names,
    ) -> None:
        self._calls = calls
        self._ctx = ctx
        self._carried = carried
        self._contract = contract
        self._tool = tool
        self._arguments = arguments
        self._names = names
        self.told: ProgressListener | None = None

    async def answered(self, known: Round | None, has_declined: bool, talking: Talking | None) -> Wire | ErrorData:
        ended = await self._ended()
        if ended is not None:
            return self._rendered(ended)
        if talking is not None:
            await talking.bring()
        outcome = await self._submitted()
        if isinstance(outcome, AwaitingApproval) and not has_declined and await self._is_asked_again(outcome):
            try:
                outcome = await self._waited(outcome)
            except NobodyThere:
                return ErrorData(code=INVALID_REQUEST, message="The credential is not good any more. Sign in again.")
        if self._names.trace is None:
            self._names = replace(self._names, trace=here())  # of whoever asks again
        self._remember(outcome)
        if talking is not None and (instead := await talking.answer(outcome, self._names.as_meta())) is not None:
            return instead
        number = 1 if known is None else known.number + 1
        if isinstance(outcome, AwaitingApproval) and not has_declined and self._can_be_sent(number):
            return self._sent_to_page(outcome, number)
        return self._rendered(outcome)

    async def _submitted(self) -> Outcome:
        names = self._names
        proposal = {"call_id": names.call_id, "tool": self._tool, "arguments": self._arguments}
        outcome: Outcome = await self._calls.apart(
            self._calls._gate.submit_listed(
                proposal,
                principal=self._carried.principal,
                run=names.run,
                request_id=self._carried.request_id,
                idempotency_key=names.key,
                on_progress=self.told,
            )
        )
        return outcome

    # ------------------------------------------------------------ a person's answer

    async def _ended(self) -> Outcome | None:
        """What is said of a question that the caller asks after and that nobody can answer any more. Asking on would
        ask a person anew, which nobody wanted."""
        if self._names.approval is None:
            return None
        view = await self._question(self._names.approval)
        code = None if view is None else _ENDED.get(view)
        if code is None:
            return None
        tool = self._contract.name if self._contract is not None else "unknown"
        return replies.refused(code, call_id=self._names.call_id, tool=tool)

    async def _is_asked_again(self, outcome: AwaitingApproval) -> bool:
        """Whether the question was there before this very call."""
        if self._names.approval == outcome.approval_id:
            return True
        gate, by = self._calls._gate, self._carried.principal
        try:
            view = await gate.questions.show(outcome.approval_id, by=by)
            return view.call_id != self._names.call_id
        except PlacetError:
            return False

    async def _waited(self, outcome: AwaitingApproval) -> Outcome:
        """The outcome of asking again once there is an answer; the same where there is none in time, or no place.

        Raises:
            NobodyThere: whoever asks has lost its credential meanwhile.
        """
        calls, by = self._calls, self._carried.principal

        async def look() -> ApprovalState | None:
            return await self._question(outcome.approval_id)

        with suppress(NoPlace), calls._waiting.place_of(by):
            seen = await calls._waiting.until(
                look,
                lambda state: state is not ApprovalState.PENDING,
                topic=approvals_topic(by.tenant),
                seconds=calls._settings.wait_seconds,
            )
            if seen is ApprovalState.PENDING:
                return outcome
            if not await self._carried.is_still():  # what was revoked while it waited runs nothing
                raise NobodyThere
            ended = None if seen is None else _ENDED.get(seen)
            if ended is not None:
                return replies.refused(ended, call_id=self._names.call_id, tool=outcome.tool)
            return await self._submitted()
        return outcome

    async def _question(self, approval_id: str) -> ApprovalState | None:
        """Where a question of the caller's own stands; None where there is none. What cannot be looked at has not
        changed, for all that is known."""
        try:
            return (await self._calls._gate.questions.show(approval_id, by=self._carried.principal)).state
        except NotFound:
            return None
        except PlacetError:
            return ApprovalState.PENDING

    def _remember(self, outcome: Outcome) -> None:
        namer, who = self._calls._namer, self._carried.principal
        if isinstance(outcome, AwaitingApproval):
            namer.remember(self._names, principal=who, tool=self._tool, arguments=self._arguments)
        else:
            namer.forget(principal=who, tool=self._tool, arguments=self._arguments)

    # ------------------------------------------------------------ the answer

    def _can_be_sent(self, number: int) -> bool:
        """Whether the client said that it can open a page, of those clients that are answered so."""
        if self._calls._pages is None or number > self._calls._settings.max_rounds:
            return False
        if self._ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return False
        capabilities = self._ctx.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        return elicitation is not None and elicitation.url is not None

    def _sent_to_page(self, outcome: AwaitingApproval, number: int) -> Wire:
        asked = {"mode": "url", "message": _ASKED, "url": self._calls.page_of(outcome.approval_id)}
        names = replace(self._names, approval=outcome.approval_id)
        return {
            "resultType": "input_required",
            "inputRequests": {_ANSWER: {"method": "elicitation/create", "params": asked}},
            "requestState": Round(names=names, number=number).as_text(),
            "_meta": meta_of(outcome, names, self._calls.page_of(outcome.approval_id)),
        }

    def _rendered(self, outcome: Outcome) -> Wire | ErrorData:
        page = self._calls.page_of(outcome.approval_id) if isinstance(outcome, AwaitingApproval) else None
        return rendered(outcome, self._contract, self._names, page=page, relay=self._calls._relay)


class NoPlace(Exception):
    """As many wait as may; whoever comes now is answered at once."""


def _has_declined(params: CallToolRequestParams) -> bool:
    """Whether the client says that nobody was sent to the page. That nobody refused counts for nothing."""
    responses: Mapping[str, Any] = params.input_responses or {}
    action = getattr(responses.get(_ANSWER), "action", None)
    return action in ("decline", "cancel")


def _heard(task: asyncio.Task[Any]) -> None:
    """Take note of how it ended, since nobody else will."""
    if not task.cancelled():
        task.exception()
