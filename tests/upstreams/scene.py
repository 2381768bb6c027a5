"""A server process of our own, a gate in front of it, and what the two are seen to do."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.joined import Around, Joined
from placet.bootstrap.upstreams import McpUpstream, mcp_upstream
from placet.model.contract import EffectClass, Remote, RetryPolicy, Risk
from placet.model.issuers import Network
from placet.model.pins import Definition, Drift, Pin, Pins
from placet.model.upstreams import (
    Condition,
    Manifest,
    ProbeTerms,
    ProbeValue,
    Statefulness,
    StdioWay,
    StreamableWay,
    ToolTerms,
    Upstream,
    UpstreamBounds,
    ValueSource,
)
from placet.rules.pins import definition_digest
from tests.places import for_sockets
from tests.upstreams.servers.brain import TOOLS

SERVERS = Path(__file__).parent / "servers"
LONGEST_SECONDS = 30.0
AGENT = placet.Principal(
    subject="agent", tenant="north", roles=frozenset({placet.Role.ADMIN}), scopes=frozenset({"notes.write"})
)
OTHER = replace(AGENT, subject="other")
SOUTH = replace(AGENT, tenant="south")

_BY_KEY = ProbeTerms(
    tool="notes",
    arguments={},
    items_at="/notes",
    found_if=(Condition(at="/key", equals=ProbeValue(source=ValueSource.OPERATION_KEY)),),
    complete_below=1_000,
)


def _reads(tool: str, **more: Any) -> ToolTerms:
    return ToolTerms(tool=tool, effect=EffectClass.READ, risk=Risk.LOW, permission=None, **more)


def _writes(tool: str, **more: Any) -> ToolTerms:
    return ToolTerms(
        tool=tool, effect=EffectClass.WRITE, risk=Risk.MEDIUM, permission="notes.write",
        remote=Remote(arrival_bound_seconds=0.01), **more,
    )  # fmt: skip


TERMS = {
    each.tool: each
    for each in (
        _reads("echo"),
        _reads("ponder", retry=RetryPolicy(max_attempts=1)),
        _reads("notes"),
        _reads("read", retry=RetryPolicy(max_attempts=1)),
        _writes("note", probe=_BY_KEY),
        _writes("hold", probe=_BY_KEY),
        _writes("say"),
    )
}


class Server:
    """Told what to do, and asked what it saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.control = Path(tempfile.mkdtemp(prefix="c", dir=for_sockets())) / "c"  # a test's own may be too long

    def lines(self, what: str = "") -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        read = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [each for each in read if not what or each["what"] == what]

    def heard(self, method: str) -> list[dict[str, Any]]:
        return [each["message"] for each in self.lines("heard") if each["message"].get("method") == method]

    def do(self, order: str, **how: Any) -> None:
        """To the process that was started last."""
        place = self.lines("started")[-1].get("control") or str(self.control)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LONGEST_SECONDS)
            connection.connect(place)
            connection.sendall(json.dumps({"do": order, **how}).encode() + b"\n")
            connection.recv(16)

    @property
    def process(self) -> int:
        return int(self.lines("started")[-1]["pid"])


def over_stdio(server: Server, era: str = "handshake", **more: Any) -> Upstream:
    way = StdioWay(
        command=sys.executable,
        args=(str(SERVERS / "stdio_server.py"), str(server.journal), f"{server.control}.PID", era),
        folder=server.folder,
        **more.pop("way", {}),
    )
    return _upstream(way, server, **more)


def over_http(server: Server, **more: Any) -> Upstream:
    port = server.lines("started")[0]["port"]
    way = StreamableWay(url=f"http://127.0.0.1:{port}/mcp", network=Network.LOOPBACK, **more.pop("way", {}))
    return _upstream(way, server, **more)


def _upstream(way: StdioWay | StreamableWay, server: Server, **more: Any) -> Upstream:
    name = more.pop("name", "desk")
    bounds = UpstreamBounds(**more.pop("bounds", {}))
    more.setdefault("statefulness", Statefulness.STATELESS)
    return Upstream(name=name, way=way, manifest=server.folder / "manifest.toml", bounds=bounds, **more)


@contextmanager
def http_server(server: Server, era: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "http_server.py"), str(server.journal), str(server.control), era]
    )
    try:
        wait_until(lambda: bool(server.lines("started")))
        yield
    finally:
        process.kill()
        process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    """For what happens in another process; bounded, and never the subject."""
    import time

    until = time.monotonic() + LONGEST_SECONDS
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while not holds():
            await asyncio.sleep(0.005)


def pinned(definitions: tuple[Definition, ...]) -> Pins:
    """As if a person had accepted all of them; MACs are the subject of other tests."""
    made = {
        (each.server, each.tool): Pin(
            definition=each, digest=definition_digest(each), accepted_by="ann",
            accepted_at=datetime(2026, 1, 1, tzinfo=UTC), mac="", key_id="",
        )
        for each in definitions
    }  # fmt: skip
    return Pins(pins=made)


def accepted(server: str = "desk") -> tuple[Definition, ...]:
    """What the servers here have before they are told otherwise."""
    return tuple(
        Definition(
            server=server, tool=each["name"], title=None, description=each["description"],
            input_schema=each["inputSchema"], output_schema=each.get("outputSchema"),
            annotations=each.get("annotations", {}),
        )
        for each in TOOLS
    )  # fmt: skip


def joined(upstream: Upstream, **terms: ToolTerms) -> McpUpstream:
    """What servers here have is what was accepted of this one."""
    manifest = Manifest(server=upstream.name, terms={**TERMS, **terms})
    return mcp_upstream(upstream, manifest, pinned(accepted(upstream.name)))


class Overheard:
    """An upstream, and what it has quarantined: done, or tried in vain, when it is in the list."""

    def __init__(self, inner: McpUpstream, *, fault: Exception | None = None) -> None:
        self._inner = inner
        self._fault = fault
        self.drifts: list[Drift] = []
        self.name, self.tools = inner.name, inner.tools

    async def open(self, around: Around) -> None:
        async def quarantine(drift: Drift) -> bool:
            is_begun = await around.quarantine(drift) if self._fault is None else False
            self.drifts.append(drift)
            if self._fault is not None:
                raise self._fault
            return is_begun

        await self._inner.open(replace(around, quarantine=quarantine))

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def gate_with(*upstreams: Joined, **options: Any) -> AsyncIterator[placet.Gate]:
    options.setdefault("store", placet.MEMORY)
    async with placet.open(upstreams=upstreams, recovery="manual", **options) as gate:
        yield gate


async def submit(
    gate: placet.Gate,
    tool: str,
    text: str | None = "hello",
    *,
    by: placet.Principal = AGENT,
    call: str = "c-1",
    seconds: float | None = None,
    key: str | None = None,
) -> placet.Outcome:
    return await gate.submit(
        proposal(tool, text, call_id=call), principal=by, run=f"run of {by.subject}", timeout_seconds=seconds,
        idempotency_key=key,
    )  # fmt: skip


def proposal(tool: str, text: str | None = "hello", *, call_id: str = "c-1") -> placet.Proposal:
    arguments = {} if text is None else {"text": text}
    return placet.Proposal(call_id=call_id, tool=tool, arguments=json.dumps(arguments).encode())
