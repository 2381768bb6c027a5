"""Run mutants of the named parts of the core, print the scores, and compare survivors with what is explained.

python -m scripts.mutation rules/canonical rules/policy      run, from the root of the repository
python -m scripts.mutation --check                           do the last run and the explanations agree?
python -m scripts.mutation --survivors rules/canonical       show what survived
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from math import inf
from pathlib import Path
from zlib import crc32

from .report import OPEN, agree, forget_results, load_results, save_results, score_table, survivors_text
from .runs import ROOT, Result, Survey, Task, failing_unchanged, preload, run_cold, run_warm, survey
from .sources import Mutant, error_names, mutants

TESTS = {
    "rules": ("tests/rules", "tests/model"),
    "engine": ("tests/engine",),
}
"""The room of tests that must notice a change in a room of the core, by itself."""

_SAVED_EVERY_SECONDS = 30.0
"""What a run that is stopped may lose."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make mutation ARGS=...", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="rules, rules/canonical, engine/gate ... (default: rules)")
    parser.add_argument("--check", action="store_true", help="compare the last results with the explained survivors")
    parser.add_argument("--survivors", action="store_true", help="show the survivors of the last results")
    parser.add_argument("--again", action="store_true", help="run only what survived the last time")
    parser.add_argument("--rest", action="store_true", help="run only what the last results say nothing of")
    parser.add_argument(
        "--one-in", type=int, default=1, metavar="N", help="a sample: one mutant in so many, always the same ones"
    )
    parser.add_argument(
        "--seconds", type=float, default=inf, help="run no more tests on a mutant than take this processor time"
    )
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="fewer tests than the room's, for a quick look; then --again"
    )
    parser.add_argument("--only", default="", metavar="NAME", help="only functions with this in their name")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    paths = _paths(chosen.parts or ["rules"])
    if chosen.check:
        return agree(paths)
    if chosen.survivors:
        print(survivors_text(load_results(), paths))
        return 0
    for room in sorted({path.relative_to(ROOT / "src/placet").parts[0] for path in paths}):
        own = [path for path in paths if path.relative_to(ROOT / "src/placet").parts[0] == room]
        _run(room, own, chosen.tests or TESTS[room], which=chosen)
    results = load_results()
    print(score_table(results, paths))
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    return 1 if any(result.status == "unjudged" and result.mutant.file in files for result in results) else 0


def _paths(parts: list[str]) -> list[Path]:
    core = ROOT / "src/placet"
    found: list[Path] = []
    for part in parts:
        place = core / part
        if place.is_dir():
            found += sorted(path for path in place.rglob("*.py"))
        elif place.with_suffix(".py").is_file():
            found.append(place.with_suffix(".py"))
        else:
            raise SystemExit(f"There is no part {part!r} in src/placet.")
    return found


