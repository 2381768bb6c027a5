"""What values may be, whatever their types: nothing coerced, nothing lost, no control text."""

from __future__ import annotations

import re

from placet.errors import InvalidArguments
from placet.model.json import JsonValue
from placet.rules.decoding import json_pointer
from placet.rules.showing import has_invisible

MAX_PROBLEMS = 16
"""How many problems of one call are told."""

_MODEL_TOKENS = re.compile(
    r"<\|[a-z_]{1,40}\|>|</?tool_(?:call|use|result)s?>|\[/?INST\]|</?function_calls?>|</?arg_(?:key|value)>", re.I
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069\u206a-\u206f]")
"""Embeddings, overrides and isolates of writing direction: what is read is not the order of what is meant."""
_FLAGS = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""England, Scotland and Wales, the only emoji written with tag characters."""
_HIDDEN_LETTERS = re.compile(
    "[\U000e0000-\U000e007f]|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
"""Characters that are drawn as nothing and of which a whole alphabet exists, so that a text can be hidden in them."""
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
_TIME = re.compile(r"-?P[\dT]|\d{4,}-\d\d-\d\d|\d\d:\d\d")
_NAMES_AND_PATHS = re.compile(r"(?:^|_)(?:name|path|file|filename|dir|directory)(?:$|_)", re.I)


def coerced(read: JsonValue, written: JsonValue, path: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Where Pydantic let pass, though strict, a literal or enum 1 read from `true` or `1.0`, or digits as an instant.

    `"20240101"` would be a day of January 1970: seconds since then.
    """
    if isinstance(read, dict) and isinstance(written, dict):
        for name, child in read.items():
            if name in written and (found := coerced(child, written[name], (*path, name))) is not None:
                return found
    elif isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        for index, child in enumerate(read):
            if (found := coerced(child, written[index], (*path, str(index)))) is not None:
                return found
    elif _means_something_else(read, written):
        return path
    return None


def _means_something_else(read: JsonValue, written: JsonValue) -> bool:
    if isinstance(read, str) and isinstance(written, str):
        return _NUMBER.fullmatch(read) is not None and _TIME.match(written) is not None
    return (
        isinstance(read, bool | int | float)
        and isinstance(written, bool | int | float)
        and ((type(read) is bool) != (type(written) is bool) or (type(read) is float and type(written) is int))
    )


def refuse_loss(read: JsonValue, written: JsonValue, path: tuple[str, ...] = ()) -> None:
    """Refuse fewer members than were read: of `A` and `a`, read as one, only one would be shown and run."""
    if isinstance(read, dict) and isinstance(written, dict):
        renamed = [child for name, child in read.items() if name not in written]
        others = [child for name, child in written.items() if name not in read] if renamed else []
        if len(read) > len(written) or sum(map(_members, renamed)) > sum(map(_members, others)):
            raise InvalidArguments("contract_broken", problems=((json_pointer(path), "member_lost"),))
        for name, child in read.items():
            if name in written:
                refuse_loss(child, written[name], (*path, name))
    elif isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        for index, child in enumerate(read):
            refuse_loss(child, written[index], (*path, str(index)))


def _members(value: JsonValue) -> int:
    """How many object members there are, at any depth."""
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0


def refuse_control_text(value: JsonValue, *, everywhere: bool, path: tuple[str, ...] = (), key: str = "") -> None:
    """Refuse what hides or reorders text: in acts, and in the names and paths of reads; strictest in names and paths.

    Prose keeps what languages and emoji need: joiners, marks of direction, soft hyphens. Source: ADR-0027.
    """
    if isinstance(value, dict):
        for name, child in value.items():
            if everywhere:
                _refuse_token(name, path)
                _refuse_invisible(name, path)
            refuse_control_text(child, everywhere=everywhere, path=(*path, name), key=name)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            refuse_control_text(child, everywhere=everywhere, path=(*path, str(index)), key=key)
    elif isinstance(value, str):
        is_name = _NAMES_AND_PATHS.search(key) is not None
        if everywhere or is_name:
            _refuse_token(value, path)
        if is_name:
            _refuse_invisible(value, path)


def _refuse_token(text: str, path: tuple[str, ...]) -> None:
    if _CONTROLS.search(text):
        raise InvalidArguments("control_character", path=json_pointer(path))
    if _MODEL_TOKENS.search(text):
        raise InvalidArguments("model_template_token", path=json_pointer(path))
    if not text.isascii() and (_REORDERING.search(text) or _HIDDEN_LETTERS.search(_FLAGS.sub("-", text))):
        raise InvalidArguments("invisible_character", path=json_pointer(path))


def _refuse_invisible(text: str, path: tuple[str, ...]) -> None:
    """Of two names or paths that look alike, at most one is let in."""
    if not text.isascii() and has_invisible(text):
        raise InvalidArguments("invisible_character", path=json_pointer(path))
