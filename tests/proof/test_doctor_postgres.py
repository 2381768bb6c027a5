"""The doctor before a PostgreSQL store: real servers, a fault planted for every check, and nothing ever changed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import placet
from placet.adapters.stores.postgres import examining
from placet.adapters.stores.postgres.connection import address_of, connect
from placet.adapters.stores.postgres.statements import migrations
from placet.bootstrap.records import open_custody
from placet.errors import ConfigurationError
from placet.ports.examining import IdleSessions
from placet.proof.doctor import Deployment, Depth, Level, Report, Saying, checks_of, diagnose, tables
from placet.proof.doctor.checks import StoreKind
from placet.proof.doctor.server import clock_saying, freezing_saying, idle_saying, version_saying
from placet.testing import FakeClock
from tests.postgres.fixtures import Cluster, _versions, folder_of
from tests.postgres.server import Server
from tests.proof.test_doctor import AGENT, MARA, a_write, submit

_numbers = count()


@dataclass
class Ward:
    """A deployment on a server of its own, as an operator would have made it: a role that owns its database."""

    cluster: Cluster
    name: str
    deployment: Deployment
    url: str
    key: Path
    depth: Depth = Depth.NEWEST
    clock: FakeClock | None = None

    @property
    def role(self) -> str:
        return f"app_{self.name}"

    def execute(self, *statements: str) -> None:
        """As the server's superuser, past every trigger."""
        self.cluster.admin.execute(
            "; ".join(("SET session_replication_role = replica", *statements)), database=self.name
        )

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return self.cluster.admin.fetch(statement, database=self.name)

    async def report(self) -> Report:
        return await diagnose(self.deployment, depth=self.depth, clock=self.clock)

    async def saying(self, check: str) -> Saying:
        (found,) = [each.saying for each in (await self.report()).diagnoses if each.id == check]
        return found


@pytest.fixture(scope="module", params=_versions())
def sound_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A server that keeps what it acknowledges."""
    if request.param == "given":
        pytest.skip("plants faults in the settings of its own servers")
    server = Server(folder_of(request.param), fsync=True, settings={"max_connections": "40"})
    cluster = Cluster(request.param, server.url(), server)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def past(sound_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A database with a past, to be copied: committed effects, a pending approval, history in two chains."""
    admin, key = sound_cluster.admin, tmp_path_factory.mktemp("past") / "store.key"
    admin.execute("CREATE ROLE past LOGIN", "CREATE DATABASE past OWNER past")
    url = admin.database_url("past").replace("postgres@", "past@")

    async def happened() -> None:
        for orders, tool in ((("o-1", "o-2"), a_write()), (("o-3",), a_write(approval="always"))):
            async with placet.open(tools=[tool], store=url, key=key, recovery="manual") as gate:
                for order in orders:
                    outcome = await submit(gate, order)
                    assert outcome.code in ("succeeded", "approval_required"), outcome

    asyncio.run(happened())
    return "past", key


@pytest.fixture
def ward(sound_cluster: Cluster, past: tuple[str, Path], tmp_path: Path) -> Iterator[Ward]:
    admin, name = sound_cluster.admin, f"ward_{next(_numbers)}"
    role = f"app_{name}"
    admin.execute(f"CREATE ROLE {role} LOGIN", f"CREATE DATABASE {name} OWNER {role} TEMPLATE {past[0]}")
    admin.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    # REASSIGN in the copy, so that every database has a role of its own whose limits a test may set
    admin.execute(f"REASSIGN OWNED BY past TO {role}", "ALTER DATABASE past OWNER TO past", database=name)
    tables = ("runs", "step_fingerprints", "denials", "effects", "approvals", "audit_events")
    for table in (*tables, "approval_votes", "approval_edits", "grants", "reminders", "run_checkpoints", "run_tallies"):
        admin.execute(f"ALTER POLICY writing ON placet.{table} TO {role}", database=name)
    url = admin.database_url(name).replace("postgres@", f"{role}@")
    key = Path(shutil.copy2(past[1], tmp_path / "store.key"))
    deployment = Deployment(
        store=url, key=key, tools=(a_write(),), policy=placet.Matrix(), agent=AGENT, people=(MARA,),
        sinks=(placet.LogSink(),),
    )  # fmt: skip
    yield Ward(cluster=sound_cluster, name=name, deployment=deployment, url=url, key=key)
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)", f"DROP ROLE {role}")
    admin.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")


