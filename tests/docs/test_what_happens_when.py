"""Every window that the page names is shown by a test that it names, and no row is without one."""

from __future__ import annotations

import re

import pytest

from placet.proof.chaos import Sabotage
from scripts.check_docs import REPOSITORY

PAGE = (REPOSITORY / "docs" / "what-happens-when.md").read_text("utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
WINDOWS = [row for row in ROWS if row.count("|") == 7 and "Shown by" not in row]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("row", WINDOWS, ids=lambda row: cells(row)[0][:60])
def test_a_window_is_told_whole_and_names_a_test_that_exists(row: str) -> None:
    *told, shown_by = cells(row)

    assert all(told)
    named = TEST.findall(shown_by)
    assert named
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (REPOSITORY / path).read_text("utf-8"), re.M), (path, name)


def test_the_page_has_windows_and_tells_every_sabotage() -> None:
    assert len(WINDOWS) > 25
    told = {cells(row)[0].strip("`") for row in ROWS if row.count("|") == 4}
    assert {sabotage.value for sabotage in Sabotage} <= told
