"""`placet doctor` as an operator runs it: its lines, documents and exit codes, and a folder that stays as it is."""

import os
import shutil
from pathlib import Path

import pytest

from placet.proof.doctor import checks_of
from placet.proof.doctor.checks import StoreKind

OF_THE_MACHINE = {"store_file_system", "store_space"}
"""What these say depends on where the tests run."""


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def sound(bare):
    """What `placet init` makes."""
    assert bare.run("init").code == 0
    bare.environment["PYTHONDONTWRITEBYTECODE"] = ""  # whatever Python would write of itself, it may
    return bare


def test_a_fresh_project_is_green_and_nothing_of_it_changes(sound) -> None:
    before = contents(sound.folder)

    for words in ((), ("--deep",), ("--strict",)):
        ran = sound.run("doctor", *words)

        lines = [line.split()[:2] for line in ran.out.splitlines() if not line.startswith(" ")]
        assert [id for _, id in lines] == [check.id for check in checks_of(StoreKind.SQLITE)]
        assert [id for level, id in lines if level != "ok" and id not in OF_THE_MACHINE] == []
        assert ran.code == 0 or "--strict" in words
    assert contents(sound.folder) == before


def test_warnings_end_with_0_and_under_strict_with_1(project) -> None:
    ran = project.run("doctor")

    assert ran.code == 0
    assert any(line.startswith("warn     contract_probes") for line in ran.out.splitlines())
    assert "next: Give it a probe=" in ran.out
    assert project.run("doctor", "--strict").code == 1


def test_something_red_ends_with_2_and_is_named(sound) -> None:
    (sound.folder / "placet.db.key").chmod(0o644)
    ran = sound.run("doctor")

    assert ran.code == 2
    assert ran.out.startswith("fail     key_file ")
    assert ran.err.count("fail") == 1
    assert f"next: chmod 600 {sound.folder}/placet.db.key" in ran.out
    assert ran.err.endswith("Do not start: key_file\n")


def test_the_document_says_the_same(sound) -> None:
    (sound.folder / "tools.py").write_text("raise RuntimeError('secret words')")
    ran = sound.run("doctor", "--json", PLACET_STOER="x")

    checks = {each["id"]: each for each in ran.data["checks"]}
    assert (ran.code, ran.data["schema"], ran.data["worst"]) == (2, "doctor/1", "fail")
    assert ran.data["counts"]["fail"] == 1
    assert checks["contracts"]["level"] == "fail"
    assert checks["contract_probes"]["level"] == "skipped"
    assert "PLACET_STORE" in checks["settings"]["told"]
    assert "secret" not in ran.out + ran.err


def test_a_missing_and_a_lost_store_are_told_and_not_made(sound) -> None:
    assert sound.run("doctor", "--store", "missing.db", "--json").data["counts"]["fail"] >= 1
    assert not list(sound.folder.glob("missing*"))
    (sound.folder / "placet.db").unlink()
    ran = sound.run("doctor", "--json")

    checks = {each["id"]: each for each in ran.data["checks"]}
    assert "its store is not" in checks["store_file"]["told"]
    assert "backup" in checks["store_file"]["next"]
    assert not (sound.folder / "placet.db").exists()


def test_what_this_user_may_not_write_is_told(as_nobody) -> None:
    """As another user, because permission bits do not bind root."""
    os.chown(as_nobody.folder / "placet.db.key", 65534, 65534)
    shutil.rmtree(as_nobody.folder / "__pycache__", ignore_errors=True)
    os.chmod(as_nobody.folder / "placet.db", 0o644)
    checks = {each["id"]: each for each in as_nobody.run("doctor", "--json").data["checks"]}

    assert checks["store_writable"]["level"] == "fail"
    assert "write permission" in checks["store_writable"]["next"]
    assert checks["key_file"]["level"] == "fail"  # nobody's key beside root's store


def test_a_broken_project_file_is_no_diagnosis(project) -> None:
    (project.folder / "placet.toml").write_text("[nonsense")
    ran = project.run("doctor", "--json")

    assert (ran.code, ran.data["code"]) == (2, "config_invalid")
