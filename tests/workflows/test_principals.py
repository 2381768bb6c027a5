"""Whose run it is, and what that principal may by now: carried through every rest, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet import Ended, Principal, Waiting
from placet.adapters.identity.secrets import SystemSecrets
from placet.engine.api_keys import ApiKeys
from tests.engine.conftest import SCOPE
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT

USER = Principal.person("uma", tenant="acme", roles=("operator",), scopes=(SCOPE,))
DELEGATE = replace(AGENT, on_behalf_of=USER)
OF_THE_AGENT = ("run_begun", "run_moved", "run_waits", "run_ended", "started", "completed", "approval_asked")
KEEPER = Principal.person("kim", tenant="acme", scopes=("api_keys.manage",))


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
async def test_a_delegated_agents_run_goes_on_elsewhere_as_the_delegated_agents(
    open_shop: OpenShop, where: str
) -> None:
    """A run that came back from its rest as the agent alone would have the rights that its user does not have."""
    shop = await open_shop(store=where)
    weak = replace(DELEGATE, on_behalf_of=replace(USER, scopes=frozenset[str]()))
    await shop.start(principal=DELEGATE)
    await shop.start("weak", principal=weak)
    waits = await shop.drive()
    refused = await shop.drive("weak")
    await shop.approve(waits)
    later = await open_shop(store=where, clock=shop.world.clock, spies=shop, seed=1)

    ended = await later.drive()

    assert isinstance(ended, Ended)
    assert (ended.status, later.payments.count) == ("done", 1)
    assert isinstance(refused, Ended)
    assert (refused.status, refused.code) == ("failed", "not_paid")
    mine = [event for event in later.world.events() if event.get("run_id") == "r1" and event["kind"] in OF_THE_AGENT]
    (begun,) = (event for event in mine if event["kind"] == "run_begun")
    assert begun["on_behalf_of"] is not None
    assert {(event["subject"], str(event["on_behalf_of"])) for event in mine} == {
        (AGENT.subject, str(begun["on_behalf_of"]))
    }


@pytest.mark.req("H050")
@pytest.mark.parametrize(
    "other",
    [
        replace(AGENT, subject="another"),
        replace(AGENT, environment="staging"),
        replace(AGENT, on_behalf_of=USER),
        Principal.person("agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,)),
        "agent-operator",
        None,
    ],
    ids=["subject", "environment", "delegated", "person", "text", "nobody"],
)
async def test_a_run_does_not_go_on_as_somebody_else(open_shop: OpenShop, other: Any) -> None:
    async def principal_of(principal: Principal) -> Any:
        return other

    shop = await open_shop(principal_of=principal_of)
    await shop.start()

    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert (waits.code, shop.looks.count) == ("principal_gone", 0)


async def test_a_run_has_the_rights_that_its_principal_has_by_now(open_shop: OpenShop) -> None:
    scopes: list[tuple[str, ...]] = [(SCOPE,)]

    async def principal_of(principal: Principal) -> Principal:
        return replace(principal, scopes=frozenset(scopes[-1]))

    shop = await open_shop(principal_of=principal_of)
    await shop.start()
    await shop.approve(await shop.drive())
    scopes.append(())

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.code, shop.payments.count) == ("not_paid", 0)


# ---------------------------------------------------------------- those who hold a key of this store


def keys_of(shop: Shop) -> ApiKeys:
    around = shop.world.gate.runs.around
    return ApiKeys(store=around.store, keys=around.keys, chronicle=around.chronicle, secrets=SystemSecrets())


@pytest.mark.req("H050")
@pytest.mark.parametrize("ends", ["revoked", "expired"])
async def test_a_run_whose_api_key_has_ended_waits_until_there_is_another(open_shop: OpenShop, ends: str) -> None:
    shop = await open_shop()
    keys = keys_of(shop)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,), lifetime_seconds=60.0)
    await shop.start()
    await shop.approve(await shop.drive())
    if ends == "revoked":
        await keys.revoke(made.key.api_key_id, by=KEEPER)
    else:
        shop.world.clock.advance(60)

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.code, shop.payments.count) == ("principal_gone", 0)

    await keys.create("somebody", by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    assert (await shop.drive()).code == "principal_gone"  # type: ignore[union-attr]
    await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    ended = await shop.drive()
    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.count) == ("done", 1)


async def test_a_run_has_no_more_scopes_than_the_keys_that_are_left(open_shop: OpenShop) -> None:
    shop = await open_shop()
    keys = keys_of(shop)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=("other.scope",))
    await shop.start()
    await shop.approve(await shop.drive())
    await keys.revoke(made.key.api_key_id, by=KEEPER)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.code, shop.payments.count) == ("not_paid", 0)


@pytest.mark.parametrize("scopes", [None, ("other.scope",)], ids=["no key", "keys that allow less"])
async def test_a_run_that_the_program_vouches_for_is_not_held_to_keys(
    open_shop: OpenShop, scopes: tuple[str, ...] | None
) -> None:
    shop = await open_shop()
    if scopes is not None:
        made = await keys_of(shop).create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=scopes)
    await shop.start()
    await shop.approve(await shop.drive())
    if scopes is not None:
        await keys_of(shop).revoke(made.key.api_key_id, by=KEEPER)

    assert isinstance(await shop.drive(), Ended)
    assert shop.payments.count == 1


# ---------------------------------------------------------------- one workflow, several runs


async def test_two_runs_of_one_principal_each_do_what_they_are_about(open_shop: OpenShop) -> None:
    """Under the same call ids: what one has done is not the other's, nor in its way."""
    shop = await open_shop()
    for run in ("r1", "r2"):
        await shop.start(run)
        await shop.approve(await shop.drive(run))

    ended = [await shop.drive(run) for run in ("r1", "r2")]

    assert [each.status for each in ended if isinstance(each, Ended)] == ["done", "done"]
    assert (shop.payments.count, shop.shipments.count) == (2, 4)
    assert len({effect.operation_key for effect in await shop.world.effects()}) == 6
    assert {event.get("outcome") for event in shop.world.events("completed")} == {"success", "approval_required"}
