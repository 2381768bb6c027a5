"""`placet bench --postgres`: governed writes beside `pgbench` on the same server, in rounds that take turns.

What `pgbench` runs, and what "the same two statements" means, stands in `placet.proof.pgbench.reference`. Every sample
has a new schema; the order in which the samples of a round come is turned by one from round to round.

Ratios to `pgbench` hold on a machine that has nothing else to do: where others compete for its processors, 64 sessions
get many shares of them, and one Python process with one session gets few. The load is told with the numbers.
"""

from __future__ import annotations

import math
import os
import platform
import secrets
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placet.bootstrap.addresses import shown_store
from placet.proof import bench_growth, slow_disk, workloads
from placet.proof.bench_rows import Row, Values, summary
from placet.proof.growth import running as growth
from placet.proof.pgbench import reference, server

MANY = 64
FSYNC_US = 1_000
"""What is added to each fsync of a private server, unless something else is asked for."""

RATIOS = (
    Row("write_postgres_64_to_pgbench_64", f"{MANY} writers : pgbench, same two statements, calls/s", "x", 2),
    Row("write_postgres_1_to_pgbench_1", "1 writer : pgbench, same two statements, calls/s", "x", 2),
    Row("write_postgres_64_to_plain_64", f"{MANY} writers : pgbench, plain pair, calls/s", "x", 2),
    Row("write_postgres_1_to_plain_1", "1 writer : pgbench, plain pair, calls/s", "x", 2),
    Row("write_postgres_1_commits", "durable commits per write, 1 caller", "", 3),
    Row("write_postgres_64_commits", f"durable commits per write, {MANY} callers", "", 3),
    Row("write_postgres_1_transactions", "  as the server counts them, 1 caller", "", 3),
    Row("write_postgres_64_transactions", f"  as the server counts them, {MANY} callers", "", 3),
    *growth.ROWS,
)


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"


ABSOLUTES = tuple(
    row
    for callers in (1, MANY)
    for row in (
        Row(
            f"write_postgres_{callers}_rate",
            f"governed write, {'1 caller' if callers == 1 else f'{callers} callers'}",
            "calls/s",
            0,
        ),
        Row(f"write_postgres_{callers}_p50", "  p50", "us", 0),
        Row(f"write_postgres_{callers}_p99", "  p99", "us", 0),
        Row(f"write_postgres_{callers}_cpu", "  CPU of the Python process", "us", 0),
        Row(f"pgbench_{callers}_rate", f"pgbench, same two statements, {_clients(callers)}", "calls/s", 0),
        Row(f"plain_{callers}_rate", f"pgbench, plain pair, {_clients(callers)}", "calls/s", 0),
    )
)
ROWS = (*RATIOS, *ABSOLUTES)


def measure(
    where: str,
    *,
    folder: Path | None,
    fsync_us: int,
    rounds: int,
    seconds: float,
    size: growth.Size,
    told: Callable[[str], None],
) -> dict[str, Any]:
    """The mode, the machine and the rows of one run.

    Args:
        where: `private`, or the URL of a server on which schemas are made and dropped.
        folder: where a private server's files lie; in memory if absent.
        fsync_us: added to each fsync of a private server.
        size: of the old ledger. `told`: hears how far its filling is.

    Raises:
        NoServer, NoSlowDisk: it cannot be had here.
        NotMeasured, PlacetError: the measurement failed.
    """
    place = folder or slow_disk.folder_in_memory() or Path(tempfile.gettempdir())
    whole_seconds = math.ceil(seconds)  # pgbench knows no others
    values: Values = {row.name: [] for row in ROWS}
    missing: dict[str, str] = {}
    with server.opened(where, folder=place, fsync_us=fsync_us) as found, tempfile.TemporaryDirectory() as keys:
        samples = _samples(found, Path(keys) / "bench.key", whole_seconds, values)
        for turn in range(rounds):
            first = turn % len(samples)
            for sample in (*samples[first:], *samples[:first]):
                _take(sample, values, missing)
            _compare(values, missing)
        grown, not_grown = bench_growth.measured(growth.on_postgres(found, size, told=told), values)
        missing.update(not_grown)
        return {
            "mode": {
                "where": str(place) if where == "private" else shown_store(where),
                "file_system": slow_disk.file_system(place) if where == "private" else "unknown",
                "fsync_added_us": found.fsync_added_us,
                "server": found.ask("SHOW server_version;"),
                "fsync": found.ask("SHOW fsync;"),
                "synchronous_commit": found.ask("SHOW synchronous_commit;"),
                "full_page_writes": found.ask("SHOW full_page_writes;"),
                "rounds": rounds,
                "seconds": whole_seconds,
                "pgbench_warm_up_seconds": reference.WARM_UP_SECONDS,
                "growth_effects": size.effects,
            },
            "machine": {
                "python": platform.python_version(),
                "processors": os.cpu_count(),
                "system": f"{platform.system()} {platform.machine()}",
                "load": [round(load, 1) for load in os.getloadavg()],
            },
            "rows": {row.name: summary(row, values[row.name]) for row in ROWS if values[row.name]},
            "missing": missing,
            "growth": grown,
        }


