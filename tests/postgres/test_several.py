"""A long queue on PostgreSQL: the gravest first, page by page, and several decided at once by people on two hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Principal
from placet.model.approval import Chosen
from tests.engine.test_triage import AGENTS, MARA, POLICY, TOOLS, order
from tests.postgres.fixtures import Database

OMAR = Principal.person("omar", tenant="acme", scopes=("approvals.decide",))
DIGEST = "0" * 64


def opening(database: Database, tmp_path: Path, **more: Any) -> Any:
    common: dict[str, Any] = {"key": tmp_path / "placet.key", "policy": POLICY, "recovery": "manual"}
    return placet.open(tools=TOOLS, store=database.url, **common, **more)


async def ask(gate: placet.Gate, risk: str, number: int, *, tenant: str = "acme") -> None:
    proposal = {"call_id": f"c{number}", "tool": f"act_{risk}", "arguments": {"number": number}}
    outcome = await gate.submit(proposal, principal=AGENTS[tenant], run=f"r{number // 8}")
    assert isinstance(outcome, placet.AwaitingApproval), outcome


@pytest.mark.case("O06")
async def test_the_gravest_come_first_page_by_page(database: Database, tmp_path: Path) -> None:
    async with opening(database, tmp_path) as gate:
        risks = ("low", "medium", "high", "critical", "slow")
        for number in range(25):
            await ask(gate, risks[number % 5], number, tenant=("acme", "acme", "globex")[number % 3])
        found, after = [], None
        while True:
            page = await gate.desk.triage.page(by=MARA, limit=4, after=after)
            found += page.rows
            after = page.after
            if after is None:
                break
        waiting = await gate.desk.pending(by=MARA)

    assert len(found) == len(waiting) == 17
    assert found == sorted(waiting, key=order)


@pytest.mark.case("O06")
async def test_two_people_who_decide_the_same_ones_at_once_decide_each_once(database: Database, tmp_path: Path) -> None:
    async with (
        opening(database, tmp_path) as here,
        opening(database, tmp_path) as there,
    ):
        for number in range(8):
            await ask(here, "medium", number)
        views = await here.desk.pending(by=MARA)
        chosen = [Chosen(approval_id=view.approval_id, digest=view.digest) for view in views]
        approved, denied = await asyncio.gather(
            here.desk.several.approve(chosen, by=MARA),
            there.desk.several.deny(list(reversed(chosen)), by=OMAR, reason="no"),
        )
        stands = {view.approval_id: view.state.value for view in await here.desk.listed(by=MARA)}
        events = [event.body async for event in here.store.chained()]
        assert (await here.verify_audit()).holds

    done = {each.approval_id: "approved" for each in approved if each.code is None}
    refused = {each.approval_id: "denied" for each in denied if each.code is None}
    assert not set(done) & set(refused) and done | refused == stands and len(stands) == 8
    assert {each.code for each in (*approved, *denied)} <= {None, "already_decided"}
    kinds = [b'"kind":"approval_approved"', b'"kind":"approval_denied"']
    assert sum(any(kind in body for kind in kinds) for body in events) == 8


@pytest.mark.parametrize("name", ["\x00", "a\x00b", "\ud800", "", "x" * 200])
async def test_a_name_that_the_database_cannot_hold_is_nowhere(database: Database, tmp_path: Path, name: str) -> None:
    async with opening(database, tmp_path) as gate:
        assert (await gate.desk.several.look([name], by=MARA)).views == ()
        (said,) = await gate.desk.several.deny([Chosen(approval_id=name, digest=DIGEST)], by=MARA, reason="no")
        assert said.code == "not_found"
