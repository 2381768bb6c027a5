"""The ops agent handles its incident, and whoever watches decides in a browser what it may do."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import Error, Page, async_playwright, expect

from tests.browser.conftest import ARGUMENTS, LAUNCH_PATIENCE, PATIENCE, chromium

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


@pytest.mark.parametrize(
    ("decision", "ending"), [("Approve", 0), pytest.param("Deny", 6, marks=pytest.mark.exhaustive)]
)
async def test_the_agent_waits_for_a_decision_in_the_console(tmp_path: Path, decision: str, ending: int) -> None:
    program = chromium()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "placet.cli", "demo", "--console", "--keep", str(tmp_path / "kept")),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    said: list[str] = []
    try:
        assert process.stdout is not None
        link = ""
        async with asyncio.timeout(120):
            while not link:
                line = (await process.stdout.readline()).decode()
                assert line, "".join(said)
                said.append(line)
                link = found[0] if (found := re.search(r"http://\S+/console/sign-in#\S+", line)) else ""
        rest = asyncio.ensure_future(process.stdout.read())
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=LAUNCH_PATIENCE)
            page = await (await browser.new_context()).new_page()
            page.set_default_timeout(PATIENCE)
            await page.goto(link)
            await page.get_by_role("button", name="Sign in").click()
            await page.wait_for_url("**/console/")
            inbox = page.url
            while not rest.done():
                with suppress(Error):  # the story may have ended, and its server with it; if not, one looks again
                    await _decide(page, inbox, decision)
                await asyncio.wait((rest,), timeout=0.5)
            await browser.close()
        async with asyncio.timeout(120):
            said.append((await rest).decode())
            assert await process.wait() == ending, "".join(said)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
    assert "leaks found: 0" in said[-1]


async def _decide(page: Page, inbox: str, decision: str) -> None:
    """The first question that waits, if one does."""
    await page.goto(inbox)
    calls = page.get_by_role("link", name="create_ticket")
    if await calls.count() == 0:
        return
    await calls.first.click()
    await page.locator("form[data-approve][data-shown]").wait_for()  # until the script has run, long values stand open
    for folded in await page.locator("details[data-must-open]").all():
        await folded.locator("summary").first.click()
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled(timeout=PATIENCE)
    if decision == "Deny":
        await page.get_by_label("Why not?").fill("not this one")
    await page.get_by_role("button", name=decision).click()
    await page.wait_for_url("**/approvals/*?done=*")
