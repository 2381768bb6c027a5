"""Tables at a terminal of any width: no word is broken, and nothing is left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.cli.widths import column_widths, stacked

CELLS = st.text(alphabet="ab -", max_size=14)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.integers(0, 60))
def test_every_column_has_room_for_its_longest_word_or_there_is_no_table(
    lines: list[tuple[str, str, str]], room: int
) -> None:
    widths = column_widths(lines, room=room, gap=2)
    longest = [
        max((len(word) for cell in cells for word in cell.split()), default=0) for cells in zip(*lines, strict=True)
    ]

    if widths is None:
        assert sum(longest) + 4 > room
        return
    assert sum(widths) + 4 <= room
    assert all(width >= need for width, need in zip(widths, longest, strict=True))
    natural = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    assert all(width <= most for width, most in zip(widths, natural, strict=True))
    assert sum(natural) + 4 > room or widths == natural


def test_a_table_without_room_stands_row_by_row() -> None:
    assert stacked(["id", "tool"], [["apr-1", "refund"], ["apr-2", ""]]) == [
        "id    apr-1", "tool  refund", "", "id    apr-2", "tool",
    ]  # fmt: skip


WORDS = re.compile(r"[A-Za-z0-9_.:\"\[\]{},-]{4,}")
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def words_of(text: str) -> set[str]:
    return set(WORDS.findall(COLOURS.sub("", text)))


@pytest.mark.parametrize("columns", ["40", "80", "120"])
@pytest.mark.parametrize("words", [("approvals", "list"), ("effects", "list"), ("tools", "list"), ("audit", "tail")])
def test_no_word_of_a_list_is_broken_at_a_terminal(project, words: tuple[str, ...], columns: str) -> None:
    project.asked("ask", '{"text": "hello"}')
    project.call("put", '{"text": "hello"}', "--run", "a-run-with-a-rather-long-name-of-its-own")
    whole = words_of(project.run(*words).out)
    assert whole

    at_terminal = project.at_terminal(*words, COLUMNS=columns).out

    assert whole - words_of(at_terminal) == set(), at_terminal
