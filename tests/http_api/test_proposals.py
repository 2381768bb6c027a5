"""Proposals over HTTP: each outcome has its status, its own JSON and, where it is not over, where to look."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import placet
from placet.http_api import HttpSettings
from tests.http_api.conftest import Api, MakeApi

KEY = {"Idempotency-Key": '"order-7"'}


async def test_a_call_that_succeeds_is_200_with_the_outcome_itself(api: Api) -> None:
    answer = await api.propose("look", {"word": "hi"})

    assert answer.status_code == 200
    assert answer.json() == {
        "run": "r1",
        "call_id": "c1",
        "tool": "look",
        "operation_key": answer.json()["operation_key"],
        "status": "succeeded",
        "code": "succeeded",
        "message": "Done. Use the result; do not ask for the same again.",
        "retryable": False,
        "may_have_acted": True,
        "result": {"said": "hi", "number": 1.0},
    }
    assert '"number":1.0' in answer.text


async def test_the_same_key_acts_once_and_is_answered_from_the_record(api: Api) -> None:
    first = await api.propose("note", {"word": "a"}, call_id=None, headers=KEY)
    again = await api.propose("note", {"word": "a"}, call_id=None, headers=KEY)
    bare = await api.propose("note", {"word": "a"}, call_id=None, headers={"Idempotency-Key": "order-7"})

    assert [each.status_code for each in (first, again, bare)] == [200, 200, 200]
    assert [each.json()["status"] for each in (first, again, bare)] == ["succeeded", "replayed", "replayed"]
    assert len(api.desk.done) == 1
    assert {event["call_id"] for event in await api.events("started")} == {first.json()["call_id"]}


async def test_the_same_key_of_another_principal_is_another_operation(api: Api) -> None:
    mine = await api.propose("note", {"word": "a"}, call_id=None, headers=KEY)
    others = await api.propose("note", {"word": "a"}, call_id=None, run="r2", headers=KEY, as_="t-other")
    strangers = await api.propose("note", {"word": "a"}, call_id=None, headers=KEY, as_="t-stranger")

    assert [each.json()["status"] for each in (mine, others, strangers)] == ["succeeded"] * 3
    assert len(api.desk.done) == 3


async def test_the_same_key_with_other_arguments_is_409_and_nothing_runs(api: Api) -> None:
    await api.propose("note", {"word": "a"}, call_id=None, headers=KEY)
    answer = await api.propose("note", {"word": "b"}, call_id=None, headers=KEY)

    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (
        409,
        "conflict",
        "operation_conflict",
    )
    assert len(api.desk.done) == 1


async def test_a_call_without_any_name_is_refused_because_a_repeat_would_act_again(api: Api) -> None:
    answer = await api.propose("note", {"word": "a"}, call_id=None)

    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_missing")
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.desk.done == []


@pytest.mark.parametrize("key", ['"', '""', '"a', "a b", "a,b", '"a", "b"', '"' + "k" * 129 + '"', "k" * 129, '"\\n"'])
async def test_a_key_that_is_no_string_is_refused(api: Api, key: str) -> None:
    answer = await api.propose("note", {"word": "a"}, headers={"Idempotency-Key": key})

    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_malformed")
    assert api.desk.done == []


async def test_two_keys_are_refused(api: Api) -> None:
    request = api.client.build_request(
        "POST",
        "/v1/proposals",
        json={"run": "r", "tool": "note", "arguments": {"word": "a"}},
        headers=[("Authorization", "Bearer t-agent"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
    )
    answer = await api.client.send(request)

    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_malformed")


@pytest.mark.case("A01")
async def test_a_number_keeps_its_kind_and_a_member_that_occurs_twice_is_refused(api: Api) -> None:
    """The framework parses no body: what was sent is what the one strict decoder reads."""
    sent = b'{"run":"r1","call_id":"%s","tool":"note","arguments":{"word":"a","many":%s}}'
    json_body = {"Content-Type": "application/json"}
    whole = await api.ask("POST", "/v1/proposals", content=sent % (b"c1", b"1"), headers=json_body)
    fraction = await api.ask("POST", "/v1/proposals", content=sent % (b"c2", b"1.0"), headers=json_body)
    twice = await api.ask(
        "POST",
        "/v1/proposals",
        content=b'{"run":"r1","call_id":"c3","tool":"note","arguments":{"word":"a","word":"b"}}',
        headers=json_body,
    )
    as_text = await api.propose("note", '{"word":"a","word":"b"}', call_id="c4")

    assert (whole.status_code, fraction.status_code) == (200, 422)
    assert fraction.json()["problems"][0]["path"] == "/many"
    assert twice.status_code == 400
    assert twice.json()["problems"] == [{"path": "/arguments/word", "problem": "duplicate_member"}]
    assert as_text.status_code == 422
    assert as_text.json()["problems"] == [{"path": "/word", "problem": "duplicate_member"}]
    assert len(api.desk.done) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "request_malformed"),
        (b"[]", 400, "request_malformed"),
        (b"{", 400, "request_malformed"),
        (b'{"run":"r1"} x', 400, "request_malformed"),
        (b'\xef\xbb\xbf{"run":"r1"}', 400, "request_malformed"),
        (b'{"run":"r1","tool":"note","arguments":{},"call_id":"c1","more":1}', 400, "request_malformed"),
        (b'{"run":7,"tool":"note","arguments":{},"call_id":"c1"}', 400, "request_malformed"),
        (b'{"tool":"note","arguments":{},"call_id":"c1"}', 400, "request_malformed"),
        (b'{"run":"r1","arguments":{},"call_id":"c1"}', 422, "protocol_rejected"),
        (b'{"run":"r1","tool":"note","call_id":"c1"}', 422, "protocol_rejected"),
        (b'{"run":"r1","tool":"note","arguments":{},"call_id":"/"}', 422, "protocol_rejected"),
        (b'{"run":"r1","tool":"nothing","arguments":{},"call_id":"c1"}', 422, "unknown_tool"),
        (b'{"run":"r1","tool":"note","arguments":{},"call_id":"c1","version":"9"}', 422, "unknown_tool_version"),
        (b'{"run":"r1","tool":"note","arguments":{"word":7},"call_id":"c1"}', 422, "invalid_arguments"),
        (b'{"run":"r1","tool":"note","arguments":"{","call_id":"c1"}', 422, "invalid_arguments"),
        (b'{"run":"r1","tool":"note","arguments":[],"call_id":"c1"}', 422, "invalid_arguments"),
    ],
)
async def test_what_makes_no_call_runs_nothing(api: Api, body: bytes, status: int, code: str) -> None:
    answer = await api.ask("POST", "/v1/proposals", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"], answer.json()["may_have_acted"]) == (status, code, False)
    assert api.desk.done == []


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=utf-16", "multipart/form-data"],
)
async def test_a_body_that_is_not_said_to_be_json_is_415(api: Api, kind: str) -> None:
    body = b'{"run":"r1","tool":"note","arguments":{"word":"a"},"call_id":"c1"}'
    answer = await api.ask("POST", "/v1/proposals", content=body, headers={"Content-Type": kind} if kind else {})

    assert (answer.status_code, answer.json()["code"]) == (415, "media_type_unsupported")
    assert api.desk.done == []


async def test_what_policy_denies_is_403(api: Api) -> None:
    answer = await api.propose("note", {"word": "a"}, as_="t-plain")

    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (403, "refused", "denied")


async def test_what_waits_for_a_person_is_202_and_says_where_to_look(api: Api) -> None:
    answer = await api.propose("pay", {"amount": 5})

    assert (answer.status_code, answer.json()["status"]) == (202, "awaiting_approval")
    assert answer.headers["location"] == f"/v1/proposals/{answer.json()['approval_id']}"
    assert answer.headers["retry-after"] == "1"
    looked = await api.get(answer.headers["location"], as_="t-agent")
    assert (looked.status_code, looked.json()["state"], looked.json()["tool"]) == (200, "pending", "pay")
    assert "arguments" not in looked.json()


async def test_after_the_approval_the_same_ask_runs(api: Api) -> None:
    view = await api.asked()
    assert (await api.decide(view)).status_code == 200
    assert api.desk.done == []  # approving runs nothing

    answer = await api.propose("pay", {"amount": 5})

    assert (answer.status_code, answer.json()["result"]) == (200, "paid")
    assert api.desk.done == [{"amount": 5}]


async def test_after_a_denial_the_same_ask_is_403_with_the_reviewers_words_as_data(api: Api) -> None:
    view = await api.asked()
    body = {"decision": "deny", "digest": view["digest"], "reason": "wrong account"}
    assert (await api.post(f"/v1/approvals/{view['approval_id']}/decision", body, as_="t-mara")).status_code == 200

    answer = await api.propose("pay", {"amount": 5})
    looked = await api.get(f"/v1/proposals/{view['approval_id']}", as_="t-agent")

    assert (answer.status_code, answer.json()["code"]) == (403, "approval_denied")
    assert answer.json()["reviewer_said"] == looked.json()["reviewer_said"] == "wrong account"
    assert looked.json()["state"] == "denied"


async def test_a_post_that_waits_goes_on_with_the_persons_answer(api: Api) -> None:
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=30"}))
    view = await _first_waiting(api)
    await api.decide(view)

    answer = await asking

    assert (answer.status_code, answer.json()["result"]) == (200, "paid")
    assert answer.headers["preference-applied"] == "wait=30"
    assert api.desk.done == [{"amount": 5}]


async def test_a_post_that_waits_in_vain_is_202_and_asked_once(make_api: MakeApi) -> None:
    api = await make_api()
    answer = await api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=1"})

    assert answer.status_code == 202
    assert len(await api.events("approval_asked")) == 1


async def test_whoever_waits_is_answered_at_once_when_the_process_ends(make_api: MakeApi) -> None:
    api = await make_api(settings=HttpSettings(poll_seconds=3_000.0, max_wait_seconds=3_000.0))
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=3000"}))
    await _first_waiting(api)
    api.app.state.door.close()

    answer = await asyncio.wait_for(asking, 30)

    assert answer.status_code == 202


async def test_more_may_not_wait_than_there_is_room_for(make_api: MakeApi) -> None:
    api = await make_api(settings=HttpSettings(poll_seconds=0.02, max_waiting_each=1))
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=30"}))
    view = await _first_waiting(api)

    second = await api.propose("pay", {"amount": 6}, call_id="c2", headers={"Prefer": "wait=30"})
    others = await api.propose("pay", {"amount": 6}, run="r2", headers={"Prefer": "wait=1"}, as_="t-other")

    assert (second.status_code, second.json()["code"], second.headers["retry-after"]) == (202, "approval_required", "1")
    assert second.headers["location"] == f"/v1/proposals/{second.json()['approval_id']}"
    assert ("preference-applied" in second.headers, others.headers["preference-applied"]) == (False, "wait=1")
    assert others.status_code == 202
    await api.decide(view)
    assert (await asking).status_code == 200


async def test_an_unknown_outcome_is_424_says_that_it_may_have_acted_and_is_never_repeated(api: Api) -> None:
    api.desk.fault = RuntimeError("connection lost")
    first = await api.propose("send", {"word": "a"})
    again = await api.propose("send", {"word": "a"})

    for answer in (first, again):
        assert (answer.status_code, answer.json()["status"]) == (424, "unknown")
        assert (answer.json()["may_have_acted"], answer.json()["retryable"]) == (True, False)
        looked = await api.get(answer.headers["location"], as_="t-agent")
        assert (looked.status_code, looked.json()["state"]) == (200, "unknown")
    assert "connection lost" not in first.text


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (placet.ToolRejected("no such account"), 422, "tool_rejected"),
        (placet.RemoteStatus(429, retry_after="7"), 503, "remote_busy"),
        (placet.NotSent("nothing left"), 502, "not_sent"),
    ],
)
async def test_a_failure_that_changed_nothing_has_the_status_of_its_kind(
    api: Api, fault: Exception, status: int, code: str
) -> None:
    api.desk.fault = fault
    answer = await api.propose("send", {"word": "a"})

    assert (answer.status_code, answer.json()["code"], answer.json()["may_have_acted"]) == (status, code, False)
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_a_read_that_breaks_is_502_and_says_nothing_of_the_exception(api: Api) -> None:
    answer = await api.propose("broken", {"word": "a"})

    assert (answer.status_code, answer.json()["code"]) == (502, "tool_failed")
    assert "secret" not in answer.text


async def test_the_same_operation_under_way_is_waited_for_and_runs_once(api: Api) -> None:
    first = asyncio.ensure_future(api.propose("slow", {"word": "a"}, headers=KEY))
    await asyncio.wait_for(api.desk.begun.wait(), 30)
    second = asyncio.ensure_future(api.propose("slow", {"word": "a"}, headers=KEY))
    await asyncio.sleep(0)
    api.desk.may_end.set()
    answers = [await first]
    while not second.done():
        api.clock.advance(1)
        await asyncio.sleep(0)
    answers.append(await second)

    assert [answer.json()["status"] for answer in answers] == ["succeeded", "replayed"]
    assert api.desk.done == [{"word": "a"}]


async def test_while_the_process_ends_what_comes_is_503(api: Api) -> None:
    await api.gate.drain(1)
    answer = await api.propose("note", {"word": "a"})

    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "draining", "1")


# ---------------------------------------------------------------- one turn of a model


def turn(*words: Any, **more: Any) -> dict[str, Any]:
    calls = [{"call_id": f"c{n}", "tool": "note", "arguments": {"word": word}} for n, word in enumerate(words)]
    return {"run": "r1", "proposals": calls, **more}


async def test_a_turn_is_answered_call_by_call_in_order_whatever_becomes_of_the_others(api: Api) -> None:
    answer = await api.post("/v1/proposals/batch", turn("a", 7, "b"))

    assert answer.status_code == 200
    outcomes = answer.json()["outcomes"]
    assert [each["http_status"] for each in outcomes] == [200, 422, 200]
    assert [each["call_id"] for each in outcomes] == ["c0", "c1", "c2"]
    assert [each["word"] for each in api.desk.done] == ["a", "b"]


async def test_a_turn_that_stops_on_failure_runs_nothing_after_it(api: Api) -> None:
    answer = await api.post("/v1/proposals/batch", turn("a", 7, "b", stop_on_failure=True))

    assert [each["status"] for each in answer.json()["outcomes"]] == ["succeeded", "invalid", "not_run"]
    assert [each["word"] for each in api.desk.done] == ["a"]


@pytest.mark.req("B006", "B008")
async def test_a_turn_with_a_member_that_is_no_proposal_runs_nothing_at_all(api: Api) -> None:
    body = turn("a", "b")
    body["proposals"][1]["call_id"] = "c0"
    answer = await api.post("/v1/proposals/batch", body)

    assert answer.status_code == 422
    assert api.desk.done == []


async def test_a_turn_sent_again_is_answered_from_the_record(api: Api) -> None:
    await api.post("/v1/proposals/batch", turn("a", "b"))
    answer = await api.post("/v1/proposals/batch", turn("a", "b"))

    assert [each["status"] for each in answer.json()["outcomes"]] == ["replayed", "replayed"]
    assert len(api.desk.done) == 2


@pytest.mark.parametrize("body", [{"run": "r1"}, {"run": "r1", "proposals": {}}, {**turn("a"), "stop_on_failure": 1}])
async def test_a_turn_that_is_none_is_refused(api: Api, body: dict[str, Any]) -> None:
    answer = await api.post("/v1/proposals/batch", body)

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")


async def test_one_key_cannot_name_a_turn(api: Api) -> None:
    answer = await api.post("/v1/proposals/batch", turn("a"), headers=KEY)

    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_malformed")
    assert api.desk.done == []


# ---------------------------------------------------------------- one's own question


async def test_a_question_of_somebody_else_looks_like_one_that_does_not_exist(api: Api) -> None:
    view = await api.asked()
    answers = [
        await api.get(f"/v1/proposals/{approval_id}", as_=who)
        for approval_id, who in [
            (view["approval_id"], "t-other"),
            (view["approval_id"], "t-stranger"),
            (view["approval_id"], "t-mara"),
            ("apr-none", "t-agent"),
        ]
    ]

    assert {answer.status_code for answer in answers} == {404}
    assert len({_without_request_id(answer.json()) for answer in answers}) == 1


async def test_a_question_is_waited_for_by_its_tag(api: Api) -> None:
    view = await api.asked()
    path = f"/v1/proposals/{view['approval_id']}"
    tag = (await api.get(path, as_="t-agent")).headers["etag"]
    asking = asyncio.ensure_future(api.get(path, as_="t-agent", headers={"If-None-Match": tag, "Prefer": "wait=30"}))
    await api.decide(view)

    answer = await asking

    assert (answer.status_code, answer.json()["state"]) == (200, "approved")
    unchanged = await api.get(path, as_="t-agent", headers={"If-None-Match": answer.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def _without_request_id(document: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in document.items() if name != "request_id"}, sort_keys=True)


async def _first_waiting(api: Api) -> dict[str, Any]:
    for _ in range(10_000):
        found = (await api.get("/v1/approvals")).json()["approvals"]
        if found:
            return dict(found[0])
        await asyncio.sleep(0)
    raise AssertionError("nothing was asked")
