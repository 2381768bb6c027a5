"""The ops demo's ticket desk as an upstream, and a process that dies while it asks it. Importable on its own."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.openapi import OpenApiUpstream, openapi_upstream
from placet.engine.gate import Gate
from placet.model.issuers import Network
from placet.model.upstreams import OpenApiWay, Upstream
from placet.rules.manifests import read_manifest

AGENT = placet.Principal.agent("agent", tenant="shop", roles=("operator",), scopes=("desk.ticket.create", "desk.read"))
PERSON = placet.Principal.person(
    "mara", tenant="shop", scopes=("approvals.decide", "effects.reconcile", "effects.read")
)
SETTINGS = placet.GateSettings(lease_seconds=0.3, pause_seconds=0.1, grace_seconds=0.1, recovery_seconds=60.0)

MANIFEST = """
[tools.create_ticket]
effect = "idempotent_write"
risk = "medium"
permission = "desk.ticket.create"
approval = "always"
operation_key = "ticket:{service}:{title}"
resource = "service:{service}"
timeout_seconds = 20
retry = { max_attempts = 3, initial_delay_seconds = 0.01, max_delay_seconds = 0.02 }
remote = { honours_key = true, arrival_bound_seconds = 0.05 }
refusals = [409, 422]

[tools.create_ticket.probe]
tool = "find_tickets"
arguments = { key = { from = "operation_key" } }
items_at = "/body/tickets"
found_if = [{ at = "/key", equals = { from = "operation_key" } }]
complete_below = 2
result_at = ""
reference_at = "/id"

[tools.find_tickets]
effect = "read"
risk = "low"
permission = "desk.read"

[tools.get_ticket]
effect = "sensitive_read"
risk = "medium"
permission = "desk.read"
"""

TICKET: dict[str, Any] = {"title": "Pool is full: 100% ü", "service": "edge", "severity": "sev2", "body": "It waits."}


def document() -> Path:
    return Path(str(files("placet.demos.ops") / "desk.openapi.json"))


def the_desk(url: str, manifest: str = MANIFEST, *, file: Path | None = None, **said: Any) -> OpenApiUpstream:
    way = OpenApiWay(document=file or document(), url=url, network=Network.LOOPBACK, **said)
    upstream = Upstream(name="desk", way=way, manifest=Path("desk.toml"))
    return openapi_upstream(upstream, read_manifest("desk", manifest))


def open_gate(folder: Path | str, upstream: OpenApiUpstream) -> Any:
    return placet.open(
        upstreams=[upstream], store=Path(folder, "placet.db"), settings=SETTINGS, recovery=placet.Recovery.MANUAL
    )


async def proposed(gate: Gate, tool: str, arguments: dict[str, Any], call_id: str = "c1", **more: Any) -> Any:
    proposal = {"call_id": call_id, "tool": f"desk.{tool}", "arguments": arguments}
    return await gate.submit(proposal, principal=AGENT, run="r", **more)


async def approve(gate: Gate, approval_id: str) -> None:
    view = await gate.desk.show(approval_id, by=PERSON)
    await gate.desk.approve(approval_id, digest=view.digest, by=PERSON)


def ask_and_hang(folder: str, url: str) -> None:
    """Have a ticket asked for and approved, and wait for a desk that takes its time: who kills this is the test."""

    async def act() -> None:
        async with open_gate(folder, the_desk(url)) as gate:
            waiting = await proposed(gate, "create_ticket", TICKET)
            await approve(gate, waiting.approval_id)
            await proposed(gate, "create_ticket", TICKET)

    asyncio.run(act())