def not_ok(report: Report) -> list[tuple[str, Saying]]:
    return [(each.id, each.saying) for each in report.diagnoses if each.saying.level is not Level.OK]


TABLES = (
    "placet_meta",
    "runs",
    "effects",
    "approvals",
    "audit_events",
    "audit_heads",
    "unchained_events",
    "open_reads",
)


def contents(ward: Ward) -> dict[str, list[tuple[Any, ...]]]:
    """Every row with its version, and every part of the schema."""
    found = {name: ward.fetch(f"SELECT xmin::text, t::text FROM placet.{name} t ORDER BY t::text") for name in TABLES}
    found["schema"] = ward.fetch("SELECT oid::int, xmin::text, relname::text FROM pg_class ORDER BY oid")
    return found


# ---------------------------------------------------------------- a sound deployment


async def test_a_sound_database_is_green_in_every_check_and_stays_as_it_is(ward: Ward) -> None:
    before = contents(ward)
    for ward.depth in Depth:
        report = await ward.report()

        assert not_ok(report) == []
        assert [each.id for each in report.diagnoses] == [check.id for check in checks_of(StoreKind.POSTGRES)]
    assert contents(ward) == before


async def test_a_database_in_use_is_looked_at_while_it_is_written(ward: Ward) -> None:
    async with placet.open(tools=[a_write()], store=ward.url, key=ward.key, recovery="manual") as gate:
        await submit(gate, "o-9")

        assert not_ok(await ward.report()) == []
        assert (await submit(gate, "o-10")).is_success


async def test_tables_and_roles_of_others_are_theirs(ward: Ward) -> None:
    ward.execute(
        "CREATE TABLE placet.songs (name text PRIMARY KEY)",
        "CREATE FUNCTION placet.tune() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE ROLE songs_reader",
        "SELECT set_config('search_path', '\"placet\", pg_temp', false)",
        "SELECT let_read('songs_reader')",
        "RESET search_path",
    )
    try:
        assert (await ward.saying("store_schema")).level is Level.OK
        assert (await ward.saying("store_tenants")).told == (
            "rows are kept apart by tenant; 1 roles read for one tenant at a time"
        )
    finally:
        ward.execute("DROP OWNED BY songs_reader", "DROP ROLE songs_reader")


async def test_another_schema_is_looked_at_as_well(ward: Ward, tmp_path: Path) -> None:
    second = f"{ward.url}&placet_schema=Second_1"
    async with placet.open(tools=[a_write()], store=second, key=tmp_path / "second.key", recovery="manual") as gate:
        await submit(gate, "o-1")

    report = await diagnose(replace(ward.deployment, store=second, key=tmp_path / "second.key"))
    assert not_ok(report) == []


# ---------------------------------------------------------------- one fault for each way to be wrong


def sql(*statements: str) -> Callable[[Ward], None]:
    return lambda ward: ward.execute(*(each.replace("APP", ward.role) for each in statements))


async def at_the_step_before(ward: Ward) -> None:
    """The schema as the migrations but the last make it, under the same key."""
    *earlier, _ = migrations()
    meta = dict(ward.fetch("SELECT name, value FROM placet.placet_meta")) | {"schema_version": str(earlier[-1][0])}
    connection = await connect(address_of(ward.url))
    try:
        await connection.execute("DROP SCHEMA placet CASCADE; CREATE SCHEMA placet")
        for _, text in earlier:
            await connection.execute(text)
        for name, value in meta.items():
            await connection.execute(
                "INSERT INTO placet_meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2", name, value
            )
    finally:
        await connection.close()


