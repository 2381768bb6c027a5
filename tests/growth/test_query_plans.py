"""Every statement finds what it looks for by an index, however many rows there are; those that may not are listed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from placet.adapters.stores.sqlite.statements import queries
from placet.proof.growth import in_sqlite

QUERIES = queries()
BIG = {
    "approval_votes",
    "approval_edits",
    "effects",
    "approvals",
    "audit_events",
    "runs",
    "steps",
    "step_fingerprints",
    "denials",
    "voided_tokens",
}
"""Tables that grow with every call."""

SMALL_INDEXES = {"effects_dispatched", "effects_unknown", "effects_of_no_state", "approvals_pending"}
"""Indexes of the few rows that are in flight, or wait; to read one of them from end to end is what it is for."""

MAY_SCAN = {
    "effects_of_all": "finished effects of every tenant: proofs and tests ask for them; nothing in service does",
    "chained": "an audit that is verified or exported is read from its beginning to its end",
    "count_events": "once per export or verification, which read all events anyway",
    "newest": "of every tenant, for tests; what people are shown is a tenant's",
    "key_uses": "what depends on a key is counted over all rows, for `placet keys list` and before a retirement",
}
MAY_SORT = {
    "same_ask": "approvals of one question, of which there are a few",
    "edits": "what people made of one question",
    "approvals_of_tool": "what one run asked about one tool",
    "open_approvals_of_run": "what of one run waits for people",
    "chained_of_tenant": "all of a tenant's events in the order of their chains, for `placet audit tail --operation`",
    "newest_of_tenant": "only events of the very same instant are sorted",
    "effects_in_flight": "what is in flight",
    "effects_in_flight_after": "what is in flight",
    "effects_of_tenant_after": "only effects that changed at the very same instant are sorted",
    "approvals_of_tenant_after": "only questions of the very same instant are sorted",
    "events_of_tenant_after": "only events of the very same instant are sorted",
    "longest_unknown": "only effects that are unknown since the very same instant are sorted",
    "unknown_effects": "what is unknown",
    "runs_in_flight_after": "runs of what is in flight",
    "runs_with_unknown_after": "runs of what is unknown",
    "runs_that_wait_after": "runs of what waits for a person",
    "effect_counts_of_runs": "what the runs of a page did",
    "waiting_of_runs": "what waits in the runs of a page",
    "effects_of_run": "what one run did",
    "approvals_of_run": "what one run asked",
    "next_finished_kind": "two rows: the next tool, and the next tenant's first one",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    """A store with some thousands of rows in every table that grows."""
    path = tmp_path_factory.mktemp("growth") / "placet.db"
    asyncio.run(in_sqlite.fill(path, effects=4_000, events=8_000, told=lambda word: None))
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def plan_of(connection: apsw.Connection, statement: str) -> list[str]:
    places = [int(number) if number else 0 for number in re.findall(r"\?(\d*)", statement)]
    count = max(places) if any(places) else len(places)
    query = "EXPLAIN QUERY PLAN " + statement.rstrip("; \n")
    return [str(row[3]) for row in connection.execute(query, [None] * count)]


def scans(plan: list[str]) -> list[str]:
    """Steps that read a table that grows, or an index of all of it, from end to end."""
    found = []
    for step in plan:
        read = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step)
        if read is not None and read[1] in BIG and read[2] not in SMALL_INDEXES:
            found.append(step)
    return found


def test_the_store_has_rows_in_every_table_that_grows(filled: apsw.Connection) -> None:
    for table in BIG - {"approval_votes", "approval_edits", "steps", "denials", "voided_tokens"}:
        ((count,),) = filled.execute(f"SELECT count(*) FROM {table}")
        assert count >= 40, table


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_statement_reads_no_growing_table_from_end_to_end(filled: apsw.Connection, name: str) -> None:
    found = scans(plan_of(filled, QUERIES[name]))

    assert bool(found) == (name in MAY_SCAN), found


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_statement_sorts_no_more_than_it_has_to(filled: apsw.Connection, name: str) -> None:
    plan = plan_of(filled, QUERIES[name])
    reads_big = any(re.search(rf"\b(?:{'|'.join(BIG)})\b", step) for step in plan)
    sorts = reads_big and any(step.startswith("USE TEMP B-TREE") for step in plan)

    assert sorts <= (name in MAY_SORT or name in MAY_SCAN), plan
    assert sorts or name not in MAY_SORT, "it sorts no more: take it off the list"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("stranded", "effects_dispatched"),
        ("renew_leases", "effects_dispatched"),
        ("count_dispatched", "effects_dispatched"),
        ("due_for_probe", "effects_unknown"),
        ("unknown_effects", "effects_unknown"),
        ("longest_unknown", "effects_unknown"),
        ("pending_count", "approvals_pending"),
        ("overdue_approvals", "approvals_pending"),
        ("due_reminders", "approvals_pending"),
        ("finished", "effects_finished"),
        ("next_finished_kind", "effects_finished"),
        ("old_runs", "runs_by_opening"),
        ("old_tokens", "voided_tokens_by_age"),
        ("old_approvals", "approvals_by_state"),
        ("approvals_of_tenant", "approvals_by_state"),
        ("same_ask", "approvals_by_question"),
        ("edits", "approval_edits_by_question"),
        ("effects_of_tenant", "effects_by_change"),
        ("newest_of_tenant", "audit_events_by_tenant"),
        ("effects_of_tenant_after", "effects_by_change"),
        ("approvals_of_tenant_after", "approvals_by_state"),
        ("waiting_marks", "approvals_by_state"),
        ("events_of_tenant_after", "audit_events_by_tenant"),
        ("is_chained", "audit_events_by_tenant"),
        ("runs_after", "runs_by_opening"),
        ("runs_of_subject_after", "runs_by_subject"),
        ("runs_in_flight_after", "effects_dispatched"),
        ("runs_with_unknown_after", "effects_unknown"),
        ("runs_that_wait_after", "approvals_by_state"),
        ("effect_counts_of_runs", "effects_by_run"),
        ("waiting_of_runs", "one_open_approval_per_question"),
        ("effects_of_run", "effects_by_run"),
        ("approvals_of_run", "approvals_by_question"),
        ("standing_grants", "grants_standing"),
        ("grants_after", "grants_of_tenant"),
        ("standing_grants_after", "grants_not_ended"),
    ],
)
def test_a_statement_uses_the_index_that_was_made_for_it(filled: apsw.Connection, name: str, index: str) -> None:
    steps = [step for step in plan_of(filled, QUERIES[name]) if re.search(r" INDEX \w", step)]

    assert any(re.search(rf" INDEX {index}\b", step) for step in steps), steps


@pytest.mark.parametrize("name", ["effect", "change_effect", "is_voided", "run", "has_step", "approval", "denials"])
def test_what_every_call_asks_is_found_by_its_whole_key(filled: apsw.Connection, name: str) -> None:
    (step,) = plan_of(filled, QUERIES[name])

    keys = {"effect": 2, "change_effect": 2, "is_voided": 1, "run": 2, "has_step": 4, "approval": 2, "denials": 3}
    assert step.startswith("SEARCH") and step.count("=?") == keys[name], step


def test_the_next_kind_is_found_without_walking_through_the_one_before(filled: apsw.Connection) -> None:
    """A comparison of pairs uses the index for its first part alone: a ledger of five million took a second a round."""
    steps = [step for step in plan_of(filled, QUERIES["next_finished_kind"]) if "effects" in step]

    assert len(steps) == 2, steps
    assert "effects_finished (tenant=? AND tool>?)" in steps[0] and "effects_finished (tenant>?)" in steps[1]


def test_every_exception_is_a_statement_that_there_is() -> None:
    assert set(MAY_SCAN) | set(MAY_SORT) <= set(QUERIES)
    assert all(MAY_SCAN.values()) and all(MAY_SORT.values())


def test_the_plans_of_the_schema_before_would_have_been_found(filled: apsw.Connection, tmp_path: Path) -> None:
    """The index that no statement used: with it alone, a heartbeat reads the ledger from end to end."""
    filled.execute("SAVEPOINT before")
    try:
        filled.execute("DROP INDEX effects_dispatched")
        filled.execute(
            "CREATE INDEX effects_by_state ON effects (state, updated_at) WHERE state IN ('dispatched', 'unknown')"
        )
        assert scans(plan_of(filled, QUERIES["renew_leases"])) == ["SCAN effects"]
    finally:
        filled.execute("ROLLBACK TO before")
        filled.execute("RELEASE before")
