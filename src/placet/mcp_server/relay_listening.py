"""What upstreams tell between calls, to the one client that listens: lists that changed, resources that were updated.

Since 2026-07-28 the answer to `subscriptions/listen` is the stream; before, a session subscribes to a resource and
hears of it until it ends. Either way a client hears of what it may see, and what it cannot take in time falls away: a
notice says that something is to be read again, so one of a kind is as good as many.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from placet.mcp_server.carried import Carried, carried_of
from placet.mcp_server.naming import owner_of
from placet.mcp_server.relay_caller import Context
from placet.mcp_server.relay_offers import Offers
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.relaying import Notice
from placet.model.upstreams import Relayed
from placet.ports.relay import RelayRefused, UpstreamSide
from placet.rules.outward_names import OutwardNames

MAX_STREAMS: Final = 1_024
"""Listening clients, and as many subscriptions, of everybody."""
MAX_STREAMS_EACH: Final = 64
"""The same of one principal."""
MAX_URIS: Final = 64
"""Resources that one stream watches."""

REST_SECONDS: Final = 1.0
"""Between two times that one client is told something: before each it is looked at who listens, and a server below can
say that it has changed a thousand times in a second."""
SETTLE_SECONDS: Final = 5.0
"""How long a client waits until its upstreams can be heard; one that is slow is heard later, or not at all."""

Watch = tuple[str, str | None, str]
"""Whose it is, in which session, and of what."""
_UPDATED: Final = "notifications/resources/updated"


class Listening:
    """The streams of one front door. Close it with it."""

    def __init__(self, *, offers: Offers, names: OutwardNames) -> None:
        self._offers = offers
        self._names = names
        self._streams: Counter[str] = Counter()
        self._watching: OrderedDict[Watch, asyncio.Task[None]] = OrderedDict()

    def close(self) -> None:
        """End what goes on in the background; the streams of clients end with their requests."""
        tasks = tuple(self._watching.values())
        self._watching.clear()
        for task in tasks:
            task.cancel()

    # ------------------------------------------------------------ since 2026-07-28

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """One stream: what will be told comes first, then what is told, until the client goes."""
        carried = carried_of(ctx)
        principal, owner = carried.principal, owner_of(carried.principal)
        if self._streams[owner] >= MAX_STREAMS_EACH or self._streams.total() >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, "Too many clients listen.")
        wanted, honoured = self._wanted(principal, params.notifications)
        meta: JsonObject = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams.model_validate(
            {"notifications": honoured, "_meta": meta}
        )
        self._streams[owner] += 1
        try:
            async with self._told(principal, wanted) as told:
                await ctx.session.send_notification(
                    types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
                )
                async for server, notice in told:
                    if not await self._may_hear(carried, server):
                        break
                    outward = self._outward(server, notice, meta)
                    if outward is not None:
                        await ctx.session.send_notification(outward, related_request_id=ctx.request_id)
        finally:
            self._streams -= Counter((owner,))  # none of a principal is no entry
        return types.SubscriptionsListenResult.model_validate({"_meta": meta})

    def _wanted(
        self, principal: Principal, wishes: types.SubscriptionFilter
    ) -> tuple[dict[str, JsonObject], JsonObject]:
        """What is asked of which upstream, and what the client is told that it will hear."""
        wanted: dict[str, JsonObject] = {}
        honoured: JsonObject = {}
        flags = (
            ("promptsListChanged", wishes.prompts_list_changed, Relayed.PROMPTS),
            ("resourcesListChanged", wishes.resources_list_changed, Relayed.RESOURCES),
            ("toolsListChanged", wishes.tools_list_changed, None),
        )
        for name, is_wished, kind in flags:
            if not is_wished:
                continue
            for side in self._offers.offering(principal) if kind is None else self._offers.seen_by(principal, kind):
                wanted.setdefault(side.server, {})[name] = True
                honoured[name] = True
        uris = [uri for uri in (wishes.resource_subscriptions or ())[:MAX_URIS] if self._watchable(principal, uri)]
        for uri in uris:
            server, own = self._names.uri_of(uri) or ("", "")
            own_uris = wanted.setdefault(server, {}).setdefault("resourceSubscriptions", [])
            if isinstance(own_uris, list):
                own_uris.append(own)
        if uris:
            honoured["resourceSubscriptions"] = list(uris)
        return wanted, honoured

    def _watchable(self, principal: Principal, uri: str) -> UpstreamSide | None:
        found = self._names.uri_of(uri)
        return None if found is None else self._offers.side_for(principal, Relayed.RESOURCES, found[0])

    # ------------------------------------------------------------ before

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Tell this session of a resource from now on. A resource that nobody has is never updated."""
        carried = carried_of(ctx)
        uri = str(params.uri)
        if self._watchable(carried.principal, uri) is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri})
        watch = (owner_of(carried.principal), carried.session, uri)
        if watch not in self._watching:
            self._make_room(watch[0])
            task = asyncio.get_running_loop().create_task(self._watch(ctx, carried, uri))
            self._watching[watch] = task
            task.add_done_callback(self._ended(watch))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        carried = carried_of(ctx)
        watching = self._watching.pop((owner_of(carried.principal), carried.session, str(params.uri)), None)
        if watching is not None:
            watching.cancel()
        return types.EmptyResult()

    def _make_room(self, owner: str) -> None:
        """A principal's new watch may cost its own oldest, and nobody else's."""
        own = [watch for watch in self._watching if watch[0] == owner]
        if len(own) >= MAX_STREAMS_EACH:
            self._watching.pop(own[0]).cancel()
        elif len(self._watching) >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, "Too many clients listen.")

    async def _may_hear(self, carried: Carried, server: str) -> bool:
        """Whether it is still the same who stands there, who still sees that upstream, and nobody has stopped it."""
        principal = carried.principal
        if not await carried.is_still() or server in await self._offers.stopped(principal, (server,)):
            return False
        return server in {side.server for side in self._offers.offering(principal)}

    def _ended(self, watch: Watch) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            if self._watching.get(watch) is task:
                del self._watching[watch]
            if not task.cancelled():
                task.exception()  # looked at, and nobody's business: the session is gone

        return ended

    async def _watch(self, ctx: Context, carried: Carried, uri: str) -> None:
        server, own = self._names.uri_of(uri) or ("", "")
        async with self._told(carried.principal, {server: {"resourceSubscriptions": [own]}}) as told:
            async for _, notice in told:
                if not await self._may_hear(carried, server):
                    return
                outward = self._outward(server, notice, None)
                if isinstance(outward, types.ResourceUpdatedNotification):
                    await ctx.session.send_notification(outward)

    # ------------------------------------------------------------ from the upstreams

    @asynccontextmanager
    async def _told(
        self, principal: Principal, wanted: dict[str, JsonObject]
    ) -> AsyncIterator[AsyncIterator[tuple[str, Notice]]]:
        """What these upstreams tell while the block lasts; one that cannot be heard is silent, the others are not."""
        waiting = _Waiting()

        async def hear(side: UpstreamSide, wishes: JsonObject, is_settled: asyncio.Event) -> None:
            try:
                async with side.notices(principal, wishes) as notices:
                    is_settled.set()
                    async for notice in notices:
                        waiting.put(side.server, notice)
                waiting.end()  # who listens again hears it again
            except RelayRefused:
                is_settled.set()

        stopped = await self._offers.stopped(principal, wanted)
        sides = {side.server: side for side in self._offers.offering(principal) if side.server not in stopped}
        settled = {name: asyncio.Event() for name in wanted if name in sides}
        hearing = [asyncio.ensure_future(hear(sides[name], wanted[name], settled[name])) for name in settled]
        try:
            with suppress(TimeoutError):  # who is promised to hear of something hears of it from then on
                async with asyncio.timeout(SETTLE_SECONDS):
                    for event in settled.values():
                        await event.wait()
            yield waiting.taken()
        finally:
            for task in hearing:
                task.cancel()
            await asyncio.gather(*hearing, return_exceptions=True)

    def _outward(self, server: str, notice: Notice, meta: JsonObject | None) -> types.ServerNotification | None:
        """A notice as the client is told it: of its own names, and nothing else that an upstream put into it."""
        params: dict[str, Any] = {} if meta is None else {"_meta": meta}
        if notice.method == _UPDATED:
            uri = notice.params.get("uri")
            if not isinstance(uri, str):
                return None
            params["uri"] = self._names.uri(server, uri)
            return types.ResourceUpdatedNotification.model_validate({"method": _UPDATED, "params": params})
        said = {"method": notice.method, "params": params}
        match notice.method:
            case "notifications/tools/list_changed":
                return types.ToolListChangedNotification.model_validate(said)
            case "notifications/prompts/list_changed":
                return types.PromptListChangedNotification.model_validate(said)
            case "notifications/resources/list_changed":
                return types.ResourceListChangedNotification.model_validate(said)
            case _:
                return None


async def _rest() -> None:
    await asyncio.sleep(REST_SECONDS)  # noqa: TID251  # real time: it is the loop that is spared


class _Waiting:
    """Notices that were not told yet, one of a kind: a flood of the same is one."""

    def __init__(self, *, rest: Callable[[], Awaitable[None]] = _rest) -> None:
        """Args:
        rest: how long whoever was told something is told nothing more.
        """
        self._rest = rest
        self._notices: OrderedDict[tuple[str, str, str], Notice] = OrderedDict()
        self._has_some = asyncio.Event()
        self._has_ended = False

    def end(self) -> None:
        """Nothing more comes of one who was promised to be heard."""
        self._has_ended = True
        self._has_some.set()

    def put(self, server: str, notice: Notice) -> None:
        uri = notice.params.get("uri")
        self._notices[(server, notice.method, uri if isinstance(uri, str) else "")] = notice
        while len(self._notices) > MAX_URIS:
            self._notices.popitem(last=False)
        self._has_some.set()

    async def taken(self) -> AsyncIterator[tuple[str, Notice]]:
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            told, self._notices = self._notices, OrderedDict()
            for (server, _, _), notice in told.items():
                yield server, notice
            if self._has_ended and not self._notices:
                return
            await self._rest()
