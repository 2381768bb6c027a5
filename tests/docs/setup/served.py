"""A served project with one tool, in a thread that ends with the program; runs before a block of the documents."""

import asyncio
import threading
from concurrent.futures import Future

import placet
from placet.http_api import create_app
from placet.serve.http_server import HttpServer, listening_socket
from placet.testing import FixedSignIn


@placet.tool(effect="write", risk="low", permission="notes.add")
async def add_note(title: str) -> dict[str, str]:
    return {"added": title}


@placet.tool(effect="write", risk="medium", permission="notes.add", approval="always")
async def drop_note(title: str) -> str:
    return "dropped"


agent = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("notes.add",))
mara = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
key, maras_token = "k-agent", "k-mara"
_address: Future[str] = Future()


async def _serve() -> None:
    async with placet.open(tools=[add_note, drop_note], store=placet.MEMORY) as gate:
        app = create_app(gate=gate, sign_in=FixedSignIn({key: agent, maras_token: mara}))
        server = HttpServer(app, listening_socket("127.0.0.1", 0))
        await server.start()
        _address.set_result(server.url)
        await asyncio.Event().wait()


threading.Thread(target=lambda: asyncio.run(_serve()), daemon=True).start()
url = _address.result(30)
