"""Every promised behaviour and field case has a test or a written reason, and every id a test carries exists."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from scripts.requirements_table import (
    README,
    REPOSITORY,
    Family,
    families,
    guarantees,
    has_test,
    known_ids,
    marked_ids,
    not_yet,
)

marked = cache(marked_ids)  # all tests are read for it
EACH = pytest.mark.parametrize("family", families(), ids=lambda family: family.what)
ISSUES = ("Issue 3:", "Issue 4:", "Issue 5:", "Issue 6:", "Issue 7:", "Later:")


def test_the_lists_of_ids_are_whole_and_in_order() -> None:
    requirements, cases = families()

    assert len(known_ids()) == 328
    assert list(requirements.ids) == sorted(set(requirements.ids))
    assert len(cases.ids) == 105
    assert list(cases.ids) == sorted(set(cases.ids))


@EACH
def test_every_marked_id_exists(family: Family) -> None:
    unknown = {each: places for each, places in marked(family.mark).items() if each not in family.ids}

    assert unknown == {}


@EACH
def test_every_id_without_a_test_is_written_down(family: Family) -> None:
    missing = set(family.ids) - set(marked(family.mark)) - set(not_yet(family))

    assert sorted(missing) == [], "run scripts/requirements_table.py --write, then give the reasons"


@EACH
def test_no_id_with_a_test_is_still_written_down_as_not_yet(family: Family) -> None:
    outdated = set(marked(family.mark)) & set(not_yet(family))

    assert sorted(outdated) == [], "run scripts/requirements_table.py --write"


@EACH
def test_what_is_not_yet_exists_and_names_the_issue_that_brings_it(family: Family) -> None:
    reasons = not_yet(family)

    assert sorted(set(reasons) - set(family.ids)) == []
    assert sorted(each for each, reason in reasons.items() if not reason.startswith(ISSUES) or len(reason) < 25) == []


def test_each_guarantee_names_tests_that_are_there() -> None:
    table = guarantees(README.read_text(encoding="utf-8"))

    assert list(table) == [f"G{number}" for number in range(1, 13)]
    assert {guarantee for guarantee, places in table.items() if not any("::" in place for place in places)} == set()
    assert [place for places in table.values() for place in places if not has_test(place)] == []


def test_the_table_is_whole() -> None:
    shown = subprocess.run(
        [sys.executable, "scripts/requirements_table.py"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    sums = [line.rsplit(", ", 1) for line in shown.stdout.splitlines() if " in all, " in line]
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [(head.split(":")[0], missing) for head, missing in sums] == [
        ("requirements", "0 missing"),
        ("cases", "0 missing"),
        ("guarantees", "0 missing"),
    ]


def write_test(folder: Path, text: str) -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_example.py").write_text(text)
    return tests


def test_marks_are_found_wherever_pytest_takes_them(tmp_path: Path) -> None:
    tests = write_test(
        tmp_path,
        "pytestmark = pytest.mark.req('B001')\n"
        "@pytest.mark.req('B002', 'B003')\n"
        "@pytest.mark.case('A01')\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=mark.req('B002'))])\n"
        "def test_x(x): ...\n",
    )

    assert marked_ids("req", tests) == {
        "B001": ["tests/test_example.py:1"],
        "B002": ["tests/test_example.py:2", "tests/test_example.py:4"],
        "B003": ["tests/test_example.py:2"],
    }
    assert marked_ids("case", tests) == {"A01": ["tests/test_example.py:3"]}


@pytest.mark.parametrize("arguments", ["", "IDS", "*IDS", "7", "ids='B001'"])
def test_a_mark_that_cannot_be_read_is_refused(tmp_path: Path, arguments: str) -> None:
    tests = write_test(tmp_path, f"@pytest.mark.req({arguments})\ndef test_x(): ...\n")

    with pytest.raises(ValueError, match="plain strings"):
        marked_ids("req", tests)


def test_a_row_that_names_a_test_that_is_not_there_is_found() -> None:
    row = "| G1 | Nothing. | `tests/docs/test_guarantees.py::test_nobody_wrote`, [tests/no.py](tests/no.py) |"

    (places,) = guarantees(row).values()

    assert places == ["tests/docs/test_guarantees.py::test_nobody_wrote", "tests/no.py"]
    assert [has_test(place) for place in places] == [False, False]
