"""What a person sees of a text that somebody else wrote: nothing in it is invisible, and nothing moves the rest.

Source: CASES F02; DESIGN section 9.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from placet.errors import MisuseError

_NAMED_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Printable to Python, yet drawn as nothing: joiners, fillers, variation selectors, the empty braille cell, what stands
# for an object, the note without a head.
_DRAWN_AS_NOTHING: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U0001d159\U000e0100-\U000e01ef]"
)
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Zl", "Zp"))
_BLANKS: Final = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_NOT_PLAIN: Final = re.compile(
    rf"(?P<blanks>[{_BLANKS}]{{9,}}+)|(?P<slash>\\)|(?P<marker>\[)(?=\d{{1,9}} blanks\])|[^\x20-\x7e]"
)


def escape_for_people(text: str) -> str:
    r"""Show `text` so that nothing in it is invisible, moves the cursor, or changes the order of reading.

    Control, format, bidirectional, zero-width, private, unassigned, surrogate and ignorable characters, and every
    space but U+0020, appear as `\u{202e}`, or as `\n`, `\r`, `\t`. More than eight blanks in a row appear as
    `[42 blanks]`. A backslash or bracket that could be mistaken for one of these is escaped too, so no text can
    pretend to have been escaped. Letters of every script stay. For display only: what is signed and run is the text
    itself. Markup is not touched; a browser needs its own escaping on top.

    Raises:
        MisuseError: it is not text.

    Source: CASES F02; DESIGN section 9.
    """
    if not issubclass(type(text), str):
        raise MisuseError("Only text can be shown to people as text.")
    return _NOT_PLAIN.sub(_shown, str.__str__(text))


def _shown(match: re.Match[str]) -> str:
    if blanks := match["blanks"]:
        return f"[{len(blanks)} blanks]"
    if match["marker"]:
        return r"\u{5b}"
    if not match["slash"]:
        return _shown_character(match[0])
    following = match.string[match.end() : match.end() + 1]
    mistakable = following and (following in "nrtu[\\" or _shown_character(following) != following)
    return r"\\" if mistakable else "\\"


def has_invisible(text: str) -> bool:
    """Whether a character of `text` is drawn as nothing or changes how others are drawn. Spaces are not counted."""
    if text.isprintable():  # so none of the categories is in it; the two looks at all of a text are quick
        return _DRAWN_AS_NOTHING.search(text) is not None
    return any(map(_is_invisible, set(text)))


@lru_cache(maxsize=4096)
def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE or _DRAWN_AS_NOTHING.match(character) is not None


@lru_cache(maxsize=1024)
def _shown_character(character: str) -> str:
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    if character.isprintable() and not _DRAWN_AS_NOTHING.match(character):
        return character
    return f"\\u{{{ord(character):x}}}"
