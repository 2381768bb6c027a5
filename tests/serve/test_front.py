"""Both front doors behind one address: whose request is whose, and what is believed of where it came from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

import placet
from placet.console.app import Console
from placet.rules.serving import networks_of
from placet.serve.front import Site, together
from placet.testing import FakeClock, SessionsInMemory

HERE = "https://desk.example"
PROXY, OTHERS = "10.1.0.7", "10.2.0.7"


@dataclass
class Api:
    """Answers everything, and keeps the headers that reached it."""

    headers: list[dict[bytes, bytes]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"api"})


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    clock = FakeClock()
    async with placet.open(tools=[], store=placet.MEMORY, clock=clock, recovery=placet.Recovery.MANUAL) as gate:
        yield Console(gate, sessions=SessionsInMemory(clock), clock=clock, public_url=HERE)


async def asked(
    app: Any, path: str, *, peer: str = PROXY, method: str = "GET", host: str = "desk.example", **headers: str
) -> httpx.Response:
    transport = httpx.ASGITransport(app=app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://inner:8420") as client:
        said = {"Host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await client.request(method, path, headers=said)


def site(api: Api, console: Console | None) -> Any:
    return together(api, console, Site(public_url=HERE, proxies=networks_of(("10.1.0.0/16",))))


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/v1/tools", "api"), ("/consoles", "api"), ("/healthz", "api"), ("/console/sign-in", "console"),
    ],
)  # fmt: skip
async def test_what_is_under_the_consoles_path_is_the_consoles(console: Console, path: str, whose: str) -> None:
    answer = await asked(site(Api(), console), path)
    assert (answer.text == "api") == (whose == "api")


async def test_the_front_door_leads_to_the_console_where_there_is_one(console: Console) -> None:
    for method in ("GET", "HEAD"):
        answer = await asked(site(Api(), console), "/", method=method, host="any.example")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert (await asked(site(Api(), console), "/", method="POST")).text == "api"
    assert (await asked(site(Api(), None), "/")).text == "api"


@pytest.mark.parametrize("host", ["evil.example", "desk.example:8443", "desk.example.evil.example", "inner:8420", ""])
async def test_the_console_is_for_requests_to_its_name(console: Console, host: str) -> None:
    answer = await asked(site(Api(), console), "/console/sign-in", host=host)
    assert (answer.status_code, answer.text) == (421, "misdirected\n")
    assert (await asked(site(Api(), console), "/v1/tools", host=host)).text == "api"
    assert (await asked(together(Api(), console), "/console/sign-in", host=host)).status_code == 200, "nobody said one"


async def test_a_proxy_says_what_a_request_was_sent_to_and_nobody_else(console: Console) -> None:
    app = site(Api(), console)
    inner: dict[str, str] = {"host": "inner:8420", "X_Forwarded_Host": "desk.example"}
    assert (await asked(app, "/console/sign-in", **inner)).status_code == 200
    assert (await asked(app, "/console/sign-in", peer=OTHERS, **inner)).status_code == 421
    wrong = await asked(app, "/console/sign-in", X_Forwarded_Host="evil.example")
    ignored = await asked(app, "/console/sign-in", peer=OTHERS, X_Forwarded_Host="evil.example")
    assert (wrong.status_code, ignored.status_code) == (421, 200)


async def test_what_came_in_the_clear_is_sent_on_to_this_sites_own_address(console: Console) -> None:
    app = site(Api(), console)
    look = await asked(app, "/console/me?next=x", X_Forwarded_Proto="http")
    post = await asked(app, "/console/sign-out", method="POST", X_Forwarded_Proto="http")
    others = await asked(app, "/console/sign-in", peer=OTHERS, X_Forwarded_Proto="http")

    assert (look.status_code, look.headers["location"]) == (308, f"{HERE}/console/me")
    assert (post.status_code, post.text) == (403, "not_over_tls\n")
    assert others.status_code == 200
    assert (await asked(app, "/console/sign-in", X_Forwarded_Proto="https")).status_code == 200


async def test_a_proxys_word_reaches_no_door(console: Console) -> None:
    api = Api()
    said = {"X_Forwarded_For": "1.2.3.4", "X_Forwarded_Host": "desk.example", "Forwarded": "for=1.2.3.4", "X_Own": "y"}
    for peer in (PROXY, OTHERS):
        await asked(site(api, console), "/v1/tools", peer=peer, **said)
    for headers in api.headers:
        assert headers[b"x-own"] == b"y"
        assert not [name for name in headers if b"forwarded" in name]
