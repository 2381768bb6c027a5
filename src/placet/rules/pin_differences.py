"""How two definitions of one tool differ, in lines for people: each place once, nothing cut, nothing hidden.

Every text is shown through `escape_for_people`, so that a character that is not drawn is seen all the same.

Source: CASES L01, L04; REQUIREMENTS H053.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from placet.model.json import JsonObject
from placet.model.pins import Definition
from placet.rules.pins import definition_form
from placet.rules.showing import escape_for_people

_BETWEEN: Final = re.compile(r"((?<=[.!?])\s+|\n+)")
_MOST_COMPARED: Final = 400
"""Pieces of one text that are aligned with those of the other; what has more is shown whole, both times."""
_USUAL: Final = ("annotations", "binding")
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where two definitions differ.

    Attributes:
        place: the field, and a JSON Pointer into it; escaped for people, as all of it.
        removed, added: what is there no more, and what is there instead; of a longer text only the sentences and lines
            that are not the same.
    """

    place: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


def differences(before: Definition | None, after: Definition | None) -> tuple[Difference, ...]:
    """All of them, in the order of the fields; of a tool that is new, or gone, everything it says."""
    return tuple(_of_members(_form(before), _form(after), ""))


def _form(definition: Definition | None) -> JsonObject:
    """Server and name are the same on both sides; no hints, and no binding, is what nearly every tool has."""
    if definition is None:
        return {}
    form = {name: value for name, value in definition_form(definition).items() if name not in ("server", "tool")}
    return {name: value for name, value in form.items() if value is not None and not (name in _USUAL and value == {})}


def _of_members(before: JsonObject, after: JsonObject, place: str) -> Iterator[Difference]:
    for name in (*before, *(name for name in after if name not in before)):
        inner = f"{place}/{_token(name)}" if place else name
        yield from _of_values(before.get(name, _ABSENT), after.get(name, _ABSENT), inner)


def _of_values(before: object, after: object, place: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_members(before, after, place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from _of_values(*pair, f"{place}/{index}")
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        yield _of_texts(before, after, place)
    elif _spelling(before) != _spelling(after):
        yield Difference(place=escape_for_people(place), removed=_shown(before), added=_shown(after))


def _of_texts(before: str, after: str, place: str) -> Difference:
    old, new = _pieces(before), _pieces(after)
    if max(len(old), len(new)) > _MOST_COMPARED:
        return Difference(place=escape_for_people(place), removed=_shown(before), added=_shown(after))
    removed: list[str] = []
    added: list[str] = []
    for word, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if word != "equal":
            removed += old[i:j]
            added += new[k:m]
    return Difference(
        place=escape_for_people(place),
        removed=tuple(_quoted(each) for each in removed),
        added=tuple(_quoted(each) for each in added),
    )


def _pieces(text: str) -> list[str]:
    """Sentences, lines, and the blanks between them, which together are the text."""
    return [piece for piece in _BETWEEN.split(text) if piece]


def _spelling(value: object) -> str:
    """Tells `1`, `1.0`, `"1"` and `true` apart, and objects by their members in any order."""
    return "" if value is _ABSENT else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(value: object) -> tuple[str, ...]:
    return () if value is _ABSENT else (_quoted(value),)


def _quoted(value: object) -> str:
    """As JSON, in which a text stands in quotes; with what JSON leaves undrawn escaped once more."""
    if isinstance(value, str):
        return f'"{escape_for_people(value)}"'
    return escape_for_people(json.dumps(value, ensure_ascii=False))


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
