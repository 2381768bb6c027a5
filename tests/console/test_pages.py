"""What people read and do in the console: the inbox, a decision, effects, the audit, the switch."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

import placet
from placet.model.approval import ApprovalState
from tests.console.shop import EDITOR, LOOKER, MEI, OMAR, TOOLS, Shop, fields_of, forms_of, open_shop

MARKUP = '<img src=x onerror="alert(1)"><script>alert(2)</script>'


@placet.tool(effect="write", risk="high", permission="shop.write", resource="post:{title}", text="free")
def publish(title: str, text: str) -> str:
    """Publish a post."""
    return title


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop(tools=[*TOOLS, publish]) as made:
        yield made


async def page(shop: Shop, path: str, *, status: int = 200) -> str:
    answer = await shop.browser.get(f"/console{path}")
    assert answer.status_code == status, answer.text
    return answer.text


async def decide(shop: Shop, approval_id: str, decision: str, **more: str) -> tuple[int, str]:
    """Fill in the form that a person has before it, and send it."""
    found = [
        form
        for form in forms_of(await page(shop, f"/approvals/{approval_id}"), "/decision")
        if form["decision"] == decision
    ]
    answer = await shop.browser.post(f"/console/approvals/{approval_id}/decision", data=found[0] | more)
    return answer.status_code, answer.headers.get("location", answer.text)


async def state_of(shop: Shop, approval_id: str) -> ApprovalState:
    return (await shop.gate.desk.show(approval_id, by=OMAR)).state


def text_of(html: str) -> str:
    """What a reader without pictures has of a page."""
    plain = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", plain))


# ---------------------------------------------------------------- the inbox


async def test_the_inbox_has_the_nearest_deadline_first_and_says_what_each_is_about(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    shop.clock.advance(60)
    await shop.asked("delete_account", name="bob")

    html = await page(shop, "/")
    text = text_of(html)

    assert text.index("order:o-1") < text.index("account:bob")
    assert "For me 2" in text and "23 h 59 min" in text and "critical" in text
    assert "<title>(2) Inbox" in html


async def test_what_is_not_mine_to_decide_is_under_all_waiting(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    looker = await shop.as_person(LOOKER)

    assert "Nothing waits for you." in (await looker.get("/console/")).text
    assert "not yours to decide" in (await looker.get("/console/?tab=pending")).text


async def test_lists_are_of_what_their_names_say(shop: Shop) -> None:
    first = await shop.asked("refund", order="o-1", amount=5)
    second = await shop.asked("refund", order="o-2", amount=5)
    await shop.asked("refund", order="o-3", amount=5)
    await decide(shop, first, "approve")
    await decide(shop, second, "deny", reason="no")
    shop.clock.advance(86_400 - 200)

    assert {"o-3"} == orders(await page(shop, "/?tab=expiring"))
    assert {"o-1", "o-2"} == orders(await page(shop, "/?tab=decided")) | {"o-1"}
    shop.clock.advance(300)
    assert "o-3" in orders(await page(shop, "/?tab=closed"))
    assert orders(await page(shop, "/?tab=mine")) == set()
    assert orders(await page(shop, "/?tab=nonsense")) == set()


def orders(html: str) -> set[str]:
    return set(re.findall(r"order:(o-\d)", html))


@pytest.mark.parametrize(
    ("words", "found"),
    [("o-2", {"o-2"}), ("refund 17", {"o-1"}), ("agent-7", {"o-1", "o-2"}), ("<script>", set()), ("O-1", {"o-1"})],
)
async def test_search_finds_words_in_what_would_run(shop: Shop, words: str, found: set[str]) -> None:
    await shop.asked("refund", order="o-1", amount=17)
    await shop.asked("refund", order="o-2", amount=4)

    html = await page(shop, f"/?q={words}")

    assert orders(html) == found
    assert "<script>alert" not in html and 'value="<script>"' not in html


async def test_what_comes_later_is_told_and_not_pushed_into_the_list(shop: Shop) -> None:
    first = await shop.asked("refund", order="o-1", amount=17)
    html = await page(shop, "/")
    await shop.asked("refund", order="o-2", amount=4)
    await decide(shop, first, "deny", reason="no")

    assert "1 new, 1 gone: show" in text_of(await page(shop, news_of(html)))
    assert text_of(await page(shop, news_of(await page(shop, "/")))).strip() == ""


def news_of(html: str) -> str:
    """The address by which an open list asks what is new."""
    found = re.search(r'hx-get="/console(/news[^"]*)"', html)
    assert found is not None
    return unescape(found[1])


async def test_what_is_new_is_new_on_this_list(shop: Shop) -> None:
    looker = await shop.as_person(LOOKER)
    mine, waiting, decided = [(await looker.get(f"/console/?tab={tab}")).text for tab in ("mine", "pending", "decided")]
    await shop.asked("refund", order="o-1", amount=5)

    assert text_of((await looker.get(f"/console{news_of(mine)}")).text).strip() == ""
    assert "1 new: show" in text_of((await looker.get(f"/console{news_of(waiting)}")).text)
    assert "/news" not in decided, "nothing that comes belongs on this list"


async def test_more_than_an_address_names_are_counted(shop: Shop) -> None:
    for number in range(53):
        await shop.asked("refund", order=f"o-{number}", amount=5)
    address = news_of(await page(shop, "/"))
    assert text_of(await page(shop, address)).strip() == ""
    await shop.asked("refund", order="o-53", amount=5)

    assert "1 new: show" in text_of(await page(shop, address))


async def test_two_calls_with_one_target_do_not_look_alike_in_the_list(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5, note="first")
    await shop.asked("refund", order="o-1", amount=700, note="first")

    rows = [text_of(row) for row in re.findall(r"<tr data-row.*?</tr>", await page(shop, "/"), re.DOTALL)]
    assert sum("amount: 5," in row for row in rows) == 1 and sum("amount: 700," in row for row in rows) == 1
    assert all("order:o-1" in row for row in rows)


# ---------------------------------------------------------------- the decision


@pytest.mark.case("F02", "F04")
async def test_a_call_is_shown_whole_in_its_types_with_nothing_hidden(shop: Shop) -> None:
    approval_id = await shop.asked("publish", title=f"p\u0430y\u202e{MARKUP}", text=f"{MARKUP}\n\tx\u200b" + "w " * 400)

    html = await page(shop, f"/approvals/{approval_id}")

    assert "<img" not in html and "<script>alert" not in html
    for label in ("U+0430", "U+202E", "U+200B", "\\n", "\\t"):
        assert label in html
    assert "2 values hide characters or hold some that look like others" in text_of(html)
    assert "w " * 400 in html.replace("&#34;", '"')
    assert "data-must-open" in html
    assert not set(html) & {"\u202e", "\u200b"}


async def test_types_are_told_apart(shop: Shop) -> None:
    approval_id = await shop.asked(
        "refund", order="5", amount=5, options={"a": None, "b": "null", "c": True, "d": "true", "e": 1.0, "f": 1}
    )
    html = await page(shop, f"/approvals/{approval_id}")

    assert '<span class="number">5</span>' in html and '<span class="text">&#34;5&#34;</span>' in html.replace(
        '"5"', "&#34;5&#34;"
    )
    assert '<span class="null">null</span>' in html and '<span class="boolean">true</span>' in html
    assert '<span class="number">1.0</span>' in html and '<span class="number">1</span>' in html


async def test_approving_runs_nothing_and_what_was_shown_is_what_may_run(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)

    status, place = await decide(shop, approval_id, "approve", reason="paid twice")

    assert (status, place) == (303, f"/console/approvals/{approval_id}?done=approved")
    assert "Approved. Nothing ran yet" in await page(shop, place.removeprefix("/console"))
    assert await shop.gate.reconciler.effects(by=MEI) == ()
    outcome = await shop.ask("refund", call="c-1", order="o-1", amount=5)
    assert outcome.is_success
    text = text_of(await page(shop, f"/approvals/{approval_id}"))
    assert re.search(r"approved by mei at [0-9: UTC-]+ , and used", text), text
    assert "used by" not in text and "paid twice" in text


async def test_denying_needs_a_reason_which_goes_back_as_data(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)

    assert (await decide(shop, approval_id, "deny", reason="  "))[0] == 422
    assert await state_of(shop, approval_id) is ApprovalState.PENDING
    assert (await decide(shop, approval_id, "deny", reason="not this one"))[0] == 303
    outcome = await shop.ask("refund", call="c-1", order="o-1", amount=5)
    assert outcome.code == "approval_denied" and "not this one" in json.dumps(outcome.for_openai())


@pytest.mark.case("E06")
@pytest.mark.parametrize("word", ["", "true", "1", "yes", "APPROVE", "approve ", "reject", "{}"])
async def test_only_the_two_words_decide(shop: Shop, word: str) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    fields = fields_of(await page(shop, f"/approvals/{approval_id}"), "/decision")

    answer = await shop.browser.post(f"/console/approvals/{approval_id}/decision", data=fields | {"decision": word})

    assert answer.status_code == 422
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


async def test_something_irreversible_needs_its_target_typed(shop: Shop) -> None:
    approval_id = await shop.asked("delete_account", name="bob")

    for typed in ("", "bob", "account:bo", "account:bob ", "ACCOUNT:BOB"):
        assert (await decide(shop, approval_id, "approve", typed=typed))[0] == 422
    assert await state_of(shop, approval_id) is ApprovalState.PENDING
    assert (await decide(shop, approval_id, "approve", typed="account:bob"))[0] == 303


async def test_a_decision_about_another_call_is_a_conflict(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    other = await shop.asked("refund", order="o-2", amount=5)
    foreign = (await shop.gate.desk.show(other, by=MEI)).digest

    status, text = await decide(shop, approval_id, "approve", digest=foreign)

    assert status == 409 and "The decision is about other arguments." in text
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


@pytest.mark.case("F05")
async def test_the_second_of_two_browsers_is_told_who_was_first(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    omar = await shop.as_person(OMAR)
    html = (await omar.get(f"/console/approvals/{approval_id}")).text
    theirs = next(form for form in forms_of(html, "/decision") if form["decision"] == "deny")
    await decide(shop, approval_id, "approve")

    answer = await omar.post(f"/console/approvals/{approval_id}/decision", data=theirs | {"reason": "no"})

    assert answer.status_code == 409
    assert "It is approved already by mei at 2026-01-01T00:00:00" in answer.text
    assert await state_of(shop, approval_id) is ApprovalState.APPROVED


async def test_a_double_click_is_one_decision(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    fields = next(
        form
        for form in forms_of(await page(shop, f"/approvals/{approval_id}"), "/decision")
        if form["decision"] == "approve"
    )
    answers = [await shop.browser.post(f"/console/approvals/{approval_id}/decision", data=fields) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]
    kinds = [json.loads(event.body)["kind"] async for event in shop.gate.store.chained()]
    assert kinds.count("approval_approved") == 1


@pytest.mark.case("E10")
async def test_what_expired_while_it_was_read_is_not_decided(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    fields = next(
        form
        for form in forms_of(await page(shop, f"/approvals/{approval_id}"), "/decision")
        if form["decision"] == "approve"
    )
    shop.clock.advance(86_400)

    answer = await shop.browser.post(f"/console/approvals/{approval_id}/decision", data=fields)

    assert answer.status_code == 409 and "Nobody decided in time" in answer.text
    assert "/decision" not in await page(shop, f"/approvals/{approval_id}")


async def test_what_is_different_from_the_last_approved_call_is_shown(shop: Shop) -> None:
    first = await shop.asked("refund", order="o-1", amount=40, note="a")
    assert "No call of this tool was approved before." in await page(shop, f"/approvals/{first}")
    await decide(shop, first, "approve")
    shop.clock.advance(1)
    second = await shop.asked("refund", order="o-1", amount=4000, note="a")

    text = text_of(await page(shop, f"/approvals/{second}"))

    assert "amount changed 40 4000" in text
    assert "note changed" not in text


async def test_a_redacted_value_is_on_no_page(shop: Shop) -> None:
    approval_id = await shop.asked("charge", card="4000123412341234", amount=3)

    for path in (f"/approvals/{approval_id}", "/", "/?q=4000123412341234", "/audit", "/runs", "/run?run=run-1"):
        assert "4000123412341234" not in (await page(shop, path)).replace('value="4000123412341234"', "")
    assert "redacted by the contract" in await page(shop, f"/approvals/{approval_id}")


async def test_without_the_contract_nothing_is_shown_and_only_denying_is_possible(tmp_path: Path) -> None:
    store = tmp_path / "placet.db"
    async with open_shop(store) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
    async with open_shop(store, tools=[publish]) as shop:
        html = await page(shop, f"/approvals/{approval_id}")
        assert "does not know the tool" in html and '<span class="number">5</span>' not in html
        assert [form["decision"] for form in forms_of(html, "/decision")] in ([], ["deny"])


@pytest.mark.case("E13")
async def test_other_arguments_are_another_call_which_somebody_else_approves(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=100)
    changed = json.dumps({"order": "o-1", "amount": 40})
    fields = fields_of(await page(shop, f"/approvals/{approval_id}"), "/edit")
    refused = await shop.browser.post(f"/console/approvals/{approval_id}/edit", data=fields | {"arguments": changed})
    assert refused.status_code == 409, "the editor needs leave for the call as well"

    eve = await shop.as_person(EDITOR)
    fields = fields_of((await eve.get(f"/console/approvals/{approval_id}")).text, "/edit")
    answer = await eve.post(f"/console/approvals/{approval_id}/edit", data=fields | {"arguments": changed})

    assert answer.status_code == 303, answer.text
    place = answer.headers["location"].removeprefix("/console")
    text = text_of((await eve.get(f"/console{place}")).text)
    assert "This is another call now" in text and "amount changed 100 40" in text
    assert "You changed this call yourself" in text
    assert await state_of(shop, approval_id) is ApprovalState.WITHDRAWN
    omar = await shop.as_person(OMAR)
    html = (await omar.get(f"/console{place}")).text
    assert "Changed by hand" in html and forms_of(html, "/decision")
    assert (await shop.ask("refund", call="c-1", order="o-1", amount=100)).code == "edited_by_person"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("", 422), ("{", 422), ("[]", 422), ('{"order": "o-1"}', 422), ('{"order": "o-1", "amount": "4"}', 422),
     ('{"order": "o-1", "amount": 4, "amount": 5}', 422), ('{"order": "o-1", "amount": 4, "more": 1}', 422)],
)  # fmt: skip
async def test_arguments_that_break_the_contract_change_nothing(shop: Shop, arguments: str, status: int) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=100)
    fields = fields_of(await page(shop, f"/approvals/{approval_id}"), "/edit")

    answer = await shop.browser.post(f"/console/approvals/{approval_id}/edit", data=fields | {"arguments": arguments})

    assert answer.status_code == status and "Nothing was changed." in answer.text
    assert await state_of(shop, approval_id) is ApprovalState.PENDING


async def test_an_approval_is_taken_back(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    await decide(shop, approval_id, "approve")
    fields = fields_of(await page(shop, f"/approvals/{approval_id}"), "/withdrawal")

    answer = await shop.browser.post(f"/console/approvals/{approval_id}/withdrawal", data=fields)

    assert answer.status_code == 303
    assert await state_of(shop, approval_id) is ApprovalState.REVOKED
    assert "/withdrawal" not in await page(shop, f"/approvals/{approval_id}")


QUORUM = """
[[ask]]
name = "two-for-refunds"
tools = ["refund"]
needs = "quorum"
votes = 2
reason_for = ["approve"]
"""


async def test_each_vote_of_a_quorum_is_given_and_shown(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(QUORUM)
    async with open_shop(policy=policy) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
        text = text_of(await page(shop, f"/approvals/{approval_id}"))
        assert "several people have to approve it" in text and "two-for-refunds" in text and "0 of 2" in text

        assert (await decide(shop, approval_id, "approve"))[0] == 422, "the policy wants a reason"
        status, place = await decide(shop, approval_id, "approve", reason="paid twice")
        assert status == 303
        text = text_of(await page(shop, place.removeprefix("/console")))
        assert "Your vote is counted" in text and "1 of 2" in text and "paid twice" in text
        assert "/decision" not in await page(shop, f"/approvals/{approval_id}")

        omar = await shop.as_person(OMAR)
        html = (await omar.get(f"/console/approvals/{approval_id}")).text
        assert "vote 2 of 2" in text_of(html)
        theirs = next(form for form in forms_of(html, "/decision") if form["decision"] == "approve")
        await omar.post(f"/console/approvals/{approval_id}/decision", data=theirs | {"reason": "seen"})
        assert await state_of(shop, approval_id) is ApprovalState.APPROVED


async def test_a_vote_is_taken_back_while_the_question_waits(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(QUORUM)
    async with open_shop(policy=policy) as shop:
        approval_id = await shop.asked("refund", order="o-1", amount=5)
        await decide(shop, approval_id, "approve", reason="paid twice")
        fields = fields_of(await page(shop, f"/approvals/{approval_id}"), "/vote-withdrawal")

        answer = await shop.browser.post(f"/console/approvals/{approval_id}/vote-withdrawal", data=fields)

        assert answer.status_code == 303
        assert "0 of 2" in text_of(await page(shop, f"/approvals/{approval_id}"))


async def test_a_card_reads_true_to_who_may_approve_and_of_what_was_approved(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)

    assert "somebody entitled, who has not asked for it, has to approve it" in text_of(
        await page(shop, f"/approvals/{approval_id}")
    )

    await decide(shop, approval_id, "approve")
    approved = text_of(await page(shop, f"/approvals/{approval_id}"))
    assert "not used yet by" not in approved
    assert "approved, not used yet decided by mei" in text_of(await page(shop, "/?tab=decided"))
    assert re.search(r"approved by mei at [0-9: UTC-]+ , not used yet: 5 min left", approved)
