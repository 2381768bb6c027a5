"""The log formatter and the sanitiser: whatever is logged, a line is one strict JSON object without the secret."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from fuzz.checks import MARKER, exactly
from fuzz.choices import Choices
from placet.adapters.telemetry.logs import JsonFormatter, bound
from placet.rules.placeholders import DEPTH_LIMIT, ITEM_LIMIT, MAX_DEPTH, MAX_ITEMS, MAX_TEXT, TRUNCATED
from placet.rules.redaction import sanitise
from placet.rules.scrubbing import scrub_text
from placet.rules.showing import escape_for_people
from placet.testing.hostile import HostileValues

LONGEST_LINE = 8_000_000
"""Characters: half a million are looked at, and each is written as six at most, with room for placeholders."""

SECRET_TEXTS = (
    f"password={MARKER}",
    f"password: {MARKER}",
    f'"api_key": "{MARKER}"',
    f"'secret'='{MARKER}'",
    f'{{\\"token\\": \\"{MARKER}\\"}}',
    f"--token {MARKER}",
    f"Authorization: Digest {MARKER}\n",
    f"Cookie: a={MARKER}; b={MARKER}\n",
    f" Bearer {MARKER}",
    f"://user:{MARKER}@host",
    f"redis://:{MARKER}@host/0",
    f"?sig={MARKER}",
    f"access_key={MARKER}",
    f" eyJ{MARKER}",
    f" sk-{MARKER}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{MARKER}\n-----END RSA PRIVATE KEY-----",
    f"{chr(0x5BC6)}{chr(0x7801)}={MARKER}",
)
"""The marker, each time in a place from which scrubbing removes it."""
SECRET_NAMES = (
    "password",
    "X-Api-Key",
    "userToken",
    "db_pw",
    "\uff30\uff41\uff53\uff53\uff57\uff4f\uff52\uff44",
    "pass\u200bword",
)
CONTENT_NAMES = ("prompt", "system_prompt", "arguments", "result", "note")
NAMES = ("order", "field", "time", "level", "message", "exception", "note_2", "", "a b", "id")
ATTRIBUTES = ("levelname", "name", "created", "exc_info", "exc_text", "stack_info", "args", "msg", "lineno")
FORMATS = ("%s", "%d", "%(x)s", "%", "%%", "%99999d", "%*d", "password=%s", "token %s", "%s=%s", "Bearer %s", "%r")

_FORMATTER = JsonFormatter()


def check(data: bytes) -> None:
    """The first byte says what is made of the rest: a record, a value, a text."""
    choices = Choices(data)
    hostile = HostileValues(MARKER, kind=choices.one_of((RuntimeError, KeyboardInterrupt, GeneratorExit)))
    match choices.below(4):
        case 0 | 1:
            _check_line(choices, hostile)
        case 2:
            _check_value(_value(choices, 0, hostile))
        case _:
            _check_text(_text(choices))


def _check_line(choices: Choices, hostile: HostileValues) -> None:
    record = logging.LogRecord("placet", logging.INFO, "x.py", 1, _message(choices, hostile), (), None)
    record.args = _arguments(choices, hostile)
    for _ in choices.items():
        record.__dict__[_name(choices)] = _value(choices, 0, hostile)
    if choices.yes():
        record.exc_info = _exc_info(choices, hostile)
    if choices.below(4) == 3:
        record.__dict__[choices.one_of(ATTRIBUTES)] = _value(choices, 0, hostile)
    with bound(**{_name(choices): _value(choices, 1, hostile) for _ in choices.items(most=2)}):
        line = _FORMATTER.format(record)
    assert line.isascii() and line.isprintable(), "a line is printable ASCII"
    assert len(line) <= LONGEST_LINE
    assert MARKER not in line, line
    fields = json.loads(line, parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    assert list(fields) == sorted(fields)
    assert {"level", "message"} <= fields.keys()


def _check_value(value: Any) -> None:
    shown = sanitise(value)
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False)
    assert MARKER not in text, text
    text.encode("utf-8")
    assert exactly(json.loads(text)) == exactly(shown)
    again = sanitise(shown)
    assert MARKER not in json.dumps(again)
    if not any(limit in text for limit in (TRUNCATED, ITEM_LIMIT, DEPTH_LIMIT)):
        assert exactly(again) == exactly(shown), "what was sanitised is sanitised to something else"
    _check_bounds(shown, 0)


def _check_text(text: str) -> None:
    clean = scrub_text(text)
    assert MARKER not in clean, clean
    assert scrub_text(clean) == clean, "what was scrubbed is scrubbed to something else"
    seen = escape_for_people(text)
    assert seen.isprintable()


def _check_bounds(shown: Any, depth: int) -> None:
    assert depth <= MAX_DEPTH or type(shown) is str
    if type(shown) is str:
        assert len(shown) <= MAX_TEXT + len("[TRUNCATED]")
    elif type(shown) is dict or type(shown) is list:
        assert len(shown) <= MAX_ITEMS + 1
        for member in shown.values() if type(shown) is dict else shown:
            _check_bounds(member, depth + 1)


def _no_constant(_: str) -> None:
    raise AssertionError("NaN on a line")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a member twice"
    return dict(pairs)


# ---------------------------------------------------------------- what is logged


def _message(choices: Choices, hostile: HostileValues) -> Any:
    match choices.below(4):
        case 0:
            return _spelt_out(_text(choices))
        case 1:
            return choices.one_of(FORMATS) + choices.text()
        case 2:
            return choices.one_of(FORMATS) + _spelt_out(_text(choices))
        case _:
            return _value(choices, 2, hostile)


def _spelt_out(text: str) -> str:
    """A format that says the text: a bare percent sign before a secret would take the first letter off its name."""
    return text.replace("%", "%%")


def _arguments(choices: Choices, hostile: HostileValues) -> Any:
    match choices.below(5):
        case 0:
            return ()
        case 1:
            return tuple(_value(choices, 2, hostile) for _ in choices.items(most=3))
        case 2:
            return {"x": _value(choices, 2, hostile)}
        case 3:
            return {choices.one_of(SECRET_NAMES): MARKER, "x": choices.text()}
        case _:
            return _value(choices, 2, hostile)


def _exc_info(choices: Choices, hostile: HostileValues) -> Any:
    match choices.below(5):
        case 0:
            return None
        case 1:
            error = hostile.error()
            return type(error), error, error.__traceback__
        case 2:
            return _raised(hostile)
        case 3:
            return _value(choices, 1, hostile)
        case _:
            return _value(choices, 1, hostile), _value(choices, 1, hostile), _value(choices, 1, hostile)


def _raised(hostile: HostileValues) -> Any:
    """With a traceback, a cause and a context."""
    try:
        try:
            raise hostile.error()
        except BaseException as first:
            raise hostile.error() from first
    except BaseException:
        return sys.exc_info()


def _name(choices: Choices) -> str:
    match choices.below(3):
        case 0:
            return choices.one_of(NAMES)
        case 1:
            return f"{choices.text(longest=3)}{choices.one_of(SECRET_NAMES)}"
        case _:
            return choices.text(longest=6)


def _value(choices: Choices, depth: int, hostile: HostileValues) -> Any:
    match choices.below(12 if depth < 4 else 6):
        case 0:
            return choices.one_of((None, True, False, 13_800_000_000, -0.0))
        case 1:
            return choices.integer()
        case 2:
            return choices.double()
        case 3:
            return choices.text()
        case 4:
            return _text(choices)
        case 5:
            return _hostile(choices, hostile)
        case 6:
            return [_value(choices, depth + 1, hostile) for _ in choices.items()]
        case 7:
            return tuple(_value(choices, depth + 1, hostile) for _ in choices.items())
        case 8:
            return {_name_in_a_mapping(choices): _value(choices, depth + 1, hostile) for _ in choices.items()}
        case 9:
            return {choices.one_of(SECRET_NAMES): MARKER, choices.one_of(CONTENT_NAMES): MARKER}
        case 10:
            return [choices.one_of(SECRET_NAMES), MARKER]
        case _:
            value = _value(choices, depth + 1, hostile)
            for _ in range(choices.below(12)):
                value = {"in": value}
            return value


def _name_in_a_mapping(choices: Choices) -> Any:
    return choices.integer() if choices.below(8) == 7 else _name(choices)


_SAYS_NOTHING_PLAINLY = (
    *("raising object", "object that answers everything", "class", "function", "generator", "exception"),
    *("enum member", "instant in a raising zone", "zone", "cyclic list", "cyclic dict", "deep list", "deep dict"),
    *("bytes", "giant integer", "negative giant integer", "nan", "infinity", "decimal nan", "complex"),
    *("list of a raising object", "dict of a raising object"),
)
"""Hostile values in which the marker stands only where nobody may look; in plain text it may be shown."""


def _hostile(choices: Choices, hostile: HostileValues) -> Any:
    makers = hostile.values()
    return makers[choices.one_of(_SAYS_NOTHING_PLAINLY)]()


def _text(choices: Choices) -> str:
    """Secrets between any texts, sometimes far behind the beginning."""
    pieces = [choices.text()]
    if choices.below(8) == 7:
        pieces.append("x " * choices.one_of((1000, 1024, 8190, 8192)))
    for _ in choices.items(most=3):
        pieces += (choices.one_of(SECRET_TEXTS), choices.text())
    return "".join(pieces)