def server(name: str, value: str) -> Callable[[Ward], Awaitable[None]]:
    """Set, and in force for new connections."""

    async def change(ward: Ward) -> None:
        ward.cluster.admin.execute(f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()")
        async with asyncio.timeout(30):
            while ward.cluster.admin.fetch(f"SHOW {name}") != [(value,)]:  # it reloads by itself
                await asyncio.sleep(0)

    return change


def deployed(change: Callable[[Ward], dict[str, Any]]) -> Callable[[Ward], None]:
    def apply(ward: Ward) -> None:
        ward.deployment = replace(ward.deployment, **change(ward))

    return apply


def at(url: str) -> Callable[[Ward], None]:
    return deployed(lambda ward: {"store": url})


def clock_off(seconds: float) -> Callable[[Ward], None]:
    return lambda ward: setattr(ward, "clock", FakeClock(datetime.now(UTC) + timedelta(seconds=seconds)))


def in_encoding(ward: Ward) -> None:
    ward.cluster.admin.execute(
        "DROP DATABASE IF EXISTS latin", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    )
    ward.deployment = replace(ward.deployment, store=ward.cluster.admin.database_url("latin"))


def as_superuser(ward: Ward) -> None:
    ward.deployment = replace(ward.deployment, store=ward.cluster.admin.database_url(ward.name))


def as_reader(ward: Ward) -> None:
    """Somebody whom the tables are not."""
    ward.execute(
        "DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN", "GRANT USAGE ON SCHEMA placet TO stranger",
        "GRANT SELECT ON ALL TABLES IN SCHEMA placet TO stranger",
        f"GRANT CONNECT ON DATABASE {ward.name} TO stranger",
    )  # fmt: skip
    ward.deployment = replace(ward.deployment, store=ward.url.replace(f"{ward.role}@", "stranger@"))


async def rotated_halfway(ward: Ward) -> None:
    custody, store = await asyncio.to_thread(open_custody, ward.url, key=ward.key)
    with custody._shelf.held():
        custody._shelf.add_current(at=datetime(2026, 1, 1, tzinfo=UTC))
    await store.close()


async def rotated_and_key_restored(ward: Ward) -> None:
    old = ward.key.read_bytes()
    custody, store = await asyncio.to_thread(open_custody, ward.url, key=ward.key)
    await custody.rotate(by="root")
    await store.close()
    ward.key.write_bytes(old)


async def lost(ward: Ward) -> None:
    async with placet.open(tools=[a_write()], store=ward.url, key=ward.key, recovery="manual") as gate:
        await submit(gate, "lost")


async def held_from_a_tenant(ward: Ward, role: str) -> None:
    ward.execute(f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} BYPASSRLS")
    ward.execute("SET search_path = placet", f"SELECT let_read('{role}')")


EFFECT = (
    "INSERT INTO placet.effects SELECT 'acme', 'left', fingerprint, tool, tool_version, contract_digest, "
    "argument_digest, run_id, call_id, subject, policy_version, decision, NULL, 'dispatched', 1, 1, 1, 'token', "
    "'gone', {lease}, 0, 0, 1, NULL, 0, NULL, sealed_arguments, NULL, NULL, NULL, NULL, created_at, {lease} "
    "FROM placet.effects LIMIT 1"
)
HOUR = 3_600_000_000
WAITING = "INSERT INTO placet.unchained_events (body, key_id, mac, is_refused) VALUES ('{body}', 'k', 'm', {refused})"


def waiting(at: str, refused: int = 0) -> Callable[[Ward], None]:
    return sql(WAITING.format(body=json.dumps({"at": at}), refused=refused))


def hours_ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="microseconds")


