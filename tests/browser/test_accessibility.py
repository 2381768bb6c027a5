"""axe finds nothing on any page, light or dark; what is said aloud is said in one place."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe

from tests.browser.conftest import OpenSite
from tests.console.shop import MEI
from tests.console.test_several import note as jot

pytestmark = [pytest.mark.timeout(300)]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
async def test_axe_finds_nothing_on_any_page(open_site: OpenSite, scheme: Any) -> None:
    site = await open_site(jot)
    await site.ask("lose", order="o-9")
    (view,) = await site.gate.desk.pending(by=MEI)
    await site.gate.desk.approve(view.approval_id, digest=view.digest, by=MEI)
    await site.ask("lose", call="c-1", order="o-9")
    await site.ask("refund", order="o-1", amount=5, note="word " * 150, options={"b": None, "c": [1, {"d": True}]})
    await site.ask("delete_account", name="bob")
    await site.ask("charge", card="4000123412341234", amount=5)
    await site.gate.switch.stop("tool:look", by=MEI, reason="odd")
    (effect,) = await site.gate.reconciler.effects(by=MEI)
    cards = [f"/approvals/{each.approval_id}" for each in await site.gate.desk.listed(by=MEI)]
    waiting = [view.approval_id for view in await site.gate.desk.pending(by=MEI)]
    cards.append(f"/several?{'&'.join(f'chosen={name}' for name in waiting)}")
    for number in range(2):
        await site.ask("note", order=f"o-{number}", text="word " * 150)
    alike = [view.approval_id for view in await site.gate.desk.pending(by=MEI) if view.tool == "note"]
    cards.append(f"/several?{'&'.join(f'chosen={name}' for name in alike)}")
    cards.append(f"/why?approval={cards[0].rpartition('/')[2]}")
    pages = (
        "/",
        "/?tab=decided",
        "/?tab=pending&sort=risk",
        "/effects",
        "/runs",
        "/run?run=run-1",
        "/run?run=run-1&view=compact",
        "/run?run=run-1&view=full",
        "/grants",
        "/audit",
        "/audit/verify",
        "/tools",
        "/stops",
        "/me",
    )
    problems: dict[str, list[str]] = {}
    async with site.signed_in(color_scheme=scheme, bypass_csp=True) as page:
        for path in (*pages, *cards, "/nowhere"):
            await page.goto(f"{site.address}/console{path}")
            await note(problems, path, page)
        await page.goto(f"{site.address}/console/effect?key={effect.operation_key}")
        await note(problems, "/effect", page)
        await page.goto(f"{site.address}/console/")
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await page.locator("#peek h1").wait_for()
        await note(problems, "peek", page)
        await page.keyboard.press("?")
        await note(problems, "help", page)
        assert await page.locator("[aria-live]").count() == 1
    context = await site.context(color_scheme=scheme, bypass_csp=True)
    page = await context.new_page()
    await page.goto(f"{site.address}/console/sign-in")
    await note(problems, "/sign-in", page)
    await context.close()
    site.faults.clear()  # /nowhere is a 404, which the browser notes

    assert problems == {}


async def note(problems: dict[str, list[str]], name: str, page: Any) -> None:
    found = await Axe().run(page)
    for each in found.response["violations"]:
        targets = [node["html"][:150] for node in each["nodes"][:3]]
        problems.setdefault(name, []).append(f"{each['id']}: {targets}")
