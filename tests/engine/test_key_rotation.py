"""Keys change while everything goes on: what was asked, approved, done and recorded before stays what it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

import placet
from placet.adapters.keys import KeyFile, load_key_file
from placet.bootstrap.opening import Opening
from placet.bootstrap.records import open_custody
from placet.engine.custody import Custody, Loss
from placet.engine.gate import Gate
from placet.errors import DecisionRefused, KeyMaterialError, NotFound
from placet.model.audit import EventKind
from placet.ports.keys import KeyPurpose
from placet.rules.summaries import fingerprint_text
from tests.unguarded import unguarded

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("pay",))
MARA = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile"))


class Place:
    """One store with its key, and a tool that counts what it did."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "placet.db"
        self.key = folder / "placet.db.key"
        self.acted: list[str] = []

        async def pay(order: str) -> str:
            self.acted.append(order)
            return f"paid {order}"

        async def vague(order: str) -> str:
            self.acted.append(order)
            raise RuntimeError("no answer")

        async def probe(context: placet.ProbeContext) -> placet.Found:
            return placet.Found(result="found")

        write = {"effect": "write", "risk": "medium", "permission": "pay"}
        self.tools = [
            placet.tool(**write, name="pay", operation_key="pay:{order}")(pay),
            placet.tool(**write, name="ask", operation_key="ask:{order}", approval="always")(pay),
            placet.tool(**write, name="vague", operation_key="vague:{order}", probe=probe)(vague),
        ]

    def open(self) -> Opening:
        return placet.open(tools=self.tools, store=self.store, recovery="manual")

    @asynccontextmanager
    async def custody(self) -> AsyncIterator[Custody]:
        custody, store = open_custody(self.store)
        try:
            yield custody
        finally:
            await store.close()

    async def rotate(self) -> tuple[str, str]:
        async with self.custody() as custody:
            done = await custody.rotate(by="mara")
            return done.previous, done.current

    async def retire(self, key_id: str, *losing: Loss) -> None:
        async with self.custody() as custody:
            await custody.retire(key_id, by="mara", losing=losing)

    def change(self, statement: str) -> None:
        connection = unguarded(apsw.Connection(str(self.store)))
        connection.execute(statement)
        connection.close()

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        connection = apsw.Connection(str(self.store))
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def submit(gate: Gate, tool: str, order: str = "A7", call_id: str = "c1") -> placet.Outcome:
    call = {"call_id": call_id, "tool": tool, "arguments": {"order": order}}
    return await gate.submit(call, principal=AGENT, run="r1")


async def approve(gate: Gate, approval_id: str) -> None:
    seen = await gate.desk.show(approval_id, by=MARA)
    await gate.desk.approve(approval_id, digest=seen.digest, by=MARA)


def asked(outcome: placet.Outcome) -> str:
    assert isinstance(outcome, placet.AwaitingApproval), outcome
    return outcome.approval_id


@pytest.mark.case("E16")
@pytest.mark.req("B137")
async def test_a_pending_and_an_approved_call_survive_a_rotation(place: Place) -> None:
    async with place.open() as gate:
        await approve(gate, asked(await submit(gate, "ask", "approved")))
        pending = asked(await submit(gate, "ask", "pending", "c2"))

    await place.rotate()

    async with place.open() as gate:
        assert (await submit(gate, "ask", "approved")).code == "succeeded"
        assert asked(await submit(gate, "ask", "pending", "c2")) == pending
        await approve(gate, pending)
        await place.rotate()
        assert (await submit(gate, "ask", "pending", "c2")).code == "succeeded"
        assert (await gate.verify_audit()).holds
    assert place.acted == ["approved", "pending"]


