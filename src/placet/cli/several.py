"""Several approvals on one command line: what became of each, told one by one.

The first refusal is the exit code; where nobody heard whether one was decided, that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from placet.cli.failing import UsageProblem, exit_of_error, hint_of
from placet.cli.screen import Screen, shown
from placet.cli.seen import Seen, details
from placet.cli.table import Exit
from placet.engine.several import MOST_AT_ONCE, NOT_TRIED, ChosenAnswer
from placet.errors import DecisionRefused, NotFound, PlacetError, StoreInDoubt, StoreUnavailable
from placet.model.approval import ApprovalState

_NOT_GIVEN = frozenset({ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of one of several.

    Attributes:
        seen: as it stands now; None where that cannot be shown.
        refusal: why it was not decided as was asked; None if it was.
    """

    approval_id: str
    seen: Seen | None
    refusal: PlacetError | None = None


def answered(said: ChosenAnswer, *, now: datetime) -> Answered:
    """The same as the desk has it, with its refusal as an error of ours."""
    seen = None if said.approval is None else Seen(view=said.approval, now=now)
    return Answered(approval_id=said.approval_id, seen=seen, refusal=_refusal(said))


def refuse_twice_or_too_many(approval_ids: Sequence[str]) -> None:
    """
    Raises:
        UsageProblem: one of them is named twice, or they are more than are decided at once.
    """
    if len(set(approval_ids)) != len(approval_ids):
        raise UsageProblem("The same approval is named twice")
    if len(approval_ids) > MOST_AT_ONCE:
        raise UsageProblem(f"At most {MOST_AT_ONCE} approvals are decided at once; {len(approval_ids)} were named")


def report_several(screen: Screen, answers: Sequence[Answered], report: Callable[[Seen], None]) -> Exit:
    """Tell what stands, then what was refused and why.

    Args:
        report: tells one that was decided.
    """
    done = [each.seen for each in answers if each.refusal is None and each.seen is not None]
    refused = [(each.approval_id, each.refusal) for each in answers if each.refusal is not None]
    if screen.is_text:
        for seen in done:
            report(seen)
        for approval_id, why in refused:
            what = "perhaps decided" if isinstance(why, StoreInDoubt) else "not decided"
            screen.warn(f"placet: {what}: {shown(approval_id)}: {why}")
            if hint := hint_of(why):
                screen.warn(f"  {hint}")
    else:
        said = [
            {"approval_id": name, "code": why.code, "message": str(why), "hint": hint_of(why)} for name, why in refused
        ]
        screen.document("approvals-decided/1", {"approvals": [details(seen) for seen in done], "refused": said})
    faults = sorted((why for _, why in refused), key=lambda why: not isinstance(why, StoreInDoubt))
    return exit_of_error(faults[0]) if faults else Exit.OK


@contextmanager
def told_before(screen: Screen, answers: Sequence[Answered]) -> Iterator[None]:
    """Where it all ends at one of several, what became of those before it stands all the same, and is told."""
    try:
        yield
    except PlacetError:
        for each in answers:
            if each.seen is not None:
                state = each.seen.view.state.value
                screen.warn(f"placet: decided before: {state} {shown(each.approval_id)}")
            elif each.refusal is not None:
                screen.warn(f"placet: not decided: {shown(each.approval_id)}: {each.refusal}")
        raise


def _refusal(said: ChosenAnswer) -> PlacetError | None:
    if said.code is None:
        return None
    is_not_given = said.approval is not None and said.approval.state in _NOT_GIVEN
    code = "not_approved" if said.code == "already_decided" and is_not_given else said.code
    kind = {each.code: each for each in (NotFound, StoreInDoubt, StoreUnavailable)} | {NOT_TRIED: StoreUnavailable}
    return kind.get(said.code, DecisionRefused)(said.message, code=code, hint=said.hint)
