"""What `placet bench` asks over HTTP: a governed read, or the same read of the bare framework, in a process of its own.

python -m placet.serve.measured governed|bare      prints its port, and serves until its input ends
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from placet.bootstrap.addresses import MEMORY
from placet.bootstrap.opening import Recovery, open_gate
from placet.engine.settings import GateSettings
from placet.http_api import create_app
from placet.model.principal import Principal
from placet.rules.contracts import tool
from placet.serve.http_server import HttpServer, listening_socket

_AGENT = Principal.agent("bench-agent", tenant="bench", roles=("operator",))
_SETTINGS = GateSettings(lease_seconds=3600.0, max_steps=10_000_000)


async def orders(customer_id: str, limit: int, note: str = "") -> dict[str, int]:
    """Count a customer's orders."""
    return {"open": 1, "total": 3}


READ_ORDERS = tool(effect="read", name="read_orders")(orders)


class _Everybody:
    """Signs everybody in: what that costs is the sign-in's, and the bare framework has none."""

    async def principal_of(self, credential: str) -> Principal:
        return _AGENT


class _Arguments(BaseModel):
    customer_id: str
    limit: int
    note: str = ""


class _Proposal(BaseModel):
    run: str
    call_id: str
    tool: str
    arguments: _Arguments


def _bare() -> FastAPI:
    """What somebody writes who has no gate: the framework parses and checks, a function answers."""
    app = FastAPI(openapi_url=None, telemetry={"tracing": False, "metrics": False})

    @app.post("/v1/proposals")
    async def read(proposal: _Proposal) -> dict[str, Any]:
        arguments = proposal.arguments
        result = await orders(arguments.customer_id, arguments.limit, arguments.note)
        return {"status": "succeeded", "call_id": proposal.call_id, "result": result}

    return app


async def _serve(kind: str) -> None:
    if kind == "bare":
        await _until_told(_bare())
        return
    async with open_gate(tools=[READ_ORDERS], store=MEMORY, settings=_SETTINGS, recovery=Recovery.MANUAL) as gate:
        await _until_told(create_app(gate=gate, sign_in=_Everybody()))


async def _until_told(app: FastAPI) -> None:
    at = listening_socket("127.0.0.1", 0)
    server = HttpServer(app, at, grace_seconds=1.0)
    await server.start()
    sys.stdout.write(f"{at.getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
