"""What people read and do in the console beside decisions: the audit, tools, the switch, who they are."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

import placet
from tests.console.shop import LOOKER, MEI, TOOLS, Shop, fields_of, open_shop
from tests.console.test_pages import MARKUP, decide, page, publish, text_of


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop(tools=[*TOOLS, publish]) as made:
        yield made


async def test_what_a_person_does_to_no_tool_names_no_tool_and_tells_the_person_once(shop: Shop) -> None:
    await shop.gate.switch.stop("tenant", by=MEI, reason="drill")

    rows = re.findall(r"<tr data-row.*?</tr>", await page(shop, "/audit?kind=stopped"), re.DOTALL)
    told = " ".join(text_of(row) for row in rows)

    assert len(rows) == 1 and MEI.subject in told
    assert "unknown" not in told and "decided by" not in told


@pytest.mark.parametrize("kind", ["tool", "run"])
async def test_a_stop_of_nothing_named_says_what_to_name(shop: Shop, kind: str) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop")
    answer = await shop.browser.post(
        "/console/stops/stop", data=fields | {"kind": kind, "name": " ", "reason": "drill"}
    )

    assert answer.status_code == 422
    assert f"Name the {kind} to stop. Nothing was stopped." in text_of(answer.text)
    assert await shop.gate.switch.stops(by=MEI) == ()


async def test_a_tool_that_does_not_exist_is_still_told_as_unknown(shop: Shop) -> None:
    await shop.ask("no_such_tool")

    [row, *_] = re.findall(r"<tr data-row.*?</tr>", await page(shop, "/audit?kind=completed"), re.DOTALL)
    assert "unknown" in text_of(row)


async def test_the_audit_tells_who_decided_and_that_it_holds(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    await decide(shop, approval_id, "deny", reason="no")

    assert "decided by mei" in text_of(await page(shop, "/audit?kind=approval_denied"))
    assert "refund" in text_of(await page(shop, "/audit?kind=approval_denied"))
    assert "No event fits." in await page(shop, "/audit?kind=approval_denied&tool=publish")
    assert "every chain is intact to 2026-01-01" in text_of(await page(shop, "/audit/verify"))
    lines = (await page(shop, f"/audit/events.jsonl?approval={approval_id}&person=mei")).splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["approval_denied"]


async def test_verifying_tells_a_tenant_nothing_of_others(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    here = re.sub(r'nonce="[^"]*"', "", (await shop.browser.get("/console/audit/verify")).text)
    other = placet.Principal.agent("agent-8", tenant="globex", roles=("admin",))
    await shop.gate.submit({"call_id": "c", "tool": "look", "arguments": {"order": "o"}}, principal=other, run="r")

    assert re.sub(r'nonce="[^"]*"', "", (await shop.browser.get("/console/audit/verify")).text) == here


async def test_the_audit_is_for_those_who_may_read_it(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    looker = await shop.as_person(LOOKER)
    for path in ("/audit", "/audit/verify", "/audit/events.jsonl", "/runs", "/run?run=run-1"):
        answer = await looker.get(f"/console{path}")
        assert answer.status_code == 403 and "audit.read" in answer.text and "refund" not in answer.text


async def test_tools_are_listed_with_what_they_may_do(shop: Shop) -> None:
    text = text_of(await page(shop, "/tools"))
    assert "delete_account" not in text or "cannot be taken back" in text


async def test_a_tool_is_stopped_and_resumed(shop: Shop) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop")

    stopped = await shop.browser.post(
        "/console/stops/stop", data=fields | {"kind": "tool", "name": "look", "reason": f"odd {MARKUP}"}
    )
    assert stopped.status_code == 303
    assert (await shop.ask("look", order="o")).code == "stopped"
    html = await page(shop, stopped.headers["location"].removeprefix("/console"))
    assert "Nothing of it is dispatched from now on" in html and "<img" not in html

    resumed = await shop.browser.post("/console/stops/resume", data=fields_of(html, "/stops/resume"))
    assert resumed.status_code == 303
    assert (await shop.ask("look", order="o")).is_success
    again = await shop.browser.post("/console/stops/resume", data=fields_of(html, "/stops/resume"))
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "tenant", "typed": ""}, 422),
        ({"kind": "tenant", "typed": "STOP"}, 422),
        ({"kind": "all", "typed": "stop"}, 403),
        ({"kind": "tool", "name": "no such tool!"}, 422),
        ({"kind": "run", "name": ""}, 422),
        ({"kind": "upstream", "name": "x"}, 422),
        ({"kind": "", "name": "x"}, 422),
    ],
)
async def test_a_stop_that_is_not_meant_or_not_allowed_stops_nothing(
    shop: Shop, change: dict[str, str], status: int
) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop") | {"name": ""}

    answer = await shop.browser.post("/console/stops/stop", data=fields | change)

    assert answer.status_code == status
    assert await shop.gate.switch.stops(by=MEI) == ()


async def test_who_is_signed_in_and_what_it_may(shop: Shop) -> None:
    text = text_of(await page(shop, "/me"))
    assert "mei" in text and "acme" in text and "approvals.decide : decide approvals of others" in text


async def test_people_and_runs_with_odd_names_are_drawn_and_not_obeyed(shop: Shop) -> None:
    outcome = await shop.gate.submit(
        {"call_id": "c-1", "tool": "refund", "arguments": {"order": MARKUP[:40], "amount": 1}},
        principal=placet.Principal.agent(MARKUP, tenant="acme", roles=("admin",), scopes=("shop.write",)),
        run=f"run {MARKUP}"[:100],
    )
    assert outcome.code == "approval_required"
    for path in ("/", "/?tab=pending", "/audit", "/runs", "/effects"):
        html = await page(shop, path)
        assert "<img" not in html and "<script>alert" not in html


async def test_a_mistyped_tool_is_not_said_to_be_stopped(shop: Shop) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop") | {"kind": "tool", "name": "refnd", "reason": ""}
    fields.pop("unknown", None)
    refused = await shop.browser.post("/console/stops/stop", data=fields)

    assert refused.status_code == 422 and "No tool here is named" in text_of(refused.text)
    assert await shop.gate.switch.stops(by=MEI) == ()

    meant = await shop.browser.post("/console/stops/stop", data=fields | {"unknown": "yes"})
    assert meant.status_code == 303
    assert [view.scope.name for view in await shop.gate.switch.stops(by=MEI)] == ["refnd"]
