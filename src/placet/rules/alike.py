"""Which questions may be approved with one answer: those of which one look tells what all of them do.

Each keeps its own digest, its own decision and its own record; what is decided here is only whether a person may say
yes to several at once. Saying no to several at once needs no likeness. Source: O06; UI 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from placet.model.approval import Question
from placet.model.contract import Contract, EffectClass, Risk

NOT_ALIKE: Final = "not_alike"
TOO_GRAVE_TOGETHER: Final = "too_grave_together"
WHY_NOT_ALIKE: Final = {
    "tool": "They are not calls of one tool.",
    "contract": "They are calls of one tool, but not of one version of its contract.",
    "policy": "They were not asked under one version of the policy.",
    "rule": "They were not asked by one rule, for the same reasons.",
    "environment": "They would not run in one environment.",
}
"""In which way questions are not alike, in the order in which it is looked for."""


def unlike(questions: Sequence[Question]) -> str | None:
    """In which way these are not alike, by its name in `WHY_NOT_ALIKE`; None if they are."""
    for name in WHY_NOT_ALIKE:
        if len({_facet(name, each) for each in questions}) > 1:
            return name
    return None


def is_too_grave(question: Question, contract: Contract) -> bool:
    """Whether the call has to be approved by itself: of high risk, not to be taken back, or perhaps done already."""
    return (
        contract.risk in (Risk.HIGH, Risk.CRITICAL)
        or contract.effect_class is EffectClass.IRREVERSIBLE
        or "may_act_twice" in question.reasons
    )


def _facet(name: str, question: Question) -> object:
    match name:
        case "tool":
            return question.tool
        case "contract":
            return question.tool_version, question.contract_digest
        case "policy":
            return question.policy_version
        case "rule":
            return (
                question.requirement,
                question.lifetime_seconds,
                question.terms,
                question.reasons,
                question.reminders,
            )
        case _:
            return question.environment
