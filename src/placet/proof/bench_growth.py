"""The rows of a bench that say how a ledger's size tells: the last and longest part of it.

Where they cannot be measured they are missing, with the reason; what was measured before them stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from placet.errors import PlacetError
from placet.proof.bench_rows import Values
from placet.proof.growth import running as growth
from placet.proof.private_server import NoServer
from placet.proof.workloads import NotMeasured

Grown = dict[str, Any]


def measured(work: Coroutine[Any, Any, Grown], values: Values) -> tuple[Grown | None, dict[str, str]]:
    """What `growth.on_sqlite` or `growth.on_postgres` found, put into its rows; or why each of them is missing."""
    try:
        grown = asyncio.run(work)
    except (NotMeasured, NoServer) as wrong:
        why = str(wrong)
    except PlacetError as wrong:
        why = f"{wrong.code}: {wrong}"
    except OSError as wrong:
        why = f"{type(wrong).__name__}, {wrong.strerror}"
    else:
        growth.put(grown, values)
        return grown, {}
    return None, {row.name: why for row in growth.ROWS}


def worst_look(grown: Grown | None) -> Iterable[str]:
    """The line below its row, if there is one."""
    return () if grown is None else (growth.worst_look(grown),)
