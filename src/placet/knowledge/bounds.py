"""How much an index takes in. What is over a bound is left out by name; the rest is indexed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on one knowledge base.

    Attributes:
        max_files: documents in it.
        max_file_bytes: bytes of one document.
        max_total_bytes: bytes of all of them; memory and disk are a small multiple of the largest document and of this.
        max_line_characters: characters of one line; prose and code have shorter ones.
        max_sections: sections of one document.
        max_depth: folders below the knowledge base's own.
        max_entries: names looked at in all, whatever they are.
    """

    max_files: int = 5_000
    max_file_bytes: int = 1 << 20
    max_total_bytes: int = 64 << 20
    max_line_characters: int = 20_000
    max_sections: int = 2_000
    max_depth: int = 8
    max_entries: int = 100_000


DEFAULT_BOUNDS = Bounds()
MAX_NAMED = 1_000
"""Skipped files that are named; further ones are only left out."""
