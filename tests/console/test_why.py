"""Why a person was asked: policy's word of then beside its word of now, or plainly why nothing can be asked again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.model.decision import Ask, Decision, Entitled, Requirement
from placet.model.identifiers import PolicyVersion
from tests.console.shop import AGENT, EDITOR, LOOKER, STRANGER, TOOLS, Shop, fields_of, open_shop
from tests.console.test_pages import QUORUM, decide, page, text_of


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


async def why(shop: Shop, approval_id: str) -> str:
    return text_of(await page(shop, f"/why?approval={approval_id}"))


async def kinds(shop: Shop) -> list[str]:
    return [json.loads(event.body)["kind"] async for event in shop.gate.store.chained()]


async def test_the_stored_input_is_asked_again_and_both_words_are_shown(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    await decide(shop, approval_id, "approve")
    before = await kinds(shop)

    text = await why(shop, approval_id)

    assert "What was said then, as the audit has it ask , policy" in text
    assert "What the same policy says of the same input now ask , policy" in text
    assert text.count("for the role admin and something of high risk matrix_admin_high") == 2
    assert "The same." in text and "with the roles on record (admin)" in text
    assert "it is taken to have held the one that the contract needs, shop.write , and no other" in text
    assert await kinds(shop) == before, "nothing is asked or recorded"


async def test_under_another_policy_nothing_is_asked_again(tmp_path: Path) -> None:
    store, policy = tmp_path / "placet.db", tmp_path / "policy.toml"
    policy.write_text(QUORUM)
    async with open_shop(store) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
    async with open_shop(store, policy=policy) as shop:
        text = await why(shop, approval_id)
        assert "What was said then" in text and "What the same policy says" not in text
        assert "Another policy is in force here than the one that decided it" in text
    async with open_shop(store, tools=TOOLS[1:]) as shop:
        assert "does not know the contract that it was asked under" in await why(shop, approval_id)


async def test_what_is_redacted_is_not_guessed(shop: Shop) -> None:
    text = await why(shop, await shop.asked("charge", card="4000123412341234", amount=3))

    assert "Some arguments are redacted here" in text and "4000" not in text


async def test_roles_that_are_on_no_record_are_not_guessed(shop: Shop) -> None:
    boss = placet.Principal.agent("boss", tenant="acme", roles=("admin",), scopes=("shop.write",))
    helper = placet.Principal.agent(
        "helper", tenant="acme", roles=("admin",), scopes=("shop.write",), on_behalf_of=boss
    )
    arguments = {"order": "o-1", "amount": 5}
    outcome = await shop.gate.submit(
        {"call_id": "c", "tool": "refund", "arguments": arguments}, principal=helper, run="r"
    )
    assert outcome.code == "approval_required"
    [view] = await shop.gate.desk.pending(by=EDITOR)

    assert "acted for somebody else, whose roles are not on record" in await why(shop, view.approval_id)


async def test_a_call_that_a_person_made_points_to_the_one_it_was_made_of(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=100)
    eve = await shop.as_person(EDITOR)
    fields = fields_of((await eve.get(f"/console/approvals/{approval_id}")).text, "/edit")
    changed = fields | {"arguments": json.dumps({"order": "o-1", "amount": 40})}
    place = (await eve.post(f"/console/approvals/{approval_id}/edit", data=changed)).headers["location"]
    edited = place.partition("/approvals/")[2].partition("?")[0]

    assert "A person made this call of another one" in await why(shop, edited)


class Moody:
    """A policy of one version that asks for another reason each time."""

    version = "moody-1"
    timeout_seconds = None

    def __init__(self) -> None:
        self.asked = 0

    async def decide(self, call: Any) -> Decision:
        self.asked += 1
        return Ask(reasons=(f"mood_{self.asked}",), policy_version=PolicyVersion("moody-1"), requirement=Requirement())

    def is_listed(self, contract: Any, principal: Any) -> bool:
        return True

    async def may_decide(self, question: Any, person: Any) -> Any:
        return Entitled()


async def test_a_policy_that_says_otherwise_of_the_same_input_is_shown_to() -> None:
    async with open_shop(policy=Moody()) as shop:
        text = await why(shop, await shop.asked("refund", order="o-1", amount=5))

        assert "mood_1" in text and "mood_2" in text and "Not the same." in text


async def test_why_is_for_those_who_may_read_the_audit_of_their_own_tenant(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    looker, stranger = await shop.as_person(LOOKER), await shop.as_person(STRANGER)

    assert (await looker.get(f"/console/why?approval={approval_id}")).status_code == 403
    assert (await stranger.get(f"/console/why?approval={approval_id}")).status_code == 404
    assert AGENT.subject not in (await stranger.get(f"/console/why?approval={approval_id}")).text
