"""Runs over HTTP: one's own, or the tenant's; never another's, never an argument, and under one address each."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.http_api.conftest import Api, MakeApi
from tests.postgres.fixtures import Database

SECRET = "zq-a-secret-argument"
STRANGE = ["a/b", "../r1", "run 1", "ü\u202e", "%2e%2e", "~r1", "."]


async def begun(api: Api) -> dict[str, Any]:
    """A run with something done, something unknown and something that waits, and a run of another agent."""
    await api.propose("note", {"word": SECRET}, call_id="c1")
    api.desk.fault = RuntimeError(SECRET)
    await api.propose("send", {"word": SECRET}, call_id="c2")
    api.desk.fault = None
    view = await api.asked(call_id="c3")
    await api.propose("note", {"word": "a"}, run="r2", call_id="o1", as_="t-other")
    return view


async def ids(api: Api, query: str = "", *, as_: str = "t-mara") -> list[str]:
    answer = await api.get(f"/v1/runs{query}", as_=as_)
    assert answer.status_code == 200, answer.text
    return [run["run_id"] for run in answer.json()["runs"]]


async def test_a_run_is_shown_with_its_budget_and_what_its_calls_came_to(api: Api) -> None:
    view = await begun(api)

    answer = await api.get("/v1/runs/r1", as_="t-agent")
    run = answer.json()

    assert answer.status_code == 200
    assert (run["run_ref"], run["run_id"], run["requested_by"]) == ("r1", "r1", ["agent"])
    assert (run["steps"], run["max_steps"], run["is_policy_todays"]) == (3, 200, True)
    assert (run["left_open"], run["waiting"]) == (["unknown", "waiting"], [view["approval_id"]])
    counts = {name: count for name, count in run["effects"].items() if count}
    assert counts == {"committed": 1, "unknown": 1}
    calls = {call["call_id"]: (call["tool"], call["state"]) for call in run["calls"]}
    assert calls == {"c1": ("note", "committed"), "c2": ("send", "unknown"), "c3": ("pay", "pending")}
    some = (await api.get("/v1/runs/r1?calls=2", as_="t-agent")).json()
    assert (len(some["calls"]), some["has_more_calls"], run["has_more_calls"]) == (2, True, False)
    listed = (await api.get("/v1/runs", as_="t-agent")).json()["runs"]
    assert listed == [{name: value for name, value in run.items() if name in listed[0]}]
    assert run.keys() - listed[0].keys() == {"budgets", "rests", "changed_by", "reason", "calls", "has_more_calls"}
    assert SECRET not in answer.text


async def test_a_run_that_is_not_ones_own_and_one_that_is_not_there_look_the_same(api: Api) -> None:
    await begun(api)
    absent = await api.get("/v1/runs/r9", as_="t-agent")
    for path, who in (("/v1/runs/r2", "t-agent"), ("/v1/runs/r1", "t-stranger"), ("/v1/runs/r1", "t-far")):
        hidden = await api.get(path, as_=who)
        assert hidden.status_code == absent.status_code == 404
        assert hidden.json() | {"request_id": ""} == absent.json() | {"request_id": ""}
    assert await ids(api, as_="t-stranger") == await ids(api, as_="t-far") == []


async def test_runs_are_filtered_by_whose_they_are_and_by_what_is_left_open(api: Api) -> None:
    await begun(api)
    api.clock.advance(1)
    await api.propose("look", {"word": "a"}, run="r3", as_="t-edith")

    assert await ids(api, as_="t-agent") == ["r1"]
    assert await ids(api) == ["r3", "r2", "r1"]
    assert await ids(api, "?whose=mine") == []
    assert await ids(api, as_="t-edith") == ["r3", "r2", "r1"]
    assert await ids(api, "?whose=mine", as_="t-edith") == ["r3"]
    assert await ids(api, "?left_open=unknown") == ["r1"]
    assert await ids(api, "?left_open=in_progress") == []
    assert await ids(api, "?status=open") == ["r3", "r2", "r1"]
    assert await ids(api, "?status=cancelled") == []
    assert await ids(api, "?left_open=waiting", as_="t-plain") == ["r1"]
    for refused in ("?left_open=unknown", "?left_open=in_progress"):
        answer = await api.get(f"/v1/runs{refused}", as_="t-plain")
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    assert await ids(api, "?left_open=unknown&whose=mine", as_="t-plain") == []
    plain = (await api.get("/v1/runs/r1", as_="t-plain")).json()
    assert (plain["effects"], plain["calls"], plain["left_open"]) == (None, None, ["waiting"])
    assert (await api.get("/v1/runs?status=gone")).status_code == 400
    for wrong in ("?left_open=done", "?whose=yours", "?limit=0", "?whose=mine&whose=all", "?calls=1", "/r1?calls=0"):
        answer = await api.get(f"/v1/runs{wrong}")
        assert answer.status_code == (200 if wrong == "?calls=1" else 400), wrong


async def test_pages_go_on_and_their_cursors_are_good_for_one_reader_and_one_list(api: Api) -> None:
    await begun(api)
    for number in range(3, 6):
        api.clock.advance(1)
        await api.propose("look", {"word": "a"}, run=f"r{number}")
    first = (await api.get("/v1/runs?limit=2")).json()
    await api.propose("look", {"word": "a"}, run="newer")
    await api.propose("look", {"word": "a"}, run="r3", call_id="again")
    cursor = first["next"]
    rest = (await api.get(f"/v1/runs?cursor={cursor}")).json()

    assert [run["run_id"] for page in (first, rest) for run in page["runs"]] == ["r5", "r4", "r3", "r2", "r1"]
    assert rest["next"] is None
    bad = [
        await api.get(f"/v1/runs?cursor={cursor}", as_="t-omar"),
        await api.get(f"/v1/runs?cursor={cursor}", as_="t-agent"),
        await api.get(f"/v1/runs?cursor={cursor}", as_="t-far"),
        await api.get(f"/v1/runs?whose=mine&cursor={cursor}"),
        await api.get(f"/v1/runs?left_open=waiting&cursor={cursor}"),
        await api.get(f"/v1/effects?cursor={cursor}"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in bad] == [(422, "cursor_refused")] * 6


async def test_a_tag_spares_what_was_read_and_waits_for_what_comes(api: Api) -> None:
    await begun(api)
    first = await api.get("/v1/runs/r1", as_="t-agent")
    tag = {"If-None-Match": first.headers["etag"]}
    again = await api.get("/v1/runs/r1", as_="t-agent", headers=tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])

    waiting = asyncio.ensure_future(api.get("/v1/runs/r1", as_="t-agent", headers=tag | {"Prefer": "wait=30"}))
    await api.propose("look", {"word": "a"}, call_id="c4")
    answer = await waiting

    assert (answer.status_code, answer.json()["steps"]) == (200, 4)
    assert answer.headers["etag"] != first.headers["etag"]


async def test_a_stop_is_seen_at_the_run(api: Api) -> None:
    await begun(api)
    await api.post("/v1/stops", {"scope": "run:r1"}, as_="t-mara")

    shown = {run["run_id"]: run["stopped_by"] for run in (await api.get("/v1/runs")).json()["runs"]}

    assert shown == {"r1": ["run"], "r2": []}


async def test_every_name_has_an_address_and_no_other_spelling_leads_there(api: Api) -> None:
    for name in STRANGE:
        await api.propose("look", {"word": "a"}, run=name)
    listed = (await api.get("/v1/runs", as_="t-agent")).json()["runs"]

    assert sorted(run["run_id"] for run in listed) == sorted(STRANGE)
    for run in listed:
        assert run["run_ref"].startswith("~")
        shown = await api.get(f"/v1/runs/{run['run_ref']}", as_="t-agent")
        assert (shown.status_code, shown.json()["run_id"]) == (200, run["run_id"])
        other = await api.get(f"/v1/runs/{run['run_ref']}=", as_="t-agent")
        assert other.status_code == 404
    await api.propose("look", {"word": "a"}, run="r1")
    for spelling in ("~cjE", "%721", "r1%20", "~", "x" * 129):
        assert (await api.get(f"/v1/runs/{spelling}", as_="t-agent")).status_code == 404, spelling


async def test_the_answers_are_as_the_document_says(api: Api) -> None:
    import jsonschema_rs

    await begun(api)
    document = (await api.get("/openapi.json")).json()
    for path, at in (("/v1/runs", "/v1/runs"), ("/v1/runs/{run}", "/v1/runs/r1")):
        said = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        for who in ("t-mara", "t-plain"):
            answer = (await api.get(at, as_=who)).json()
            jsonschema_rs.validate({**said, "components": document["components"]}, answer)


async def test_runs_of_a_database_are_the_same(make_api: MakeApi, database: Database, tmp_path: Any) -> None:
    key = tmp_path / "placet.key"
    api = await make_api(store=database.url, key=key)
    await begun(api)

    assert await ids(api, as_="t-agent") == ["r1"]
    assert sorted(await ids(api)) == ["r1", "r2"]
    assert await ids(api, "?left_open=unknown") == await ids(api, "?left_open=waiting") == ["r1"]
    page = (await api.get("/v1/runs?limit=1")).json()
    rest = (await api.get(f"/v1/runs?cursor={page['next']}")).json()
    assert sorted(run["run_id"] for run in page["runs"] + rest["runs"]) == ["r1", "r2"]
    run = (await api.get("/v1/runs/r1")).json()
    assert (run["steps"], run["effects"]["unknown"], len(run["calls"])) == (3, 1, 3)
    assert (await api.get("/v1/runs/r1", as_="t-stranger")).status_code == 404


async def test_a_run_is_paused_resumed_and_cancelled_by_those_who_may(api: Api) -> None:
    await begun(api)

    paused = await api.post("/v1/runs/r1/pause", {"reason": SECRET}, as_="t-mara")
    assert paused.status_code == 200, paused.text
    assert paused.json() == {"run_id": "r1", "status": "paused", "is_news": True, "withdrawn": 0, "running": []}
    held = await api.propose("note", {"word": "b"}, call_id="c9")
    assert (held.status_code, held.json()["code"], held.json()["retryable"]) == (403, "run_paused", True)
    assert (await api.get("/v1/runs/r1", as_="t-mara")).json()["reason"] == SECRET
    resumed = await api.post("/v1/runs/r1/resume", {}, as_="t-mara")
    assert (resumed.json()["status"], resumed.json()["is_news"]) == ("open", True)

    cancelled = await api.post("/v1/runs/r1/cancel", {}, as_="t-agent")
    assert (cancelled.json()["status"], cancelled.json()["withdrawn"]) == ("cancelled", 1)
    again = await api.post("/v1/runs/r1/cancel", {}, as_="t-agent")
    assert (again.json()["is_news"], again.json()["withdrawn"]) == (False, 0)
    over = await api.propose("note", {"word": "b"}, call_id="c9")
    assert (over.status_code, over.json()["code"], over.json()["retryable"]) == (403, "run_cancelled", False)
    assert SECRET not in str(await api.events())


async def test_a_run_is_not_changed_by_others_nor_by_an_agent_that_was_paused(api: Api) -> None:
    await begun(api)
    assert (await api.post("/v1/runs/r1/pause", {}, as_="t-mara")).status_code == 200

    for verb, who, status, code in (
        ("resume", "t-agent", 403, "not_a_person"),
        ("cancel", "t-plain", 403, "scope_missing"),
        ("cancel", "t-other", 404, "not_found"),
        ("cancel", "t-far", 404, "not_found"),
    ):
        answer = await api.post(f"/v1/runs/r1/{verb}", {}, as_=who)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert (await api.post("/v1/runs/r1/remove", {}, as_="t-mara")).status_code == 400
    assert (await api.post("/v1/runs/r1/cancel", {"why": ""}, as_="t-mara")).status_code == 400
    assert (await api.get("/v1/runs/r1", as_="t-mara")).json()["status"] == "paused"
