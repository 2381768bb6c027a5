"""The audit forgets its beginning on purpose, says so under its key, and shows every other cut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import Principal, Retention
from placet.adapters.keys import KeyRing
from placet.bootstrap.opening import around_store
from placet.bootstrap.records import audit_export, chain_linker, check_export, verify_audit
from placet.bootstrap.stores import open_existing_store
from placet.engine.forgetting import PurgeReport
from placet.model.retention import Kept, Purge
from placet.ports.store import Store
from placet.rules.chain_check import ChainReport
from placet.testing import FakeClock
from tests.engine.conftest import OPERATOR, OpenWorld, Spy, World, written
from tests.unguarded import unguarded

pytestmark = pytest.mark.req("B136")

DAY = 86_400.0
YEAR = Retention(audit_seconds=365 * DAY)
KEEPER = Principal.person("kim", tenant="ops", scopes=("ops.purge", "ops.hold"))
GLOBEX = Principal.agent("agent-operator", tenant="globex", roles=("operator",), scopes=("ops.write",))


async def a_year_later(world: World, *, days: float = 366) -> PurgeReport:
    world.clock.advance(days * DAY)
    return await world.gate.purger.purge(YEAR, by=KEEPER)


async def some_writes(world: World, tool: placet.Tool, count: int, *, by: Principal = OPERATOR) -> None:
    for index in range(count):
        name = f"{by.tenant}-{world.clock.now():%Y%m%d}-{index}"
        await world.submit(tool, {"word": "once"}, call_id=name, run=name, principal=by)


def by_hand(store: Path, statement: str, *values: object) -> list[Any]:
    database = unguarded(apsw.Connection(str(store)))
    found = database.execute(statement, values).fetchall()
    database.close()
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "placet.db"


@pytest.fixture
async def cut(store: Path, open_world: OpenWorld, spy: Spy) -> AsyncIterator[World]:
    """A store whose audit has lost its first year, and goes on."""
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 3)
    world.clock.advance(300 * DAY)
    await some_writes(world, tool, 2)
    report = await a_year_later(world, days=100)
    assert report.purged[Kept.EVENTS] == 6
    yield world


async def problems(world: World, **more: Any) -> list[str]:
    return sorted(found.problem for found in (await world.gate.verify_audit(**more)).breaks)


async def altered(store: Path, *statements: str) -> ChainReport:
    """What is found in a copy of the store, in which somebody who can write it did that."""
    copy = store.with_name(f"copy-{len(list(store.parent.iterdir()))}.db")
    by_hand(store, "VACUUM INTO ?", str(copy))
    for statement in statements:
        by_hand(copy, statement)
    keys, opened = open_existing_store(copy, key=Path(f"{store}.key"))
    try:
        return await verify_audit(opened, keys)
    finally:
        await opened.close()


def told(report: ChainReport) -> list[str]:
    return sorted(found.problem for found in report.breaks)


# ---------------------------------------------------------------- a cut that holds


async def test_the_audit_begins_at_a_tombstone_that_says_who_cut_it_and_when(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    await some_writes(world, tool, 3)
    before = [event async for event in world.gate.store.chained()]
    world.clock.advance(300 * DAY)
    await some_writes(world, tool, 2)

    report = await a_year_later(world, days=100)

    assert report.purged[Kept.EVENTS] == 6
    verified = await world.gate.verify_audit()
    assert verified.holds and verified.events == 5
    (tombstone,) = verified.cuts
    assert (tombstone.first_kept, tombstone.removed, tombstone.cut_by) == (7, 6, "kim")
    assert (tombstone.link, tombstone.cut_at) == (before[-1].link, world.clock.now())
    (told,) = world.events("audit_cut")
    assert (told["subject"], told["reasons"]) == ("kim", ["events:6", "first_kept:7"])
    assert [event["kind"] for event in world.events()] == ["started", "completed"] * 2 + ["audit_cut"]


async def test_a_chain_is_cut_again_and_again_and_keeps_its_last_event(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    cuts: list[int] = []
    for _ in range(3):
        await some_writes(world, tool, 1)
        report = await a_year_later(world)
        cuts.append(report.purged[Kept.EVENTS])

    verified = await world.gate.verify_audit()

    assert cuts == [2, 4, 4], "each cut but the last of a round is old itself a year later"
    assert verified.holds
    assert [tombstone.first_kept for tombstone in verified.cuts] == [11]


async def test_many_events_are_cut_in_small_pieces(
    where: str, open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placet.engine.forgetting._EVENTS_AT_ONCE", 4)
    tool = written(spy)
    world = await open_world(tool, store=where)
    await some_writes(world, tool, 5)

    report = await a_year_later(world)

    assert report.purged[Kept.EVENTS] == 10
    told_of = [event["reasons"][0] for event in world.events("audit_cut")]
    assert told_of == ["events:4", "events:4", "events:2"]
    assert (await world.gate.verify_audit()).holds


async def test_what_other_chains_remember_of_what_was_cut_is_not_missing(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    """Each process has a chain, and names in its head where the others stood when it began."""
    tool, clock = written(spy), FakeClock()
    first = await open_world(tool, store=str(store), clock=clock)
    await some_writes(first, tool, 3)
    second = await open_world(tool, store=str(store), clock=clock, seed=1)
    await some_writes(second, tool, 1)
    clock.advance(300 * DAY)
    await some_writes(first, tool, 1)
    clock.advance(100 * DAY)

    report = await second.gate.purger.purge(YEAR, by=KEEPER)

    verified = await first.gate.verify_audit()
    assert verified.holds
    assert report.purged[Kept.EVENTS] == 6 + 2
    assert [tombstone.first_kept for tombstone in verified.cuts] == [7, 3]


async def test_a_tenant_that_is_held_keeps_its_events_and_what_follows_them(
    where: str, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=where)
    for by in (OPERATOR, GLOBEX, OPERATOR):
        await some_writes(world, tool, 1, by=by)
    await world.gate.purger.hold("tenant:globex", by=KEEPER)

    report = await a_year_later(world)

    assert report.purged[Kept.EVENTS] == 2
    tenants = [event["tenant"] for event in world.events("started")]
    assert tenants == ["globex", "acme"]
    assert (await world.gate.verify_audit()).holds


async def test_a_chain_that_nobody_writes_any_more_keeps_its_last_event(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    """Whoever holds its head against it still finds the event it names."""
    tool, clock = written(spy), FakeClock()
    first = await open_world(tool, store=str(store), clock=clock)
    await some_writes(first, tool, 2)
    await first.gate.purger.hold("tenant:nobody", by=KEEPER)
    second = await open_world(tool, store=str(store), clock=clock, seed=1)

    report = await a_year_later(second)

    assert report.purged[Kept.EVENTS] == 4
    assert [event.sequence async for event in second.gate.store.chained()] == [5, 1]
    assert (await second.gate.verify_audit()).holds


# ---------------------------------------------------------------- a host whose clock is behind


class Ahead:
    """A store whose clock is two days before its hosts'; it is asked to forget so often, and no more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rounds_left = 20

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> datetime:
        return await self._store.now() + timedelta(days=2)

    async def purge(self, purge: Purge) -> bool:
        assert self._rounds_left, "it forgets what it says itself, and has no end"
        self._rounds_left -= 1
        return await self._store.purge(purge)


