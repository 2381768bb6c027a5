"""The schema holds the protocol by itself: no hand writes an illegal step, and many starters make it once."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import apsw
import pytest

from placet.adapters.keys import KeyRing
from placet.adapters.stores import rows
from placet.adapters.stores.sqlite import SqliteStore, connection
from placet.adapters.stores.sqlite.statements import migrations
from placet.adapters.stores.sqlite.tables import SQL
from placet.adapters.telemetry.quiet import QuietMeter
from placet.model.approval import Approval, ApprovalState
from placet.model.effect import EffectState
from placet.model.identifiers import WriterId
from placet.model.ledger import Claimed
from placet.ports.store import nobody
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS
from placet.rules.lifecycle import TRANSITIONS
from placet.rules.transitions import apply_claim
from placet.testing.conformance import A_MAC, a_claim, a_question
from placet.testing.fakes import FakeClock

CLOCK = FakeClock()


@pytest.fixture
def database() -> apsw.Connection:
    """The schema alone, in memory."""
    database = apsw.Connection(":memory:")
    for _, text in migrations():
        database.execute(text)
    return database


def insert_effect(
    database: apsw.Connection, state: EffectState | str, key: str = "key-1", *, token: str = "co:token-1"
) -> None:
    """A row in any state, put there by somebody who took the guards away for a moment."""
    answer = apply_claim(None, a_claim(key, token=token), now=CLOCK.now())
    assert isinstance(answer, Claimed)
    guard = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'effects_are_born_legally'").fetchone()[0]
    database.execute("DROP TRIGGER effects_are_born_legally")
    row = list(rows.effect_row(answer.effect))
    row[13] = str(state)
    database.execute(SQL["add_effect"], row)
    database.execute(guard)


def insert_approval(database: apsw.Connection, state: ApprovalState) -> None:
    question = a_question(asked_at=CLOCK.now())
    approval = Approval(question=question, question_mac=A_MAC, state=state, answer=None, signature=None, spent_at=None)
    database.execute(SQL["add_approval"], rows.approval_row(approval))


def accepts(database: apsw.Connection, statement: str, *bindings: object) -> bool:
    try:
        database.execute(statement, bindings)
    except apsw.ConstraintError:
        return False
    assert database.changes() == 1
    return True


@pytest.mark.req("H032", "H033", "H038")
@pytest.mark.parametrize(("before", "after"), list(product(EffectState, EffectState)))
def test_the_database_accepts_the_moves_of_the_table_and_no_others(
    database: apsw.Connection, before: EffectState, after: EffectState
) -> None:
    insert_effect(database, before)
    is_claim = after is EffectState.DISPATCHED and before is not EffectState.DISPATCHED
    fence = 2 if is_claim else 1

    accepted = accepts(database, "UPDATE effects SET state = ?, fence = ?", after.value, fence)

    assert accepted == ((before, after) in TRANSITIONS or before is after)


@pytest.mark.parametrize(("before", "after"), list(product(EffectState, EffectState)))
@pytest.mark.parametrize("step", [-1, 0, 1, 2])
def test_the_database_accepts_a_new_fence_with_a_claim_only(
    database: apsw.Connection, before: EffectState, after: EffectState, step: int
) -> None:
    insert_effect(database, before)

    accepted = accepts(database, "UPDATE effects SET state = ?, fence = fence + ?", after.value, step)

    is_claim = after is EffectState.DISPATCHED and before is not EffectState.DISPATCHED
    is_legal = (before, after) in TRANSITIONS or before is after
    assert accepted == (is_legal and step == (1 if is_claim else 0))


@pytest.mark.parametrize("before", list(EffectState))
@pytest.mark.parametrize("after", list(EffectState))
def test_without_the_mark_of_a_co_commit_a_dispatch_is_never_absent_without_having_been_unknown(
    database: apsw.Connection, before: EffectState, after: EffectState
) -> None:
    insert_effect(database, before, token="token-co:1")
    is_claim = after is EffectState.DISPATCHED and before is not EffectState.DISPATCHED

    accepted = accepts(database, "UPDATE effects SET state = ?, fence = ?", after.value, 2 if is_claim else 1)

    is_co_commit = (before, after) == (EffectState.DISPATCHED, EffectState.RECONCILED_ABSENT)
    assert accepted == (((before, after) in TRANSITIONS or before is after) and not is_co_commit)


def test_an_effect_is_born_prepared_or_dispatched(database: apsw.Connection) -> None:
    answer = apply_claim(None, a_claim(), now=CLOCK.now())
    row = list(rows.effect_row(answer.effect))

    for state in (*EffectState, "done", ""):
        row[1], row[13] = f"key-{state}", str(state)
        is_birth = (None, state) in TRANSITIONS
        placeholders = ",".join("?" * len(row))
        assert accepts(database, f"INSERT INTO effects VALUES ({placeholders})", *row) == is_birth, state


@pytest.mark.parametrize(("before", "after"), list(product(ApprovalState, ApprovalState)))
def test_the_database_accepts_the_moves_of_an_approval_and_no_others(
    database: apsw.Connection, before: ApprovalState, after: ApprovalState
) -> None:
    insert_approval(database, before)

    accepted = accepts(database, "UPDATE approvals SET state = ?", after.value)

    assert accepted == ((before, after) in APPROVAL_TRANSITIONS or before is after)


def test_a_word_that_is_no_state_is_refused(database: apsw.Connection) -> None:
    insert_effect(database, EffectState.UNKNOWN)
    insert_approval(database, ApprovalState.PENDING)

    assert not accepts(database, "UPDATE effects SET state = 'done'")
    assert not accepts(database, "UPDATE approvals SET state = 'yes'")


@pytest.mark.req("B112")
def test_one_key_of_one_tenant_has_one_row(database: apsw.Connection) -> None:
    insert_effect(database, EffectState.UNKNOWN)

    with pytest.raises(apsw.ConstraintError):
        insert_effect(database, EffectState.DISPATCHED)


@pytest.mark.req("H038")
def test_a_row_of_the_ledger_keeps_what_was_promised(database: apsw.Connection) -> None:
    columns = {row[1] for row in database.execute("PRAGMA table_info(effects)")}

    assert columns >= {
        "tenant", "operation_key", "run_id", "call_id", "tool", "tool_version", "fingerprint", "argument_digest",
        "policy_version", "decision", "approval_id", "state", "attempts", "owner", "lease_until", "result_digest",
        "sealed_result", "external_reference", "created_at", "updated_at",
    }  # fmt: skip


# ---------------------------------------------------------------- making it


def test_the_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_new_file_is_at_the_latest_schema_and_marked_as_ours(tmp_path: Path) -> None:
    database = connection.open_file(tmp_path / "placet.db")

    assert database.pragma("user_version") == migrations()[-1][0]
    assert database.pragma("application_id") == connection.APPLICATION_ID
    assert database.pragma("journal_mode") == "wal"
    assert database.pragma("synchronous") == 2


@pytest.mark.case("O05")
def test_a_starter_that_was_overtaken_while_it_looked_finds_the_schema_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes the schema between any two questions of ours."""
    path = tmp_path / "placet.db"
    plain, overtaken = connection.connect, []

    class Overtaken:
        def __init__(self, inner: apsw.Connection, after: int) -> None:
            self._inner, self._left = inner, after

        def __getattr__(self, name: str) -> object:
            member = getattr(self._inner, name)
            if name not in ("execute", "pragma") or overtaken:
                return member
            self._left -= 1
            if self._left < 0 and not self._inner.in_transaction:
                overtaken.append(name)
                other = plain(path)
                connection._migrate(other, path)
                other.close()
            return member

    for after in range(12):
        for file in tmp_path.iterdir():
            file.unlink()
        overtaken.clear()
        monkeypatch.setattr(connection, "connect", lambda path, after=after: Overtaken(plain(path), after))
        opened = connection.open_file(path)
        assert opened.pragma("user_version") == migrations()[-1][0]
        opened.close()