@pytest.mark.case("E16")
async def test_approvals_of_a_retired_key_are_void_and_asked_anew(place: Place) -> None:
    async with place.open() as gate:
        await approve(gate, asked(first := await submit(gate, "ask", "approved")))
        waiting = asked(await submit(gate, "ask", "pending", "c2"))
        denied = asked(await submit(gate, "ask", "denied", "c3"))
        digest = (await gate.desk.show(denied, by=MARA)).digest
        await gate.desk.deny(denied, digest=digest, by=MARA, reason="no")

    old, _ = await place.rotate()
    await place.retire(old, Loss.APPROVALS)

    async with place.open() as gate:
        with pytest.raises(DecisionRefused) as caught:
            await approve(gate, waiting)
        assert caught.value.code == "key_retired"
        again = asked(await submit(gate, "ask", "approved"))
        assert again != asked(first)
        assert asked(await submit(gate, "ask", "pending", "c2")) != waiting
        assert asked(await submit(gate, "ask", "denied", "c3")) != denied
        assert place.acted == []
        await approve(gate, again)
        assert (await submit(gate, "ask", "approved")).code == "succeeded"
        told = [kind_and_detail(event.body) async for event in gate.store.chained()]
        assert EventKind.APPROVAL_SUSPECT.value not in {kind for kind, _ in told}, "a retired key is no alarm"
        assert told.count((EventKind.APPROVAL_WITHDRAWN.value, "key_retired")) == 2
        assert (await gate.verify_audit()).holds


def kind_and_detail(body: bytes) -> tuple[str, str | None]:
    data = json.loads(body)
    return data["kind"], data.get("detail")


@pytest.mark.case("E16")
async def test_a_row_that_names_a_retired_key_gains_nothing(place: Place) -> None:
    async with place.open() as gate:
        asked(await submit(gate, "ask", "old"))
    old, _ = await place.rotate()
    await place.retire(old, Loss.APPROVALS)
    async with place.open() as gate:
        approval_id = asked(await submit(gate, "ask", "new", "c2"))
        place.change(f"UPDATE approvals SET question_key_id = '{old}' WHERE approval_id = '{approval_id}'")
        assert asked(await submit(gate, "ask", "new", "c2")) != approval_id
    assert place.acted == []


async def test_an_open_gate_goes_on_through_rotation_and_retirement(place: Place) -> None:
    """It never opened the newer key file by itself: it meets the new key in the store."""
    async with place.open() as gate:
        assert (await submit(gate, "pay", "before")).code == "succeeded"
        approved = asked(await submit(gate, "ask", "approved", "c2"))
        old, new = await place.rotate()
        assert (await submit(gate, "pay", "after", "c3")).code == "succeeded"
        async with place.open() as other:
            await approve(other, approved)
            assert (await submit(other, "pay", "elsewhere", "c4")).code == "succeeded"
        assert (await submit(gate, "ask", "approved", "c2")).code == "succeeded"
        assert (await submit(gate, "pay", "elsewhere", "c5")).code == "replayed"
        await place.retire(old, Loss.RESULTS)
        again = await submit(gate, "pay", "before", "c6")
        assert (again.code, (await gate.verify_audit()).holds) == ("replayed", True)
    assert place.acted == ["before", "after", "elsewhere", "approved"]
    assert new != old


async def test_after_a_rotation_is_on_record_no_event_is_linked_under_an_older_key(place: Place) -> None:
    async with place.open() as gate:
        assert (await submit(gate, "pay", "before")).code == "succeeded"
        _, new = await place.rotate()
        [(rotated,)] = place.rows("SELECT max(rowid) FROM audit_events")
        assert (await submit(gate, "pay", "after", "c2")).code == "succeeded"

    linked = place.rows(f"SELECT DISTINCT key_id FROM audit_events WHERE rowid > {rotated}")
    assert linked == [(new,)]


