"""`placet bench --postgres` on a tiny run beside a real pgbench: what it sends, counts and says. No time is judged."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from placet.adapters.stores.postgres import connection
from placet.proof import bench_postgres, private_server, slow_disk, workloads
from placet.proof.bench import main
from placet.proof.pgbench import reference, server
from placet.proof.pgbench.server import schema_of_its_own
from placet.proof.private_server import NoServer
from tests.places import for_sockets

has_compiler = shutil.which("gcc") is not None or shutil.which("cc") is not None
pytestmark = pytest.mark.skipif(not has_compiler, reason="needs a C compiler")
TINY = ("--postgres", "private", "--rounds", "1", "--seconds", "3", "--growth", "1000")
of_every_row = pytest.mark.exhaustive
"""Two processors are busy for half a minute; what a row is made of is tried below, on samples."""
MADE_DISTINCT = {"operation_key", "run_id", "call_id", "token", "created_at", "updated_at"}


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    with server.opened("private", folder=for_sockets(), fsync_us=1) as found:
        yield found


@pytest.fixture(scope="module")
def document():
    run = subprocess.run(
        [sys.executable, "-m", "placet.proof.bench", *TINY, "--json", "-"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr.index("Ratios") < run.stderr.index("On this machine")
    return json.loads(run.stdout)


@of_every_row
def test_every_row_is_measured_on_a_server_that_keeps_its_promises(document):
    assert document["schema"] == "bench/1"
    assert document["rows"].keys() == {row.name for row in bench_postgres.ROWS}
    assert all(0 < row["min"] <= row["median"] <= row["max"] for row in document["rows"].values())
    mode = document["mode"]
    assert (mode["fsync"], mode["synchronous_commit"], mode["full_page_writes"]) == ("on", "on", "on")
    assert (mode["fsync_added_us"], mode["rounds"], mode["seconds"]) == (1_000, 1, 3)


@of_every_row
def test_a_ledger_that_has_grown_is_measured_on_the_same_server(document):
    grown = document["growth"]
    assert (grown["effects"], grown["events"], document["mode"]["growth_effects"]) == (1000, 4000, 1000)
    assert document["rows"]["growth_write"]["median"] == grown["rows"]["governed write"]["ratios"][0]


@of_every_row
def test_a_lone_write_is_two_transactions_for_the_store_and_for_the_server(document):
    assert document["rows"]["write_postgres_1_commits"]["median"] == 2.0
    calls = document["rows"]["write_postgres_1_rate"]["median"] * document["mode"]["seconds"]
    beyond = (document["rows"]["write_postgres_1_transactions"]["median"] - 2.0) * calls
    assert -0.01 <= beyond < 50  # the server's own are among them


@of_every_row
def test_writes_of_many_callers_share_their_transactions(document):
    assert document["rows"]["write_postgres_64_commits"]["max"] < 1.0
    assert document["rows"]["write_postgres_64_transactions"]["max"] < 1.0


@of_every_row
def test_compare_finds_the_rows_of_a_stored_run(document, tmp_path, capsys, monkeypatch):
    stored = json.loads(json.dumps(document))
    stored["rows"]["write_postgres_1_commits"]["median"] = 4.0
    file = tmp_path / "stored.json"
    file.write_text(json.dumps(stored))
    monkeypatch.setattr(bench_postgres, "measure", lambda *_, **__: document)

    assert main([*TINY, "--compare", str(file)]) == 0

    lines = {line.strip().split("  ")[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["durable commits per write, 1 caller"].endswith("  0.50  !")


def test_pgbench_leaves_what_a_governed_write_leaves(private, tmp_path):
    """Row by row and column by column, but for what is each call's own."""
    with schema_of_its_own(private, "bench_same") as schema:
        workloads.one_governed_write(private.address(schema), key=tmp_path / "key")
        script = reference._filled("same.sql", reference._values(private, schema))
        private.ask(reference._WRITERS.format(last=1), schema=schema)
        reference._run(private, schema, script, 2, 1, reference.STORE_SETTINGS, left_before=1)
        rows = json.loads(private.ask("SELECT json_agg(e ORDER BY created_at) FROM effects e;", schema=schema))
        bodies = private.ask("SELECT DISTINCT body FROM audit_events;", schema=schema).splitlines()
        runs = private.ask("SELECT sum(steps), count(*) FROM runs;", schema=schema)
        heads = private.ask("SELECT sum(sequence), sum(commits) FROM audit_heads;", schema=schema)

    ours, theirs = rows[0], rows[1:]
    assert len(theirs) > 2
    assert {name for row in theirs for name in row if row[name] != ours[name]} <= MADE_DISTINCT
    assert len({(row["operation_key"], row["token"]) for row in rows}) == len(rows)
    assert len(bodies) == 2
    assert runs == f"{len(rows)}|{len({row['run_id'] for row in rows})}"
    assert heads == f"{2 * len(rows)}|{2 * len(rows)}"


