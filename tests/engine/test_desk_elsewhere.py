"""The desk in a process that does not have the tool, or has it with another contract; and cancelled deciders."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import placet
from placet import AwaitingApproval, Principal, Tool, WideInt, tool
from placet.errors import DecisionRefused, NotFound

AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("cards.use",))
MARA = Principal.person("mara", tenant="acme", scopes=("approvals.decide",))
LARGE = 2**63 + 1


def charge(*, version: str = "1") -> Tool:
    @tool(
        effect="write",
        risk="medium",
        permission="cards.use",
        approval="always",
        redact=("pin",),
        version=version,
        name="charge",
    )
    async def charge(account: WideInt, pin: str) -> str:
        """Charge a card."""
        return "charged"

    return charge


async def ask(store: Path) -> str:
    async with placet.open(tools=[charge()], store=store) as gate:
        arguments = {"account": LARGE, "pin": "4921"}
        waiting = await gate.submit(
            {"call_id": "c1", "tool": "charge", "arguments": arguments}, principal=AGENT, run="r"
        )
    assert isinstance(waiting, AwaitingApproval)
    return waiting.approval_id


@pytest.mark.parametrize("tools", [[], [charge(version="2")]], ids=["without the tool", "with another contract"])
async def test_a_desk_without_the_contract_masks_everything_and_approves_nothing(
    tmp_path: Path, tools: list[Tool]
) -> None:
    store = tmp_path / "p.db"
    asked = await ask(store)

    async with placet.open(tools=tools, store=store) as gate:
        (view,) = await gate.desk.pending(by=MARA)
        with pytest.raises(DecisionRefused) as refused:
            await gate.desk.approve(asked, digest=view.digest, by=MARA)
        denied = await gate.desk.deny(asked, digest=view.digest, by=MARA)

    assert view.arguments == {"account": "[REDACTED]", "pin": "[REDACTED]"}
    assert (view.why_not, refused.value.code) == ("contract_not_here", "contract_not_here")
    assert denied.state is placet.ApprovalState.DENIED


async def test_a_desk_with_the_contract_shows_wide_integers_exactly(tmp_path: Path) -> None:
    asked = await ask(tmp_path / "p.db")

    async with placet.open(tools=[charge()], store=tmp_path / "p.db") as gate:
        view = await gate.desk.show(asked, by=MARA)

    assert view.arguments == {"account": LARGE, "pin": "[REDACTED]"}
    assert (view.redacted, view.why_not) == (("pin",), None)


@pytest.mark.parametrize("approval_id", ["", "\ud800", "x" * 129, None, 7])
async def test_an_id_of_no_valid_form_is_simply_not_found(tmp_path: Path, approval_id: object) -> None:
    async with placet.open(tools=[charge()], store=tmp_path / "p.db") as gate:
        with pytest.raises(NotFound):
            await gate.desk.show(approval_id, by=MARA)  # type: ignore[arg-type]


async def test_a_cancelled_decider_hears_of_it_there_and_not_later(tmp_path: Path) -> None:
    asked = await ask(tmp_path / "p.db")

    async with placet.open(tools=[charge()], store=tmp_path / "p.db") as gate:
        view = await gate.desk.show(asked, by=MARA)
        deciding = asyncio.create_task(gate.desk.approve(asked, digest=view.digest, by=MARA))
        await asyncio.sleep(0)
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]
        after = await gate.desk.show(asked, by=MARA)

    assert after.state in (placet.ApprovalState.PENDING, placet.ApprovalState.APPROVED)


def test_values_of_calls_and_reports_are_not_in_their_repr() -> None:
    from placet.model.attempt import Rejected, Returned

    assert "4929-1234" not in repr(Returned(value="4929-1234")) + repr(Rejected(message="4929-1234"))
