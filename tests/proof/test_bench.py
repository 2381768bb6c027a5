"""`placet bench` on a tiny run: what it prints, counts and compares. Its times are nobody's business here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from placet.proof import slow_disk, workloads
from placet.proof.bench import ROWS, main

TINY = ("--rounds", "1", "--seconds", "0.05", "--memory-calls", "1000", "--growth", "1000")


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != slow_disk.SLOWED_BY}
    return subprocess.run(
        [sys.executable, "-m", "placet.proof.bench", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def tiny() -> subprocess.CompletedProcess[str]:
    return bench(*TINY, "--json", "-")


@pytest.fixture(scope="module")
def document(tiny: subprocess.CompletedProcess[str]) -> dict:
    return json.loads(tiny.stdout)


def test_every_row_is_measured_or_says_why_not(tiny, document):
    assert tiny.returncode == 0, tiny.stderr
    assert document["schema"] == "bench/1"
    assert document["rows"].keys() | document["missing"].keys() == {row.name for row in ROWS}
    assert not document["rows"].keys() & document["missing"].keys()
    assert document["missing"].keys() <= {"help", "help_to_python"}
    for name, row in document["rows"].items():
        assert row["min"] <= row["median"] <= row["max"]
        assert row["min"] > 0 or name == "write_memory"


def test_a_lone_write_makes_exactly_two_durable_commits(document):
    commits = document["rows"]["write_1_commits"]
    assert (commits["min"], commits["median"], commits["max"]) == (2.0, 2.0, 2.0)


def test_writes_of_many_callers_share_their_commits(document):
    assert document["rows"]["write_64_commits"]["max"] < 1.0


def test_writes_on_sqlite_leave_nothing_in_memory(document):
    """An event alone is a kilobyte, so whoever kept one of each call would gain thousands of bytes per call."""
    assert document["rows"]["write_memory"]["median"] < 1_000
    assert document["mode"]["memory_calls"] == 1000


def test_a_ledger_that_has_grown_is_measured_beside_a_young_one(tiny, document):
    grown = document["growth"]
    assert (grown["effects"], grown["events"], document["mode"]["growth_effects"]) == (1000, 4000, 1000)
    assert document["rows"]["growth_write"]["median"] == grown["rows"]["governed write"]["ratios"][0]
    assert document["rows"]["growth_worst_look"]["rounds"] == 1
    assert f"    {grown['worst_look']}: " in tiny.stderr


@pytest.mark.exhaustive  # another run of everything
def test_a_ledger_that_cannot_grow_leaves_what_was_measured_before_it(tmp_path):
    """A file may be no larger than a young ledger is."""
    limited = ["prlimit", "--fsize=24000000", sys.executable, "-m", "placet.proof.bench", *TINY, "--growth", "10000"]
    run = subprocess.run(
        [*limited, "--where", str(tmp_path), "--json", "-"], capture_output=True, text=True, timeout=280, check=False
    )

    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["growth"] is None
    assert document["rows"]["write_1_commits"]["median"] == 2.0
    why = document["missing"]["growth_write"]
    assert why == document["missing"]["growth_worst_look"] and "the disk did not take the rows" in why
    assert why in run.stderr, "people read it too"
    assert list(tmp_path.iterdir()) == []


def test_memory_that_nobody_can_tell_is_named_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "_RESIDENT", tmp_path / "nothing")
    with pytest.raises(workloads.NotMeasured, match="does not tell"):
        workloads.memory_per_write(tmp_path / "no-such-folder", calls=1)
    monkeypatch.undo()
    with pytest.raises(workloads.NotMeasured, match="the process failed"):
        workloads.memory_per_write(tmp_path / "no-such-folder", calls=1)


def test_the_run_says_where_and_how_it_measured(tiny, document):
    mode = document["mode"]
    assert (mode["fsync_added_us"], mode["rounds"], mode["seconds"]) == (0, 1, 0.05)
    assert Path(mode["where"]).is_dir()
    assert f"Files on {mode['file_system']} in {mode['where']}; fsync as it is" in tiny.stderr
    assert tiny.stderr.index("Ratios") < tiny.stderr.index("On this machine")


@pytest.mark.exhaustive  # another run of everything
def test_compare_sets_each_row_beside_the_stored_run_and_flags_a_tenth(document, tmp_path):
    stored = json.loads(json.dumps(document))
    stored["rows"]["write_1_commits"]["median"] = 4.0
    file = tmp_path / "stored.json"
    file.write_text(json.dumps(stored))

    again = bench(*TINY, "--compare", str(file))

    assert again.returncode == 0, again.stderr
    lines = {line.strip().split("  ")[0]: line for line in again.stdout.splitlines() if line.strip()}
    assert lines["durable commits per write, 1 caller"].endswith("  0.50  !")
    assert "now : stored" in again.stdout


@pytest.mark.exhaustive  # another run of everything
def test_fsync_is_slowed_by_as_much_as_was_asked_for(tmp_path):
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    run = bench(*TINY, "--fsync-us", "2000", "--where", str(tmp_path), "--json", "-")

    mode = json.loads(run.stdout)["mode"]
    assert (mode["fsync_added_us"], mode["where"]) == (2000, str(tmp_path))
    assert mode["fsync_measured_us"] >= 2000  # at least: a sleep never ends early
    assert "fsync with 2000 us added" in run.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--no-such-option",),
        ("stray",),
        ("--rounds", "0"),
        ("--rounds", "many"),
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--seconds", "long"),
        ("--memory-calls", "0"),
        ("--growth", "999"),
        ("--growth", "many"),
        ("--fsync-us", "0"),
        ("--where", "/no/such/folder"),
    ],
)
def test_options_that_make_no_sense_end_with_2(options, capsys):
    assert main(options) == 2
    assert "usage: placet bench" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"schema": "bench/1", "rows": {"x": 1}, "mode": {}}'])
def test_a_stored_run_that_is_none_is_refused_before_measuring(content, tmp_path, capsys):
    file = tmp_path / "stored.json"
    if content is not None:
        file.write_text(content)

    assert main([*TINY, "--compare", str(file)]) == 1
    assert "holds no run of placet bench" in capsys.readouterr().err


def test_no_compiler_is_said_and_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.delenv(slow_disk.SLOWED_BY, raising=False)
    monkeypatch.setenv("PATH", "")

    assert main([*TINY, "--fsync-us", "1000"]) == 1
    said = capsys.readouterr()
    assert (said.out, "there is no C compiler" in said.err) == ("", True)


def test_the_file_system_of_a_folder_is_found_by_its_deepest_mount():
    assert slow_disk.file_system(Path("/proc/self")) == "proc"
