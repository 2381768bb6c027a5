"""A long queue in a real browser: the gravest first, several chosen by keyboard, one answer; and without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from placet.model.approval import ApprovalState
from tests.browser.conftest import PATIENCE, OpenSite, Site
from tests.console.shop import MEI, OMAR
from tests.console.test_several import note

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)


async def queue(open_site: OpenSite, *texts: str) -> Site:
    """Some slight calls, and then a grave one that nobody should miss."""
    site = await open_site(note)
    for number, text in enumerate(texts):
        await site.ask("note", order=f"o-{number}", text=text)
    await site.ask("delete_account", name="bob")
    return site


async def states(site: Site) -> dict[str, ApprovalState]:
    return {str(view.resource): view.state for view in await site.gate.desk.listed(by=OMAR)}


@pytest.mark.case("O06")
async def test_several_are_chosen_and_approved_by_keyboard_once_all_of_them_is_open(open_site: OpenSite) -> None:
    site = await queue(open_site, "short", "long " * 200, "third")
    async with site.signed_in() as page:
        await page.get_by_role("link", name="gravest first").click()
        await expect(page.locator("tr[data-row]").first).to_contain_text("account:bob")
        await site.picture(page, "queue-by-risk")
        for key in "jjxjx":
            await page.keyboard.press(key)
        boxes = page.locator('input[name="chosen"]')
        assert [await box.is_checked() for box in await boxes.all()] == [False, True, True, False]
        await page.get_by_role("button", name="Look at the chosen together").press("Enter")
        await page.wait_for_url("**/several?*")
        approve = page.get_by_role("button", name="Approve these 2")
        await expect(page.get_by_text("Open the folded value first")).to_be_visible()
        await expect(approve).to_be_disabled()
        await site.picture(page, "several")
        assert set((await states(site)).values()) == {ApprovalState.PENDING}, "looking decides nothing"
        await page.locator("details[data-must-open] summary").click()
        await expect(approve).to_be_enabled()
        await page.keyboard.press("a")
        await expect(approve).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#done")).to_contain_text("Approved, each of them")

    found = await states(site)
    assert [found[f"order:o-{number}"].value for number in range(3)] == ["approved", "approved", "pending"]
    assert found["account:bob"] is ApprovalState.PENDING


@pytest.mark.case("O06")
async def test_unlike_calls_are_denied_without_scripts(open_site: OpenSite) -> None:
    site = await queue(open_site, "first", "second")
    context = await site.context(java_script_enabled=False)
    page = await context.new_page()
    await sign_in(page, site)
    await expect(page.locator('input[name="chosen"]')).to_have_count(3)
    for box in await page.locator('input[name="chosen"]').all():
        await box.check()
    await page.get_by_role("button", name="Look at the chosen together").click()
    await expect(page.get_by_text("They are not calls of one tool.")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    await page.get_by_label("Why not?").fill("not tonight")
    await page.get_by_role("button", name="Deny all 3").click()
    await expect(page.locator("#done")).to_contain_text("Denied, each of them")
    await context.close()

    assert {view.words for view in await site.gate.desk.listed(by=OMAR)} == {"not tonight"}
    assert set((await states(site)).values()) == {ApprovalState.DENIED}


@pytest.mark.case("O06")
async def test_what_somebody_decided_meanwhile_is_told_and_the_others_are_done(open_site: OpenSite) -> None:
    site = await queue(open_site, "first", "second")
    async with site.signed_in() as page:
        slight = [view for view in await site.gate.desk.pending(by=MEI) if view.tool == "note"]
        await page.goto(f"{site.address}/console/several?{'&'.join(f'chosen={each.approval_id}' for each in slight)}")
        await site.gate.desk.deny(slight[0].approval_id, digest=slight[0].digest, by=OMAR, reason="no")
        await page.get_by_role("button", name="Approve these 2").click()
        await expect(page.get_by_role("alert")).to_contain_text("1 of 2 was not approved; the others were.")
        await expect(page.locator("tr.alarm")).to_contain_text("denied already by omar")
        await site.picture(page, "several-told")
        site.faults.clear()  # a 409, which the browser notes

    found = await states(site)
    assert sorted(found[f"order:o-{number}"].value for number in range(2)) == ["approved", "denied"]


@pytest.mark.parametrize("width", [320, 1600])
async def test_nothing_of_several_is_lost_on_a_small_or_a_wide_screen(open_site: OpenSite, width: int) -> None:
    site = await queue(open_site, "word " * 150, "x" * 300)
    names = [view.approval_id for view in await site.gate.desk.pending(by=MEI)]
    async with site.signed_in(viewport={"width": width, "height": 700}) as page:
        for path in ("/?sort=risk", "/several?" + "&".join(f"chosen={name}" for name in names)):
            await page.goto(f"{site.address}/console{path}")
            for folded in await page.locator("details").all():
                await folded.locator("summary").first.click()
            await site.picture(page, f"several-{width}")
            wider: Any = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await page.evaluate(wider) <= 0, path


async def sign_in(page: Page, site: Site) -> None:
    await page.goto(f"{site.address}/console/sign-in")
    await page.get_by_label("sign-in word").fill(site.sessions.link_for(MEI))
    await page.get_by_role("button", name="Sign in").click()


@pytest.mark.case("O06")
async def test_what_was_ticked_is_never_another_row_after_going_back(open_site: OpenSite) -> None:
    site = await queue(open_site, "first", "second")
    async with site.signed_in() as page:
        await page.goto(f"{site.address}/console/?sort=risk")
        await page.get_by_label("Choose note").first.check()
        await page.get_by_role("button", name="Look at the chosen together").click()
        await page.wait_for_url("**/several?*")
        chosen = {view.approval_id: view for view in await site.gate.desk.pending(by=MEI)}
        grave = next(view for view in chosen.values() if view.tool == "delete_account")
        await site.gate.desk.deny(grave.approval_id, digest=grave.digest, by=OMAR, reason="no")
        await page.go_back()
        await expect(page.locator("tr[data-row]")).to_have_count(2)
        assert [await box.is_checked() for box in await page.locator('input[name="chosen"]').all()] == [False, False]


@pytest.mark.case("O06")
async def test_keys_go_on_after_a_row_was_chosen_with_the_mouse(open_site: OpenSite) -> None:
    site = await queue(open_site, "first", "second")
    async with site.signed_in() as page:
        boxes = page.locator('input[name="chosen"]')
        await boxes.first.click()
        for key in ("j", "x"):
            await page.keyboard.press(key)
        assert [await box.is_checked() for box in await boxes.all()] == [True, True, False]
        await boxes.last.press("Space")
        assert [await box.is_checked() for box in await boxes.all()] == [True, True, True]
