"""Every statement of the PostgreSQL store finds what it looks for by an index, in a ledger that has grown.

Plans are those that the store's sessions make: with its settings, and for any values. Statements that read all of a
table that grows, or all of an index of it, are listed with their reasons, and so are those that sort.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from placet.adapters.stores.postgres.connection import connect
from placet.adapters.stores.postgres.statements import SQL
from placet.proof.growth import in_postgres
from placet.proof.growth.specimens import Place
from tests.postgres.fixtures import Cluster, Database

BIG = {"effects", "approvals", "audit_events", "runs", "step_fingerprints", "denials", "voided_tokens"}
"""Tables that grow with every call."""

SMALL_INDEXES = {
    *("effects_by_state", "effects_by_owner", "approvals_pending", "unchained_events_waiting"),
    "deliveries_left",  # what is not delivered yet, or never will be
}
"""Indexes of the few rows that are in flight, or wait; to read one of them from end to end is what it is for."""

QUERIES = sorted(name for name in SQL if re.match(r"(--.*\n|\s)*(SELECT|WITH|INSERT|UPDATE|DELETE)\b", SQL[name]))
"""All statements but those that set something, or tell the server about sizes."""

MAY_SCAN = {
    "effects_of_all": "finished effects of every tenant: proofs and tests ask for them; nothing in service does",
    "chained": "an audit that is verified or exported is read from its beginning to its end",
    "count_events": "once per export or verification, which read all events anyway",
    "newest": "of every tenant, for tests; what people are shown is a tenant's",
    "key_uses": "what depends on a key is counted over all rows, for `placet keys list` and before a retirement",
}
MAY_SORT = {
    "effects_at_locked": "the rows of one batch, which are locked in one order",
    "approvals_at_locked": "the rows of one batch, which are locked in one order",
    "renew_leases": "what one owner has in flight, which is locked in one order",
    "same_ask": "approvals of one question, of which there are a few",
    "closed_ask": "the same",
    "standing_approvals": "the same, which are locked in one order",
    "open_approval": "approvals of one question, of which there are a few",
    "edits": "what people made of one question",
    "approvals_of_tool": "what one run asked about one tool",
    "open_approvals_of_run": "what of one run waits for people",
    "overdue_approvals": "what waits for a person",
    "due_reminders": "what waits for a person",
    "approvals_of_tenant": "the newest of each state that is asked for",
    "chained_of_tenant": "all of a tenant's events in the order of their chains, for `placet audit tail --operation`",
    "newest_of_tenant": "only events of the very same instant are sorted",
    "effects_in_flight": "what is in flight",
    "effects_in_flight_after": "what is in flight",
    "effects_of_tenant_after": "only effects that changed at the very same instant are sorted",
    "waiting_marks": "only questions of the very same instant are sorted",
    "approvals_of_tenant_after": "the next ones of each state that is asked for",
    "events_of_tenant_after": "only events of the very same instant are sorted",
    "longest_unknown": "what is unknown",
    "due_for_probe": "what is unknown",
    "unknown_effects": "what is unknown",
    "stranded": "what is in flight",
    "runs_in_flight_after": "runs of what is in flight",
    "runs_with_unknown_after": "runs of what is unknown",
    "runs_that_wait_after": "runs of what waits for a person",
    "waiting_of_runs": "what waits in the runs of a page",
    "effects_of_run": "what one run did",
    "approvals_of_run": "what one run asked",
    "runs_after": "only runs of the very same instant are sorted",
    "runs_of_subject_after": "only runs of the very same instant are sorted",
    "effect_counts_of_runs": "what the runs of a page did",
}

_MORE = (
    "INSERT INTO runs SELECT r.tenant, r.run_id || '-' || n, r.subject || n % 20, r.policy_version, r.max_steps, "
    "r.steps, r.opened_at + n, r.stepped_at + n FROM runs r, generate_series(1, 200) n",
    "INSERT INTO denials SELECT tenant, run_id, 'open_ticket', 1 FROM runs",
    "INSERT INTO voided_tokens SELECT run_id, opened_at FROM runs",
    "CREATE TEMP TABLE spent AS SELECT a.*, n FROM approvals a, generate_series(1, 50) n",
    "UPDATE spent SET approval_id = approval_id || '-' || n, asked_at = asked_at + n",
    "ALTER TABLE spent DROP COLUMN n",
    "INSERT INTO approvals SELECT * FROM spent",
    "CREATE TEMP TABLE more AS SELECT * FROM approvals LIMIT 200",
    "UPDATE more SET approval_id = approval_id || '-more', run_id = run_id || approval_id, state = 'approved'",
    "UPDATE more SET state = 'pending' WHERE approval_id IN (SELECT approval_id FROM more LIMIT 20)",
    "INSERT INTO approvals SELECT * FROM more",
    "CREATE TEMP TABLE flying AS SELECT * FROM effects LIMIT 60",
    "UPDATE flying SET operation_key = operation_key || '-more', state = 'dispatched'",
    "INSERT INTO effects SELECT * FROM flying",
    "DELETE FROM flying WHERE ctid NOT IN (SELECT ctid FROM flying LIMIT 40)",
    "UPDATE effects SET state = 'unknown' WHERE state = 'dispatched' AND call_id IN (SELECT call_id FROM flying)",
    "ANALYZE runs, denials, voided_tokens, approvals, effects",
)
"""Of these a few thousand operations leave too few for a planner to care, and nothing waits or is in flight."""


@pytest.fixture(scope="module")
def filled(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with some thousands of rows in every table that grows."""
    database = cluster.database()
    key = tmp_path_factory.mktemp("growth") / "placet.key"

    async def fill() -> None:
        connection = await asyncpg.connect(database.url, server_settings={"search_path": "placet,pg_temp"})
        try:
            place = Place(store=database.url, key=key)
            await in_postgres.fill(place, connection, effects=4_000, events=8_000, told=lambda word: None)
            for statement in _MORE:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(fill())
    yield database
    cluster.drop(database)


