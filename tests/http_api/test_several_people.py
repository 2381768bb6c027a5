"""Votes and edited calls over HTTP: what the desk knows, with a status and a tag of its own."""

from __future__ import annotations

import asyncio

from placet import AskRule, AskRules, Matrix, RequirementKind
from tests.http_api.conftest import Api, MakeApi

QUORUM = Matrix(asks=AskRules(rules=(AskRule(name="two", needs=RequirementKind.QUORUM, votes=2),)))


async def test_a_vote_is_no_approval_yet_and_changes_the_tag(make_api: MakeApi) -> None:
    api = await make_api(policy=QUORUM)
    view = await api.asked()
    path = f"/v1/approvals/{view['approval_id']}"
    pending = (await api.get(path)).headers["etag"]
    waiting = asyncio.ensure_future(
        api.get(path, as_="t-omar", headers={"If-None-Match": pending, "Prefer": "wait=30"})
    )
    first = await api.decide(view)
    seen = await waiting

    assert (first.status_code, first.json()["state"], first.json()["votes_needed"]) == (200, "pending", 2)
    assert first.headers["etag"] != pending
    assert [vote["voter"] for vote in seen.json()["votes"]] == ["mara"]
    second = await api.decide(view, as_="t-omar")
    assert second.json()["state"] == "approved"
    assert (await api.propose("pay", {"amount": 5})).status_code == 200


async def test_a_vote_is_taken_back(make_api: MakeApi) -> None:
    api = await make_api(policy=QUORUM)
    view = await api.asked()
    path = f"/v1/approvals/{view['approval_id']}/withdraw-vote"
    none = await api.post(path, as_="t-mara")
    await api.decide(view)
    back = await api.post(path, as_="t-mara")
    second = await api.decide(view, as_="t-omar")

    assert (none.status_code, none.json()["code"]) == (409, "no_vote")
    assert (back.status_code, back.json()["votes"], back.json()["own_vote"]) == (200, [], "withdraw")
    assert second.json()["state"] == "pending"


async def test_an_edited_call_is_another_question_and_the_first_is_closed(api: Api) -> None:
    view = await api.asked(100)
    body = {"digest": view["digest"], "arguments": {"amount": 40, "card": ""}}
    answer = await api.post(f"/v1/approvals/{view['approval_id']}/edit", body, as_="t-edith")
    edited = answer.json()
    decided = await api.decide(edited)
    ran = await api.propose("pay", {"amount": 40, "card": ""}, call_id="c2")

    assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/approvals/{edited['approval_id']}")
    assert edited["arguments"] == {"amount": 40, "card": "[REDACTED]"}
    assert (await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] == "withdrawn"
    assert decided.json()["state"] == "approved"
    assert (ran.status_code, api.desk.done) == (200, [{"amount": 40}])


async def test_what_cannot_be_edited_stays_as_it_is(api: Api) -> None:
    view = await api.asked(100)
    path = f"/v1/approvals/{view['approval_id']}/edit"
    wrong = await api.post(path, {"digest": view["digest"], "arguments": {"amount": "zq"}}, as_="t-edith")
    stale = await api.post(path, {"digest": "0" * 64, "arguments": {"amount": 40}}, as_="t-edith")
    agent = await api.post(path, {"digest": view["digest"], "arguments": {"amount": 40}}, as_="t-agent")
    without = await api.post(path, {"digest": view["digest"]}, as_="t-edith")
    far = await api.post(path, {"digest": view["digest"], "arguments": {"amount": 40}}, as_="t-far")

    told = [(answer.status_code, answer.json()["code"]) for answer in (wrong, stale, agent, without, far)]
    assert told == [
        (422, "invalid_arguments"),
        (409, "other_digest"),
        (403, "not_a_person"),
        (400, "request_malformed"),
        (404, "not_found"),
    ]
    assert wrong.json()["problems"][0]["path"] == "/amount"
    assert "zq" not in wrong.text
    assert (await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] == "pending"


async def test_the_tag_names_whose_votes_there_are_and_not_how_many(make_api: MakeApi) -> None:
    api = await make_api(policy=QUORUM)
    view = await api.asked()
    path = f"/v1/approvals/{view['approval_id']}"
    await api.decide(view)
    of_mara = (await api.get(path)).headers["etag"]

    await api.post(f"{path}/withdraw-vote", as_="t-mara")
    await api.decide(view, as_="t-omar")
    seen = await api.get(path, headers={"If-None-Match": of_mara})
    stale = await api.post(f"{path}/withdraw", as_="t-mara", headers={"If-Match": of_mara})

    assert (seen.status_code, [vote["voter"] for vote in seen.json()["votes"]]) == (200, ["omar"])
    assert stale.status_code == 412


async def test_a_refused_decision_of_an_agent_is_on_record_once(api: Api) -> None:
    view = await api.asked()
    before = len(await api.events("decision_refused"))

    assert (await api.decide(view, as_="t-agent")).json()["code"] == "not_a_person"

    assert len(await api.events("decision_refused")) == before + 1
