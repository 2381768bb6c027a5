"""`placet verify` where the store is a database: scratch schemas beside the real ledger, which stays as it is."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import placet
from placet.adapters.stores.postgres import migrating
from placet.bootstrap import stores
from placet.bootstrap.scratch import ScratchDatabase
from placet.errors import ConfigurationError, StoreUnavailable
from placet.proof.verify import Guarantee, Verdict, verify
from tests.postgres.fixtures import Database
from tests.proof.test_verify import ALONE, IN_PROCESSES, ORIGIN, broken, drops_ends, lists_everybody
from tests.proof.verified_tools import get_order, place_order, ship, tag_order, wipe

PREFIX = "placet_verify_"


@pytest.fixture
def ledger(database: Database, tmp_path: Path) -> Database:
    """The real one, with something in it."""

    async def happened() -> None:
        async with placet.open(tools=[place_order], store=database.url, key=tmp_path / "real.key") as gate:
            await gate.submit(
                {"call_id": "c1", "tool": "place_order", "arguments": {}},
                principal=placet.Principal.agent("a", tenant="acme"), run="r",
            )  # fmt: skip

    asyncio.run(happened())
    return database


def scratch_schemas(database: Database) -> list[str]:
    found = database.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'placet\\_verify%' ORDER BY 1")
    return [str(row[0]) for row in found]


def real(database: Database) -> list[Any]:
    tables = ("placet_meta", "effects", "approvals", "audit_events", "audit_heads", "runs", "stops", "holds")
    rows = [database.fetch(f"SELECT xmin::text, t::text FROM placet.{name} t ORDER BY t::text") for name in tables]
    return [*rows, database.fetch("SELECT oid::int, relname::text FROM pg_class ORDER BY oid")]


def on(database: Database, *guarantees: Guarantee, tools: tuple[placet.Tool, ...], **changes: Any) -> Any:
    configuration = replace(ALONE, tools=tools, database=database.url, **changes)
    found = verify(configuration, only=frozenset(guarantees)).findings
    return {(each.scenario, each.tool): each for each in found}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_guarantee_holds_on_the_database_and_the_real_ledger_stays_as_it_is(ledger: Database) -> None:
    before = real(ledger)

    found = on(ledger, *Guarantee, tools=(wipe, get_order))

    assert broken(found) == set()
    unplayed = {scenario for (scenario, _), each in found.items() if each.verdict is Verdict.NOT_PLAYED}
    assert unplayed == IN_PROCESSES
    assert {guarantee for guarantee in Guarantee} == {
        each.guarantee for each in found.values() if each.verdict is Verdict.HELD
    }
    assert (real(ledger), scratch_schemas(ledger)) == (before, [])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_real_processes_race_and_die_in_the_database(ledger: Database) -> None:
    found = on(ledger, Guarantee.G6, Guarantee.G7, tools=(tag_order,), origin=ORIGIN)

    assert {found[scenario, "tag_order"].verdict for scenario in IN_PROCESSES} == {Verdict.HELD}, found
    assert broken(found) == set()
    assert scratch_schemas(ledger) == []


# ---------------------------------------------------------------- that it looks at the database it names


@pytest.mark.parametrize(
    ("change", "guarantee", "tool", "scenario"),
    [
        (drops_ends, Guarantee.G9, ship, "every_ending"),
        (lists_everybody, Guarantee.G12, place_order, "effects_of_another"),
    ],
)
def test_a_fault_of_the_database_store_is_seen(
    ledger: Database, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None], guarantee: Guarantee,
    tool: placet.Tool, scenario: str,
) -> None:  # fmt: skip
    original = stores.open_store

    def open_store(where: Any, **kwargs: Any) -> Any:
        assert str(where).startswith("postgresql://") and f"placet_schema={PREFIX}" in str(where)
        keys, store = original(where, **kwargs)
        change(store)
        return keys, store

    monkeypatch.setattr(stores, "open_store", open_store)
    assert scenario in broken(on(ledger, guarantee, tools=(tool,)))


def test_an_audit_that_is_changed_in_the_database_is_seen(ledger: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.proof.verify import scratch
    from placet.rules.chain_check import ChainReport

    async def blind(store: Any, keys: Any) -> ChainReport:
        events = len([event async for event in store.chained()])
        return ChainReport(writers=1, events=events, breaks=(), unpaired=0)

    monkeypatch.setattr(scratch, "verify_audit", blind)
    assert broken(on(ledger, Guarantee.G11, tools=(get_order,))) == {"altered", "deleted", "reordered", "cut_off"}


def test_what_lies_in_the_database_in_clear_is_seen(ledger: Database, tmp_path: Path) -> None:
    """Also in a column of bytes."""
    database = ScratchDatabase(ledger.url, label="00000000")

    async def texts() -> bytes:
        try:
            await database.make("scratch", tmp_path / "k")
            await database.change(
                "scratch", "INSERT INTO stop_notes VALUES ('s', 'a', 'b', 'tenant', 'zq-in-clear'::bytea)"
            )
            return await database.texts("scratch")
        finally:
            await database.drop()

    assert b"zq-in-clear" in asyncio.run(texts())


async def test_while_a_scratch_store_is_made_its_maker_s_loop_goes_on(ledger: Database, tmp_path: Path) -> None:
    """What the making waits for is let go by the very loop that asked for it."""
    database = ScratchDatabase(ledger.url, label="00000000")
    holder = await asyncpg.connect(ledger.url)
    try:
        await holder.execute("SELECT pg_advisory_lock($1)", migrating._MIGRATION_LOCK)
        making = asyncio.ensure_future(database.make("scratch", tmp_path / "k"))
        async with asyncio.timeout(30):
            while not making.done() and not await holder.fetch("SELECT FROM pg_locks WHERE NOT granted"):
                pass
        await holder.execute("SELECT pg_advisory_unlock_all()")
        assert (await making).endswith(database.made["scratch"])
    finally:
        await database.drop()
        await holder.close()


# ---------------------------------------------------------------- what it makes, and that it goes


DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from placet.bootstrap.scratch import ScratchDatabase
async def main():
    database = ScratchDatabase(sys.argv[1], label="0123abcd")
    await database.make("scratch", Path(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_what_a_run_left_that_was_killed_goes_with_the_next_run_after_an_hour(ledger: Database, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", DYING, ledger.url, str(tmp_path / "k")], check=False, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    (left,) = scratch_schemas(ledger)
    assert re.fullmatch(r"placet_verify_[0-9]{10}_0123abcd_scratch", left)

    on(ledger, Guarantee.G1, tools=(ship,))
    assert scratch_schemas(ledger) == [left], "it may be that of a run that goes on"

    since = int(left.split("_")[2])
    old = left.replace(str(since), str(since - 3_700))
    ledger.execute(f"ALTER SCHEMA {left} RENAME TO {old}")
    on(ledger, Guarantee.G1, tools=(ship,))
    assert scratch_schemas(ledger) == []


def test_schemas_that_only_look_like_it_are_left_alone(ledger: Database) -> None:
    ledger.execute(
        "CREATE SCHEMA placet_verify_1000000000_0123abcd_mine",
        "CREATE SCHEMA placet_verify_notes",
        "COMMENT ON SCHEMA placet_verify_notes IS 'placet verify: scratch, may be dropped'",
        'CREATE SCHEMA "placet_verify_1000000000_0123abcd X"',
        """COMMENT ON SCHEMA "placet_verify_1000000000_0123abcd X" IS 'placet verify: scratch, may be dropped'""",
    )
    on(ledger, Guarantee.G1, tools=(ship,))
    assert scratch_schemas(ledger) == [
        "placet_verify_1000000000_0123abcd X",
        "placet_verify_1000000000_0123abcd_mine",
        "placet_verify_notes",
    ]


def test_what_another_role_made_is_left_alone_also_by_a_superuser(ledger: Database) -> None:
    """Nobody else's: what others may make must neither be dropped nor stop a run."""
    role, planted = f"planter_{ledger.name}", "placet_verify_1000000000_0123abcd_theirs"
    ledger.execute(
        f"CREATE ROLE {role} LOGIN",
        f"CREATE SCHEMA {planted} AUTHORIZATION {role}",
        f"COMMENT ON SCHEMA {planted} IS 'placet verify: scratch, may be dropped'",
    )
    try:
        on(ledger, Guarantee.G1, tools=(ship,))
        assert scratch_schemas(ledger) == [planted]
    finally:
        ledger.execute(f"DROP SCHEMA IF EXISTS {planted}", f"DROP ROLE {role}")


