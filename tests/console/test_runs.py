"""Runs in the console: how each stands, and one of them as short or as whole as somebody wants it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from tests.console.shop import LOOKER, MEI, Shop, fields_of, open_shop
from tests.console.test_effects import lost
from tests.console.test_pages import MARKUP, decide, page, text_of


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_shop() as made:
        yield made


async def refunded(shop: Shop) -> str:
    """A refund that was asked about, approved 90 seconds later, and done."""
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    shop.clock.advance(90)
    await decide(shop, approval_id, "approve")
    await shop.ask("refund", call=f"c-{shop.calls}", order="o-1", amount=5)
    return approval_id


async def test_the_way_of_a_call_is_told_from_proposal_to_what_was_observed(shop: Shop) -> None:
    approval_id = await refunded(shop)

    html = await page(shop, "/run?run=run-1")
    text = text_of(html)

    stages = ["proposed by agent-7", "checked fits its contract", "decided asked: a person has to decide"]
    stages += [
        "1 min 30 s later",
        "decided approved by mei",
        "decided approval used",
        "sent attempt 1",
        "observed done",
    ]
    assert [text.index(each) for each in stages] == sorted(text.index(each) for each in stages)
    assert "for the role admin and something of high risk matrix_admin_high" in text
    assert "refund order:o-1 call 1 of 1" in text
    assert f'href="/console/approvals/{approval_id}"' in html
    assert '<a href="/console/run?run=run-1&amp;view=timeline" aria-current="page">' in html


async def test_every_event_is_told_with_who_did_what(shop: Shop) -> None:
    await refunded(shop)

    text = text_of(await page(shop, "/run?run=run-1&view=full"))

    assert text.index("approval asked") < text.index("completed approval required")
    assert text.index("approval required") < text.index("1 min 30 s later") < text.index("approved by mei")
    assert "started approved by mei" in text and "started by" not in text  # whoever asked ran it, not who approved
    assert text.count(" by mei") == text.count("approved by mei") == 4


async def test_a_line_a_call_says_how_each_stands_and_how_long_nothing_happened(shop: Shop) -> None:
    await refunded(shop)
    shop.clock.advance(45)
    await shop.ask("look", order="o-2")
    await shop.ask("look", no_such="argument")

    text = text_of(await page(shop, "/run?run=run-1&view=compact"))

    assert "3 calls, 11 events: 1 refused, 2 done" in text
    assert re.search(r"refund order:o-1 ✓ done in 1 min 30 s 2 min 15 s later look ✓ done look ✕ refused", text), text


async def test_a_run_with_an_effect_that_nobody_knows_of_never_looks_done(shop: Shop) -> None:
    await shop.ask("look", order="o")
    await lost(shop)

    assert "run-1 ? nobody knows whether it happened 1 of 2" in text_of(await page(shop, "/runs"))
    for view in ("compact", "timeline", "full"):
        html = await page(shop, f"/run?run=run-1&view={view}")
        first = re.search(r'<p class="run-standing">(.*?)</p>', html, re.DOTALL)
        assert first is not None and text_of(first[1]).strip().startswith("? nobody knows whether it happened")
    inbox = await page(shop, "/")
    assert "<title>(0, 1 unknown) Inbox" in inbox and "Needs reconciling 1 for 0 s" in text_of(inbox)
    shop.clock.advance(3_700)
    assert "Needs reconciling 1 for 1 h 1 min" in text_of(await page(shop, "/"))


async def test_a_settled_run_looks_settled(shop: Shop) -> None:
    key = await lost(shop)
    shop.clock.advance(3_600)
    await shop.gate.reconciler.recover()
    form = fields_of(await page(shop, f"/effect?key={key}"), "/settlement")
    await shop.browser.post(
        "/console/effect/settlement", data=form | {"truth": "committed", "evidence": "seen_in_desk"}
    )

    text = text_of(await page(shop, "/run?run=run-1"))

    assert "✓ done 1 call" in text and "settled: it happened by mei seen_in_desk" in text
    assert "run-1 ✓ done" in text_of(await page(shop, "/runs"))


async def test_a_denial_is_a_step_with_its_reason_in_words(shop: Shop) -> None:
    import placet

    nobody = placet.Principal.agent("agent-8", tenant="acme", roles=("admin",))
    arguments = {"order": "o-1", "amount": 5}
    outcome = await shop.gate.submit(
        {"call_id": "c-1", "tool": "refund", "arguments": arguments}, principal=nobody, run="run-2"
    )
    assert outcome.code == "denied"

    text = text_of(await page(shop, "/run?run=run-2"))

    assert "decided denied whoever asked lacks the scope that the contract needs scope_missing" in text
    assert "✕ refused 1 call" in text


async def test_an_open_run_says_what_is_new_and_moves_nothing(shop: Shop) -> None:
    await shop.ask("look", order="o")
    html = await page(shop, "/run?run=run-1")
    address = re.search(r'hx-get="/console(/run/news[^"]*)"', html)
    assert address is not None
    news = address[1].replace("&amp;", "&")
    assert text_of(await page(shop, news)).strip() == ""
    await shop.ask("look", order="o-2")

    assert "2 new events: show" in text_of(await page(shop, news))


async def test_a_run_that_nobody_knows_is_none_and_its_name_is_drawn(shop: Shop) -> None:
    assert "<script>alert" not in await page(shop, f"/run?run={MARKUP}", status=404)


async def test_runs_are_for_those_who_may_read_the_audit(shop: Shop) -> None:
    await shop.ask("look", order="o")
    looker = await shop.as_person(LOOKER)

    for path in ("/runs", "/run?run=run-1", "/run/news?run=run-1&seen=0"):
        answer = await looker.get(f"/console{path}")
        assert answer.status_code == 403 and "look" not in text_of(answer.text).replace("look at", "")


async def test_a_redacted_argument_is_in_no_telling_of_a_run(shop: Shop) -> None:
    await shop.ask("charge", card="4000123412341234", amount=3)
    assert await shop.gate.desk.pending(by=MEI)

    for view in ("compact", "timeline", "full"):
        assert "4000123412341234" not in await page(shop, f"/run?run=run-1&view={view}")


async def test_a_run_is_cancelled_with_a_reason_once_the_word_is_typed(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    before = await page(shop, "/run?run=run-1")
    assert "How it stands: open" in before and "1 of 200 steps" in before
    fields = fields_of(before, "/run/change") | {"verb": "cancel", "reason": "the wrong <b>order</b>"}

    unsure = await shop.browser.post("/console/run/change", data=fields)
    assert unsure.status_code == 422
    assert "Type the word cancel to cancel the run for good. Nothing was changed." in text_of(unsure.text)
    sure = await shop.browser.post("/console/run/change", data=fields | {"typed": "cancel"})
    assert (sure.status_code, sure.headers["location"]) == (
        303,
        "/console/run?run=run-1&done=run_cancelled&running=0",
    )

    after = await page(shop, "/run?run=run-1&done=run_cancelled&running=0")
    assert "How it stands: cancelled" in after and "/run/change" not in after
    assert "Changed by mei: “the wrong <b>order</b>”" in text_of(after).replace("&lt;", "<").replace("&gt;", ">")
    assert "What it had asked for is withdrawn." in text_of(after)
    assert "run-1" not in await page(shop, "/")


async def test_a_run_is_paused_and_resumed_by_people_with_leave_alone(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    fields = fields_of(await page(shop, "/run?run=run-1"), "/run/change")

    assert (await shop.browser.post("/console/run/change", data=fields | {"verb": "pause"})).status_code == 303
    paused = await page(shop, "/run?run=run-1")
    assert "How it stands: paused" in paused
    assert re.findall(r'<option value="(\w+)">', paused) == ["resume", "cancel"]
    assert (await shop.browser.post("/console/run/change", data=fields | {"verb": "resume"})).status_code == 303
    assert "How it stands: open" in await page(shop, "/run?run=run-1")
    nothing = await shop.browser.post("/console/run/change", data=fields | {"verb": "do"})
    assert (nothing.status_code, "Say what to do with the run." in text_of(nothing.text)) == (422, True)
    assert (await shop.browser.get("/console/run/change")).status_code in (404, 405)
    assert "How it stands: open" in await page(shop, "/run?run=run-1")

    looker = await shop.as_person(LOOKER)
    shown = await looker.get("/console/run?run=run-1")
    assert "/run/change" not in shown.text
    own = fields_of((await looker.get("/console/me")).text, "/sign-out")
    refused = await looker.post("/console/run/change", data=own | {"run": "run-1", "verb": "pause", "reason": ""})
    assert refused.status_code == 403
    assert "needs the scope ops.stop" in text_of(refused.text)
