"""What one upstream lists is bounded in entries and in words, however it says them, and is looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest

import placet
from placet.mcp_server.relay_offers import MAX_ITEMS, MAX_LISTED_WORDS, _pages
from placet.rules import relaying
from placet.rules.showing import has_invisible

AGENT = placet.Principal.agent("agent", tenant="acme")


class Lists:
    """A side that has as many pages as it likes."""

    def __init__(self, page: Callable[[int], list[dict[str, Any]]]) -> None:
        self.asked = 0
        self._page = page

    async def request(self, principal: object, method: str, params: object) -> dict[str, Any]:
        self.asked += 1
        return {"prompts": self._page(self.asked), "nextCursor": str(self.asked)}


async def listed(side: Lists) -> list[types.Prompt]:
    return await _pages(side, AGENT, "prompts/list", "prompts", types.Prompt)  # type: ignore[arg-type]


async def test_of_one_that_says_too_much_the_beginning_is_listed_and_no_more_is_asked() -> None:
    side = Lists(lambda page: [{"name": f"p-{page}-{n}", "title": "é" * 8_000} for n in range(20)])

    found = await listed(side)

    assert len(found) == MAX_LISTED_WORDS // 8_000 == 32
    assert side.asked == 2


async def test_an_entry_of_more_words_than_all_may_have_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    is_presentable = relaying.is_presentable

    def looking(words: str) -> bool:
        looked_at.append(len(words))
        return is_presentable(words)

    monkeypatch.setattr(relaying, "is_presentable", looking)
    long = [{"name": "a", "description": "é" * 8_000} for _ in range(100)]
    side = Lists(lambda page: [{"name": "p"}, {"name": "q", "arguments": long}, {"name": "r"}])

    assert [each.name for each in await listed(side)] == ["p"]
    assert sum(looked_at) < MAX_LISTED_WORDS


async def test_of_one_that_lists_too_many_the_beginning_is_listed() -> None:
    side = Lists(lambda page: [{"name": f"p-{page}-{n}"} for n in range(700)])

    assert (len(await listed(side)), side.asked) == (MAX_ITEMS, 2)


async def test_what_hides_something_is_left_out_and_counts_for_nothing() -> None:
    side = Lists(lambda page: [{"name": "a", "title": "x\u202ey" * 2_000} for _ in range(50)] + [{"name": f"p-{page}"}])

    assert {each.name for each in await listed(side)} == {f"p-{page}" for page in range(1, 21)}


@pytest.mark.parametrize("member", ["name", "title", "description"])
async def test_arguments_of_a_prompt_hide_nothing_either(member: str) -> None:
    hiding = {"name": "to", member: "x\u202ey"}
    side = Lists(lambda page: [{"name": "a", "arguments": [{"name": "at"}, hiding]}, {"name": f"p-{page}"}])

    assert "a" not in {each.name for each in await listed(side)}


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        ("é\u00a0\u3000", False),
        ("plain", False),
        ("", False),
        ("a\u200bb", True),
        ("a\ufe0fb", True),
        ("\u00a0\ufe0f", True),
        ("a\nb", True),
        ("a\u2028b", True),
    ],
    ids=ascii,
)
def test_hidden_characters_are_found_in_texts_that_print_and_in_those_that_do_not(text: str, hides: bool) -> None:
    assert has_invisible(text) is hides
