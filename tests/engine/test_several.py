"""Several questions and one answer: each is decided and recorded by itself, and only what is alike is approved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet import Principal
from placet.engine.several import MOST_AT_ONCE, NOT_TRIED, ChosenAnswer
from placet.errors import DecisionRefused, MisuseError, NotFound, StoreInDoubt, StoreUnavailable
from placet.model.approval import ApprovalState, Chosen
from tests.engine.conftest import ADMIN, APPROVER, OPERATOR, OTHER_APPROVER, OpenWorld, World
from tests.engine.people import ListedPeople

FAR = Principal.person("paula", tenant="globex", scopes=("approvals.decide",))
LOOKER = Principal.person("lu", tenant="acme")
DIGEST = "0" * 64


def asking(name: str = "note", **more: Any) -> Any:
    options: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "ops.write", "approval": "always"}

    @placet.tool(name=name, **(options | more))
    async def act(word: str) -> str:
        """Do it, once somebody has said so."""
        return word

    return act


ASKING = [asking(), asking("other"), asking("grave", risk="high"), asking("final", effect="irreversible")]


@pytest.fixture
async def world(open_world: OpenWorld, where: str) -> AsyncIterator[World]:
    yield await open_world(*ASKING, store=where)


async def asked(world: World, *words: str, tool: str = "note", by: Principal = OPERATOR) -> list[Chosen]:
    """So many questions, as a person chose them."""
    found = []
    for word in words:
        run = "r1" if by == OPERATOR else f"r-{by.subject}"
        waiting = await world.submit(tool, {"word": word}, call_id=f"{tool}-{word}", principal=by, run=run)
        assert isinstance(waiting, placet.AwaitingApproval), waiting
        view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
        found.append(Chosen(approval_id=view.approval_id, digest=view.digest))
    return found


async def states(world: World, chosen: list[Chosen]) -> list[str]:
    return [(await world.gate.desk.show(each.approval_id, by=APPROVER)).state.value for each in chosen]


def codes(answers: tuple[ChosenAnswer, ...]) -> list[str | None]:
    return [each.code for each in answers]


# ---------------------------------------------------------------- denying


@pytest.mark.case("O06")
async def test_unlike_questions_are_denied_at_once_each_with_its_own_record_and_the_one_reason(world: World) -> None:
    chosen = [
        *await asked(world, "a", "b"),
        *await asked(world, "c", tool="grave", by=ADMIN),
        *await asked(world, "d", tool="final"),
    ]
    answers = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="not tonight")

    assert codes(answers) == [None] * 4
    assert [each.approval_id for each in answers] == [each.approval_id for each in chosen]
    assert [(each.approval.state.value, each.approval.words) for each in answers if each.approval] == [
        ("denied", "not tonight")
    ] * 4
    recorded = world.events("approval_denied")
    assert [each["approval_id"] for each in recorded] == [each.approval_id for each in chosen]
    assert {each["decided_by"] for each in recorded} == {"paula"}
    again = await world.submit("note", {"word": "a"}, call_id="note-a")
    assert again.code == "approval_denied" and "not tonight" in str(again.for_openai())


@pytest.mark.case("O06")
async def test_each_is_refused_or_done_by_itself_and_told_so(world: World) -> None:
    mine, other_digest, decided, done = await asked(world, "a", "b", "c", "d")
    await world.gate.desk.approve(decided.approval_id, digest=decided.digest, by=OTHER_APPROVER)
    chosen = [
        mine,
        Chosen(approval_id=other_digest.approval_id, digest=DIGEST),
        Chosen(approval_id="apr-none", digest=DIGEST),
        decided,
        done,
    ]
    answers = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")

    assert codes(answers) == [None, "other_digest", "not_found", "already_decided", None]
    assert [each.approval.state.value if each.approval else None for each in answers] == [
        "denied", "pending", None, "approved", "denied"
    ]  # fmt: skip
    assert "omar" in answers[3].message and all(each.message for each in answers if each.code)
    assert await states(world, [mine, other_digest, decided, done]) == ["denied", "pending", "approved", "denied"]
    assert [each["detail"] for each in world.events("decision_refused")] == ["other_digest", "already_decided"]


@pytest.mark.case("O06")
async def test_the_same_again_answers_the_same_and_records_nothing_twice(world: World) -> None:
    chosen = await asked(world, "a", "b")
    first = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")
    again = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")

    assert first == again and len(world.events("approval_denied")) == 2


@pytest.mark.case("O06")
async def test_entitlement_is_asked_for_each(open_world: OpenWorld, where: str) -> None:
    ours = placet.AskRule(
        name="ours", tools=frozenset({"note"}), approvers=placet.Approvers(subjects=frozenset({"omar"}))
    )
    anybody = placet.AskRule(name="anybody")
    policy = placet.Matrix(asks=placet.AskRules(rules=(ours, anybody)))
    world = await open_world(*ASKING, store=where, policy=policy)
    chosen = [*await asked(world, "a"), *await asked(world, "b", tool="other")]

    answers = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")
    assert codes(answers) == ["not_an_approver", None]
    answers = await world.gate.desk.several.approve(chosen[:1], by=APPROVER)
    assert codes(answers) == ["not_an_approver"]
    assert codes(await world.gate.desk.several.deny(chosen, by=LOOKER, reason="no")) == ["scope_missing"] * 2


@pytest.mark.case("O06")
async def test_nobody_approves_its_own_among_others(world: World) -> None:
    person = Principal.person("paula", tenant="acme", roles=("operator",), scopes=("approvals.decide", "ops.write"))
    chosen = [*await asked(world, "a"), *await asked(world, "b", by=person), *await asked(world, "c")]

    answers = await world.gate.desk.several.approve(chosen, by=person)
    assert codes(answers) == [None, "own_request", None]
    assert await states(world, chosen) == ["approved", "pending", "approved"]


@pytest.mark.parametrize("verb", ["deny", "approve"])
async def test_a_credential_that_proposes_decides_none_and_that_is_recorded_once(world: World, verb: str) -> None:
    chosen = await asked(world, "a", "b")
    with pytest.raises(DecisionRefused) as refused:
        await getattr(world.gate.desk.several, verb)(chosen, by=OPERATOR, reason="no")

    assert refused.value.code == "not_a_person"
    assert [each["detail"] for each in world.events("decision_refused")] == ["not_a_person"]
    assert await states(world, chosen) == ["pending"] * 2


@pytest.mark.parametrize("verb", ["deny", "approve"])
async def test_another_tenants_questions_do_not_exist(world: World, verb: str) -> None:
    chosen = await asked(world, "a", "b")
    decide = getattr(world.gate.desk.several, verb)
    if verb == "deny":
        answers = await decide(chosen, by=FAR, reason="no")
        absent = await decide([Chosen(approval_id="apr-none", digest=DIGEST)], by=FAR, reason="no")
        assert {(each.code, each.message, each.hint, each.approval) for each in (*answers, *absent)} == {
            (absent[0].code, absent[0].message, absent[0].hint, None)
        }
    else:
        with pytest.raises(NotFound):
            await decide(chosen, by=FAR)

    assert (await world.gate.desk.several.look([each.approval_id for each in chosen], by=FAR)).views == ()
    assert await states(world, chosen) == ["pending"] * 2


async def test_where_the_store_fails_the_rest_is_not_tried_and_may_be_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = await asked(world, "a", "b", "c")
    store = world.gate.store
    answer, tries = type(store).answer, []

    async def failing(self: Any, *args: Any, **more: Any) -> Any:
        tries.append(args)
        if len(tries) == 2:
            raise StoreUnavailable("The store is away.")
        return await answer(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "answer", failing)
        answers = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")

    assert codes(answers) == [None, "store_unavailable", NOT_TRIED]
    assert [each.retryable for each in answers] == [False, True, True]
    assert await states(world, chosen) == ["denied", "pending", "pending"]
    assert codes(await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")) == [None] * 3
    assert len(world.events("approval_denied")) == 3


async def test_where_nobody_heard_of_a_commit_the_same_again_says_what_became_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = await asked(world, "a", "b")
    store = type(world.gate.store)
    answer = store.answer

    async def unheard(self: Any, *args: Any, **more: Any) -> Any:
        await answer(self, *args, **more)
        raise StoreInDoubt

    with monkeypatch.context() as patch:
        patch.setattr(store, "answer", unheard)
        answers = await world.gate.desk.several.approve(chosen, by=APPROVER)

    assert [(each.code, each.retryable) for each in answers] == [("store_in_doubt", True), (NOT_TRIED, True)]
    assert await states(world, chosen) == ["approved", "pending"]
    assert codes(await world.gate.desk.several.approve(chosen, by=APPROVER)) == [None, None]
    assert len(world.events("approval_approved")) == 2


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_where_nobody_can_tell_who_may_decide_one_is_asked_about_and_the_rest_is_not_tried(
    open_world: OpenWorld, where: str, verb: str
) -> None:
    people = ListedPeople(APPROVER, OTHER_APPROVER)
    world = await open_world(*ASKING, store=where, people=people)
    chosen = await asked(world, "a", "b", "c")
    people.fault = ConnectionError()
    decide = getattr(world.gate.desk.several, verb)
    answers = await decide(chosen, by=APPROVER, reason="no")

    assert codes(answers) == ["people_failed", NOT_TRIED, NOT_TRIED]
    assert [each.retryable for each in answers] == [True] * 3 and len(world.events("decision_refused")) == 1
    people.fault = None
    assert codes(await decide(chosen, by=APPROVER, reason="no")) == [None] * 3


async def test_a_row_that_was_altered_is_an_alarm_once_and_keeps_no_other_back(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    world = await open_world(*ASKING, store=str(tmp_path / "placet.db"))
    chosen = await asked(world, "a", "b", "c")
    database = apsw.Connection(str(tmp_path / "placet.db"))
    for (name,) in list(database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
        database.execute(f"DROP TRIGGER {name}")
    database.execute(
        "UPDATE approvals SET question = json_set(question, '$.purpose', 'x') WHERE approval_id = ?",
        (chosen[1].approval_id,),
    )
    assert database.changes() == 1
    database.close()

    answers = await world.gate.desk.several.deny(chosen, by=APPROVER, reason="no")
    assert codes(answers) == [None, "approval_suspect", None]
    assert len(world.events("approval_suspect")) == 1
    with pytest.raises(DecisionRefused) as refused:
        await world.gate.desk.several.approve(chosen, by=APPROVER)
    assert refused.value.code == "approval_suspect"
    assert chosen[1].approval_id in str(refused.value) and "Nothing was decided" in str(refused.value)


# ---------------------------------------------------------------- approving


@pytest.mark.case("O06")
async def test_what_is_alike_is_approved_at_once_each_on_its_own_digest_and_record(world: World) -> None:
    chosen = await asked(world, "a", "b", "c")
    answers = await world.gate.desk.several.approve(chosen, by=APPROVER, reason="checked")

    assert codes(answers) == [None] * 3
    recorded = world.events("approval_approved")
    assert [each["approval_id"] for each in recorded] == [each.approval_id for each in chosen]
    assert [each["outcome"] for each in world.events("completed")] == ["approval_required"] * 3, "nothing ran"
    ran = await world.submit("note", {"word": "b"}, call_id="note-b")
    other = await world.submit("note", {"word": "z"}, call_id="note-z")
    assert (ran.code, other.code) == ("succeeded", "approval_required")
    assert await states(world, chosen) == ["approved", "spent", "approved"]


async def refused_whole(world: World, chosen: list[Chosen], code: str) -> DecisionRefused:
    """Nothing is decided, everything is on record as refused, and it is said by name why."""
    before = await states(world, chosen)
    with pytest.raises(DecisionRefused) as refused:
        await world.gate.desk.several.approve(chosen, by=APPROVER)
    assert refused.value.code == code and "Nothing was decided." in str(refused.value)
    assert await states(world, chosen) == before
    assert world.events("approval_approved", "approval_voted") == []
    on_record = world.events("decision_refused")[-len(chosen) :]
    assert [(each["approval_id"], each["detail"]) for each in on_record] == [
        (each.approval_id, code) for each in chosen
    ]
    return refused.value


@pytest.mark.case("O06")
async def test_another_tool_among_them_approves_none(world: World) -> None:
    chosen = [*await asked(world, "a", "b"), *await asked(world, "c", tool="other")]
    assert "not calls of one tool" in str(await refused_whole(world, chosen, "not_alike"))
    seen = await world.gate.desk.several.look([each.approval_id for each in chosen], by=APPROVER)
    assert (seen.why_not, len(seen.views)) == ("not_alike", 3)


@pytest.mark.case("O06")
@pytest.mark.parametrize("tool", ["grave", "final"])
async def test_what_is_grave_is_approved_one_by_one(world: World, tool: str) -> None:
    chosen = await asked(world, "a", "b", tool=tool, by=ADMIN)
    await refused_whole(world, chosen, "too_grave_together")
    await refused_whole(world, chosen[:1], "too_grave_together")
    await world.gate.desk.approve(chosen[0].approval_id, digest=chosen[0].digest, by=APPROVER)


@pytest.mark.case("O06")
@pytest.mark.parametrize("place", [0, 2])
async def test_one_digest_that_was_not_seen_approves_none(world: World, place: int) -> None:
    chosen = await asked(world, "a", "b", "c")
    odd = [*chosen]
    odd[place] = Chosen(approval_id=chosen[place].approval_id, digest=chosen[1].digest)
    assert chosen[place].approval_id in str(await refused_whole(world, odd, "other_digest"))


@pytest.mark.case("O06")
async def test_another_policy_or_rule_among_them_approves_none(open_world: OpenWorld, tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    chosen: list[Chosen] = []
    for word in ("one", "other"):
        rule = placet.AskRule(name=word, decide_within_seconds=600.0)
        policy = placet.Matrix(asks=placet.AskRules(rules=(rule,)))
        world = await open_world(*ASKING, store=store, policy=policy)
        chosen += await asked(world, word)
    assert "one version of the policy" in str(await refused_whole(world, chosen, "not_alike"))


@pytest.mark.case("O06")
async def test_another_version_of_the_contract_among_them_approves_none(open_world: OpenWorld, tmp_path: Path) -> None:
    store = str(tmp_path / "placet.db")
    before = await asked(await open_world(asking(), store=store), "a")
    world = await open_world(asking(version="2"), store=store)
    chosen = [*before, *await asked(world, "b")]
    await refused_whole(world, chosen, "contract_not_here")
    seen = await world.gate.desk.several.look([each.approval_id for each in chosen], by=APPROVER)
    assert seen.why_not == "contract_not_here"


async def test_one_of_several_that_is_not_there_approves_none(world: World) -> None:
    chosen = await asked(world, "a", "b")
    with pytest.raises(NotFound, match=r"'apr-none'.*Nothing was decided"):
        await world.gate.desk.several.approve([*chosen, Chosen(approval_id="apr-none", digest=DIGEST)], by=APPROVER)
    assert await states(world, chosen) == ["pending"] * 2


async def test_what_stands_otherwise_by_now_keeps_no_other_back(world: World) -> None:
    chosen = await asked(world, "a", "b", "c")
    await world.gate.desk.deny(chosen[1].approval_id, digest=chosen[1].digest, by=OTHER_APPROVER)
    answers = await world.gate.desk.several.approve(chosen, by=APPROVER)

    assert codes(answers) == [None, "already_decided", None]
    assert codes(await world.gate.desk.several.approve(chosen, by=APPROVER)) == codes(answers)
    assert len(world.events("approval_approved")) == 2


async def test_several_votes_are_several_votes(open_world: OpenWorld, where: str) -> None:
    two = placet.AskRule(name="two", needs=placet.RequirementKind.QUORUM, votes=2)
    world = await open_world(*ASKING, store=where, policy=placet.Matrix(asks=placet.AskRules(rules=(two,))))
    chosen = await asked(world, "a", "b")

    first = await world.gate.desk.several.approve(chosen, by=APPROVER)
    assert [each.approval.state for each in first if each.approval] == [ApprovalState.PENDING] * 2
    second = await world.gate.desk.several.approve(chosen, by=OTHER_APPROVER)
    assert [each.approval.state for each in second if each.approval] == [ApprovalState.APPROVED] * 2
    assert len(world.events("approval_voted")) == 4


async def test_a_reason_that_the_rule_wants_is_wanted_of_each(open_world: OpenWorld, where: str) -> None:
    rule = placet.AskRule(name="said", reason_to_approve=True)
    world = await open_world(*ASKING, store=where, policy=placet.Matrix(asks=placet.AskRules(rules=(rule,))))
    chosen = await asked(world, "a", "b")

    assert codes(await world.gate.desk.several.approve(chosen, by=APPROVER)) == ["reason_missing"] * 2
    assert codes(await world.gate.desk.several.approve(chosen, by=APPROVER, reason="seen")) == [None] * 2


# ---------------------------------------------------------------- what means nothing


async def test_none_too_many_one_twice_and_what_is_none_decide_nothing(world: World) -> None:
    chosen = await asked(world, "a", "b")
    many = [Chosen(approval_id=f"apr-{number}", digest=DIGEST) for number in range(MOST_AT_ONCE + 1)]
    odd: list[Any] = [(), [], many, [chosen[0], chosen[0]], "ab", {chosen[0]}, [("a", "b")], None, iter(chosen)]
    for each in odd:
        for verb in (world.gate.desk.several.deny, world.gate.desk.several.approve):
            with pytest.raises(MisuseError):
                await verb(each, by=APPROVER, reason="no")
    for reason in ("x" * 501, "a\x00b", "\ud800", None):
        with pytest.raises(MisuseError):
            await world.gate.desk.several.deny(chosen, by=APPROVER, reason=reason)  # type: ignore[arg-type]
    for names in ((), [many[0].approval_id] * 2, [each.approval_id for each in many], "ab", [1]):
        with pytest.raises(MisuseError):
            await world.gate.desk.several.look(names, by=APPROVER)  # type: ignore[arg-type]
    assert await states(world, chosen) == ["pending"] * 2
    assert (
        codes(await world.gate.desk.several.deny(many[:MOST_AT_ONCE], by=APPROVER, reason="no"))
        == ["not_found"] * MOST_AT_ONCE
    )


async def test_a_look_shows_what_waits_and_decides_nothing(world: World) -> None:
    chosen = await asked(world, "a", "b")
    decided = await asked(world, "c")
    await world.gate.desk.deny(decided[0].approval_id, digest=decided[0].digest, by=APPROVER)
    names = [each.approval_id for each in (*decided, *chosen)]
    seen = await world.gate.desk.several.look([*names, "apr-none"], by=APPROVER)

    assert [view.approval_id for view in seen.views] == names[1:]
    assert (seen.why_not, seen.words) == (None, "")
    assert await states(world, chosen) == ["pending"] * 2
