"""The inbox when something is wrong around it: a flood of questions, a list of people that fails, no store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.errors import StoreUnavailable
from tests.console.shop import Shop, forms_of, open_shop
from tests.console.test_pages import decide, news_of, page, text_of


class SilentPeople:
    """A list of people that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def person(self, tenant: str, subject: str) -> placet.Principal | None:
        self.asked += 1
        raise ConnectionError

    async def people(self, tenant: str) -> tuple[placet.Principal, ...]:
        raise ConnectionError


async def test_a_nearer_deadline_is_found_behind_a_flood_of_newer_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.console.pages.inbox.MOST_ROWS", 5)
    async with open_shop() as shop:
        await shop.ask("refund", order="urgent", amount=1)
        shop.clock.advance(86_400 - 200)
        for number in range(12):
            await shop.ask("refund", order=f"o-{number}", amount=1)

        html = await page(shop, "/")
        rows = re.findall(r"<tr data-row.*?</tr>", html, re.DOTALL)
        assert "order:urgent" in rows[0] and len(rows) == 5
        assert "5 of 13 are shown, those with the nearest deadlines" in text_of(html)
        assert "order:urgent" in await page(shop, "/?q=urgent")
        assert "Within 5 minutes 1" in text_of(html)
        assert text_of(await page(shop, news_of(html))).strip() == ""


async def test_a_page_that_cannot_look_through_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.console.pages.inbox.MOST_ROWS", 2)
    monkeypatch.setattr("placet.console.pages.inbox.MOST_WAITING", 4)
    async with open_shop() as shop:
        for number in range(6):
            await shop.ask("refund", order=f"o-{number}", amount=1)

        assert "More wait than one page looks through" in text_of(await page(shop, "/"))


async def test_a_list_of_people_that_fails_hides_nothing_and_lets_nobody_decide() -> None:
    async with open_shop(people=SilentPeople()) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)

        text = text_of(await page(shop, "/"))
        assert "For me 1" in text and "nobody can tell now whether it is yours" in text
        assert "Who may decide cannot be told now" in text
        html = await page(shop, f"/approvals/{approval_id}")
        assert "The list of people does not answer" in text_of(html)
        assert forms_of(html, "/decision") == []


async def test_a_list_of_people_is_asked_once_for_a_list_of_questions() -> None:
    people = SilentPeople()
    async with open_shop(people=people) as shop:
        for number in range(7):
            await shop.ask("refund", order=f"o-{number}", amount=1)
        people.asked = 0

        assert "For me 7" in text_of(await page(shop, "/"))
        assert people.asked == 1


def lose_store(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(cookie: str) -> Any:
        raise StoreUnavailable("The store is away.")

    monkeypatch.setattr(shop.sessions, "session_of", away)
    monkeypatch.setattr(shop.sessions, "glance", away)


@pytest.mark.parametrize(
    "path", ["/", "/news?tab=mine&seen=0", "/live", "/approvals/apr-1/standing?seen=x", "/nowhere"]
)
async def test_without_the_store_nobody_is_told_to_sign_in(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shop() as shop:
        lose_store(shop, monkeypatch)
        answer = await shop.browser.get(f"/console{path}", headers={"HX-Request": "true"})

        assert (answer.status_code, answer.headers["hx-reswap"]) == (503, "none")
        assert "The store does not answer. Nothing was done." in answer.text
        assert "hx-redirect" not in answer.headers and "set-cookie" not in answer.headers
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_decision_that_meets_no_store_is_not_made_and_the_session_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_shop() as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
        html = await page(shop, f"/approvals/{approval_id}")
        form = next(each for each in forms_of(html, "/decision") if each["decision"] == "approve")
        with monkeypatch.context() as patch:
            lose_store(shop, patch)
            answer = await shop.browser.post(f"/console/approvals/{approval_id}/decision", data=form)
            assert answer.status_code == 503

        assert (await decide(shop, approval_id, "approve"))[0] == 303


async def test_what_an_open_page_asks_in_vain_replaces_nothing() -> None:
    async with open_shop() as shop:
        answer = await shop.browser.get("/console/approvals/apr-none/standing?seen=x", headers={"HX-Request": "true"})

        assert (answer.status_code, answer.headers["hx-reswap"]) == (404, "none")


async def test_an_event_that_somebody_broke_is_an_alarm_and_breaks_no_page() -> None:
    from placet.console.entries import Entry

    for facts in ({}, {"kind": []}, {"kind": {}}, {"kind": 7}, {"kind": "approval_suspect"}):
        assert Entry(writer="w", sequence=1, facts=facts).is_alarm
    assert not Entry(writer="w", sequence=1, facts={"kind": "started"}).is_alarm


async def test_a_question_of_an_older_policy_says_that_nobody_can_decide_it(tmp_path: Path) -> None:
    asks = placet.AskRules(rules=(placet.AskRule(name="money"),))
    async with open_shop(tmp_path / "placet.db", policy=placet.Matrix(asks=asks)) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
        assert "nobody can decide" not in await page(shop, "/?tab=pending")

    other = placet.AskRules(rules=(placet.AskRule(name="payments"),))
    async with open_shop(tmp_path / "placet.db", policy=placet.Matrix(asks=other)) as shop:
        listed = await page(shop, "/?tab=pending")
        card = text_of(await page(shop, f"/approvals/{approval_id}"))

        assert "nobody can decide it any more: it has to be asked anew" in text_of(listed)
        assert "not yours to decide" not in listed
        assert card.index("Another policy is in force") < card.index("As JSON")
