"""An open page hears that something changed, and nothing else; it is let go when its person, or the server, goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.console.app import Console
from tests.console.shop import MEI, Shop, fields_of, open_shop


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


class Stream:
    """An open page's connection, as the server sees it."""

    def __init__(self, app: Console, cookie: str) -> None:
        self._said: asyncio.Queue[str] = asyncio.Queue()
        self._gone = asyncio.Event()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "https",
            "path": "/console/live",
            "raw_path": b"/console/live",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"desk.example"), (b"cookie", f"__Host-placet={cookie}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("desk.example", 443),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))
        self.status = 0

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif body := message["body"].decode():
            await self._said.put(body)

    async def said(self) -> str:
        """The next event; beats are passed over."""
        async with asyncio.timeout(30):
            while (event := await self._said.get()).startswith(":"):
                pass
        return event

    async def ended(self) -> None:
        async with asyncio.timeout(30):
            await self.task

    def leave(self) -> None:
        self._gone.set()


async def test_a_page_hears_of_each_change_and_no_content(shop: Shop) -> None:
    stream = Stream(shop.app, shop.browser.cookies["__Host-placet"])
    assert await stream.said() == "event: approvals\ndata: 0\n\n"
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    assert await stream.said() == "event: approvals\ndata: 1\n\n"
    view = await shop.gate.desk.show(approval_id, by=MEI)
    await shop.gate.desk.deny(approval_id, digest=view.digest, by=MEI, reason="no")
    assert await stream.said() == "event: approvals\ndata: 0\n\n"
    stream.leave()
    await stream.ended()


async def test_a_page_hears_that_its_person_has_signed_out(shop: Shop) -> None:
    stream = Stream(shop.app, shop.browser.cookies["__Host-placet"])
    await stream.said()
    csrf = fields_of((await shop.browser.get("/console/me")).text, "/sign-out")
    await shop.browser.post("/console/sign-out", data=csrf)

    assert await stream.said() == "event: signed-out\ndata: 1\n\n"
    await stream.ended()


async def test_a_server_that_ends_lets_its_pages_go(shop: Shop) -> None:
    stream = Stream(shop.app, shop.browser.cookies["__Host-placet"])
    await stream.said()
    shop.app.close()
    await stream.ended()


async def test_an_open_page_only_glances_at_its_session(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    look = shop.sessions.session_of

    async def noted(cookie: str) -> Any:
        used.append(cookie)
        return await look(cookie)

    monkeypatch.setattr(shop.sessions, "session_of", noted)
    monkeypatch.setattr(shop.sessions, "glance", look)
    stream = Stream(shop.app, shop.browser.cookies["__Host-placet"])
    await stream.said()
    assert (await shop.browser.get("/console/news?seen=x")).status_code == 200
    assert used == []
    assert (await shop.browser.get("/console/")).status_code == 200
    assert len(used) == 1
    shop.app.close()
    await stream.ended()


async def test_nobody_listens_without_signing_in(shop: Shop) -> None:
    stream = Stream(shop.app, "cookie-none")
    assert await stream.said() == "signed_out\n"
    assert stream.status == 401
    await stream.ended()
