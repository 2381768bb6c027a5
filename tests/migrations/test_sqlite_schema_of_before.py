"""Stores and processes of before: their rows are still good, and what they say is still understood.

`queries_of_schema_1.sql` is the text of the statements as they were when schema 1 was the latest one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores import rows
from placet.adapters.stores.chain import ChainWriter
from placet.adapters.stores.sqlite.statements import migrations, statements
from placet.adapters.stores.sqlite.tables import SqliteTables
from placet.model.approval import Approval, ApprovalDecision, ApprovalState, Mac
from placet.model.identifiers import WriterId
from placet.model.ledger import Claimed, Step
from placet.ports.keys import KeyPurpose
from placet.rules.approvals import question_form, signed_form, state_fits
from placet.rules.transitions import apply_claim
from placet.testing.conformance import A_MAC, a_claim, a_question

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = KeyRing({"k-1": b"1" * 32}, current="k-1")
OF_BEFORE = statements(Path(__file__).with_name("queries_of_schema_1.sql").read_text())


def at_schema(number: int) -> apsw.Connection:
    database = apsw.Connection(":memory:")
    for step, text in migrations():
        if step <= number:
            database.execute(text)
    return database


@pytest.fixture
def database() -> apsw.Connection:
    """Today's schema."""
    return at_schema(len(migrations()))


@pytest.fixture
def tables(database: apsw.Connection) -> SqliteTables:
    """Today's code on it."""
    return SqliteTables(database, ChainWriter(KEYS, WriterId("w-1"), opened_after=b"{}"))


def a_step(call_id: str = "call-1", fingerprint: str = "f" * 64) -> Step:
    return Step(
        tenant="acme", run_id="run-1", call_id=call_id, fingerprint=fingerprint, subject="agent", policy_version="v1",
        max_steps=10, max_denials=10,
    )  # type: ignore[arg-type]  # fmt: skip


def steps(database: apsw.Connection) -> int:
    return int(database.execute("SELECT steps FROM runs").fetchone()[0])


# ---------------------------------------------------------------- old code, new schema


@pytest.mark.parametrize("name", sorted(OF_BEFORE))
def test_every_statement_of_before_is_understood(database: apsw.Connection, name: str) -> None:
    places = re.findall(r"\?(\d*)", OF_BEFORE[name])
    count = max(map(int, places)) if places and places[0] else len(places)
    assert database.execute("EXPLAIN " + OF_BEFORE[name], [None] * count).fetchall()


def a_row_of_each() -> dict[str, tuple[Any, ...]]:
    claimed = apply_claim(None, a_claim(), now=AT)
    assert isinstance(claimed, Claimed)
    question = a_question(asked_at=AT)
    pending = Approval(
        question=question, question_mac=A_MAC, state=ApprovalState.PENDING, answer=None, signature=None, spent_at=None
    )
    return {
        "add_effect": rows.effect_row(claimed.effect),
        "add_approval": rows.approval_row(pending),
        "open_run": ("acme", "run-1", "agent", "v1", 10, 0),
        "add_step": ("acme", "run-1", "call-1"),
        "append_event": ("w-1", 1, '{"tenant": "acme", "at": "2026"}', "0", "k-1"),
        "put_head": ("w-1", 1, "0", "{}", "k-1", "0"),
        "open_read": ("w-1", 1, "owner", 0),
        "add_void": ("token", 0),
        "add_stop": ("all", 0),
        "first_meta": ("other", "value"),
    }


def test_every_row_of_before_is_still_taken(database: apsw.Connection) -> None:
    given = a_row_of_each()
    assert set(given) == {name for name, text in OF_BEFORE.items() if "INSERT INTO" in text}
    for name, row in given.items():
        database.execute(OF_BEFORE[name], row)
        assert database.changes() == 1, name


