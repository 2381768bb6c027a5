"""A gateway in front of one MCP server, as `placet serve` is, for clients that have no credential to show.

python -m tests.mcp_conformance.gateway FOLDER UPSTREAM_URL      prints its own address

The suite sends no credentials and the door takes nobody without one, so one is put into each request before the door
sees it. Everything else of a request arrives as it was sent.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

import placet
from placet import GateSettings, Principal
from placet.bootstrap.relaying import relay_sides
from placet.bootstrap.surroundings import mcp_meter, random_ids, system_clock
from placet.bootstrap.upstreams import live_definitions, mcp_upstream
from placet.errors import ContractError
from placet.mcp_server import METHODS, OUTCOMES, McpDoor, McpServer, Resource
from placet.mcp_server.relay import UpstreamRelay
from placet.model.contract import EffectClass, Risk
from placet.model.issuers import Network
from placet.model.pins import Definition, Pin, Pins
from placet.model.upstreams import Credential, Manifest, Naming, Relayed, StreamableWay, ToolTerms, Upstream
from placet.rules.pins import definition_digest
from placet.rules.upstream_names import contract_name
from placet.rules.upstream_tools import refuse_unservable
from placet.serve.http_server import listening_socket
from placet.serve.mcp_front import mcp_front
from placet.serve.serving import Doors, Serving, serving
from placet.testing import FixedSignIn

TENANT = "acme"
CREDENTIAL = "t-suite"
SUITE = Principal.agent("suite", tenant=TENANT, roles=("operator",))
SETTINGS = GateSettings(lease_seconds=30.0, grace_seconds=0.2, call_seconds=50.0, max_steps=100_000)


def upstream_at(url: str, folder: Path, credential: Credential | None = None) -> Upstream:
    """Nothing but its tools is passed on, and what it has bears its server id: as it is where nothing else is said."""
    return Upstream(
        name="everything",
        way=StreamableWay(url=url, network=Network.LOOPBACK, credential=credential),
        manifest=folder / "everything.toml",
    )


def all_of(upstream: Upstream) -> Upstream:
    """As the suite needs it: everything is passed on, under the names that the suite knows."""
    return replace(upstream, relayed=frozenset(Relayed), naming=Naming.PLAIN)


def harmless(tool: str) -> ToolTerms:
    return ToolTerms(tool=tool, effect=EffectClass.READ, risk=Risk.LOW, permission=None, breaker=None)


def signed_in(app: ASGIApp) -> ASGIApp:
    async def with_credential(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            held = (b"authorization", f"Bearer {CREDENTIAL}".encode())
            scope = {**scope, "headers": [*scope["headers"], held]}
        await app(scope, receive, send)

    return with_credential


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    process: Serving
    gate: placet.Gate
    registry: CollectorRegistry

    @property
    def url(self) -> str:
        return f"{self.process.url}/mcp"


@placet.tool(effect="read")
async def own() -> str:
    """A tool of this gateway's own, which everybody sees."""
    return "own"


@asynccontextmanager
async def gateway(
    folder: Path,
    declared: Upstream,
    terms_of: Callable[[str], ToolTerms] = harmless,
    who: Principal = SUITE,
    described: Sequence[Definition] | None = None,
) -> AsyncIterator[Gateway]:
    """It serves while the block lasts, and what the upstream said of itself before was accepted.

    Args:
        described: that, for whoever has asked already.

    Raises:
        UpstreamUnreachable: there is no such upstream.
    """
    said = await live_definitions(declared) if described is None else described
    definitions = [each for each in said if is_servable(each, terms_of(each.tool))]
    manifest = Manifest(server=declared.name, terms={each.tool: terms_of(each.tool) for each in definitions})
    pins = Pins(pins={(each.server, each.tool): pinned(each) for each in definitions})
    upstream = mcp_upstream(declared, manifest, pins)
    registry = CollectorRegistry()
    opening = placet.open(
        tools=[own],
        upstreams=[upstream],
        store=folder / "placet.db",
        settings=SETTINGS,
        recovery="manual",
        metrics=registry,
    )
    async with opening as gate:
        assert opening.running is not None
        at = listening_socket("127.0.0.1", 0)
        site = f"http://127.0.0.1:{at.getsockname()[1]}"
        relay = UpstreamRelay(gate=gate, sides=relay_sides(opening.running.upstreams))
        mcp = McpServer(
            gate=gate,
            keys=opening.running.keys,
            clock=system_clock(),
            ids=random_ids(),
            meter=mcp_meter(registry, methods=METHODS, outcomes=OUTCOMES),
            version="test",
            audience=f"{site}/mcp",
            relay=relay,
        )
        sign_in = FixedSignIn({CREDENTIAL: who})
        door = McpDoor(mcp, sign_in=sign_in, resource=Resource(site=site, audience=f"{site}/mcp"))
        front = mcp_front(mcp, door, metrics=registry)
        doors = Doors(sign_in=sign_in, metrics=registry, mcp=replace(front, app=signed_in(front.app)))
        async with serving(gate, doors, at, round_seconds=3_600.0) as process:
            yield Gateway(process=process, gate=gate, registry=registry)


def pinned(definition: Definition) -> Pin:
    """Accepted by somebody who accepts everything."""
    return Pin(
        definition=definition,
        digest=definition_digest(definition),
        accepted_by="mara",
        accepted_at=datetime(2026, 7, 1, tzinfo=UTC),
        mac="",
        key_id="",
    )


def is_servable(definition: Definition, terms: ToolTerms) -> bool:
    """Whether a person could accept it at all; what cannot be is hidden, and the others of its server are not."""
    try:
        refuse_unservable(definition, terms, name=contract_name(definition.server, definition.tool))
        return True
    except ContractError:
        return False


async def main(folder: Path, url: str) -> None:
    async with gateway(folder, all_of(upstream_at(url, folder))) as opened:
        process = opened.process
        ending: list[asyncio.Task[bool]] = []
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: ending.append(asyncio.ensure_future(process.end(20.0)))
        )
        print(opened.url, flush=True)
        await process.until_ended()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
