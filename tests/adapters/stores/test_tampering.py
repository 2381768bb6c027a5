"""Somebody with write access to the database, and without the key: every hand leaves a mark or gains nothing.

Each test plays the attacker with a plain SQLite connection that first takes the triggers away.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.adapters.stores.chain import ChainLinker
from placet.bootstrap.records import verify_audit
from placet.bootstrap.stores import open_existing_store
from placet.engine.gate import Gate
from placet.errors import DecisionRefused, StoreCorrupt
from placet.model.effect import BrokenEffect, EffectState
from placet.model.outcome import AwaitingApproval, Outcome, Refused, Replayed, Succeeded
from placet.rules.chain_check import verify_chains
from tests.at_once import at_once, each_at_once
from tests.kill_points.actors import AGENT, PERSON, Place, approve, open_gate, proposal

pytestmark = pytest.mark.case("N03")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


def tamper(place: Place, *statements: str) -> None:
    database = apsw.Connection(str(place.store))
    for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute("DROP INDEX one_open_approval_per_question")
    database.pragma("ignore_check_constraints", 1)
    for statement in statements:
        before = database.total_changes()
        database.execute(statement)
        assert database.total_changes() > before or statement.startswith("DROP"), statement
    database.close()


async def ask(gate: Gate, tool: str = "refund", **changes: Any) -> Outcome:
    return await gate.submit(proposal(tool, **changes), principal=AGENT, run="run-1")


# ---------------------------------------------------------------- audit


@pytest.fixture
async def audited(place: Place) -> Place:
    """Three writers, one after the other, with several events each."""
    for n in range(3):
        async with open_gate(place) as gate:
            for k in range(2):
                assert type(await ask(gate, "pay", order=f"o-{n}-{k}", call_id=f"call-{n}-{k}")) is Succeeded
            writer = gate.store.writer
        database = apsw.Connection(str(place.store))
        for table in ("audit_events", "audit_heads"):  # short names for the statements below
            database.execute(f"UPDATE {table} SET seal = {n} WHERE writer = ?", (writer,))
        database.close()
    assert problems(place) == []
    return place


def problems(place: Place, anchors: dict[str, tuple[int, str]] | None = None) -> list[str]:
    keys, store = open_existing_store(place.store)
    try:
        return [found.problem for found in at_once(verify_audit(store, keys, anchors=anchors)).breaks]
    except StoreCorrupt:
        return ["unreadable"]
    finally:
        store._writer.close()  # type: ignore[attr-defined]
        store._reader.close()  # type: ignore[attr-defined]


ROW = "UPDATE audit_events SET {} WHERE seal = 1 AND sequence = 2"
HEAD = "UPDATE audit_heads SET {} WHERE seal = 1"
UNREADABLE = 'CAST(CAST(\'{"at":"","tenant":"\' AS BLOB) || x\'ff227d\' AS TEXT)'
LAST = "seal = 1 AND sequence = (SELECT max(sequence) FROM audit_events WHERE seal = 1)"
AUDIT_TAMPERINGS = {
    "a body edited": [ROW.format("body = json_set(body, '$.subject', 'mallory')")],
    "a body edited by one byte": [ROW.format("body = body || ' '")],
    "a body made unreadable": [
        "DROP INDEX audit_events_by_tenant",
        ROW.format('body = CAST(CAST(\'{"at":"","tenant":"\' AS BLOB) || x\'ff227d\' AS TEXT)'),
    ],
    "a link edited": [ROW.format("link = replace(link, substr(link, 1, 1), 'x')")],
    "a key id edited": [ROW.format("key_id = 'k-0'")],
    "a middle row deleted": ["DELETE FROM audit_events WHERE seal = 1 AND sequence = 2"],
    "the first row deleted": ["DELETE FROM audit_events WHERE seal = 1 AND sequence = 1"],
    "the last row deleted": [f"DELETE FROM audit_events WHERE {LAST}"],
    "the last rows deleted": ["DELETE FROM audit_events WHERE seal = 1 AND sequence > 1"],
    "the last writer's last row deleted": [
        "DELETE FROM audit_events WHERE seal = 2 AND sequence = (SELECT max(sequence) FROM audit_events WHERE seal = 2)"
    ],
    "the last row deleted and the head moved back": [
        f"DELETE FROM audit_events WHERE {LAST}",
        "UPDATE audit_heads SET sequence = sequence - 1, link = (SELECT link FROM audit_events AS e"
        " WHERE e.writer = audit_heads.writer AND e.sequence = audit_heads.sequence - 1) WHERE seal = 1",
    ],
    "two rows swapped": [
        "UPDATE audit_events SET sequence = -sequence + 1000 WHERE seal = 1 AND sequence IN (2, 3)",
        "UPDATE audit_events SET sequence = CASE sequence WHEN 998 THEN 3 ELSE 2 END WHERE sequence > 900",
    ],
    "two bodies swapped": [
        "UPDATE audit_events AS e SET body = (SELECT body FROM audit_events AS o"
        " WHERE o.writer = e.writer AND o.sequence = 5 - e.sequence) WHERE seal = 1 AND sequence IN (2, 3)"
    ],
    "a row of another writer put in": [
        "UPDATE audit_events AS e SET body = o.body, link = o.link FROM audit_events AS o"
        " WHERE o.seal = 0 AND o.sequence = 2 AND e.seal = 1 AND e.sequence = 2"
    ],
    "a row appended": [
        "INSERT INTO audit_events (writer, sequence, body, link, key_id)"
        f" SELECT writer, sequence + 1, body, link, key_id FROM audit_events WHERE {LAST}"
    ],
    "a row appended and the head moved on": [
        "INSERT INTO audit_events (writer, sequence, body, link, key_id)"
        f" SELECT writer, sequence + 1, body, link, key_id FROM audit_events WHERE {LAST}",
        HEAD.format("sequence = sequence + 1"),
    ],
    "a head's sequence edited": [HEAD.format("sequence = sequence - 1")],
    "a head's link edited": [HEAD.format("link = '0'")],
    "a head's memory edited": [HEAD.format("opened_after = '{}'")],
    "a head's memory made unreadable": [HEAD.format("opened_after = 'x'")],
    "a head's key id edited": [HEAD.format("key_id = 'k-0'")],
    "a head's MAC edited": [HEAD.format("mac = '0'")],
    "a head deleted": ["DELETE FROM audit_heads WHERE seal = 1"],
    "two heads swapped": [
        "UPDATE audit_heads AS h SET link = o.link, mac = o.mac FROM audit_heads AS o WHERE o.seal = 0 AND h.seal = 1"
    ],
    "a whole writer deleted": [
        "DELETE FROM audit_events WHERE seal = 1",
        "DELETE FROM audit_heads WHERE seal = 1",
    ],
    "the first writer deleted": [
        "DELETE FROM audit_events WHERE seal = 0",
        "DELETE FROM audit_heads WHERE seal = 0",
    ],
    "a writer renamed": [
        "UPDATE audit_events SET writer = 'w-0' WHERE seal = 1",
        "UPDATE audit_heads SET writer = 'w-0' WHERE seal = 1",
    ],
}


@pytest.mark.parametrize("statements", AUDIT_TAMPERINGS.values(), ids=AUDIT_TAMPERINGS)
async def test_audit_history_shows(audited: Place, statements: list[str]) -> None:
    tamper(audited, *statements)

    assert problems(audited) != []


@pytest.mark.parametrize("gone", ["seal = 2", "1"], ids=["the last writer deleted", "everything deleted"])
async def test_what_no_later_writer_remembers_shows_against_an_anchor_kept_outside(audited: Place, gone: str) -> None:
    _, store = open_existing_store(audited.store)
    anchors = {head.writer: (head.sequence, head.link) for head in await store.heads()}
    await store.close()

    tamper(audited, f"DELETE FROM audit_events WHERE {gone}", f"DELETE FROM audit_heads WHERE {gone}")

    assert problems(audited) == []  # nobody inside the database can tell: said so in the README
    assert "history_missing" in problems(audited, anchors)


async def test_an_older_anchor_is_still_good(audited: Place) -> None:
    _, store = open_existing_store(audited.store)
    anchors = {event.writer: (event.sequence, event.link) async for event in store.chained() if event.sequence == 2}
    await store.close()

    assert problems(audited, anchors) == []
    assert problems(audited, {writer: (2, "0" * 64) for writer in anchors}) == ["history_missing"] * 3


@pytest.mark.case("O01")
async def test_what_others_write_while_the_audit_is_read_is_no_tampering(place: Place) -> None:
    """Heads and events are read one after the other; between the two a chain grows, and another begins."""
    async with open_gate(place) as gate, open_gate(place) as another:
        await ask(gate, "pay")
        keys, store = open_existing_store(place.store)
        heads = await store.heads()
        await ask(gate, "pay", order="o-2", call_id="call-2")
        await ask(another, "pay", order="o-3", call_id="call-3")

        events = [event async for event in store.chained()]
        later = await store.heads()
        report = verify_chains(events, heads, ChainLinker(keys), later_heads=lambda: later)
        await store.close()

    assert (report.breaks, report.writers, report.events) == ((), 2, 6)


# ---------------------------------------------------------------- approvals


def copied(column: str) -> str:
    return f"{column} = (SELECT {column} FROM approvals AS o WHERE json_extract(o.question, '$.call_id') = 'call-2')"


MINE = "UPDATE approvals SET {} WHERE json_extract(question, '$.call_id') = 'call-1'"
PENDING_TAMPERINGS = {
    "made approved": [MINE.format("state = 'approved'")],
    "made spent": [MINE.format("state = 'spent'")],
    "made approved with an answer of its own": [
        MINE.format(
            "state = 'approved', signature = printf('%064d', 0), signature_key_id = question_key_id, answer ="
            " json_object('decision', 'approve', 'decided_by', 'mara', 'decided_at', '2026-01-01T00:00:00+00:00',"
            " 'expires_at', '2096-01-01T00:00:00+00:00', 'digest_seen', argument_digest, 'reason', '')"
        )
    ],
    "made approved with the answer to another question": [
        MINE.format(f"state = 'approved', {copied('answer')}, {copied('signature')}, {copied('signature_key_id')}")
    ],
    "arguments of another": [MINE.format(copied("sealed_arguments"))],
    "question of another": [MINE.format(f"{copied('question')}, {copied('question_mac')}")],
    "contract edited": [MINE.format("question = json_set(question, '$.contract_digest', printf('%064d', 0))")],
}
APPROVED_TAMPERINGS = {
    "expiry edited": [MINE.format("answer = json_set(answer, '$.expires_at', '2096-01-01T00:00:00.000000+00:00')")],
    "decider edited": [MINE.format("answer = json_set(answer, '$.decided_by', 'agent-1')")],
    "reason edited": [MINE.format("answer = json_set(answer, '$.reason', 'sure')")],
    "seen digest edited": [MINE.format("answer = json_set(answer, '$.digest_seen', printf('%064d', 0))")],
    "decision instant edited": [
        MINE.format("answer = json_set(answer, '$.decided_at', '2025-01-01T00:00:00.000000+00:00')")
    ],
    "signature of another": [MINE.format(copied("signature"))],
    "answer and signature of another": [MINE.format(f"{copied('answer')}, {copied('signature')}")],
    "signature removed": [MINE.format("signature = NULL")],
    "signature's key edited": [MINE.format("signature_key_id = 'k-0'")],
    "answer removed": [MINE.format("answer = NULL")],
    "arguments of another": [MINE.format(copied("sealed_arguments"))],
    "arguments edited": [MINE.format("sealed_arguments = x'01'")],
    "question's MAC of another": [MINE.format(copied("question_mac"))],
    "question's MAC's key edited": [MINE.format("question_key_id = 'k-0'")],
}


async def the_two(gate: Gate) -> tuple[str, str]:
    """Two questions, of 5 and of 6; the second one approved."""
    first = await ask(gate)
    second = await ask(gate, call_id="call-2", amount=6)
    assert type(first) is AwaitingApproval and type(second) is AwaitingApproval
    await approve(gate, second.approval_id)
    return first.approval_id, second.approval_id


def told(gate: Gate, kind: str) -> int:
    return sum(json.loads(event.body)["kind"] == kind for event in each_at_once(gate.store.chained()))


def assert_alarmed(gate: Gate, outcome: Outcome, place: Place) -> None:
    assert type(outcome) is Refused and outcome.code == "approval_suspect", outcome
    assert told(gate, "approval_suspect") >= 1
    assert place.remote.effects() == {}


@pytest.mark.parametrize("statements", PENDING_TAMPERINGS.values(), ids=PENDING_TAMPERINGS)
async def test_a_pending_question_gives_no_leave_and_raises_an_alarm(place: Place, statements: list[str]) -> None:
    async with open_gate(place) as gate:
        first, _ = await the_two(gate)
        tamper(place, *statements)

        outcome = await ask(gate)

        if "made spent" in statements[0] or "'spent'" in statements[0]:  # it is simply gone: asked anew
            assert type(outcome) is AwaitingApproval and outcome.approval_id != first
            assert place.remote.effects() == {}
        else:
            assert_alarmed(gate, outcome, place)


@pytest.mark.parametrize("statements", APPROVED_TAMPERINGS.values(), ids=APPROVED_TAMPERINGS)
async def test_an_altered_approval_gives_no_leave_and_raises_an_alarm(place: Place, statements: list[str]) -> None:
    async with open_gate(place) as gate:
        first, _ = await the_two(gate)
        await approve(gate, first)
        tamper(place, *statements)

        outcome = await ask(gate)

        assert_alarmed(gate, outcome, place)


async def question_of(place: Place, approval_id: str) -> dict[str, Any]:
    database = apsw.Connection(str(place.store))
    [(text,)] = database.execute("SELECT question FROM approvals WHERE approval_id = ?", (approval_id,)).fetchall()
    database.close()
    question: dict[str, Any] = json.loads(text)
    return question


STRANGE_VALUES = ["x", "", 7, 2**70, -1, 1.5, True, None, [], {}, ["x"], "2026-01-01T00:00:00", "\u0000", "NaN"]


@pytest.mark.timeout(110)
async def test_whatever_stands_in_a_stored_question_or_answer_nothing_runs_and_nothing_breaks(place: Place) -> None:
    """Every field, replaced by every strange value: a refusal and an alarm, never an act or an exception."""
    async with open_gate(place) as gate:
        first, _ = await the_two(gate)
        await approve(gate, first)
        database = apsw.Connection(str(place.store))
        [row] = database.execute("SELECT question, answer FROM approvals WHERE approval_id = ?", (first,)).fetchall()
        for index, column in enumerate(("question", "answer")):
            sound = json.loads(row[index])
            for name in sound:
                for value in STRANGE_VALUES:
                    if type(value) is type(sound[name]) and value == sound[name]:
                        continue
                    database.execute(
                        f"UPDATE approvals SET {column} = ? WHERE approval_id = ?",
                        (json.dumps({**sound, name: value}), first),
                    )
                    outcome = await ask(gate)
                    assert type(outcome) is Refused, (column, name, value)
                    assert outcome.code == "approval_suspect", (column, name, value)
                with pytest.raises(DecisionRefused):
                    await gate.desk.show(first, by=PERSON)
                assert len(await gate.desk.listed(by=PERSON)) == 1
            database.execute(f"UPDATE approvals SET {column} = ? WHERE approval_id = ?", (row[index], first))
        database.close()
        assert place.remote.effects() == {}
        assert type(await ask(gate)) is Succeeded


@pytest.mark.parametrize("state", ["pending", "approved"])
async def test_a_row_moved_to_another_wish_gives_no_leave_and_raises_an_alarm(place: Place, state: str) -> None:
    async with open_gate(place) as gate:
        first = await ask(gate)
        other = await ask(gate, call_id="call-2", amount=6)
        assert type(first) is AwaitingApproval and type(other) is AwaitingApproval
        if state == "approved":
            await approve(gate, other.approval_id)
        tamper(
            place,
            "DELETE FROM approvals WHERE json_extract(question, '$.call_id') = 'call-1'",
            f"UPDATE approvals SET argument_digest = '{(await digest_of(gate, place))}', operation_key ="
            " replace(operation_key, 'call-2', 'call-1')",
        )

        assert_alarmed(gate, await ask(gate), place)


async def digest_of(gate: Gate, place: Place) -> str:
    """The argument digest of the first wish."""
    database = apsw.Connection(str(place.store))
    [(digest,)] = database.execute(
        "SELECT argument_digest FROM approvals WHERE json_extract(question, '$.call_id') = 'call-1'"
    ).fetchall()
    database.close()
    return str(digest)


async def test_an_approval_copied_to_another_tenant_gives_no_leave_there(place: Place) -> None:
    from tests.kill_points.actors import ELSEWHERE

    async with open_gate(place) as gate:
        first = await ask(gate)
        assert type(first) is AwaitingApproval
        await approve(gate, first.approval_id)
        columns = [row[1] for row in apsw.Connection(str(place.store)).execute("PRAGMA table_info(approvals)")]
        values = ", ".join("'other'" if name == "tenant" else name for name in columns)
        tamper(place, f"INSERT INTO approvals SELECT {values} FROM approvals")

        outcome = await gate.submit(proposal("refund"), principal=ELSEWHERE, run="run-1")

        assert type(outcome) is Refused and outcome.code == "approval_suspect"
        assert place.remote.effects() == {}


@pytest.mark.parametrize("state", ["approved", "pending", "spent"])
async def test_a_denial_turned_into_something_else_gives_no_leave_and_raises_an_alarm(place: Place, state: str) -> None:
    async with open_gate(place) as gate:
        first = await ask(gate)
        assert type(first) is AwaitingApproval
        view = await gate.desk.show(first.approval_id, by=PERSON)
        await gate.desk.deny(first.approval_id, digest=view.digest, by=PERSON)
        tamper(place, f"UPDATE approvals SET state = '{state}'")

        if state == "spent":
            with pytest.raises(DecisionRefused):
                await gate.desk.show(first.approval_id, by=PERSON)
            assert told(gate, "approval_suspect") == 1
        else:
            assert_alarmed(gate, await ask(gate), place)


async def test_an_approval_made_unspent_is_not_spent_again(place: Place) -> None:
    async with open_gate(place) as gate:
        first = await ask(gate)
        assert type(first) is AwaitingApproval
        await approve(gate, first.approval_id)
        assert type(await ask(gate)) is Succeeded
        tamper(place, "UPDATE approvals SET state = 'approved', spent_at = NULL")

        again = await ask(gate)
        tamper_again = apsw.Connection(str(place.store))
        tamper_again.execute("UPDATE effects SET state = 'failed'")
        tamper_again.close()
        after_failure = await ask(gate)

    assert type(again) is Replayed
    assert type(after_failure) is AwaitingApproval and after_failure.approval_id != first.approval_id
    assert sum(place.remote.effects().values()) == 1


# ---------------------------------------------------------------- effects


async def two_payments(gate: Gate) -> None:
    for n in (1, 2):
        assert type(await ask(gate, "pay", order=f"o-{n}", call_id=f"call-{n}", amount=n)) is Succeeded


RESULT_TAMPERINGS = {
    "replaced": "sealed_result = x'00'",
    "emptied": "sealed_result = x''",
    "one byte changed": "sealed_result = CAST(substr(sealed_result, 1, length(sealed_result) - 1) || x'00' AS BLOB)",
    "moved": "sealed_result = (SELECT sealed_result FROM effects AS o WHERE o.call_id = 'call-2'),"
    " result_digest = (SELECT result_digest FROM effects AS o WHERE o.call_id = 'call-2')",
    "digest of another": "result_digest = (SELECT result_digest FROM effects AS o WHERE o.call_id = 'call-2')",
    "removed": "sealed_result = NULL",
}


@pytest.mark.parametrize("change", RESULT_TAMPERINGS.values(), ids=RESULT_TAMPERINGS)
async def test_an_altered_result_is_not_shown_and_nothing_runs_again(place: Place, change: str) -> None:
    async with open_gate(place) as gate:
        await two_payments(gate)
        tamper(place, f"UPDATE effects SET {change} WHERE call_id = 'call-1'")

        outcome = await ask(gate, "pay", order="o-1", call_id="call-3", amount=1)

        assert type(outcome) is Replayed
        assert (outcome.result, outcome.result_unavailable) == (None, "record_altered")
        assert told(gate, "record_altered") == 1
        sound = await ask(gate, "pay", order="o-2", call_id="call-4", amount=2)
        assert type(sound) is Replayed and sound.result_unavailable is None
        assert told(gate, "record_altered") == 1
        assert (await gate.verify_audit()).holds
    assert set(place.remote.effects().values()) == {1}


NONSENSE = [
    "updated_at = 9000000000000000000",
    "lease_until = -9000000000000000000",
    "state = 'done'",
    "subject = CAST(x'ff' AS TEXT)",
    "reason = CAST(x'ff' AS TEXT)",
]


@pytest.mark.parametrize("change", NONSENSE)
async def test_a_row_that_cannot_be_read_is_refused_with_a_code(place: Place, change: str) -> None:
    async with open_gate(place) as gate:
        await two_payments(gate)
        tamper(place, f"UPDATE effects SET {change} WHERE call_id = 'call-1'")

        outcome = await ask(gate, "pay", order="o-1", call_id="call-3", amount=1)

        assert type(outcome) is Refused
        assert (outcome.code, outcome.reasons) in [
            ("boundary_unavailable", ("store_corrupt",)),
            ("boundary_unavailable", ("store_unavailable",)),
            ("operation_of_another", ()),
        ]
        for tenant in (None, "acme"):
            for states in (tuple(EffectState), (EffectState.COMMITTED,)):
                listed = await gate.store.effects(tenant=tenant, states=states, limit=9)
                broken = [each.operation_key for each in listed if isinstance(each, BrokenEffect)]
                assert (len(listed), len(broken)) == (2, 1)
                assert "o-1" in broken[0]
    assert set(place.remote.effects().values()) == {1}


async def test_arguments_of_another_effect_tell_the_probe_nothing(place: Place) -> None:
    async with open_gate(place) as gate:
        await two_payments(gate)
        tamper(
            place,
            "UPDATE effects SET state = 'unknown', sealed_arguments ="
            " (SELECT sealed_arguments FROM effects AS o WHERE o.call_id = 'call-2') WHERE call_id = 'call-1'",
        )

        report = await gate.reconciler.recover()

        assert (report.committed, report.absent, report.still_unknown) == (0, 0, 1)
