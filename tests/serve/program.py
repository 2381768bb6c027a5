"""A process that serves, with leases short enough to wait for. It dies when its test wants it to.

python -m tests.serve.program STORE FOLDER      prints its address
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import placet
from placet import GateSettings, Principal
from placet.serve.http_server import listening_socket
from placet.serve.serving import Doors, serving
from placet.testing import FixedSignIn

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
TOKEN = "t-agent"
SETTINGS = GateSettings(lease_seconds=1.0, pause_seconds=0.1, grace_seconds=0.1, call_seconds=50.0)


def tools_of(folder: Path) -> list[placet.Tool]:
    acted = folder / "acted"
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "w"}

    def act(word: str) -> None:
        with acted.open("a") as file:
            file.write(f"{word}\n")

    async def probe(context: placet.ProbeContext) -> Any:
        return placet.Found(result="acted before") if acted.exists() else placet.CannotTell()

    @placet.tool(**write, probe=probe)
    async def hang(word: str) -> str:
        """Act, and do not come back."""
        act(word)
        (folder / "begun").touch()
        await asyncio.Event().wait()
        return word

    @placet.tool(**write)
    async def note(word: str) -> str:
        """Act."""
        act(word)
        return word

    return [hang, note]


async def main(store: str, folder: Path) -> None:
    opening = placet.open(
        tools=tools_of(folder), store=store, key=folder / "placet.key", settings=SETTINGS, recovery="manual"
    )
    async with opening as gate:
        doors = Doors(sign_in=FixedSignIn({TOKEN: AGENT}))
        async with serving(gate, doors, listening_socket("127.0.0.1", 0), round_seconds=0.2) as process:
            print(process.url, flush=True)
            await process.until_ended()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