Breaks = Callable[[Ward], Awaitable[None] | None]
WRONG: dict[str, tuple[str, Level, Breaks, str]] = {
    "the key is gone": ("key_file", Level.FAIL, lambda ward: ward.key.unlink(), ""),
    "the key is not named": ("key_file", Level.FAIL, deployed(lambda ward: {"key": None}), "--key"),
    "the key is a copy from before a rotation": ("key_of_store", Level.FAIL, rotated_and_key_restored, "newest copy"),
    "a rotation was interrupted": ("key_rotation", Level.WARN, rotated_halfway, "placet keys rotate"),
    "nothing listens": ("database", Level.FAIL, at("postgresql://mara:s3cret@127.0.0.1:1/ledger"), "port"),
    "there is no such host": (
        "database", Level.FAIL, at("postgresql://mara:s3cret@no-such-host.invalid/ledger"), "host",
    ),
    "there is no such database": (
        "database", Level.FAIL, deployed(lambda ward: {"store": ward.url.replace(ward.name + "?", "nowhere?")}),
        "database",
    ),
    "there is no such user": (
        "database", Level.FAIL, deployed(lambda ward: {"store": ward.url.replace(f"{ward.role}@", "nobody_here@")}),
        "user",
    ),
    "the url is none": ("database", Level.FAIL, at("postgresql://mara:s3cret/x@db/ledger"), "%2F"),
    "connections begin read-only": (
        "database", Level.FAIL, sql("ALTER ROLE APP SET default_transaction_read_only = on"), "RESET",
    ),
    "another encoding": ("database", Level.FAIL, in_encoding, "UTF8"),
    "nothing is forced to the disk": ("database_durability", Level.FAIL, server("fsync", "off"), "fsync"),
    "pages may be torn": ("database_durability", Level.FAIL, server("full_page_writes", "off"), "full_page_writes"),
    "commits are not awaited": (
        "database_durability", Level.FAIL, sql("ALTER ROLE APP SET synchronous_commit = off"), "synchronous_commit",
    ),
    "the clocks differ": ("database_clock", Level.WARN, clock_off(-100), "chrony"),
    "the clocks differ by far": ("database_clock", Level.FAIL, clock_off(7_200), "chrony"),
    "the role may connect twice": (
        "database_connections", Level.FAIL, sql("ALTER ROLE APP CONNECTION LIMIT 2"), "limit",
    ),
    "the role may connect ten times": (
        "database_connections", Level.WARN, sql("ALTER ROLE APP CONNECTION LIMIT 10"), "limit",
    ),
    "everybody may connect": (
        "database_access",
        Level.WARN,
        lambda ward: ward.execute(f"GRANT CONNECT ON DATABASE {ward.name} TO PUBLIC"),
        "everybody",
    ),
    "autovacuum is off": ("database_freezing", Level.WARN, server("autovacuum", "off"), "autovacuum"),
    "there is no store in that schema": (
        "store_schema", Level.FAIL, deployed(lambda ward: {"store": f"{ward.url}&placet_schema=mistyped"}),
        "placet_schema",
    ),
    "the schema is another program's": (
        "store_schema", Level.FAIL, sql("DELETE FROM placet.placet_meta WHERE name = 'schema_version'"),
        "placet_schema",
    ),
    "the store is newer": (
        "store_schema", Level.FAIL, sql("UPDATE placet.placet_meta SET value = '1000' WHERE name = 'schema_version'"),
        "Upgrade placet",
    ),
    "the store is older": (
        "store_schema", Level.WARN, at_the_step_before, "Back up",
    ),
    "a trigger is gone": (
        "store_schema", Level.FAIL, sql("DROP TRIGGER effects_move_legally ON placet.effects"), "backup",
    ),
    "a trigger sleeps": (
        "store_schema", Level.FAIL, sql("ALTER TABLE placet.effects DISABLE TRIGGER effects_move_legally"), "backup",
    ),
    "a trigger was added": (
        "store_schema", Level.FAIL, sql(
            "CREATE FUNCTION placet.own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "CREATE TRIGGER own BEFORE UPDATE ON placet.effects FOR EACH ROW EXECUTE FUNCTION placet.own()"), "backup",
    ),
    "an index is gone": ("store_schema", Level.FAIL, sql("DROP INDEX placet.one_open_approval_per_question"), "backup"),
    "a check is gone": (
        "store_schema", Level.FAIL, sql("ALTER TABLE placet.effects DROP CONSTRAINT effects_state_check"), "backup",
    ),
    "a function was rewritten": (
        "store_schema", Level.FAIL, sql(
            "CREATE OR REPLACE FUNCTION placet.clock_now() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'"),
        "backup",
    ),
    "a policy was widened": (
        "store_schema", Level.FAIL, sql("ALTER POLICY reading ON placet.effects USING (true)"), "backup",
    ),
    "a rule was added": (
        "store_schema", Level.FAIL, sql("CREATE RULE quiet AS ON DELETE TO placet.stops DO INSTEAD NOTHING"), "backup",
    ),
    "a superuser connects": ("store_role", Level.WARN, as_superuser, "role"),
    "a role that no row is hidden from connects": (
        "store_role", Level.WARN, sql("ALTER ROLE APP BYPASSRLS"), "NOBYPASSRLS",
    ),
    "a role that may not write connects": ("store_role", Level.FAIL, as_reader, "owner"),
    "tenants are not kept apart": (
        "store_tenants", Level.FAIL, sql("ALTER TABLE placet.approvals DISABLE ROW LEVEL SECURITY"), "ENABLE ROW LEVEL",
    ),
    "the owner is let through": (
        "store_tenants", Level.FAIL, sql("ALTER TABLE placet.approvals NO FORCE ROW LEVEL SECURITY"), "FORCE ROW LEVEL",
    ),
    "everybody may read": ("store_tenants", Level.FAIL, sql("GRANT SELECT ON placet.effects TO PUBLIC"), "REVOKE"),
    "somebody else may write": (
        "store_tenants", Level.FAIL, sql(
            "DO $$ BEGIN CREATE ROLE scribe; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "GRANT UPDATE ON placet.effects TO scribe"), "REVOKE",
    ),
    "a reader is bound by nothing": (
        "store_tenants", Level.FAIL, lambda ward: held_from_a_tenant(ward, "unbound"), "NOBYPASSRLS",
    ),
    "events wait": ("waiting_events", Level.WARN, waiting(hours_ago(1)), "placet worker"),
    "events have waited for days": ("waiting_events", Level.FAIL, waiting(hours_ago(48)), "placet worker"),
    "an event waits that is none": ("waiting_events", Level.FAIL, waiting("never"), "placet worker"),
    "an event was refused": ("waiting_events", Level.FAIL, waiting(hours_ago(0), refused=1), "evidence"),
    "a lease is over": (
        "expired_leases", Level.WARN, sql(EFFECT.format(lease="placet.clock_now() - 1000000")), "worker",
    ),
    "a lease has been over for hours": (
        "expired_leases", Level.FAIL, sql(EFFECT.format(lease=f"placet.clock_now() - {2 * HOUR}")), "worker",
    ),
    "a read's lease is over": (
        "expired_leases", Level.WARN,
        sql("INSERT INTO placet.open_reads VALUES ('w', 1, 'gone', placet.clock_now() - 1)"), "worker",
    ),
    "a table is not cleaned up": (
        "store_sizes", Level.WARN, sql("ALTER TABLE placet.audit_events SET (autovacuum_enabled = false)"), "RESET",
    ),
    "a tool is stopped": ("stops", Level.WARN, sql("INSERT INTO placet.stops VALUES ('tool:refund', 1)"), "lifted"),
    "an effect was changed by hand": (
        "broken_rows", Level.FAIL, sql("UPDATE placet.effects SET created_at = 9e18 WHERE call_id = 'o-1'"),
        "backup",
    ),
    "an approval was changed by hand": (
        "broken_rows", Level.FAIL, sql("UPDATE placet.approvals SET state = 'approved'"), "backup",
    ),
    "an effect is unknown": ("unknown_effects", Level.WARN, lost, "reconcile"),
    "an event is gone": (
        "audit_chain", Level.FAIL, sql(
            "DELETE FROM placet.audit_events e WHERE sequence = (SELECT max(sequence) FROM placet.audit_events o "
            "WHERE o.writer = e.writer)"), "audit verify",
    ),
    "a head was altered": (
        "audit_chain", Level.FAIL, sql("UPDATE placet.audit_heads SET sequence = 1"), "audit verify",
    ),
    "the tools cannot be loaded": (
        "contracts", Level.FAIL, deployed(lambda ward: {"tools": ConfigurationError("No.", hint="Mend it.")}),
        "Mend it",
    ),
}  # fmt: skip
SAMPLE = {check: what for what, (check, *_) in reversed(WRONG.items())}.values()
"""One for each check: the first that stands above."""
ELSEWHERE = {"database_version", "database_idle"}
"""Checks whose wrong deployments are in other tests: another server, and a session that has stood open for long."""


def test_every_check_of_a_database_has_a_fault_that_it_has_to_see() -> None:
    shared = {check.id for check in checks_of(StoreKind.SQLITE)}
    own = {check.id for check in checks_of(StoreKind.POSTGRES)} - shared

    assert {check for check, *_ in WRONG.values()} | ELSEWHERE >= own | {"key_file", "store_schema", "audit_chain"}


@pytest.mark.parametrize(
    "what", [what if what in SAMPLE else pytest.param(what, marks=pytest.mark.exhaustive) for what in WRONG]
)
async def test_what_is_wrong_is_said_with_a_next_step_and_nothing_is_changed(ward: Ward, what: str) -> None:
    check, level, breaks, next_step = WRONG[what]
    done = breaks(ward)
    if done is not None:
        await done
    before = contents(ward)

    report = await ward.report()

    found = {each.id: each.saying for each in report.diagnoses}
    assert found[check].level is level, {id: each for id, each in found.items() if each.level is not Level.OK}
    assert next_step in found[check].next_step or next_step in found[check].told
    assert found[check].next_step or not next_step
    assert not any("s3cret" in each.told + each.next_step or "mara:" in each.told for each in found.values())
    assert contents(ward) == before


async def test_what_cannot_be_reached_is_said_once_and_nothing_else_is_called_sound(ward: Ward) -> None:
    at("postgresql://127.0.0.1:1/ledger")(ward)
    report = await ward.report()

    levels = {each.id: each.saying.level for each in report.diagnoses}
    assert levels["database"] is Level.FAIL
    for check in checks_of(StoreKind.POSTGRES):
        if check.id.startswith(("database_", "store_")) or check.id in ("audit_chain", "stops", "key_of_store"):
            assert levels[check.id] in (Level.SKIPPED, Level.FAIL), check.id
    assert [each.id for each in report.red] == ["database", "store_schema"] or [each.id for each in report.red] == [
        "database"
    ]


async def test_one_table_that_is_gone_hides_nothing_else(ward: Ward) -> None:
    ward.execute("DROP TABLE placet.stops")
    levels = {each.id: each.saying.level for each in (await ward.report()).diagnoses}

    assert (levels["stops"], levels["store_schema"]) == (Level.FAIL, Level.FAIL)
    assert levels["audit_chain"] is levels["broken_rows"] is levels["store_tenants"] is Level.OK


async def test_a_transaction_that_stands_open_is_counted(ward: Ward) -> None:
    connection = await asyncpg.connect(ward.url)
    try:
        await connection.execute("BEGIN")
        await connection.fetch("SELECT 1")
        with examining.examine(examining_address(ward)) as look:
            assert len(look.idle_sessions().seconds) == 1
            assert look.idle_sessions().hidden == 0
    finally:
        await connection.close()


async def test_sessions_of_others_are_said_to_be_unseen(ward: Ward) -> None:
    """For a role without pg_read_all_stats."""
    connection = await asyncpg.connect(ward.cluster.admin.database_url(ward.name))
    try:
        assert (await ward.saying("database_idle")).told == (
            "no transaction stands open idle; 1 sessions of others cannot be seen"
        )
    finally:
        await connection.close()


def examining_address(ward: Ward) -> Any:
    from placet.adapters.stores.postgres import address_of

    return address_of(ward.url)


# ---------------------------------------------------------------- which rows are read


def many(ward: Ward, *, count: int, broken: int) -> None:
    """Effects as they were made, one after the other, one of them broken from the start."""
    names = ward.fetch(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 'placet.effects'::regclass "
        "AND attnum > 0 ORDER BY attnum"
    )
    said = {
        "operation_key": "operation_key || '-' || n",
        "created_at": f"CASE WHEN n = {broken} THEN 9000000000000000000 ELSE created_at END",
    }
    values = ", ".join(said.get(name, name) for (name,) in names)
    ward.execute(
        f"INSERT INTO placet.effects SELECT {values} FROM placet.effects, generate_series(1, {count}) AS n "
        "WHERE call_id = 'o-1' ORDER BY n"
    )


@pytest.mark.parametrize("behind", [0, 500, 990])
async def test_of_thousands_of_effects_one_that_is_broken_among_the_newest_is_found(ward: Ward, behind: int) -> None:
    many(ward, count=6_000, broken=6_000 - behind)

    assert (await ward.saying("broken_rows")).told.startswith("somebody changed rows by hand: 1 effects")


async def test_of_thousands_of_effects_it_is_said_that_the_newest_were_read(ward: Ward) -> None:
    many(ward, count=6_000, broken=100)

    assert (await ward.saying("broken_rows")).told == "the newest 1,000 effects and open approvals can be read"
    ward.depth = Depth.DEEP
    assert (await ward.saying("broken_rows")).level is Level.FAIL


@pytest.mark.parametrize(("broken", "level"), [(1_500, Level.FAIL), (500, Level.OK)])
async def test_behind_pages_that_hold_next_to_nothing_it_is_looked_further(
    ward: Ward, broken: int, level: Level
) -> None:
    """Rows that are wide, or were purged, leave few to a page; the few that are read first are not all there are."""
    many(ward, count=9_000, broken=broken)
    ward.execute("DELETE FROM placet.effects WHERE operation_key ~ '-[2-8][0-9]{3}$'")

    saying = await ward.saying("broken_rows")
    assert saying.level is level
    assert level is Level.FAIL or saying.told.startswith("the newest 1,000 ")


async def test_the_effects_made_last_come_first(ward: Ward) -> None:
    many(ward, count=3_000, broken=0)
    with examining.examine(examining_address(ward)) as look:
        numbers = [int(each.operation_key.rpartition("-")[2]) for each in look.effects(limit=2_500)]

    assert numbers == list(range(3_000, 500, -1))


# ---------------------------------------------------------------- what holds it up


async def test_behind_a_table_that_somebody_holds_the_doctor_ends_and_says_what_to_do(ward: Ward) -> None:
    holder = await asyncpg.connect(ward.url)
    try:
        await holder.execute("BEGIN; LOCK TABLE placet.effects IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(60):
            found = {each.id: each.saying for each in (await ward.report()).diagnoses}
    finally:
        await holder.close()

    for check in ("broken_rows", "unknown_effects", "expired_leases"):
        assert found[check].level is Level.FAIL
        assert found[check].told.startswith("A table of the store is held by somebody's open transaction")
        assert "pg_terminate_backend" in found[check].next_step
    assert found["audit_chain"].level is found["store_tenants"].level is Level.OK


async def test_while_the_doctor_waits_its_caller_goes_on(ward: Ward) -> None:
    """What holds the table is let go by the very loop that asked for the diagnosis."""
    holder = await asyncpg.connect(ward.url)
    watcher = await asyncpg.connect(ward.url)
    try:
        await holder.execute("BEGIN; LOCK TABLE placet.effects IN ACCESS EXCLUSIVE MODE")
        asked = asyncio.ensure_future(ward.report())
        async with asyncio.timeout(30):
            while not asked.done() and not await watcher.fetch("SELECT FROM pg_locks WHERE NOT granted"):
                pass
        await holder.execute("ROLLBACK")
        report = await asked
    finally:
        await holder.close()
        await watcher.close()

    assert not [each for each in not_ok(report) if each[0] != "database_idle"]


async def test_a_cancelled_diagnosis_leaves_no_session_behind(ward: Ward) -> None:
    holder = await asyncpg.connect(ward.url)
    watcher = await asyncpg.connect(ward.cluster.admin.database_url(ward.name))
    doctors = "SELECT FROM pg_stat_activity WHERE application_name = 'placet doctor'"
    try:
        await holder.execute("BEGIN; LOCK TABLE placet.effects IN ACCESS EXCLUSIVE MODE")
        asked = asyncio.ensure_future(ward.report())
        async with asyncio.timeout(30):
            while not await watcher.fetch("SELECT FROM pg_locks WHERE NOT granted"):
                pass
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(30):
            while await watcher.fetch(doctors):
                pass
    finally:
        await holder.close()
        await watcher.close()


async def test_a_server_that_falls_silent_is_waited_for_once(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    with examining.examine(examining_address(ward)) as look:
        (process,) = (row[0] for row in look._found("SELECT pg_backend_pid()"))
        monkeypatch.setattr(examining, "_ANSWER_SECONDS", 0.5)
        os.kill(process, signal.SIGSTOP)
        try:
            for _ in range(20):
                with pytest.raises(placet.PlacetError):
                    look.stops()
            assert look._connection.is_closed()
        finally:
            os.kill(process, signal.SIGCONT)


async def test_a_look_that_cannot_begin_leaves_no_session_behind(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(examining.EXAMINING, "begin_look", "SELECT 1/0")
    made: list[asyncpg.Connection] = []
    connected = examining._connected

    async def noted(address: Any) -> asyncpg.Connection:
        made.append(await connected(address))
        return made[-1]

    monkeypatch.setattr(examining, "_connected", noted)
    with pytest.raises(placet.PlacetError), examining.examine(examining_address(ward)):
        pass

    assert [each.is_closed() for each in made] == [True]


# ---------------------------------------------------------------- what these servers cannot show


@pytest.mark.parametrize(
    ("version", "level"),
    [
        (140_012, Level.FAIL), (150_018, Level.OK), (160_004, Level.WARN), (170_002, Level.WARN), (180_006, Level.OK),
        (190_001, Level.WARN),
    ],
)  # fmt: skip
def test_versions_that_were_not_tested_are_not_called_sound(version: int, level: Level) -> None:
    assert version_saying(version).level is level


@pytest.mark.parametrize(
    ("seconds", "level"),
    [
        (0.0, Level.OK),
        (4.9, Level.OK),
        (-5.0, Level.WARN),
        (599.0, Level.WARN),
        (600.0, Level.FAIL),
        (-1e6, Level.FAIL),
    ],
)
def test_minutes_between_the_clocks_are_borne_and_told(seconds: float, level: Level) -> None:
    assert clock_saying(seconds).level is level


@pytest.mark.parametrize(
    ("seconds", "level"),
    [((), Level.OK), ((59.0,), Level.OK), ((60.0, 1.0), Level.WARN), ((3_600.0,), Level.FAIL)],
)
def test_transactions_that_stand_open_for_long_are_told(seconds: tuple[float, ...], level: Level) -> None:
    assert idle_saying(IdleSessions(seconds=seconds, hidden=0)).level is level


@pytest.mark.parametrize(
    ("age", "level"),
    [(10**9 - 1, Level.OK), (10**9, Level.WARN), (1_800_000_000, Level.FAIL)],
)
def test_a_server_that_will_stop_soon_is_told_of(age: int, level: Level) -> None:
    assert freezing_saying(age, "on").level is level


# ---------------------------------------------------------------- the layouts, and the look itself


def test_the_layouts_on_file_are_what_the_migrations_make_on_every_server(
    sound_cluster: Cluster, tmp_path: Path
) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
    try:
        from postgres_layouts import FILE, layouts  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    on_file = json.loads(FILE.read_text("utf-8"))

    words_in_bodies = ("e", "h", "s", "c", "n", "r", "u", "row", "new", "old", "excluded")
    for schema in ("placet", "Other_1", *words_in_bodies):
        made = asyncio.run(layouts(sound_cluster.admin.database_url("postgres"), schema=schema))
        assert made == on_file, "run scripts/postgres_layouts.py --write"


async def test_no_look_walks_through_a_large_table(ward: Ward) -> None:
    bindings: dict[str, tuple[Any, ...]] = {
        "newest_writers": (1,), "end_of_writer": ("w", 1), "approvals_in_force": (1,), "unknown_since": (),
        "effects_of_pages": ("(0,0)", "(9,0)", 1), "expired_effects": (1,), "expired_reads": (1,), "oldest_waiting": (),
    }  # fmt: skip
    connection = await asyncpg.connect(ward.url, server_settings={"search_path": "placet", "enable_seqscan": "off"})
    try:
        for name, bound in bindings.items():
            plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {examining.EXAMINING[name]}", *bound))
            read = set(re.findall(r"Seq Scan on (\w+)", plan))
            assert read <= {"audit_heads"}, plan
    finally:
        await connection.close()


async def test_the_look_cannot_write(ward: Ward) -> None:
    with examining.examine(examining_address(ward)) as look, pytest.raises(placet.PlacetError):
        look._found("DELETE FROM placet.stops RETURNING scope")


def test_the_document_lists_the_checks_of_a_database_in_their_order() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "proof.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", text.split("### A PostgreSQL store")[1].split("\n## ")[0], re.M)
    shared = {check.id for check in checks_of(StoreKind.SQLITE)} - {"store_schema"}

    assert listed == [check.id for check in checks_of(StoreKind.POSTGRES) if check.id not in shared]


def test_the_command_says_the_same_and_shows_no_password(ward: Ward, tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text(
        f'[placet]\nstore = "{ward.url}"\nkey = "store.key"\ntools = "tools:TOOLS"\n', "utf-8"
    )
    (tmp_path / "tools.py").write_text("TOOLS = []\n", "utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "placet", "doctor", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip

    found = {each["id"]: each["level"] for each in json.loads(ran.stdout)["checks"]}
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert list(found) == [check.id for check in checks_of(StoreKind.POSTGRES)]
    assert tables.CHECKS and found["store_schema"] == "ok"
