"""`python -m fuzz` keeps what it finds, says so in its exit status, and never skips in silence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import __main__ as driver
from fuzz import engines
from fuzz.targets import TARGETS

REPOSITORY = Path(__file__).resolve().parents[2]


def planted(data: bytes) -> None:
    if b"\x07" in data:
        raise ValueError("planted")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "findings").mkdir()
    (tmp_path / "corpus" / "seed").write_bytes(b"abc")
    return tmp_path / "corpus"


def test_a_planted_fault_is_found_and_its_smallest_input_kept(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "decoding", planted)
    findings = corpus.with_name("findings")

    with pytest.raises(ValueError, match="planted"):
        engines.fuzz_with_hypothesis("decoding", seconds=20, seed=1, corpus=corpus, findings=findings)

    [kept] = findings.iterdir()
    assert kept.read_bytes() == b"\x07"
    with pytest.raises(ValueError, match="planted"):
        driver.main(["decoding", "--replay", str(kept)])


def test_a_fault_in_the_corpus_itself_is_found_first(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "decoding", planted)
    (corpus / "bad").write_bytes(b"\x07")

    with pytest.raises(ValueError, match="planted"):
        engines.fuzz_with_hypothesis("decoding", seconds=0, seed=1, corpus=corpus, findings=corpus)


def test_a_run_without_findings_counts_its_inputs_and_ends_well() -> None:
    command = [
        sys.executable,
        "-m",
        "fuzz",
        "exports",
        "proposals",
        "--seconds",
        "0",
        "--engine",
        "hypothesis",
        "--jobs",
        "2",
    ]

    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["exports", "proposals"]
    assert all("nothing found" in line for line in lines)


def report(status: int) -> driver.Report:
    return driver.Report(name="logs", status=status, executed=7, coverage=3, log="the log")


@pytest.mark.parametrize(
    ("statuses", "expected"), [([0, 0], 0), ([0, 77], 1), ([70, 0], 1), ([71, 1], 1), ([0, 1], 2), ([-9, 0], 2)]
)
def test_the_exit_status_tells_findings_from_a_broken_fuzzer(
    statuses: list[int], expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = list(statuses)
    monkeypatch.setattr(driver, "_fuzzed", lambda *_: report(left.pop(0)))

    assert driver.main(["logs", "audit", "--jobs", "1", "--engine", "hypothesis"]) == expected
    assert ("the log" in capsys.readouterr().out) is (expected != 0)


@pytest.mark.parametrize(
    ("required", "promised", "expected"), [("all", True, None), ("all", False, "hypothesis"), ("", True, "hypothesis")]
)
def test_where_everything_is_required_atheris_is_not_silently_replaced(
    required: str,
    promised: bool,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PLACET_REQUIRE", required)
    monkeypatch.setattr(engines, "atheris_is_installed", lambda: False)
    monkeypatch.setattr(engines, "atheris_is_promised", lambda: promised)

    assert driver._engine("auto") == expected
    assert driver._engine("atheris") is None
    assert "atheris" in capsys.readouterr().err


def test_atheris_is_promised_exactly_where_its_requirement_file_has_it() -> None:
    [marker] = re.findall(r"^atheris==\S+ ; (.*) \\$", (REPOSITORY / "requirements" / "fuzz.txt").read_text(), re.M)

    from packaging.markers import Marker

    assert Marker(marker).evaluate() is engines.atheris_is_promised()


def test_an_unknown_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        driver.main(["nosuch"])

    assert ended.value.code == 2
    assert "nosuch" in capsys.readouterr().err
