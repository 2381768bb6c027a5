"""Symbols that are drawn in colour or not, as U+FE0E or U+FE0F behind them says: the one invisible character that
people see. That a symbol is styled is hardly seen, so it can say something that nobody reads: only a few may be, each
alike.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import Final

MAX_STYLED_SYMBOLS: Final = 32
"""Of one text."""
_STYLE: Final = re.compile("[\ufe0e\ufe0f]")


def unstyled(text: str) -> str:
    """The text without the styles of its symbols. One that is behind anything else, too many, or unlike another of the
    same symbol stays, and so is found by whoever looks for what is not drawn.
    """
    if "\ufe0e" not in text and "\ufe0f" not in text:
        return text
    styles: dict[str, str] = {}
    kept: list[str] = []
    begin = 0
    for found in islice(_STYLE.finditer(text), MAX_STYLED_SYMBOLS):
        symbol, style = text[begin : found.start()][-1:], found[0]
        is_symbol = symbol != "" and unicodedata.category(symbol) == "So"
        if not is_symbol or styles.setdefault(symbol, style) != style:
            break
        kept.append(text[begin : found.start()])
        begin = found.end()
    return "".join((*kept, text[begin:]))
