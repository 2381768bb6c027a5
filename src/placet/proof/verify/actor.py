"""One call in a process of its own: `python -m placet.proof.verify.actor`, for scenarios with several processes.

It is told on standard input what to do, in two lines: an order, and then, once it has said `ready`, when. The tool's
contract comes from the user's own module; the hand in its handler's place is ours, and acts on a file that counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from placet.bootstrap.opening import Recovery, open_gate
from placet.engine.settings import GateSettings
from placet.errors import PlacetError
from placet.model.context import CallContext
from placet.model.principal import Principal
from placet.proof.verify.stage import ALLOW, Hand, in_our_hands
from placet.rules.contracts import Tool
from placet.testing.kill_points import SentinelRemote

READY, NO_TOOLS = "ready", 3
BEFORE_ACTING, AFTER_ACTING = "before acting", "after acting"
"""Where in an attempt the process dies: its claim is durable, and nothing is settled."""


def main() -> int:
    order = json.loads(sys.stdin.readline())
    tool = _tool(order)
    if tool is None:
        return NO_TOOLS
    sys.stdout.write(json.dumps(asyncio.run(_act(order, tool))) + "\n")
    return 0


def _tool(order: dict[str, Any]) -> Tool | None:
    sys.path.insert(0, order["folder"])
    sys.dont_write_bytecode = True
    try:
        with redirect_stdout(sys.stderr):
            found: Any = import_module(order["module"])
            for name in order["attribute"].split("."):
                found = getattr(found, name)
            return next((tool for tool in found if tool.contract.name == order["tool"]), None)
    except Exception:
        return None


async def _act(order: dict[str, Any], tool: Tool) -> dict[str, Any]:
    remote, dies = SentinelRemote(Path(order["remote"])), order["dies"]
    hand = Hand(order["result"])

    def act(context: CallContext) -> Any:
        if dies == BEFORE_ACTING:
            os.kill(os.getpid(), signal.SIGKILL)
        remote.act(f"{context.tenant}/{context.operation_key}", context.attempt)
        if dies == AFTER_ACTING:
            os.kill(os.getpid(), signal.SIGKILL)
        return hand.result

    hand.does = act
    who = order["principal"]
    by = Principal.agent(who["subject"], tenant=who["tenant"], roles=who["roles"], scopes=who["scopes"])
    opening = open_gate(
        tools=(in_our_hands(tool, hand),),
        store=order["store"],
        key=Path(order["key"]),
        policy=ALLOW,
        settings=GateSettings(lease_seconds=30.0, call_seconds=20.0),
        recovery=Recovery.MANUAL,
    )
    try:
        async with opening as gate:
            print(READY, flush=True)
            sys.stdin.readline()
            outcome = await gate.submit(order["proposal"], principal=by, run=order["run"])
            return {"status": outcome.status, "code": outcome.code}
    except PlacetError as error:
        return {"status": "error", "code": error.code}


LATER = timedelta(hours=2)
"""How much later somebody looks after what a dead process left; longer than any lease."""

if __name__ == "__main__":
    sys.exit(main())
