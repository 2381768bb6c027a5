"""Whose run it is, and what that principal may by now: carried through every rest, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placet import Ended, InlineDriver, Principal, Unserved, Waiting, Workflows
from placet.adapters.identity.secrets import SystemSecrets
from placet.engine import moves
from placet.engine.api_keys import ApiKeys
from placet.model.workflow import Resting
from tests.engine.conftest import SCOPE
from tests.workflows.conftest import OpenShop, Shop
from tests.workflows.order import AGENT, ORDER, Order

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


@pytest.mark.req("H050")
@pytest.mark.parametrize("ends", ["revoked", "expired", "replaced by one of less"])
async def test_who_was_let_in_by_a_key_that_ended_just_before_begins_no_run_that_outlives_it(
    open_shop: OpenShop, ends: str
) -> None:
    """A session that was opened before goes on with the principal of then."""
    shop = await open_shop()
    keys = keys_of(shop)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,), lifetime_seconds=60.0)
    if ends == "expired":
        shop.world.clock.advance(60)
    else:
        await keys.revoke(made.key.api_key_id, by=KEEPER)
    if ends == "replaced by one of less":
        await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=("other.scope",))
    await shop.start()

    progress = await shop.drive()

    code = "not_paid" if ends == "replaced by one of less" else "principal_gone"
    assert (progress.code, shop.payments.count) == (code, 0)  # type: ignore[union-attr]


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


@pytest.mark.parametrize(
    "less",
    [None, {"roles": ("operator",), "scopes": ("other.scope",)}, {"roles": ("viewer",), "scopes": (SCOPE,)}],
    ids=["no key", "keys of less scopes", "keys of less roles"],
)
async def test_a_run_that_the_program_vouches_for_is_not_held_to_keys(
    open_shop: OpenShop, less: dict[str, Any] | None
) -> None:
    shop = await open_shop()
    if less is not None:
        made = await keys_of(shop).create(AGENT.subject, by=KEEPER, **less)
    await shop.start()
    await shop.approve(await shop.drive())
    if less is not None:
        await keys_of(shop).revoke(made.key.api_key_id, by=KEEPER)

    assert isinstance(await shop.drive(), Ended)
    assert shop.payments.count == 1


@pytest.mark.req("H050")
@pytest.mark.parametrize(
    ("tenant", "subject", "environment"),
    [
        ("globex", AGENT.subject, AGENT.environment),
        (AGENT.tenant, "another", AGENT.environment),
        (AGENT.tenant, AGENT.subject, "staging"),
    ],
    ids=["of another tenant", "of another agent", "of another environment"],
)
async def test_a_key_that_is_not_its_own_keeps_no_run_going(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, tenant: str, subject: str, environment: str
) -> None:
    """Also where the store answers with rows that nobody asked it for."""
    shop = await open_shop()
    keys, store = keys_of(shop), shop.world.gate.store
    everybodys = type(store).credentials

    async def of_everybody(self: Any, kind: Any, **more: Any) -> Any:
        found = [
            await everybodys(self, kind, **more | {"tenant": each, "subject": None}) for each in ("acme", "globex")
        ]
        return (*found[0], *found[1])

    monkeypatch.setattr(type(store), "credentials", of_everybody)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    keeper = replace(KEEPER, tenant=tenant, environment=environment)
    await keys.create(subject, by=keeper, roles=("operator",), scopes=(SCOPE,), environment=environment)
    await shop.start()
    await shop.approve(await shop.drive())
    await keys.revoke(made.key.api_key_id, by=KEEPER)

    waits = await shop.drive()

    assert isinstance(waits, Waiting)
    assert (waits.code, shop.payments.count) == ("principal_gone", 0)


async def test_what_two_keys_allow_together_is_nobodys_leave(open_shop: OpenShop) -> None:
    shop = await open_shop()
    keys = keys_of(shop)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    await keys.create(AGENT.subject, by=KEEPER, roles=("viewer",), scopes=(SCOPE,))
    await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=("other.scope",))
    await shop.start()
    await shop.approve(await shop.drive())
    await keys.revoke(made.key.api_key_id, by=KEEPER)

    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.code, shop.payments.count) == ("not_paid", 0)


@pytest.mark.req("H050")
@pytest.mark.parametrize("has_key", [True, False], ids=["it has a key", "it has none"])
async def test_a_process_that_cannot_ask_the_program_leaves_the_run_alone(open_shop: OpenShop, has_key: bool) -> None:
    async def as_it_was(principal: Principal) -> Principal:
        return principal

    shop = await open_shop(principal_of=as_it_was)
    if has_key:
        await keys_of(shop).create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    await shop.start()
    await shop.approve(await shop.drive())
    other = InlineDriver(Workflows(shop.world.gate, (ORDER,)))

    left = await other.drive(AGENT.tenant, "r1")

    assert isinstance(left, Unserved)
    assert (left.code, shop.payments.count) == ("principal_unavailable", 0)
    assert isinstance(await shop.drive(), Ended)


async def test_rights_that_keys_get_back_the_run_gets_back(open_shop: OpenShop) -> None:
    """A key is replaced in two moves, and the run does a step between them."""
    shop = await open_shop()
    keys = keys_of(shop)
    made = await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE,))
    await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=("other.scope",))
    await shop.start()
    await keys.revoke(made.key.api_key_id, by=KEEPER)
    await shop.workflows.advance("acme", "r1")  # a look, which needs no scope
    await keys.create(AGENT.subject, by=KEEPER, roles=("operator",), scopes=(SCOPE, "more.than.it.began.with"))

    await shop.approve(await shop.drive())
    ended = await shop.drive()

    assert isinstance(ended, Ended)
    assert (ended.status, shop.payments.count) == ("done", 1)


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


# ---------------------------------------------------------------- what the program says, whatever it raises

RAISED: dict[str, Callable[[], BaseException]] = {
    "cancelled": lambda: asyncio.CancelledError("made up"),
    "group": lambda: BaseExceptionGroup("g", [asyncio.CancelledError()]),
    "exit": lambda: SystemExit(0),
}


@pytest.mark.parametrize("kind", RAISED)
async def test_what_the_programs_directory_raises_ends_nobody_elses_run(open_shop: OpenShop, kind: str) -> None:
    bad = replace(AGENT, subject="bad")

    async def principal_of(principal: Principal) -> Principal:
        if principal.subject == bad.subject:
            raise RAISED[kind]()
        return principal

    shop = await open_shop(principal_of=principal_of)
    await shop.start("bad", principal=bad)
    await shop.start("good")

    await InlineDriver(shop.workflows).catch_up()

    good = await shop.workflows.look(AGENT.tenant, "good")
    assert isinstance(good, Waiting) and good.approvals
    waits = await shop.workflows.look(AGENT.tenant, "bad")
    assert isinstance(waits, Waiting) and waits.code == "principal_unavailable"


@pytest.mark.parametrize("is_deaf", [False, True], ids=["ends when cancelled", "does not"])
async def test_a_directory_that_never_answers_keeps_no_run_in_the_hands_of_whoever_asks(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, is_deaf: bool
) -> None:
    """As many runs as are driven at once would otherwise be all that is driven until it answers."""
    monkeypatch.setattr(moves, "_LONGEST_ASKING_SECONDS", 0.05)
    opened = asyncio.Event()

    async def principal_of(principal: Principal) -> Principal:
        while not opened.is_set():
            try:
                await opened.wait()
            except asyncio.CancelledError:
                if not is_deaf:
                    raise
        return principal

    shop = await open_shop(principal_of=principal_of)
    await shop.start()

    waits = await shop.drive()
    assert isinstance(waits, Waiting)
    assert (waits.code, waits.approvals) == ("principal_unavailable", ())
    opened.set()
    shop.world.clock.advance(30)
    waits = await shop.drive()
    assert isinstance(waits, Waiting) and waits.approvals


@pytest.mark.parametrize("kind", RAISED)
async def test_what_an_upgrade_raises_leaves_that_run_alone_and_no_other(open_shop: OpenShop, kind: str) -> None:
    def upgraded(_: Resting) -> Resting:
        raise RAISED[kind]()

    shop = await open_shop()
    await shop.start("bad")
    workflows = Workflows(shop.world.gate, (replace(ORDER, version="2", accepts={"1": upgraded}),))
    await workflows.start("order", run="good", inputs=Order("book", 3), principal=AGENT)

    await InlineDriver(workflows).catch_up()

    assert isinstance(await workflows.look(AGENT.tenant, "good"), Waiting)
    left = await workflows.look(AGENT.tenant, "bad")
    assert isinstance(left, Waiting) and left.code == "upgrade_broken"
