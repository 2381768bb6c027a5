"""One answer to several questions over HTTP, and the order in which what waits matters."""

from __future__ import annotations

from typing import Any

import pytest

from placet.adapters.rates.steady import OwnRateLimiter
from placet.model.rates import Rate, RateLimits
from placet.testing import FakeClock, RecordingMeter
from tests.http_api.conftest import Api, MakeApi

DIGEST = "0" * 64
WHERE = "/v1/approvals/decisions"


async def several(api: Api, count: int = 3) -> list[dict[str, Any]]:
    return [await api.asked(amount=number, call_id=f"c{number}") for number in range(count)]


def body(decision: str, views: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    chosen = [{"approval_id": view["approval_id"], "digest": view["digest"]} for view in views]
    return {"decision": decision, "approvals": chosen, **more}


async def states(api: Api, views: list[dict[str, Any]]) -> list[str]:
    return [(await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] for view in views]


# ---------------------------------------------------------------- one answer to several


@pytest.mark.case("O06")
async def test_each_is_denied_or_refused_by_itself_and_told_so(api: Api) -> None:
    views = await several(api)
    await api.decide(views[1], "approve", as_="t-omar")
    unseen = views[2] | {"digest": DIGEST}
    absent = {"approval_id": "apr-none", "digest": DIGEST}
    answer = await api.post(WHERE, body("deny", [views[0], views[1], unseen, absent], reason="no"), as_="t-mara")
    said = answer.json()["decisions"]

    assert answer.status_code == 200
    assert [each["code"] for each in said] == [None, "already_decided", "other_digest", "not_found"]
    assert [each["approval"] and each["approval"]["state"] for each in said] == ["denied", "approved", "pending", None]
    assert said[0]["approval"]["words"] == "no" and "omar" in said[1]["message"]
    assert await states(api, views) == ["denied", "approved", "pending"]
    assert [each["approval_id"] for each in await api.events("approval_denied")] == [views[0]["approval_id"]]


@pytest.mark.case("O06")
async def test_what_is_alike_is_approved_each_on_its_own_digest_and_the_same_again_is_the_same(api: Api) -> None:
    views = await several(api)
    first = await api.post(WHERE, body("approve", views), as_="t-mara")
    again = await api.post(WHERE, body("approve", views), as_="t-mara")

    assert first.status_code == 200 and first.json() == again.json()
    assert [each["approval"]["state"] for each in first.json()["decisions"]] == ["approved"] * 3
    recorded = [each["approval_id"] for each in await api.events("approval_approved")]
    assert recorded == [view["approval_id"] for view in views]


@pytest.mark.case("O06")
async def test_one_that_was_not_seen_approves_none_and_is_named(api: Api) -> None:
    views = await several(api)
    odd = views[1] | {"digest": DIGEST}
    answer = await api.post(WHERE, body("approve", [views[0], odd, views[2]]), as_="t-mara")

    assert (answer.status_code, answer.json()["code"]) == (409, "other_digest")
    assert views[1]["approval_id"] in answer.json()["detail"]
    assert await states(api, views) == ["pending"] * 3 and await api.events("approval_approved") == []


@pytest.mark.parametrize(("who", "status", "code"), [("t-agent", 403, "not_a_person"), ("t-nobody", 401, None)])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_whoever_is_no_person_decides_none(api: Api, who: str, status: int, code: str, decision: str) -> None:
    views = await several(api, 2)
    answer = await api.post(WHERE, body(decision, views), as_=who)

    assert answer.status_code == status and code in (answer.json()["code"], None)
    assert await states(api, views) == ["pending"] * 2


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_of_another_tenant_there_is_nothing(api: Api, decision: str) -> None:
    views = await several(api, 2)
    answer = await api.post(WHERE, body(decision, views), as_="t-far")

    if decision == "approve":
        assert answer.status_code == 404
    else:
        assert {(each["code"], each["approval"]) for each in answer.json()["decisions"]} == {("not_found", None)}
    assert await states(api, views) == ["pending"] * 2


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
async def test_only_a_post_decides_several(api: Api, method: str) -> None:
    answer = await api.ask(method, WHERE, as_="t-mara")

    assert answer.status_code in (404, 405)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"decision": "deny"},
        {"decision": "maybe"},
        {"approvals": []},
        {"approvals": {}},
        {"approvals": "apr-1"},
        {"approvals": [{"approval_id": "apr-1"}]},
        {"approvals": [{"approval_id": "apr-1", "digest": DIGEST, "decision": "approve"}]},
        {"approvals": [{"approval_id": "", "digest": DIGEST}]},
        {"approvals": [{"approval_id": 7, "digest": DIGEST}]},
        {"approvals": [{"approval_id": "apr-1", "digest": "0" * 8}]},
        {"approvals": [["apr-1", DIGEST]]},
        {"approvals": [{"approval_id": f"apr-{number}", "digest": DIGEST} for number in range(101)]},
        {"reason": "x" * 501},
        {"all": True},
    ],
)
async def test_what_says_nothing_is_malformed_and_decides_nothing(api: Api, odd: dict[str, Any]) -> None:
    (view,) = await several(api, 1)
    sent = {} if not odd else body("deny", [view], reason="no") | odd
    if odd == {"decision": "deny"}:
        del sent["approvals"]
    answer = await api.post(WHERE, sent, as_="t-mara")

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")
    assert await states(api, [view]) == ["pending"]


