"""Found text, shown to a model as data: sections of runbooks, and lines of logs.

What is said to the model around it is a courtesy, not the control: one that believes the text still has only its five
tools.

Source: REQUIREMENTS C057-C060, X004.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.knowledge import NOTICE, evidence_block

__all__ = ["NOTICE", "Evidence", "evidence_block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One found text.

    Attributes:
        citation: names the place, as in `disk-full#first-five-minutes:2`.
        source: the file or log it stands in.
    """

    citation: str
    source: str
    content: str
