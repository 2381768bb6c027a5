"""What a decision page says beside the arguments: who asks, why a person decides, how far it reaches, what is new."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import placet
from tests.console.shop import EDITOR, TOOLS, Shop, fields_of, open_shop
from tests.console.test_pages import QUORUM, decide, page, text_of


@placet.tool(effect="write", risk="low", permission="shop.write", approval="always", purpose="support")
def send_mail(to: list[str], subject: str, body: str = "", attachments: list[dict[str, Any]] | None = None) -> str:
    """Send a mail."""
    return subject


@placet.tool(effect="write", risk="high", permission="shop.write", resource="zoo:{zebra}")
def order(zebra: str, ant: int, mouse: str = "m") -> str:
    """Order animals."""
    return zebra


@placet.tool(effect="write", risk="high", permission="shop.write", text="free")
def note_down(text: str, options: dict[str, Any]) -> str:
    """Note something down."""
    return text


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop(tools=[*TOOLS, send_mail, order, note_down]) as made:
        yield made


async def card(shop: Shop, tool: str, **arguments: Any) -> str:
    return text_of(await page(shop, f"/approvals/{await shop.asked(tool, **arguments)}"))


async def test_arguments_stand_in_the_order_of_the_contract(shop: Shop) -> None:
    approval_id = await shop.asked("order", zebra="z", ant=1)
    html = await page(shop, f"/approvals/{approval_id}")

    assert re.findall(r"<dt>(\w+) <small>", html) == ["zebra", "ant", "mouse"]
    raw = re.search(r'<pre class="raw">(.*?)</pre>', html, re.DOTALL)
    assert raw is not None and list(json.loads(unescape(raw[1]))) == ["zebra", "ant", "mouse"]


@pytest.mark.parametrize(
    "pattern", [r'<pre class="raw">(.*?)</pre>', r'<textarea id="edit-arguments"[^>]*>(.*?)</textarea>']
)
async def test_arguments_stand_there_as_json_that_can_be_sent_back(shop: Shop, pattern: str) -> None:
    arguments = {"text": "\\1 </textarea> é\x7f", "options": {"deep": {"deeper": [" " * 20, None, 5]}}}
    html = await page(shop, f"/approvals/{await shop.asked('note_down', **arguments)}")

    found = re.search(pattern, html, re.DOTALL)
    assert found is not None and found[1].isascii() and "\x7f" not in found[1]
    assert json.loads(unescape(found[1])) == arguments
    assert unescape(found[1]).count("\n") > 5, "a line a member"


async def test_the_page_of_an_edited_call_stands_without_its_original(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=100)
    eve = await shop.as_person(EDITOR)
    fields = fields_of((await eve.get(f"/console/approvals/{approval_id}")).text, "/edit")
    changed = fields | {"arguments": json.dumps({"order": "o-1", "amount": 40})}
    place = (await eve.post(f"/console/approvals/{approval_id}/edit", data=changed)).headers["location"]
    found = shop.gate.store.approval

    async def all_but_the_original(tenant: str, wanted: Any) -> Any:
        return None if wanted == approval_id else await found(tenant, wanted)

    monkeypatch.setattr(shop.gate.store, "approval", all_but_the_original)
    text = text_of(await page(shop, place.removeprefix("/console")))

    assert "eve made it of another call, which cannot be shown any more" in text
    assert "Approve" in text


async def test_rules_are_told_in_words_with_what_would_have_avoided_them(shop: Shop) -> None:
    text = await card(shop, "send_mail", to=["a@example.org"], subject="s")

    assert "the contract of the tool itself has a person asked every time contract_always_asks" in text
    assert "What would have avoided it Nothing about this call: its contract asks every time." in text

    text = await card(shop, "refund", order="o-1", amount=5)
    assert "the table of roles and risks, for the role admin and something of high risk matrix_admin_high" in text
    assert "Nothing about its arguments: the table sees role and risk alone." in text


async def test_the_risk_that_is_declared_is_told_from_the_one_it_was_held_for(shop: Shop) -> None:
    assert "Risk low, as the tool declares; the policy does not say for what it held it" in await card(
        shop, "send_mail", to=[], subject="s"
    )
    text = await card(shop, "refund", order="o-1", amount=5)
    assert "Risk high, as the tool declares; high, as the policy held it" in text
    assert "the policy held it for" not in text


async def test_how_far_it_reaches_is_counted_and_not_guessed(shop: Shop) -> None:
    text = await card(
        shop, "send_mail", to=["a@example.org", "b@example.org"], subject="s", attachments=[{"pages": [1, 2, 3]}]
    )
    assert "the contract names no target 2 in to 1 in attachments 3 in attachments[0].pages" in text
    assert "cannot be taken back" not in text

    text = await card(shop, "delete_account", name="bob")
    assert "What this does cannot be taken back." in text and "one target: account:bob" in text


async def test_who_asks_for_what_and_where_is_told(shop: Shop) -> None:
    text = await card(shop, "send_mail", to=[], subject="s")

    assert "Asked by agent-7" in text and "Run run-1 , call c-1" in text
    assert "Environment production" in text and "Purpose support" in text


async def test_what_is_different_from_the_proposers_previous_try_is_shown(shop: Shop) -> None:
    first = await shop.asked("refund", order="o-1", amount=5000, note="a")
    assert "Compared with what this run asked" not in await page(shop, f"/approvals/{first}")
    await decide(shop, first, "deny", reason="too much")
    shop.clock.advance(1)
    text = await card(shop, "refund", order="o-1", amount=50, note="a")

    told = text[text.index("Compared with what this run asked of the tool before") :]
    assert "Compared with what this run asked" not in await page(shop, f"/approvals/{first}"), "it came later"
    assert ": denied." in told and "amount changed 5000 50" in told and "note changed" not in told


async def test_a_question_of_a_policy_that_is_not_in_force_any_more_says_so(tmp_path: Path) -> None:
    store, policy = tmp_path / "placet.db", tmp_path / "policy.toml"
    policy.write_text(QUORUM)
    async with open_shop(store) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
        assert re.search(r"Policy [0-9a-f]{12} in force", text_of(await page(shop, f"/approvals/{approval_id}")))
    async with open_shop(store, policy=policy) as shop:
        text = text_of(await page(shop, f"/approvals/{approval_id}"))
        assert "not in force any more: the call is asked about anew" in text


async def test_nothing_is_claimed_about_where_values_come_from(shop: Shop) -> None:
    assert "origin" not in (await card(shop, "refund", order="o-1", amount=5)).lower()


async def test_a_part_of_a_page_that_fails_is_no_page_in_a_page(shop: Shop) -> None:
    answer = await shop.browser.get("/console/approvals/apr-none", headers={"HX-Request": "true"})

    assert answer.status_code == 404 and "There is no such thing" in answer.text
    assert "<html" not in answer.text and 'id="said"' not in answer.text
