"""A real issue tracker behind the gate: Roundup, with its own database and REST interface, in a process of its own.

Slow: it installs a tracker (two seconds) and kills a gateway.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from placet.model.effect import EffectState
from placet.model.outcome import AwaitingApproval, Replayed, Succeeded
from tests.kill_points.actors import assert_audit_is_whole, recovered, start
from tests.real.roundup_actors import PASSWORD, approve, create_and_hang, open_gate, proposed

pytestmark = [pytest.mark.slow, pytest.mark.req("C066")]


@dataclass(frozen=True, kw_only=True)
class Tracker:
    folder: Path
    url: str
    password: str

    def asked(self, path: str) -> Any:
        """What the tracker itself says, asked without us."""
        shown = base64.b64encode(f"admin:{self.password}".encode()).decode()
        request = urllib.request.Request(f"{self.url}/rest/data/{path}", headers={"Authorization": f"Basic {shown}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def issues(self, title: str) -> list[Any]:
        found: list[Any] = self.asked(f"issue?title%3A={quote(title)}&@fields=title,request_key")["collection"]
        return found

    def posts(self) -> int:
        return (self.folder / "log").read_text(encoding="utf-8").count("POST ")


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracker]:
    if find_spec("roundup") is None:
        pytest.skip("roundup is not installed")
    folder, password = tmp_path_factory.mktemp("roundup"), secrets.token_hex(12)
    with (folder / "said").open("wb") as said:
        script = Path(__file__).with_name("tracker.py")
        process = subprocess.Popen(
            [sys.executable, str(script), str(folder), password], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        until = time.monotonic() + 120
        while not (folder / "port").exists():
            assert process.poll() is None, (folder / "said").read_text(encoding="utf-8")
            assert time.monotonic() < until, "the tracker does not start"
            time.sleep(0.05)
        port = (folder / "port").read_text(encoding="ascii")
        yield Tracker(folder=folder, url=f"http://127.0.0.1:{port}", password=password)
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture(autouse=True)
def password(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, tracker.password)


async def test_an_issue_is_approved_created_once_and_replayed(tracker: Tracker, tmp_path: Path) -> None:
    title = "Checkout is slow: 100% & ümlaut"
    async with open_gate(tmp_path, tracker.url) as gate:
        waiting = await proposed(gate, "create_issue", {"title": title})
        assert isinstance(waiting, AwaitingApproval)
        assert tracker.issues(title) == []
        await approve(gate, waiting.approval_id)
        done = await proposed(gate, "create_issue", {"title": title})
        again = await proposed(gate, "create_issue", {"title": title}, "c2")
        assert isinstance(done, Succeeded)
        assert isinstance(again, Replayed)
        (issue,) = tracker.issues(title)
        assert done.unwrap() == {"status": 201, "body": {"data": {"id": issue["id"], "link": issue["link"]}}}
        assert issue["request_key"] == done.operation_key
        shown = await proposed(gate, "get_issue", {"issue_id": int(issue["id"])}, "c3")
        assert shown.unwrap()["body"]["data"]["attributes"]["title"] == title


async def test_without_the_password_nothing_is_created_and_that_is_known(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSWORD)
    posts = tracker.posts()
    async with open_gate(tmp_path, tracker.url) as gate:
        waiting = await proposed(gate, "create_issue", {"title": "unsent"})
        await approve(gate, waiting.approval_id)
        outcome = await proposed(gate, "create_issue", {"title": "unsent"})
    assert (outcome.code, outcome.may_have_acted) == ("upstream_unavailable", False)
    assert tracker.posts() == posts


@pytest.mark.req("X001", "H045")
async def test_what_a_killed_gateway_created_is_found_by_its_key_and_not_created_again(
    tracker: Tracker, tmp_path: Path
) -> None:
    title, posts = "Made by a gateway that died", tracker.posts()
    hold = tracker.folder / "hold"
    hold.touch()
    try:
        asking = start(create_and_hang, str(tmp_path), tracker.url, tracker.password, title)
        async with asyncio.timeout(60):
            while not (tracker.folder / "held").exists():
                await asyncio.sleep(0.02)
        os.kill(asking.pid or 0, signal.SIGKILL)
        asking.join(30)
    finally:
        hold.unlink()
    async with open_gate(tmp_path, tracker.url) as gate:
        (left,) = await gate.store.effects(tenant="shop", states=tuple(EffectState), limit=9)
        assert left.state is EffectState.DISPATCHED
        await recovered(gate)
        found = await proposed(gate, "create_issue", {"title": title})
        (issue,) = tracker.issues(title)
        (effect,) = await gate.store.effects(tenant="shop", states=tuple(EffectState), limit=9)
        assert isinstance(found, Replayed)
        assert (effect.state, effect.external_reference) == (EffectState.RECONCILED_COMMITTED, issue["id"])
        assert_audit_is_whole(gate)
    assert tracker.posts() == posts + 1
