"""Resources, prompts and completion of upstreams that may offer them. Nothing is decided here.

What a principal may see of an upstream is decided where its tools are: who sees one of its tools, or has the scope
`relay.NAME`, may read what it offers, if the operator allowed that kind by name. For everybody else, and for a name
that nobody has, the answer is the same. None of it is a governed call: it is passed through, bounded, and never shared
between principals.

Source: CASES K08, L05; ADR 0048.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from placet.engine.gate import Gate
from placet.errors import PlacetError
from placet.mcp_server.carried import carried_of
from placet.mcp_server.relay_caller import ClientCaller, Context, brought_by
from placet.mcp_server.relay_levels import Levels
from placet.mcp_server.relay_record import Record
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.upstreams import Relayed
from placet.ports.relay import RelayRefused, UpstreamSide, calling
from placet.rules import relaying
from placet.rules.outward_names import OutwardNames

MAX_PAGES: Final = 20
MAX_ITEMS: Final = 1_000
"""Of one upstream, in a list."""
MAX_LISTED_WORDS: Final = 262_144
"""Characters of names, titles, descriptions and addresses of all that one upstream lists."""
LIST_SECONDS: Final = 10.0
"""How long a list waits for an upstream; what the others offer does not wait longer."""

_SAID: Final = ("name", "title", "description", "uri", "uri_template", "mime_type")

Item = TypeVar("Item", bound=BaseModel)


class Offers:
    """What upstreams offer besides tools, to the clients of one front door."""

    def __init__(self, *, gate: Gate, sides: Iterable[UpstreamSide], names: OutwardNames, levels: Levels) -> None:
        self._gate = gate
        self._sides: Mapping[str, UpstreamSide] = {side.server: side for side in sides}
        self._names = names
        self._levels = levels

    # ------------------------------------------------------------ who may see what

    def offers(self, kind: Relayed) -> bool:
        """Whether any upstream may offer this at all; if not, it is no capability of this front door."""
        return any(kind in side.relayed for side in self._sides.values())

    def offering(self, principal: Principal) -> tuple[UpstreamSide, ...]:
        """The upstreams that offer anything, and of which this principal may see it."""
        offering = [side for side in self._sides.values() if side.relayed and side.is_for(principal)]
        if not offering:
            return ()
        servers = {contract.origin.server for contract in self._gate.tools_for(principal) if contract.origin}
        return tuple(side for side in offering if side.server in servers or f"relay.{side.server}" in principal.scopes)

    def seen_by(self, principal: Principal, kind: Relayed) -> tuple[UpstreamSide, ...]:
        """The upstreams of which this principal may see what is of this kind."""
        return tuple(side for side in self.offering(principal) if kind in side.relayed)

    def side_for(self, principal: Principal, kind: Relayed, server: str) -> UpstreamSide | None:
        return next((side for side in self.seen_by(principal, kind) if side.server == server), None)

    # ------------------------------------------------------------ whose request it is

    def caller(
        self,
        ctx: Context,
        *,
        server: str,
        params: types.InputResponseRequestParams | None = None,
        tool: str | None = None,
    ) -> ClientCaller:
        """The client of this request, for one upstream.

        Args:
            tool: the tool that the request calls; None where it calls none.
        """
        carried = carried_of(ctx)
        return ClientCaller(
            ctx,
            server=server,
            names_asker=self._names.plain != server,
            log_level=self._levels.of(carried.session),
            given=None if params is None else brought_by(params, server=server),
            record=Record(self._gate, self._sides[server], carried, tool=tool),
        )

    # ------------------------------------------------------------ resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        listed = await self._listed(ctx, Relayed.RESOURCES, "resources/list", "resources", types.Resource)
        return types.ListResourcesResult(
            resources=[item.model_copy(update={"uri": self._names.uri(server, item.uri)}) for server, item in listed]
        )

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        listed = await self._listed(
            ctx, Relayed.RESOURCES, "resources/templates/list", "resourceTemplates", types.ResourceTemplate
        )
        return types.ListResourceTemplatesResult(
            resource_templates=[
                item.model_copy(update={"uri_template": self._names.uri(server, item.uri_template)})
                for server, item in listed
            ]
        )

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        none_such = MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri})
        found = self._names.uri_of(uri)
        if found is None:
            raise none_such
        server, own_uri = found
        result = await self._asked(
            ctx, Relayed.RESOURCES, server, "resources/read", {"uri": own_uri}, params, none_such=none_such
        )
        if isinstance(result, types.InputRequiredResult):
            return result
        read = _valid(types.ReadResourceResult, {"contents": result.get("contents")})
        return types.ReadResourceResult(
            contents=[
                content.model_copy(update={"uri": self._names.uri(server, str(content.uri)), "meta": None})
                for content in read.contents
            ]
        )

    # ------------------------------------------------------------ prompts

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        listed = await self._listed(ctx, Relayed.PROMPTS, "prompts/list", "prompts", types.Prompt)
        return types.ListPromptsResult(
            prompts=[item.model_copy(update={"name": self._names.prompt(server, item.name)}) for server, item in listed]
        )

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        none_such = MCPError(types.INVALID_PARAMS, "There is no such prompt.")
        found = self._names.prompt_of(params.name)
        if found is None:
            raise none_such
        server, name = found
        sent: JsonObject = {"name": name}
        if params.arguments is not None:
            sent["arguments"] = dict(params.arguments)
        result = await self._asked(ctx, Relayed.PROMPTS, server, "prompts/get", sent, params, none_such=none_such)
        if isinstance(result, types.InputRequiredResult):
            return result
        got = _valid(
            types.GetPromptResult, {"messages": result.get("messages"), "description": result.get("description")}
        )
        messages = [
            message.model_copy(update={"content": self.outward_block(server, message.content)})
            for message in got.messages
        ]
        return types.GetPromptResult(messages=messages, description=got.description)

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        none_such = MCPError(types.INVALID_PARAMS, "There is no such prompt or resource.")
        is_prompt = isinstance(params.ref, types.PromptReference)
        found = (
            self._names.prompt_of(params.ref.name)
            if isinstance(params.ref, types.PromptReference)
            else self._names.uri_of(params.ref.uri)
        )
        if found is None:
            raise none_such
        server, own = found
        sent = params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})
        sent["ref"] = {"type": "ref/prompt", "name": own} if is_prompt else {"type": "ref/resource", "uri": own}
        result = await self._asked(
            ctx, Relayed.COMPLETION, server, "completion/complete", sent, None, none_such=none_such
        )
        assert not isinstance(result, types.InputRequiredResult)  # noqa: S101  without params nothing is left to ask
        return _valid(types.CompleteResult, {"completion": result.get("completion")})

    # ------------------------------------------------------------ to the upstreams

    def outward_block(self, server: str, block: types.ContentBlock) -> types.ContentBlock:
        """A content block of an upstream as its client sees it: a resource bears the address it can be read from."""
        match block:
            case types.EmbeddedResource(resource=resource):
                named = resource.model_copy(update={"uri": self._names.uri(server, str(resource.uri)), "meta": None})
                return block.model_copy(update={"resource": named, "meta": None})
            case types.ResourceLink():
                return block.model_copy(update={"uri": self._names.uri(server, str(block.uri)), "meta": None})
            case _:
                return block.model_copy(update={"meta": None})

    async def _asked(
        self,
        ctx: Context,
        kind: Relayed,
        server: str,
        method: str,
        sent: JsonObject,
        params: types.InputResponseRequestParams | None,
        *,
        none_such: MCPError,
    ) -> JsonObject | types.InputRequiredResult:
        """One request to one upstream. What is hidden, and what the upstream does not know, are answered alike."""
        principal = carried_of(ctx).principal
        side = self.side_for(principal, kind, server)
        if side is None or server in await self.stopped(principal, (server,)):
            raise none_such
        caller = self.caller(ctx, server=server, params=params)
        await caller.bring()
        refused: RelayRefused | None = None
        result: JsonObject = {}
        try:
            with calling(caller):
                result = await side.request(principal, method, sent)
        except RelayRefused as refusal:
            refused = refusal
        if params is not None and (question := await caller.answer({})) is not None:
            return question
        if refused is None:
            return result
        if refused.refusal.code in relaying.NOT_THERE:
            raise none_such
        raise MCPError(types.INTERNAL_ERROR, "The server behind this did not answer.")

    async def stopped(self, principal: Principal, servers: Iterable[str]) -> frozenset[str]:
        """Those of them that an operator has stopped for this principal; all of them where nobody can say."""
        asked = frozenset(servers)
        try:
            stops = await self._gate.store.stops()
        except PlacetError:
            return asked
        return frozenset(
            server for server in asked if not relaying.halting_scopes(principal.tenant, server).isdisjoint(stops)
        )

    async def _listed(
        self, ctx: Context, kind: Relayed, method: str, member: str, item_type: type[Item]
    ) -> list[tuple[str, Item]]:
        """Everything of a kind that this principal may see, in the order of the declarations."""
        principal = carried_of(ctx).principal
        seen = self.seen_by(principal, kind)
        stopped = await self.stopped(principal, (side.server for side in seen))
        sides = [side for side in seen if side.server not in stopped]
        lists = await asyncio.gather(*(_pages(side, principal, method, member, item_type) for side in sides))
        return [(side.server, item) for side, listed in zip(sides, lists, strict=True) for item in listed]


async def _pages(
    side: UpstreamSide, principal: Principal, method: str, member: str, item_type: type[Item]
) -> list[Item]:
    """What one upstream lists, as far as it answers in time; one that does not is left out, and the others are not.

    Of one that lists more than `MAX_ITEMS`, or says more about them than `MAX_LISTED_WORDS`, the beginning. What hides
    something is left out.
    """
    found: list[Item] = []
    words = 0
    seen: set[str] = set()
    sent: JsonObject = {}
    try:
        async with asyncio.timeout(LIST_SECONDS):
            for _ in range(MAX_PAGES):
                page = await side.request(principal, method, sent)
                items, cursor = page.get(member), page.get("nextCursor")
                for value in items[:MAX_ITEMS] if isinstance(items, list) else ():
                    if (item := _item(item_type, value)) is None:
                        continue
                    said = _words_of(item)
                    own = sum(map(len, said))
                    if words + own > MAX_LISTED_WORDS:
                        return found
                    if all(map(relaying.is_presentable, said)):
                        words += own
                        found.append(item)
                if not isinstance(cursor, str) or cursor in seen or len(found) >= MAX_ITEMS:
                    break
                seen.add(cursor)
                sent = {"cursor": cursor}
    except (RelayRefused, TimeoutError):
        pass
    return found[:MAX_ITEMS]


def _item(item_type: type[Item], value: object) -> Item | None:
    """One entry of a list, if it is whole. Pictures are left out: whoever shows them fetches them."""
    try:
        item = item_type.model_validate(value)
    except ValidationError:
        return None
    return item.model_copy(update={"icons": None, "meta": None})


def _words_of(item: object) -> list[str]:
    said = [getattr(item, name, None) for name in _SAID]
    said += [getattr(getattr(item, "annotations", None), "last_modified", None)]
    said += [getattr(argument, name, None) for argument in getattr(item, "arguments", None) or () for name in _SAID]
    return [str(words) for words in said if words is not None]


def _valid(kind: type[Item], said: Mapping[str, object]) -> Item:
    """
    Raises:
        MCPError: an upstream said something else.
    """
    try:
        return kind.model_validate(said)
    except ValidationError:
        pass
    raise MCPError(types.INTERNAL_ERROR, "The server behind this gave no answer that can be passed on.")
