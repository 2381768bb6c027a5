"""What is known of the load while it goes on: slots, their journals, and what disturbed which operation."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placet.proof.chaos.worker import LAST_WORDS

SUCCESSES = ("succeeded", "replayed")


@dataclass(slots=True, kw_only=True)
class Load:
    """What the load was, once it is over.

    Attributes:
        times: how often each step, random moment or suspension happened.
        kills: deaths by SIGKILL, the supervisor's and the steps' own.
        lives: workers that were started.
        begun: the run that each operation was first asked for in, in that order.
        open: operations whose last asker has heard no last word.
        disturbed: what first disturbed an operation.
        successes: operations that some asker was told a success of.
        faults: how often a life ended by itself, by the code of its fault.
        outages: of the database, each of which it came back from.
        unreached: named steps that no life came to.
        ready_seconds: how long each life took to open its gate.
    """

    times: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    lives: int = 0
    begun: dict[str, str] = field(default_factory=dict)
    open: dict[str, None] = field(default_factory=dict)
    disturbed: dict[str, str] = field(default_factory=dict)
    successes: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    outages: Counter[str] = field(default_factory=Counter)
    unreached: tuple[str, ...] = ()
    seconds: float = 0.0
    ready_seconds: list[float] = field(default_factory=list)

    def disturb(self, operations: Any, by: str) -> None:
        self.times[by] += 1
        for operation in operations:
            self.disturbed.setdefault(operation, by)


@dataclass(slots=True, kw_only=True)
class Slot:
    """One worker over all its lives.

    Attributes:
        open: operations begun and without a last word, oldest first.
        asking: operations that the present life has begun or taken up, and has not been answered.
        next: the number of its next new operation.
        read: bytes of its journal that have been taken in.
    """

    number: int
    journal: Path
    open: dict[str, None] = field(default_factory=dict)
    asking: set[str] = field(default_factory=set)
    next: int = 0
    read: int = 0

    def take_in(self, load: Load) -> list[str]:
        """Read on in the journal; what kinds of lines were new."""
        return [self._take(line, load) for line in self._new_lines()]

    def _new_lines(self) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        with self.journal.open("rb") as journal:
            journal.seek(self.read)
            whole, _, _ = journal.read().rpartition(b"\n")
        self.read += len(whole) + 1 if whole else 0
        return [json.loads(line) for line in whole.splitlines()]

    def _take(self, line: dict[str, Any], load: Load) -> str:
        match line:
            case {"what": "ready", "seconds": float(seconds)}:
                load.ready_seconds.append(seconds)
            case {"what": "begun", "operation": str(name)}:
                load.begun.setdefault(name, f"run-{self.number}")
                self.open[name] = None
                self.asking.add(name)
                self.next += 1
            case {"what": "told", "operation": str(name), "status": str(status)}:
                self.asking.discard(name)
                if status in LAST_WORDS:
                    self.open.pop(name, None)
                if status in SUCCESSES:
                    load.successes.add(name)
            case {"what": "fault", "code": str(code)}:
                load.faults[code] += 1
            case _:
                pass
        return str(line["what"])
