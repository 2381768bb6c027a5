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
from itertools import groupby
from pathlib import Path

from .report import agree, forget_results, load_results, save_results, score_table, survivors_text
from .runs import ROOT, Result, Survey, Task, preload, run_cold, run_warm, survey
from .sources import Mutant, error_names, mutants

TESTS = {
    "rules": ("tests/rules", "tests/model"),
    "engine": ("tests/engine",),
}
"""The room of tests that must notice a change in a room of the core, by itself."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make mutation ARGS=...", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="rules, rules/canonical, engine/gate ... (default: rules)")
    parser.add_argument("--check", action="store_true", help="compare the last results with the explained survivors")
    parser.add_argument("--survivors", action="store_true", help="show the survivors of the last results")
    parser.add_argument("--again", action="store_true", help="run only what survived the last time")
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
        _run(room, own, chosen.tests or TESTS[room], again=chosen.again, only=chosen.only)
    print(score_table(load_results(), paths))
    return 0


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


def _run(room: str, paths: list[Path], tests: Sequence[str], *, again: bool, only: str) -> None:
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    began = time.monotonic()
    try:
        seen, modules = survey(tests, paths, folder=folder / "survey")
        print(f"{room}: {len(seen.seconds)} tests, {sum(seen.seconds.values()):.1f} s of processor time", flush=True)
        preload(modules)
        wanted = _wanted(paths, again=again, only=only)
        if not (again or only):
            save_results([], paths=paths)
        judged: list[Result] = []
        for result in _judge(wanted, tests, seen, folder=folder):
            judged.append(result)
            if len(judged) % 200 == 0:
                save_results(judged, paths=[])
                print(f"{len(judged)} of {len(wanted)}, {time.monotonic() - began:.0f} s", flush=True)
        save_results(judged, paths=[])
        forget_results({mutant.identity for mutant in _wanted(paths, again=False, only="")}, paths=paths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wanted(paths: list[Path], *, again: bool, only: str) -> list[Mutant]:
    names = error_names(ROOT / "src/placet/errors.py")
    found = [
        mutant for path in paths for mutant in mutants(path, root=ROOT, error_names=names) if only in mutant.function
    ]
    if not again:
        return found
    left = {result.mutant.identity for result in load_results() if result.status in ("survived", "untested")}
    return [mutant for mutant in found if mutant.identity in left]


def _judge(wanted: list[Mutant], tests: Sequence[str], seen: Survey, *, folder: Path) -> Iterator[Result]:
    tasks: list[Task] = []
    for file, group in groupby(wanted, key=lambda mutant: mutant.file):
        own: list[Task] = []
        for mutant in group:
            reached = seen.tests_of_lines(mutant)
            reloads = not mutant.function or "" in reached
            names = _likeliest_first(mutant, seen) if reloads else seen.fastest_first(reached)
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
            continue
        if status == "cold" or (task.reloads and status == "survived"):
            cold.append(task)
        else:
            yield Result(mutant=task.mutant, status=status, by=by)
    for file in sorted({task.file for task in cold}):
        everything = {test for task in cold if task.file == file for test in task.tests}
        if run_cold(None, seen.fastest_first(everything), seen, folder=folder / "control")[0] != "survived":
            raise SystemExit(f"The unchanged tests of {file} do not pass in a fresh process.")
    print(f"{len(cold)} in fresh processes", flush=True)
    for task in cold:
        assert task.mutant is not None  # noqa: S101 - controls are not in the list
        status, by = run_cold(task.mutant, task.tests, seen, folder=folder / "cold")
        yield Result(mutant=task.mutant, status=status, by=by)


def _likeliest_first(mutant: Mutant, seen: Survey) -> list[str]:
    """Every test that reaches the module or whose file speaks of it or of its whole room; its own file's first.

    A table or a bound is read without running a line of its module.
    """
    room, *words = mutant.file.removesuffix(".py").removesuffix("/__init__").split("/")[2:]
    files = {test.partition("::")[0] for test in seen.seconds}
    named = re.compile(rf"\b{[room, *words][-1]}\b|from placet import {room}\b")
    speak = {file for file in files if named.search((ROOT / file).read_text(encoding="utf-8"))}
    everything = {test for test in seen.seconds if test.partition("::")[0] in speak}
    everything |= seen.tests_of_file(mutant.file)
    own = {test for test in everything if any(f"test_{word}" in test.partition("::")[0] for word in words)}
    return seen.fastest_first(own) + seen.fastest_first(everything - own)


if __name__ == "__main__":
    sys.exit(main())
