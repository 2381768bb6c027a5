"""Ages as people write them: 90d, 12w, 36h."""

from __future__ import annotations

import re

_AGE = re.compile(r"([1-9][0-9]{0,5})(h|d|w)", re.ASCII)
_SECONDS = {"h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def age_seconds(said: str) -> float | None:
    """How long that is; None if it is no age."""
    found = _AGE.fullmatch(said)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


def age_text(seconds: float) -> str:
    """The shortest way to write it exactly, or in seconds."""
    for unit in ("w", "d", "h"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{int(seconds // _SECONDS[unit])}{unit}"
    return f"{seconds:.0f}s"
