"""A list of runs from the store here goes on page after page, and not for ever."""

from __future__ import annotations

from functools import partial

import pytest

import placet
from placet import RunStatus
from placet.cli import run_lists
from tests.workflows.order import AGENT, BOSS


@placet.tool(effect="read")
async def look(word: str) -> str:
    """Look it up."""
    return word


@pytest.mark.parametrize(("pages", "found"), [(50, (("r0",), True)), (1, ((), False))], ids=["enough", "too many"])
async def test_where_few_of_very_many_are_looked_for_the_list_ends_and_says_so(
    monkeypatch: pytest.MonkeyPatch, pages: int, found: tuple[tuple[str, ...], bool]
) -> None:
    monkeypatch.setattr("placet.engine.pages._MOST_LOOKS", 1)  # a page looks at two rows
    monkeypatch.setattr(run_lists, "_SMALLEST_PAGE", 1)
    monkeypatch.setattr(run_lists, "_MOST_PAGES", pages)
    async with placet.open(tools=[look], store=placet.MEMORY) as gate:
        for run in range(4):
            step = {"call_id": "c", "tool": "look", "arguments": {"word": "w"}}
            await gate.submit(step, principal=AGENT, run=f"r{run}")
        await gate.runs.cancel("r0", by=BOSS)  # the first to be opened, so the last to be looked at

        listed = await run_lists.first_of(partial(gate.runs.page, by=BOSS, status=RunStatus.CANCELLED), 1)

    assert (tuple(run.run_id for run in listed.runs), listed.is_all) == found