async def test_the_fingerprints_of_one_event_are_under_the_key_that_it_names(place: Place) -> None:
    """A rotation in the middle of a call must not mix two keys in one pair."""
    rotated: list[tuple[str, str]] = []

    async def pay(order: str) -> str:
        if not rotated:
            rotated.append(await place.rotate())
            for call_id in ("c2", "c3"):  # the commits of the first let the gate meet the new key
                assert (await submit(gate, "pay", call_id, call_id)).code == "succeeded"
        return order

    place.tools = [placet.tool(effect="write", risk="medium", permission="pay", operation_key="pay:{order}")(pay)]
    async with place.open() as gate:
        assert (await submit(gate, "pay", "A7")).code == "succeeded"
    [(old, new)] = rotated
    bodies = [
        json.loads(str(body))
        for (body,) in place.rows(
            "SELECT body FROM audit_events WHERE json_extract(body, '$.tool') = 'pay' ORDER BY sequence"
        )
    ]
    outer = [body for body in bodies if body["call_id"] == "c1"]
    assert [body["key_id"] for body in outer] == [old, old]
    assert [body["key_id"] for body in bodies if body["call_id"] == "c3"] == [new, new]
    assert len({body["operation"] for body in outer}) == 1
    message = b"acme\x00" + fingerprint_text("A7")
    macs = {mac.key_id: mac.value for mac in load_key_file(place.key).macs(KeyPurpose.AUDIT_FINGERPRINT, message)}
    assert len(macs) == 2
    assert outer[1]["result_fingerprint"] == macs[old]


async def test_an_unknown_effect_is_probed_and_settled_after_a_rotation(place: Place) -> None:
    async with place.open() as gate:
        assert (await submit(gate, "vague")).code == "effect_unknown"
    await place.rotate()
    async with place.open() as gate:
        await gate.reconciler.recover()
        assert (await submit(gate, "vague", call_id="c2")).code == "replayed"
    assert place.acted == ["A7"]


# ---------------------------------------------------------------- retiring


async def test_the_current_key_is_never_retired(place: Place) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
    async with place.custody() as custody:
        [only] = await custody.listed()
        with pytest.raises(KeyMaterialError) as caught:
            await custody.retire(only.fact.key_id, by="mara", losing=tuple(Loss))
        assert caught.value.code == "key_in_use"
        for absent in ("k-none", ""):
            with pytest.raises(NotFound):
                await custody.retire(absent, by="mara", losing=tuple(Loss))


@pytest.mark.parametrize(
    ("needed", "loss", "told"),
    [
        ("ask", Loss.APPROVALS, "1 approvals"),
        ("vague", Loss.ARGUMENTS, "1 arguments"),
        ("pay", Loss.RESULTS, "1 results"),
    ],
)
async def test_a_key_that_is_needed_stays_until_the_loss_is_named(
    place: Place, needed: str, loss: Loss, told: str
) -> None:
    async with place.open() as gate:
        await submit(gate, needed)
    old, _ = await place.rotate()
    content = place.key.read_bytes()
    others = [each for each in Loss if each is not loss]

    with pytest.raises(KeyMaterialError) as caught:
        await place.retire(old, *others)

    assert caught.value.code == "key_still_needed"
    assert told in str(caught.value)
    assert place.key.read_bytes() == content
    await place.retire(old, loss)
    assert place.key.read_bytes() != content
    with pytest.raises(NotFound):
        await place.retire(old, loss)


async def test_a_key_that_only_signed_audit_is_retired_at_once_and_the_audit_still_holds(place: Place) -> None:
    async with place.open() as gate:
        assert (await submit(gate, "pay", call_id="x" * 300)).code == "protocol_rejected"
    old, _ = await place.rotate()
    await place.retire(old)
    async with place.open() as gate:
        report = await gate.verify_audit()
    assert (report.holds, report.events) == (True, 4)

    place.change(f"UPDATE audit_events SET body = replace(body, 'acme', 'acne') WHERE key_id = '{old}'")
    async with place.open() as gate:
        assert {each.problem for each in (await gate.verify_audit()).breaks} == {"event_altered"}


async def test_what_was_done_under_a_retired_key_is_never_done_again(place: Place) -> None:
    async with place.open() as gate:
        assert (await submit(gate, "pay")).code == "succeeded"
        assert (await submit(gate, "vague", "B8", "c2")).code == "effect_unknown"
    old, _ = await place.rotate()
    await place.retire(old, *Loss)

    async with place.open() as gate:
        again = await submit(gate, "pay", call_id="c3")
        assert isinstance(again, placet.Replayed)
        assert (again.result, again.result_unavailable) == (None, "key_retired")
        assert (await submit(gate, "vague", "B8", "c4")).code == "effect_unknown"
        await gate.reconciler.recover()
        await submit(gate, "vague", "B8", "c5")
    assert place.acted == ["A7", "B8"]