async def test_a_hundred_are_decided_at_once(api: Api) -> None:
    chosen = [{"approval_id": f"apr-{number}-{'x' * 110}", "digest": DIGEST} for number in range(100)]
    sent = {"decision": "deny", "reason": "no" * 250, "approvals": chosen}
    answer = await api.post(WHERE, sent, as_="t-mara")

    assert [each["approval_id"] for each in answer.json()["decisions"]] == [each["approval_id"] for each in chosen]
    assert {each["code"] for each in answer.json()["decisions"]} == {"not_found"}


async def test_the_same_one_twice_means_nothing(api: Api) -> None:
    (view,) = await several(api, 1)
    answer = await api.post(WHERE, body("deny", [view, view], reason="no"), as_="t-mara")

    assert answer.status_code == 422 and await states(api, [view]) == ["pending"]


@pytest.mark.case("O06")
async def test_each_counts_as_a_request_of_its_own(make_api: MakeApi) -> None:
    limits = RateLimits(per_principal=Rate(count=8, seconds=60))
    limiter = OwnRateLimiter(limits, clock=FakeClock(), meter=RecordingMeter())
    api = await make_api(rate_limiter=limiter)
    views = []
    for number in range(4):
        asked = await api.propose("pay", {"amount": number}, call_id=f"c{number}")
        views.append((await api.get(f"/v1/approvals/{asked.json()['approval_id']}", as_="t-omar")).json())
    sent = body("deny", views, reason="no")

    assert (await api.post(WHERE, sent, as_="t-mara")).status_code == 200
    assert (await api.post(WHERE, sent, as_="t-mara")).status_code == 200
    refused = await api.post(WHERE, sent, as_="t-mara")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_often")
    let_in = await api.post(WHERE, body("approve", views[:3]), as_="t-omar")
    assert {each["code"] for each in let_in.json()["decisions"]} == {"already_decided"}, "four and three are seven"
    refused = await api.post(WHERE, body("deny", views[:2], reason="no"), as_="t-omar")
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)


# ---------------------------------------------------------------- the order in which it matters


@pytest.mark.case("O06")
async def test_a_list_by_risk_goes_on_in_its_own_order_and_in_no_other(api: Api) -> None:
    views = await several(api, 5)
    pages, cursor = [], None
    while True:
        query = {"sort": "risk", "limit": 2} | ({} if cursor is None else {"cursor": cursor})
        answer = (await api.get("/v1/approvals", params=query)).json()
        assert answer["is_cut"] is False
        pages.append([each["approval_id"] for each in answer["approvals"]])
        cursor = answer["next"]
        if cursor is None:
            break
        other = await api.get("/v1/approvals", params={"limit": 2, "cursor": cursor})
        assert (other.status_code, other.json()["code"]) == (422, "cursor_refused")

    names = [view["approval_id"] for view in views]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [each for page in pages for each in page] == sorted(names, key=lambda name: order(views, name))
    newest = (await api.get("/v1/approvals", params={"limit": 2})).json()
    assert set(newest) == {"approvals", "next"}
    odd = await api.get("/v1/approvals", params={"sort": "risk", "cursor": newest["next"]})
    assert (odd.status_code, odd.json()["code"]) == (422, "cursor_refused")
    same = await api.get("/v1/approvals", params={"sort": "newest", "limit": 2, "cursor": newest["next"]})
    assert same.status_code == 200


def order(views: list[dict[str, Any]], name: str) -> tuple[str, str]:
    view = next(each for each in views if each["approval_id"] == name)
    return view["decide_by"], name


async def test_another_order_is_malformed(api: Api) -> None:
    for odd in ("Risk", "age", ""):
        assert (await api.get("/v1/approvals", params={"sort": odd})).status_code == 400
    assert (await api.get("/v1/approvals?sort=risk&sort=newest")).status_code == 400
    assert (await api.get("/v1/approvals?sort=risk", as_="t-agent")).status_code == 403
