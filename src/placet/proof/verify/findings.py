"""What a scenario is, and what it finds.

A scenario ends in one of four ways: it returns what held, or it raises `Breach`, `NotPlayed` or `CannotApply`. What was
not played is counted and named; it is never green.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from placet.model.contract import Contract

if TYPE_CHECKING:
    from placet.proof.verify.stage import Stage
    from placet.rules.contracts import Tool


REPORT = "This is a fault of placet itself: please report it."
"""The next step where nothing of the configuration can be at fault."""


class Guarantee(StrEnum):
    """The guarantees, by their number; the value is what each says."""

    G1 = "Nothing unlisted runs."
    G2 = "Nothing unchecked runs."
    G3 = "The server says who."
    G4 = "Nobody acts without leave."
    G5 = "What was approved is what runs."
    G6 = "Once."
    G7 = "Unknown is not failed."
    G8 = "Bounded."
    G9 = "Always closed."
    G10 = "Nothing leaks."
    G11 = "Tamper shows."
    G12 = "Tenants do not meet."


class Verdict(StrEnum):
    HELD = "held"
    BROKEN = "broken"
    NOT_PLAYED = "not run"
    CANNOT_APPLY = "n/a"


class Breach(Exception):
    """The guarantee does not hold here. Our own words: what was seen, and what to do."""

    def __init__(self, told: str, next_step: str) -> None:
        super().__init__(told)
        self.told = told
        self.next_step = next_step


class NotPlayed(Exception):
    """The scenario could not be played against this; the message says why."""


class CannotApply(Exception):
    """There is nothing here for the scenario to be about, such as arguments; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A scenario about the configuration as a whole."""

    guarantee: Guarantee
    id: str
    play: Callable[[Stage], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTool:
    """A scenario that is played with each tool that `concerns` it."""

    guarantee: Guarantee
    id: str
    play: Callable[[Stage, Tool], Awaitable[str]]
    concerns: Callable[[Contract], bool] = lambda contract: True


Scenario = Once | PerTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One scenario, played or not, with one tool or with all.

    Attributes:
        next_step: what to do about a breach; empty otherwise.
        seconds: how long it took.
    """

    guarantee: Guarantee
    scenario: str
    tool: str | None
    verdict: Verdict
    told: str
    next_step: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All findings, in the order of the guarantees."""

    findings: tuple[Finding, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(1 for finding in self.findings if finding.verdict is verdict)

    @property
    def unproven(self) -> tuple[Guarantee, ...]:
        """Guarantees of which nothing was played here."""
        played = {finding.guarantee for finding in self.findings if finding.verdict in (Verdict.HELD, Verdict.BROKEN)}
        return tuple(guarantee for guarantee in Guarantee if guarantee not in played)


def require(holds: object, told: str, next_step: str) -> None:
    """
    Raises:
        Breach: it does not hold.
    """
    if not holds:
        raise Breach(told, next_step)
