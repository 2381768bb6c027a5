"""Every requirement has a test or a written reason, and every id a test carries exists."""

from pathlib import Path

import pytest

from scripts.requirements_table import known_ids, marked_ids, not_yet


def test_the_list_of_ids_is_whole_and_in_order() -> None:
    ids = known_ids()

    assert len(ids) == 328
    assert ids == sorted(set(ids))


def test_every_marked_id_exists() -> None:
    unknown = {each: places for each, places in marked_ids().items() if each not in known_ids()}

    assert unknown == {}


def test_every_id_without_a_test_is_written_down() -> None:
    missing = set(known_ids()) - set(marked_ids()) - set(not_yet())

    assert sorted(missing) == [], "run scripts/requirements_table.py --write, then give the reasons"


def test_no_id_with_a_test_is_still_written_down_as_not_yet() -> None:
    outdated = set(marked_ids()) & set(not_yet())

    assert sorted(outdated) == [], "run scripts/requirements_table.py --write"


def test_what_is_not_yet_exists_and_has_a_reason() -> None:
    assert sorted(set(not_yet()) - set(known_ids())) == []
    assert sorted(each for each, reason in not_yet().items() if not reason.strip()) == []


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
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=mark.req('B002'))])\n"
        "def test_x(x): ...\n",
    )

    assert marked_ids(tests) == {
        "B001": ["tests/test_example.py:1"],
        "B002": ["tests/test_example.py:2", "tests/test_example.py:3"],
        "B003": ["tests/test_example.py:2"],
    }


@pytest.mark.parametrize("arguments", ["", "IDS", "*IDS", "7", "ids='B001'"])
def test_a_mark_that_cannot_be_read_is_refused(tmp_path: Path, arguments: str) -> None:
    tests = write_test(tmp_path, f"@pytest.mark.req({arguments})\ndef test_x(): ...\n")

    with pytest.raises(ValueError, match="plain strings"):
        marked_ids(tests)
