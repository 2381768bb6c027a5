"""Which events of an audit somebody wants to see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEvents:
    """Every word that is given narrows. Words stand exactly as events say them; one that no event says finds nothing.

    Attributes:
        kinds: any of these; all kinds if it is None.
        person: who did it, decided it, or had it done on its behalf.
        rule: a reason that policy gave.
    """

    kinds: frozenset[str] | None = None
    run_id: str | None = None
    tool: str | None = None
    approval_id: str | None = None
    person: str | None = None
    outcome: str | None = None
    detail: str | None = None
    rule: str | None = None
