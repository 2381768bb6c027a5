"""Fills a young ledger and an old one, measures them side by side, and takes both away again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placet.proof.bench_rows import Row, Values
from placet.proof.growth import in_postgres, in_sqlite
from placet.proof.growth.measuring import WRITE, Ages, Grown, compare
from placet.proof.growth.specimens import Place
from placet.proof.pgbench.server import BenchServer, schema_of_its_own

YOUNG_EFFECTS = 1_000
EVENTS_PER_EFFECT = 4
_YOUNG = (YOUNG_EFFECTS, YOUNG_EFFECTS * EVENTS_PER_EFFECT)

WORST_LOOK = Row("growth_worst_look", "the worst look: old ledger : young ledger, p50", "x", 2)
ROWS = (Row("growth_write", "governed write: old ledger : young ledger, p50", "x", 2), WORST_LOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much an old ledger holds, and how it is measured.

    Attributes:
        times: how often each thing is done in a round.
    """

    effects: int
    events: int
    rounds: int
    times: int


async def on_sqlite(folder: Path, size: Size, *, told: Callable[[str], None]) -> dict[str, Any]:
    """Measure on two files in a folder of its own below `folder`.

    Raises:
        NotMeasured, PlacetError: the measurement failed.
    """
    with tempfile.TemporaryDirectory(prefix="placet-growth-", dir=folder) as place:
        young, old = Path(place, "young.db"), Path(place, "old.db")
        began = time.perf_counter()
        grown: list[Grown] = []
        for path, effects, events in ((young, *_YOUNG), (old, size.effects, size.events)):
            years = await in_sqlite.fill(path, effects=effects, events=events, told=told)
            grown.append(Grown(place=Place(store=path), years=years))
        filled = time.perf_counter() - began
        told("measuring")
        ages = await compare(*grown, rounds=size.rounds, times=size.times)
        return _document(ages, size, filling_seconds=filled, file_bytes=old.stat().st_size)


async def on_postgres(server: BenchServer, size: Size, *, told: Callable[[str], None]) -> dict[str, Any]:
    """Measure in two schemas of a server, which are dropped afterwards.

    Raises:
        NoServer, NotMeasured, PlacetError: the measurement failed.
    """
    import asyncpg

    with (
        tempfile.TemporaryDirectory(prefix="placet-growth-") as keys,
        schema_of_its_own(server, "placet_growth_young") as young,
        schema_of_its_own(server, "placet_growth_old") as old,
    ):
        grown: list[Grown] = []
        began = time.perf_counter()
        for schema, effects, events in ((young, *_YOUNG), (old, size.effects, size.events)):
            place = Place(store=server.address(schema), key=Path(keys, f"{schema}.key"))
            connection = await asyncpg.connect(server.url, server_settings={"search_path": f"{schema},pg_temp"})
            try:
                years = await in_postgres.fill(place, connection, effects=effects, events=events, told=told)
            finally:
                await connection.close()
            grown.append(Grown(place=place, years=years))
        filled = time.perf_counter() - began
        told("measuring")
        ages = await compare(*grown, rounds=size.rounds, times=size.times)
        file_bytes = int(server.ask(_SIZE.format(schema=old)))
        return _document(ages, size, filling_seconds=filled, file_bytes=file_bytes)


_SIZE = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind = 'r' AND nspname = '{schema}';"
)


def put(document: dict[str, Any], values: Values) -> None:
    """What the rows of a bench say of it, round by round."""
    values["growth_write"] += document["rows"][WRITE]["ratios"]
    values["growth_worst_look"] += document["rows"][document["worst_look"]]["ratios"]


def worst_look(document: dict[str, Any]) -> str:
    """A line that names it: one that grows is not hidden by twenty that do not."""
    name = document["worst_look"]
    row = document["rows"][name]
    return f"    {name}: {row['old_p50_us']:,.0f} us, {row['young_p50_us']:,.0f} us in a young ledger"


def _document(ages: tuple[Ages, ...], size: Size, *, filling_seconds: float, file_bytes: int) -> dict[str, Any]:
    return {
        "young_effects": YOUNG_EFFECTS,
        "effects": size.effects,
        "events": size.events,
        "bytes": file_bytes,
        "filling_seconds": round(filling_seconds, 1),
        "rounds": size.rounds,
        "times_per_round": size.times,
        "worst_look": max((each for each in ages if each.name != WRITE), key=lambda each: each.ratio).name,
        "rows": {
            each.name: {
                "young_p50_us": round(each.young_p50 * 1e6, 1),
                "old_p50_us": round(each.old_p50 * 1e6, 1),
                "ratio": round(each.ratio, 3),
                "ratios": [round(ratio, 3) for ratio in each.ratios],
            }
            for each in ages
        },
    }
