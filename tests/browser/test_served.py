"""All of it as a newcomer has it: `placet init`, `placet serve --dev`, a link, a decision, and it happens once."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from tests.browser.conftest import ARGUMENTS, LAUNCH_PATIENCE, PATIENCE, chromium

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)
PLACET = [sys.executable, "-m", "placet.cli"]


@dataclass
class Project:
    """A project of its own folder, and the server that runs in it.

    Attributes:
        link: the one-time link that the server printed.
    """

    folder: Path
    url: str
    link: str
    process: asyncio.subprocess.Process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PLACET, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Project]:
    subprocess.run([*PLACET, "init", str(folder)], check=True, capture_output=True, timeout=120)
    process = await asyncio.create_subprocess_exec(
        *PLACET, "serve", "--dev", "--port", "0",
        cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stderr is not None
        async with asyncio.timeout(120):
            url = (await process.stdout.readline()).decode().strip()
            link = ""
            while not link:
                line = (await process.stderr.readline()).decode()
                assert line, "the server ended"
                found = re.search(r"http://\S+/console/sign-in#\S+", line)
                link = found[0] if found else ""
        reading = asyncio.ensure_future(process.stderr.read())
        yield Project(folder=folder, url=url, link=link, process=process)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            assert await process.wait() == 0
            said = (await reading).decode()
        assert "Traceback" not in said
        assert link.partition("#")[2] not in said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_newcomer_sees_a_call_stopped_approves_it_and_sees_it_happen_once(tmp_path: Path) -> None:
    program = chromium()
    async with served(tmp_path / "shop") as project, async_playwright() as playwright:
        note = '{"title": "first", "text": "hello"}'
        asked = project.run("call", "--tool", "add_note", "--args", note, "--run", "r-1", "--call-id", "c-1", "--json")
        assert json.loads(asked.stdout)["code"] == "approval_required"

        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=LAUNCH_PATIENCE)
        page = await (await browser.new_context()).new_page()
        page.set_default_timeout(PATIENCE)
        await page.goto(project.link)
        await expect(page.get_by_text("This server is for development")).to_be_visible()
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name="add_note").click()
        await expect(page.get_by_text('"hello"').first).to_be_visible()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#done")).to_contain_text("Nothing ran yet")

        again = [
            project.run("call", "--tool", "add_note", "--args", note, "--run", "r-1", "--call-id", "c-1", "--json")
            for _ in range(2)
        ]
        assert [json.loads(each.stdout)["code"] for each in again] == ["succeeded", "replayed"]
        assert (project.folder / "notes.jsonl").read_text().count("hello") == 1
        others = [
            project.run("call", "--tool", "add_note", "--args", words, "--run", "r-1", "--call-id", call, "--json")
            for words, call in (
                ('{"title": "first", "text": "other"}', "c-1"),
                ('{"title": "second", "text": "other"}', "c-2"),
            )
        ]
        assert [json.loads(each.stdout)["code"] for each in others] == ["operation_conflict", "approval_required"]
        assert [each.returncode for each in (asked, *others)] == [5, 8, 5]
        await page.goto(f"{project.url}/console/audit/verify")
        await expect(page.get_by_text("intact to")).to_be_visible()

        used = await (await browser.new_context()).new_page()
        await used.goto(project.link)
        await used.get_by_role("button", name="Sign in").click()
        await expect(used.get_by_text("This link was used already")).to_be_visible()
        await expect(used.get_by_text("end the server and start it again")).to_be_visible()
        await browser.close()


def test_a_development_server_is_for_this_machine_alone(tmp_path: Path) -> None:
    subprocess.run([*PLACET, "init", str(tmp_path / "shop")], check=True, capture_output=True, timeout=120)
    refused = subprocess.run(
        [*PLACET, "serve", "--dev", "--host", "0.0.0.0"],
        cwd=tmp_path / "shop", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "--dev is for this machine alone" in refused.stderr
