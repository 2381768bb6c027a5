"""Standing grants over HTTP: shown before they are signed, listed a page at a time, revoked by a POST alone."""

from __future__ import annotations

from typing import Any

import pytest

from placet import AskRule, AskRules, GrantTerms, Matrix
from tests.http_api.conftest import Api, MakeApi

POLICY = Matrix(asks=AskRules(rules=(AskRule(name="small", grants=GrantTerms(max_uses=20, max_seconds=28_800.0)),)))
WISH: dict[str, Any] = {
    "tool": "pay",
    "subjects": ["agent"],
    "limits": {"amount": {"at_most": 10}, "card": "any"},
    "seconds": 600,
    "max_uses": 3,
    "reason": "payday",
}


@pytest.fixture
async def granting(make_api: MakeApi) -> Api:
    return await make_api(policy=POLICY)


async def given(api: Api, **changes: Any) -> dict[str, Any]:
    draft = await api.post("/v1/grants/drafts", WISH | changes, as_="t-mara")
    assert draft.status_code == 200, draft.text
    made = await api.post("/v1/grants", WISH | changes | {"digest": draft.json()["digest"]}, as_="t-mara")
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/v1/grants/{made.json()['grant_id']}"
    return dict(made.json())


async def test_a_grant_is_drafted_given_used_and_revoked(granting: Api) -> None:
    draft = (await granting.post("/v1/grants/drafts", WISH, as_="t-mara")).json()
    assert (draft["grant_id"], draft["covers"][1]) == ("", "amount: a number, at most 10")
    assert (await granting.get("/v1/grants")).json() == {"grants": [], "next": None}

    grant = await given(granting)
    assert grant["digest"] == draft["digest"]
    assert (await granting.propose("pay", {"amount": 10})).status_code == 200
    assert (await granting.propose("pay", {"amount": 11}, call_id="c2")).status_code == 202
    shown = await granting.get(f"/v1/grants/{grant['grant_id']}")
    assert (shown.json()["uses"], shown.json()["state"], shown.json()["words"]) == (1, "usable", "payday")
    assert shown.headers["etag"] == f'"{grant["digest"]}.usable.1"'
    again = await granting.get(f"/v1/grants/{grant['grant_id']}", headers={"If-None-Match": shown.headers["etag"]})
    assert again.status_code == 304

    revoked = await granting.post(f"/v1/grants/{grant['grant_id']}/revoke", as_="t-omar")
    assert (revoked.status_code, revoked.json()["state"], revoked.json()["revoked_by"]) == (200, "revoked", "omar")
    assert (await granting.propose("pay", {"amount": 10}, call_id="c3")).status_code == 202


async def test_nothing_is_revoked_that_stands_otherwise_than_it_was_read(granting: Api) -> None:
    grant = await given(granting)
    tag = (await granting.get(f"/v1/grants/{grant['grant_id']}")).headers["etag"]
    await granting.propose("pay", {"amount": 1})
    address = f"/v1/grants/{grant['grant_id']}/revoke"
    late = await granting.post(address, as_="t-mara", headers={"If-Match": tag})
    assert (late.status_code, late.json()["changed"]) == (412, {"state": "usable", "uses": 1})
    now = (await granting.get(f"/v1/grants/{grant['grant_id']}")).headers["etag"]
    assert (await granting.post(address, as_="t-mara", headers={"If-Match": now})).status_code == 200


async def test_grants_are_listed_a_page_at_a_time(granting: Api) -> None:
    ids = [(await given(granting))["grant_id"] for _ in range(3)]
    first = (await granting.get("/v1/grants?limit=2")).json()
    rest = (await granting.get(f"/v1/grants?limit=2&cursor={first['next']}")).json()
    assert sorted(view["grant_id"] for view in first["grants"] + rest["grants"]) == sorted(ids)
    assert rest["next"] is None
    assert (await granting.get("/v1/grants", as_="t-far")).json() == {"grants": [], "next": None}


