"""What people read and do in the console: the inbox, a decision, effects, the audit, the switch."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import placet
from placet.model.approval import ApprovalState
from placet.model.effect import EffectState
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
    address = re.search(r'hx-get="/console(/news[^"]*)"', html)
    assert address is not None
    await shop.asked("refund", order="o-2", amount=4)
    await decide(shop, first, "deny", reason="no")

    assert "1 new, 1 gone: show" in text_of(await page(shop, address[1]))


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


# ---------------------------------------------------------------- effects


async def lost(shop: Shop) -> str:
    """An effect that nobody knows of; its key."""
    approval_id = await shop.asked("lose", order="o-9")
    await decide(shop, approval_id, "approve")
    assert (await shop.ask("lose", call=f"c-{shop.calls}", order="o-9")).code == "effect_unknown"
    (effect,) = await shop.gate.reconciler.effects(by=MEI, states=(EffectState.UNKNOWN,))
    return effect.operation_key


@pytest.mark.parametrize(("truth", "state"), [("committed", "done, as a look"), ("absent", "not done, as a look")])
async def test_a_person_says_what_became_of_an_unknown_effect(shop: Shop, truth: str, state: str) -> None:
    key = await lost(shop)
    assert "Needs reconciling 1" in text_of(await page(shop, "/"))
    shop.clock.advance(3_600)
    await shop.gate.reconciler.recover()
    form = next(
        form for form in forms_of(await page(shop, f"/effect?key={key}"), "/settlement") if form["truth"] == truth
    )

    answer = await shop.browser.post("/console/effect/settlement", data=form | {"evidence": "seen_in_desk"})

    assert answer.status_code == 303, answer.text
    assert state in text_of(await page(shop, answer.headers["location"].removeprefix("/console")))
    other = {"truth": "absent" if truth == "committed" else "committed"}
    again = await shop.browser.post("/console/effect/settlement", data=form | {"evidence": "seen_in_desk"} | other)
    assert again.status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": ""},
        {"evidence": "two words"},
        {"evidence": MARKUP},
        {"truth": "perhaps"},
        {"truth": ""},
        {"looked_at": "yesterday"},
        {"looked_at": "2026-01-01T00:00:00"},
    ],
)
async def test_half_a_statement_settles_nothing(shop: Shop, change: dict[str, str]) -> None:
    key = await lost(shop)
    form = fields_of(await page(shop, f"/effect?key={key}"), "/settlement") | {"evidence": "seen_in_desk"}

    answer = await shop.browser.post("/console/effect/settlement", data=form | change)

    assert answer.status_code in (400, 422)
    (effect,) = await shop.gate.reconciler.effects(by=MEI)
    assert effect.state is EffectState.UNKNOWN


async def test_a_look_from_before_counts_for_no_absence(shop: Shop) -> None:
    key = await lost(shop)
    form = next(
        form for form in forms_of(await page(shop, f"/effect?key={key}"), "/settlement") if form["truth"] == "absent"
    )
    early = (shop.clock.now() - timedelta(hours=1)).isoformat()

    answer = await shop.browser.post(
        "/console/effect/settlement", data=form | {"evidence": "not_in_desk", "looked_at": early}
    )

    assert answer.status_code == 409 and "Look again after the quiet end" in answer.text


async def test_whoever_may_only_read_effects_has_none_of_them_probed() -> None:
    looked: list[str] = []

    async def probe(context: placet.ProbeContext) -> placet.Found:
        looked.append(context.operation_key)
        return placet.Found(result="sent")

    @placet.tool(
        effect="write", risk="high", permission="shop.write", probe=probe, retry=None,
        remote=placet.Remote(arrival_bound_seconds=1.0),
    )  # fmt: skip
    async def lose(order: str) -> str:
        """Sends, and never learns what became of it."""
        raise ConnectionResetError

    async with open_shop(tools=[lose]) as shop:
        key = await lost(shop)
        reader = await shop.as_person(placet.Principal.person("ro", tenant="acme", scopes=("effects.read",)))
        csrf = fields_of((await reader.get("/console/me")).text, "/sign-out")["csrf"]

        refused = await reader.post("/console/effect/probe", data={"csrf": csrf, "key": key})

        assert (refused.status_code, looked) == (403, [])
        assert "effects.reconcile" in refused.text
        (effect,) = await shop.gate.reconciler.effects(by=MEI)
        assert effect.state is EffectState.UNKNOWN

        csrf = fields_of((await shop.browser.get("/console/me")).text, "/sign-out")["csrf"]
        taken = await shop.browser.post("/console/effect/probe", data={"csrf": csrf, "key": key})
        assert (taken.status_code, len(looked)) == (303, 1)


async def test_an_effect_of_somebody_else_is_none_without_leave(shop: Shop) -> None:
    key = await lost(shop)
    looker = await shop.as_person(LOOKER)

    assert (await looker.get("/console/effect", params={"key": key})).status_code == 404
    assert "o-9" not in (listed := (await looker.get("/console/effects")).text) and "There is no such effect" in listed


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


# ---------------------------------------------------------------- audit, runs, tools, the switch


async def test_what_a_person_does_to_no_tool_names_no_tool_and_tells_the_person_once(shop: Shop) -> None:
    await shop.gate.switch.stop("tenant", by=MEI, reason="drill")

    rows = re.findall(r"<tr data-row.*?</tr>", await page(shop, "/audit?kind=stopped"), re.DOTALL)
    told = " ".join(text_of(row) for row in rows)

    assert len(rows) == 1 and MEI.subject in told
    assert "unknown" not in told and "decided by" not in told


@pytest.mark.parametrize("kind", ["tool", "run"])
async def test_a_stop_of_nothing_named_says_what_to_name(shop: Shop, kind: str) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop")
    answer = await shop.browser.post(
        "/console/stops/stop", data=fields | {"kind": kind, "name": " ", "reason": "drill"}
    )

    assert answer.status_code == 422
    assert f"Name the {kind} to stop. Nothing was stopped." in text_of(answer.text)
    assert await shop.gate.switch.stops(by=MEI) == ()


async def test_a_tool_that_does_not_exist_is_still_told_as_unknown(shop: Shop) -> None:
    await shop.ask("no_such_tool")

    [row, *_] = re.findall(r"<tr data-row.*?</tr>", await page(shop, "/audit?kind=completed"), re.DOTALL)
    assert "unknown" in text_of(row)


async def test_the_audit_tells_who_decided_and_that_it_holds(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    await decide(shop, approval_id, "deny", reason="no")

    assert "decided by mei" in text_of(await page(shop, "/audit?kind=approval_denied"))
    assert "refund" in text_of(await page(shop, "/audit?kind=approval_denied"))
    assert "No event fits." in await page(shop, "/audit?kind=approval_denied&tool=publish")
    assert "4 events in 1 chain, intact to 2026-01-01" in text_of(await page(shop, "/audit/verify"))
    lines = (await page(shop, f"/audit/events.jsonl?approval={approval_id}&person=mei")).splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["approval_denied"]


async def test_the_audit_is_for_those_who_may_read_it(shop: Shop) -> None:
    await shop.asked("refund", order="o-1", amount=5)
    looker = await shop.as_person(LOOKER)
    for path in ("/audit", "/audit/verify", "/audit/events.jsonl", "/runs", "/run?run=run-1"):
        answer = await looker.get(f"/console{path}")
        assert answer.status_code == 403 and "audit.read" in answer.text and "refund" not in answer.text


async def test_a_run_is_a_timeline(shop: Shop) -> None:
    approval_id = await shop.asked("refund", order="o-1", amount=5)
    shop.clock.advance(90)
    await decide(shop, approval_id, "approve")
    await shop.ask("refund", call="c-1", order="o-1", amount=5)

    text = text_of(await page(shop, "/run?run=run-1"))

    assert text.index("asked for approval") < text.index("1 min 30 s later") < text.index("approved by mei")
    assert "approval used" in text and "success" in text
    assert "started approved by mei" in text and "started by" not in text  # whoever asked ran it, not who approved
    assert text.count(" by mei") == text.count("approved by mei") == 4
    assert "run-1" in await page(shop, "/runs")
    await page(shop, f"/run?run={MARKUP}", status=404)


async def test_tools_are_listed_with_what_they_may_do(shop: Shop) -> None:
    text = text_of(await page(shop, "/tools"))
    assert "delete_account" not in text or "cannot be taken back" in text


async def test_a_tool_is_stopped_and_resumed(shop: Shop) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop")

    stopped = await shop.browser.post(
        "/console/stops/stop", data=fields | {"kind": "tool", "name": "look", "reason": f"odd {MARKUP}"}
    )
    assert stopped.status_code == 303
    assert (await shop.ask("look", order="o")).code == "stopped"
    html = await page(shop, stopped.headers["location"].removeprefix("/console"))
    assert "Nothing of it is dispatched from now on" in html and "<img" not in html

    resumed = await shop.browser.post("/console/stops/resume", data=fields_of(html, "/stops/resume"))
    assert resumed.status_code == 303
    assert (await shop.ask("look", order="o")).is_success
    again = await shop.browser.post("/console/stops/resume", data=fields_of(html, "/stops/resume"))
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "tenant", "typed": ""}, 422),
        ({"kind": "tenant", "typed": "STOP"}, 422),
        ({"kind": "all", "typed": "stop"}, 403),
        ({"kind": "tool", "name": "no such tool!"}, 422),
        ({"kind": "run", "name": ""}, 422),
        ({"kind": "upstream", "name": "x"}, 422),
        ({"kind": "", "name": "x"}, 422),
    ],
)
async def test_a_stop_that_is_not_meant_or_not_allowed_stops_nothing(
    shop: Shop, change: dict[str, str], status: int
) -> None:
    fields = fields_of(await page(shop, "/stops"), "/stops/stop") | {"name": ""}

    answer = await shop.browser.post("/console/stops/stop", data=fields | change)

    assert answer.status_code == status
    assert await shop.gate.switch.stops(by=MEI) == ()


async def test_who_is_signed_in_and_what_it_may(shop: Shop) -> None:
    text = text_of(await page(shop, "/me"))
    assert "mei" in text and "acme" in text and "approvals.decide : decide approvals of others" in text


async def test_people_and_runs_with_odd_names_are_drawn_and_not_obeyed(shop: Shop) -> None:
    outcome = await shop.gate.submit(
        {"call_id": "c-1", "tool": "refund", "arguments": {"order": MARKUP[:40], "amount": 1}},
        principal=placet.Principal.agent(MARKUP, tenant="acme", roles=("admin",), scopes=("shop.write",)),
        run=f"run {MARKUP}"[:100],
    )
    assert outcome.code == "approval_required"
    for path in ("/", "/?tab=pending", "/audit", "/runs", "/effects"):
        html = await page(shop, path)
        assert "<img" not in html and "<script>alert" not in html
