"""A real server on loopback, a real Chromium before it, and pictures of what it saw.

The pictures go to `TEST_SCREENSHOTS`, if that is set; otherwise to the test's own folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

import placet
from placet import Gate, Principal
from placet.bootstrap.surroundings import system_clock
from placet.console.app import Console
from placet.model.outcome import Outcome
from placet.testing import SessionsInMemory
from tests.console.shop import AGENT, MEI, TOOLS

PATIENCE = 30_000.0
"""Milliseconds that a page may take; a machine may be busy."""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("PLACET_REQUIRE") == "all":
            pytest.fail("PLACET_REQUIRE=all, and there is no Chromium")
        pytest.skip("no Chromium on PATH")
    return found


@dataclass
class Site:
    """A served console, and a browser that looks at it.

    Attributes:
        faults: what the browser complained of: script errors, blocked content, failed loads.
    """

    gate: Gate
    sessions: SessionsInMemory
    address: str
    browser: Browser
    faults: list[str]
    pictures: Path
    calls: int = 0

    async def ask(self, tool: str, *, call: str | None = None, run: str = "run-1", **arguments: Any) -> Outcome:
        self.calls += 1
        proposal = {"call_id": call or f"c-{self.calls}", "tool": tool, "arguments": arguments}
        return await self.gate.submit(proposal, principal=AGENT, run=run)

    @asynccontextmanager
    async def signed_in(self, person: Principal = MEI, **how: Any) -> AsyncIterator[Page]:
        """A page of a browser of one's own, signed in through a one-time link."""
        context = await self.context(**how)
        page = await context.new_page()
        self.watch(page)
        await page.goto(f"{self.address}/console/sign-in#{self.sessions.link_for(person)}")
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/console/")
        yield page
        await context.close()

    async def context(self, **how: Any) -> BrowserContext:
        context = await self.browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | how))
        context.set_default_timeout(PATIENCE)
        return context

    def watch(self, page: Page) -> None:
        page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    async def picture(self, page: Page, name: str) -> None:
        await page.screenshot(path=self.pictures / f"{name}.png", full_page=True)


OpenSite = Callable[..., Awaitable[Site]]


@pytest.fixture
async def open_site(tmp_path: Path) -> AsyncIterator[OpenSite]:
    """Serve a console over a new store; at the end the browser must have had nothing to complain of."""
    pictures = Path(os.environ.get("TEST_SCREENSHOTS") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    sites: list[Site] = []
    async with _Stack() as stack:

        async def open_one(**how: Any) -> Site:
            opening = placet.open(tools=TOOLS, store=tmp_path / "placet.db", recovery=placet.Recovery.MANUAL, **how)
            gate = await stack.enter(opening)
            sessions = SessionsInMemory(system_clock())
            console = Console(gate, sessions=sessions, clock=system_clock(), is_dev=True)
            address = await stack.enter(_served(console))
            browser = await stack.enter(_browser())
            site = Site(gate=gate, sessions=sessions, address=address, browser=browser, faults=[], pictures=pictures)
            sites.append(site)
            return site

        yield open_one
    assert [fault for site in sites for fault in site.faults] == []


class _Stack:
    """Contexts that are left in the order opposite to how they were entered, from the task that entered them."""

    def __init__(self) -> None:
        from contextlib import AsyncExitStack

        self._stack = AsyncExitStack()

    async def __aenter__(self) -> _Stack:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._stack.__aexit__(*exc)

    async def enter(self, context: Any) -> Any:
        return await self._stack.enter_async_context(context)


@asynccontextmanager
async def _browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        await browser.close()


@asynccontextmanager
async def _served(app: Console) -> AsyncIterator[str]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with asyncio.timeout(30):
        while not server.started:
            await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    app.close()
    server.should_exit = True
    await serving
    listening.close()


def _no_signals() -> Any:
    from contextlib import nullcontext

    return nullcontext()