@pytest.fixture(scope="module")
def plans(filled: Database) -> dict[str, list[dict[str, Any]]]:
    """The steps of every statement's plan."""

    async def explained() -> dict[str, list[dict[str, Any]]]:
        connection = await connect(filled.address())
        try:
            return {name: await _steps(connection, name) for name in QUERIES}
        finally:
            await connection.close()

    return asyncio.run(explained())


async def _steps(connection: Any, name: str) -> list[dict[str, Any]]:
    """For any values: the sessions of the store keep one plan for all."""
    count = max(map(int, re.findall(r"\$(\d+)", SQL[name])), default=0)
    await connection.execute(f'PREPARE "{name}" AS {SQL[name].rstrip().rstrip(";")}')
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    (row,) = await connection.fetch(f'EXPLAIN (FORMAT JSON) EXECUTE "{name}"{values}')
    return list(_each(json.loads(row[0])[0]["Plan"]))


def _each(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for inner in step.get("Plans", ()):
        yield from _each(inner)


def scans(steps: list[dict[str, Any]]) -> list[str]:
    """Steps that read a table that grows, or an index of all of it, from end to end."""
    found = []
    for step in steps:
        kind, table, index = step["Node Type"], step.get("Relation Name", ""), step.get("Index Name", "")
        by_key = "Index Cond" in step or index in SMALL_INDEXES
        if kind == "Seq Scan" or (kind in ("Index Scan", "Index Only Scan") and not by_key):
            is_big = table in BIG
        else:
            is_big = kind == "Bitmap Index Scan" and not by_key
        if is_big:
            found.append(f"{kind} {table} {index}")
    return found


def test_the_store_has_rows_in_every_table_that_grows(filled: Database) -> None:
    for table in BIG:
        ((count,),) = filled.fetch(f"SELECT count(*) FROM placet.{table}")
        assert int(str(count)) >= 40, table


@pytest.mark.parametrize("name", QUERIES)
def test_a_statement_reads_no_growing_table_from_end_to_end(plans: dict[str, Any], name: str) -> None:
    found = scans(plans[name])

    assert bool(found) == (name in MAY_SCAN), (found, plans[name])


@pytest.mark.parametrize("name", QUERIES)
def test_a_statement_sorts_no_more_than_it_has_to(plans: dict[str, Any], name: str) -> None:
    reads_big = any(step.get("Relation Name") in BIG for step in plans[name])
    sorts = reads_big and any("Sort" in step["Node Type"] for step in plans[name])

    assert sorts <= (name in MAY_SORT or name in MAY_SCAN), [step["Node Type"] for step in plans[name]]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("effects_at", "effects_pkey"),
        ("approvals_at", "approvals_pkey"),
        ("run", "runs_pkey"),
        ("has_step", "step_fingerprints_pkey"),
        ("denials", "denials_pkey"),
        ("is_voided", "voided_tokens_pkey"),
        ("renew_leases", "effects_by_owner"),
        ("stranded", "effects_by_state|effects_by_owner"),
        ("count_dispatched", "effects_by_state|effects_by_owner"),
        ("due_for_probe", "effects_by_state"),
        ("unknown_effects", "effects_by_state"),
        ("longest_unknown", "effects_by_state"),
        ("effects_in_flight", "effects_by_state"),
        ("effects_of_tenant", "effects_by_change"),
        ("pending_count", "approvals_pending"),
        ("overdue_approvals", "approvals_pending"),
        ("due_reminders", "approvals_pending"),
        ("approvals_of_tenant", "approvals_by_state"),
        ("newest_of_tenant", "audit_events_by_tenant"),
        ("effects_in_flight_after", "effects_by_state"),
        ("effects_of_tenant_after", "effects_by_change"),
        ("approvals_of_tenant_after", "approvals_by_state"),
        ("waiting_marks", "approvals_by_state"),
        ("events_of_tenant_after", "audit_events_by_tenant"),
        ("runs_after", "runs_by_opening"),
        ("runs_of_subject_after", "runs_by_subject"),
        ("runs_in_flight_after", "effects_by_state|effects_by_owner"),
        ("runs_in_flight_after", "runs_pkey"),
        ("runs_with_unknown_after", "effects_by_state"),
        ("runs_with_unknown_after", "runs_pkey"),
        ("runs_that_wait_after", "approvals_by_state"),
        ("runs_that_wait_after", "runs_pkey"),
        ("effect_counts_of_runs", "effects_by_run"),
        ("waiting_of_runs", "one_open_approval_per_question|approvals_by_question"),
        ("denials_of_runs", "denials_pkey"),
        ("effects_of_run", "effects_by_run"),
        ("approvals_of_run", "approvals_by_question"),
        ("steps_of_run", "step_fingerprints_pkey"),
        ("finished", "effects_finished"),
        ("next_finished_kind", "effects_finished"),
        ("count_finished", "effects_finished"),
        ("old_runs", "runs_by_opening"),
        ("count_old_runs", "runs_by_opening"),
        ("old_approvals", "approvals_by_state"),
        ("count_old_approvals", "approvals_by_state"),
        ("old_tokens", "voided_tokens_by_age"),
        ("count_old_events", "audit_events_by_tenant"),
        ("oldest_events", "audit_events_pkey"),
        ("link_at", "audit_events_pkey"),
        ("cut", "audit_events_pkey"),
        ("drop_run", "runs_pkey"),
        ("drop_steps", "step_fingerprints_pkey"),
        ("drop_denials", "denials_pkey"),
        ("drop_approval", "approvals_pkey"),
        ("drop_void", "voided_tokens_pkey"),
    ],
)
def test_a_statement_uses_the_index_that_was_made_for_it(plans: dict[str, Any], name: str, index: str) -> None:
    used = {step["Index Name"] for step in plans[name] if "Index Name" in step}

    assert used & set(index.split("|")), used


def test_every_exception_is_a_statement_that_there_is() -> None:
    assert set(MAY_SCAN) | set(MAY_SORT) <= set(QUERIES)
    assert all(MAY_SCAN.values()) and all(MAY_SORT.values())
    assert len(QUERIES) > len(SQL) - 5


def test_a_plan_without_its_index_would_have_been_found(filled: Database) -> None:
    async def explained() -> list[dict[str, Any]]:
        connection = await connect(filled.address())
        try:
            await connection.execute("BEGIN")
            await connection.execute("DROP INDEX effects_finished")
            await connection.execute("DROP INDEX effects_by_change")
            return await _steps(connection, "next_finished_kind")
        finally:
            await connection.execute("ROLLBACK")
            await connection.close()

    steps = asyncio.run(explained())
    assert scans(steps) or any("Sort" in step["Node Type"] for step in steps)
