"""The guard against a model that asks for the same over and over: what it is told, and what is not proposed for it.

Source: CASES J03; ADR-0057.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.outcome import Outcome, Refused
from placet.model.proposal import Proposal
from placet.rules.repeats import Again, Repeats, Window

REPEATED = "repeated"
_WARNING = (
    "You have asked for exactly this before, and asking again will soon be refused. Go on with what you know, ask for "
    "something else, or tell the user.\n"
)
_REFUSAL = (
    "You have asked for exactly this too often, so it was not proposed again: nothing ran. What it came to before "
    "stands. Go on with what you know, ask for something else, or tell the user."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """The calls of one turn. `made`: what is proposed; `refused`: by place, what is not; `warned`: places."""

    made: tuple[Proposal, ...]
    refused: Mapping[int, Refused]
    warned: frozenset[int]

    def all(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes of what was proposed, and the others, in the turn's order."""
        waiting = iter(outcomes)
        count = len(self.made) + len(self.refused)
        return [self.refused[place] if place in self.refused else next(waiting) for place in range(count)]

    def told(self, place: int, content: str) -> str:
        """What a model is told of this call: before it, that it has asked for it often."""
        return f"{_WARNING}{content}" if place in self.warned else content


class Guard:
    """Looks at the calls of one piece of work."""

    def __init__(self, repeats: Repeats, *, before: Iterable[str], contracts: Sequence[Contract]) -> None:
        """Args:
        before: the ids of the calls that the run has had.
        """
        self._window = Window(repeats, Counter(mark_of(call_id) for call_id in before))
        self._names = frozenset(contract.name for contract in contracts)

    def sorted(self, proposals: Sequence[Proposal]) -> Sorted:
        """What of a turn is proposed; a turn that was cut off counts for nothing."""
        said = [
            Again.MADE if each.is_truncated else self._window.asked(each.tool, mark_of(each.call_id))
            for each in proposals
        ]
        return Sorted(
            made=tuple(each for each, again in zip(proposals, said, strict=True) if again is not Again.REFUSED),
            refused={
                place: self._refusal(proposals[place]) for place, again in enumerate(said) if again is Again.REFUSED
            },
            warned=frozenset(place for place, again in enumerate(said) if again is Again.WARNED),
        )

    def _refusal(self, proposal: Proposal) -> Refused:
        is_known = type(proposal.tool) is str and proposal.tool in self._names
        tool = proposal.tool if is_known else UNKNOWN_TOOL_LABEL
        return Refused(call_id=proposal.call_id, tool=tool, code=REPEATED, message=_REFUSAL)


def mark_of(call_id: str) -> str:
    """What a call asks for: its id without which of them it is."""
    return call_id.rpartition(".")[0]