async def test_those_that_stand_are_listed_past_those_that_have_ended(granting: Api) -> None:
    stands = await given(granting)
    for _ in range(3):
        ended = await given(granting)
        await granting.post(f"/v1/grants/{ended['grant_id']}/revoke", as_="t-mara")
    answer = (await granting.get("/v1/grants?limit=2&which=standing")).json()
    assert ([view["grant_id"] for view in answer["grants"]], answer["next"]) == ([stands["grant_id"]], None)
    cursor = (await granting.get("/v1/grants?limit=2")).json()["next"]
    assert (await granting.get(f"/v1/grants?which=standing&cursor={cursor}")).status_code == 422
    assert (await granting.get("/v1/grants?which=others")).status_code == 400


async def test_a_wish_like_an_approval_can_be_given_as_it_is(granting: Api) -> None:
    view = await granting.asked(5)
    wish = (await granting.get(f"/v1/approvals/{view['approval_id']}/grant-wish")).json()
    assert wish == {
        "tool": "pay",
        "subjects": ["agent"],
        "limits": {"amount": {"one_of": [5]}, "card": "any"},
        "seconds": 3600.0,
        "max_uses": 10,
        "run": "r1",
    }
    digest = (await granting.post("/v1/grants/drafts", wish, as_="t-mara")).json()["digest"]
    assert (await granting.post("/v1/grants", wish | {"digest": digest}, as_="t-mara")).status_code == 201


ANSWERS: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "an agent": ("t-agent", {}, 403, "not_a_person"),
    "somebody not entitled": ("t-plain", {}, 403, "scope_missing"),
    "one's own calls": ("t-mara", {"subjects": ["agent", "mara"]}, 403, "own_request"),
    "a tool that there is not": ("t-mara", {"tool": "none"}, 404, "not_found"),
    "for too long": ("t-mara", {"seconds": 28_801}, 422, "grant_too_long"),
    "too often": ("t-mara", {"max_uses": 21}, 422, "grant_too_often"),
    "an argument without a limit": ("t-mara", {"limits": {"card": "any"}}, 422, "bad_limits"),
    "limits that are none": ("t-mara", {"limits": []}, 400, "request_malformed"),
    "no time": ("t-mara", {"seconds": "1h"}, 400, "request_malformed"),
    "no whole number of uses": ("t-mara", {"max_uses": 1.0}, 400, "request_malformed"),
    "subjects in a text": ("t-mara", {"subjects": "agent"}, 400, "request_malformed"),
    "a subject that is none": ("t-mara", {"subjects": [""]}, 422, "misuse"),
    "an unknown member": ("t-mara", {"until": "tomorrow"}, 400, "request_malformed"),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_what_is_not_granted_is_answered_with_its_reason(granting: Api, what: str) -> None:
    who, changes, status, code = ANSWERS[what]
    answer = await granting.post("/v1/grants/drafts", WISH | changes, as_=who)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    signed = WISH | changes | {"digest": "0" * 64}
    assert (await granting.post("/v1/grants", signed, as_=who)).status_code == status


async def test_a_digest_of_another_draft_gives_nothing(granting: Api) -> None:
    answer = await granting.post("/v1/grants", WISH | {"digest": "0" * 64}, as_="t-mara")
    assert (answer.status_code, answer.json()["code"]) == (409, "other_digest")
    assert (await granting.get("/v1/grants")).json()["grants"] == []


async def test_without_a_word_in_the_policy_nobody_grants_anything(api: Api) -> None:
    answer = await api.post("/v1/grants/drafts", WISH, as_="t-mara")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_grantable")


async def test_another_tenants_grant_is_like_one_that_there_is_not(granting: Api) -> None:
    grant = await given(granting)
    for method, path in (("GET", ""), ("POST", "/revoke")):
        mine = await granting.ask(method, f"/v1/grants/{grant['grant_id']}{path}", as_="t-far")
        none = await granting.ask(method, f"/v1/grants/grt-none{path}", as_="t-far")
        assert (mine.status_code, mine.json() | {"request_id": ""}) == (404, none.json() | {"request_id": ""})
