"""Who may decide is what placet.toml says now, in a process that runs on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import placet
from placet import ApprovalState, AwaitingApproval, Principal
from placet.cli.failing import ConfigProblem
from placet.cli.people import ListedPeople
from placet.cli.settings import read_settings
from tests.engine.people import refusal

MARA = '[people.mara]\ntenant = "acme"\nscopes = ["approvals.decide"]\n'
OMAR = MARA.replace("mara", "omar")
AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("pay",))


def people_of(file: Path, text: str) -> ListedPeople:
    file.write_text(text)
    return ListedPeople(read_settings(config=str(file), store=None, key=None))


def rewrite(file: Path, text: str) -> None:
    """As editors do it: another file takes the name."""
    other = file.with_suffix(".new")
    other.write_text(text)
    os.replace(other, file)


async def test_whoever_comes_and_goes_is_known_as_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "placet.toml"
    people = people_of(file, MARA)
    assert [each.subject for each in await people.people("acme")] == ["mara"]

    rewrite(file, OMAR)

    assert await people.person("acme", "mara") is None
    assert [each.subject for each in await people.people("acme")] == ["omar"]
    assert await people.people("globex") == ()


@pytest.mark.parametrize("text", ["[people.mara", "[people]\nmara = 1\n", '[people.mara]\ntenent = "acme"\n', None])
async def test_a_file_that_cannot_be_used_is_no_list_until_it_is_mended(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "placet.toml"
    people = people_of(file, MARA)
    if text is None:
        file.unlink()
    else:
        rewrite(file, text)

    for _ in range(2):  # and it is not believed the second time
        with pytest.raises((ConfigProblem, OSError)):
            await people.person("acme", "mara")

    rewrite(file, MARA)
    assert await people.person("acme", "mara") is not None


async def test_what_somebody_approved_who_was_taken_out_meanwhile_is_not_spent(tmp_path: Path) -> None:
    file, runs = tmp_path / "placet.toml", []
    people = people_of(file, MARA + OMAR)
    mara = await people.person("acme", "mara")
    assert mara is not None

    @placet.tool(effect="write", risk="low", permission="pay", approval="always")
    async def pay(amount: int) -> str:
        runs.append(amount)
        return "paid"

    async with placet.open(tools=[pay], store=tmp_path / "placet.db", people=people, recovery="manual") as gate:

        async def ask() -> placet.Outcome:
            return await gate.submit(
                {"call_id": "c", "tool": "pay", "arguments": {"amount": 1}}, principal=AGENT, run="r"
            )

        waiting = await ask()
        assert isinstance(waiting, AwaitingApproval)
        view = await gate.desk.show(waiting.approval_id, by=mara)
        await gate.desk.approve(waiting.approval_id, digest=view.digest, by=mara)
        rewrite(file, OMAR)

        refused = await ask()

        assert refused.code == "approver_not_entitled"
        assert (await gate.desk.show(waiting.approval_id, by=mara)).state is ApprovalState.REVOKED
        assert runs == []

        rewrite(file, "[people.mara")
        waiting = await ask()
        assert isinstance(waiting, AwaitingApproval)
        assert await refusal(gate.desk.approve(waiting.approval_id, digest=view.digest, by=mara)) == "people_failed"
