"""A line for each call of a list, in which no two calls that differ look alike.

Where calls of one tool stand in a list, what is different between them comes first. It is cut, and says so: nobody
decides from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise, takewhile

from placet.console.values import one_line
from placet.engine.desk import ApprovalView
from placet.model.json import JsonValue

_VALUE_CHARACTERS = 60
_MOST_CHARACTERS = 180
_SAME_BEFORE = 12
"""Characters of what is the same that are shown before what is not."""


def gists_of(views: Sequence[ApprovalView]) -> tuple[str, ...]:
    """A line for each, in their order."""
    by_tool: dict[str, list[ApprovalView]] = {}
    for view in views:
        by_tool.setdefault(view.tool, []).append(view)
    apart = {tool: _apart(of_tool) for tool, of_tool in by_tool.items()}
    return tuple(_gist(view, apart[view.tool]) for view in views)


def _apart(views: Sequence[ApprovalView]) -> dict[str, dict[str, int]]:
    """Arguments in which some of these calls differ: of each value, how much of its beginning some other one shares."""
    names = dict.fromkeys(name for view in views for name in view.arguments)
    apart: dict[str, dict[str, int]] = {}
    for name in names:
        texts = sorted({_text(view.arguments[name]) if name in view.arguments else "" for view in views})
        if len(texts) > 1:
            shared = [_shared(*pair) for pair in pairwise(texts)]
            apart[name] = {text: max(pair) for text, pair in zip(texts, pairwise([0, *shared, 0]), strict=True)}
    return apart


def _shared(text: str, other: str) -> int:
    """Characters that two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))


def _gist(view: ApprovalView, apart: dict[str, dict[str, int]]) -> str:
    held = {name: _text(value) for name, value in view.arguments.items()}
    first = [f"{name}: {_from(held[name], apart[name][held[name]])}" for name in apart if name in held]
    rest = [f"{name}: {_from(text, 0)}" for name, text in held.items() if name not in apart]
    line = ", ".join(first)
    for each in rest:
        longer = f"{line}, {each}" if line else each
        if len(longer) > _MOST_CHARACTERS:
            return f"{line} …".strip()
        line = longer
    return line


def _from(text: str, same: int) -> str:
    """The value from shortly before where it begins to differ."""
    begin = same - _SAME_BEFORE if same > _VALUE_CHARACTERS - _SAME_BEFORE else 0
    return ("…" if begin else "") + one_line(text[begin:], characters=_VALUE_CHARACTERS)


def _text(value: JsonValue) -> str:
    """In its type: texts in quotes."""
    return json.dumps(value, ensure_ascii=False)