# ---------------------------------------------------------------- faults


async def _without_its_file_change(place: Place) -> None:
    """The record is there, the old key still is too: a retirement that was interrupted."""
    copy = place.key.read_bytes()
    async with place.custody() as custody:
        old = next(each.fact.key_id for each in await custody.listed() if each.fact.state.value == "old")
    await place.retire(old, *Loss)
    place.key.write_bytes(copy)


async def test_a_retirement_that_was_interrupted_is_repeated(place: Place) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
    old, _ = await place.rotate()
    await _without_its_file_change(place)

    await place.retire(old, *Loss)

    async with place.open() as gate:
        assert (await gate.verify_audit()).holds


async def test_a_rotation_that_was_interrupted_is_put_on_record_by_the_next_one(place: Place) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
    shelf = KeyFile(place.key)
    old = shelf.ring().current
    with shelf.held():
        new = shelf.add_current(at=await gate.store.now())
    async with place.open() as gate:
        assert (await submit(gate, "pay", "between", "c2")).code == "succeeded"

    async with place.custody() as custody:
        done = await custody.rotate(by="mara")
        assert (done.previous, done.current, done.was_finished) == (old, new, True)
        done = await custody.rotate(by="mara")
        assert (done.previous, done.was_finished) == (new, False)
    async with place.open() as gate:
        assert (await gate.verify_audit()).holds


@pytest.mark.parametrize("open_it", [lambda place: open_custody(place.store), lambda place: place.open()])
async def test_an_older_copy_of_the_key_file_keeps_the_store_closed(
    place: Place, tmp_path: Path, open_it: Callable[[Place], object]
) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
    shutil.copy2(place.key, tmp_path / "copy")
    await place.rotate()
    newest = place.key.read_bytes()
    shutil.copy2(tmp_path / "copy", place.key)

    with pytest.raises(KeyMaterialError) as caught:
        opened = open_it(place)
        async with opened:  # type: ignore[attr-defined]
            pass
    assert caught.value.code == "key_mismatch"

    place.key.write_bytes(newest)
    async with place.open() as gate:
        assert (await submit(gate, "pay", call_id="c2")).code == "replayed"


async def test_an_event_under_a_key_that_is_not_there_is_told_apart_from_an_altered_one(place: Place) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
    place.change("UPDATE audit_events SET key_id = 'k-gone' WHERE sequence = 1")
    place.change("UPDATE audit_heads SET key_id = 'k-gone'")
    async with place.open() as gate:
        report = await gate.verify_audit()
        assert not report.holds
        assert {each.problem for each in report.breaks} == {"key_unknown"}
    async with place.custody() as custody:
        assert [(each.fact.key_id, each.fact.state.value) for each in await custody.listed()][1:] == [
            ("k-gone", "unknown")
        ]


async def test_the_store_is_counted_per_key(place: Place) -> None:
    async with place.open() as gate:
        await submit(gate, "pay")
        await submit(gate, "ask", call_id="c2")
        await submit(gate, "vague", call_id="c3")
    old, new = await place.rotate()
    async with place.open() as gate:
        await submit(gate, "pay", "B8", "c4")
    async with place.custody() as custody:
        counts = {
            each.fact.key_id: (each.use.approvals, each.use.arguments, each.use.results, each.use.events)
            for each in await custody.listed()
        }
    assert counts == {old: (1, 1, 1, 7), new: (0, 0, 1, 3)}
    place.change("UPDATE effects SET sealed_result = X'01FF' WHERE tool = 'pay'")
    async with place.custody() as custody:
        assert sum(each.use.results for each in await custody.listed()) == 2, (
            "a broken seal is counted and stops nothing"
        )
