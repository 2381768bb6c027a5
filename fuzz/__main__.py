"""Fuzz every target, or the named ones, each for so many seconds, several at a time.

    python -m fuzz --seconds 60
    python -m fuzz decoding logs --seconds 3600 --jobs 1
    python -m fuzz decoding --replay fuzz/findings/decoding-1234

Exit status 0: nothing found. 1: something was found; the input is in fuzz/findings, and `--replay` shows it again.
2: the fuzzer itself could not run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fuzz import engines

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
FINDINGS = HERE / "findings"
GROWN = HERE / "grown"
"""Inputs that reached something new in earlier runs here; not for the repository."""

_STARTUP_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one target fared. `coverage`: edges seen, None where the engine does not count them."""

    name: str
    status: int
    executed: int
    coverage: int | None
    log: str

    @property
    def line(self) -> str:
        words = {0: "nothing found", **engines.FINDINGS}
        covered = "" if self.coverage is None else f", {self.coverage} edges"
        return f"{self.name:<12} {words.get(self.status, f'BROKE ({self.status})'):<14} {self.executed} inputs{covered}"


def main(arguments: list[str]) -> int:
    wishes = _parsed(arguments)
    if wishes.replay:
        return _replayed(wishes.targets, wishes.replay)
    engine = _engine(wishes.engine)
    if engine is None:
        return 2
    FINDINGS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(wishes.jobs) as pool:
        running = [pool.submit(_fuzzed, name, engine, wishes.seconds, wishes.seed) for name in wishes.targets]
        reports = [each.result() for each in running]
    for report in reports:
        print(report.line)
        if report.status:
            print(report.log[-6000:])
    if any(report.status in engines.FINDINGS for report in reports):
        return 1
    return 2 if any(report.status for report in reports) else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    names = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz what reads the words of others.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (2)")
    parser.add_argument("--seed", type=int, default=None, help="of chance; by default another one each time")
    parser.add_argument("--engine", choices=["auto", "atheris", "hypothesis"], default="auto")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="give these files to the one TARGET")
    wishes = parser.parse_args(arguments)
    if unknown := set(wishes.targets) - set(names):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if wishes.replay and len(wishes.targets) != 1:
        parser.error("--replay needs exactly one target")
    wishes.targets = wishes.targets or names
    wishes.seed = random.randrange(1, 2**31) if wishes.seed is None else wishes.seed
    return wishes


def _engine(wish: str) -> str | None:
    """The engine to use; None, and a word about it, if that one is wanted and absent."""
    if wish == "hypothesis":
        return wish
    if engines.atheris_is_installed():
        return "atheris"
    is_needed = wish == "atheris" or (os.environ.get("PLACET_REQUIRE") == "all" and engines.atheris_is_promised())
    if is_needed:
        print("atheris is not installed; requirements/fuzz.txt has it: make fuzz", file=sys.stderr)
        return None
    print("atheris is not there for this interpreter: hypothesis feeds the same targets", file=sys.stderr)
    return "hypothesis"


def _replayed(names: list[str], files: list[Path]) -> int:
    from fuzz.targets import TARGETS

    for file in files:
        TARGETS[names[0]](file.read_bytes())
        print(f"{file}: holds")
    return 0


def _fuzzed(name: str, engine: str, seconds: int, seed: int) -> Report:
    """One target in a process of its own, so that one that hangs or dies takes nobody along."""
    command = [sys.executable, "-m", "fuzz.worker", name, engine, str(seconds), str(seed)]
    for folder in (GROWN / name, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        ended = subprocess.run(
            command,
            cwd=HERE.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + _STARTUP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Report(name=name, status=-1, executed=0, coverage=None, log=f"did not end in time\n{late.output!r}")
    log = ended.stdout.decode("utf-8", "backslashreplace")
    return Report(
        name=name,
        status=ended.returncode,
        executed=int(_last(r"number_of_executed_units:\s*(\d+)", log) or 0),
        coverage=int(found) if (found := _last(r"\bcov: (\d+)", log)) else None,
        log=log,
    )


def _last(pattern: str, log: str) -> str | None:
    found = re.findall(pattern, log)
    return found[-1] if found else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
