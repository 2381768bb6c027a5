"""What upstreams may say to the clients of this front door besides their tools' results, put together.

    kind          methods answered, where some upstream's `allow` names the kind
    resources     resources/list, resources/templates/list, resources/read, resources/subscribe, resources/unsubscribe
    prompts       prompts/list, prompts/get
    completion    completion/complete
    logging       logging/setLevel, and the upstream's messages during a call
    elicitation, sampling, roots     questions of an upstream during a request, to its client alone
    resources or prompts             subscriptions/listen

Everything else is no method here, and no capability is declared for it.

Source: ADR 0048; DESIGN section 17.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel

from placet.engine.gate import Gate
from placet.errors import ConfigurationError
from placet.mcp_server.carried import Carried
from placet.mcp_server.relay_caller import ClientCaller, Context, kept_in
from placet.mcp_server.relay_levels import Levels
from placet.mcp_server.relay_listening import Listening
from placet.mcp_server.relay_offers import Offers
from placet.model.contract import Contract
from placet.model.json import JsonObject
from placet.model.outcome import Outcome
from placet.model.principal import Principal
from placet.model.upstreams import Naming, Relayed
from placet.ports.relay import UpstreamSide, calling
from placet.rules import relaying
from placet.rules.outward_names import SCHEME, outward_names

_WORDS = ("name", "title", "description")


class UpstreamRelay:
    """Passes on what the operator allowed by name, and nothing else. Close it with its front door.

    Raises:
        ConfigurationError: a client would know two things by one name.
    """

    def __init__(self, *, gate: Gate, sides: Iterable[UpstreamSide]) -> None:
        sides = tuple(sides)
        plain = [side.server for side in sides if side.naming is Naming.PLAIN]
        if plain and len(sides) > 1:
            raise ConfigurationError(
                f"The upstream {plain[0]!r} keeps its own names, and there are others whose names might be the same.",
                hint='Take naming = "plain" from it.',
            )
        self._names = outward_names(gate.contracts, plain=plain[0] if plain else None)
        self._sides = {side.server: side for side in sides}
        self._gate = gate
        self._levels = Levels()
        self._offers = Offers(gate=gate, sides=sides, names=self._names, levels=self._levels)
        self._listening = Listening(offers=self._offers, names=self._names)

    def close(self) -> None:
        """End what goes on between requests."""
        self._listening.close()

    def offers_to(self, principal: Principal) -> bool:
        """Whether this principal may see anything that an upstream offers."""
        return bool(self._offers.offering(principal))

    # ------------------------------------------------------------ names

    def outward(self, contract: Contract) -> str:
        """What the tool is called outside."""
        return self._names.tool(contract)

    def inward(self, name: str) -> str:
        """What the tool of this name is called here; the name itself where it means none."""
        return self._names.contract(name) or name

    # ------------------------------------------------------------ methods

    def join(self, server: Server[Any]) -> None:
        """Answer for the methods that some upstream allows; capabilities follow from that."""
        offers, listening = self._offers, self._listening

        def answer(method: str, params: type[BaseModel], handler: Callable[..., Any]) -> None:
            server.add_request_handler(method, params, handler)

        if offers.offers(Relayed.RESOURCES):
            answer("resources/list", types.PaginatedRequestParams, offers.list_resources)
            answer("resources/templates/list", types.PaginatedRequestParams, offers.list_templates)
            answer("resources/read", types.ReadResourceRequestParams, offers.read_resource)
            answer("resources/subscribe", types.SubscribeRequestParams, listening.subscribe)
            answer("resources/unsubscribe", types.UnsubscribeRequestParams, listening.unsubscribe)
        if offers.offers(Relayed.PROMPTS):
            answer("prompts/list", types.PaginatedRequestParams, offers.list_prompts)
            answer("prompts/get", types.GetPromptRequestParams, offers.get_prompt)
        if offers.offers(Relayed.COMPLETION):
            answer("completion/complete", types.CompleteRequestParams, offers.complete)
        if offers.offers(Relayed.LOGGING):
            with warnings.catch_warnings():  # the revisions that have levels are served too
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                answer("logging/setLevel", types.SetLevelRequestParams, self._levels.set_level)
        if offers.offers(Relayed.RESOURCES) or offers.offers(Relayed.PROMPTS):
            answer("subscriptions/listen", types.SubscriptionsListenRequestParams, listening.listen)

    # ------------------------------------------------------------ calls

    @contextmanager
    def calling_for(self, ctx: Context, carried: Carried) -> Iterator[Talking]:
        """The client of one call, for as long as the call lasts; heard by the upstream of that tool alone."""
        name = carried.params.get("name")
        contract = self._gate.tool_for(self.inward(name), carried.principal) if isinstance(name, str) else None
        if contract is None or contract.origin is None or contract.origin.server not in self._sides:
            yield Talking(None)
            return
        params = types.CallToolRequestParams.model_validate(ctx.params)
        caller = self._offers.caller(ctx, server=contract.origin.server, params=params, tool=contract.name)
        with calling(caller):
            yield Talking(caller)

    def kept(self, request_state: str) -> JsonObject:
        """What was kept for a client that comes back with an upstream's question.

        Raises:
            MCPError: it is no such state.
        """
        kept = kept_in(request_state)
        if kept is None:
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState")
        return kept

    def outward_content(self, contract: Contract, content: list[Any]) -> list[Any]:
        """The content of a tool's result, its resources under the addresses they can be read from here. What cannot be
        read keeps the upstream's own address, unless that looks like one of ours, and so like somebody else's.
        """
        origin = contract.origin
        if origin is None or origin.server == self._names.plain or origin.server not in self._sides:
            return content
        is_read_here = Relayed.RESOURCES in self._sides[origin.server].relayed
        return [
            self._outward_block(origin.server, block) if is_read_here or _looks_like_ours(block) else block
            for block in map(_drawn, content)
        ]

    def _outward_block(self, server: str, block: Any) -> Any:
        match block:
            case {"type": "resource_link", "uri": str(uri)}:
                return {**block, "uri": self._names.uri(server, uri)}
            case {"type": "resource", "resource": {"uri": str(uri)}}:
                return {**block, "resource": {**block["resource"], "uri": self._names.uri(server, uri)}}
            case _:
                return block


def _drawn(block: Any) -> Any:
    """A link without the words that hide something from whoever reads them, as in a list; its name is then no word."""
    match block:
        case {"type": "resource_link"}:
            hiding = {name for name in _WORDS if not relaying.is_presentable(block.get(name) or "")}
            drawn = {member: said for member, said in block.items() if member not in hiding}
            return {**drawn, "name": ""} if "name" in hiding else drawn
        case _:
            return block


def _looks_like_ours(block: Any) -> bool:
    match block:
        case {"type": "resource_link", "uri": str(uri)} | {"type": "resource", "resource": {"uri": str(uri)}}:
            return uri.lower().startswith(SCHEME)
        case _:
            return False


class Talking:
    """What the upstream of one call made known to its client in place of a result."""

    def __init__(self, caller: ClientCaller | None) -> None:
        self._caller = caller

    async def bring(self) -> None:
        """Put on record what the client came back with, before the call goes on.

        Raises:
            MCPError: it cannot be put on record, so the call does not go on.
        """
        if self._caller is not None:
            await self._caller.bring()

    async def answer(self, outcome: Outcome, kept: JsonObject) -> dict[str, Any] | None:
        """What the client is answered in place of the outcome, if the upstream wants to know something first.

        Args:
            kept: what the client has to bring back, so that its coming back is the same call.

        Raises:
            MCPError: the client lacks what the upstream needs of it.
        """
        if self._caller is None or outcome.is_success:
            return None
        question = await self._caller.answer(kept)
        return None if question is None else question.model_dump(by_alias=True, mode="json", exclude_none=True)
