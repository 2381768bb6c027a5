"""A server of its own process: the tools of these tests behind a real listener, for programs that ask over the wire.

python -m tests.http_api.served FOLDER        prints one line of JSON, and serves until it is told to end
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import placet
from placet import Principal
from placet.http_api import HttpSettings, create_app
from placet.http_api.outcomes import effect_id_of
from placet.serve.http_server import HttpServer, listening_socket
from placet.testing import FixedSignIn
from tests.http_api.conftest import AGENT, Desk, tools_of

EVERYBODY = Principal.person(
    "everybody",
    tenant="acme",
    roles=("admin",),
    scopes=("w", "approvals.decide", "effects.reconcile", "effects.read", "audit.read", "ops.stop", "metrics.read"),
)
TOKEN = "t-everybody"


async def begun(gate: placet.Gate, desk: Desk) -> dict[str, str]:
    """What is there to be found: a question, one of whoever asks, and an effect that is unknown."""

    async def submit(tool: str, arguments: dict[str, Any], by: Principal) -> Any:
        proposal = {"call_id": f"{tool}-{by.subject}", "tool": tool, "arguments": arguments}
        return await gate.submit(proposal, principal=by, run=f"run-{by.subject}")

    waiting = await submit("pay", {"amount": 5}, AGENT)
    own = await submit("pay", {"amount": 6}, EVERYBODY)
    desk.fault = RuntimeError("lost")
    unknown = await submit("send", {"word": "a"}, AGENT)
    desk.fault = None
    return {
        "approval_id": waiting.approval_id,
        "question_id": own.approval_id,
        "effect_id": effect_id_of(unknown.operation_key),
        "run": f"run-{AGENT.subject}",
    }


async def main(folder: Path) -> None:
    desk = Desk()
    desk.may_end.set()
    tools = [tool for tool in tools_of(desk) if tool.contract.name != "broken"]
    async with placet.open(tools=tools, store=folder / "placet.db", recovery="manual") as gate:
        found = await begun(gate, desk)
        app = create_app(
            gate=gate,
            sign_in=FixedSignIn({TOKEN: EVERYBODY}),
            settings=HttpSettings(poll_seconds=0.05, max_wait_seconds=0.1),
        )
        server = HttpServer(app, listening_socket("127.0.0.1", 0), grace_seconds=1.0)
        await server.start()
        print(json.dumps({"url": server.url, "token": TOKEN, **found}), flush=True)
        ending = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
        await ending.wait()
        await server.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