def test_every_table_of_before_has_its_columns_in_their_places(database: apsw.Connection) -> None:
    before = at_schema(1)
    tables = [row[0] for row in before.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    for table in tables:
        was, now = columns(before, table), columns(database, table)
        assert now[: len(was)] == was, table
        assert all(not column["notnull"] or column["default"] is not None for column in now[len(was) :]), table


def columns(database: apsw.Connection, table: str) -> list[dict[str, Any]]:
    names = ("name", "type", "notnull", "default", "key", "hidden")
    return [dict(zip(names, row[1:], strict=True)) for row in database.execute(f"PRAGMA table_xinfo({table})")]


def test_a_step_is_counted_once_by_processes_of_before_whoever_made_it(
    database: apsw.Connection, tables: SqliteTables
) -> None:
    """As those do it: a step that is not there is added and counted."""

    def submit_before(call_id: str) -> None:
        if database.execute(OF_BEFORE["has_step"], ("acme", "run-1", call_id)).fetchone() is None:
            database.execute(OF_BEFORE["add_step"], ("acme", "run-1", call_id))
            database.execute(OF_BEFORE["count_step"], ("acme", "run-1"))

    tables.add_step(a_step(), opened_at=AT, is_first=True)
    submit_before("call-1")
    assert steps(database) == 1
    submit_before("call-2")
    submit_before("call-2")
    assert steps(database) == 2


def test_a_step_of_before_is_counted_again_at_most_once(database: apsw.Connection, tables: SqliteTables) -> None:
    database.execute(OF_BEFORE["open_run"], ("acme", "run-1", "agent", "v1", 10, 0))
    database.execute(OF_BEFORE["add_step"], ("acme", "run-1", "call-1"))

    assert not tables.has_step(a_step()), "what it was about nobody knows, so it is never free"
    tables.add_step(a_step(), opened_at=AT, is_first=False)

    assert tables.has_step(a_step())
    assert not tables.has_step(a_step(fingerprint="e" * 64)), "the same id for something else is another step"
    tables.add_step(a_step(fingerprint="e" * 64), opened_at=AT, is_first=False)
    assert steps(database) == 3


def test_denials_are_counted(tables: SqliteTables) -> None:
    for expected in range(3):
        assert tables.denials("acme", "run-1", "pay") == expected  # type: ignore[arg-type]
        tables.add_denial("acme", "run-1", "pay")  # type: ignore[arg-type]


# ---------------------------------------------------------------- old rows, new code

APPROVED_OF_BEFORE = (
    "apr-1", "acme", "agent", "r1", "act", "d" * 64, "v1", "k1", "approved",
    '{"asked_at": "2026-01-01T12:00:00.000000+00:00", "call_id": "c1", '
    '"contract_digest": "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc", '
    '"decide_by": "2026-01-02T12:00:00.000000+00:00", "dispatch_number": 0, "environment": "production", '
    '"lifetime_seconds": 300.0, "nonce": "n-1", "on_behalf_of": null, "purpose": "act", "reasons": ["r"], '
    '"request_id": "q1", "requirement": "review", "resource": "w:x", "tool_version": "1"}',
    "k-1", "29f3526272c33722316d176fc4356d5e45bf0f4822cbd5a8bb0bf42a4517a530", b"sealed",
    '{"decided_at": "2026-01-01T12:00:00.000000+00:00", "decided_by": "paula", '
    '"digest_seen": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd", '
    '"expires_at": "2026-01-01T12:05:00.000000+00:00", "reason": "", "verdict": "approve"}',
    "k-1", "0019579ed8fac147a530d3cc32671c1dc2d7a1dc818c9ad54e584305c4a63361", 1767268800000000, None,
)  # fmt: skip
"""Written and signed under the key of this module by the code that made schema 1; newer code never makes it again."""


@pytest.mark.req("B043", "B044")
def test_an_approval_decided_before_still_authorises() -> None:
    approval = rows.approval_from(APPROVED_OF_BEFORE)
    question, answer, signature = approval.question, approval.answer, approval.signature

    assert answer is not None and signature is not None
    assert (answer.decision, answer.decided_by) == (ApprovalDecision.APPROVE, "paula")
    assert KEYS.is_authentic(KeyPurpose.APPROVAL, question_form(question), approval.question_mac)
    assert KEYS.is_authentic(KeyPurpose.APPROVAL, signed_form(question, answer), signature)
    assert state_fits(approval)
    assert rows.approval_row(approval) == APPROVED_OF_BEFORE, "and processes of before read what is written now"


@pytest.mark.case("N03")
@pytest.mark.parametrize("column", [9, 13])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"decision": "approve"}', "{"])
def test_a_row_in_any_other_form_authorises_nothing(column: int, text: str) -> None:
    row = (*APPROVED_OF_BEFORE[:column], text, *APPROVED_OF_BEFORE[column + 1 :])
    approval = rows.approval_from(row)
    assert (approval.answer, approval.question_mac.key_id) == (None, "unreadable")


def test_a_stored_mac_in_any_other_form_is_authentic_for_nothing() -> None:
    for text in ("[" * 100_000, "", "{}", "[1, 2]", '["k-1"]'):
        assert rows.mac_from(text) == Mac(key_id="", value="")