async def test_nothing_else_than_a_scratch_schema_is_ever_touched(ledger: Database) -> None:
    database = ScratchDatabase(ledger.url, label="0123abcd")
    database.made["scratch"] = "placet"
    for work in (database.drop, lambda: database.later(1.0), lambda: database.change("scratch", "DELETE FROM effects")):
        with pytest.raises(ConfigurationError):
            await work()
    assert ledger.fetch("SELECT count(*) FROM placet.audit_heads WHERE sequence > 0") == [(1,)]


async def test_scratch_stores_share_no_lock_with_the_real_one(ledger: Database, tmp_path: Path) -> None:
    database = ScratchDatabase(ledger.url, label="0123abcd")
    try:
        await database.make("scratch", tmp_path / "k")
        (theirs,) = await database._fetch(database.made["scratch"], "SELECT writing_lock()")
        assert theirs[0] != ledger.fetch("SELECT placet.writing_lock()")[0][0]
    finally:
        await database.drop()


def test_who_may_make_no_schema_is_told_so_and_nothing_is_proven(ledger: Database) -> None:
    role = f"poor_{ledger.name}"
    ledger.execute(f"CREATE ROLE {role} LOGIN")
    url = ledger.url.replace("postgres@", f"{role}@")
    try:
        with pytest.raises(ConfigurationError, match="no scratch schema") as refused:
            verify(replace(ALONE, tools=(ship,), database=url))
        assert "GRANT CREATE ON DATABASE" in refused.value.hint
        assert refused.value.__cause__ is None and refused.value.__context__ is None
    finally:
        ledger.execute(f"DROP ROLE {role}")
    with pytest.raises(StoreUnavailable):
        verify(replace(ALONE, tools=(ship,), database="postgresql://mara:s3cret@127.0.0.1:1/ledger"))


LOOK = """
import placet


@placet.tool(effect='read', risk='low')
async def look(name: str) -> str:
    return name


TOOLS = [look]
"""


@pytest.mark.timeout(300)
def test_the_command_proves_on_the_database_that_the_configuration_names(ledger: Database, tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text(
        f'[placet]\nstore = "{ledger.url}"\nkey = "real.key"\ntools = "tools:TOOLS"\n', "utf-8"
    )
    (tmp_path / "tools.py").write_text(LOOK, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "placet", "verify", "--only", "G2", "--only", "G11", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip

    told = json.loads(ran.stdout)
    assert (ran.returncode, told["counts"]["broken"], told["scratch"]) == (0, 0, "postgresql"), ran.stdout + ran.stderr
    assert told["counts"]["held"] >= 9
    assert f"Scratch schemas named {PREFIX}... are made in postgresql://" in ran.stderr
    assert scratch_schemas(ledger) == []
