"""One agent acting for two people, or in two environments, is not one principal."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

import placet
from placet import AwaitingApproval, Principal, Refused, Replayed, Succeeded, tool
from placet.errors import DecisionRefused, MisuseError
from placet.model.principal import subjects_of

SCOPES = ("accounts.use",)


def acting_for(user: str | None, environment: str = "production") -> Principal:
    giver = None
    if user is not None:
        giver = Principal.person(user, tenant="acme", roles=("operator",), scopes=SCOPES, environment=environment)
    return Principal.agent(
        "bot", tenant="acme", roles=("operator",), scopes=SCOPES, environment=environment, on_behalf_of=giver
    )


@tool(effect="sensitive_read", risk="medium", permission="accounts.use")
async def statement(account: str, context: placet.CallContext) -> str:
    """Whose statement it is."""
    giver = context.principal.on_behalf_of
    return f"{account} of {giver.subject if giver else 'nobody'}"


@tool(effect="write", risk="medium", permission="accounts.use", operation_key="top-up:{account}")
async def top_up(account: str) -> str:
    """Act once per account."""
    return account


@tool(effect="write", risk="medium", permission="accounts.use", approval="always")
async def close_account(account: str) -> str:
    """Needs a person."""
    return account


def call(name: str, call_id: str = "c1") -> dict[str, object]:
    return {"call_id": call_id, "tool": name, "arguments": {"account": "7"}}


async def test_two_users_of_one_agent_never_see_each_others_results() -> None:
    async with placet.open(tools=[statement], store="memory:") as gate:
        alice = await gate.submit(call("statement"), principal=acting_for("alice"), run="a", idempotency_key="k")
        bob = await gate.submit(call("statement"), principal=acting_for("bob"), run="b", idempotency_key="k")

    assert (type(alice), type(bob)) == (Succeeded, Succeeded)
    assert (alice.unwrap(), bob.unwrap()) == ("7 of alice", "7 of bob")


async def test_a_run_of_one_user_does_not_exist_for_another() -> None:
    async with placet.open(tools=[statement], store="memory:") as gate:
        await gate.submit(call("statement"), principal=acting_for("alice"), run="a")
        bob = await gate.submit(call("statement", "c2"), principal=acting_for("bob"), run="a")

    assert isinstance(bob, Refused)
    assert bob.code == "not_your_run"


async def test_what_was_done_in_staging_has_not_been_done_in_production() -> None:
    async with placet.open(tools=[top_up], store="memory:") as gate:
        staging = await gate.submit(call("top_up"), principal=acting_for(None, "staging"), run="s")
        production = await gate.submit(call("top_up"), principal=acting_for(None), run="p")
        again = await gate.submit(call("top_up", "c2"), principal=acting_for(None), run="p")

    assert (type(staging), type(production), type(again)) == (Succeeded, Succeeded, Replayed)


async def test_nobody_in_the_chain_of_delegation_reviews_its_own_request() -> None:
    bob = Principal.person("bob", tenant="acme", roles=("operator",), scopes=(*SCOPES, "approvals.decide"))
    alice = Principal.person("alice", tenant="acme", roles=("operator",), scopes=SCOPES)
    middle = dataclasses.replace(bob, on_behalf_of=alice)
    bot = dataclasses.replace(acting_for(None), on_behalf_of=middle)
    async with placet.open(tools=[close_account], store="memory:") as gate:
        waiting = await gate.submit(call("close_account"), principal=bot, run="r")
        assert isinstance(waiting, AwaitingApproval)
        view = await gate.desk.show(waiting.approval_id, by=bob)
        with pytest.raises(DecisionRefused) as refused:
            await gate.desk.approve(view.approval_id, digest=view.digest, by=bob)

    assert refused.value.code == "own_request"


async def test_a_person_signed_in_elsewhere_does_not_decide_for_production() -> None:
    elsewhere = Principal.person("mara", tenant="acme", scopes=("approvals.decide",), environment="staging")
    async with placet.open(tools=[close_account], store="memory:") as gate:
        waiting = await gate.submit(call("close_account"), principal=acting_for("alice"), run="r")
        assert isinstance(waiting, AwaitingApproval)
        view = await gate.desk.show(waiting.approval_id, by=elsewhere)
        with pytest.raises(DecisionRefused) as refused:
            await gate.desk.approve(view.approval_id, digest=view.digest, by=elsewhere)

    assert refused.value.code == "other_environment"


@pytest.mark.parametrize("word", ["commited", "COMMITTED", "", None, True, 1])
async def test_a_slip_of_the_pen_never_becomes_the_other_truth(word: object) -> None:
    mara = Principal.person("mara", tenant="acme", scopes=("effects.reconcile",))
    async with placet.open(tools=[top_up], store="memory:") as gate:
        with pytest.raises(MisuseError):
            await gate.reconciler.settle_by_person(
                "k",
                word,
                by=mara,
                looked_at=datetime(2026, 1, 1, tzinfo=UTC),
                reason="seen",  # type: ignore[arg-type]
            )


@pytest.mark.parametrize("word", ["nonsense", "AUTOMATIC", None, True])
def test_recovery_is_one_of_two_words(word: object) -> None:
    with pytest.raises(MisuseError):
        placet.open(tools=[top_up], store="memory:", recovery=word)  # type: ignore[arg-type]


def test_no_two_principals_share_an_identity() -> None:
    plain = Principal.agent("bot", tenant="acme")
    lookalike = Principal.agent(acting_for("alice").identity[:128], tenant="acme")
    identities = [
        plain.identity,
        acting_for("alice").identity,
        acting_for("bob").identity,
        acting_for(None, "staging").identity,
        lookalike.identity,
    ]

    assert plain.identity == "bot"
    assert len(set(identities)) == len(identities)
    assert subjects_of(acting_for("alice").identity) == ("bot", "alice")
    assert subjects_of("bot") == ("bot",)
    for made_up in ("[" * 5_000, "[1", "[]", '[["a"]'):  # in a row that somebody altered
        assert subjects_of(made_up) == (made_up,)
