"""A row beside the list: it is the chosen one, however slow the answers and however quick the hand."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import PATIENCE, OpenSite, Site

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)

LATE_TASKS = """
  const real = window.setTimeout;
  window.setTimeout = (task, milliseconds, ...more) => real(task, milliseconds || 2000, ...more);
"""
"""What htmx puts off to a task of its own comes two seconds later, as on a machine that has much to do."""
COUNT_ENDS = """
  document.body.dataset.ends = 0;
  document.body.addEventListener("htmx:finally:request", (event) => {
    if (event.detail.ctx.target?.id === "peek") document.body.dataset.ends = Number(document.body.dataset.ends) + 1;
  });
"""


async def refunds(site: Site, count: int) -> None:
    for number in range(1, count + 1):
        await site.ask("refund", order=f"o-{number}", amount=5)


class Held:
    """Answers of the page that are kept back, by the order in which they were asked for."""

    def __init__(self, *, first: int) -> None:
        self.let_go = asyncio.Event()
        self.asked = 0
        self._first = first
        self._tasks: list[asyncio.Task[None]] = []

    async def handle(self, route: Route) -> None:
        if "hx-request" not in route.request.headers:
            await route.continue_()
            return
        self.asked += 1
        if self.asked <= self._first:
            self._tasks.append(asyncio.ensure_future(self._later(route)))
        else:
            await route.continue_()

    async def _later(self, route: Route) -> None:
        await self.let_go.wait()
        await route.continue_()

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE / 1000):
            while self.asked < count:
                await asyncio.sleep(0.01)


async def hold(page: Page, *, first: int) -> Held:
    held = Held(first=first)
    await page.route("**/console/approvals/*", held.handle)
    await page.evaluate(COUNT_ENDS)
    return held


async def test_a_key_that_is_pressed_before_the_page_is_ready_is_not_lost(open_site: OpenSite) -> None:
    site = await open_site()
    await refunds(site, 2)
    async with site.signed_in() as page:
        await page.add_init_script(LATE_TASKS)
        await page.reload()
        assert not await page.evaluate("Boolean(document.querySelector('a.open')._htmx?.initialized)")
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await page.keyboard.press("j")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-2")


async def test_what_was_closed_before_the_page_was_ready_stays_closed(open_site: OpenSite) -> None:
    site = await open_site()
    await refunds(site, 1)
    async with site.signed_in() as page:
        await page.add_init_script(LATE_TASKS)
        await page.reload()
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await page.keyboard.press("Escape")
        await expect(page.locator("a.open")).to_have_attribute("data-htmx-powered", "true")
        held = await hold(page, first=0)
        await page.keyboard.press("p")
        await held.until_asked(1)
        await expect(page.locator("#peek h1")).to_have_count(1)
        assert held.asked == 1


async def test_an_answer_that_comes_late_does_not_take_the_place_of_the_chosen_row(open_site: OpenSite) -> None:
    site = await open_site()
    await refunds(site, 3)
    async with site.signed_in() as page:
        held = await hold(page, first=2)
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await held.until_asked(1)
        await page.keyboard.press("j")
        await held.until_asked(2)
        await page.keyboard.press("j")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-3")
        held.let_go.set()
        await expect(page.locator("body")).to_have_attribute("data-ends", "3")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-3")
        await expect(page.locator("tr.chosen")).to_contain_text("order:o-3")


async def test_what_was_closed_while_it_was_fetched_does_not_open_later(open_site: OpenSite) -> None:
    site = await open_site()
    await refunds(site, 1)
    async with site.signed_in() as page:
        held = await hold(page, first=1)
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await held.until_asked(1)
        await page.keyboard.press("Escape")
        held.let_go.set()
        await expect(page.locator("body")).to_have_attribute("data-ends", "1")
        await expect(page.locator("#peek > *")).to_have_count(0)
        await expect(page.get_by_role("link", name="refund")).to_be_focused()


async def test_the_content_follows_the_focus_too(open_site: OpenSite) -> None:
    site = await open_site()
    await refunds(site, 2)
    async with site.signed_in() as page:
        await page.keyboard.press("j")
        await page.keyboard.press("p")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-1")
        await page.keyboard.press("Tab")
        await expect(page.locator("#peek h1")).to_contain_text("order:o-2")
        await expect(page.locator("tr.chosen")).to_contain_text("order:o-2")
