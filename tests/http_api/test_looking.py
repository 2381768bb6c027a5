"""Effects, tools, policy, audit, stops and the process itself, over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from placet.bootstrap.records import check_export
from placet.engine.principal_views import principal_view
from placet.errors import StoreUnavailable
from placet.http_api.outcomes import effect_id_of
from placet.model.principal import Principal
from tests.console.test_altered_events import alter
from tests.http_api.conftest import Api, MakeApi


async def unknown(api: Api, *, as_: str = "t-agent") -> dict[str, Any]:
    api.desk.fault = RuntimeError("lost")
    answer = await api.propose("send", {"word": "a"}, as_=as_)
    assert answer.status_code == 424
    return dict((await api.get(answer.headers["location"], as_=as_)).json())


# ---------------------------------------------------------------- effects


async def test_an_effect_is_shown_without_arguments_and_results(api: Api) -> None:
    await api.propose("note", {"word": "zq-secret"})
    (effect,) = (await api.get("/v1/effects", as_="t-agent")).json()["effects"]
    shown = await api.get(f"/v1/effects/{effect['effect_id']}", as_="t-agent")

    assert shown.json() == effect
    assert (effect["state"], effect["tool"], effect["subject"], effect["run_id"]) == (
        "committed",
        "note",
        "agent",
        "r1",
    )
    assert effect["effect_id"] == effect_id_of(effect["operation_key"])
    assert "zq-secret" not in json.dumps(effect)
    assert not {"fingerprint", "argument_digest", "result_digest", "token", "owner"} & effect.keys()


async def test_one_sees_its_own_effects_and_all_with_the_scope_for_it(api: Api) -> None:
    await api.propose("note", {"word": "a"})
    await api.propose("note", {"word": "b"}, run="r2", as_="t-other")
    await api.propose("note", {"word": "c"}, as_="t-stranger")

    async def subjects(who: str) -> list[str]:
        found = (await api.get("/v1/effects", as_=who)).json()["effects"]
        return sorted(f"{each['tenant']} {each['subject']}" for each in found)

    assert await subjects("t-agent") == ["acme agent"]
    assert await subjects("t-plain") == []
    assert await subjects("t-mara") == ["acme agent", "acme other"]
    assert await subjects("t-far") == ["globex agent"]


async def test_another_ones_effect_looks_exactly_like_one_that_does_not_exist(api: Api) -> None:
    effect = await unknown(api)
    body = {"truth": "committed", "looked_at": "2026-01-01T00:00:00Z", "reason": "seen"}
    for who in ("t-other", "t-far", "t-plain"):
        answers = []
        for effect_id in (effect["effect_id"], effect_id_of("none"), "a", "%00", "~"):
            looked = await api.get(f"/v1/effects/{effect_id}", as_=who)
            answers.append((looked.status_code, looked.json()["code"]))
        assert set(answers) == {(404, "not_found")}, who
    settled = await api.post(f"/v1/effects/{effect['effect_id']}/reconcile", body, as_="t-far")
    probed = await api.post(f"/v1/effects/{effect['effect_id']}/reconcile", {"truth": "probe"}, as_="t-far")
    assert (settled.status_code, probed.status_code) in {(404, 404), (403, 404)}
    assert (await api.get(f"/v1/effects/{effect['effect_id']}")).json()["state"] == "unknown"


async def test_effects_are_listed_a_page_at_a_time(api: Api) -> None:
    for n in range(3):
        await api.propose("note", {"word": str(n)}, call_id=f"c{n}")
        api.clock.advance(1)
    first = (await api.get("/v1/effects?limit=2")).json()
    second = (await api.get(f"/v1/effects?limit=2&cursor={first['next']}")).json()

    assert [each["call_id"] for each in first["effects"] + second["effects"]] == ["c2", "c1", "c0"]
    assert second["next"] is None
    assert (await api.get("/v1/effects?state=unknown")).json()["effects"] == []


async def test_a_person_says_what_became_of_an_unknown_effect_and_then_it_is_replayed(api: Api) -> None:
    effect = await unknown(api)
    body = {"truth": "committed", "looked_at": "2026-01-01T00:00:00Z", "reason": "seen_in_desk"}
    answer = await api.post(f"/v1/effects/{effect['effect_id']}/reconcile", body, as_="t-mara")

    assert (answer.status_code, answer.json()["state"]) == (200, "reconciled_committed")
    again = await api.propose("send", {"word": "a"})
    assert (again.status_code, again.json()["status"]) == (200, "replayed")


async def test_absent_is_not_believed_too_early_and_says_from_when_on_it_would_be(api: Api) -> None:
    effect = await unknown(api)
    body = {"truth": "absent", "looked_at": "2026-01-01T00:00:00Z", "reason": "seen_in_desk"}
    answer = await api.post(f"/v1/effects/{effect['effect_id']}/reconcile", body, as_="t-mara")

    assert (answer.status_code, answer.json()["code"]) == (409, "too_early_for_absent")
    assert answer.json()["changed"] == {"state": "unknown", "quiet_end": effect["quiet_end"]}


async def test_the_probe_is_asked_now_by_a_person_who_may(api: Api) -> None:
    effect = await unknown(api)
    path = f"/v1/effects/{effect['effect_id']}/reconcile"
    refused = [await api.post(path, {"truth": "probe"}, as_=who) for who in ("t-agent",)]
    in_vain = await api.post(path, {"truth": "probe"}, as_="t-mara")
    api.desk.fault = None
    found = await api.post(path, {"truth": "probe"}, as_="t-mara")

    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(403, "not_a_person")]
    assert (in_vain.status_code, in_vain.json()["state"], in_vain.json()["probes"]) == (200, "unknown", 1)
    assert (found.status_code, found.json()["state"]) == (200, "reconciled_committed")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"truth": "perhaps"},
        {"truth": "absent"},
        {"truth": "probe", "reason": "seen"},
        {"truth": "absent", "looked_at": "yesterday", "reason": "seen"},
        {"truth": "absent", "looked_at": "2026-01-01T00:00:00", "reason": "seen"},
        {"truth": "absent", "looked_at": "0001-01-01T00:00:00+14:00", "reason": "seen"},
        {"truth": "absent", "looked_at": "2026-01-01T00:00:00Z", "reason": "not a code"},
    ],
)
async def test_a_reconciliation_that_is_none_is_refused(api: Api, body: Any) -> None:
    effect = await unknown(api)
    answer = await api.post(f"/v1/effects/{effect['effect_id']}/reconcile", body, as_="t-mara")

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")


# ---------------------------------------------------------------- tools, policy


async def test_everybody_is_listed_the_tools_it_may_see(api: Api) -> None:
    async def names(who: str) -> list[str]:
        return [tool["name"] for tool in (await api.get("/v1/tools", as_=who)).json()["tools"]]

    assert await names("t-agent") == ["broken", "look", "note", "pay", "send", "slow"]
    assert await names("t-plain") == ["broken", "look"]
    broken, look = (await api.get("/v1/tools", as_="t-plain")).json()["tools"]
    assert look["arguments"]["properties"].keys() == {"word"}
    assert (broken["silence_seconds"], look["silence_seconds"]) == (12.5, None)


async def test_the_policy_in_force_has_a_version(api: Api) -> None:
    answer = await api.get("/v1/policy", as_="t-agent")

    assert answer.json() == {"version": api.gate.policy_version}
    assert answer.json()["version"]


# ---------------------------------------------------------------- audit


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/audit"), ("GET", "/v1/audit/export"), ("POST", "/v1/audit/verify")]
)
async def test_the_audit_needs_its_scope(api: Api, method: str, path: str) -> None:
    await api.propose("note", {"word": "a"})
    for who in ("t-agent", "t-plain", "t-omar"):
        answer = await api.ask(method, path, as_=who)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_events_are_those_of_ones_tenant_the_newest_first_a_page_at_a_time(api: Api) -> None:
    for n in range(3):
        await api.propose("note", {"word": str(n)}, call_id=f"c{n}")
        await api.propose("note", {"word": str(n)}, call_id=f"c{n}", as_="t-stranger")
        api.clock.advance(1)
    found, path = [], "/v1/audit?limit=4&kind=completed&kind=started"
    while path:
        page = (await api.get(path)).json()
        found += page["events"]
        path = f"/v1/audit?limit=4&kind=completed&kind=started&cursor={page['next']}" if page["next"] else ""

    assert [(event["call_id"], event["kind"]) for event in found] == [
        (f"c{n}", kind) for n in (2, 1, 0) for kind in ("completed", "started")
    ]
    assert {event["tenant"] for event in found} == {"acme"}


async def test_events_are_found_by_kind_run_and_tool(api: Api) -> None:
    await api.propose("note", {"word": "a"}, run="r1")
    await api.propose("look", {"word": "a"}, run="r2")
    await api.asked(call_id="c9")

    async def count(query: str) -> int:
        return len((await api.get(f"/v1/audit?{query}")).json()["events"])

    assert await count("kind=approval_asked") == 1
    assert await count("run=r2") == 2
    assert await count("tool=note") == 2
    assert await count("tool=note&run=r2") == 0
    assert (await api.get("/v1/audit?kind=nonsense")).status_code == 400


async def test_what_is_rare_is_found_over_pages_that_hold_nothing(api: Api) -> None:
    await api.asked()
    for n in range(60):
        await api.propose("look", {"word": "a"}, run=f"r{n}", call_id=f"c{n}")
        api.clock.advance(1)
    found, pages, path = [], 0, "/v1/audit?limit=1&kind=approval_asked"
    while path:
        page = (await api.get(path)).json()
        found += page["events"]
        pages += 1
        path = f"/v1/audit?limit=1&kind=approval_asked&cursor={page['next']}" if page["next"] else ""

    assert [event["kind"] for event in found] == ["approval_asked"]
    assert pages > 1


async def test_a_request_id_of_ones_own_is_returned_and_audited_and_any_other_is_minted(api: Api) -> None:
    own = await api.propose("note", {"word": "a"}, call_id="c1", headers={"X-Request-Id": "req.1:a_b-C"})
    minted = await api.propose("note", {"word": "b"}, call_id="c2", headers={"X-Request-Id": "a b"})
    events = await api.events("started")

    assert own.headers["x-request-id"] == "req.1:a_b-C"
    assert minted.headers["x-request-id"].startswith("req-")
    assert [event["request_id"] for event in events] == ["req.1:a_b-C", minted.headers["x-request-id"]]


async def test_an_export_can_be_checked_away_from_the_store(api: Api, tmp_path: Path) -> None:
    await api.propose("note", {"word": "a"})
    await api.propose("note", {"word": "b"}, as_="t-stranger")
    answer = await api.get("/v1/audit/export")
    report = check_export(answer.content.splitlines(keepends=True), tmp_path / "placet.db.key")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl")
    assert (report.holds, report.tenant, report.events) == (True, "acme", 2)
    assert b"globex" not in answer.content


async def test_an_audit_that_holds_is_said_to_hold_and_one_that_was_altered_is_not(api: Api, tmp_path: Path) -> None:
    await api.propose("note", {"word": "a"})
    before = await api.post("/v1/audit/verify", as_="t-mara")
    import apsw

    connection = apsw.Connection(str(tmp_path / "placet.db"))
    connection.execute("DROP TRIGGER IF EXISTS audit_is_append_only")
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("""UPDATE audit_events SET body = replace(body, '"note"', '"pay"') WHERE sequence = 1""")
    connection.close()
    after = await api.post("/v1/audit/verify", as_="t-mara")

    assert before.json() == {"holds": True, "problems": []}
    assert after.status_code == 200
    assert (after.json()["holds"], len(after.json()["problems"])) == (False, 1)


async def test_one_audit_is_verified_at_a_time(api: Api) -> None:
    asked = [asyncio.ensure_future(api.post("/v1/audit/verify", as_="t-mara")) for _ in range(2)]
    first, answer = await asyncio.gather(*asked)
    again = await api.post("/v1/audit/verify", as_="t-mara")

    assert (first.status_code, again.status_code) == (200, 200)
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, "audit_busy", "1")


# ---------------------------------------------------------------- stops


async def test_a_stop_halts_at_once_is_listed_and_lifted(api: Api) -> None:
    stopped = await api.post("/v1/stops", {"scope": "tool:note", "reason": "on fire"}, as_="t-mara")
    refused = await api.propose("note", {"word": "a"})
    (listed,) = (await api.get("/v1/stops")).json()["stops"]
    lifted = await api.ask("DELETE", "/v1/stops", as_="t-mara", params={"scope": "tool:note"})
    ran = await api.propose("note", {"word": "a"})

    assert (stopped.status_code, stopped.json()["running_count"]) == (200, 0)
    assert (refused.status_code, refused.json()["code"]) == (403, "stopped")
    assert (listed["scope"], listed["reason"], listed["stopped_by"]) == (
        {"kind": "tool", "tenant": "acme", "name": "note"},
        "on fire",
        "mara",
    )
    assert (lifted.status_code, lifted.content) == (204, b"")
    assert ran.status_code == 200


@pytest.mark.parametrize(
    ("who", "body", "status", "code"),
    [
        ("t-agent", {"scope": "all"}, 403, "not_a_person"),
        ("t-omar", {"scope": "tenant"}, 403, "scope_missing"),
        ("t-mara", {"scope": "all"}, 403, "scope_missing"),
        ("t-mara", {"scope": "tenant:globex"}, 403, "scope_missing"),
        ("t-mara", {"scope": "tool:note", "all_tenants": True}, 403, "scope_missing"),
        ("t-mara", {"scope": "run:r1", "all_tenants": True}, 422, "meaningless"),
        ("t-mara", {"scope": "everything"}, 422, "meaningless"),
        ("t-mara", {"scope": "tool:a b"}, 422, "meaningless"),
        ("t-mara", {"scope": 7}, 400, "request_malformed"),
        ("t-mara", {}, 400, "request_malformed"),
    ],
)
async def test_who_may_not_stop_stops_nothing(api: Api, who: str, body: Any, status: int, code: str) -> None:
    answer = await api.post("/v1/stops", body, as_=who)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await api.gate.store.stops() == ()


async def test_a_stop_that_is_not_there_is_404(api: Api) -> None:
    answer = await api.ask("DELETE", "/v1/stops", as_="t-mara", params={"scope": "tool:note"})

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


# ---------------------------------------------------------------- the process


async def test_health_looks_at_nothing_and_ready_at_the_store(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> None:
        raise StoreUnavailable("at /secret/place")

    well = await api.get("/readyz", as_=None)
    monkeypatch.setattr(api.gate.store, "now", away)
    ill = await api.get("/readyz", as_=None)
    alive = await api.get("/healthz", as_=None)

    assert (well.status_code, well.json()) == (200, {"status": "ready"})
    assert (ill.status_code, ill.json()) == (503, {"status": "unready", "reason": "StoreUnavailable"})
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})


async def test_while_it_ends_a_process_is_not_ready(api: Api) -> None:
    api.app.state.door.close()
    answer = await api.get("/readyz", as_=None)

    assert (answer.status_code, answer.json()["reason"], answer.headers["retry-after"]) == (503, "draining", "1")


async def test_requests_are_counted_by_method_address_and_status_alone(api: Api) -> None:
    await api.get("/v1/approvals/apr-zq1")
    await api.get("/v1/nothing/zq2")
    await api.ask("BREW", "/v1/tools")
    await api.propose("note", {"word": "zq3"})
    answer = await api.get("/metrics", as_="t-scraper")

    text = answer.text
    assert answer.status_code == 200
    assert 'placet_http_requests_total{method="GET",route="/v1/approvals/{approval_id}",status="404"} 1.0' in text
    assert 'placet_http_requests_total{method="GET",route="unknown",status="404"} 1.0' in text
    assert 'method="unknown"' in text
    assert 'placet_http_requests_total{method="POST",route="/v1/proposals",status="200"} 1.0' in text
    assert 'placet_http_request_seconds_count{method="POST",route="/v1/proposals"} 1.0' in text
    assert 'placet_tool_calls_total{outcome="success",tool="note"} 1.0' in text
    assert "zq" not in text


async def test_numbers_of_every_tenant_need_their_scope(api: Api, make_api: MakeApi) -> None:
    for who, status in ((None, 401), ("t-agent", 403), ("t-mara", 403), ("t-scraper", 200)):
        assert (await api.get("/metrics", as_=who)).status_code == status


async def test_everybody_is_told_who_it_is_here(api: Api) -> None:
    mara = (await api.get("/v1/whoami")).json()
    agent = (await api.get("/v1/whoami", as_="t-agent")).json()

    assert mara == {
        "subject": "mara",
        "tenant": "acme",
        "standing": "person",
        "roles": ["viewer"],
        "scopes": ["approvals.decide", "audit.read", "effects.read", "effects.reconcile", "ops.stop"],
        "environment": "production",
        "on_behalf_of": [],
    }
    assert (agent["subject"], agent["standing"], agent["scopes"]) == ("agent", "agent", ["w"])
    assert (await api.get("/v1/whoami", as_=None)).status_code == 401


def test_whom_somebody_acts_for_is_told_to_its_far_end() -> None:
    far = Principal.person("uma", tenant="acme")
    between = Principal.agent("desk", tenant="acme", on_behalf_of=far)
    acting = Principal.agent("bot", tenant="acme", on_behalf_of=between)

    assert principal_view(acting).on_behalf_of == ("desk", "uma")


async def test_an_event_that_was_altered_is_shown_as_unreadable_among_the_others(api: Api, tmp_path: Path) -> None:
    for number in range(3):
        await api.propose("note", {"word": "a"}, call_id=f"c{number}")
    found = []
    for deep in (16, 17, 700, 985):
        inner = "[" * (deep - 1) + "1" + "]" * (deep - 1)
        alter(tmp_path / "placet.db", f'{{"at":"2026-01-01T13:00:00.000000+00:00","tenant":"acme","x":{inner}}}')
        answer = await api.get("/v1/audit")
        assert answer.status_code == 200
        others = [event for event in answer.json()["events"] if event["sequence"] != 2]
        (altered,) = [event for event in answer.json()["events"] if event["sequence"] == 2]
        assert len(others) >= 5 and all("kind" in event for event in others)
        found.append((deep, "x" in altered, altered.get("unreadable", False)))

    assert found == [(16, True, False), (17, False, True), (700, False, True), (985, False, True)]
