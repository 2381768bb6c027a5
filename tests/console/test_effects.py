"""What people see of effects in the console, and how they settle what nobody knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import placet
from placet.model.effect import EffectState
from tests.console.shop import LOOKER, MEI, Shop, fields_of, forms_of, open_shop
from tests.console.test_pages import MARKUP, decide, page, text_of


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


async def lost(shop: Shop) -> str:
    """An effect that nobody knows of; its key."""
    approval_id = await shop.asked("lose", order="o-9")
    await decide(shop, approval_id, "approve")
    assert (await shop.ask("lose", call=f"c-{shop.calls}", order="o-9")).code == "effect_unknown"
    (effect,) = await shop.gate.reconciler.effects(by=MEI, states=(EffectState.UNKNOWN,))
    return effect.operation_key


@pytest.mark.parametrize(("truth", "state"), [("committed", "done, as a look"), ("absent", "not done, as a look")])
async def test_a_person_says_what_became_of_an_unknown_effect(shop: Shop, truth: str, state: str) -> None:
    key = await lost(shop)
    assert "Needs reconciling 1" in text_of(await page(shop, "/"))
    shop.clock.advance(3_600)
    await shop.gate.reconciler.recover()
    form = next(
        form for form in forms_of(await page(shop, f"/effect?key={key}"), "/settlement") if form["truth"] == truth
    )

    answer = await shop.browser.post("/console/effect/settlement", data=form | {"evidence": "seen_in_desk"})

    assert answer.status_code == 303, answer.text
    assert state in text_of(await page(shop, answer.headers["location"].removeprefix("/console")))
    other = {"truth": "absent" if truth == "committed" else "committed"}
    again = await shop.browser.post("/console/effect/settlement", data=form | {"evidence": "seen_in_desk"} | other)
    assert again.status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": ""},
        {"evidence": "two words"},
        {"evidence": MARKUP},
        {"truth": "perhaps"},
        {"truth": ""},
        {"looked_at": "yesterday"},
        {"looked_at": "2026-01-01T00:00:00"},
    ],
)
async def test_half_a_statement_settles_nothing(shop: Shop, change: dict[str, str]) -> None:
    key = await lost(shop)
    form = fields_of(await page(shop, f"/effect?key={key}"), "/settlement") | {"evidence": "seen_in_desk"}

    answer = await shop.browser.post("/console/effect/settlement", data=form | change)

    assert answer.status_code in (400, 422)
    (effect,) = await shop.gate.reconciler.effects(by=MEI)
    assert effect.state is EffectState.UNKNOWN


async def test_a_look_from_before_counts_for_no_absence(shop: Shop) -> None:
    key = await lost(shop)
    form = next(
        form for form in forms_of(await page(shop, f"/effect?key={key}"), "/settlement") if form["truth"] == "absent"
    )
    early = (shop.clock.now() - timedelta(hours=1)).isoformat()

    answer = await shop.browser.post(
        "/console/effect/settlement", data=form | {"evidence": "not_in_desk", "looked_at": early}
    )

    assert answer.status_code == 409 and "Look again after the quiet end" in answer.text


async def test_whoever_may_only_read_effects_has_none_of_them_probed() -> None:
    looked: list[str] = []

    async def probe(context: placet.ProbeContext) -> placet.Found:
        looked.append(context.operation_key)
        return placet.Found(result="sent")

    @placet.tool(
        effect="write", risk="high", permission="shop.write", probe=probe, retry=None,
        remote=placet.Remote(arrival_bound_seconds=1.0),
    )  # fmt: skip
    async def lose(order: str) -> str:
        """Sends, and never learns what became of it."""
        raise ConnectionResetError

    async with open_shop(tools=[lose]) as shop:
        key = await lost(shop)
        reader = await shop.as_person(placet.Principal.person("ro", tenant="acme", scopes=("effects.read",)))
        csrf = fields_of((await reader.get("/console/me")).text, "/sign-out")["csrf"]

        refused = await reader.post("/console/effect/probe", data={"csrf": csrf, "key": key})

        assert (refused.status_code, looked) == (403, [])
        assert "effects.reconcile" in refused.text
        (effect,) = await shop.gate.reconciler.effects(by=MEI)
        assert effect.state is EffectState.UNKNOWN

        csrf = fields_of((await shop.browser.get("/console/me")).text, "/sign-out")["csrf"]
        taken = await shop.browser.post("/console/effect/probe", data={"csrf": csrf, "key": key})
        assert (taken.status_code, len(looked)) == (303, 1)


async def test_an_effect_of_somebody_else_is_none_without_leave(shop: Shop) -> None:
    key = await lost(shop)
    looker = await shop.as_person(LOOKER)

    assert (await looker.get("/console/effect", params={"key": key})).status_code == 404
    assert "o-9" not in (listed := (await looker.get("/console/effects")).text) and "There is no such effect" in listed
