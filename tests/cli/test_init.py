"""`placet init`: a project that runs, nothing overwritten, keys guarded."""

import os
import pwd
import stat
import subprocess
import sys
import tomllib

import pytest

MADE = ["placet.toml", "tools.py", "test_tools.py", ".gitignore", "placet.db", "placet.db.key"]


def test_init_makes_a_project_that_runs_to_the_end(bare) -> None:
    made = bare.run("init", "sub", "--json")
    assert made.code == 0, made
    assert made.data == {"schema": "init/1", "made": [str(bare.folder / "sub" / name) for name in MADE]}
    bare.folder = bare.folder / "sub"

    assert stat.S_IMODE((bare.folder / "placet.db.key").stat().st_mode) == 0o600
    me = pwd.getpwuid(os.getuid()).pw_name
    people = tomllib.loads((bare.folder / "placet.toml").read_text())["people"]
    assert people[me]["scopes"] == [
        "approvals.decide",
        "audit.read",
        "effects.read",
        "effects.reconcile",
        "ops.stop",
    ]

    note = ["--tool", "add_note", "--args", '{"title": "milk", "text": "two bottles"}', "--run", "first"]
    assert bare.run("tools", "lint", "--strict").code == 0
    assert bare.run("call", "--tool", "list_notes", "--json").data["result"] == []
    asked = bare.run("call", *note, "--json")
    assert asked.code == 5
    assert bare.approved(asked.data["approval_id"]).code == 0
    assert bare.run("call", *note, "--json").data["status"] == "succeeded"
    assert bare.run("call", *note, "--json").data["status"] == "replayed"
    assert bare.run("call", "--tool", "list_notes", "--json").data["result"] == ["milk"]
    assert bare.run("audit", "verify").code == 0


def test_the_test_that_init_writes_passes(bare) -> None:
    assert bare.run("init").code == 0
    run = subprocess.run(
        [sys.executable, "test_tools.py"], cwd=bare.folder, capture_output=True, text=True, check=False, timeout=60
    )

    assert (run.returncode, run.stdout) == (0, "ok\n"), run.stderr


def test_next_steps_are_talk_and_paths_are_data(bare) -> None:
    ran = bare.run("init")

    assert [line.split("  ")[0] for line in ran.out.splitlines()] == ["made"] * len(MADE)
    assert "placet approvals list" in ran.err
    assert bare.run("init", "other", "--quiet").err == ""


@pytest.mark.parametrize("name", ["placet.toml", "tools.py", "test_tools.py", "placet.db", "placet.db.key"])
def test_init_overwrites_nothing_and_makes_nothing_then(bare, name: str) -> None:
    (bare.folder / name).write_text("mine")
    ran = bare.run("init", "--json")

    assert ran.code == 2
    assert ran.data["code"] == "exists"
    assert [path.name for path in bare.folder.iterdir()] == [name]
    assert (bare.folder / name).read_text() == "mine"


def test_an_existing_gitignore_stays(bare) -> None:
    (bare.folder / ".gitignore").write_text("mine\n")

    assert bare.run("init").code == 0
    assert (bare.folder / ".gitignore").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_told(bare) -> None:
    (bare.folder / "file").write_text("")
    ran = bare.run("init", "file/sub", "--json")

    assert ran.code == 1
    assert ran.data["code"] == "store_not_writable"
    assert ran.data["hint"]


def test_store_only_makes_the_store_that_the_settings_name_and_never_replaces_a_lost_one(project) -> None:
    (project.folder / "placet.db").unlink()
    for rest in ("placet.db-wal", "placet.db-shm"):
        (project.folder / rest).unlink(missing_ok=True)
    key = (project.folder / "placet.db.key").read_bytes()

    for words in (("approvals", "list"), ("effects", "list"), ("audit", "verify"), ("keys", "list")):
        told = project.run(*words, "--json")
        assert (told.code, told.data["code"]) == (1, "store_lost")
        condition, advice, _ = told.data["hint"].partition("placet init --store-only --new-ledger")
        assert advice and "backup" in condition and "nothing was ever done under this key" in condition
    lost = project.run("init", "--store-only", "--json")
    assert (lost.code, lost.data["code"]) == (1, "store_lost")
    assert (project.folder / "placet.db.key").read_bytes() == key

    (project.folder / "placet.db.key").unlink()
    made = project.run("init", "--store-only", "--json")
    assert made.code == 0
    assert (project.folder / "placet.db").exists()
    assert project.run("init", "--store-only", "--json").data["code"] == "exists"
    assert project.run("init", "x", "--store-only").code == 2


def test_a_key_that_is_there_before_its_store_needs_a_word_wherever_it_is_kept(project) -> None:
    """A path that was mistyped would be an empty ledger, and everything could be done again."""
    elsewhere = ("--store", "other.db", "--key", "placet.db.key")
    for words in (("effects", "list"), ("call", "--tool", "look"), ("init", "--store-only")):
        told = project.run(*words, *elsewhere, "--json")
        assert (told.code, told.data["code"]) == (1, "store_lost"), words
        assert not (project.folder / "other.db").exists()
    doctor = project.run("doctor", *elsewhere)
    assert doctor.code != 0 and "nothing was ever done under this key" in doctor.out

    assert project.run("init", "--store-only", "--new-ledger", *elsewhere).code == 0
    assert project.run("effects", "list", *elsewhere).code == 0


def test_a_new_ledger_is_no_word_for_a_new_project(bare) -> None:
    ran = bare.run("init", "--new-ledger")
    assert (ran.code, "--store-only" in ran.err, list(bare.folder.iterdir())) == (2, True, [])


def test_a_store_that_a_new_project_would_not_get_is_refused_and_nothing_is_made(bare) -> None:
    """It would be believed to be in the database, and lie in a file."""
    for words in (("--store", "postgresql://mara:s3cret@db/ledger"), ("--store", "other.db"), ("--key", "other.key")):
        ran = bare.run("init", "x", *words)
        assert (ran.code, "--store-only" in ran.err, "s3cret" in ran.err + ran.out) == (2, True, False), words
        assert not (bare.folder / "x").exists()


def test_a_store_that_the_environment_names_is_said_to_win_over_the_new_project(bare) -> None:
    ran = bare.run("init", "x", PLACET_STORE="elsewhere.db")

    assert ran.code == 0
    assert "PLACET_STORE" in ran.err
