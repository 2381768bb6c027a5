"""Several calls of one turn wait at once: each decision is for the question it names, and for nothing else."""

from __future__ import annotations

import pytest

import placet
from placet import Gate, openai_turn
from placet.agent import calls
from placet.errors import PlacetError

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("pay",))
MARA = placet.Principal.person("mara", tenant="acme", roles=("admin",), scopes=("approvals.decide", "pay"))
UNKNOWN = "unknown"


def tools(done: list[str]) -> list[placet.Tool]:
    @placet.tool(effect="write", risk="low", permission="pay", approval="always")
    async def pay(to: str) -> str:
        """Pay."""
        done.append(to)
        return to

    @placet.tool(effect="read")
    async def look() -> str:
        """Look."""
        return "looked"

    return [pay, look]


async def decided(gate: Gate, verb: str, approval_id: str) -> str:
    """What became of one decision."""
    try:
        view = await gate.desk.show(approval_id, by=MARA) if approval_id != UNKNOWN else None
        digest = "0" * 64 if view is None else view.digest
        await getattr(gate.desk, verb)(approval_id, by=MARA, digest=digest)
    except PlacetError as refusal:
        return refusal.code
    return "taken"


@pytest.mark.case("E14")
@pytest.mark.parametrize(
    ("decisions", "answers", "codes"),
    [
        pytest.param([("approve", 0)], ["taken"], ["succeeded", "approval_required"], id="one of two"),
        pytest.param(
            [("deny", 1), ("approve", 0)], ["taken"] * 2, ["succeeded", "approval_denied"], id="both, the other way"
        ),
        pytest.param(
            [("approve", UNKNOWN), ("approve", 1), ("deny", 0)],
            ["not_found", "taken", "taken"],
            ["approval_denied", "succeeded"],
            id="three for two",
        ),
        pytest.param(
            [("deny", 0), ("approve", 0), ("approve", 1)],
            ["taken", "already_decided", "taken"],
            ["approval_denied", "succeeded"],
            id="two for one of them",
        ),
    ],
)
async def test_a_decision_is_for_the_question_it_names(
    decisions: list[tuple[str, int | str]], answers: list[str], codes: list[str]
) -> None:
    done: list[str] = []
    turn = openai_turn(calls(("pay", {"to": "a"}), ("look", {}), ("pay", {"to": "b"})), turn=0)
    async with placet.open(tools=tools(done), store=placet.MEMORY) as gate:
        first, free, second = await gate.submit_all(turn.proposals, principal=AGENT, run="r1")
        assert free.code == "succeeded"
        assert isinstance(first, placet.AwaitingApproval) and isinstance(second, placet.AwaitingApproval)
        ids = (first.approval_id, second.approval_id)
        said = [await decided(gate, verb, which if isinstance(which, str) else ids[which]) for verb, which in decisions]
        again = await gate.submit_all(turn.proposals, principal=AGENT, run="r1")

    assert said == answers
    assert [again[0].code, again[2].code] == codes
    assert done == [to for to, code in zip("ab", codes, strict=True) if code == "succeeded"]
