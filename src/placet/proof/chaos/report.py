"""The table of a run, for people and as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from placet.proof.chaos.database import Takedown
from placet.proof.chaos.plan import AT_RANDOM, NAMED_STEPS, STOOD_STILL, UNDISTURBED, ChaosPlan
from placet.proof.chaos.reckoning import Reckoning, Row
from placet.proof.chaos.slots import Load

SCHEMA = "chaos/1"
COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("step", lambda row: row.name),
    ("times", lambda row: str(row.times) if row.times else "-"),
    ("operations", lambda row: str(row.operations)),
    ("acted once", lambda row: str(row.acted_once)),
    ("never acted", lambda row: str(row.never_acted)),
    ("unknown, reconciled", lambda row: str(row.reconciled)),
    ("still unknown", lambda row: str(row.still_unknown)),
    ("acted twice", lambda row: str(row.acted_twice)),
    ("lost", lambda row: str(row.lost)),
    ("orphan events", lambda row: str(row.orphans)),
)
_ORDER = (
    *(step.name for step in NAMED_STEPS),
    AT_RANDOM,
    STOOD_STILL,
    *(takedown.value for takedown in Takedown),
    UNDISTURBED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosReport:
    """One run: what was planned, what was done, what was found."""

    plan: ChaosPlan
    load: Load
    reckoning: Reckoning

    @property
    def is_clean(self) -> bool:
        """Whether nothing acted twice, is lost, orphaned or unknown, and the audit holds; never if sabotaged."""
        return self.plan.sabotage is None and self.reckoning.is_clean

    @property
    def is_sabotage_unseen(self) -> bool:
        """Whether something was broken on purpose and the table does not show it: then the run proves nothing."""
        return self.plan.sabotage is not None and self.reckoning.is_clean

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row for each thing that happened, in the order of a call's life, and the sum."""
        by_name = {row.name: row for row in self.reckoning.rows}
        known = [by_name[name] for name in _ORDER if name in by_name]
        others = [row for name, row in by_name.items() if name not in _ORDER]
        return (*known, *others, self.reckoning.total)

    def as_data(self) -> dict[str, Any]:
        load, found = self.load, self.reckoning
        return {
            "settings": self.plan.as_data(),
            "kills": load.kills,
            "lives": load.lives,
            "outages": dict(load.outages),
            "seconds": round(load.seconds, 1),
            "settling_seconds": round(found.settled_seconds, 1),
            "faults": dict(sorted(load.faults.items())),
            "not_reached": list(load.unreached),
            "audit": {"events": found.events, "writers": found.writers, "breaks": found.breaks},
            "rows": [asdict(row) for row in self.rows],
            "clean": self.is_clean,
            "sabotage_unseen": self.is_sabotage_unseen,
        }

    def lines(self) -> list[str]:
        """What is said beside the table."""
        load, found, plan = self.load, self.reckoning, self.plan
        sabotage = f", sabotaged: {plan.sabotage.value}" if plan.sabotage is not None else ""
        outages = sum(load.outages.values())
        said = [
            f"{load.kills} kills in {load.seconds:.0f} s, {load.lives} lives of {plan.workers} workers, "
            f"{outages} outages of the database; seed {plan.seed}, steps {plan.steps.value}{sabotage}",
            f"Settled {found.settled_seconds:.0f} s after the last kill. Audit: {found.events} events of "
            f"{found.writers} writers, {found.breaks} breaks.",
        ]
        if load.faults:
            told = ", ".join(f"{code} {count}" for code, count in sorted(load.faults.items()))
            said.append(f"Workers that gave up by themselves: {told}.")
        if load.unreached:
            said.append(f"Steps that no worker came to: {', '.join(load.unreached)}.")
        return [*said, self._verdict()]

    def _verdict(self) -> str:
        if self.is_sabotage_unseen:
            return "THE SABOTAGE WAS NOT SEEN, so this run shows nothing: try another seed, or more kills."
        if not self.is_clean:
            return "NOT CLEAN: see the last columns."
        return "Nothing acted twice, and nothing was lost."
