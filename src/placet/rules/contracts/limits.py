"""How much of a text the decoder reads for a contract."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from placet.rules.decoding import DecodingLimits

LIMITS = DecodingLimits()

MAX_RESULT_BYTES = 16_777_216
"""The largest `max_result_bytes` a contract may ask for."""


@lru_cache
def argument_limits(max_depth: int) -> DecodingLimits:
    return replace(LIMITS, max_depth=max_depth)


@lru_cache
def result_limits(max_depth: int, max_result_bytes: int) -> DecodingLimits:
    return replace(
        LIMITS,
        max_depth=max_depth + 1,
        max_bytes=max_result_bytes * 2 + 32,
        max_members=max(LIMITS.max_members, max_result_bytes),
        max_string_characters=max(LIMITS.max_string_characters, max_result_bytes),
    )