def _run(room: str, paths: list[Path], tests: Sequence[str], *, which: argparse.Namespace) -> None:
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    began = time.monotonic()
    try:
        seen, modules = survey(tests, paths, folder=folder / "survey")
        print(f"{room}: {len(seen.seconds)} tests, {sum(seen.seconds.values()):.1f} s of processor time", flush=True)
        preload(modules)
        everything = _mutants(paths)
        wanted = _wanted(everything, which)
        if not (which.again or which.only or which.rest or which.one_in > 1):
            save_results([], paths=paths)
        judged: list[Result] = []
        saved = time.monotonic()
        try:
            for result in _judge(wanted, tests, seen, folder=folder, most_seconds=which.seconds):
                judged.append(result)
                if time.monotonic() - saved > _SAVED_EVERY_SECONDS:
                    save_results(judged, paths=[])
                    saved = time.monotonic()
                    print(f"{len(judged)} of {len(wanted)}, {saved - began:.0f} s", flush=True)
        finally:  # what was judged before a run was stopped is not judged twice: --rest
            save_results(judged, paths=[])
        forget_results({mutant.identity for mutant in everything}, paths=paths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mutants(paths: list[Path]) -> list[Mutant]:
    names = error_names(ROOT / "src/placet/errors.py")
    return [mutant for path in paths for mutant in mutants(path, root=ROOT, error_names=names)]


def _wanted(everything: list[Mutant], which: argparse.Namespace) -> list[Mutant]:
    last = {result.mutant.identity: result.status for result in load_results()}
    return [
        mutant
        for mutant in everything
        if which.only in mutant.function
        and (not which.again or last.get(mutant.identity) in OPEN)
        and (not which.rest or mutant.identity not in last)
        and crc32(repr(mutant.identity).encode()) % which.one_in == 0
    ]


def _judge(
    wanted: list[Mutant], tests: Sequence[str], seen: Survey, *, folder: Path, most_seconds: float
) -> Iterator[Result]:
    tasks: list[Task] = []
    for file, group in groupby(wanted, key=lambda mutant: mutant.file):
        own: list[Task] = []
        for mutant in group:
            reached = seen.tests_of_lines(mutant)
            reloads = not mutant.function or "" in reached
            own_tests, others = _likely(mutant, seen, reloads=reloads)
            names = seen.first_of(own_tests, most_seconds / 2) + seen.first_of(others, most_seconds / 2)
            if names:
                own.append(Task(file=file, mutant=mutant, tests=names, reloads=reloads))
            else:
                yield Result(mutant=mutant, status="untested")
        for reloads in {task.reloads for task in own}:
            used = seen.fastest_first({test for task in own if task.reloads is reloads for test in task.tests})
            tasks.append(Task(file=file, mutant=None, tests=used, reloads=reloads))
        tasks += own
    cold: list[Task] = []
    for task, status, by in run_warm(tasks, tests, seen, folder=folder):
        if task.mutant is None:
            if by and not task.reloads:
                print(f"{task.file}: left out, for they do not pass twice: {by}", flush=True)
        elif status == "cold" or (task.reloads and status == "survived"):
            cold.append(task)
        else:
            yield Result(mutant=task.mutant, status=status, by=by)
    print(f"{len(cold)} in fresh processes", flush=True)
    for file, group_of_file in groupby(cold, key=lambda task: task.file):
        yield from _judge_cold(file, list(group_of_file), seen, folder=folder)


def _judge_cold(file: str, tasks: Sequence[Task], seen: Survey, *, folder: Path) -> Iterator[Result]:
    everything = {test for task in tasks for test in task.tests}
    failing = failing_unchanged(
        seen.fastest_first(everything), lambda names: run_cold(None, names, seen, folder=folder / "control")
    )
    if failing:
        print(f"{file}: left out, for they do not pass in a fresh process: {', '.join(failing)}", flush=True)
    for task in tasks:
        assert task.mutant is not None  # noqa: S101 - controls are not in the list
        if failing is None:
            yield Result(mutant=task.mutant, status="unjudged")
            continue
        names = [name for name in task.tests if name not in failing]
        status, by = run_cold(task.mutant, names, seen, folder=folder / "cold")
        yield Result(mutant=task.mutant, status=status, by=by)


def _likely(mutant: Mutant, seen: Survey, *, reloads: bool) -> tuple[list[str], list[str]]:
    """The tests that may notice, those of the module's own files and the others, of both the fastest first.

    A table or a bound is read without running a line of its module: there, every test that reaches the module, or whose
    file speaks of it or of its whole room.
    """
    room, *words = mutant.file.removesuffix(".py").removesuffix("/__init__").split("/")[2:]
    everything = seen.tests_of_lines(mutant)
    if reloads:
        files = {test.partition("::")[0] for test in seen.seconds}
        named = re.compile(rf"\b{[room, *words][-1]}\b|from placet import {room}\b")
        speak = {file for file in files if named.search(_text(file))}
        everything = {test for test in seen.seconds if test.partition("::")[0] in speak} | seen.tests_of_file(
            mutant.file
        )
    own = {test for test in everything if f"_{words[-1]}" in test.partition("::")[0]}
    own = own or {test for test in everything if any(f"_{word}" in test.partition("::")[0] for word in words)}
    return seen.fastest_first(own), seen.fastest_first(everything - own)


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
