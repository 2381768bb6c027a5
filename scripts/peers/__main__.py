"""Measure the same governed write through placet and its neighbours: make bench-peers

Each neighbour lives in an environment of its own below .peers/, made from pinned and hashed requirements. All take
turns on one disk, a file system in memory with a fixed time added to each fsync, and all pay the same for durability:
SQLite, `synchronous=FULL`. What each is made to do, and what it leaves out, stands in its `with_….py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from placet.proof import slow_disk

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACES = ROOT / ".peers"
PINNED = ROOT / "requirements" / "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library to be measured: its program here, and its pinned requirements; none for placet itself."""

    name: str
    program: str
    requirements: str | None


PEERS = (
    Peer(name="placet", program="with_placet.py", requirements=None),
    Peer(name="ctrlrun", program="with_ctrlrun.py", requirements="ctrlrun.txt"),
    Peer(name="agentbarrier", program="with_agentbarrier.py", requirements="agentbarrier.txt"),
    Peer(
        name="agent-runtime-governance",
        program="with_agent_runtime_governance.py",
        requirements="agent-runtime-governance.txt",
    ),
    Peer(name="exactly-once (key only)", program="with_exactly_once.py", requirements="exactly-once.txt"),
    Peer(name="dbos step (no policy)", program="with_dbos.py", requirements="dbos.txt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians of the rounds of one library with one number of callers."""

    peer: str
    callers: int
    calls_per_second: float
    fsyncs_per_call: float
    faults: int


def main() -> int:
    """Make the environments, take turns, print a table and, if asked, JSON."""
    parser = argparse.ArgumentParser(
        prog="make bench-peers ARGS=...", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round (3)")
    parser.add_argument("--rounds", type=int, default=5, help="of each library, taking turns (5)")
    parser.add_argument("--fsync-us", type=int, default=1000, help="added to each fsync (1000)")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 64], help="threads that write (1 64)")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    chosen = parser.parse_args()
    folder = slow_disk.folder_in_memory()
    if folder is None:
        print("There is no file system in memory here; a disk that is throttled cannot be compared.", file=sys.stderr)
        return 2
    interpreters = {peer.name: _interpreter(peer) for peer in PEERS}
    with slow_disk.library() as library:
        rows = _measured(interpreters, chosen.callers, folder, library, chosen.rounds, chosen.seconds, chosen.fsync_us)
    _print(rows, chosen.fsync_us)
    if chosen.json is not None:
        told = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        chosen.json.write_text(json.dumps({"fsync_us": chosen.fsync_us, "rows": told}, indent=2) + "\n", "utf-8")
    return 0


def _interpreter(peer: Peer) -> str:
    """The Python that has this library, in an environment made now if it is not there."""
    if peer.requirements is None:
        return sys.executable
    place, pinned = PLACES / peer.requirements.removesuffix(".txt"), PINNED / peer.requirements
    made_from = place / "made-from.txt"
    if not made_from.exists() or made_from.read_text("utf-8") != pinned.read_text("utf-8"):
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--require-hashes", "-r", str(pinned)], check=True)
        made_from.write_text(pinned.read_text("utf-8"), "utf-8")
    return str(place / "bin" / "python")


def _measured(
    interpreters: dict[str, str],
    callers: Sequence[int],
    folder: Path,
    library: str,
    rounds: int,
    seconds: float,
    fsync_us: int,
) -> list[Row]:
    samples: dict[tuple[str, int], list[dict[str, float | list[str]]]] = {}
    for _ in range(rounds):
        for peer in PEERS:
            for count in callers:
                told = _round(interpreters[peer.name], peer, count, folder, library, seconds, fsync_us)
                samples.setdefault((peer.name, count), []).append(told)
    return [
        Row(
            peer=name,
            callers=count,
            calls_per_second=statistics.median(_number(told, "calls") / _number(told, "seconds") for told in found),
            fsyncs_per_call=statistics.median(
                _number(told, "fsyncs") / max(1.0, _number(told, "calls")) for told in found
            ),
            faults=sum(len(told["faults"]) for told in found if isinstance(told["faults"], list)),
        )
        for (name, count), found in samples.items()
    ]


def _number(told: dict[str, float | list[str]], name: str) -> float:
    value = told[name]
    if isinstance(value, list):
        raise TypeError(name)
    return float(value)


def _round(
    interpreter: str, peer: Peer, callers: int, folder: Path, library: str, seconds: float, fsync_us: int
) -> dict[str, float | list[str]]:
    with tempfile.TemporaryDirectory(prefix="placet-peers-", dir=folder) as place:
        done = subprocess.run(
            [interpreter, str(HERE / peer.program), place, str(callers), str(seconds)],
            env={**os.environ, "LD_PRELOAD": library, slow_disk.SLOWED_BY: str(fsync_us)},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    told: dict[str, float | list[str]] = json.loads(done.stdout.splitlines()[-1])
    return told


def _print(rows: Sequence[Row], fsync_us: int) -> None:
    print(f"governed writes on SQLite, synchronous=FULL, {fsync_us} us added to each fsync; medians")
    print(f"{'library':28} {'callers':>7} {'calls/s':>9} {'fsyncs/call':>12} {'faults':>7}")
    for row in rows:
        print(f"{row.peer:28} {row.callers:7} {row.calls_per_second:9.0f} {row.fsyncs_per_call:12.2f} {row.faults:7}")


if __name__ == "__main__":
    sys.exit(main())
