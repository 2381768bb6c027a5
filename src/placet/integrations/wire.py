"""What an engine may keep: names, fixed words and numbers, as JSON. Anything else is refused before it is written.

What a run is about (its inputs, arguments and results) lies sealed in the store of placet. An engine's own database,
its history and its pages hold the ids under which it is found there, and nothing to unpickle.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Final

from placet.errors import MisuseError
from placet.model.json import JsonValue

_LONGEST_TEXT: Final = 300
_LONGEST_JSON: Final = 16_384
_MOST_ITEMS: Final = 64
_MEMBERS: Final = frozenset(
    {
        *("tenant", "run_id", "workflow", "version", "state", "visit", "state_version"),  # which run, and where it is
        *("progress", "code", "status", "approvals", "check_after_seconds", "retry_after_seconds"),
        *("heartbeat_seconds", "in_vain"),  # how it is carried
    }
)


def packed(value: object) -> str:
    """The value as JSON.

    Raises:
        MisuseError: it is nothing an engine may keep; the message does not show it.
    """
    return json.dumps(_checked(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def unpacked(text: str | bytes) -> JsonValue:
    """What `packed` wrote. Nothing but values comes of it, whoever wrote it.

    Raises:
        MisuseError: it was written by somebody else.
    """
    if len(text) <= _LONGEST_JSON:
        try:
            return _checked(json.loads(text))
        except (ValueError, RecursionError):
            pass
    raise MisuseError("An engine gave back what placet has not given it.")


def _checked(value: object) -> JsonValue:
    if value is None or type(value) is bool or type(value) is int:
        return value
    if type(value) is float and isfinite(value):
        return value
    if type(value) is str and len(value) <= _LONGEST_TEXT:
        return value
    if type(value) in (list, tuple) and len(value) <= _MOST_ITEMS:  # type: ignore[arg-type]
        return [_text(item) for item in value]  # type: ignore[attr-defined]
    if type(value) is dict and all(name in _MEMBERS for name in value):
        return {name: _checked(item) for name, item in value.items()}
    raise MisuseError("An engine is given ids, fixed words and numbers alone.")


def _text(value: object) -> JsonValue:
    if type(value) is str and len(value) <= _LONGEST_TEXT:
        return value
    raise MisuseError("An engine is given ids, fixed words and numbers alone.")
