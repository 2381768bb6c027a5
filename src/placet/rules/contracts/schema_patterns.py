"""Patterns of schemas: matched in linear time, read as ECMA-262 reads them, and weighed.

The engine knows more than ECMA-262 does: `(?m)`, `[a-z&&[^b]]`, `\\z` or `\\x{41}` would be matched with a meaning that
the author of a schema, who writes for ECMA-262, does not give them. Only the common part is let in.

Source: JSON Schema 2020-12 Core section 6.4; ECMA-262 section 22.2.1, with the `u` flag; ADR-0020.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

PATTERN_BYTES: Final = 49_152
"""How large one compiled pattern may be: matching costs its size for each byte of text, at worst."""

STATE_BYTES: Final = 262_144
"""How large the cache of states of one pattern may become."""

_STEPS: Final[tuple[int, ...]] = tuple(size for power in range(8, 16) for size in (2**power, 2**power * 3 // 2))

_ESCAPE: Final = (
    r"\\(?:[dDwWsStnvfr]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|[!-/:;=?@\[-`{-~ ]|[pP]\{(?:"
    r"L[ultmo]?|LC|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]?|Letter|(?:Lower|Upper)case_Letter|Number"
    r"|Decimal_Number|Mark|Punctuation|Symbol|Separator|Alphabetic|Lowercase|Uppercase|White_Space|ASCII|Any"
    r"|(?:Script|sc|Script_Extensions|scx)=[A-Z][A-Za-z_]*)\})"
)
_CLASS: Final = rf"\[\^?+(?:(?!&&|--|~~)(?:{_ESCAPE}|[^\\\[\]]))+\]"
_REPEAT: Final = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??"
_COMMON: Final = re.compile(
    rf"(?>(?:{_ESCAPE}|{_CLASS}|[^\\(\[{{*+?|^$])(?:{_REPEAT})?|[\^$|]|\((?:\?:|\?<[A-Za-z_][A-Za-z0-9_]*>|(?!\?)))*"
)


def pattern_options(size: int = PATTERN_BYTES) -> Any:
    """The engine without back-tracking: linear in the text, whatever the pattern."""
    from jsonschema_rs import RegexOptions

    return RegexOptions(size_limit=size, dfa_size_limit=STATE_BYTES)


def fitting(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text fits a pattern; None if the pattern cannot be matched within the bounds."""
    return _compiled(pattern, PATTERN_BYTES)


def is_common(pattern: str) -> bool:
    """Whether ECMA-262 and the engine read it alike. Word boundaries they do not: only one counts `é` a letter."""
    return _COMMON.fullmatch(pattern) is not None


def compiled_bytes(pattern: str) -> int:
    """How large a pattern is once compiled, rounded up by half of itself at most. It has to be known to compile."""
    return next(size for size in _STEPS if _compiled(pattern, size) is not None)


def _compiled(pattern: str, size: int) -> Callable[[str], bool] | None:
    from jsonschema_rs import Draft202012Validator

    try:
        validator = Draft202012Validator({"pattern": pattern}, pattern_options=pattern_options(size), offline=True)
    except ValueError:
        return None
    fits: Callable[[str], bool] = validator.is_valid
    return fits
