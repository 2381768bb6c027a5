"""Rows of `placet bench`: what is measured, under which name, and what is kept of its rounds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

Values = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is measured. Its values of all rounds are kept; the median speaks for them."""

    name: str
    title: str
    unit: str
    decimals: int


def summary(row: Row, values: list[float]) -> dict[str, Any]:
    return {
        "title": row.title.strip(),
        "unit": row.unit,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "rounds": len(values),
    }
