"""Through an issuer's own pages into the console and out again; and where one is signed in, seen and ended."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

import placet
from placet import Principal
from placet.adapters.identity.issuer_sign_in import CodeFlow
from placet.adapters.identity.sessions import StoreSessions
from placet.console.app import LOOK_SECONDS, Console
from placet.engine.person_sessions import MANAGE_SESSIONS_SCOPE
from placet.errors import StoreUnavailable
from placet.testing import FakeClock, SeededIds
from tests.adapters.identity.conftest import House
from tests.adapters.identity.provider import CLIENT, SECRET_WORDS
from tests.adapters.identity.test_issuer_sign_in import HERE, Porch, client_of
from tests.adapters.identity.test_sessions import Listed, sessions_of
from tests.console.test_live import Stream

ATTEMPT, SESSION = "__Host-placet-sign-in", "__Host-placet"
OLGA = Principal.person("olga", tenant="acme", roles=["admin"])


@dataclass
class Desk:
    """A console behind a provider, and browsers before it."""

    porch: Porch
    house: House
    sessions: StoreSessions
    flow: CodeFlow
    app: Console
    opened: AsyncExitStack
    failing: list[str] = field(default_factory=list)

    async def browser(self, **headers: str) -> httpx.AsyncClient:
        usual = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}
        made = httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url=HERE, headers=usual | headers)
        return await self.opened.enter_async_context(made)

    async def gone(self, browser: httpx.AsyncClient, wanted: str = "/console/") -> httpx.Response:
        return await browser.get("/console/sign-in/through/staff", params={"next": wanted})

    async def came_back(self, browser: httpx.AsyncClient, address: str, **words: str) -> httpx.Response:
        place = urlsplit(self.porch.provider.authorized(address, **words))
        return await browser.get(f"{place.path}?{place.query}")

    async def signed_in(self, wanted: str = "/console/") -> httpx.AsyncClient:
        browser = await self.browser()
        went = await self.gone(browser, wanted)
        answer = await self.came_back(browser, went.headers["location"])
        assert answer.status_code == 200 and SESSION in browser.cookies, answer.text
        return browser


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desk_of() as made:
        yield made


def desk_of(**client: Any) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened() -> AsyncIterator[Desk]:
        async with AsyncExitStack() as stack:
            house = House(clock=FakeClock())
            porch = Porch(clock=house.clock, keys=house.keys, meter=house.meter)
            stack.callback(porch.provider.close)
            flow = porch.flow_for(client_of(porch.provider, **client))
            stack.push_async_callback(flow.close)
            gate = await stack.enter_async_context(
                placet.open(tools=[], store=placet.MEMORY, clock=house.clock, ids=SeededIds(),
                            recovery=placet.Recovery.MANUAL)
            )  # fmt: skip
            sessions = sessions_of(house)
            app = Console(gate, sessions=sessions, clock=house.clock, issuers=flow, public_url=HERE)
            yield Desk(porch=porch, house=house, sessions=sessions, flow=flow, app=app, opened=stack)

    return opened()


def cookie_of(answer: httpx.Response, name: str) -> str:
    found = [line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}=")]
    assert len(found) == 1, answer.headers
    return found[0]


def onward_of(page: str) -> str:
    found = re.search(r'<meta http-equiv="refresh" content="\d+;url=([^"]*)">', page)
    assert found is not None, page
    return unescape(found[1])


# ---------------------------------------------------------------- in


async def test_the_sign_in_page_leads_to_the_issuers_and_back_to_the_page_that_was_wanted(desk: Desk) -> None:
    browser = await desk.browser()
    turned = await browser.get("/console/audit?kind=started")
    page = (await browser.get(turned.headers["location"])).text
    (way,) = [unescape(found) for found in re.findall(r'href="(/console/sign-in/through/[^"]+)"', page)]
    assert desk.porch.provider.url in page and 'name="link"' not in page

    went = await browser.get(way)
    back = await desk.came_back(browser, went.headers["location"])

    assert went.status_code == 303 and went.headers["location"].startswith(f"{desk.porch.provider.url}/authorize?")
    assert onward_of(back.text) == "/console/audit?kind=started"
    me = await browser.get("/console/me")
    assert me.status_code == 200 and "id:u-17" in me.text and desk.porch.provider.url in me.text


async def test_what_a_browser_keeps_is_out_of_reach_of_scripts_and_other_sites(desk: Desk) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser)
    back = await desk.came_back(browser, went.headers["location"])

    attempt, session = cookie_of(went, ATTEMPT), cookie_of(back, SESSION)
    for kept, same_site in ((attempt, "SameSite=lax"), (session, "SameSite=strict")):
        assert all(word in kept for word in ("HttpOnly", "Secure", "Path=/", same_site)) and "Domain" not in kept
    assert "Max-Age=600" in attempt and "Max-Age" not in session
    assert "Max-Age=0" in cookie_of(back, ATTEMPT)
    assert back.headers["referrer-policy"] == "no-referrer" and back.headers["cache-control"] == "no-store"


async def test_the_way_back_is_never_the_word_of_a_request(desk: Desk) -> None:
    """A forged `Host`, and every header by which a proxy would name another."""
    forged = {
        "Host": "evil.example", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example",
        "X-Forwarded-Proto": "http", "X-Original-URL": "https://evil.example/",
    }  # fmt: skip
    browser = await desk.browser(**forged)
    went = await desk.gone(browser)

    asked = dict(parse_qsl(urlsplit(went.headers["location"]).query))
    assert asked["redirect_uri"] == f"{HERE}/console/sign-in/back/staff"
    assert "evil" not in str(went.headers)


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.example/", "//evil.example", "/console/../x", "/console/%2e%2e/x", "/other", "/console/\\e"],
)
async def test_nobody_is_led_out_of_the_console(desk: Desk, wanted: str) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser, wanted)
    back = await desk.came_back(browser, went.headers["location"])

    assert onward_of(back.text) == "/console/"


async def test_a_place_is_looked_at_again_when_somebody_comes_back(desk: Desk) -> None:
    """Whatever was sealed, by whatever process: what is no page of this console is not gone to."""
    for wanted in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        begun = await desk.flow.begin("staff", wanted=wanted)
        browser = await desk.browser(Cookie=f"{ATTEMPT}={begun.kept}")
        back = await desk.came_back(browser, begun.address)
        assert onward_of(back.text) == "/console/"


async def test_what_a_browser_keeps_is_small_whatever_is_wanted(desk: Desk) -> None:
    """A cookie over 4 KiB is dropped by browsers, and nobody could come back."""
    for wanted in ("/console/" + "a" * 1_400, "/console/" + "a" * 8_000):
        went = await desk.gone(await desk.browser(), wanted)
        assert len(cookie_of(went, ATTEMPT)) < 4_096


async def test_an_answer_before_a_browser_that_did_not_ask_signs_nobody_in(desk: Desk) -> None:
    """Login CSRF: the attacker's own answer, put before somebody else's browser."""
    attacker, victim, other = await desk.browser(), await desk.browser(), await desk.browser()
    went = await desk.gone(attacker)
    await desk.gone(other)
    for browser in (victim, other):
        answer = await desk.came_back(browser, went.headers["location"])

        assert answer.status_code == 403 and "(sign_in_not_begun)" in answer.text
        assert SESSION not in browser.cookies
    assert desk.porch.provider.forms == []


async def test_what_was_answered_once_is_worth_nothing_again(desk: Desk) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser)
    kept = browser.cookies[ATTEMPT]
    place = urlsplit(desk.porch.provider.authorized(went.headers["location"]))
    assert (await browser.get(f"{place.path}?{place.query}")).status_code == 200

    again = await browser.get(f"{place.path}?{place.query}")
    thief = await desk.browser(Cookie=f"{ATTEMPT}={kept}")
    stolen = await thief.get(f"{place.path}?{place.query}")

    assert (again.status_code, stolen.status_code) == (403, 403)
    assert "(sign_in_not_begun)" in again.text and "(sign_in_not_given)" in stolen.text


LOOKS_OF_NOBODY: dict[str, dict[str, Any]] = {
    "HEAD": {"method": "HEAD"},
    "POST": {"method": "POST"},
    "looks ahead": {"headers": {"Sec-Purpose": "prefetch;prerender"}},
    "draws it": {"headers": {"Sec-Fetch-Dest": "image"}},
    "frames it": {"headers": {"Sec-Fetch-Dest": "iframe"}},
    "fetches it": {"headers": {"Sec-Fetch-Dest": "empty"}},
}


@pytest.mark.parametrize("how", LOOKS_OF_NOBODY)
async def test_nothing_but_a_look_of_ones_own_signs_in(desk: Desk, how: str) -> None:
    browser = await desk.browser()
    asked = {"method": "GET", **LOOKS_OF_NOBODY[how]}
    begun = await browser.request(url="/console/sign-in/through/staff", **asked)
    assert begun.status_code in (401, 405) and ATTEMPT not in browser.cookies
    went = await desk.gone(browser)
    place = urlsplit(desk.porch.provider.authorized(went.headers["location"]))
    answer = await browser.request(url=f"{place.path}?{place.query}", **asked)

    assert answer.status_code in (401, 405) and SESSION not in browser.cookies
    assert desk.porch.provider.forms == []


async def test_the_issuers_words_are_on_no_page(desk: Desk) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser)
    words = {"error": SECRET_WORDS, "error_description": f"<script>{SECRET_WORDS}</script>", "error_uri": SECRET_WORDS}
    answer = await desk.came_back(browser, went.headers["location"], **words)

    assert answer.status_code == 403 and "(sign_in_not_given)" in answer.text
    assert SECRET_WORDS not in answer.text + str(answer.headers)
    assert "script-src 'nonce-" in answer.headers["content-security-policy"]


async def test_an_issuer_that_is_down_is_told_and_signs_nobody_in(desk: Desk) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser)
    desk.porch.provider.token_answer = lambda given: (503, b"")
    answer = await desk.came_back(browser, went.headers["location"])
    assert answer.status_code == 503 and "(sign_in_unavailable)" in answer.text
    assert SESSION not in browser.cookies


async def test_without_a_store_nobody_is_signed_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable

    monkeypatch.setattr(desk.house.store, "put_credentials", away)
    browser = await desk.browser()
    went = await desk.gone(browser)
    answer = await desk.came_back(browser, went.headers["location"])

    assert answer.status_code == 503 and SESSION not in browser.cookies


async def test_there_is_no_way_but_the_configured_ones(desk: Desk) -> None:
    browser = await desk.browser()
    for path in ("through/other", "back/other", "through/Staff", "through/", "back/"):
        answer = await browser.get(f"/console/sign-in/{path}")
        assert answer.status_code in (303, 404), path
        assert ATTEMPT not in browser.cookies and SESSION not in browser.cookies


async def test_too_many_words_are_no_answer(desk: Desk) -> None:
    browser = await desk.browser()
    went = await desk.gone(browser)
    place = urlsplit(desk.porch.provider.authorized(went.headers["location"]))
    answer = await browser.get(f"{place.path}?{place.query}&" + "&".join(f"a{n}=1" for n in range(50)))
    assert answer.status_code == 400 and desk.porch.provider.forms == []


async def test_a_session_through_an_issuer_is_on_record_and_ends_as_any_other(desk: Desk) -> None:
    browser = await desk.signed_in()
    (begun,) = await desk.house.told()
    assert (begun["kind"], begun["detail"], begun["subject"], begun["tenant"]) == (
        "session_begun", "issuer", "id:u-17", "acme",
    )  # fmt: skip

    desk.house.clock.advance(1_800.0)
    assert (await browser.get("/console/me")).status_code == 303


async def test_forms_count_from_this_site_alone_whatever_host_says(desk: Desk) -> None:
    browser = await desk.signed_in()
    csrf = csrf_of((await browser.get("/console/me")).text)
    for origin, host in (("https://evil.example", "evil.example"), ("http://desk.example", "desk.example")):
        refused = await browser.post(
            "/console/sign-out", data=csrf, headers={"Origin": origin, "Host": host, "Sec-Fetch-Site": "same-origin"}
        )
        assert (refused.status_code, refused.text) == (403, "foreign_origin\n")
    accepted = await browser.post("/console/sign-out", data=csrf, headers={"Host": "inner:8420"})
    assert accepted.status_code == 303


# ---------------------------------------------------------------- out


def csrf_of(page: str) -> dict[str, str]:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return {"csrf": found[1]}


async def test_signing_out_ends_the_session_here_and_leaves_the_issuers_alone(desk: Desk) -> None:
    browser = await desk.signed_in()
    cookie = browser.cookies[SESSION]
    answer = await browser.post("/console/sign-out", data=csrf_of((await browser.get("/console/me")).text))

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in?done=signed_out")
    thief = await desk.browser(Cookie=f"{SESSION}={cookie}")
    assert (await thief.get("/console/me")).status_code == 303


async def test_where_it_is_wanted_signing_out_goes_on_to_the_issuers() -> None:
    async with desk_of(ends_there=True) as desk:
        browser = await desk.signed_in()
        cookie = browser.cookies[SESSION]
        answer = await browser.post("/console/sign-out", data=csrf_of((await browser.get("/console/me")).text))

        assert answer.status_code == 200 and "You are signed out." in answer.text
        place = onward_of(answer.text)
        assert place.partition("?")[0] == f"{desk.porch.provider.url}/logout"
        assert dict(parse_qsl(urlsplit(place).query))["post_logout_redirect_uri"] == f"{HERE}/console/sign-in"
        thief = await desk.browser(Cookie=f"{SESSION}={cookie}")
        assert (await thief.get("/console/me")).status_code == 303, "whatever becomes of the way to the issuer"


async def test_an_issuer_that_is_down_keeps_nobody_signed_in() -> None:
    async with desk_of(ends_there=True) as desk:
        browser = await desk.signed_in()
        csrf = csrf_of((await browser.get("/console/me")).text)
        desk.house.clock.advance(1_000.0)
        await desk.flow.close()
        desk.flow._desks["staff"] = replace(
            desk.flow._desks["staff"], endpoints=desk.porch.flow._desks["staff"].endpoints
        )
        desk.porch.provider.answer = lambda request: request.send_error(503)
        answer = await browser.post("/console/sign-out", data=csrf)

        assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in?done=signed_out")


# ---------------------------------------------------------------- one's own sessions


async def test_a_person_sees_where_it_is_signed_in_and_ends_one_of_them(desk: Desk) -> None:
    here, there = await desk.signed_in(), await desk.signed_in()
    stranger = await desk.sessions.open(OLGA)
    page = (await here.get("/console/me")).text
    names = re.findall(r'name="name" value="([0-9a-f]{16})"', page)
    other = next(name for name in names if f"<code>{name}</code> this one" not in page)

    assert len(names) == 2 and stranger.session.name not in page
    answer = await here.post("/console/me/sessions", data={**csrf_of(page), "name": other})

    assert answer.headers["location"] == "/console/me?done=session_ended"
    assert [(await each.get("/console/me")).status_code for each in (here, there)] == [200, 303]
    assert (await desk.sessions.glance(stranger.cookie)).principal == OLGA
    ended = (await desk.house.told())[-1]
    assert (ended["kind"], ended["detail"], ended["decided_by"]) == ("session_ended", "ended", "id:u-17")
    assert ended["reasons"] == [f"session:{other}"]


async def test_somebody_elses_session_is_not_ones_own_to_end(desk: Desk) -> None:
    here, stranger = await desk.signed_in(), await desk.sessions.open(OLGA)
    csrf = csrf_of((await here.get("/console/me")).text)
    for name in (stranger.session.name, "", "0" * 16, "x", "f" * 64, "all "):
        answer = await here.post("/console/me/sessions", data={**csrf, "name": name})
        assert answer.status_code == 303
    assert (await desk.sessions.glance(stranger.cookie)).principal == OLGA
    assert (await here.get("/console/me")).status_code == 200


async def test_all_of_ones_own_sessions_end_together_this_one_too(desk: Desk) -> None:
    browsers = [await desk.signed_in() for _ in range(3)]
    csrf = csrf_of((await browsers[0].get("/console/me")).text)
    answer = await browsers[0].post("/console/me/sessions", data={**csrf, "name": "all"})

    assert answer.headers["location"] == "/console/sign-in?done=signed_out_everywhere"
    assert [(await each.get("/console/me")).status_code for each in browsers] == [303] * 3


async def test_a_page_that_is_open_hears_soon_that_its_session_was_ended_elsewhere(desk: Desk) -> None:
    browser = await desk.signed_in()
    stream = Stream(desk.app, browser.cookies[SESSION])
    await stream.said()
    boss = Principal.person("boss", tenant="acme", scopes=[MANAGE_SESSIONS_SCOPE])
    assert await sessions_of(desk.house).people.end_every(by=boss) == 1
    desk.house.clock.advance(LOOK_SECONDS)

    assert await stream.said() == "event: signed-out\ndata: 1\n\n"
    await stream.ended()


async def test_a_form_without_its_word_ends_nothing(desk: Desk) -> None:
    here, other = await desk.signed_in(), await desk.signed_in()
    theirs = csrf_of((await other.get("/console/me")).text)
    for fields in ({"name": "all"}, {**theirs, "name": "all"}):
        answer = await here.post("/console/me/sessions", data=fields)
        assert (answer.status_code, answer.text) == (403, "not_your_form\n")
    assert [(await each.get("/console/me")).status_code for each in (here, other)] == [200, 200]


async def test_a_server_for_development_has_no_way_through_an_issuer(desk: Desk) -> None:
    app = Console(desk.app._gate, sessions=desk.sessions, clock=desk.house.clock, issuers=desk.flow, is_dev=True)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        page = (await browser.get("/console/sign-in")).text
        went = await browser.get("/console/sign-in/through/staff")

    assert 'name="link"' in page and "through/" not in page
    assert went.status_code == 404 and CLIENT not in str(went.headers)


async def test_what_is_no_answer_to_the_attempt_of_this_browser_does_not_end_it(desk: Desk) -> None:
    """Any site may send somebody here with words of its own."""
    browser = await desk.browser()
    went = await desk.gone(browser)
    junk = await browser.get("/console/sign-in/back/staff?state=junk&code=junk")
    back = await desk.came_back(browser, went.headers["location"])

    assert junk.status_code == 403 and "sign_in_not_begun" in junk.text
    assert "set-cookie" not in junk.headers
    assert back.status_code == 200 and SESSION in browser.cookies


# ---------------------------------------------------------------- while the list of people does not answer


async def test_while_the_list_of_people_does_not_answer_that_is_said_and_nobody_is_signed_out(desk: Desk) -> None:
    listed = Listed(OLGA)
    sessions = sessions_of(desk.house, people=listed)
    desk.app = Console(desk.app._gate, sessions=sessions, clock=desk.house.clock, public_url=HERE)
    browser = await desk.browser()
    assert (await browser.post("/console/sign-in", data={"link": await sessions.link(OLGA)})).status_code == 303
    csrf = csrf_of((await browser.get("/console/me")).text)
    listed.fails = True
    looked = await browser.get("/console/")
    left = await browser.post("/console/sign-out", data=csrf)

    assert looked.status_code == left.status_code == 503
    assert looked.text == "The list of people does not answer. Nothing was done. Try again. (people_failed)\n"
    assert left.text == "people_failed\n"
    assert "set-cookie" not in looked.headers and "set-cookie" not in left.headers
    listed.fails = False
    assert (await browser.get("/console/me")).status_code == 200