def ahead(store: Store) -> Store:
    wrapped: Any = Ahead(store)
    return wrapped  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_by_settings", [True, False])
async def test_what_a_round_itself_says_is_left_to_later_rounds_even_if_it_is_old_already(
    where: str, spy: Spy, monkeypatch: pytest.MonkeyPatch, is_by_settings: bool
) -> None:
    monkeypatch.setattr("placet.engine.forgetting._EVENTS_AT_ONCE", 4)
    tool, clock = written(spy), FakeClock()
    day = Retention(seconds=DAY, audit_seconds=DAY)
    settings = placet.GateSettings(retention_seconds=DAY, audit_retention_seconds=DAY)
    opening = placet.open(tools=[tool], store=where, clock=clock, recovery=placet.Recovery.MANUAL, settings=settings)

    async with around_store(opening, ahead) as gate:
        world = World(gate=gate, clock=clock)
        await some_writes(world, tool, 3)
        purger = gate.purger
        first = await (purger.purge_round() if is_by_settings else purger.purge(day, by=KEEPER))
        kinds = [event["kind"] for event in world.events()]
        second = await (purger.purge_round() if is_by_settings else purger.purge(day, by=KEEPER))

        assert (await gate.verify_audit()).holds
        assert [event["kind"] for event in world.events()] == ["audit_cut"] * 2
    assert first.purged[Kept.EVENTS] == 6, "what stood when it began, and nothing of its own"
    assert kinds == ["records_purged"] * 2 + ["audit_cut"] * 2
    assert second.purged[Kept.EVENTS] == 4, "what the first one said is old, too"


