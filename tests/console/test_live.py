"""An open page hears that something changed, and nothing else; it is let go when its person, or the server, goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.adapters.rates.steady import OwnRateLimiter
from placet.adapters.telemetry.quiet import QuietMeter
from placet.console.app import Console
from placet.model.rates import Rate, RateLimits
from tests.console.shop import MEI, OMAR, Shop, browser_of, fields_of, open_shop, sign_in


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


async def test_one_person_holds_no_more_streams_than_its_own_and_a_closed_one_counts_no_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.console.app.MOST_OPEN_EACH", 2)
    cookie = shop.browser.cookies["__Host-placet"]
    opened = [Stream(shop.app, cookie) for _ in range(2)]
    for stream in opened:
        await stream.said()
    third = Stream(shop.app, cookie)
    await third.ended()
    assert third.status == 503
    omar = await shop.sessions.open(OMAR)
    other = Stream(shop.app, omar.cookie)
    await other.said()

    opened[0].leave()
    await opened[0].ended()
    again = Stream(shop.app, cookie)
    await again.said()

    assert again.status == other.status == 200
    for stream in (opened[1], again, other):
        stream.leave()
        await stream.ended()


async def test_whoever_comes_too_often_is_told_when_to_come_and_nothing_is_done(shop: Shop) -> None:
    limits = RateLimits(per_principal=Rate(count=3, seconds=60))
    limiter = OwnRateLimiter(limits, clock=shop.clock, meter=QuietMeter())
    app = Console(shop.gate, sessions=shop.sessions, clock=shop.clock, rate_limiter=limiter)
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    async with browser_of(app) as browser:
        await sign_in(browser, shop.sessions.link_for(MEI))
        fields = fields_of((await browser.get(f"/console/approvals/{approval_id}")).text, "/decision")
        assert (await browser.get("/console/")).status_code == 200
        assert (await browser.get("/console/tools")).status_code == 200

        refused = [
            await browser.get("/console/"),
            await browser.post(f"/console/approvals/{approval_id}/decision", data=fields | {"decision": "approve"}),
            await browser.get("/console/live"),
        ]

        assert [each.status_code for each in refused] == [429] * 3
        assert {each.headers["retry-after"] for each in refused} == {"60"}
        assert all("come too often" in each.text for each in refused)
        (waiting,) = await shop.gate.desk.pending(by=MEI)
        assert waiting.approval_id == approval_id
        shop.clock.advance(60)
        assert (await browser.get("/console/")).status_code == 200
