"""Text that is not what it looks like, and digits that would become a date: refused before anybody is asked."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

import placet
from placet.errors import InvalidArguments
from placet.model.contract import TextRule

HIDING = {
    "override": "pay \u202emoc.live",
    "embedding": "a\u202ab",
    "isolate": "a\u2066b\u2069",
    "deprecated format": "a\u206ab",
    "tags": "hello\U000e0068\U000e0069",
    "tag after a flag": "\U0001f3f4\U000e0068\U000e0069\U000e007f",
    "language tag": "\U000e0001a",
    "bytes in variation selectors": "\U0001f600\U000e0115\U000e0120",
}
NEEDED = {
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
    "flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hebrew with a mark": "\u05e9\u05dc\u05d5\u05dd!\u200f (ok)",
    "ideograph with a variant": "\u845b\U000e0100\u57ce",
    "soft hyphen": "Donau\u00addampf",
    "Thai with breaks": "\u0e01\u200b\u0e02",
    "lines": "one\r\ntwo\tthree\n",
}
INVISIBLE = {
    "zero width space": "pay\u200b",
    "zero width joiner": "a\u200db",
    "byte order mark": "list_\ufeffitems",
    "soft hyphen": "re\u00adport",
    "word joiner": "a\u2060b",
    "combining joiner": "a\u034fb",
    "filler": "a\u3164",
    "variation selector": "a\ufe0f",
    "line separator": "a\u2028b",
    "mark of direction": "a\u200fb",
}


def act(**options: Any) -> placet.Tool:
    async def send(text: str, file_name: str = "a", tags: dict[str, str] | None = None) -> str:
        return text

    settings: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "w", "name": "send"}
    return placet.tool(**(settings | options))(send)


def look() -> placet.Tool:
    async def look(text: str, path: list[str] | None = None) -> str:
        return text

    return placet.tool(effect="read", name="look")(look)


def refusal(tool: placet.Tool, arguments: dict[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    try:
        tool.read_arguments(arguments)
    except InvalidArguments as error:
        return error.reason, error.problems
    return None


@pytest.mark.case("F02")
@pytest.mark.parametrize("name", HIDING)
def test_an_act_carries_no_text_that_is_reordered_or_hidden(name: str) -> None:
    text = HIDING[name]
    assert refusal(act(), {"text": text}) == ("invisible_character", (("/text", "invisible_character"),))
    assert refusal(act(), {"text": "a", "tags": {text: "a"}}) == (
        "invisible_character",
        (("/tags", "invisible_character"),),
    )
    assert refusal(act(), {"text": "a", "tags": {"a": text}}) == (
        "invisible_character",
        (("/tags/a", "invisible_character"),),
    )
    assert refusal(act(text=TextRule.FREE), {"text": text}) is None
    assert refusal(look(), {"text": text}) is None


@pytest.mark.parametrize("name", NEEDED)
def test_prose_keeps_what_languages_and_emoji_need(name: str) -> None:
    assert refusal(act(), {"text": NEEDED[name]}) is None


@pytest.mark.case("B02", "F02")
@pytest.mark.parametrize("name", [*INVISIBLE, *HIDING])
def test_a_name_or_path_carries_nothing_invisible_in_reads_too(name: str) -> None:
    text = (INVISIBLE | HIDING)[name]
    expected = "invisible_character"
    assert refusal(act(), {"text": "a", "file_name": text}) == (expected, (("/file_name", expected),))
    assert refusal(look(), {"text": "a", "path": ["a", text]}) == (expected, (("/path/1", expected),))
    assert refusal(act(), {"text": "a", "tags": {text: "a"}}) is not None
    assert refusal(act(text=TextRule.FREE), {"text": "a", "file_name": text}) is None


@pytest.mark.parametrize("text", ["Müller – Söhne & 株式会社", "données/été.txt", "Ünïcödé"])
def test_ordinary_names_of_every_script_stay(text: str) -> None:
    assert refusal(act(), {"text": "a", "file_name": text}) is None
    assert refusal(look(), {"text": "a", "path": [text]}) is None


# ---------------------------------------------------------------- digits that would become a date


def taking(hint: Any) -> placet.Tool:
    async def take(value: Any) -> str:
        return "done"

    take.__annotations__ = {"value": hint, "return": str}
    return placet.tool(effect="read", name="take")(take)


@pytest.mark.req("B020")
@pytest.mark.parametrize("hint", [datetime, datetime | None, list[datetime]])
@pytest.mark.parametrize("text", ["1700000000", "20240101", "-5", "+1700000000", "1700000000.5", "1e3", " 3600"])
def test_digits_do_not_become_an_instant(hint: Any, text: str) -> None:
    value: Any = [text] if hint == list[datetime] else text
    told = refusal(taking(hint), {"value": value})
    assert told is not None
    assert told[0] == "contract_broken"


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (datetime, "2024-01-01T00:00:00Z"),
        (date, "2024-01-01"),
        (time, "12:30"),
        (timedelta, "P1D"),
        (Decimal, "20240101"),
        (Decimal, "1e3"),
        (str, "1700000000"),
    ],
)
def test_what_is_written_as_what_it_is_stays(hint: Any, text: str) -> None:
    assert refusal(taking(hint), {"value": text}) is None
