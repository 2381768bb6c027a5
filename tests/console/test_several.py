"""A queue that does not drown whoever decides: the gravest first, and one answer to several that were all looked at."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

import placet
from placet.adapters.rates.steady import OwnRateLimiter
from placet.console.app import Console
from placet.engine.desk import ApprovalView
from placet.errors import StoreInDoubt
from placet.model.rates import Rate, RateLimits
from placet.testing import FakeClock, RecordingMeter
from tests.console.shop import (
    EDITOR,
    LOOKER,
    MEI,
    OMAR,
    TOOLS,
    Shop,
    browser_of,
    fields_of,
    forms_of,
    open_shop,
    sign_in,
)
from tests.console.test_pages import page, text_of

MARKUP = '<img src="x">'


@placet.tool(effect="write", risk="low", permission="shop.write", resource="order:{order}", approval="always")
def note(order: str, text: str = "") -> str:
    """Write a note on an order."""
    return order


@placet.tool(effect="write", risk="medium", permission="shop.write", resource="order:{order}", approval="always")
def credit(order: str, amount: int = 1) -> str:
    """Give a small credit."""
    return order


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop(tools=[*TOOLS, note, credit]) as opened:
        yield opened


async def notes(shop: Shop, count: int = 3) -> list[str]:
    found = []
    for number in range(count):
        found.append(await shop.asked("note", order=f"o-{number}", text=f"word {number}"))
        shop.clock.advance(1)
    return found


async def views(shop: Shop) -> dict[str, ApprovalView]:
    return {view.approval_id: view for view in await shop.gate.desk.listed(by=OMAR)}


async def states(shop: Shop, names: list[str]) -> list[str]:
    found = await views(shop)
    return [found[name].state.value for name in names]


def chosen(names: list[str]) -> str:
    return "/several?" + "&".join(f"chosen={name}" for name in names)


async def form_of(shop: Shop, names: list[str], decision: str) -> dict[str, str]:
    html = await page(shop, chosen(names))
    return next(form for form in forms_of(html, "/several/decision") if form["decision"] == decision)


async def send(shop: Shop, form: dict[str, str], **more: str) -> Any:
    return await shop.browser.post("/console/several/decision", data=form | more)


# ---------------------------------------------------------------- the list


def targets(html: str) -> list[str]:
    return re.findall(r'<tr data-row.*?<span class="target">(?:order:|account:)([\w-]+)</span>', html, re.DOTALL)


@pytest.mark.case("O06")
async def test_the_gravest_stand_first_if_that_is_asked_for_and_how_many_there_are_of_each_risk(shop: Shop) -> None:
    await notes(shop, 12)
    await shop.asked("credit", order="c-1")
    await shop.asked("refund", order="r-1", amount=5)
    await shop.asked("delete_account", name="bob")
    by_deadline, by_risk = await page(shop, "/"), await page(shop, "/?sort=risk")

    assert targets(by_deadline)[:2] == ["o-0", "o-1"]
    assert targets(by_risk)[:5] == ["bob", "r-1", "c-1", "o-0", "o-1"]
    for html in (by_deadline, by_risk):
        assert "◆ critical 1 ● high 1 ◐ medium 1 ○ low 12" in text_of(html)
    assert set(targets(by_risk)) == set(targets(by_deadline))
    assert await page(shop, "/?sort=odd") is not None and targets(await page(shop, "/?sort=odd")) == targets(
        by_deadline
    )


@pytest.mark.case("O06")
async def test_the_order_stays_over_lists_and_searches(shop: Shop) -> None:
    await notes(shop, 2)
    await shop.asked("refund", order="o-1", amount=5)
    html = await page(shop, "/?tab=pending&sort=risk&q=o-1")

    assert targets(html) == ["o-1", "o-1"] and "high 1" in text_of(html), "the search finds two of three"
    assert html.count("&amp;sort=risk") >= 5 and '<input type="hidden" name="sort" value="risk">' in html
    assert 'href="?tab=pending&amp;sort=deadline&amp;q=o-1"' in html
    decided = await page(shop, "/?tab=decided&sort=risk")
    assert "Order:" not in decided and '"choose"' not in decided


async def test_a_flood_leaves_the_gravest_on_the_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.console.pages.inbox.MOST_ROWS", 5)
    await notes(shop, 9)
    await shop.asked("delete_account", name="bob")
    html = await page(shop, "/?sort=risk")

    assert targets(html)[0] == "bob" and len(targets(html)) == 5
    assert "5 of 10 are shown, the gravest" in text_of(html) and "low 9" in text_of(html)


async def test_what_is_not_ones_own_to_decide_cannot_be_chosen(shop: Shop) -> None:
    await notes(shop)
    looker = await shop.as_person(LOOKER)

    assert (await page(shop, "/")).count('form="choose"') == 3
    others = (await looker.get("/console/?tab=pending")).text
    assert '"choose"' not in others and targets(others) == ["o-0", "o-1", "o-2"]


# ---------------------------------------------------------------- looking at the chosen


@pytest.mark.case("O06")
async def test_all_that_would_run_stands_there_with_every_digest_and_looking_decides_nothing(shop: Shop) -> None:
    names = [
        await shop.asked("note", order="o-1", text=f"{MARKUP} p\u0430y " + "w " * 400),
        await shop.asked("note", order="o-2", text="5"),
    ]
    html = await page(shop, chosen(names))
    held = await views(shop)

    for name in names:
        assert f'<code class="digest">{held[name].digest}</code>' in html
    assert "w " * 400 in html and "data-must-open" in html and "U+0430" in html and "<img" not in html
    assert "1 value hides characters" in text_of(html)
    assert {form["decision"] for form in forms_of(html, "/several/decision")} == {"deny", "approve"}
    assert forms_of(html, "/several/decision")[0]["chosen"].split() == [f"{name}:{held[name].digest}" for name in names]
    assert await states(shop, names) == ["pending"] * 2
    assert await page(shop, chosen([*names, names[0]])) is not None


@pytest.mark.case("O06")
async def test_unlike_or_grave_calls_can_only_be_denied_together(shop: Shop) -> None:
    unlike = [*await notes(shop, 1), await shop.asked("credit", order="c-1")]
    grave = [await shop.asked("refund", order=f"r-{number}", amount=5) for number in range(2)]
    for names, words in ((unlike, "They are not calls of one tool."), (grave, "approved one by one")):
        html = await page(shop, chosen(names))
        assert [form["decision"] for form in forms_of(html, "/several/decision")] == ["deny"]
        assert words in text_of(html)
        answer = await send(shop, forms_of(html, "/several/decision")[0], decision="approve")
        assert answer.status_code == 409 and words in text_of(answer.text)
        assert await states(shop, names) == ["pending"] * 2


async def test_what_was_decided_meanwhile_or_is_not_ones_own_is_left_out_and_said(shop: Shop) -> None:
    names = await notes(shop)
    first = (await views(shop))[names[0]]
    await shop.gate.desk.deny(names[0], digest=first.digest, by=OMAR)
    html = await page(shop, chosen([*names, "apr-none"]))

    assert "2 of those you chose are not here" in text_of(html)
    assert len(forms_of(html, "/several/decision")[0]["chosen"].split()) == 2
    looker = await shop.as_person(LOOKER)
    others = (await looker.get(f"/console{chosen(names)}")).text
    assert (
        "Nothing of it is left to decide" in others
        and "<form" not in others.partition("<main")[2].partition("</main")[0]
    )


@pytest.mark.parametrize("query", ["", "?chosen=", "?" + "&".join(f"chosen=apr-{number}" for number in range(101))])
async def test_none_and_too_many_are_refused(shop: Shop, query: str) -> None:
    answer = await shop.browser.get(f"/console/several{query}")

    assert answer.status_code == (200 if query == "?chosen=" else 400)
    assert "<form" not in answer.text.partition("<main")[2].partition("</main")[0]


# ---------------------------------------------------------------- deciding


@pytest.mark.case("O06")
async def test_unlike_calls_are_denied_with_one_reason_and_a_record_of_each(shop: Shop) -> None:
    names = [*await notes(shop, 2), await shop.asked("delete_account", name="bob")]
    form = await form_of(shop, names, "deny")
    without = await send(shop, form, reason="  ")
    assert without.status_code == 422 and "Say why" in text_of(without.text)
    assert await states(shop, names) == ["pending"] * 3
    answer = await send(shop, form, reason="not tonight")

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/?done=several_denied")
    assert "Denied, each of them" in await page(shop, "/?done=several_denied")
    assert {(view.state.value, view.words, view.decided_by) for view in (await views(shop)).values()} == {
        ("denied", "not tonight", "mei")
    }


@pytest.mark.case("O06")
async def test_alike_calls_are_approved_together_and_only_these_may_run(shop: Shop) -> None:
    names = await notes(shop)
    answer = await send(shop, await form_of(shop, names[:2], "approve"))

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/?done=several_approved")
    assert await states(shop, names) == ["approved", "approved", "pending"]
    assert (await shop.ask("note", call="c-1", order="o-0", text="word 0")).code == "succeeded"
    assert (await shop.ask("note", call="c-3", order="o-2", text="word 2")).code == "approval_required"


@pytest.mark.case("O06")
async def test_each_that_cannot_be_decided_is_told_and_keeps_no_other_back(shop: Shop) -> None:
    names = await notes(shop)
    form = await form_of(shop, names, "approve")
    await shop.gate.desk.deny(names[1], digest=(await views(shop))[names[1]].digest, by=OMAR)
    answer = await send(shop, form)

    assert answer.status_code == 409 and "1 of 3 was not approved; the others were." in text_of(answer.text)
    assert "It is denied already by omar" in text_of(answer.text) and 'id="done"' not in answer.text
    assert await states(shop, names) == ["approved", "denied", "approved"]


@pytest.mark.case("O06")
async def test_one_digest_that_was_not_drawn_approves_none(shop: Shop) -> None:
    names = await notes(shop)
    form = await form_of(shop, names, "approve")
    words = form["chosen"].split()
    words[1] = f"{names[1]}:{'0' * 64}"
    answer = await send(shop, form | {"chosen": " ".join(words)})

    assert answer.status_code == 409 and f"{names[1]} is about other arguments" in text_of(answer.text)
    assert await states(shop, names) == ["pending"] * 3


@pytest.mark.parametrize(
    ("odd", "status"),
    [
        ({"decision": ""}, 422),
        ({"decision": "all"}, 422),
        ({"chosen": ""}, 400),
        ({"chosen": "all"}, 400),
        ({"chosen": "*:*"}, 400),
        ({"chosen": " ".join(f"apr-{n}:{'0' * 64}" for n in range(101))}, 400),
        ({"csrf": "odd"}, 403),
    ],
)
async def test_a_form_that_is_none_of_ours_decides_nothing(shop: Shop, odd: dict[str, str], status: int) -> None:
    names = await notes(shop)
    form = await form_of(shop, names, "approve")
    answer = await send(shop, form | {"reason": "no"} | odd)

    assert answer.status_code == status and await states(shop, names) == ["pending"] * 3


async def test_a_look_and_a_foreign_post_decide_nothing(shop: Shop) -> None:
    names = await notes(shop)
    form = await form_of(shop, names, "deny") | {"reason": "no"}
    looked = await shop.browser.get("/console/several/decision", params=form)
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    foreign = await shop.browser.post("/console/several/decision", data=form, headers=elsewhere)
    nobody = await browser_of(shop.app).post("/console/several/decision", data=form)
    omar = await (await shop.as_person(OMAR)).post("/console/several/decision", data=form)

    assert [each.status_code for each in (looked, foreign, nobody, omar)] == [404, 403, 401, 403]
    assert await states(shop, names) == ["pending"] * 3


@pytest.mark.case("O06")
async def test_each_counts_as_a_request_of_its_own(shop: Shop) -> None:
    names = await notes(shop)
    limits = RateLimits(per_principal=Rate(count=4, seconds=60))
    limiter = OwnRateLimiter(limits, clock=FakeClock(), meter=RecordingMeter())
    app = Console(shop.gate, sessions=shop.sessions, clock=shop.clock, rate_limiter=limiter)
    async with browser_of(app) as browser:
        await sign_in(browser, shop.sessions.link_for(MEI))
        html = (await browser.get(f"/console{chosen(names)}")).text
        form = fields_of(html, "/several/decision")
        first = await browser.post("/console/several/decision", data=form | {"decision": "deny"})
        again = await browser.post("/console/several/decision", data=form | {"decision": "deny", "reason": "no"})

    assert (first.status_code, again.status_code) == (422, 429)
    assert await states(shop, names) == ["pending"] * 3


async def test_several_votes_are_told_as_votes() -> None:
    two = placet.AskRule(name="two", needs=placet.RequirementKind.QUORUM, votes=2)
    policy = placet.Matrix(asks=placet.AskRules(rules=(two,)))
    async with open_shop(tools=[*TOOLS, note], policy=policy) as shop:
        names = await notes(shop, 2)
        assert "Vote for these 2" in await page(shop, chosen(names))
        answer = await send(shop, await form_of(shop, names, "approve"))

        assert answer.headers["location"] == "/console/?done=several_voted"
        assert '"choose"' not in await page(shop, "/"), "who has voted has no part in it any more"
        assert "Nothing of it is left" in await page(shop, chosen(names))


@pytest.mark.case("O06")
async def test_a_vote_that_approves_some_of_them_says_so_before_and_after() -> None:
    two = placet.AskRule(name="two", needs=placet.RequirementKind.QUORUM, votes=2)
    policy = placet.Matrix(asks=placet.AskRules(rules=(two,)))
    async with open_shop(tools=[*TOOLS, note], policy=policy) as shop:
        names = await notes(shop, 3)
        first = (await views(shop))[names[0]]
        await shop.gate.desk.approve(names[0], digest=first.digest, by=OMAR)
        html = text_of(await page(shop, chosen(names)))
        assert "1 of 2 votes: omar. Yours would be the last it takes." in html and html.count("0 of 2 votes.") == 2
        assert "Of 1 yours is the last vote that is needed: it approves it." in html
        form = await form_of(shop, names, "approve")
        answer = await send(shop, form)

        assert answer.headers["location"] == "/console/?done=several_partly"
        assert "Some have every vote that they need now" in text_of(await page(shop, "/?done=several_partly"))
        assert await states(shop, names) == ["approved", "pending", "pending"]
        first = (await views(shop))[names[1]]
        await shop.gate.desk.deny(names[1], digest=first.digest, by=OMAR)
        told = text_of((await send(shop, form)).text)
        assert "1 of 3 was not decided; for the others see below." in told and "Your vote is counted." in told
        names = [await shop.asked("note", order=f"p-{number}") for number in range(3)]
        await send(shop, await form_of(shop, names[1:], "approve"))
        omar = await shop.as_person(OMAR)
        others = text_of((await omar.get(f"/console{chosen(names[1:])}")).text)
        assert "Your votes are the last that are needed: they approve all of them." in others


@pytest.mark.case("O06")
async def test_why_people_are_asked_stands_there_once_before_anything_is_approved(shop: Shop) -> None:
    names = await notes(shop)
    html = await page(shop, chosen(names))
    shown = text_of(html)

    assert "What is the same of all 3" in shown and "Write a note on an order." in shown
    assert shown.count("Rules that asked") == 1 and "contract_always_asks" in shown and "in force" in shown
    assert html.index("contract_always_asks") < html.index("call-1") < html.index("<textarea")
    unlike = await page(shop, chosen([*names, await shop.asked("credit", order="c-1")]))
    assert "What is the same of" not in text_of(unlike)


@pytest.mark.case("O06")
async def test_a_call_that_somebody_changed_by_hand_says_so_among_others(shop: Shop) -> None:
    names = await notes(shop, 2)
    first = (await views(shop))[names[0]]
    other = {"order": "o-9", "text": "mine"}
    made = await shop.gate.desk.edit(names[0], digest=first.digest, arguments=other, by=EDITOR)
    html = await page(shop, chosen([made.approval_id, names[1]]))

    assert text_of(html).count("Changed by hand: eve made it of another call") == 1
    assert f'/approvals/{names[0]}">another call' in html


@pytest.mark.case("O06")
async def test_of_one_whose_commit_was_not_heard_the_page_does_not_say_that_it_was_not_decided(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = await notes(shop)
    form = await form_of(shop, names, "approve")
    store = type(shop.gate.store)
    answer, tries = store.answer, []

    async def unheard(self: Any, *args: Any, **more: Any) -> Any:
        tries.append(await answer(self, *args, **more))
        if len(tries) == 2:
            raise StoreInDoubt("The commit's answer was lost.")
        return tries[-1]

    with monkeypatch.context() as patch:
        patch.setattr(store, "answer", unheard)
        told = await send(shop, form)
    words = text_of(told.text)

    assert told.status_code == 409 and await states(shop, names) == ["approved", "approved", "pending"]
    assert "It is not known whether all of the 3 were approved: 1 was, 1 was not." in words
    assert "Perhaps decided. The commit&#39;s answer was lost." in words and words.count("Not decided.") == 1
    assert (await send(shop, form)).headers["location"] == "/console/?done=several_approved", "the same again says it"


@pytest.mark.parametrize("name", ["%00", "a%00b", "%ED%A0%80", "x" * 300, "../../stops"])
async def test_what_can_be_no_id_is_left_out(shop: Shop, name: str) -> None:
    answer = await shop.browser.get(f"/console/several?chosen={name}")

    assert answer.status_code == 200 and "1 of those you chose is not here" in text_of(answer.text)
