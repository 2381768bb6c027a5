"""A whole run, over a small program of its own: what is noticed, what is not, and what never ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutation.runs import Survey
from scripts.mutation.sources import mutants

REPOSITORY = Path(__file__).resolve().parents[2]

SAMPLE = """\
from functools import cache

LARGEST = 10
UNREAD = 3


def is_small(number: int) -> bool:
    return number < LARGEST


def never_called() -> int:
    return 1


@cache
def double(number: int) -> int:
    return number * 2
"""

TESTS = """\
from placet.rules.sample import LARGEST, double, is_small


def test_small() -> None:
    assert is_small(9) is True
    assert is_small(11) is False


def test_bound() -> None:
    assert LARGEST == 10


def test_double_is_called_first_by_a_test_that_notices_nothing() -> None:
    double(3)


def test_double() -> None:
    assert double(3) == 6
"""

MAY_NEVER_END = """

def mirrored(number: int) -> int:
    while number > 0:
        number = -number
    return number
"""

ENDS = """\
from placet.rules.sample import mirrored


def test_mirrored() -> None:
    assert mirrored(3) == -3
"""

EXPLAINED = """\
[[survivor]]
file = "src/placet/rules/sample.py"
function = "is_small"
before = "return number < LARGEST"
after = "return number <= LARGEST"
reason = "A sample: no test asks at the bound."
"""


def made(folder: Path) -> Path:
    files = {
        "src/placet/__init__.py": "",
        "src/placet/errors.py": "class SampleError(Exception):\n    pass\n",
        "src/placet/rules/__init__.py": "",
        "src/placet/rules/sample.py": SAMPLE,
        "tests/rules/test_sample.py": TESTS,
        "tests/model/test_nothing.py": "",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['--import-mode=importlib']\nasyncio_mode = 'auto'\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(REPOSITORY / "scripts/mutation", folder / "scripts/mutation")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made(tmp_path)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after one whole run, with a function that one mutant keeps from ending."""
    project = made(tmp_path_factory.mktemp("first_run"))
    (project / "src/placet/rules/sample.py").write_text(SAMPLE + MAY_NEVER_END)
    (project / "tests/rules/test_ends.py").write_text(ENDS)
    done = run(project, "rules/sample")
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture
def judged(first_run: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(first_run, tmp_path / "judged")


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COVERAGE_PROCESS_START")
    }
    return subprocess.run(
        [sys.executable, "-m", "scripts.mutation", *arguments],
        cwd=project, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def statuses(project: Path) -> dict[tuple[str, str], str]:
    results = json.loads((project / ".mutation/results.json").read_text())
    return {(entry["mutant"]["before"], entry["mutant"]["after"]): entry["status"] for entry in results}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_tells_what_the_tests_notice(judged: Path) -> None:
    found = statuses(judged)
    assert found["return number < LARGEST", "return number >= LARGEST"] == "killed"
    assert found["return number < LARGEST", "return number <= LARGEST"] == "survived"
    assert found["LARGEST = 10", "LARGEST = 11"] == "killed"
    assert found["UNREAD = 3", "UNREAD = 4"] == "survived"
    assert found["number = -number", "number = number"] == "timeout"
    assert found["return 1", "return 2"] == "untested"
    assert found["return number * 2", "return number // 2"] == "killed"
    assert (judged / "src/placet/rules/sample.py").read_text() == SAMPLE + MAY_NEVER_END

    asked = run(judged, "--check", "rules/sample")
    assert asked.returncode == 1
    assert "return number <= LARGEST" in asked.stdout

    explanations = judged / "tests/mutation/survivors.toml"
    explanations.parent.mkdir()
    explanations.write_text(EXPLAINED)
    assert "return number <= LARGEST" not in run(judged, "--check", "rules/sample").stdout
    explanations.write_text(EXPLAINED.replace("<= LARGEST", ">= LARGEST"))
    assert "explained, and yet no survivor" in run(judged, "--check", "rules/sample").stdout


WITHIN_A_LIMIT = """\
import asyncio

from placet.rules.sample import is_small


async def test_within_a_limit() -> None:
    async with asyncio.timeout(60):
        assert is_small(9) is True
"""

PASSES_ONCE = """\
from pathlib import Path

import pytest

from placet.rules.sample import double


@pytest.mark.parametrize("which", range(COUNT))
def test_that_passes_once(which: int) -> None:
    mark = Path(__file__).with_name(f"been_here_{which}")
    assert not mark.exists()
    mark.touch()
    assert double(2) == 4
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_test_that_passes_only_once_is_left_out_and_the_run_goes_on(project: Path) -> None:
    (project / "tests/rules/test_limit.py").write_text(WITHIN_A_LIMIT)
    (project / "tests/rules/test_once.py").write_text(PASSES_ONCE.replace("COUNT", "1"))

    done = run(project, "rules/sample")

    assert done.returncode == 0, done.stderr
    left_out = [line for line in done.stdout.splitlines() if "left out" in line]
    assert left_out == [
        "src/placet/rules/sample.py: left out, for they do not pass twice: "
        "tests/rules/test_once.py::test_that_passes_once[0]",
        "src/placet/rules/sample.py: left out, for they do not pass in a fresh process: "
        "tests/rules/test_once.py::test_that_passes_once[0]",
    ]
    found = statuses(project)
    assert found["return number * 2", "return number // 2"] == "killed"
    assert found["return number < LARGEST", "return number <= LARGEST"] == "survived"
    assert found["UNREAD = 3", "UNREAD = 4"] == "survived"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_where_more_than_five_do_not_pass_twice_nothing_is_judged_and_the_run_has_failed(project: Path) -> None:
    (project / "tests/rules/test_once.py").write_text(PASSES_ONCE.replace("COUNT", "6"))

    done = run(project, "rules/sample")

    assert done.returncode == 1
    found = statuses(project)
    assert found["return number * 2", "return number // 2"] == "unjudged"
    assert found["UNREAD = 3", "UNREAD = 4"] == "unjudged"
    assert "return number * 2" in run(project, "--check", "rules/sample").stdout


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_was_stopped_goes_on_with_the_rest(judged: Path) -> None:
    results = judged / ".mutation/results.json"
    entries = json.loads(results.read_text())
    known = [{**entry, "by": "before"} for entry in entries if entry["mutant"]["function"] != "double"]
    results.write_text(json.dumps(known))

    assert run(judged, "--rest", "rules/sample").returncode == 0

    after = json.loads(results.read_text())
    assert {entry["mutant"]["start"] for entry in after} == {entry["mutant"]["start"] for entry in entries}
    assert len(after) == len(entries) > len(known)
    assert [entry for entry in after if entry["by"] == "before"] == known
    assert {entry["status"] for entry in after if entry["mutant"]["function"] == "double"} == {"killed"}


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sample_is_some_of_the_mutants_and_always_the_same_ones(project: Path) -> None:
    def sampled(*arguments: str) -> set[int]:
        assert run(project, "--one-in", "3", *arguments, "rules/sample").returncode == 0
        return {entry["mutant"]["start"] for entry in json.loads((project / ".mutation/results.json").read_text())}

    first = sampled("--seconds", "0")
    (project / ".mutation/results.json").unlink()
    everything = mutants(project / "src/placet/rules/sample.py", root=project, error_names=frozenset())

    assert sampled() == first
    assert 1 <= len(first) <= len(list(everything)) // 2


def test_a_line_nobody_was_seen_to_reach_is_judged_by_the_tests_of_its_function(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text("def f():\n    g()\n    return 1\n\n\ndef h():\n    return 2\n")
    reached = {2: frozenset({"first"}), 3: frozenset({"second"}), 7: frozenset({"other"})}
    (mutant, *_) = [m for m in mutants(path, root=tmp_path, error_names=frozenset()) if m.replacement == "2"]

    assert Survey(reached={"sample.py": reached}, seconds={}).tests_of_lines(mutant) == {"second"}
    del reached[3]
    assert Survey(reached={"sample.py": reached}, seconds={}).tests_of_lines(mutant) == {"first"}
    del reached[2]
    assert Survey(reached={"sample.py": reached}, seconds={}).tests_of_lines(mutant) == set()


def test_of_the_tests_that_may_notice_the_first_are_taken_as_long_as_time_is_left() -> None:
    survey = Survey(reached={}, seconds={"a": 0.5, "b": 0.25, "c": 0.5})

    assert survey.first_of(["a", "b", "c"], 1.25) == ["a", "b", "c"]
    assert survey.first_of(["a", "b", "c"], 1.0) == ["a", "b"]
    assert survey.first_of(["c", "b", "new"], 0.5) == ["c"]
    assert survey.first_of(["a", "b"], 0.1) == ["a"]
    assert survey.first_of([], 1.0) == []


def test_nothing_is_said_about_changes_while_the_unchanged_tests_fail(project: Path) -> None:
    (project / "tests/rules/test_sample.py").write_text(TESTS.replace("== 10", "== 11"))

    done = run(project, "rules/sample")

    assert done.returncode == 1
    assert "test_bound" in done.stderr
    assert not (project / ".mutation").exists()


def test_a_part_that_is_not_there_is_refused(project: Path) -> None:
    done = run(project, "rules/smaple")

    assert done.returncode == 1
    assert "There is no part 'rules/smaple'" in done.stderr
