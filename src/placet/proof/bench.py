"""`placet bench`: what governing a call costs on this machine, beside the floor of the same machine in the same run.

The floor is bare SQLite, or, with `--postgres`, PostgreSQL's own `pgbench` (see `placet.proof.bench_postgres`). Ratios
come first, because they hold from one machine to the next; absolute times do not. Rounds of all workloads take turns,
so that whatever disturbs the machine disturbs all of them. Nothing here judges a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from placet.bootstrap.addresses import is_address
from placet.errors import PlacetError
from placet.proof import bench_growth, bench_http, bench_mcp, bench_postgres, slow_disk, workloads
from placet.proof.bench_rows import Row, Values, summary
from placet.proof.growth import running as growth
from placet.proof.private_server import NoServer

SCHEMA = "bench/1"
MANY_CALLERS = 64
GROWN_EFFECTS = 5_000
_GROWTH_TIMES = 20
WORTH_A_FLAG = 0.10
"""How much a row may differ from the stored run, either way, before it is pointed out."""
_PROCESS_ROUNDS = 7
_HELP = "import sys; sys.argv = ['placet', '--help']; from placet.cli import main; sys.exit(main())"


RATIOS = (
    Row("write_64_to_1", f"{MANY_CALLERS} writers : 1 writer, calls/s", "x", 2),
    Row("write_1_to_floor", "1 writer : bare SQLite with as many commits, calls/s", "x", 2),
    Row("write_1_commits", "durable commits per write, 1 caller", "", 3),
    Row("write_64_commits", f"durable commits per write, {MANY_CALLERS} callers", "", 3),
    Row("import_to_python", "import placet : Python alone", "x", 2),
    Row("help_to_python", "placet --help : Python alone", "x", 2),
    Row("write_memory", "resident memory gained per write, after the first ones", "bytes", 0),
    *bench_http.RATIOS,
    *bench_mcp.RATIOS,
    *growth.ROWS,
)
ABSOLUTES = (
    Row("read_cpu", "governed read in memory, CPU", "us", 1),
    Row("read_wall", "governed read in memory, wall", "us", 1),
    Row("write_1_rate", "governed write on SQLite, 1 caller", "calls/s", 0),
    Row("write_1_p50", "  p50", "us", 0),
    Row("write_1_p99", "  p99", "us", 0),
    Row("write_1_cpu", "  CPU", "us", 0),
    Row("write_64_rate", f"governed write on SQLite, {MANY_CALLERS} callers", "calls/s", 0),
    Row("write_64_p50", "  p50", "us", 0),
    Row("write_64_p99", "  p99", "us", 0),
    Row("write_64_cpu", "  CPU", "us", 0),
    Row("floor_rate", "bare SQLite, two commits per call", "calls/s", 0),
    Row("floor_p50", "  p50", "us", 0),
    *bench_http.ABSOLUTES,
    *bench_mcp.ABSOLUTES,
    Row("python", "Python alone, whole process", "ms", 1),
    Row("import", "import placet, whole process", "ms", 1),
    Row("help", "placet --help, whole process", "ms", 1),
)
ROWS = (*RATIOS, *ABSOLUTES)


def main(argv: Sequence[str]) -> int:
    """Measure, print, compare. 0: measured; 1: it could not be; 2: the options make no sense."""
    try:
        options = _options(argv)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 2
    stored = None
    if options.compare is not None:
        stored = _stored(options.compare)
        if stored is None:
            return _failed(f"{options.compare} holds no run of placet bench ({SCHEMA}).")
    if options.postgres is None and options.fsync_us and slow_disk.slowed_by() != options.fsync_us:
        try:
            return slow_disk.run_slowed("placet.proof.bench", list(argv), microseconds=options.fsync_us)
        except slow_disk.NoSlowDisk as missing:
            return _failed(f"--fsync-us cannot be had here: {missing}.")
    try:
        document = _measure(options) if options.postgres is None else _measure_postgres(options)
    except (NoServer, slow_disk.NoSlowDisk) as missing:
        return _failed(f"--postgres cannot be had here: {missing}.")
    except workloads.NotMeasured as wrong:
        return _failed(f"The measurement failed: {wrong}.")
    except PlacetError as wrong:
        return _failed(f"The measurement failed: {wrong}")
    except OSError as wrong:
        return _failed(f"The measurement failed: {type(wrong).__name__}, {wrong.strerror}.")
    talk = sys.stderr if options.json == "-" else sys.stdout
    print("\n".join(_report(document, stored)), file=talk)
    return _write_json(document, options.json)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="placet bench",
        description="What governing a call costs here, beside bare SQLite, or beside PostgreSQL's pgbench, in the same "
        "run. Asserts nothing.",
        allow_abbrev=False,
    )
    parser.add_argument("--rounds", type=_count, default=5, metavar="N", help="rounds of each workload (5)")
    parser.add_argument("--seconds", type=_seconds, default=1.0, metavar="S", help="length of one round (1.0)")
    parser.add_argument("--where", type=_folder, metavar="DIR", help="where SQLite files lie (a temporary folder)")
    parser.add_argument(
        "--fsync-us",
        type=_count,
        default=0,
        metavar="N",
        help="add N microseconds to each fsync, in memory (/dev/shm) if possible; needs a C compiler",
    )
    parser.add_argument(
        "--memory-calls", type=_count, default=2_000, metavar="N", help="writes over which memory is watched (2000)"
    )
    parser.add_argument(
        "--growth",
        type=_ledger,
        default=GROWN_EFFECTS,
        metavar="N",
        help=f"effects of the old ledger beside one of {growth.YOUNG_EFFECTS}, with four times as many events "
        f"({GROWN_EFFECTS}, at least {growth.YOUNG_EFFECTS}); a million take 8 GB and some minutes",
    )
    parser.add_argument(
        "--postgres",
        type=_server,
        metavar="URL|private",
        help="measure on PostgreSQL instead, beside pgbench: on the server of a URL, in schemas of its own, or on a "
        "private one in memory whose fsync takes 1 ms more (or --fsync-us)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers; - for standard output")
    parser.add_argument("--compare", metavar="FILE", help="a stored run to compare with")
    options = parser.parse_args(argv)
    if options.postgres not in (None, "private") and (options.fsync_us or options.where):
        parser.error("--fsync-us and --where are of a private server; that of a URL is as it is")
    return options


# ---------------------------------------------------------------- measuring


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    slowed = slow_disk.slowed_by()
    folder = options.where or (slowed and slow_disk.folder_in_memory()) or Path(tempfile.gettempdir())
    values: Values = {row.name: [] for row in ROWS}
    for _ in range(options.rounds):
        _one_round(values, folder, options.seconds)
    missing = {**_processes(values), **_memory(values, folder, options.memory_calls)}
    missing |= bench_http.measured(values, rounds=options.rounds, seconds=options.seconds)
    missing |= bench_mcp.measured(values, rounds=options.rounds, seconds=options.seconds)
    grown, not_grown = bench_growth.measured(growth.on_sqlite(folder, _size(options), told=_talked), values)
    return {
        "schema": SCHEMA,
        "mode": {
            "where": str(folder),
            "file_system": slow_disk.file_system(folder),
            "fsync_added_us": slowed,
            "fsync_measured_us": round(slow_disk.fsync_microseconds(folder), 1),
            "rounds": options.rounds,
            "seconds": options.seconds,
            "memory_calls": options.memory_calls,
            "growth_effects": options.growth,
        },
        "machine": {
            "python": platform.python_version(),
            "sqlite": apsw.sqlite_lib_version(),
            "processors": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "rows": {row.name: summary(row, values[row.name]) for row in ROWS if values[row.name]},
        "missing": {**missing, **not_grown},
        "growth": grown,
    }


def _size(options: argparse.Namespace) -> growth.Size:
    events = options.growth * growth.EVENTS_PER_EFFECT
    return growth.Size(effects=options.growth, events=events, rounds=options.rounds, times=_GROWTH_TIMES)


def _talked(word: str) -> None:
    """To whoever waits for a large ledger to be filled."""
    print(f"growth: {word}", file=sys.stderr)


def _measure_postgres(options: argparse.Namespace) -> dict[str, Any]:
    measured = bench_postgres.measure(
        options.postgres,
        folder=options.where,
        fsync_us=options.fsync_us or bench_postgres.FSYNC_US,
        rounds=options.rounds,
        seconds=options.seconds,
        size=_size(options),
        told=_talked,
    )
    return {"schema": SCHEMA, **measured}


def _one_round(values: Values, folder: Path, seconds: float) -> None:
    reads = workloads.governed_reads(seconds)
    floor = workloads.bare_commits(folder, seconds=seconds)
    alone = workloads.governed_writes(folder, callers=1, seconds=seconds)
    crowd = workloads.governed_writes(folder, callers=MANY_CALLERS, seconds=seconds)
    values["read_cpu"].append(reads.cpu_seconds / reads.calls * 1e6)
    values["read_wall"].append(reads.seconds / reads.calls * 1e6)
    values["floor_rate"].append(floor.calls / floor.seconds)
    values["floor_p50"].append(floor.percentile(0.5) * 1e6)
    for name, sample in (("write_1", alone), (f"write_{MANY_CALLERS}", crowd)):
        values[f"{name}_rate"].append(sample.calls / sample.seconds)
        values[f"{name}_commits"].append(sample.commits / sample.calls)
        values[f"{name}_p50"].append(sample.percentile(0.5) * 1e6)
        values[f"{name}_p99"].append(sample.percentile(0.99) * 1e6)
        values[f"{name}_cpu"].append(sample.cpu_seconds / sample.calls * 1e6)
    values["write_64_to_1"].append(values["write_64_rate"][-1] / values["write_1_rate"][-1])
    values["write_1_to_floor"].append(values["write_1_rate"][-1] / values["floor_rate"][-1])


def _processes(values: Values) -> dict[str, str]:
    """Whole processes, in turns; what cannot be measured is named with the reason."""
    commands = {"python": "pass", "import": "import placet", "help": _HELP}
    missing: dict[str, str] = {}
    for name, command in commands.items():
        try:
            workloads.process_seconds("-c", command)  # also the warm-up: byte code is written once
        except workloads.NotMeasured:
            missing[name] = missing[f"{name}_to_python"] = "the process failed"
    for _ in range(_PROCESS_ROUNDS):
        for name, command in commands.items():
            if name not in missing:
                values[name].append(workloads.process_seconds("-c", command) * 1e3)
        for name in ("import", "help"):
            if values[name]:
                values[f"{name}_to_python"].append(values[name][-1] / values["python"][-1])
    return missing


def _memory(values: Values, folder: Path, calls: int) -> dict[str, str]:
    """Once, in a process of its own, whose memory nothing else has been through."""
    try:
        values["write_memory"].append(workloads.memory_per_write(folder, calls=calls))
    except workloads.NotMeasured as wrong:
        return {"write_memory": str(wrong)}
    return {}


# ---------------------------------------------------------------- telling


def _report(document: dict[str, Any], stored: dict[str, Any] | None) -> Iterable[str]:
    mode = document["mode"]
    is_postgres = "server" in mode
    ratios, absolutes = (bench_postgres.RATIOS, bench_postgres.ABSOLUTES) if is_postgres else (RATIOS, ABSOLUTES)
    yield from bench_postgres.setting(document) if is_postgres else _setting(document)
    yield f"{mode['rounds']} rounds of {mode['seconds']:g} s, in turns; median (min - max)"
    if stored is not None and _differing(mode, stored["mode"]):
        yield f"! The stored run had another mode: {_differing(mode, stored['mode'])}"
    for heading, rows in (("Ratios", ratios), ("On this machine", absolutes)):
        yield ""
        yield f"{heading:<55} {'median':>10}         {'min - max':<20}{'  now : stored' if stored else ''}"
        for row in rows:
            yield _line(row, document, stored).rstrip()
            if row is growth.WORST_LOOK:
                yield from bench_growth.worst_look(document["growth"])


def _setting(document: dict[str, Any]) -> Iterable[str]:
    mode, machine = document["mode"], document["machine"]
    added = f"with {mode['fsync_added_us']} us added" if mode["fsync_added_us"] else "as it is"
    yield (
        f"Python {machine['python']}, SQLite {machine['sqlite']} (WAL, synchronous=FULL), "
        f"{machine['processors']} processors, {machine['system']}"
    )
    yield f"Files on {mode['file_system']} in {mode['where']}; fsync {added}, measured {mode['fsync_measured_us']} us"


def _line(row: Row, document: dict[str, Any], stored: dict[str, Any] | None) -> str:
    if row.name not in document["rows"]:
        return f"  {row.title:<53} {'-':>10}         {document['missing'].get(row.name, '')}"
    found = document["rows"][row.name]
    number: Callable[[float], str] = lambda value: f"{value:,.{row.decimals}f}"  # noqa: E731 - one use, three times
    spread = f"{number(found['min'])} - {number(found['max'])}"
    line = f"  {row.title:<53} {number(found['median']):>10} {row.unit:<7} {spread:<20}"
    before = None if stored is None else stored["rows"].get(row.name)
    if before is None or not before["median"]:
        return line
    ratio = found["median"] / before["median"]
    flag = "  !" if abs(ratio - 1) > WORTH_A_FLAG else ""
    return f"{line}  {ratio:6.2f}{flag}"


def _differing(now: dict[str, Any], then: dict[str, Any]) -> str:
    names = ("server", "file_system", "fsync_added_us", "seconds", "growth_effects")
    return ", ".join(f"{name} {then.get(name)}" for name in names if now.get(name) != then.get(name))


def _stored(path: str) -> dict[str, Any] | None:
    try:
        document = json.loads(Path(path).read_text("utf-8"))
        medians = [row["median"] for row in document["rows"].values()]
        is_ours = document["schema"] == SCHEMA and all(type(median) in (int, float) for median in medians)
        return document if is_ours and isinstance(document["mode"], dict) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write_json(document: dict[str, Any], target: str | None) -> int:
    if target is None:
        return 0
    text = json.dumps(document, indent=1) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return 0
    try:
        Path(target).write_text(text, "utf-8")
    except OSError as wrong:
        return _failed(f"{target} cannot be written: {wrong.strerror}.")
    return 0


def _failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


# ---------------------------------------------------------------- options


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError("a whole number from 1 to 1000000")
    return int(text)


def _ledger(text: str) -> int:
    if not (text.isascii() and text.isdigit() and growth.YOUNG_EFFECTS <= int(text) <= 100_000_000):
        raise argparse.ArgumentTypeError(f"a whole number from {growth.YOUNG_EFFECTS} to 100000000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("seconds above zero, 3600 at most")
    return number


def _server(text: str) -> str:
    if text != "private" and not is_address(text):
        raise argparse.ArgumentTypeError("`private`, or a URL: postgresql://USER@HOST:PORT/DATABASE")
    return text


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError("a folder that can be written")
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
