# ruff: noqa: F821 - the page and the setup before this one define the names
"""Each driver that the page has shown by now, and that needs no server, carries a run to its end."""

import asyncio

import placet
from placet import Workflows
from placet.errors import NotFound


async def _carried(carry) -> None:
    global workflows, ending
    async with placet.open(tools=[], store=placet.MEMORY) as gate:
        workflows, ending = Workflows(gate, (ORDER,)), asyncio.Event()
        carrying = asyncio.ensure_future(carry())
        async with asyncio.timeout(60):
            while not (carrying.done() or await _is_over()):
                await asyncio.sleep(0.01)
        ending.set()
        await carrying
        assert await _is_over()


async def _is_over() -> bool:
    try:
        return (await workflows.look("acme", "order-17")).kind == "ended"
    except NotFound:
        return False


for _carry in (on_dbos, on_langgraph):
    asyncio.run(_carried(_carry))
