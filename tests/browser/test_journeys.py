"""What people do in the console, in a real browser: by mouse, by keyboard, on a small screen, without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from placet import Matrix, Requirement
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
from tests.browser.conftest import PATIENCE, OpenSite, Site
from tests.console.shop import MEI, OMAR

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)


async def decided(site: Site) -> dict[str, ApprovalState]:
    return {view.tool: view.state for view in await site.gate.desk.listed(by=OMAR)}


async def test_a_person_signs_in_approves_by_keyboard_and_it_happens_once(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in_by_hand() as page:
        assert "#" not in page.url and await page.evaluate("history.length") <= 3
        await site.picture(page, "inbox")
        await page.keyboard.press("j")
        await page.keyboard.press("o")
        await page.wait_for_url("**/approvals/*")
        approve = page.get_by_role("button", name="Approve")
        await expect(approve).to_be_enabled()
        await site.picture(page, "decision")
        await page.keyboard.press("a")
        await expect(approve).to_be_focused()
        assert (await decided(site))["refund"] is ApprovalState.PENDING, "the key only goes there"
        await page.keyboard.press("Enter")
        await expect(page.locator("#done")).to_contain_text("Nothing ran yet")
        await expect(page.locator("#said")).to_contain_text("Approved")
        await site.picture(page, "approved")

    assert (await site.ask("refund", call="c-1", order="o-1", amount=5)).code == "succeeded"
    assert (await site.ask("refund", call="c-1", order="o-1", amount=5)).code == "replayed"


async def test_a_refusal_is_typed_and_sent_by_keyboard(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await page.keyboard.press("j")
        await page.keyboard.press("o")
        await page.wait_for_url("**/approvals/*")
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        await page.keyboard.press("d")
        await page.keyboard.type("j o a d: letters are text here")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#done")).to_contain_text("Denied")

    assert (await decided(site))["refund"] is ApprovalState.DENIED


async def test_something_irreversible_cannot_be_approved_by_hand_slips(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("delete_account", name="bob")
    async with site.signed_in() as page:
        await page.get_by_role("link", name="delete_account").click()
        approve = page.get_by_role("button", name="Approve")
        await expect(approve).to_be_disabled()
        await expect(page.get_by_text("Type the name first.")).to_be_visible()
        await page.keyboard.press("a")
        await page.keyboard.type("account:bo")
        await page.keyboard.press("Enter")
        assert (await decided(site))["delete_account"] is ApprovalState.PENDING
        await page.keyboard.type("b")
        await expect(approve).to_be_enabled()
        await approve.click()
        await expect(page.locator("#done")).to_contain_text("Approved")


async def test_a_folded_value_has_to_be_opened_before_approving(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5, note="the end of it matters " * 40)
    async with site.signed_in() as page:
        await page.get_by_role("link", name="refund").click()
        approve = page.get_by_role("button", name="Approve")
        await expect(page.get_by_text("Open the folded value first")).to_be_visible()
        await expect(approve).to_be_disabled()
        await site.picture(page, "folded")
        await page.get_by_text("text of 880 characters, folded").first.click()
        await expect(approve).to_be_enabled()


async def test_no_key_approves_what_the_button_would_not(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5, note="the end of it matters " * 40)
    async with site.signed_in() as page:
        await page.get_by_role("link", name="refund").click()
        await expect(page.get_by_text("Open the folded value first")).to_be_visible()
        await page.get_by_label("Your words, for the record").fill("fine")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#said")).to_contain_text("Open the folded value first")
        await page.locator("form.approve").evaluate("form => form.requestSubmit()")
        assert await page.locator("form.approve").get_attribute("data-sent") is None
        await page.get_by_text("text of 880 characters").first.click()
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        assert (await decided(site))["refund"] is ApprovalState.PENDING
        await page.get_by_label("Your words, for the record").press("Control+Enter")
        await expect(page.locator("#done")).to_contain_text("Approved")


async def test_no_key_decides_before_the_page_has_stood_for_a_moment(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        site.has_jumped = True
        await page.clock.install()
        await page.clock.pause_at("2100-01-01")
        await page.get_by_role("link", name="refund").click()
        await page.locator("form.deny[data-shown]").wait_for()  # the script has run: without it a form is just sent
        await page.get_by_label("Your words, for the record").press("Control+Enter")
        await page.get_by_label("Why not?").fill("no")
        await page.get_by_label("Why not?").press("Control+Enter")
        await page.locator("form.deny").evaluate("form => form.requestSubmit()")
        assert await page.locator("form[data-sent]").count() == 0
        await page.clock.run_for(500)
        await page.get_by_label("Why not?").press("Control+Enter")
        await expect(page.locator("#done")).to_contain_text("Denied")


async def test_two_people_decide_and_the_second_is_told(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as first, site.signed_in(OMAR) as second:
        await second.route("**/standing?*", lambda route: route.abort())  # it hears nothing of the other one
        for page in (first, second):
            await page.get_by_role("link", name="refund").click()
            await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        await first.get_by_role("button", name="Approve").click()
        await expect(first.locator("#done")).to_contain_text("Approved")
        await second.get_by_label("Why not?").fill("no")
        await second.get_by_role("button", name="Deny").click()
        await expect(second.get_by_role("alert")).to_contain_text("It is approved already by mei")
        await site.picture(second, "conflict")
    site.faults.clear()  # the browser notes the status 409 of the page itself, and what was kept from it

    assert (await decided(site))["refund"] is ApprovalState.APPROVED


async def test_a_question_that_expires_while_it_is_read_loses_its_buttons(open_site: OpenSite) -> None:
    site = await open_site(policy=Matrix(requirement=Requirement(decide_within_seconds=3_600.0)))
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        site.has_jumped = True
        await page.clock.install()
        await page.get_by_role("link", name="refund").click()
        # The page's own script counts from when it began; what htmx has marked, began after it.
        await expect(page.locator("#standing")).to_have_attribute("data-htmx-powered", "true")
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        await page.clock.fast_forward("01:00:01")
        await expect(page.get_by_text("It expired, by the store’s clock.")).to_be_visible()
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(page.locator("#said")).to_contain_text("It expired.")
        await site.picture(page, "expired")


async def test_what_is_new_is_told_at_once_and_shown_when_asked(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        await site.ask("refund", order="o-2", amount=5)
        await expect(page.locator("#news")).to_contain_text("1 new: show")
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        await expect(page.locator("#said")).to_contain_text("1 new")
        await site.picture(page, "news")
        await page.keyboard.press("r")
        await expect(page.locator("tr[data-row]")).to_have_count(2)


async def test_a_row_is_looked_at_beside_the_list_and_the_content_follows_the_choice(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    await site.ask("refund", order="o-2", amount=6)
    async with site.signed_in() as page:
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-1")
        await page.keyboard.press("j")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-2")
        await site.picture(page, "peek")
        await page.keyboard.press("Escape")
        await expect(page.locator("#peek h1")).to_have_count(0)
        await expect(page.get_by_role("link", name="refund").nth(1)).to_be_focused()


async def test_single_letter_keys_can_be_switched_off(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await page.keyboard.press("?")
        await page.get_by_label("Single-letter keys are on").uncheck()
        await page.keyboard.press("Escape")
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await page.reload()
        await page.keyboard.press("j")
        await expect(page.locator("tr.chosen")).to_have_count(0)
        assert page.url.endswith("/console/")
        await page.get_by_role("button", name="Keyboard").click()
        await page.get_by_label("Single-letter keys are on").check()
        await page.keyboard.press("Escape")
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await page.wait_for_url("**/console/audit")


async def test_an_unknown_effect_is_found_and_settled(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("lose", order="o-9")
    (view,) = await site.gate.desk.pending(by=MEI)
    await site.gate.desk.approve(view.approval_id, digest=view.digest, by=MEI)
    assert (await site.ask("lose", call="c-1", order="o-9")).code == "effect_unknown"
    async with site.signed_in(OMAR) as page:
        await page.keyboard.press(".")
        await page.wait_for_url("**/console/effects")
        await site.picture(page, "effects")
        await page.keyboard.press(".")
        await page.keyboard.press("Enter")
        await page.get_by_label("It happened.").fill("seen_in_desk")
        await site.picture(page, "effect")
        await page.get_by_role("button", name="It happened").click()
        await expect(page.locator("#done")).to_contain_text("The effect is settled")

    (effect,) = await site.gate.reconciler.effects(by=MEI)
    assert effect.state is EffectState.RECONCILED_COMMITTED


async def test_everything_of_the_tenant_is_stopped_and_resumed(open_site: OpenSite) -> None:
    site = await open_site()
    async with site.signed_in() as page:
        await page.keyboard.press("g")
        await page.keyboard.press("s")
        await page.wait_for_url("**/console/stops")
        await page.get_by_label("What").select_option("tenant")
        await page.get_by_label("For the tenant or everything").fill("stop")
        await page.get_by_label("Why").fill("the remote is odd")
        await page.get_by_role("button", name="Stop", exact=True).click()
        await expect(page.locator("#done")).to_contain_text("Stopped.")
        await site.picture(page, "stopped")
        assert (await site.ask("look", order="o")).code == "stopped"
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("#done")).to_contain_text("Resumed.")

    assert (await site.ask("look", order="o")).code == "succeeded"


async def test_the_audit_is_verified_and_filtered(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("look", order="o")
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await page.goto(f"{site.address}/console/audit")
        await page.get_by_role("link", name="Verify all of it now").click()
        await expect(page.locator("#chain")).to_contain_text("intact to")
        await site.picture(page, "audit")
        await page.get_by_label("kind").select_option("approval_asked")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        async with page.expect_download() as download:
            await page.get_by_role("link", name="These 1 as JSON lines").click()
        path = await (await download.value).path()
        assert path.read_text().count("approval_asked") == 1
        await page.get_by_role("link", name="run", exact=True).click()
        await expect(page.get_by_role("heading", name="Run")).to_be_visible()
        await site.picture(page, "run")


async def test_signing_out_leaves_nothing_to_go_back_to(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in_by_hand() as page:
        await page.goto(f"{site.address}/console/me")
        await page.get_by_role("button", name="Sign out", exact=True).click()
        await expect(page.get_by_text("You are signed out.")).to_be_visible()
        await page.go_back()
        await page.wait_for_url("**/console/sign-in**")
        site.faults.clear()


async def test_without_scripts_a_person_can_still_decide(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5, note="long " * 200)
    context = await site.context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{site.address}/console/sign-in")
    await page.get_by_label("sign-in word").fill(site.sessions.link_for(MEI))
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("link", name="refund").click()
    await expect(page.get_by_text("long long").first).to_be_visible()
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator("#done")).to_contain_text("Approved")
    await context.close()

    assert (await decided(site))["refund"] is ApprovalState.APPROVED


@pytest.mark.parametrize("width", [320, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (640, 1600))])
async def test_nothing_is_lost_on_a_small_or_a_wide_screen(open_site: OpenSite, width: int) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5, note="word " * 150, options={"a" * 60: "b" * 200})
    await site.ask("delete_account", name="x" * 90)
    async with site.signed_in(viewport={"width": width, "height": 700}) as page:
        runs = [f"/run?run=run-1&view={view}" for view in ("compact", "timeline", "full")]
        [why, *_] = [f"/why?approval={view.approval_id}" for view in await site.gate.desk.pending(by=MEI)]
        for path in ("/", "/effects", "/audit", "/runs", *runs, why, "/grants", "/tools", "/stops", "/me"):
            await page.goto(f"{site.address}/console{path}")
            assert await overflow(page) <= 0, path
        for view in await site.gate.desk.pending(by=MEI):
            await page.goto(f"{site.address}/console/approvals/{view.approval_id}")
            for folded in await page.locator("details").all():
                await folded.locator("summary").first.click()
            assert await overflow(page) <= 0
            await site.picture(page, f"{view.tool}-{width}")


async def test_a_value_within_values_keeps_room_to_be_read(open_site: OpenSite) -> None:
    site = await open_site()
    deep: dict[str, Any] = {"word": "pgbouncer"}
    for level in range(8):
        deep = {f"level-{level}": deep}
    await site.ask("refund", order="o-1", amount=5, options=deep)
    [view] = await site.gate.desk.pending(by=MEI)
    async with site.signed_in(viewport={"width": 1200, "height": 900}) as page:
        await page.goto(f"{site.address}/console/approvals/{view.approval_id}")
        assert await lines_of(page, "pgbouncer") == 1
        assert await overflow(page) <= 0
        await page.goto(f"{site.address}/console/")
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await page.locator("#peek h1").wait_for()
        assert await lines_of(page, "pgbouncer") == 1


async def lines_of(page: Page, word: str) -> int:
    """Lines that a word of the arguments takes."""
    drawn = page.locator(".values .text").filter(has_text=word).last
    return int(await drawn.evaluate("each => new Set([...each.getClientRects()].map(box => box.top)).size"))


async def overflow(page: Page) -> int:
    """Pixels that a page is wider than its window."""
    return int(await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
