"""Chaos on a PostgreSQL server of its own, which is killed, shut down and restarted under load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from placet.proof import private_server
from placet.proof.chaos import ChaosPlan, ChaosReport, Reckoning, Row, Sabotage, Steps, run_chaos
from placet.proof.chaos.database import CommandedDatabase, OwnDatabase, Takedown, own_database
from placet.proof.chaos.herd import ChaosFailed
from placet.proof.chaos.slots import Load
from placet.proof.chaos.supervisor import Supervisor
from placet.proof.private_server import NoServer
from tests.places import for_sockets

LENGTHS: dict[str, dict[str, Any]] = {
    "short": {"kills": 8, "seconds": 100.0, "workers": 3},
    "long": {"kills": 10_000, "seconds": 60.0, "workers": 8},
}
"""As little as shows anything, however long that takes; and as much as 60 seconds hold."""
OF_OUR_OWN = {Takedown.KILLED, Takedown.QUIT, Takedown.RESTARTED}


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, OwnDatabase]]:
    with own_database(for_sockets()) as found:
        yield found


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.req("C044", "C045", "H042", "X001")
@pytest.mark.case("H01")
@pytest.mark.parametrize("length", ["short", pytest.param("long", marks=pytest.mark.exhaustive)])
async def test_while_the_database_dies_too_nothing_acts_twice_and_nothing_is_lost(
    own: tuple[str, OwnDatabase], tmp_path: Path, length: str
) -> None:
    url, database = own
    plan = ChaosPlan(
        store=url,
        key=str(tmp_path / "chaos.key"),
        operations=60,
        steps=Steps.RANDOM,
        seed=3,
        database=database,
        restart_every_seconds=3.0,
        **LENGTHS[length],
    )

    report = await run_chaos(plan)

    total = report.reckoning.total
    assert (total.acted_twice, total.lost, total.orphans, total.still_unknown) == (0, 0, 0, 0)
    assert report.reckoning.breaks == 0 and report.is_clean
    assert total.acted_once > 5 and report.load.kills >= 2
    assert set(report.load.outages) & OF_OUR_OWN
    rows = {row.name: row for row in report.rows}
    assert all(rows[name].times == count for name, count in report.load.outages.items())
    assert report.as_data()["outages"] == dict(report.load.outages)
    assert url not in json.dumps(report.as_data())


async def test_what_was_committed_is_there_after_every_outage_and_what_was_not_is_not(
    own: tuple[str, OwnDatabase],
) -> None:
    url, database = own
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE kept (n int)")
    await connection.close()

    for number, takedown in enumerate(database.takedowns):
        connection = await asyncpg.connect(url)
        await connection.execute("INSERT INTO kept VALUES ($1)", number)
        open_one = connection.transaction()
        await open_one.start()
        await connection.execute("INSERT INTO kept VALUES (-1)")
        assert await database.suffer(takedown)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.execute("SELECT 1")
        connection.terminate()
        again = await asyncpg.connect(url)
        assert [row[0] for row in await again.fetch("SELECT n FROM kept ORDER BY n")] == list(range(number + 1))
        await again.close()
    assert set(database.takedowns) == OF_OUR_OWN


async def test_a_command_that_fails_is_no_outage() -> None:
    assert await CommandedDatabase("exit 0").suffer(Takedown.BY_COMMAND)
    assert not await CommandedDatabase("exit 3").suffer(Takedown.BY_COMMAND)


async def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    began = tmp_path / "began"
    os.mkfifo(began)
    command = f"sleep 1000 & echo $$ > {began}; wait"

    suffering = asyncio.create_task(CommandedDatabase(command, within_seconds=5.0).suffer(Takedown.BY_COMMAND))
    group = int(await asyncio.to_thread(began.read_text))
    with pytest.raises(NoServer, match="has not come to an end"):
        await suffering

    async with asyncio.timeout(30):
        while is_alive(group):
            await asyncio.sleep(0.01)


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_that_does_not_end_by_itself_is_killed(
    own: tuple[str, OwnDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_server, "_END_SECONDS", 0.1)
    server = own[1]._server
    os.kill(server._process.pid, signal.SIGSTOP)

    server.stop()

    assert server._process.returncode == -signal.SIGKILL


class Gone:
    """A database that does not come back."""

    takedowns = (Takedown.KILLED,)

    async def suffer(self, takedown: Takedown) -> bool:
        raise NoServer("it is gone")


async def test_a_database_that_does_not_come_back_ends_the_run_at_once(tmp_path: Path) -> None:
    plan = ChaosPlan(
        store=str(tmp_path / "chaos.db"), kills=10_000, seconds=10_000.0, workers=1, steps=Steps.RANDOM,
        database=Gone(), restart_every_seconds=0.1,
    )  # fmt: skip

    async with asyncio.timeout(100):
        with pytest.raises(ChaosFailed, match="did not come back"):
            await run_chaos(plan)


class Restarted:
    """A database that serves all the time, and counts what is done to it."""

    takedowns = (Takedown.BY_COMMAND,)

    def __init__(self) -> None:
        self.times = 0

    async def suffer(self, takedown: Takedown) -> bool:
        self.times += 1
        return self.times > 1


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_the_load_does_not_end_before_the_database_has_been_taken_down(tmp_path: Path) -> None:
    database = Restarted()
    plan = ChaosPlan(
        store=str(tmp_path / "chaos.db"), kills=1, seconds=100.0, workers=1, steps=Steps.RANDOM,
        database=database, restart_every_seconds=3.0,
    )  # fmt: skip

    report = await run_chaos(plan)

    assert report.load.outages == {Takedown.BY_COMMAND: 1}
    assert database.times == 2, "the first time it was not done, and does not count"


async def test_faults_count_again_once_the_database_is_back_however_that_ended() -> None:
    supervisor = Supervisor(
        ChaosPlan(store="chaos.db", database=Gone(), restart_every_seconds=0.01), port=1, folder=Path("/none")
    )

    with pytest.raises(ChaosFailed):
        await supervisor._outages_now_and_then()

    assert not supervisor._is_down


def test_chaos_needs_no_programs_of_a_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in private_server._NEEDED:
        (folder / name).symlink_to(private_server.binaries() / name)
    monkeypatch.setattr(private_server, "find_spec", lambda name: None)
    monkeypatch.setattr(private_server, "_DISTRIBUTIONS", ())
    monkeypatch.setenv("PATH", str(folder))

    assert private_server.binaries() == folder
    with pytest.raises(NoServer, match="psql, pgbench"):
        private_server.binaries(("psql", "pgbench"))


def a_report(plan: ChaosPlan, total: Row) -> ChaosReport:
    reckoning = Reckoning(rows=(), total=total, breaks=0, events=0, writers=0, settled_seconds=0.0)
    return ChaosReport(plan=plan, load=Load(), reckoning=reckoning)


def test_a_sabotaged_run_is_never_clean_and_says_where_nothing_was_seen_of_it() -> None:
    honest = ChaosPlan(store="chaos.db")
    sabotaged = replace(honest, sabotage=Sabotage.LATE_REMOTE)
    clean, dirty = Row(name="in sum", acted_once=9), Row(name="in sum", acted_twice=1)

    found = [a_report(plan, total) for plan in (honest, sabotaged) for total in (clean, dirty)]

    assert [report.is_clean for report in found] == [True, False, False, False]
    assert [report.is_sabotage_unseen for report in found] == [False, False, True, False]
    verdicts = [report.lines()[-1] for report in found]
    assert verdicts[0].startswith("Nothing acted twice")
    assert verdicts[1] == verdicts[3] == "NOT CLEAN: see the last columns."
    assert verdicts[2].startswith("THE SABOTAGE WAS NOT SEEN")
    assert [(report.as_data()["clean"], report.as_data()["sabotage_unseen"]) for report in found] == [
        (True, False), (False, False), (False, True), (False, False),
    ]  # fmt: skip


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("placet")), "chaos", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_never_ends_with_0_where_something_was_broken_on_purpose() -> None:
    """In a second nothing of it may be seen."""
    ran = chaos("--kills", "1", "--seconds", "1", "--workers", "1", "--steps", "random", "--sabotage", "late-remote")

    assert ran.returncode == 1, ran.stderr
    assert "Nothing acted twice" not in ran.stdout


@pytest.mark.parametrize("place", [(), ("--postgres", "private")])
def test_a_key_that_nothing_would_use_is_refused(place: tuple[str, ...]) -> None:
    ran = chaos("--key", "mine.key", *place)

    assert ran.returncode == 2
    assert "--key is for the store that --store names" in ran.stderr


@pytest.mark.parametrize("other", [("--restart-command", "true"), ("--store", "x.db")])
def test_a_server_of_its_own_goes_with_no_other(other: tuple[str, ...]) -> None:
    ran = chaos("--postgres", "private", *other)

    assert ran.returncode == 2
    assert "brings a server of its own" in ran.stderr


def test_without_programs_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.proof.private_server._NEEDED", ("no-such-program",))

    with tempfile.TemporaryDirectory(dir=for_sockets()) as folder:
        with pytest.raises(NoServer, match="no PostgreSQL programs"), own_database(Path(folder)):
            pass
        assert list(Path(folder).iterdir()) == []
