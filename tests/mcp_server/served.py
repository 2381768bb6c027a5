"""A process that serves API and MCP, until it is told to end; another one on the same folder goes on where it stopped.

python -m tests.mcp_server.served FOLDER PORT [WAIT_SECONDS]      prints its address
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

import placet
from placet.bootstrap.surroundings import mcp_meter, random_ids, system_clock
from placet.mcp_server import METHODS, OUTCOMES, McpDoor, McpServer, McpSettings, Resource
from placet.serve.http_server import listening_socket
from placet.serve.mcp_front import mcp_front
from placet.serve.serving import Doors, serving
from placet.testing import FixedSignIn
from tests.mcp_server.tools import SETTINGS, WHO, tools_of

ISSUER = "https://issuer.test"


async def main(folder: Path, port: int, wait_seconds: float) -> None:
    registry = CollectorRegistry()
    opening = placet.open(
        tools=tools_of(folder),
        store=folder / "placet.db",
        settings=SETTINGS,
        recovery="manual",
        metrics=registry,
    )
    async with opening as gate:
        assert opening.running is not None
        at = listening_socket("127.0.0.1", port)
        site = f"http://127.0.0.1:{at.getsockname()[1]}"
        sign_in = FixedSignIn(WHO)
        mcp = McpServer(
            gate=gate,
            keys=opening.running.keys,
            clock=system_clock(),
            ids=random_ids(),
            meter=mcp_meter(registry, methods=METHODS, outcomes=OUTCOMES),
            version="test",
            settings=McpSettings(
                wait_seconds=wait_seconds, poll_seconds=0.05, progress_seconds=0.05, max_rounds=3, page_size=4
            ),
            pages=f"{site}/console/approvals/",
            audience=f"{site}/mcp",
        )
        resource = Resource(site=site, audience=f"{site}/mcp", issuers=(ISSUER,))
        door = McpDoor(mcp, sign_in=sign_in, resource=resource)
        doors = Doors(sign_in=sign_in, metrics=registry, mcp=mcp_front(mcp, door, metrics=registry))
        async with serving(gate, doors, at, round_seconds=3_600.0) as process:
            ending: list[asyncio.Task[bool]] = []
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGTERM, lambda: ending.append(asyncio.ensure_future(process.end(20.0)))
            )
            print(process.url, flush=True)
            await process.until_ended()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 20.0))
