"""A ledger that has grown is one: its rows are what the engine writes, calls go on beside them, a purge bounds them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import apsw
import asyncpg
import pytest

import placet
from placet.engine.gate import Gate
from placet.engine.verifying import verify
from placet.model.approval import ApprovalState
from placet.model.effect import Effect, EffectState
from placet.model.outcome import Replayed
from placet.proof.growth import in_postgres, in_sqlite, measuring, running
from placet.proof.growth.specimens import TOOLS, Place, close_ticket, open_ticket, opened, submit
from placet.proof.growth.years import APPROVED_EVERY, TENANTS, Years, is_approved
from placet.proof.pgbench import server
from placet.proof.workloads import NotMeasured
from placet.rules.audit import event_of
from tests.postgres.fixtures import Cluster

EFFECTS, EVENTS = 4_000, 16_000
SIZE = running.Size(effects=2_000, events=8_000, rounds=1, times=2)
ALL = tuple(EffectState)
Rows = Callable[[str], list[dict[str, Any]]]


def quiet(word: str) -> None:
    pass


@pytest.fixture(scope="module")
def in_a_file(tmp_path_factory: pytest.TempPathFactory) -> Place:
    path = tmp_path_factory.mktemp("growth") / "old.db"
    asyncio.run(in_sqlite.fill(path, effects=EFFECTS, events=EVENTS, told=quiet))
    return Place(store=path)


@pytest.fixture(scope="module")
def on_a_server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    database = cluster.database()
    place = Place(store=database.url, key=tmp_path_factory.mktemp("growth") / "key")

    async def fill() -> None:
        connection = await asyncpg.connect(database.url, server_settings={"search_path": "placet,pg_temp"})
        await in_postgres.fill(place, connection, effects=EFFECTS, events=EVENTS, told=quiet)
        await connection.close()

    asyncio.run(fill())
    return place


@pytest.fixture(params=["in_a_file", "on_a_server"])
def old(request: pytest.FixtureRequest, in_a_file: Place, on_a_server: Place) -> Place:
    return {"in_a_file": in_a_file, "on_a_server": on_a_server}[request.param]


async def fresh(place: Place, number: str, *, tenant: str) -> Effect:
    """The row of an operation that is done now."""
    async with opened(place.store, place.key) as gate:
        await submit(gate, open_ticket.contract.name, number, tenant=tenant, run="run-now", call="call-now")
        (effect,) = [each for each in await effects_of(gate, tenant, 1) if each.call_id == "call-now"]
    return effect


async def effects_of(gate: Gate, tenant: str | None, limit: int) -> list[Effect]:
    found = await gate.store.effects(tenant=tenant, states=ALL, limit=limit)
    return [effect for effect in found if isinstance(effect, Effect)]


async def test_the_audit_of_a_filled_ledger_holds_and_has_as_many_events_as_was_said(old: Place) -> None:
    async with opened(old.store, old.key) as gate:
        report = await gate.verify_audit()
        bodies = [event.body async for event in gate.store.chained(tenant="tenant-10")]
        heads = await gate.store.heads()

    assert report.holds and report.breaks == () and report.unpaired == 0
    assert EVENTS <= report.events < EVENTS + 20
    assert len(heads) >= 20
    assert {json.loads(body)["kind"] for body in bodies} >= {"started", "completed", "approval_asked", "approval_spent"}
    assert all(event_of(body) is not None for body in bodies), "this version could have written every one"


async def test_a_filled_row_is_byte_for_byte_what_the_engine_writes_for_the_same_call(
    old: Place, tmp_path: Path
) -> None:
    """But for names, instants and chance; and what is sealed has the same length."""
    async with opened(old.store, old.key) as gate:
        filled = await gate.store.effect("tenant-12", key_of("n-000000007"))
    written = await fresh(Place(store=tmp_path / "now.db"), "n-000000007", tenant="tenant-12")

    assert filled is not None
    own = {"run_id", "call_id", "token", "owner", "created_at", "updated_at", "lease_until", "send_by",
           "attempt_ended_at", "sealed_arguments", "sealed_result"}  # fmt: skip
    for name in set(Effect.__dataclass_fields__) - own:
        assert getattr(filled, name) == getattr(written, name), name
    for name in ("sealed_arguments", "sealed_result", "token"):
        assert len(getattr(filled, name)) == len(getattr(written, name)), name
    assert filled.lease_until - filled.created_at == written.lease_until - written.created_at


def key_of(number: str) -> Any:
    return f'["business","ticket:{{number}}","{number}"]'


async def test_what_was_done_in_those_years_is_replayed_with_its_result_and_not_done_again(old: Place) -> None:
    async with opened(old.store, old.key) as gate:
        again = await submit(
            gate, open_ticket.contract.name, "n-000000009", tenant="tenant-13", run="run-again", call="call-again"
        )

    assert isinstance(again, Replayed)
    assert again.result == {"ticket_id": "n-000000009", "state": "open"}


async def test_approvals_of_those_years_are_spent_and_verify(old: Place) -> None:
    async with opened(old.store, old.key) as gate:
        found = await gate.store.approvals("tenant-11", states=(ApprovalState.SPENT,), limit=100)
        keys = gate.purger._keys
        assert [verify(approval, keys) for approval in found] == [None] * len(found)
        effects = await effects_of(gate, "tenant-11", 1_000)

    assert len(found) == sum(1 for effect in effects if effect.approval_id is not None) >= 9
    assert {effect.tool for effect in effects if effect.approval_id} == {close_ticket.contract.name}


async def test_rows_are_as_many_as_was_said_of_every_tenant_and_run(old: Place) -> None:
    async with opened(old.store, old.key) as gate:
        effects = await effects_of(gate, None, 10 * EFFECTS)
        runs = await gate.store.old_runs(before=await gate.store.now(), limit=10_000)

    assert len({(effect.tenant, effect.operation_key) for effect in effects}) == len(effects) >= EFFECTS
    assert len({effect.tenant for effect in effects} & {f"tenant-{10 + n}" for n in range(TENANTS)}) == TENANTS
    assert len([effect for effect in effects if effect.approval_id]) == -(-EFFECTS // APPROVED_EVERY)
    assert len(runs) >= EFFECTS / 100 - TENANTS
    assert all(run.steps >= 100 for run in runs if run.run_id.endswith("-0000000"))


def test_a_filled_file_has_every_index_and_trigger_again(in_a_file: Place, tmp_path: Path) -> None:
    young = tmp_path / "young.db"

    async def make() -> None:
        async with opened(young):
            pass

    asyncio.run(make())
    names = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    found = [apsw.Connection(str(path)).execute(names).fetchall() for path in (in_a_file.store, young)]
    assert found[0] == found[1]


@pytest.fixture
def address_of_an_owner(cluster: Cluster) -> Iterator[str]:
    """A database of a role that is no superuser, as a project has it: row security holds for it too."""
    database = cluster.database(is_empty=True)
    role = f"owner_of_{database.name}"
    cluster.admin.execute(f"CREATE ROLE {role} LOGIN", f"ALTER DATABASE {database.name} OWNER TO {role}")
    parts = urlsplit(database.url)
    place = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}@{place}"))
    cluster.drop(database)
    cluster.admin.execute(f"DROP ROLE {role}")


async def test_a_role_that_owns_its_database_and_nothing_else_fills_a_store(
    address_of_an_owner: str, tmp_path: Path
) -> None:
    """And afterwards its rows are kept apart as they were before, and every trigger is there."""
    place = Place(store=address_of_an_owner, key=tmp_path / "key")
    connection = await asyncpg.connect(address_of_an_owner, server_settings={"search_path": "placet,pg_temp"})
    try:
        await in_postgres.fill(place, connection, effects=1_000, events=4_000, told=quiet)
        secured = await connection.fetch(
            "SELECT relforcerowsecurity AS forced, count(*) FROM pg_class "
            "WHERE relnamespace = 'placet'::regnamespace AND relrowsecurity GROUP BY 1"
        )
        disabled = await connection.fetchval("SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'")
        effects = await connection.fetchval("SELECT count(*) FROM effects")
    finally:
        await connection.close()
    assert [tuple(row) for row in secured] == [(True, 12)]
    assert (disabled, effects) == (0, 1_000)


async def test_a_server_that_does_not_take_the_rows_is_no_measurement_and_says_which_word_it_gave(
    address_of_an_owner: str, tmp_path: Path
) -> None:
    settings = {"search_path": "placet,pg_temp", "default_transaction_read_only": "on"}
    connection = await asyncpg.connect(address_of_an_owner, server_settings=settings)
    try:
        with pytest.raises(NotMeasured, match=r"ReadOnlySQLTransactionError \(25006\)"):
            await in_postgres.fill(
                Place(store=address_of_an_owner, key=tmp_path / "key"),
                connection, effects=1_000, events=4_000, told=quiet,
            )  # fmt: skip
    finally:
        await connection.close()


# ---------------------------------------------------------------- measuring


async def test_a_write_and_every_look_are_measured_beside_each_other(tmp_path: Path) -> None:
    said: list[str] = []

    found = await running.on_sqlite(tmp_path, SIZE, told=said.append)

    assert found["rows"].keys() == {measuring.WRITE, *measuring.LOOKS}
    for row in found["rows"].values():
        assert row["young_p50_us"] > 0 and row["old_p50_us"] > 0 and row["ratio"] > 0
    values: dict[str, list[float]] = {"growth_write": [], "growth_worst_look": []}
    running.put(found, values)
    assert values["growth_write"] == found["rows"][measuring.WRITE]["ratios"]
    looks = {name: row["ratio"] for name, row in found["rows"].items() if name != measuring.WRITE}
    assert looks[found["worst_look"]] == max(looks.values())
    assert values["growth_worst_look"] == found["rows"][found["worst_look"]]["ratios"]
    assert found["worst_look"] in running.worst_look(found)
    assert (found["young_effects"], found["effects"], found["events"]) == (1_000, 2_000, 8_000)
    assert found["bytes"] > 8_000_000
    assert said[-1] == "measuring"
    assert list(tmp_path.iterdir()) == [], "nothing of it is left"


async def test_the_same_is_measured_on_a_private_server(tmp_path: Path) -> None:
    folder = Path("/tmp")
    with server.opened("private", folder=folder, fsync_us=0) as found_server:
        found = await running.on_postgres(found_server, SIZE, told=quiet)
        left = found_server.ask("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'placet%';")

    assert found["rows"].keys() == {measuring.WRITE, *measuring.LOOKS}
    assert left == "0"
    assert found["bytes"] > 8_000_000


async def test_a_look_for_what_is_not_there_measures_nothing(in_a_file: Place) -> None:
    beyond = 19 * EFFECTS + 1
    async with opened(in_a_file.store) as gate:
        for name in ("an operation by its key", "an approval by its id"):
            await measuring._look(gate.store, years_of(EFFECTS), name, 0)(1)
            with pytest.raises(NotMeasured, match=f"a look found nothing: {name}"):
                await measuring._look(gate.store, years_of(1_000 * EFFECTS), name, beyond)(1)


async def test_a_look_that_finds_what_nobody_left_measures_nothing(
    in_a_file: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(measuring.LOOKS, "stops", measuring.LOOKS["heads of chains"])
    async with opened(in_a_file.store) as gate:
        with pytest.raises(NotMeasured, match="a look found what is not there: stops"):
            await measuring._look(gate.store, years_of(EFFECTS), "stops", 0)(0)


def test_names_are_drawn_from_all_that_are_there_and_from_no_others() -> None:
    for effects in (1, 50, 1_000):
        years = years_of(effects)
        assert {years.any_of(seed) for seed in range(2 * effects)} == set(range(effects))
        approved = {years.any_approved(seed) for seed in range(2 * effects)}
        assert approved == {each for each in range(effects) if is_approved(each)}


def years_of(effects: int) -> Years:
    return Years(effects=effects, events=0, began=0, per_write=2, per_approved=5, per_read=2)


# ---------------------------------------------------------------- bounded


@pytest.mark.slow
async def test_what_grew_is_bounded_by_a_purge(old: Place) -> None:
    """Approvals too: their signatures hold, so they are not evidence."""
    keeper = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))
    retention = placet.Retention(seconds=365 * 86_400.0, audit_seconds=365 * 86_400.0)
    opening = placet.open(
        tools=TOOLS, store=old.store, key=old.key, recovery="manual", settings=placet.GateSettings(max_steps=1_000)
    )
    async with opening as gate:
        known = len(await effects_of(gate, None, 10 * EFFECTS))
        report = await gate.purger.purge(retention, by=keeper)
        effects = await effects_of(gate, None, 10 * EFFECTS)
        after = await gate.verify_audit()
        again = await submit(
            gate, open_ticket.contract.name, "n-000000001", tenant="tenant-14", run="run-late", call="call-late"
        )

    purged = {kept.value: count for kept, count in report.purged.items()}
    assert report.broken == 0 and not report.is_audit_waiting
    assert 0.6 * EFFECTS < purged["operations"] < 0.7 * EFFECTS
    assert purged["approvals"] > 0.6 * EFFECTS / APPROVED_EVERY and purged["runs"] >= TENANTS
    assert 0.6 * EVENTS < purged["events"] < 0.7 * EVENTS
    assert len(effects) == known, "every name is still known"
    assert sum(1 for effect in effects if effect.is_purged) == purged["operations"]
    assert after.holds and len(after.cuts) > 10
    assert isinstance(again, Replayed) and again.result is None and again.result_unavailable == "record_purged"
