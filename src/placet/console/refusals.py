"""What the desk, the reconciler or the switch refused, as a page says it."""

from __future__ import annotations

from placet.errors import DecisionRefused
from placet.rules.refusing import NOT_ENTITLED


def words_of(refusal: DecisionRefused) -> str:
    """Why, and what to do next."""
    return f"{refusal} {refusal.hint}".strip()


def status_of(refusal: DecisionRefused) -> int:
    """Whether it is about whoever wanted it, or about how the thing stands."""
    return 403 if refusal.code in NOT_ENTITLED else 409