# ---------------------------------------------------------------- every other cut


async def test_a_cut_without_a_tombstone_shows(cut: World, store: Path) -> None:
    assert told(await altered(store)) == []
    assert told(await altered(store, "DELETE FROM audit_tombstones")) == ["events_missing"]


async def test_more_cut_than_the_tombstone_says_shows(cut: World, store: Path) -> None:
    assert told(await altered(store, "DELETE FROM audit_events WHERE sequence = 7")) == ["events_missing"]


@pytest.mark.parametrize(
    "change",
    [
        "first_kept = 8",
        "link = '" + "0" * 64 + "'",
        "removed = 1",
        "cut_by = 'nobody'",
        "cut_at = '2026-02-01T00:00:00.000000+00:00'",
        "cut_at = 'yesterday'",
        "mac = '" + "0" * 64 + "'",
    ],
)
async def test_an_altered_tombstone_shows(cut: World, store: Path, change: str) -> None:
    report = await altered(store, f"UPDATE audit_tombstones SET {change}")

    assert told(report) == ["events_missing", "tombstone_altered"]
    assert report.cuts == (), "what is not authentic is not told as if it were"


async def test_a_tombstone_that_hides_a_further_cut_shows(cut: World, store: Path) -> None:
    report = await altered(
        store, "DELETE FROM audit_events WHERE sequence = 7", "UPDATE audit_tombstones SET first_kept = 8"
    )

    assert "tombstone_altered" in told(report)


async def test_a_tombstone_under_another_chain_shows(cut: World, store: Path, open_world: OpenWorld, spy: Spy) -> None:
    tool = written(spy)
    other = await open_world(tool, store=str(store), clock=cut.clock, seed=1)
    await some_writes(other, tool, 1)
    assert await problems(cut) == []

    report = await altered(store, f"UPDATE audit_tombstones SET writer = '{other.gate.store.writer}'")

    assert told(report) == ["events_missing", "tombstone_altered"]


async def test_a_tombstone_under_a_key_that_is_not_there_is_told_as_such(cut: World, store: Path) -> None:
    report = await altered(store, "UPDATE audit_tombstones SET key_id = 'k-none'")

    assert told(report) == ["events_missing", "key_unknown"]


async def test_an_older_tombstone_put_back_shows(store: Path, open_world: OpenWorld, spy: Spy) -> None:
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 3)
    await a_year_later(world)
    (kept,) = by_hand(store, "SELECT * FROM audit_tombstones")
    await some_writes(world, tool, 3)
    await a_year_later(world)

    put_back = ", ".join(repr(value) for value in kept)
    report = await altered(store, f"INSERT OR REPLACE INTO audit_tombstones VALUES ({put_back})")

    assert told(report) == ["events_missing"]


