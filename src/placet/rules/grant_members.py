"""What a policy file says of standing grants: that they may be given for what a rule asks about, and the most of one.

    grants = { uses = 20, usable_for = "8h" }

Without it nobody can give one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, Final

from placet.model.contract import EffectClass, Risk
from placet.model.decision import LONGEST_GRANT_SECONDS, MOST_GRANT_USES, GrantTerms, RequirementKind

GRANTS: Final = "grants"
OF_GRANTS: Final = ("uses", "usable_for")
_FORM: Final = 'grants = { uses = 20, usable_for = "8h" }'
_UNREACHED_RISKS: Final = frozenset({Risk.HIGH, Risk.CRITICAL})


def read_grants(said: object, seconds_of: Callable[[object], float | None]) -> GrantTerms | list[tuple[str, str]]:
    """What the member says, or what is wrong with it: messages, each with a hint."""
    if type(said) is not dict:
        return [("'grants' is no table", _FORM)]
    uses, seconds = said.get("uses"), seconds_of(said.get("usable_for"))
    wrong = list(_wrong_with(said, uses, seconds))
    if wrong or type(uses) is not int or seconds is None:
        return wrong
    return GrantTerms(max_uses=uses, max_seconds=seconds)


def _wrong_with(said: dict[str, Any], uses: object, seconds: float | None) -> Iterator[tuple[str, str]]:
    for name in said:
        if name not in OF_GRANTS:
            nearest = get_close_matches(name, OF_GRANTS, n=1, cutoff=0.5)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known: {', '.join(OF_GRANTS)}."
            yield f"an unknown member {name!r} at grants", hint
    if type(uses) is not int or not 1 <= uses <= MOST_GRANT_USES:
        yield "'grants' says how often one may be used", f"uses is from 1 to {MOST_GRANT_USES:,}."
    if seconds is None or seconds > LONGEST_GRANT_SECONDS:
        yield "'grants' says how long one may be good for", 'usable_for is like "30m", "8h" or "2d", at most 31 days.'


def useless_grants(found: dict[str, Any]) -> tuple[str, str] | None:
    """Why a rule's grants would be good for nothing it fits: message and hint; None if they are good for something."""
    if found[GRANTS] is None:
        return None
    if found["needs"] is not RequirementKind.REVIEW:
        return "a standing grant takes the place of a review only", 'Leave grants out, or say needs = "review".'
    if found["risks"] and found["risks"] <= _UNREACHED_RISKS:
        return "no standing grant reaches a high or critical risk", "Leave grants out of a rule for those risks."
    if found["effects"] == frozenset({EffectClass.IRREVERSIBLE}):
        return "no standing grant reaches an irreversible act", "Leave grants out of a rule for those."
    return None
