"""Pages that stay open: they say what has changed, take back what is no longer true, and move nothing by themselves."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Locator, Route, expect

from tests.browser.conftest import PATIENCE, OpenSite
from tests.console.shop import OMAR

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)


async def test_an_open_page_says_that_its_call_was_done(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        site.has_jumped = True
        await page.clock.install()
        await page.get_by_role("link", name="refund").click()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#done")).to_contain_text("Nothing ran yet")
        await expect(page.locator("#standing")).to_have_attribute("data-htmx-powered", "true")
        async with page.expect_response("**/standing?*") as unchanged:
            await page.clock.fast_forward(5_100)
        assert (await unchanged.value).status == 204
        await expect(page.locator("#standing")).to_have_attribute("data-htmx-powered", "true")
        assert (await site.ask("refund", call="c-1", order="o-1", amount=5)).code == "succeeded"
        await expect(page.locator("#done")).to_contain_text("Nothing ran yet")
        await expect(page.get_by_role("button", name="Take the approval back")).to_be_visible()
        await page.clock.fast_forward(5_100)
        await expect(page.locator("#standing")).to_contain_text("and used: done")
        await expect(page.get_by_role("button", name="back")).to_have_count(0)
        await expect(page.locator("#done")).to_have_count(0)
        await expect(page.locator("#said")).to_contain_text("and used: done")
        await site.picture(page, "done")


async def test_somebody_elses_answer_takes_the_buttons_away(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await page.get_by_role("link", name="refund").click()
        await expect(page.locator("#standing")).to_have_attribute("data-htmx-powered", "true")
        await page.get_by_label("Why not?").fill("half a thou")
        (view,) = await site.gate.desk.pending(by=OMAR)
        await site.gate.desk.deny(view.approval_id, digest=view.digest, by=OMAR, reason="no")
        await expect(page.locator("#standing")).to_contain_text("denied by omar")
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(page.get_by_text("Ask for other arguments instead")).to_have_count(0)
        await expect(page.get_by_role("button", name="back")).to_have_count(0)
        await expect(page.get_by_text("It cannot be decided here any more")).to_be_visible()
        await expect(page.locator("#said")).to_contain_text("denied by omar")


async def test_an_empty_list_does_not_say_that_nothing_waits_beside_what_is_new(open_site: OpenSite) -> None:
    site = await open_site()
    async with site.signed_in() as page:
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        await expect(page.locator("#news")).to_have_attribute("data-htmx-powered", "true")
        await site.ask("refund", order="o-1", amount=5)
        await expect(page.locator("#news")).to_contain_text("1 new: show")
        await expect(page.get_by_text("Nothing waits for you.")).to_be_hidden()


async def test_a_value_that_was_opened_is_not_called_folded(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5, note="the end of it matters " * 40)
    async with site.signed_in() as page:
        await page.get_by_role("link", name="refund").click()
        folded = page.locator("details.fold .when-folded").first
        await expect(folded).to_be_visible()
        await page.get_by_text("text of 880 characters").first.click()
        await expect(folded).to_be_hidden()


async def test_headings_of_the_list_stay_whole_beside_a_row(open_site: OpenSite) -> None:
    site = await open_site()
    for number in (1, 2):
        await site.ask("refund", order=f"order-{number}-with-a-long-name", amount=5, note="word " * 30)
    async with site.signed_in(viewport={"width": 1150, "height": 900}) as page:
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await expect(page.locator("#peek h1")).to_have_count(1)
        assert [await lines_of(each) for each in await page.locator("#rows th").all()] == [1, 1, 1, 1, 1]


async def lines_of(heading: Locator) -> int:
    """Lines that the longest word of a heading takes: 1 where no word is broken."""
    script = """each => {
      const text = each.firstChild, words = each.textContent.split(" ");
      let from = 0, most = 0;
      for (const word of words) {
        const range = document.createRange();
        range.setStart(text, from);
        range.setEnd(text, from + word.length);
        most = Math.max(most, new Set([...range.getClientRects()].map((box) => box.top)).size);
        from += word.length + 1;
      }
      return most;
    }"""
    return int(await heading.evaluate(script))


@pytest.mark.parametrize("height", [900, 400])
async def test_help_can_be_closed_however_low_the_window_is(open_site: OpenSite, height: int) -> None:
    site = await open_site()
    async with site.signed_in(viewport={"width": 700, "height": height}) as page:
        await page.keyboard.press("?")
        close = page.get_by_role("dialog").get_by_role("button", name="Close")
        await expect(close).to_be_in_viewport(ratio=1)
        await page.get_by_role("dialog").get_by_text("next unknown effect").scroll_into_view_if_needed()
        await expect(close).to_be_in_viewport(ratio=1)
        await close.click()
        await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_the_second_key_of_two_may_come_late(open_site: OpenSite) -> None:
    site = await open_site()
    async with site.signed_in() as page:
        site.has_jumped = True
        await page.clock.install()
        await page.reload()
        await page.keyboard.press("g")
        await page.clock.fast_forward(60_000)
        await page.keyboard.press("a")
        await page.wait_for_url("**/console/audit")


async def test_verifying_works_before_the_page_is_ready(open_site: OpenSite) -> None:
    site = await open_site()
    async with site.signed_in() as page:
        await page.route("**/htmx.min.js", lambda route: route.abort())
        await page.goto(f"{site.address}/console/audit")
        await page.get_by_role("link", name="Verify all of it now").click()
        await expect(page.get_by_text("intact to")).to_be_visible()
    site.faults.clear()  # the browser notes what was kept from it


async def test_a_page_that_hears_nothing_any_more_says_so_and_decides_nothing(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        await page.get_by_role("link", name="refund").click()
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        await expect(page.locator("#lost")).to_be_hidden()
        await site.server.stop()
        await expect(page.locator("#lost")).to_contain_text("Not connected since")
        await expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        await expect(page.get_by_role("button", name="Deny")).to_be_disabled()
        await expect(page.locator("#said")).to_contain_text("Not connected")
        await site.picture(page, "not-connected")
        await site.server.start()
        await expect(page.locator("#lost")).to_be_hidden()
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        site.faults.clear()  # the browser notes that nobody answered


async def test_a_page_that_could_not_even_begin_to_listen_says_so_and_tries_again(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        is_cut = True  # a request that is held while a route goes is answered by nobody, so the route stays

        async def meet(route: Route) -> None:
            await (route.abort() if is_cut else route.continue_())

        await page.route("**/console/live", meet)
        await page.get_by_role("link", name="refund").click()
        await expect(page.locator("#lost")).to_contain_text("Not connected since")
        await expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        is_cut = False
        await expect(page.locator("#lost")).to_be_hidden()
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    site.faults.clear()  # the browser notes what was kept from it


async def test_a_page_that_the_server_hears_without_telling_it_anything_may_decide_and_asks_again(
    open_site: OpenSite,
) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        full = {"status": 503, "content_type": "text/plain", "body": "too_many_waiting\n"}
        is_full = True
        refused = asyncio.Semaphore(0)

        async def meet(route: Route) -> None:
            await (route.fulfill(**full) if is_full else route.continue_())
            refused.release()

        await page.route("**/console/live", meet)
        await page.get_by_role("link", name="refund").click()
        for _ in range(3):  # the third comes later than a page would wait before it says that it hears nothing
            await refused.acquire()
        await expect(page.locator("#lost")).to_be_hidden()
        await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        async with page.expect_response(lambda answer: answer.url.endswith("/live") and answer.ok):
            is_full = False
    site.faults.clear()


async def test_a_page_without_its_library_may_decide(open_site: OpenSite) -> None:
    site = await open_site()
    await site.ask("refund", order="o-1", amount=5)
    async with site.signed_in() as page:
        site.has_jumped = True
        await page.route("**/htmx.min.js", lambda route: route.abort())
        await page.clock.install()
        await page.get_by_role("link", name="refund").click()
        await expect(page.locator("#standing")).to_be_attached()
        await page.wait_for_load_state()
        await page.clock.fast_forward(60_000)
        await expect(page.locator("#lost")).to_be_hidden()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#standing")).to_contain_text("approved")
    site.faults.clear()
