"""Standing grants in the console: what each covers is there in full, and whoever may take one back does so at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.engine.grant_views import GrantView
from placet.engine.granting import GrantWish
from placet.model.grant import GrantState
from tests.console.shop import LOOKER, MEI, OMAR, STRANGER, TOOLS, Shop, fields_of, forms_of, open_shop
from tests.console.test_pages import MARKUP, page, text_of

POLICY = """
[[ask]]
name = "small-mails"
tools = ["send_mail"]
needs = "review"
grants = { uses = 5, usable_for = "1h" }
"""


@placet.tool(effect="write", risk="low", permission="shop.write", approval="always")
def send_mail(to: str, subject: str) -> str:
    """Send a mail."""
    return to


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    async with open_shop(tools=[*TOOLS, send_mail], policy=policy) as made:
        yield made


async def given(shop: Shop, **changes: Any) -> GrantView:
    settings: dict[str, Any] = {
        "tool": "send_mail",
        "subjects": ("agent-7",),
        "limits": {"to": {"one_of": ["a@example.org"]}, "subject": "any"},
        "seconds": 600.0,
        "max_uses": 2,
        "reason": "weekly mails",
    }
    wish = GrantWish(**(settings | changes))
    draft = await shop.gate.grants.draft(wish, by=MEI)
    return await shop.gate.grants.give(wish, digest=draft.digest, by=MEI)


async def test_a_grant_says_all_that_it_covers_and_how_often_it_was_used(shop: Shop) -> None:
    grant = await given(shop, run_id="run-1")
    assert (await shop.ask("send_mail", to="a@example.org", subject="s")).code == "succeeded"

    text = text_of(await page(shop, "/grants"))

    assert all(line in text.replace("&#34;", '"') for line in grant.covers), text
    assert "Used 1 of 2" in text and "Given by mei" in text and "“weekly mails”" in text
    assert "send_mail for agent-7, in run run-1" in text and ": 10 min left" in text
    assert "(1) Standing grants" in text


async def test_what_stands_is_shown_past_what_has_ended(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.console.pages.grants._MOST_SHOWN", 2)
    stands = await given(shop)
    for _ in range(3):
        await shop.gate.grants.revoke((await given(shop)).grant_id, by=MEI)
    text = text_of(await page(shop, "/grants"))
    assert "No grant answers any question" not in text
    assert stands.grant_id in text
    assert "only the newest are listed" in text


async def test_a_grant_is_taken_back_and_lets_nothing_through_any_more(shop: Shop) -> None:
    grant = await given(shop)
    fields = fields_of(await page(shop, "/grants"), "/grants/revocation")

    answer = await shop.browser.post("/console/grants/revocation", data=fields)

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/grants?done=revoked")
    text = text_of(await page(shop, "/grants?done=revoked"))
    assert "It lets nothing through any more." in text and "No grant answers any question." in text
    assert "Revoked by mei" in text and "revoked" in text
    assert (await shop.gate.grants.show(grant.grant_id, by=MEI)).state is GrantState.REVOKED
    assert (await shop.ask("send_mail", to="a@example.org", subject="s")).code == "approval_required"


async def test_what_has_ended_stays_and_says_why(shop: Shop) -> None:
    await given(shop, max_uses=1)
    await shop.ask("send_mail", to="a@example.org", subject="s")
    await given(shop)
    assert "used up" in text_of(await page(shop, "/grants"))
    shop.clock.advance(601)

    text = text_of(await page(shop, "/grants"))

    assert "Active 0" in text and "Ended 2" in text and "expired" in text


async def test_whoever_may_not_take_it_back_has_no_button_and_cannot(shop: Shop) -> None:
    grant = await given(shop)
    looker = await shop.as_person(LOOKER)
    html = (await looker.get("/console/grants")).text
    assert grant.grant_id in html and forms_of(html, "/grants/revocation") == []

    csrf = (
        fields_of(html, "/sign-out")
        if "/sign-out" in html
        else fields_of((await looker.get("/console/me")).text, "/sign-out")
    )
    answer = await looker.post("/console/grants/revocation", data={"csrf": csrf["csrf"], "grant": grant.grant_id})

    assert answer.status_code == 403
    assert (await shop.gate.grants.show(grant.grant_id, by=MEI)).state is GrantState.USABLE


async def test_looking_takes_nothing_back_and_another_tenants_grant_is_none(shop: Shop) -> None:
    grant = await given(shop)
    assert (await shop.browser.get("/console/grants/revocation", params={"grant": grant.grant_id})).status_code in (
        404,
        405,
    )
    stranger = await shop.as_person(STRANGER)
    html = (await stranger.get("/console/grants")).text
    assert grant.grant_id not in html and "No grant answers any question." in html
    csrf = fields_of((await stranger.get("/console/me")).text, "/sign-out")["csrf"]

    found = await stranger.post("/console/grants/revocation", data={"csrf": csrf, "grant": grant.grant_id})
    absent = await stranger.post("/console/grants/revocation", data={"csrf": csrf, "grant": "grt-none"})

    assert (found.status_code, absent.status_code) == (404, 404)
    assert (await shop.gate.grants.show(grant.grant_id, by=OMAR)).state is GrantState.USABLE


async def test_words_and_limits_are_drawn_and_not_obeyed(shop: Shop) -> None:
    await given(shop, limits={"to": {"one_of": [MARKUP, "x\u202ey"]}, "subject": "any"}, reason=MARKUP)

    html = await page(shop, "/grants")

    assert "<img" not in html and "<script>alert" not in html and "\u202e" not in html
    assert "202E" in html or "202e" in html