def test_a_store_of_the_latest_schema_is_opened_without_a_change(tmp_path: Path) -> None:
    path, keys = tmp_path / "placet.db", KeyRing.ephemeral()

    def schema() -> tuple[object, ...]:
        store = SqliteStore(path, keys=keys, clock=CLOCK, writer=WriterId("w-1"), meter=QuietMeter(), heard=nobody)
        found = tuple(store._reader.execute("SELECT name, sql FROM sqlite_schema ORDER BY name"))
        asyncio.run(store.close())
        return found

    assert schema() == schema()


@pytest.mark.req("B136")
def test_an_audit_event_is_neither_changed_nor_removed_but_where_its_chain_is_cut(database: apsw.Connection) -> None:
    for sequence in (1, 2, 3):
        database.execute(
            "INSERT INTO audit_events (writer, sequence, body, link, key_id) VALUES ('w-1', ?, ?, '0', 'k-1')",
            (sequence, '{"tenant": "acme", "at": "2026"}'),
        )
    for change in ("body = '{}'", "link = '1'", "key_id = 'k-2'", "sequence = 9", "writer = 'w-2'"):
        assert not accepts(database, f"UPDATE audit_events SET {change} WHERE sequence = 1"), change
    assert not accepts(database, "DELETE FROM audit_events WHERE sequence = 1")
    for writer in ("w-2", "w-1"):
        tombstone = "INSERT INTO audit_tombstones VALUES (?, 3, '0', 2, 'kim', '2026', 'k-1', '0')"
        database.execute(tombstone, (writer,))
        is_cut = writer == "w-1"
        assert accepts(database, "DELETE FROM audit_events WHERE sequence = 2") == is_cut, writer
    assert not accepts(database, "DELETE FROM audit_events WHERE sequence = 3"), "it is kept"
    assert accepts(database, "UPDATE audit_events SET seal = 1 WHERE sequence = 3 AND writer = 'w-1'"), (
        "a seal is put on later"
    )


@pytest.mark.req("H020")
def test_a_vote_is_neither_changed_nor_taken_from_its_question(database: apsw.Connection) -> None:
    insert_approval(database, ApprovalState.PENDING)
    add = "INSERT INTO approval_votes VALUES ('acme', 'apr-1', ?, ?, '{}', 'k-1', 's', 1)"
    assert accepts(database, add, "ann", "approve")
    assert accepts(database, add, "ann", "withdraw")
    assert not accepts(database, add, "ann", "approve")
    assert not accepts(database, add, "ben", "abstain")

    assert not accepts(database, "UPDATE approval_votes SET voter = 'ben' WHERE kind = 'approve'")
    assert not accepts(database, "UPDATE approval_votes SET vote = vote WHERE kind = 'approve'")
    assert not accepts(database, "DELETE FROM approval_votes WHERE kind = 'approve'")
    database.execute(SQL["drop_approval"], ("acme", "apr-1"))
    database.execute(SQL["drop_votes"], ("acme", "apr-1"))
    assert database.execute("SELECT count(*) FROM approval_votes").fetchone() == (0,)
