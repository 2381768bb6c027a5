"""MCP servers as tools of a gate: from what the deployment declares and accepted to something a gate is opened with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from placet.bootstrap.joined import Around
from placet.engine.faults import told
from placet.errors import ConfigurationError, NotPinnable, NotSent, UpstreamUnreachable
from placet.model.context import CallContext, CannotTell, ProbeAnswer, ProbeContext
from placet.model.pins import Definition, Drift, Pins
from placet.model.upstreams import Manifest, OpenApiWay, StdioWay, StreamableWay, ToolTerms, Upstream
from placet.rules.contracts import Probe, Tool
from placet.rules.pins import raised
from placet.rules.upstream_names import contract_names
from placet.rules.upstream_probes import refuse_unfit_probe
from placet.rules.upstream_tools import Served, served, tool_of, unfit
from placet.rules.upstream_ways import way_digest
from placet.rules.upstreams import asking_tenant, within_tenants

if TYPE_CHECKING:
    from placet.adapters.transports.mcp.calling import Carrier
    from placet.adapters.transports.mcp.pool import Pool

_log = logging.getLogger("placet.upstreams")
_STARTED: Final = (
    "Start it by hand in that environment: its process has PATH, HOME and a few more variables of yours, and what env "
    "names (--env NAME=VALUE of placet mcp add). connect_seconds in its bounds (--connect-seconds) is how long it may "
    "take."
)
_HINTS: Final = {
    "secret_missing": "A secret that its declaration names as env:NAME or file:PATH is not there for this process.",
    "not_let_in": "The server does not take the credential: look at the secret, or placet mcp login NAME.",
}
_MOST_REMEMBERED: Final = 4_096
HIDDEN: Final = "a tool is hidden, since what a person reads of it is not what a model reads"


def mcp_upstream(upstream: Upstream, manifest: Manifest, pins: Pins) -> McpUpstream:
    """The tools of one MCP server that were accepted and have terms. Nothing is started or connected.

    Raises:
        ConfigurationError: it is no MCP server.
        ContractError: what was accepted, and the terms, do not make a contract.
    """
    return McpUpstream(upstream, manifest, pins)


async def live_definitions(upstream: Upstream, *, tenant: str | None = None) -> tuple[Definition, ...]:
    """What an MCP server says of its tools now, over a session of its own that is ended again.

    Args:
        tenant: whose way in is shown; as `rules.upstreams.asking_tenant` says, if absent.

    Raises:
        UpstreamUnreachable: it cannot be reached or spoken with, or what it says cannot be believed.
    """
    from placet.adapters.clock import SystemClock
    from placet.adapters.transports.mcp.looking import Unseen, look

    reason = ""
    try:
        whose = tenant or asking_tenant(upstream)
        return await look(upstream.name, _way(upstream), whose, bounds=upstream.bounds, clock=SystemClock())
    except Unseen as unseen:
        reason = unseen.reason
    raise UpstreamUnreachable(
        f"The upstream {upstream.name!r} could not be asked for its tools: {reason.replace('_', ' ')}"
        f"{f', after {upstream.bounds.connect_seconds:g} s' if reason == 'too_slow' else ''}.",
        hint=_HINTS.get(reason, _STARTED if isinstance(upstream.way, StdioWay) else None),
    )


class McpUpstream:
    """Fulfils `Joined` for one MCP server."""

    def __init__(self, upstream: Upstream, manifest: Manifest, pins: Pins) -> None:
        from placet.adapters.transports.mcp.calling import Carrier

        self._upstream = upstream
        self._way = _way(upstream)
        self._pins = pins.of(upstream.name)
        self._pool: Pool | None = None
        self._around: Around | None = None
        self._seen: dict[tuple[str, str], None] = {}
        self._drifts: dict[str, Drift] = {}
        self._quarantining: asyncio.Task[None] | None = None
        self._added: frozenset[str] = frozenset()
        self._discovering: asyncio.Task[None] | None = None
        self._carrier = Carrier(upstream.name, pins=self._pins, relayed=upstream.relayed, pool=self._open_pool)
        self._names = contract_names(upstream.name, self._pins)
        self._terms = manifest.terms
        self._tools = tuple(self._tool(each) for each in served(pins, manifest))
        for tool in unfit(pins, manifest):
            _log.warning(HIDDEN, extra={"server": self.name, "tool": self._names[tool], "code": NotPinnable.code})

    @property
    def name(self) -> str:
        return self._upstream.name

    @property
    def declared(self) -> Upstream:
        return self._upstream

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    async def open(self, around: Around) -> None:
        from placet.adapters.transports.mcp.attention import Attention
        from placet.adapters.transports.mcp.links import Terms
        from placet.adapters.transports.mcp.pool import Pool
        from placet.adapters.transports.mcp.ways import way_to

        upstream, way = self._upstream, self._way
        self._around = around
        terms = Terms(
            server=upstream.name,
            pins=self._pins,
            bounds=upstream.bounds,
            relayed=upstream.relayed,
            clock=around.clock,
            drifted=self._drifted,
            unbelievable=self._unbelievable,
            flooded=self._flooded,
            discovered=self._discovered,
        )
        attention = Attention(around.clock.monotonic)
        self._pool = Pool(
            terms,
            statefulness=upstream.statefulness,
            way=lambda tenant: way_to(way, tenant, bounds=upstream.bounds, clock=around.clock, attention=attention),
            meter=around.meter,
        )

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        writing = [task for task in (self._quarantining, self._discovering) if task is not None]
        if writing:
            await asyncio.wait(writing, timeout=self._upstream.bounds.connect_seconds)

    def open_pool(self) -> Pool:
        """The sessions, while the gate is open; for what is relayed besides tools.

        Raises:
            NotSent: it is not open.
        """
        return self._open_pool()

    # ------------------------------------------------------------ within

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise NotSent("The gate is not open.", code="upstream_unavailable")
        return self._pool

    def _tool(self, each: Served) -> Tool:
        terms = within_tenants(each.terms, self._upstream.tenants)
        handler = _handler(self._carrier, each.pin.definition, terms)
        return tool_of(
            each.pin, terms, name=each.name, handler=handler, probe=self._probe(terms), way=way_digest(self._way)
        )

    def _probe(self, terms: ToolTerms) -> Probe | None:
        """None also where what looks is not accepted: a probe that nobody may ask would only look like one.

        Raises:
            ContractError: what looks may change something, or is not asked as it wants to be.
        """
        looks = terms.probe
        pin = None if looks is None else self._pins.get(looks.tool)
        if looks is None or pin is None:
            return None
        refuse_unfit_probe(terms.tool, looks, pin.definition, self._terms.get(looks.tool))
        name = self._names.get(looks.tool, "")

        async def probe(context: ProbeContext) -> ProbeAnswer:
            around = self._around
            if around is None or await around.is_quarantined(name, pin.digest):
                return CannotTell()
            return await self._carrier.probe(looks, context)

        return probe

    def _drifted(self, drift: Drift) -> None:
        """Have it refused everywhere; in this process it is refused already. The store is asked at every look, since a
        person may have accepted the tool again in between; whoever floods us with changes has it asked once at a time.
        """
        if self._around is None:
            return
        self._drifts[drift.tool] = drift
        if self._quarantining is None:
            self._quarantining = asyncio.create_task(self._quarantine_all(self._around))

    async def _quarantine_all(self, around: Around) -> None:
        try:
            while self._drifts:
                _, drift = self._drifts.popitem()
                await self._quarantine(around, drift)
        finally:
            self._quarantining = None

    async def _quarantine(self, around: Around, drift: Drift) -> None:
        is_begun = False
        try:
            is_begun = await around.quarantine(drift)
        except Exception as fault:  # the next look tries again
            _log.error("a tool could not be quarantined", extra={"server": drift.server, **told(fault)})
        if is_begun or (drift.tool, drift.seen) not in self._seen:
            self._alarm(around, drift)

    def _alarm(self, around: Around, drift: Drift) -> None:
        """Once for each other description, and for each quarantine that was begun here."""
        self._seen[(drift.tool, drift.seen)] = None
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        around.meter.drifted(server=drift.server)
        _log.error(
            "an upstream describes a tool otherwise than it was accepted",
            extra={"server": drift.server, "tool": drift.name, "code": "schema_drift"},
        )

    def _discovered(self, added: frozenset[str]) -> None:
        """Have new tools on record, each once; they are hidden anyway. What was added last is looked at after it."""
        if self._around is None or added == self._added:
            return
        self._added = added
        if self._discovering is None:
            self._discovering = asyncio.create_task(self._put_on_record(self._around))

    async def _put_on_record(self, around: Around) -> None:
        try:
            while True:
                added = self._added
                for each in await around.discovered(self._upstream.name, added):
                    for _ in range(each.count):
                        around.meter.discovered(server=self._upstream.name)
                    _log.warning(
                        "an upstream has tools of which nothing is accepted, so they are hidden",
                        extra={
                            "server": self._upstream.name,
                            "mark": each.mark,
                            "count": each.count,
                            "code": "tool_discovered",
                        },
                    )
                if added is self._added:
                    return
        except Exception as fault:  # the next look tries again
            self._added = frozenset()
            _log.error("new tools are not on record", extra={"server": self._upstream.name, **told(fault)})
        finally:
            self._discovering = None

    def _flooded(self) -> None:
        if self._around is not None:
            self._around.meter.flooded(server=self._upstream.name)
        _log.error(
            "an upstream said too much that nobody asked for, so its session was ended",
            extra={"server": self._upstream.name, "code": "flooding"},
        )

    def _unbelievable(self, reason: str) -> None:
        if self._around is not None:
            self._around.meter.unbelievable(server=self._upstream.name)
        _log.error(
            "what an upstream says of its tools cannot be believed, so nothing goes to it",
            extra={"server": self._upstream.name, "code": reason},
        )


def _handler(carrier: Carrier, definition: Definition, terms: ToolTerms) -> Callable[..., Any]:
    effect, _ = raised(terms.effect, terms.risk, definition.annotations)

    async def carry(arguments: dict[str, Any], context: CallContext) -> object:
        return await carrier.call(definition.tool, arguments, context, effect=effect, errors=terms.errors)

    return carry


def _way(upstream: Upstream) -> StdioWay | StreamableWay:
    match upstream.way:
        case StdioWay() | StreamableWay() as way:
            return way
        case OpenApiWay():
            raise ConfigurationError(f"The upstream {upstream.name!r} is no MCP server.")