def setting(document: dict[str, Any]) -> Iterable[str]:
    """What it was measured on, in words."""
    mode, machine = document["mode"], document["machine"]
    slowed = "as the server has it" if mode["fsync_added_us"] is None else f"with {mode['fsync_added_us']} us added"
    yield (
        f"Python {machine['python']}, PostgreSQL {mode['server']} (fsync={mode['fsync']}, "
        f"synchronous_commit={mode['synchronous_commit']}, full_page_writes={mode['full_page_writes']}), "
        f"{machine['processors']} processors, {machine['system']}"
    )
    yield f"Files on {mode['file_system']} in {mode['where']}; fsync {slowed}; load {machine['load'][0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """One workload. `rows`: what it measures."""

    rows: tuple[str, ...]
    take: Callable[[], None]


def _take(sample: _Sample, values: Values, missing: dict[str, str]) -> None:
    """Once more, unless it could not be measured before: then its rows are missing, and all the others stand."""
    if sample.rows[0] in missing:
        return
    try:
        sample.take()
    except workloads.NotMeasured as wrong:
        for row in sample.rows:
            values[row].clear()
            missing[row] = str(wrong)


def _samples(on: server.BenchServer, key: Path, seconds: int, values: Values) -> list[_Sample]:
    found: list[_Sample] = []
    for callers in (MANY, 1):
        found += [
            _governed(on, key, callers, seconds, values),
            _same(on, key, callers, seconds, values),
            _plain(on, callers, seconds, values),
        ]
    return found


def _governed(on: server.BenchServer, key: Path, callers: int, seconds: int, values: Values) -> _Sample:
    def sample() -> None:
        with server.schema_of_its_own(on, _new_name()) as schema:
            key.unlink(missing_ok=True)  # a new store makes its own
            got = workloads.governed_writes_there(
                on.address(schema), key=key, callers=callers, seconds=seconds, transactions=on.transactions
            )
        name = f"write_postgres_{callers}"
        values[f"{name}_rate"].append(got.calls / got.seconds)
        values[f"{name}_p50"].append(got.percentile(0.5) * 1e6)
        values[f"{name}_p99"].append(got.percentile(0.99) * 1e6)
        values[f"{name}_cpu"].append(got.cpu_seconds / got.calls * 1e6)
        values[f"{name}_commits"].append(got.commits / got.calls)
        values[f"{name}_transactions"].append(got.transactions / got.calls)

    told = ("rate", "p50", "p99", "cpu", "commits", "transactions")
    return _Sample(rows=tuple(f"write_postgres_{callers}_{each}" for each in told), take=sample)


def _same(on: server.BenchServer, key: Path, clients: int, seconds: int, values: Values) -> _Sample:
    def sample() -> None:
        key.unlink(missing_ok=True)
        got = reference.same_statements(on, schema=_new_name(), key=key, clients=clients, seconds=seconds)
        values[f"pgbench_{clients}_rate"].append(got.calls / got.seconds)

    return _Sample(rows=(f"pgbench_{clients}_rate",), take=sample)


def _plain(on: server.BenchServer, clients: int, seconds: int, values: Values) -> _Sample:
    def sample() -> None:
        got = reference.plain_pair(on, schema=_new_name(), clients=clients, seconds=seconds)
        values[f"plain_{clients}_rate"].append(got.calls / got.seconds)

    return _Sample(rows=(f"plain_{clients}_rate",), take=sample)


def _compare(values: Values, missing: dict[str, str]) -> None:
    for callers in (1, MANY):
        ours = f"write_postgres_{callers}_rate"
        for name in ("pgbench", "plain"):
            theirs, ratio = f"{name}_{callers}_rate", f"write_postgres_{callers}_to_{name}_{callers}"
            gone = [missing[each] for each in (ours, theirs) if each in missing]
            if gone:
                values[ratio].clear()
                missing[ratio] = gone[0]
            else:
                values[ratio].append(values[ours][-1] / values[theirs][-1])


def _new_name() -> str:
    return f"placet_bench_{secrets.token_hex(6)}"
