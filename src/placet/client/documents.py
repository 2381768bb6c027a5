"""What the server's documents hold that is no value of its own in the library: read, and taken apart at once."""

from __future__ import annotations

from dataclasses import dataclass

from placet.engine.desk import ApprovalView
from placet.model.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """Where a list goes on."""

    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Whether more was there than was looked through."""

    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentApprovals:
    """Approvals, the gravest first.

    Attributes:
        is_cut: whether more were there than the server looks through: graver ones may be among the oldest.
    """

    approvals: tuple[ApprovalView, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """Which policy is in force; None where it has no version."""

    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDocument:
    """What everybody is told of a tool, among the rest."""

    name: str
    version: str
    effect_class: str
    risk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WishDocument:
    """A wish as the server's document has it."""

    tool: str
    subjects: tuple[str, ...]
    limits: JsonObject
    seconds: float
    max_uses: int
    run: str | None = None
