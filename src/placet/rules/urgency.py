"""Which of many questions a person should see first: the gravest, and of those the one that is over soonest.

What the order is made of never changes while a question waits: its contract, its deadline and its id. So a list in this
order may be read a page at a time; whatever comes meanwhile stands where it belongs, before or after the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from placet.model.approval import Approval
from placet.model.contract import Risk
from placet.model.listing import Mark

_LEAST_FIRST: Final[Sequence[Risk | None]] = (Risk.LOW, Risk.MEDIUM, Risk.HIGH, None, Risk.CRITICAL)
"""None: nobody here knows the contract, so it may be critical, and stands right after what is."""


def gravity(risk: Risk | None) -> int:
    """The higher, the graver. None: nobody here can tell."""
    return _LEAST_FIRST.index(risk)


def mark_of_urgency(approval: Approval, risk: Risk | None) -> Mark:
    """Where a question stands among others of its tenant.

    Args:
        risk: of its contract; None where the contract is not known here.
    """
    question = approval.question
    return Mark(at=question.decide_by, name=question.approval_id, number=gravity(risk))


def urgency(mark: Mark) -> tuple[int, datetime, str]:
    """What marks of this order are compared by: the lower one comes first."""
    return -mark.number, mark.at, mark.name
