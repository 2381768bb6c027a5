"""Mutants of a regular expression: its bounds, branches, classes, anchors and lookarounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace `text[start:end]` of the pattern as it is written in the source."""

    start: int
    end: int
    replacement: str
    operator: str


_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_BOUNDS = re.compile(r"\{(\d*)(,?)(\d*)\}")
_BOUNDS_IN_F_STRING = re.compile(r"\{\{(\d*)(,?)(\d*)\}\}")
_FIELD = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_GROUP = re.compile(r"\(\?(?:P<\w+>|P=\w+|<?[=!]|[aiLmsux-]*[:)]|>)|\(")
_OPPOSITES = {r"\d": r"\D", r"\w": r"\W", r"\s": r"\S", r"\D": r"\d", r"\W": r"\w", r"\S": r"\s"}
_ANCHORS = frozenset((r"\b", r"\B", r"\Z", r"\A"))


def edits(text: str, *, is_f_string: bool) -> Iterator[Edit]:
    """The mutants of a pattern, given as its source between the quotes."""
    bounds = _BOUNDS_IN_F_STRING if is_f_string else _BOUNDS
    groups: list[tuple[int, str, list[int]]] = [(0, "", [0])]
    position = 0
    while position < len(text):
        character = text[position]
        following = position + 1
        if character == "\\" and (escape := _ESCAPE.match(text, position)):
            following = escape.end()
            if escape[0] in _OPPOSITES:
                yield Edit(start=position, end=following, replacement=_OPPOSITES[escape[0]], operator="class")
            elif escape[0] in _ANCHORS:
                yield Edit(start=position, end=following, replacement="", operator="anchor")
        elif found := bounds.match(text, position):
            following = found.end()
            yield from _bounds(found)
        elif is_f_string and text.startswith(("{{", "}}"), position):
            following = position + 2
        elif is_f_string and (field := _FIELD.match(text, position)):
            following = field.end()
        elif character == "[":
            following = _end_of_class(text, position)
            yield from _class(text, position, following, is_f_string=is_f_string)
        elif character == "(" and (group := _GROUP.match(text, position)):
            following = group.end()
            if not group[0].endswith(")") and "P=" not in group[0]:
                groups.append((position, group[0], [following]))
            if group[0].startswith("(?i"):
                yield Edit(
                    start=position, end=following, replacement="(?:" if group[0].endswith(":") else "", operator="flag"
                )
        elif character == ")" and len(groups) > 1:
            opened_at, opening, branches = groups.pop()
            yield from _branches(text, branches, position)
            if opening in ("(?=", "(?!", "(?<=", "(?<!"):
                yield Edit(start=opened_at, end=following, replacement="", operator="lookaround")
        elif character == "|":
            groups[-1][2].append(following)
        elif character in "^$":
            yield Edit(start=position, end=following, replacement="", operator="anchor")
        elif character in "+*?" and position and not _is_possessive_or_lazy(text, position):
            replacement = {"+": "*", "*": "+", "?": ""}[character]
            if not (character == "?" and text[following : following + 1] in ("+", "?")):
                yield Edit(start=position, end=following, replacement=replacement, operator="quantifier")
        position = following
    yield from _branches(text, groups[0][2], len(text))


def _is_possessive_or_lazy(text: str, position: int) -> bool:
    before = text[position - 1]
    is_escaped = position >= 2 and text[position - 2] == "\\" and not (position >= 3 and text[position - 3] == "\\")
    return before in "+*?}" and not is_escaped


def _bounds(found: re.Match[str]) -> Iterator[Edit]:
    for group in (1, 3):
        if found[group]:
            number = int(found[group])
            for changed in (number + 1, number - 1):
                if changed >= 0:
                    yield Edit(
                        start=found.start(group), end=found.end(group), replacement=str(changed), operator="bound"
                    )


def _end_of_class(text: str, opening: int) -> int:
    position = opening + 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        escape = _ESCAPE.match(text, position)
        position = escape.end() if escape else position + 1
    return position + 1


def _class(text: str, opening: int, closed: int, *, is_f_string: bool) -> Iterator[Edit]:
    position, last = opening + 1, closed - 1
    if text[position] == "^":
        yield Edit(start=position, end=position + 1, replacement="", operator="class")
        position += 1
    spans: list[tuple[int, int]] = []
    while position < last:
        is_doubled = is_f_string and text.startswith(("{{", "}}"), position)
        if is_f_string and not is_doubled and (field := _FIELD.match(text, position)):
            position = field.end()
            continue
        end = position + 2 if is_doubled else _end_of_item(text, position)
        if text[end : end + 1] == "-" and end + 1 < last:
            end = _end_of_item(text, end + 1)
        spans.append((position, end))
        position = end
    if len(spans) > 1:
        for start, end in spans:
            yield Edit(start=start, end=end, replacement="", operator="class")


def _end_of_item(text: str, position: int) -> int:
    escape = _ESCAPE.match(text, position) if text[position] == "\\" else None
    return escape.end() if escape else position + 1


def _branches(text: str, starts: list[int], closed: int) -> Iterator[Edit]:
    if len(starts) < 2:
        return
    for index, start in enumerate(starts):
        is_last = index == len(starts) - 1
        span = (start - 1, closed) if is_last else (start, starts[index + 1])
        yield Edit(start=span[0], end=span[1], replacement="", operator="branch")
