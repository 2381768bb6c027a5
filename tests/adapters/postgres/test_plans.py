"""Every statement on the path of a call finds its rows by an index, also on an empty table with no statistics."""

from __future__ import annotations

from typing import Any

import pytest

from placet.adapters.stores.postgres.connection import connect
from placet.adapters.stores.postgres.statements import SQL
from placet.model.ledger import Claimed
from placet.testing.conformance import a_claim, a_settlement, a_step
from tests.adapters.postgres.conftest import OpenStore
from tests.postgres.fixtures import Database

A, N = "acme", 1
HOT: dict[str, tuple[Any, ...]] = {
    "effects_at": ([A], ["key"]),
    "effects_at_locked": ([A], ["key"]),
    "approvals_at": ([A], ["apr"]),
    "approvals_at_locked": ([A], ["apr"]),
    "run": (A, "run"),
    "run_locked": (A, "run"),
    "has_step": (A, "run", "call", "print"),
    "denials": (A, "run", "pay"),
    "is_voided": ("token",),
    "has_read": ("w", N),
    "renew_leases": ("owner", N),
    "same_ask": (A, "agent", "run", "pay", "digest", "policy", "key"),
    "open_approval": (A, "agent", "run", "pay", "digest", "policy", "key"),
    "standing_approvals": (A, "agent", "run", "pay", "digest", "policy", "key"),
    "effects_of_tenant": (["unknown"], None, N, A),
    "effects_in_flight": (["unknown"], None, N, A),
    "approvals_of_tenant": (A, ["pending"], N),
    "effects_of_tenant_after": (["unknown"], None, N, A, N, "key"),
    "effects_in_flight_after": (["unknown"], None, N, A, N, "key"),
    "approvals_of_tenant_after": (A, ["pending"], N, N, "apr"),
    "events_of_tenant_after": (A, N, "2026", "w", N),
    "unknown_effects": (),
    "stranded": (N,),
    "due_for_probe": (N,),
    "lost_reads": (N,),
    "pending_count": (),
    "count_dispatched": ("all",),
    "overdue_approvals": (N,),
    "due_reminders": (N,),
    "told": (A, "apr"),
    "newest_of_tenant": (A, N),
    "waiting": (N,),
    "meta": ("key_check",),
    "raise_epoch": ("w",),
    "next_finished_kind": (A, "pay"),
    "finished": (A, "pay", N, N, 0),
    "old_runs": (A, N, N),
    "old_approvals": (A, "spent", N, N),
    "old_tokens": (N, N),
    "kept_until": ("w",),
    "link_at": ("w", N),
    "cut": ("w", N),
}


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_statement_never_reads_a_whole_table(database: Database, name: str) -> None:
    connection = await connect(database.address())
    try:
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN {SQL[name]}", *HOT[name])]
    finally:
        await connection.close()

    assert not [line for line in plan if "Seq Scan" in line], "\n".join(plan)


async def test_the_queue_for_people_does_not_read_what_is_finished(database: Database) -> None:
    """However many operations of the tenant have ended since."""
    database.execute(
        "INSERT INTO placet.effects SELECT 'acme', 'key-' || n, 'f', 'pay', '1', 'c', 'a', 'run', 'call', 'agent', "
        "'p', 'allow', NULL, 'dispatched', 1, 1, 1, 't-' || n, 'o', n, n, 2.0, 1, NULL, 0, NULL, '', NULL, NULL, "
        "NULL, NULL, n, n FROM generate_series(1, 3000) n",
        "UPDATE placet.effects SET state = 'unknown' WHERE updated_at < 9",
        "UPDATE placet.effects SET state = 'committed' WHERE state = 'dispatched' AND updated_at < 2990",
        "ANALYZE placet.effects",
    )
    connection = await connect(database.address())
    try:
        explain = f"EXPLAIN (ANALYZE, TIMING OFF) {SQL['effects_in_flight']}"
        plan = [row[0] for row in await connection.fetch(explain, ["unknown"], None, 100, A)]
    finally:
        await connection.close()

    text = "\n".join(plan)
    removed = [int(line.rsplit(" ", 1)[1]) for line in plan if "Rows Removed" in line]
    assert sum(removed) < 50 and "effects_by_change" not in text, text


@pytest.mark.parametrize("statement", ["UPDATE effects", "UPDATE approvals", "DELETE FROM open_reads"])
async def test_what_a_batch_changes_is_found_by_an_index(database: Database, statement: str) -> None:
    """The same joins as in `apply`, whose plans cannot be asked for."""
    joins = {
        "UPDATE effects": "UPDATE effects e SET reason = c.reason FROM unnest($1::effect_form[]) c "
        "WHERE e.tenant = c.tenant AND e.operation_key = c.operation_key AND e.xmin = c.seen",
        "UPDATE approvals": "UPDATE approvals a SET state = c.state FROM unnest($1::approval_form[]) c "
        "WHERE a.tenant = c.tenant AND a.approval_id = c.approval_id AND a.xmin = c.seen",
        "DELETE FROM open_reads": "DELETE FROM open_reads r USING unnest($1::read_form[]) c "
        "WHERE r.writer = c.writer AND r.sequence = c.sequence",
    }
    connection = await connect(database.address())
    try:
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN {joins[statement]}", [])]
    finally:
        await connection.close()

    assert not [line for line in plan if "Seq Scan" in line], "\n".join(plan)


async def test_a_session_that_knew_the_tables_empty_finds_rows_by_their_names(
    database: Database, open_store: OpenStore
) -> None:
    """To walk through all of the tenant's rows is as good as any way while there are none; such a plan is not kept."""
    store, calls = open_store(), 200
    for number in range(calls):
        step = a_step(f"call-{number}", max_steps=1_000)
        answer = await store.claim(a_claim(f"key-{number}", token=f"t-{number}", step=step))
        assert isinstance(answer, Claimed)
        await store.settle(a_settlement(answer.effect))
    await store.close()

    read = {}
    while read.get("effects_by_change", 0) + read.get("effects_pkey", 0) < calls:  # counted as the session ends
        read = dict(database.fetch("SELECT indexrelname, idx_tup_read::bigint FROM pg_stat_user_indexes"))
    assert read["effects_by_change"] < 20 * calls, "a walk each time reads 100 times as many as there are calls"
