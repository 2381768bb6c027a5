"""What the codes of rules mean, in words, and what about a call would have made no question of it.

Codes of the built-in policy, of contracts and of the gate are known here. Another engine's are shown as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from placet.model.contract import Risk
from placet.model.principal import Role

_MATRIX = re.compile(rf"matrix_({'|'.join(Role)})_({'|'.join(Risk)})")
_RULE = "rule:"
_WORDS = {
    "contract_always_asks": "the contract of the tool itself has a person asked every time",
    "contract_never_asks": "the policy would ask, and the contract lets nobody wave it through",
    "edited_by_a_person": "a person changed the arguments, which makes it another call",
    "may_act_twice": "it was sent before, and if that did happen after all, it would happen twice",
    "no_policy": "there is no policy, which allows nothing",
    "nobody_confirms": "the user it acts for would have to confirm it, and it acts for none",
    "no_role": "whoever asked holds no role",
    "policy_failed": "the policy did not answer, which is a no",
    "state_changed": "it was approved before, and the state that approval was bound to has changed since",
    "scope_missing": "whoever asked lacks the scope that the contract needs",
    "tenant_not_allowed": "the contract is not for this tenant",
}
_NOT_BY_ARGUMENTS = "Nothing about its arguments: the table sees role and risk alone."
_AVOIDED = {
    "contract_always_asks": "Nothing about this call: its contract asks every time.",
    "state_changed": "A call that runs before anything of what it is about changes.",
    "may_act_twice": "Proof that the first one did not happen, or a remote that would notice the same call again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule that decided.

    Attributes:
        words: what it means; empty for a code that nobody here knows.
        avoided: what would have made this rule ask nothing; empty where nobody here can tell.
    """

    code: str
    words: str = ""
    avoided: str = ""


def reason_of(code: str) -> Reason:
    """A rule by its code."""
    if (cell := _MATRIX.fullmatch(code)) is not None:
        words = f"the table of roles and risks, for the role {cell[1]} and something of {cell[2]} risk"
        return Reason(code=code, words=words, avoided=_NOT_BY_ARGUMENTS)
    if code.startswith(_RULE):
        name = code.removeprefix(_RULE)
        return Reason(code=code, words=f"the rule {name} of the policy file says whose answer it takes")
    return Reason(code=code, words=_WORDS.get(code, ""), avoided=_AVOIDED.get(code, ""))


def reasons_of(codes: tuple[str, ...]) -> tuple[Reason, ...]:
    """Each of them once, in their order."""
    return tuple(reason_of(code) for code in dict.fromkeys(codes))


def held_risk(codes: tuple[str, ...]) -> Risk | None:
    """For which risk the policy held a call, by the codes it gave; None where they do not say."""
    cells = [cell for code in codes if (cell := _MATRIX.fullmatch(code)) is not None]
    return max((Risk(cell[2]) for cell in cells), key=tuple(Risk).index, default=None)
