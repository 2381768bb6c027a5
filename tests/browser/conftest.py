"""A real server on loopback, a real Chromium before it, and pictures of what it saw.

The pictures go to `TEST_SCREENSHOTS`, if that is set; otherwise to the test's own folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
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
LAUNCH_PATIENCE = 120_000.0
"""Milliseconds that a browser may take to start."""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Playwright's own, which the last list of features would take back, and what draws a window that nobody sees.
    "--disable-features=AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades"
    ",HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning"
    ",AvoidCorsURLLoaderRestartOnRedirect,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch"
    ",InitialWebUI,WebUIReloadButton,WebUIToolbar,WebUIOmniboxPopup,PreloadTopChromeWebUI",
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
        has_jumped: whether a page's clock was set forward: what it was asking for just then has taken too long for it.
    """

    gate: Gate
    sessions: SessionsInMemory
    server: Server
    browser: Browser
    faults: list[str]
    pictures: Path
    contexts: list[BrowserContext]
    calls: int = 0
    has_jumped: bool = False

    @property
    def address(self) -> str:
        return self.server.address

    async def ask(self, tool: str, *, call: str | None = None, run: str = "run-1", **arguments: Any) -> Outcome:
        self.calls += 1
        proposal = {"call_id": call or f"c-{self.calls}", "tool": tool, "arguments": arguments}
        return await self.gate.submit(proposal, principal=AGENT, run=run)

    @asynccontextmanager
    async def signed_in(self, person: Principal = MEI, **how: Any) -> AsyncIterator[Page]:
        """A page of a browser of one's own, whose form of the sign-in page has been sent for it: nothing was drawn."""
        context = await self.context(**how)
        page = await context.new_page()
        self.watch(page)
        form = {"link": self.sessions.link_for(person)}
        await context.request.post(f"{self.address}/console/sign-in", form=form, headers={"Origin": self.address})
        await page.goto(f"{self.address}/console/")
        assert page.url == f"{self.address}/console/"
        yield page
        await context.close()

    @asynccontextmanager
    async def signed_in_by_hand(self, person: Principal = MEI, **how: Any) -> AsyncIterator[Page]:
        """The same, through a one-time link that was opened."""
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
        self.contexts.append(context)
        return context

    async def leave(self) -> None:
        """Nothing of this site stays in the browser, which others use after it."""
        for context in self.contexts:
            await context.close()

    def watch(self, page: Page) -> None:
        page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    async def picture(self, page: Page, name: str) -> None:
        await page.screenshot(path=self.pictures / f"{name}.png", full_page=True)


OpenSite = Callable[..., Awaitable[Site]]
_TOO_LONG = "htmx:error: timeout"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser belongs to one event loop, and starting one takes a second: those that look at a site share both."""
    shared = pytest.mark.asyncio(loop_scope="session")
    for item in items:
        if "open_site" in getattr(item, "fixturenames", ()):
            item.add_marker(shared, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS, timeout=LAUNCH_PATIENCE)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_site(tmp_path: Path, running_browser: Browser) -> AsyncIterator[OpenSite]:
    """Serve a console over a new store; at the end the browser must have had nothing to complain of."""
    pictures = Path(os.environ.get("TEST_SCREENSHOTS") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    sites: list[Site] = []
    async with AsyncExitStack() as stack:

        async def open_one(*more: Any, **how: Any) -> Site:
            opening = placet.open(
                tools=[*TOOLS, *more], store=tmp_path / "placet.db", recovery=placet.Recovery.MANUAL, **how
            )
            gate = await stack.enter_async_context(opening)
            sessions = SessionsInMemory(system_clock())
            server = Server(lambda: Console(gate, sessions=sessions, clock=system_clock(), is_dev=True))
            await server.start()
            stack.push_async_callback(server.stop)
            site = Site(
                gate=gate,
                sessions=sessions,
                server=server,
                browser=running_browser,
                faults=[],
                pictures=pictures,
                contexts=[],
            )
            stack.push_async_callback(site.leave)
            sites.append(site)
            return site

        yield open_one
    assert [fault for site in sites for fault in site.faults if not (site.has_jumped and _TOO_LONG in fault)] == []


class Server:
    """A console on a port that stays its own, however often it goes away and comes back."""

    def __init__(self, make: Callable[[], Console]) -> None:
        self._make = make
        self._port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", self._port))
        self._port = self._listening.getsockname()[1]
        self._app = self._make()
        config = uvicorn.Config(self._app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._server.capture_signals = _no_signals  # type: ignore[method-assign]
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        async with asyncio.timeout(30):
            while not self._server.started:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._app.close()
        self._server.should_exit = True
        await self._serving
        self._listening.close()


def _no_signals() -> Any:
    return nullcontext()
