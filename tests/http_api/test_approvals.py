"""People decide over HTTP: nothing by looking, nothing but what was shown, and a conflict says what changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from placet.http_api import HttpSettings
from placet.testing import FixedSignIn
from tests.http_api.conftest import Api, MakeApi, asgi_get


async def test_a_person_sees_exactly_what_would_run_but_for_what_the_contract_masks(api: Api) -> None:
    asked = await api.propose("pay", {"amount": 5, "card": "4000 1234"})
    answer = await api.get(f"/v1/approvals/{asked.json()['approval_id']}")
    view = answer.json()

    assert answer.status_code == 200
    assert (view["state"], view["tool"], view["risk"], view["why_not"]) == ("pending", "pay", "medium", None)
    assert view["arguments"] == {"amount": 5, "card": "[REDACTED]"}
    assert view["redacted"] == ["card"]
    assert answer.headers["etag"] == f'"{view["digest"]}.pending"'


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"])
async def test_only_a_post_decides(api: Api, method: str) -> None:
    view = await api.asked()
    for path in ("", "/decision", "/withdraw", "/decision?decision=approve&digest=" + view["digest"]):
        address = f"/v1/approvals/{view['approval_id']}{path}"
        answer = await api.ask(method, address, as_="t-mara", headers={"X-HTTP-Method-Override": "POST"})
        assert answer.status_code in (200, 405), path
        assert "access-control-allow-origin" not in answer.headers

    assert (await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] == "pending"
    assert await api.events("approval_approved", "approval_denied", "approval_withdrawn") == []


async def test_a_decision_says_where_it_stands_now(api: Api) -> None:
    view = await api.asked()
    answer = await api.decide(view)

    assert (answer.status_code, answer.json()["state"], answer.json()["decided_by"]) == (200, "approved", "mara")
    assert answer.headers["etag"] == f'"{view["digest"]}.approved"'


@pytest.mark.case("F05")
async def test_the_same_decision_again_is_answered_the_same_and_recorded_once(api: Api) -> None:
    view = await api.asked()
    first, again = await api.decide(view), await api.decide(view)

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert len(await api.events("approval_approved")) == 1


async def test_a_foreign_digest_decides_nothing_and_says_what_stands_there(api: Api) -> None:
    view = await api.asked()
    answer = await api.decide(view, digest="0" * 64)

    assert (answer.status_code, answer.json()["code"]) == (409, "other_digest")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["changed"]["digest"] == view["digest"]
    assert answer.json()["changed"]["state"] == "pending"
    assert (await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] == "pending"


async def test_whoever_comes_second_is_told_who_was_first_and_when(api: Api) -> None:
    view = await api.asked()
    await api.decide(view, "deny", as_="t-omar")
    answer = await api.decide(view)

    assert (answer.status_code, answer.json()["code"]) == (409, "already_decided")
    changed = answer.json()["changed"]
    assert (changed["state"], changed["decided_by"], changed["decided_at"]) == (
        "denied",
        "omar",
        "2026-01-01T00:00:00Z",
    )
    assert "omar" in answer.json()["detail"]


@pytest.mark.case("F05")
async def test_two_who_decide_at_once_are_one_decision(api: Api) -> None:
    view = await api.asked()
    answers = await asyncio.gather(api.decide(view, "approve"), api.decide(view, "deny", as_="t-omar"))

    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert len(await api.events("approval_approved", "approval_denied")) == 1


@pytest.mark.parametrize(("seconds", "decided", "clock"), [(86_400, False, "decide"), (300, True, "use")])
async def test_what_expired_while_it_was_read_says_by_which_clock_and_since_when(
    api: Api, seconds: float, decided: bool, clock: str
) -> None:
    view = await api.asked()
    if decided:
        await api.decide(view)
    api.clock.advance(seconds)
    answer = await api.decide(view)

    assert (answer.status_code, answer.json()["code"]) == (409, "approval_expired")
    changed = answer.json()["changed"]
    assert (changed["state"], changed["clock"]) == ("expired", clock)
    assert changed["expired_at"] == ("2026-01-01T00:05:00Z" if decided else "2026-01-02T00:00:00Z")


async def test_with_if_match_nothing_is_decided_if_it_stands_otherwise(api: Api) -> None:
    view = await api.asked()
    tag = f'"{view["digest"]}.pending"'
    stale = await api.decide(view, headers={"If-Match": f'"{view["digest"]}.approved"'})
    fresh = await api.decide(view, headers={"If-Match": tag})
    after = await api.post(f"/v1/approvals/{view['approval_id']}/withdraw", as_="t-mara", headers={"If-Match": tag})

    assert (stale.status_code, stale.json()["code"], stale.json()["changed"]["state"]) == (
        412,
        "precondition_failed",
        "pending",
    )
    assert fresh.status_code == 200
    assert (after.status_code, after.json()["changed"]["state"]) == (412, "approved")


async def test_what_is_taken_back_is_not_used(api: Api) -> None:
    view = await api.asked()
    await api.decide(view)
    answer = await api.post(f"/v1/approvals/{view['approval_id']}/withdraw", as_="t-mara")

    assert (answer.status_code, answer.json()["state"]) == (200, "revoked")
    assert (await api.propose("pay", {"amount": 5})).status_code == 202
    assert api.desk.done == []


@pytest.mark.parametrize(
    ("who", "code"), [("t-agent", "not_a_person"), ("t-admin", "not_a_person"), ("t-plain", "scope_missing")]
)
async def test_who_is_not_entitled_decides_nothing(api: Api, who: str, code: str) -> None:
    view = await api.asked()
    answer = await api.decide(view, as_=who)

    assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert (await api.get(f"/v1/approvals/{view['approval_id']}")).json()["state"] == "pending"


async def test_an_agent_sees_no_approvals(api: Api) -> None:
    view = await api.asked()
    for path in ("/v1/approvals", f"/v1/approvals/{view['approval_id']}", "/v1/approvals/events"):
        answer = await api.get(path, as_="t-agent")
        assert (answer.status_code, answer.json()["code"]) == (403, "not_a_person")


@pytest.mark.case("C03")
async def test_another_tenants_approval_looks_exactly_like_one_that_does_not_exist(api: Api) -> None:
    view = await api.asked()
    body = {"decision": "approve", "digest": view["digest"]}
    pairs = []
    for approval_id in (view["approval_id"], "apr-999999"):
        answers = [
            await api.get(f"/v1/approvals/{approval_id}", as_="t-far"),
            await api.post(f"/v1/approvals/{approval_id}/decision", body, as_="t-far"),
            await api.post(f"/v1/approvals/{approval_id}/withdraw", as_="t-far"),
        ]
        pairs.append([(a.status_code, {**a.json(), "request_id": ""}) for a in answers])

    assert pairs[0] == pairs[1]
    assert [status for status, _ in pairs[0]] == [404, 404, 404]
    assert (await api.get("/v1/approvals", as_="t-far")).json() == {"approvals": [], "next": None}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "approve"},
        {"decision": "maybe", "digest": "0" * 64},
        {"decision": "approve", "digest": "0" * 63},
        {"decision": "approve", "digest": 7},
        {"decision": "approve", "digest": "0" * 64, "reason": 7},
        {"decision": "approve", "digest": "0" * 64, "reason": "x" * 501},
        {"decision": "approve", "digest": "0" * 64, "by": "somebody"},
        [],
    ],
)
async def test_a_decision_that_is_none_is_refused_before_anything_is_looked_up(api: Api, body: Any) -> None:
    answer = await api.post("/v1/approvals/apr-1/decision", body, as_="t-mara")

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")


@pytest.mark.case("F06")
async def test_who_decides_is_the_sign_ins_word_and_a_body_that_names_somebody_is_refused(api: Api) -> None:
    view = await api.asked()
    body = {"decision": "approve", "digest": view["digest"], "approver": "omar"}
    refused = await api.post(f"/v1/approvals/{view['approval_id']}/decision", body, as_="t-mara")
    decided = await api.decide(view, headers={"X-Forwarded-User": "omar", "From": "omar@placet.test"})

    assert (refused.status_code, refused.json()["code"]) == (400, "request_malformed")
    assert decided.json()["decided_by"] == "mara"


async def test_approvals_are_listed_a_page_at_a_time_and_each_once(api: Api) -> None:
    for n in range(5):
        await api.asked(n, call_id=f"c{n}")
        if n % 2:
            api.clock.advance(1)
    pages, path = [], "/v1/approvals?limit=2"
    while path:
        page = (await api.get(path)).json()
        pages.append([view["arguments"]["amount"] for view in page["approvals"]])
        path = f"/v1/approvals?limit=2&cursor={page['next']}" if page["next"] else ""

    assert pages == [[4, 3], [2, 1], [0]]


async def test_approvals_are_listed_by_state_and_pending_ones_if_nothing_is_said(api: Api) -> None:
    first, second = await api.asked(1, call_id="c1"), await api.asked(2, call_id="c2")
    await api.decide(first, "deny")

    async def amounts(query: str) -> list[int]:
        return [view["arguments"]["amount"] for view in (await api.get(f"/v1/approvals{query}")).json()["approvals"]]

    assert second["state"] == "pending"
    assert await amounts("") == [2]
    assert await amounts("?state=denied") == [1]
    assert sorted(await amounts("?state=denied&state=pending")) == [1, 2]
    assert (await api.get("/v1/approvals?state=nonsense")).status_code == 400


async def test_a_cursor_is_good_for_its_reader_its_list_and_an_hour(api: Api) -> None:
    for n in range(3):
        await api.asked(n, call_id=f"c{n}")
    cursor = (await api.get("/v1/approvals?limit=1")).json()["next"]
    good = await api.get(f"/v1/approvals?limit=1&cursor={cursor}")
    body, key_id, mac = cursor.split(".")
    bad = [
        await api.get(f"/v1/approvals?cursor={cursor}", as_="t-omar"),
        await api.get(f"/v1/approvals?cursor={cursor}", as_="t-far"),
        await api.get(f"/v1/approvals?state=denied&cursor={cursor}"),
        await api.get(f"/v1/effects?cursor={cursor}"),
        await api.get(f"/v1/approvals?cursor={body}.{key_id}.{mac[:-1]}{'0' if mac[-1] != '0' else '1'}"),
        await api.get(f"/v1/approvals?cursor={body}A.{key_id}.{mac}"),
        await api.get("/v1/approvals?cursor=a.b.c"),
        await api.get("/v1/approvals?cursor="),
        await api.get("/v1/approvals?cursor=" + "a" * 4_096),
    ]
    api.clock.advance(3_600)
    late = await api.get(f"/v1/approvals?limit=1&cursor={cursor}")

    assert good.status_code == 200
    assert [(answer.status_code, answer.json()["code"]) for answer in [*bad, late]] == [(422, "cursor_refused")] * 10


async def test_a_query_that_says_one_thing_twice_is_refused(api: Api) -> None:
    answer = await api.get("/v1/approvals?limit=1&limit=2")

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")


async def test_a_person_waits_for_a_change_by_the_tag_that_was_read(api: Api) -> None:
    view = await api.asked()
    headers = {"If-None-Match": f'"{view["digest"]}.pending"', "Prefer": "wait=30"}
    waiting = asyncio.ensure_future(api.get(f"/v1/approvals/{view['approval_id']}", headers=headers))
    await api.decide(view, "deny", as_="t-omar")

    answer = await waiting

    assert (answer.status_code, answer.json()["state"]) == (200, "denied")


@pytest.mark.parametrize(("address", "who"), [("approvals", "t-mara"), ("proposals", "t-agent")])
async def test_a_wait_ends_with_its_credential(api: Api, address: str, who: str) -> None:
    path = f"/v1/{address}/{(await api.asked())['approval_id']}"
    tag = (await api.get(path, as_=who)).headers["etag"]
    headers = {"Prefer": "wait=30", "If-None-Match": tag}
    waiting = asyncio.ensure_future(api.get(path, as_=who, headers=headers))
    door = api.app.state.door
    while not door.waiting._room._inside:
        await asyncio.sleep(0)
    door.sign_in = FixedSignIn({})

    assert (await waiting).status_code == 401


# ---------------------------------------------------------------- events


class Reader:
    """Takes a stream's events from the application itself, one at a time, as a server would."""

    def __init__(self, api: Api, *, who: str = "t-mara", last_id: str = "", path: str = "/v1/approvals/events") -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._gone = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()
        headers = [(b"authorization", f"Bearer {who}".encode()), (b"last-event-id", last_id.encode())]
        scope = asgi_get(path, headers)
        self._is_asked = False
        self.task = asyncio.ensure_future(api.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.takes.wait()
        await self._sent.put(dict(message))

    async def begun(self) -> None:
        """Until it has looked for the first time; call it before anything is read."""
        assert (await asyncio.wait_for(self._sent.get(), 30))["type"] == "http.response.start"

    async def raw(self) -> bytes:
        message = await asyncio.wait_for(self._sent.get(), 30)
        return bytes(message.get("body", b"")) if message["type"] == "http.response.body" else await self.raw()

    async def event(self) -> tuple[str, str, Any]:
        """Name, id and data of the next event; heartbeats are passed over."""
        text = (await self.raw()).decode()
        if text.startswith(":"):
            return await self.event()
        lines = dict(line.split(": ", 1) for line in text.strip().split("\n"))
        return lines["event"], lines["id"], json.loads(lines["data"])

    def leave(self) -> None:
        self._gone.set()


async def test_a_stream_begins_with_what_waits_and_tells_every_change(api: Api) -> None:
    first = await api.asked(1, call_id="c1")
    reader = Reader(api)
    name, _, data = await reader.event()
    assert (name, [view["approval_id"] for view in data["approvals"]]) == ("snapshot", [first["approval_id"]])

    second = await api.asked(2, call_id="c2")
    name, _, data = await reader.event()
    assert (name, data["approval"]["approval_id"]) == ("changed", second["approval_id"])

    await api.decide(first)
    name, last_id, data = await reader.event()
    assert (name, data) == ("gone", {"approval_id": first["approval_id"]})

    reader.leave()
    await asyncio.wait_for(reader.task, 30)
    spared = Reader(api, last_id=last_id)
    await spared.begun()
    third = await api.asked(3, call_id="c3")
    name, _, data = await spared.event()
    assert (name, data["approval"]["approval_id"]) == ("changed", third["approval_id"])
    spared.leave()

    missed = Reader(api, last_id=last_id)
    name, _, data = await missed.event()
    assert (name, len(data["approvals"])) == ("snapshot", 2)
    missed.leave()


async def test_a_stream_with_nothing_to_tell_says_that_it_is_still_there(make_api: MakeApi) -> None:
    api = await make_api(settings=HttpSettings(poll_seconds=0.01, heartbeat_seconds=0.02))
    reader = Reader(api)
    await reader.event()

    assert (await reader.raw()).startswith(b":")
    reader.leave()


async def test_a_reader_that_takes_nothing_is_let_go_and_its_place_is_free_again(make_api: MakeApi) -> None:
    api = await make_api(settings=HttpSettings(poll_seconds=0.01, slow_reader_seconds=0.05, max_waiting_each=1))
    reader = Reader(api)
    await reader.event()
    refused = await api.get("/v1/approvals/events")
    reader.takes.clear()
    await api.asked()

    await asyncio.wait_for(reader.task, 30)

    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiting")
    again = Reader(api)
    assert (await again.event())[0] == "snapshot"
    again.leave()


async def test_a_stream_ends_with_its_process(api: Api) -> None:
    reader = Reader(api)
    await reader.event()
    api.app.state.door.close()

    await asyncio.wait_for(reader.task, 30)


async def test_stored_markup_and_control_characters_are_data_in_json_and_in_events(api: Api) -> None:
    word = "<script>alert(1)</script>\u202e\u200b\x1b[31m\n\ndata: x"
    body = {
        "run": word[:20].replace("\n", " "),
        "tool": "pay",
        "arguments": {"amount": 1, "card": "x"},
        "call_id": "c1",
    }
    asked = await api.post("/v1/proposals", body)
    view = await api.get(f"/v1/approvals/{asked.json()['approval_id']}")
    reader = Reader(api)
    _, _, data = await reader.event()
    reader.leave()

    assert view.headers["content-type"] == "application/json"
    assert view.headers["x-content-type-options"] == "nosniff"
    assert view.json()["run_id"] == data["approvals"][0]["run_id"] == body["run"]
