"""What a decision page says of its call while it is open: it waits, it was used, nobody knows, it never will be."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from placet import Principal
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from tests.console.shop import MEI, OMAR, Shop, fields_of, open_shop
from tests.console.test_pages import decide, page, text_of


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


def asking(html: str) -> str | None:
    """The address by which the page asks how its call stands; None where it asks nothing any more."""
    found = re.search(r'hx-get="/console(/approvals/[^"]*/standing[^"]*)"', html)
    return unescape(found[1]) if found is not None else None


async def ask(shop: Shop, address: str | None) -> tuple[int, str]:
    assert address is not None
    answer = await shop.browser.get(f"/console{address}", headers={"HX-Request": "true"})
    return answer.status_code, answer.text


async def test_an_open_page_is_told_what_became_of_its_call_and_then_asks_no_more(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    waits = asking(await page(shop, f"/approvals/{approval_id}"))
    assert (await ask(shop, waits))[0] == 204, "nothing has changed"

    await decide(shop, approval_id, "approve")
    status, told = await ask(shop, waits)
    assert status == 200 and "approved by mei" in text_of(told) and "not used yet: 5 min left" in text_of(told)
    assert "<html" not in told and "<form" not in told

    approved = asking(told)
    assert (await ask(shop, approved))[0] == 204
    await shop.ask("refund", call="c-1", order="o-1", amount=5)
    status, told = await ask(shop, approved)
    assert status == 200 and "and used: done its effect" in text_of(told)
    assert asking(told) is None


async def test_what_was_said_on_arrival_is_not_said_once_it_is_no_longer_all(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    _, place = await decide(shop, approval_id, "approve")
    assert "Nothing ran yet" in await page(shop, place.removeprefix("/console"))
    await shop.ask("refund", call="c-1", order="o-1", amount=5)

    assert "Nothing ran yet" not in await page(shop, place.removeprefix("/console"))


@pytest.mark.parametrize("decision", ["deny", "approve"])
async def test_somebody_elses_answer_reaches_an_open_page(shop: Shop, decision: str) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    waits = asking(await page(shop, f"/approvals/{approval_id}"))
    view = await shop.gate.desk.show(approval_id, by=OMAR)
    answer = shop.gate.desk.deny if decision == "deny" else shop.gate.desk.approve
    await answer(approval_id, digest=view.digest, by=OMAR, reason="seen")

    _, told = await ask(shop, waits)

    state = ApprovalState.DENIED if decision == "deny" else ApprovalState.APPROVED
    assert f'data-state="{state.value}"' in told and "by omar" in text_of(told)
    assert (asking(told) is None) is (decision == "deny")


async def test_an_effect_that_nobody_knows_of_is_said_and_asked_after(shop: Shop) -> None:
    approval_id = await shop.asked("lose", order="o-9")
    await decide(shop, approval_id, "approve")
    await shop.ask("lose", call=f"c-{shop.calls}", order="o-9")
    html = await page(shop, f"/approvals/{approval_id}")

    assert "nobody knows whether it happened" in text_of(html)
    shop.clock.advance(3_600)
    await shop.gate.reconciler.recover()
    (effect,) = await shop.gate.reconciler.effects(by=MEI, states=(EffectState.UNKNOWN,))
    form = fields_of(await page(shop, f"/effect?key={effect.operation_key}"), "/settlement")
    await shop.browser.post("/console/effect/settlement", data=form | {"truth": "absent", "evidence": "not_in_desk"})
    status, told = await ask(shop, asking(html))
    assert status == 200 and "not done, as a look found later" in text_of(told)
    assert asking(told) is None


async def test_whoever_may_not_see_effects_learns_that_it_was_used_and_no_more(shop: Shop) -> None:
    approval_id = await shop.asked("lose", order="o-9")
    await decide(shop, approval_id, "approve")
    await shop.ask("lose", call=f"c-{shop.calls}", order="o-9")
    looker = await shop.as_person(Principal.person("lu", tenant="acme"))

    html = (await looker.get(f"/console/approvals/{approval_id}")).text

    assert "and used" in text_of(html) and "nobody knows" not in html and "its effect" not in html
    assert asking(html) is None


async def test_an_approval_is_not_told_the_effect_of_a_later_one(shop: Shop) -> None:
    """The operation failed, was asked about again, and acted: the first approval was used for what failed."""
    approval_id = await shop.asked("lose", order="o-9")
    await decide(shop, approval_id, "approve")
    await shop.ask("lose", call="c-1", order="o-9")
    shop.clock.advance(3_600)
    await shop.gate.reconciler.recover()
    (effect,) = await shop.gate.reconciler.effects(by=MEI)
    form = fields_of(await page(shop, f"/effect?key={effect.operation_key}"), "/settlement")
    await shop.browser.post("/console/effect/settlement", data=form | {"truth": "absent", "evidence": "not_in_desk"})
    assert (await shop.ask("lose", call="c-1", order="o-9")).code == "approval_required"
    (second,) = await shop.gate.desk.pending(by=MEI)
    await decide(shop, second.approval_id, "approve")
    await shop.ask("lose", call="c-1", order="o-9")

    assert "nobody knows" in await page(shop, f"/approvals/{second.approval_id}")
    assert "nobody knows" not in await page(shop, f"/approvals/{approval_id}")


async def test_asking_how_it_stands_keeps_no_session_from_ending(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    used: list[str] = []
    look = shop.sessions.session_of

    async def noted(cookie: str) -> Any:
        used.append(cookie)
        return await look(cookie)

    monkeypatch.setattr(shop.sessions, "session_of", noted)
    monkeypatch.setattr(shop.sessions, "glance", look)
    for path in (f"/approvals/{approval_id}/standing?seen=x", "/run/news?run=run-1&seen=0"):
        assert (await shop.browser.get(f"/console{path}")).status_code == 200
    assert used == []


async def test_another_tenants_call_stands_nowhere(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    stranger = await shop.as_person(Principal.person("mei", tenant="globex", roles=("admin",)))

    found = await stranger.get(f"/console/approvals/{approval_id}/standing?seen=x")
    absent = await stranger.get("/console/approvals/apr-none/standing?seen=x")

    assert (found.status_code, absent.status_code) == (404, 404)
    nonce = re.compile(r'nonce="[^"]*"')
    assert nonce.sub("", found.text) == nonce.sub("", absent.text)


async def test_an_open_page_of_a_row_that_was_altered_says_so_once_and_asks_no_more(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    waits = asking(await page(shop, f"/approvals/{approval_id}"))
    tables: Any = shop.gate.store
    rows = tables._tables.approvals
    (key,) = rows
    rows[key] = replace(rows[key], question=replace(rows[key].question, purpose="another"))

    status, told = await ask(shop, waits)

    assert status == 200 and "was altered" in text_of(told) and "approval_suspect" in told
    assert asking(told) is None