def test_pgbench_runs_in_sessions_that_are_set_as_the_stores_are():
    settings = {**connection._SERVER_SETTINGS}
    del settings["application_name"]
    assert {name: value.replace("\\", "") for name, value in reference.STORE_SETTINGS.items()} == settings


def test_calls_that_pgbench_says_it_made_and_did_not_make_are_no_measurement(private):
    """And the schema is gone afterwards all the same."""
    with schema_of_its_own(private, "bench_lost") as schema:
        private.ask(reference._text("plain_tables.sql"), schema=schema)
        with pytest.raises(workloads.NotMeasured, match=r"says that it made \d+ calls, and 0 are there"):
            reference._run(private, schema, "SELECT 1;", 1, 1, {}, left_before=0)
    assert private.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'bench_lost';") == "0"


@pytest.mark.parametrize(
    ("calls", "seconds"), [(99, 3.0), (100, 3.0), (500, 1.9), (500, 2.24)],
)  # fmt: skip
def test_what_is_left_of_a_run_after_its_warm_up_is_a_rate_above_zero_or_none(calls, seconds):
    with pytest.raises(workloads.NotMeasured, match=r"too short to measure.*--seconds"):
        reference.after_warm_up(calls=calls, seconds=seconds, warm_calls=100, warm_seconds=2.0)
    left = reference.after_warm_up(calls=101, seconds=2.25, warm_calls=100, warm_seconds=2.0)
    assert (left.calls, left.seconds) == (1, 0.25)


def test_a_sample_that_could_not_be_measured_takes_its_own_rows_and_ratios_with_it_and_no_others(private):
    values = {row.name: [] for row in bench_postgres.ROWS}
    missing = {}
    plain = bench_postgres._plain(private, 1, 1, values)
    lost = bench_postgres._Sample(rows=("pgbench_1_rate",), take=_nothing_is_measured)
    for sample in (plain, lost, lost):
        bench_postgres._take(sample, values, missing)
    for name in ("write_postgres_1_rate", "write_postgres_64_rate", "plain_64_rate", "pgbench_64_rate"):
        values[name].append(10.0)
    bench_postgres._compare(values, missing)

    assert missing == {"pgbench_1_rate": "too short", "write_postgres_1_to_pgbench_1": "too short"}
    assert values["pgbench_1_rate"] == values["write_postgres_1_to_pgbench_1"] == []
    assert values["write_postgres_1_to_plain_1"] == [10.0 / values["plain_1_rate"][0]]
    assert values["write_postgres_64_to_pgbench_64"] == [1.0]


def _nothing_is_measured():
    raise workloads.NotMeasured("too short")


def test_a_password_stands_in_no_command(private):
    there = server.BenchServer(
        url="postgresql://me:w%40rd@db:5433/there?placet_schema=old&connect_timeout=3", folder=None, fsync_added_us=None
    )
    assert there.database == "postgresql://me@db:5433/there?connect_timeout=3"
    assert there.environment("mine")["PGPASSWORD"] == "w@rd"
    assert there.address("mine") == "postgresql://me:w%40rd@db:5433/there?connect_timeout=3&placet_schema=mine"


def test_a_value_is_written_without_what_pgbench_takes_for_a_variable(private):
    value = 'it\'s :1 \\ "a":true'
    assert ":" not in reference._literal(value)
    assert private.ask(f"SELECT {reference._literal(value)};") == value


@pytest.mark.parametrize("missing", ["programs", "compiler"])
def test_what_is_missing_is_said_and_nothing_is_measured(missing, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv(slow_disk.SLOWED_BY, raising=False)
    if missing == "programs":
        monkeypatch.setattr(private_server, "_NEEDED", ("no-such-program",))
    else:
        monkeypatch.setenv("PATH", "")

    assert main(TINY) == 1
    said = capsys.readouterr()
    words = "there are no PostgreSQL programs" if missing == "programs" else "there is no C compiler"
    assert (said.out, words in said.err) == ("", True)


def test_a_server_that_does_not_answer_is_said(capsys):
    assert main(["--postgres", "postgresql://nobody@/none?host=/no/such/folder", "--rounds", "1"]) == 1
    assert "--postgres cannot be had here" in capsys.readouterr().err


def test_a_folder_too_deep_for_a_socket_is_refused(tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with (
        pytest.raises(NoServer, match="too long for a server's socket"),
        server.opened("private", folder=deep, fsync_us=1),
    ):
        pass
    assert os.listdir(deep) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--postgres", "public"),
        ("--postgres", "mysql://x"),
        ("--postgres", "postgresql://x@/y", "--fsync-us", "5"),
        ("--postgres", "postgresql://x@/y", "--where", "/tmp"),
    ],
)
def test_options_that_make_no_sense_end_with_2(options, capsys):
    assert main(options) == 2
    assert "usage: placet bench" in capsys.readouterr().err