async def test_what_was_altered_is_evidence_and_its_chain_is_not_cut(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    tool, clock = written(spy), FakeClock()
    world = await open_world(tool, store=str(store), clock=clock)
    await some_writes(world, tool, 3)
    other = await open_world(tool, store=str(store), clock=clock, seed=1)
    await some_writes(other, tool, 2)
    writer = world.gate.store.writer
    by_hand(store, "UPDATE audit_events SET body = replace(body, 'agent-operator', 'agent-nobody') "
            "WHERE writer = ? AND sequence = 2", writer)  # fmt: skip

    report = await a_year_later(other)

    assert (report.purged[Kept.EVENTS], report.broken) == (4, 1)
    assert by_hand(store, "SELECT count(*) FROM audit_events WHERE writer = ?", writer) == [(6,)]
    assert "event_altered" in await problems(other)
    by_hand(store, "UPDATE audit_events SET body = replace(body, 'agent-nobody', 'agent-operator')")  # it holds again


# ---------------------------------------------------------------- anchors


async def test_an_anchor_of_after_the_cut_still_shows_what_was_rolled_back(cut: World) -> None:
    (head,) = await cut.gate.audit_heads()
    anchors = {head.writer: (head.sequence, head.link)}

    assert await problems(cut, anchors=anchors) == []
    assert await problems(cut, anchors={head.writer: (head.sequence, "0" * 64)}) == ["history_missing"]
    assert await problems(cut, anchors={head.writer: (head.sequence + 1, head.link)}) == ["history_missing"]


async def test_an_anchor_of_what_was_removed_is_told_as_one_that_nothing_is_held_against(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 1)
    (early,) = await world.gate.audit_heads()
    await some_writes(world, tool, 1, by=GLOBEX)
    (edge,) = await world.gate.audit_heads()
    world.clock.advance(300 * DAY)
    await some_writes(world, tool, 1)
    await a_year_later(world, days=100)

    within = await world.gate.verify_audit(anchors={early.writer: (early.sequence, "0" * 64)})
    at_edge = await world.gate.verify_audit(anchors={edge.writer: (edge.sequence, edge.link)})
    forged = await world.gate.verify_audit(anchors={edge.writer: (edge.sequence, "0" * 64)})

    assert (within.holds, within.passed_over) == (True, 1)
    assert (at_edge.holds, at_edge.passed_over) == (True, 0)
    assert [found.problem for found in forged.breaks] == ["history_missing"]


# ---------------------------------------------------------------- exports


async def exported(store: Path, tenant: str | None = None) -> list[bytes]:
    keys, opened = open_existing_store(store)
    try:
        async with audit_export(opened, keys, tenant=tenant) as lines:
            return [line async for line in lines]
    finally:
        await opened.close()


@pytest.mark.parametrize("tenant", [None, "acme", "globex"])
async def test_an_export_begins_at_the_tombstone_and_holds_by_itself(
    store: Path, open_world: OpenWorld, spy: Spy, tenant: str | None
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 2, by=GLOBEX)
    world.clock.advance(300 * DAY)
    for by in (OPERATOR, GLOBEX):
        await some_writes(world, tool, 2, by=by)
    await a_year_later(world, days=100)

    lines = await exported(store, tenant)
    report = check_export(lines, key=Path(f"{store}.key"))

    manifest = json.loads(lines[0])
    assert (manifest["schema"], manifest["tombstones"]) == ("audit-export/2", 1)
    assert report.holds, report.faults
    assert [tombstone.first_kept for tombstone in report.cuts] == [5]
    assert report.events == {None: 9, "acme": 4, "globex": 4}[tenant]
    assert report.events + report.others == 9


async def test_an_export_whose_tombstone_was_taken_out_or_altered_does_not_hold(cut: World, store: Path) -> None:
    lines = await exported(store)
    (place,) = [index for index, line in enumerate(lines) if b'"tombstone"' in line and index > 0]
    assert check_export(lines, key=Path(f"{store}.key")).holds

    def faults(changed: list[bytes]) -> set[str]:
        return {fault.problem for fault in check_export(changed, key=Path(f"{store}.key")).faults}

    assert faults([*lines[:place], *lines[place + 1 :]]) >= {"events_missing", "signature_broken"}
    moved = lines[place].replace(b'"first_kept":7', b'"first_kept":8')
    assert faults([*lines[:place], moved, *lines[place + 1 :]]) >= {"tombstone_altered", "events_missing"}
    twice = [*lines[: place + 1], lines[place], *lines[place + 1 :]]
    assert faults(twice) >= {"order_changed", "counts_differ"}
    foreign = lines[place].replace(b'"writer":"w-', b'"writer":"x-')
    assert faults([*lines[:place], foreign, *lines[place + 1 :]]) >= {"head_missing", "events_missing"}
    spelled = lines[place].replace(b".000000+00:00", b"+00:00")
    assert faults([*lines[:place], spelled, *lines[place + 1 :]]) >= {"not_as_exported"}
    for broken in (b'"cut_at":7', b'"cut_at":"2026-02-01T00:00:00"', b'"cut_at":"soon"'):
        at = lines[place].index(b'"cut_at":')
        changed = lines[place][:at] + broken + lines[place][lines[place].index(b',"', at) :]
        assert faults([*lines[:place], changed, *lines[place + 1 :]]) >= {"line_unreadable"}
    first = lines[0].replace(b"audit-export/2", b"audit-export/1")
    assert "not_as_exported" in faults([first, *lines[1:]])


async def test_an_export_of_a_store_that_was_never_cut_is_as_it_was(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 1)

    lines = await exported(store)

    assert json.loads(lines[0]) == {
        "record": "manifest", "schema": "audit-export/1", "tenant": None, "heads": 1, "events": 2
    }  # fmt: skip
    report = check_export(lines, key=Path(f"{store}.key"))
    assert report.holds and report.cuts == ()


# ---------------------------------------------------------------- in use


async def test_a_store_that_is_verified_while_it_is_cut_is_no_broken_one(
    store: Path, open_world: OpenWorld, spy: Spy
) -> None:
    """The look is of one moment: a cut that lands in the middle of it changes nothing of what it sees."""
    tool = written(spy)
    world = await open_world(tool, store=str(store))
    await some_writes(world, tool, 4)
    keys, _ = open_existing_store(store)
    inner, cuts = world.gate.store, []

    class Cutting:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def snapshot(self, **more: Any) -> Any:
            outer = inner.snapshot(**more)

            class Held:
                async def __aenter__(self) -> Any:
                    audit = await outer.__aenter__()
                    cuts.append(await a_year_later(world))
                    return audit

                async def __aexit__(self, *fault: Any) -> Any:
                    return await outer.__aexit__(*fault)

            return Held()

    during: ChainReport = await verify_audit(Cutting(), keys)  # type: ignore[arg-type]

    assert cuts[0].purged[Kept.EVENTS] == 8
    assert during.holds and during.events == 8 and during.cuts == ()
    after = await verify_audit(inner, keys)
    assert after.holds and after.events == 2


def test_a_tombstone_mac_is_worth_nothing_as_a_link_or_a_head() -> None:
    keys = KeyRing({"k-1": b"1" * 32}, current="k-1")
    linker = chain_linker(keys)
    assert linker.knows("k-1")
    from placet.model.audit import ChainTombstone
    from placet.model.identifiers import WriterId
    from placet.ports.keys import KeyPurpose
    from placet.rules.chains import chain_message, is_sound_tombstone, tombstone_message

    bare = ChainTombstone(
        writer=WriterId("w-1"), first_kept=2, link="0" * 64, removed=1, cut_by="kim", cut_at=FakeClock().now(),
        key_id="k-1", mac="",
    )  # fmt: skip
    good = replace(bare, mac=keys.mac(KeyPurpose.AUDIT_CHAIN, tombstone_message(bare)).value)
    link = keys.mac(KeyPurpose.AUDIT_CHAIN, chain_message("w-1", 2, "0" * 64, b"{}")).value
    assert is_sound_tombstone(good, linker)
    assert not is_sound_tombstone(replace(good, mac=link), linker)
    nothing = replace(bare, first_kept=1)
    signed = replace(nothing, mac=keys.mac(KeyPurpose.AUDIT_CHAIN, tombstone_message(nothing)).value)
    assert not is_sound_tombstone(signed, linker), "a chain that begins at its beginning has no tombstone"
