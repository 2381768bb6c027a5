"""Roundup as an upstream, and a process that dies while it asks it. Importable on its own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import placet
from placet.bootstrap.openapi import OpenApiUpstream, openapi_upstream
from placet.engine.gate import Gate
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import Credential, CredentialForm, OpenApiWay, Upstream
from placet.rules.manifests import read_manifest

AGENT = placet.Principal.agent("agent", tenant="shop", roles=("operator",), scopes=("tracker.create", "tracker.read"))
PERSON = placet.Principal.person(
    "mara", tenant="shop", scopes=("approvals.decide", "effects.reconcile", "effects.read")
)
SETTINGS = placet.GateSettings(lease_seconds=0.3, pause_seconds=0.1, grace_seconds=0.1, recovery_seconds=60.0)
PASSWORD = "ROUNDUP_PASSWORD"

MANIFEST = """
[tools.create_issue]
effect = "write"
risk = "medium"
permission = "tracker.create"
approval = "always"
operation_key = "issue:{title}"
timeout_seconds = 25
bind = { request_key = "operation_key" }
remote = { arrival_bound_seconds = 0.05 }

[tools.create_issue.probe]
tool = "find_issues"
arguments = { "request_key:" = { from = "operation_key" }, "@fields" = "title,request_key", "@page_size" = 5 }
items_at = "/body/data/collection"
found_if = [{ at = "/request_key", equals = { from = "operation_key" } }]
complete_below = 5
reference_at = "/id"

[tools.find_issues]
effect = "read"
risk = "low"
permission = "tracker.read"

[tools.get_issue]
effect = "read"
risk = "low"
permission = "tracker.read"
"""


def tracker(url: str) -> OpenApiUpstream:
    way = OpenApiWay(
        document=Path(__file__).with_name("roundup.openapi.yaml"),
        url=f"{url}/rest",
        network=Network.LOOPBACK,
        credential=Credential(
            form=CredentialForm.BASIC, user="admin", secret=SecretRef(place=SecretPlace.ENVIRONMENT, name=PASSWORD)
        ),
        headers={"X-Requested-With": "placet", "Origin": url},
    )
    upstream = Upstream(name="tracker", way=way, manifest=Path("tracker.toml"))
    return openapi_upstream(upstream, read_manifest("tracker", MANIFEST))


def open_gate(folder: Path | str, url: str) -> Any:
    return placet.open(
        upstreams=[tracker(url)], store=Path(folder, "placet.db"), settings=SETTINGS, recovery=placet.Recovery.MANUAL
    )


async def proposed(gate: Gate, tool: str, arguments: dict[str, Any], call_id: str = "c1") -> Any:
    proposal = {"call_id": call_id, "tool": f"tracker.{tool}", "arguments": arguments}
    return await gate.submit(proposal, principal=AGENT, run="r")


async def approve(gate: Gate, approval_id: str) -> None:
    view = await gate.desk.show(approval_id, by=PERSON)
    await gate.desk.approve(approval_id, digest=view.digest, by=PERSON)


def create_and_hang(folder: str, url: str, password: str, title: str) -> None:
    """Have an issue asked for, approved and created, over a line that brings no answer: who kills this is the test."""
    os.environ[PASSWORD] = password

    async def act() -> None:
        async with open_gate(folder, url) as gate:
            waiting = await proposed(gate, "create_issue", {"title": title})
            await approve(gate, waiting.approval_id)
            await proposed(gate, "create_issue", {"title": title})

    asyncio.run(act())
