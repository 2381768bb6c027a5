"""Scores, and the survivors that are explained.

`tests/mutation/survivors.toml` names each mutant that no test can notice, or should, with the reason; `.mutation/`
holds the results of the last run on this machine. `--check` demands that they agree, both ways.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .runs import ROOT, Result
from .sources import Mutant

RESULTS = ROOT / ".mutation/results.json"
EXPLAINED = ROOT / "tests/mutation/survivors.toml"
OPEN = ("survived", "untested", "unjudged")
"""What is open after a run: nothing noticed it, nothing reaches it, or its tests do not pass unchanged."""

Identity = tuple[str, str, str, str, int]


def load_results() -> list[Result]:
    if not RESULTS.exists():
        return []
    return [
        Result(
            mutant=_mutant(entry["mutant"]),
            status=entry["status"],
            by=entry["by"],
        )
        for entry in json.loads(RESULTS.read_text(encoding="utf-8"))
    ]


def _mutant(entry: dict[str, Any]) -> Mutant:
    places = {name: tuple(value) for name, value in entry.items() if type(value) is list}
    return Mutant(**(entry | places))


def save_results(results: Sequence[Result], *, paths: Sequence[Path]) -> None:
    """Add results to the last ones; all there was of `paths` is replaced."""
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    kept = {result.mutant.identity: result for result in load_results() if result.mutant.file not in files}
    kept |= {result.mutant.identity: result for result in results}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(result) for result in kept.values()], indent=0), encoding="utf-8")


def forget_results(present: Collection[Identity], *, paths: Sequence[Path]) -> None:
    """Drop what was said of mutants of these files that are no mutants any more."""
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    kept = [r for r in load_results() if r.mutant.file not in files or r.mutant.identity in present]
    RESULTS.write_text(json.dumps([asdict(result) for result in kept], indent=0), encoding="utf-8")


def explained() -> dict[Identity, str]:
    """The explained survivors, each with its reason."""
    if not EXPLAINED.exists():
        return {}
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["survivor"]
    return {
        (entry["file"], entry["function"], entry["before"], entry["after"], entry.get("nth", 1)): entry["reason"]
        for entry in entries
    }


def agree(paths: Sequence[Path]) -> int:
    """Print every disagreement between the last results and the explanations; 0 if there is none."""
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    judged = {result.mutant.identity: result for result in load_results() if result.mutant.file in files}
    reasons = {identity: reason for identity, reason in explained().items() if identity[0] in files}
    missing = [result for identity, result in judged.items() if result.status in OPEN and identity not in reasons]
    stale = [identity for identity in reasons if identity not in judged or judged[identity].status not in OPEN]
    for result in missing:
        print(f"not explained: {_shown(result)}")
    for identity in stale:
        print(f"explained, and yet no survivor: {identity[0]} {identity[1]}\n    - {identity[2]}\n    + {identity[3]}")
    print(f"{len(reasons)} explained, {len(missing)} not explained, {len(stale)} no longer survivors.")
    return 1 if missing or stale else 0


def survivors_text(results: Iterable[Result], paths: Sequence[Path]) -> str:
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    reasons = explained()
    chosen = [result for result in results if result.status in OPEN and result.mutant.file in files]
    return "\n".join(
        _shown(result)
        for result in sorted(chosen, key=lambda result: (result.mutant.file, result.mutant.start))
        if result.mutant.identity not in reasons
    )


def _shown(result: Result) -> str:
    mutant = result.mutant
    place = f"{mutant.file}:{mutant.lines[0]} {mutant.function or '(module)'} [{mutant.operator}] {result.status}"
    nth = f"  (nth = {mutant.nth})" if mutant.nth > 1 else ""
    return f"{place}{nth}\n    - {mutant.before}\n    + {mutant.after}"


def score_table(results: Iterable[Result], paths: Sequence[Path]) -> str:
    """One line for each file, and a last one for all: what was noticed, in percent of all but the explained."""
    files = [path.relative_to(ROOT).as_posix() for path in paths]
    reasons = explained()
    counts: dict[str, Counter[str]] = {file: Counter() for file in files}
    for result in results:
        if result.mutant.file in counts:
            is_explained = result.status in OPEN and result.mutant.identity in reasons
            counts[result.mutant.file]["explained" if is_explained else result.status] += 1
    lines = [f"{'':44} killed timeout survived untested unjudged explained  score"]
    for file, count in counts.items():
        if count.total():
            lines.append(_line(file.removeprefix("src/placet/"), count))
    if len(lines) > 2:
        lines.append(_line("all", sum(counts.values(), Counter())))
    return "\n".join(lines)


def _line(name: str, count: Counter[str]) -> str:
    noticed = count["killed"] + count["timeout"]
    judged = count.total() - count["explained"]
    score = 100.0 * noticed / judged if judged else 100.0
    words = ("killed", "timeout", "survived", "untested", "unjudged", "explained")
    return f"{name:44}" + "".join(f" {count[word]:{len(word)}}" for word in words) + f"  {score:5.1f}"
