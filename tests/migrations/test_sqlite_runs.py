"""What the schema holds runs to by itself, whoever writes: no status that may not follow, and no step once over."""

from __future__ import annotations

from itertools import product

import apsw
import pytest

from placet.adapters.stores.sqlite.statements import migrations
from placet.model.run import RunStatus

FOLLOWS = {
    RunStatus.OPEN: {RunStatus.PAUSED, RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED},
    RunStatus.PAUSED: {RunStatus.OPEN, RunStatus.CANCELLED},
}


@pytest.fixture
def database() -> apsw.Connection:
    database = apsw.Connection(":memory:")
    for _, text in migrations():
        database.execute(text)
    return database


def begin(database: apsw.Connection, status: RunStatus) -> None:
    row = ("acme", "run-1", "agent", "policy-1", 9, 1, 0, status.value)
    names = "tenant, run_id, subject, policy_version, max_steps, steps, opened_at, status"
    database.execute(f"INSERT INTO runs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def accepts(database: apsw.Connection, statement: str, *bindings: object) -> bool:
    try:
        database.execute(statement, bindings)
    except apsw.ConstraintError:
        return False
    return True


@pytest.mark.req("H047")
@pytest.mark.parametrize(("before", "after"), list(product(RunStatus, RunStatus)))
def test_the_database_accepts_the_statuses_that_may_follow_and_no_others(
    database: apsw.Connection, before: RunStatus, after: RunStatus
) -> None:
    begin(database, before)

    accepted = accepts(database, "UPDATE runs SET status = ?", after.value)

    assert accepted == (before is after or after in FOLLOWS.get(before, set()))


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_run_that_is_paused_or_over_counts_no_step(database: apsw.Connection, status: RunStatus) -> None:
    begin(database, status)

    assert accepts(database, "UPDATE runs SET steps = steps + 1") == (status is RunStatus.OPEN)
    assert accepts(database, "UPDATE runs SET max_steps = 10")


def test_a_checkpoint_does_not_go_back(database: apsw.Connection) -> None:
    row = ("acme", "run-1", "order", "1", "PAY", 1, b"", 3, None, None, 2, None, None, "[]", "policy-1", 0)
    database.execute(f"INSERT INTO run_checkpoints VALUES ({', '.join('?' * len(row))})", row)

    assert not accepts(database, "UPDATE run_checkpoints SET state_version = 2")
    assert not accepts(database, "UPDATE run_checkpoints SET fence = 1")
    assert accepts(database, "UPDATE run_checkpoints SET state_version = 4, fence = 3")
