"""Who comes in, which posts count, and that looking changes nothing; another site decides nothing here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from placet.console.app import Console
from placet.model.approval import ApprovalState
from tests.console.shop import AGENT, LOOKER, MEI, OMAR, STRANGER, Shop, browser_of, fields_of, open_shop, sign_in


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


async def decision_form(shop: Shop, approval_id: str) -> tuple[str, dict[str, str]]:
    page = (await shop.browser.get(f"/console/approvals/{approval_id}")).text
    fields = fields_of(page, "/decision")
    assert fields["decision"] == "approve"
    return f"/console/approvals/{approval_id}/decision", fields


async def state_of(shop: Shop, approval_id: str) -> ApprovalState:
    return (await shop.gate.desk.show(approval_id, by=OMAR)).state


# ---------------------------------------------------------------- signing in and out


async def test_nobody_sees_a_page_without_signing_in(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    async with browser_of(shop.app) as stranger:
        for path in ("/", f"/approvals/{approval_id}", "/effects", "/audit", "/audit/events.jsonl", "/me", "/nowhere"):
            answer = await stranger.get(f"/console{path}")
            assert answer.status_code == 303 and answer.headers["location"].startswith("/console/sign-in?next="), path
            assert "refund" not in answer.text


async def test_a_link_signs_in_once(shop: Shop) -> None:
    link = shop.sessions.link_for(MEI)
    async with browser_of(shop.app) as first, browser_of(shop.app) as second:
        answer = await sign_in(first, link)
        assert answer.headers["location"] == "/console/"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-placet=")
        assert all(word in cookie for word in ("HttpOnly", "Secure", "Path=/", "SameSite=strict"))
        assert "Domain" not in cookie

        again = await second.post("/console/sign-in", data={"link": link})
        assert again.status_code == 403
        assert "set-cookie" not in again.headers
        assert (await first.get("/console/me")).status_code == 200


async def test_looking_at_a_sign_in_link_does_not_use_it(shop: Shop) -> None:
    link = shop.sessions.link_for(MEI)
    async with browser_of(shop.app) as browser:
        for _ in range(3):
            assert (await browser.get("/console/sign-in", params={"link": link})).status_code == 200
        await sign_in(browser, link)


async def test_an_agent_has_no_session(shop: Shop) -> None:
    async with browser_of(shop.app) as browser:
        answer = await browser.post("/console/sign-in", data={"link": shop.sessions.link_for(AGENT)})
        assert answer.status_code == 403


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/console//evil.example",
        "/console/../admin",
        "/console/..",
        "/console/%2e%2e/admin",
        "/console/.%2E/admin",
        "/console/%2E.?x",
        "javascript:alert(1)",
        "/console/x\r\nSet-Cookie: a=b",
        "/console/" + "a" * 2_000,
        "/consoleevil",
        "/other",
        "",
    ],
)
async def test_signing_in_leads_into_the_console_and_nowhere_else(shop: Shop, wanted: str) -> None:
    async with browser_of(shop.app) as browser:
        answer = await browser.post("/console/sign-in", data={"link": shop.sessions.link_for(MEI), "next": wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/")


async def test_signing_in_goes_on_to_the_page_that_was_wanted(shop: Shop) -> None:
    async with browser_of(shop.app) as browser:
        turned = await browser.get("/console/audit?kind=started&tool=refund")
        page = (await browser.get(turned.headers["location"])).text
        wanted = fields_of(page, "/console/sign-in")["next"]
        answer = await browser.post("/console/sign-in", data={"link": shop.sessions.link_for(MEI), "next": wanted})
        assert answer.headers["location"] == "/console/audit?kind=started&tool=refund"


async def test_signing_out_ends_the_session_and_not_only_the_cookie(shop: Shop) -> None:
    cookie = shop.browser.cookies["__Host-placet"]
    csrf = fields_of((await shop.browser.get("/console/me")).text, "/sign-out")
    answer = await shop.browser.post("/console/sign-out", data=csrf)
    assert answer.status_code == 303

    async with browser_of(shop.app) as thief:
        assert (await thief.get("/console/me", headers={"Cookie": f"__Host-placet={cookie}"})).status_code == 303


async def test_a_session_is_over_when_its_time_is(shop: Shop) -> None:
    assert (await shop.browser.get("/console/me")).status_code == 200
    shop.clock.advance(8 * 86_400.0)
    assert (await shop.browser.get("/console/me")).status_code == 303


@pytest.mark.parametrize("cookie", ["", "x", "cookie-", "a" * 5_000, "%00", '"; drop', "cookie-1; __Host-placet=x"])
async def test_a_cookie_that_names_nothing_is_nobody(shop: Shop, cookie: str) -> None:
    async with browser_of(shop.app) as browser:
        answer = await browser.get("/console/me", headers={"Cookie": f"__Host-placet={cookie}"})
        assert answer.status_code in (303, 200)
        if answer.status_code == 200:  # the first of two cookies of one name is a real one
            assert "mei" in answer.text and cookie.startswith("cookie-1;")


async def test_the_cookie_of_the_development_server_opens_nothing_here(shop: Shop) -> None:
    value = shop.browser.cookies["__Host-placet"]
    async with browser_of(shop.app) as browser:
        assert (await browser.get("/console/me", headers={"Cookie": f"placet-dev={value}"})).status_code == 303


@pytest.mark.parametrize(
    "tossed",
    [
        b"\xa0__Host-placet=%b",
        b"\x85__Host-placet=%b",
        b"__Host-placet\xa0=%b",
        b"__host-placet=%b",
        b"__Host-placet=%b; __Host-placet=x",
        b"__Host-placet=x; __Host-placet=%b",
    ],
)
async def test_a_cookie_that_another_site_could_have_set_is_nobodys(shop: Shop, tossed: bytes) -> None:
    """A prefix only guards the very name that it begins; a reader that strips more than a browser does undoes it."""
    value = shop.browser.cookies["__Host-placet"].encode()
    async with browser_of(shop.app) as browser:
        mine = await browser.get("/console/me", headers=[(b"Cookie", b"a=b; __Host-placet=%b; c=d" % value)])
        theirs = await browser.get("/console/me", headers=[(b"Cookie", tossed % value)])
    assert (mine.status_code, theirs.status_code) == (200, 303)


# ---------------------------------------------------------------- posts


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://desk.example.evil.example"},
        {"Origin": "https://desk.example:8443"},
        {"Origin": "https://["},
        {"Origin": "https://desk.example@evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
async def test_a_post_of_another_site_decides_nothing(shop: Shop, headers: dict[str, str]) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    address, fields = await decision_form(shop, approval_id)

    answer = await shop.browser.post(address, data=fields, headers=headers)

    assert (answer.status_code, answer.text) == (403, "foreign_origin\n")
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


async def test_a_post_that_does_not_say_where_it_is_from_decides_nothing(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    address, fields = await decision_form(shop, approval_id)
    del shop.browser.headers["Origin"], shop.browser.headers["Sec-Fetch-Site"]

    assert (await shop.browser.post(address, data=fields)).status_code == 403
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


@pytest.mark.parametrize("change", [{"csrf": ""}, {"csrf": "csrf-1 "}, {"csrf": "é"}, {"csrf": None}])
async def test_a_form_without_the_word_of_its_session_decides_nothing(shop: Shop, change: dict[str, Any]) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    address, fields = await decision_form(shop, approval_id)
    sent = {name: value for name, value in (fields | change).items() if value is not None}

    answer = await shop.browser.post(address, data=sent)

    assert (answer.status_code, answer.text) == (403, "not_your_form\n")
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


async def test_a_form_of_another_session_decides_nothing(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    address, fields = await decision_form(shop, approval_id)
    omar = await shop.as_person(OMAR)

    assert (await omar.post(address, data=fields)).status_code == 403
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "PROPFIND"])
async def test_only_a_post_decides(shop: Shop, method: str) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    address, fields = await decision_form(shop, approval_id)

    answer = await shop.browser.request(method, address, params=fields)

    assert answer.status_code in (404, 405)
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"csrf=x", "application/json", 415),
        (b"csrf=x", "multipart/form-data; boundary=b", 415),
        (b"csrf=x", "text/plain", 415),
        (b"a" * 70_000, "application/x-www-form-urlencoded", 413),
        (b"&".join(b"f%d=1" % n for n in range(200)), "application/x-www-form-urlencoded", 400),
        (b"decision=approve&decision=deny", "application/x-www-form-urlencoded", 400),
        (b"csrf=%ff%fe", "application/x-www-form-urlencoded", 400),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 400),
        (b"nonsense", "application/x-www-form-urlencoded", 400),
        (b"", "application/x-www-form-urlencoded", 403),
    ],
)
async def test_a_body_that_is_no_form_of_ours_decides_nothing(shop: Shop, body: bytes, kind: str, status: int) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)

    answer = await shop.browser.post(
        f"/console/approvals/{approval_id}/decision", content=body, headers={"Content-Type": kind}
    )

    assert answer.status_code == status
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/stops/stop"])
async def test_a_form_that_does_not_arrive_is_given_up(shop: Shop, path: str) -> None:
    app = Console(shop.gate, sessions=shop.sessions, clock=shop.clock, form_seconds=0.05)

    async def unfinished() -> AsyncIterator[bytes]:
        yield b"link="
        await asyncio.Event().wait()

    async with browser_of(app) as browser, asyncio.timeout(30):
        answer = await browser.post(
            f"/console{path}",
            content=unfinished(),
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "Cookie": f"__Host-placet={shop.browser.cookies['__Host-placet']}",
            },
        )
    assert (answer.status_code, answer.text) == (408, "too_slow\n")
    assert answer.headers["connection"] == "close", "the rest of it is not waited for"


async def test_looking_at_every_page_changes_nothing(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    before = [event async for event in shop.gate.store.chained()]
    for path in (
        "/", "/news?seen=x", f"/approvals/{approval_id}", "/effects", "/effect?key=x", "/runs", "/run?run=run-1",
        "/audit", "/audit/verify", "/audit/events.jsonl", "/tools", "/stops", "/me", "/sign-in",
    ):  # fmt: skip
        for method in ("GET", "HEAD"):
            assert (await shop.browser.request(method, f"/console{path}")).status_code in (200, 404)
    assert [event async for event in shop.gate.store.chained()] == before


# ---------------------------------------------------------------- headers and paths


async def test_every_answer_forbids_what_no_page_needs(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    paths = (
        "/",
        f"/approvals/{approval_id}",
        "/nowhere",
        "/sign-in",
        "/static/console.css",
        "/static/none.js",
        "/audit/events.jsonl",
    )
    nonces: set[str] = set()
    for path in paths:
        headers = (await shop.browser.get(f"/console{path}")).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'no")
        assert "unsafe" not in policy and "*" not in policy
        assert "frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] in ("no-store", "no-cache")
        nonces.add(policy.split("script-src ")[1].split(";")[0])
    assert len(nonces - {"'none'"}) == 5, "each page has a nonce of its own"


@pytest.mark.parametrize("query", ["", "?a=b"])
async def test_the_address_without_its_slash_leads_to_the_inbox_of_this_very_site(shop: Shop, query: str) -> None:
    answer = await shop.browser.get(f"/console{query}", headers={"Host": "evil.example"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/console/"), ("PUT", "/console/me"), ("POST", "/console")])
async def test_a_method_that_is_not_taken_is_answered_as_guardedly(shop: Shop, method: str, path: str) -> None:
    answer = await shop.browser.request(method, path)

    assert (answer.status_code, answer.text) == (405, "method_not_allowed\n")
    assert "GET" in answer.headers["allow"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"


async def test_every_script_and_every_live_element_carries_the_nonce(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    answer = await shop.browser.get("/console/")
    nonce = answer.headers["content-security-policy"].split("nonce-")[1].split("'")[0]

    assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}"') == 4
    for tag in [part.split(">")[0] for part in answer.text.split("<")[1:]]:
        assert re.search(r"\son[a-z]+=", tag) is None, tag
        if " hx-" in tag:
            assert f'hx-nonce="{nonce}"' in tag, tag
    assert "style=" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/htmx.LICENSE",
        "/static/",
        "/static/%00",
        "/static/vendored.sha256",
    ],
)
async def test_only_what_is_meant_to_be_served_is(shop: Shop, path: str) -> None:
    answer = await shop.browser.get(f"/console{path}")
    assert answer.status_code == 404
    assert "import" not in answer.text


@pytest.mark.parametrize(
    "approval_id", ["none", "%2e%2e%2fme", "a" * 200, "%00", "%ff", "' OR 1=1", "<script>alert(1)</script>"]
)
async def test_an_approval_that_is_none_is_not_found(shop: Shop, approval_id: str) -> None:
    answer = await shop.browser.get(f"/console/approvals/{approval_id}")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


async def test_what_another_tenant_asks_looks_like_nothing(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    stranger = await shop.as_person(STRANGER)

    answers = [await stranger.get(f"/console/approvals/{each}") for each in (approval_id, "apr-none")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert without_nonce(answers[0]) == without_nonce(answers[1])
    csrf = fields_of((await stranger.get("/console/me")).text, "/sign-out")["csrf"]
    posted = await stranger.post(
        f"/console/approvals/{approval_id}/decision",
        data={"csrf": csrf, "decision": "deny", "digest": "0" * 64, "reason": "x"},
    )
    assert posted.status_code == 404
    assert await state_of(shop, approval_id) is ApprovalState.PENDING
    assert "refund" not in (await stranger.get("/console/audit")).text


async def test_somebody_without_leave_looks_and_has_no_form(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    looker = await shop.as_person(LOOKER)
    page = (await looker.get(f"/console/approvals/{approval_id}")).text

    assert "/decision" not in page and "approvals.decide" in page
    csrf = fields_of((await looker.get("/console/me")).text, "/sign-out")["csrf"]
    digest = (await shop.gate.desk.show(approval_id, by=MEI)).digest
    refused = await looker.post(
        f"/console/approvals/{approval_id}/decision", data={"csrf": csrf, "decision": "approve", "digest": digest}
    )
    assert refused.status_code == 403
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


def without_nonce(answer: httpx.Response) -> str:
    nonce = answer.headers["content-security-policy"].split("nonce-")[1].split("'")[0]
    return answer.text.replace(nonce, "")


@pytest.mark.parametrize("path", ["/sign-out", "/me/sessions"])
async def test_another_site_takes_nobodys_cookie_away(shop: Shop, path: str) -> None:
    """A browser sends no strict cookie from there, so nobody asks; its answer must not end what the browser keeps."""
    async with browser_of(shop.app) as elsewhere:
        answer = await elsewhere.post(
            f"/console{path}", headers={"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        )

    assert (answer.status_code, answer.text) == (403, "foreign_origin\n")
    assert "set-cookie" not in answer.headers and "clear-site-data" not in answer.headers


async def test_whoever_signs_out_twice_is_signed_out(shop: Shop) -> None:
    async with browser_of(shop.app) as browser:
        answer = await browser.post("/console/sign-out", data={"csrf": "of a session that is over"})

    assert answer.headers["location"] == "/console/sign-in?done=signed_out"
    assert answer.headers["set-cookie"].startswith('__Host-placet=""; ')
