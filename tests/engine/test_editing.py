"""A person changes a call: another question, validated and decided anew, which somebody else has to approve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    ApprovalState,
    AskRule,
    AskRules,
    AwaitingApproval,
    Matrix,
    Principal,
    Refused,
    Replayed,
    RequirementKind,
    Succeeded,
)
from placet.errors import InvalidArguments, NotFound
from placet.model.approval import Edited
from tests.engine.conftest import OPERATOR, SCOPE, OpenWorld, Spy, World, written
from tests.engine.people import refusal

DECIDE = "approvals.decide"
EDITOR = Principal.person("edith", tenant="acme", roles=("operator",), scopes=(DECIDE, SCOPE))
REVIEWER = Principal.person("rita", tenant="acme", scopes=(DECIDE,))
SECOND = Principal.person("sam", tenant="acme", scopes=(DECIDE,))


async def asked(open_world: OpenWorld, spy: Spy, **more: Any) -> tuple[World, AwaitingApproval]:
    options = more.pop("options", {})
    world = await open_world(written(spy, approval="always", **options), **more)
    outcome = await world.submit("write", {"word": "x", "count": 100})
    assert isinstance(outcome, AwaitingApproval)
    return world, outcome


async def edit(world: World, waiting: Any, arguments: object, *, by: Principal = EDITOR) -> Any:
    view = await world.gate.desk.show(waiting.approval_id, by=by)
    return await world.gate.desk.edit(waiting.approval_id, digest=view.digest, arguments=arguments, by=by)


async def approve(world: World, view: Any, *, by: Principal = REVIEWER) -> Any:
    return await world.gate.desk.approve(view.approval_id, digest=view.digest, by=by)


@pytest.mark.req("H017", "H018", "H023", "B042", "B064")
@pytest.mark.case("E13")
async def test_an_edited_call_is_asked_for_approved_and_run_in_place_of_the_first(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)

    view = await edit(world, waiting, {"word": "x", "count": 40})
    assert (view.state, view.arguments, view.edited_by, view.edited_from) == (
        ApprovalState.PENDING,
        {"word": "x", "count": 40},
        "edith",
        waiting.approval_id,
    )
    assert view.requested_by == "agent-operator", "it stays the proposer's wish"
    assert view.reasons == ("contract_always_asks", "edited_by_a_person")
    old = await world.gate.desk.show(waiting.approval_id, by=REVIEWER)
    assert (old.state, old.arguments) == (ApprovalState.WITHDRAWN, {"word": "x", "count": 100}), "both are kept"

    told = await world.submit("write", {"word": "x", "count": 100})
    assert isinstance(told, Refused)
    assert (told.code, told.edited_arguments, told.retryable) == (
        "edited_by_person", {"word": "x", "count": 40}, False
    )  # fmt: skip
    assert told.as_data()["edited_arguments"] == {"word": "x", "count": 40}
    assert isinstance(await world.submit("write", told.edited_arguments, call_id="c2"), AwaitingApproval)

    await approve(world, view)
    assert spy.count == 0
    assert isinstance(await world.submit("write", told.edited_arguments, call_id="c2"), Succeeded)
    assert spy.calls == [("x", 40)]
    assert isinstance(await world.submit("write", told.edited_arguments, call_id="c3"), Replayed | AwaitingApproval)
    for call_id, code in (("c1", "operation_conflict"), ("c9", "edited_by_person")):
        again = await world.submit("write", {"word": "x", "count": 100}, call_id=call_id)
        assert (again.code, spy.count) == (code, 1), "what was changed does not run beside what became of it"

    (event,) = world.events("approval_edited")
    assert (event["decided_by"], event["approval_id"], event["model_suggested"]) == ("edith", view.approval_id, False)
    assert world.events("approval_withdrawn")[0]["detail"] == "edited"
    assert b'"count":40' not in world.bodies()


@pytest.mark.req("H017", "H023")
@pytest.mark.case("E13")
async def test_the_editors_own_approval_counts_for_nothing(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    view = await edit(world, waiting, {"word": "y"})

    assert view.why_not == "own_edit"
    assert await refusal(approve(world, view, by=EDITOR)) == "own_edit"
    rule = AskRule(name="two", needs=RequirementKind.QUORUM, votes=2)
    world, waiting = await asked(open_world, spy, policy=Matrix(asks=AskRules(rules=(rule,))))
    view = await edit(world, waiting, {"word": "y"})
    assert await refusal(approve(world, view, by=EDITOR)) == "own_edit"
    assert (await approve(world, view, by=REVIEWER)).state is ApprovalState.PENDING
    assert (await approve(world, view, by=SECOND)).state is ApprovalState.APPROVED
    assert isinstance(await world.submit("write", {"word": "y"}, call_id="c2"), Succeeded)


@pytest.mark.case("E13")
@pytest.mark.parametrize("is_approved", [False, True], ids=["waiting", "approved"])
async def test_what_another_policy_asks_anew_is_still_the_editors(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, is_approved: bool
) -> None:
    store = str(tmp_path / "p.db")
    world, waiting = await asked(open_world, spy, store=store)
    view = await edit(world, waiting, {"word": "y"})
    if is_approved:
        await approve(world, view)
    rule = AskRule(name="other", needs=RequirementKind.REVIEW)
    newer = await open_world(
        written(spy, approval="always"), store=store, policy=Matrix(asks=AskRules(rules=(rule,))), seed=1
    )

    anew = await newer.submit("write", {"word": "y"}, call_id="c2")

    assert isinstance(anew, AwaitingApproval) and anew.approval_id != view.approval_id
    shown = await newer.gate.desk.show(anew.approval_id, by=EDITOR)
    assert (shown.edited_by, shown.why_not) == ("edith", "own_edit")
    assert await refusal(approve(newer, shown, by=EDITOR)) == "own_edit"
    await approve(newer, shown)
    assert isinstance(await newer.submit("write", {"word": "y"}, call_id="c2"), Succeeded)


async def test_the_requesting_user_confirms_what_it_edited(open_world: OpenWorld, spy: Spy) -> None:
    uma = Principal.person("uma", tenant="acme", roles=("operator",), scopes=(SCOPE,))
    agent = dataclasses.replace(OPERATOR, on_behalf_of=uma)
    requirement = placet.Requirement(kind=RequirementKind.CONFIRM)
    world = await open_world(written(spy, approval="always"), policy=Matrix(requirement=requirement))
    waiting = await world.submit("write", {"word": "x"}, principal=agent)

    view = await edit(world, waiting, {"word": "y"}, by=uma)
    await approve(world, view, by=uma)

    assert isinstance(await world.submit("write", {"word": "y"}, principal=agent, call_id="c2"), Succeeded)


# ---------------------------------------------------------------- what is refused


@pytest.mark.case("E13")
@pytest.mark.parametrize(
    "arguments",
    [
        {"word": 7},
        {},
        {"word": "y", "more": 1},
        '{"word": "y", "word": "z"}',
        "not json",
        ["y"],
        7,
        {"word": float("nan")},
        {"word": ("y",)},
        {1: "y"},
        b"\xff",
    ],
)
async def test_what_breaks_the_contract_changes_nothing(open_world: OpenWorld, spy: Spy, arguments: Any) -> None:
    world, waiting = await asked(open_world, spy)

    with pytest.raises(InvalidArguments) as caught:
        await edit(world, waiting, arguments)

    assert (caught.value.__cause__, caught.value.may_have_acted) == (None, False)
    assert (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).state is ApprovalState.PENDING
    assert world.events("approval_edited") == []


async def test_arguments_may_be_json_text(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)

    assert (await edit(world, waiting, '{"word": "y"}')).arguments == {"word": "y", "count": 1}


@pytest.mark.parametrize("arguments", [{"word": "x", "count": 100}, '{"count":100,"word":"x"}'])
async def test_an_edit_that_changes_nothing_is_none(open_world: OpenWorld, spy: Spy, arguments: Any) -> None:
    world, waiting = await asked(open_world, spy)

    assert await refusal(edit(world, waiting, arguments)) == "nothing_changed"


WHO: dict[str, tuple[Principal, str]] = {
    "somebody who may not decide": (dataclasses.replace(EDITOR, scopes=frozenset({SCOPE})), "scope_missing"),
    "the requester": (dataclasses.replace(EDITOR, subject="agent-operator"), "own_request"),
    "somebody elsewhere": (dataclasses.replace(EDITOR, environment="staging"), "other_environment"),
    "somebody without the tool's permission": (
        dataclasses.replace(EDITOR, scopes=frozenset({DECIDE})),
        "editor_denied",
    ),
    "somebody whose role may not": (dataclasses.replace(EDITOR, roles=frozenset()), "editor_denied"),
}


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize("who", WHO)
async def test_an_edit_needs_the_leave_of_its_editor(open_world: OpenWorld, spy: Spy, who: str) -> None:
    by, code = WHO[who]
    world, waiting = await asked(open_world, spy)
    digest = (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).digest

    work = world.gate.desk.edit(waiting.approval_id, digest=digest, arguments={"word": "y"}, by=by)

    assert await refusal(work) == code
    assert world.events("decision_refused")[-1]["detail"] == code
    assert (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).state is ApprovalState.PENDING


async def test_the_requester_needs_leave_for_what_became_of_its_call(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    view = await edit(world, waiting, {"word": "y"})
    await approve(world, view)
    weaker = dataclasses.replace(OPERATOR, roles=frozenset())

    outcome = await world.submit("write", {"word": "y"}, call_id="c2", principal=weaker)

    assert (outcome.code, spy.count) == ("denied", 0)


async def test_another_digest_tenant_or_agent_edits_nothing(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    desk = world.gate.desk

    assert await refusal(desk.edit(waiting.approval_id, digest="0" * 64, arguments={"word": "y"}, by=EDITOR)) == (
        "other_digest"
    )
    agent = Principal.agent("edith", tenant="acme", roles=("operator",), scopes=(DECIDE, SCOPE))
    digest = (await desk.show(waiting.approval_id, by=EDITOR)).digest
    work = desk.edit(waiting.approval_id, digest=digest, arguments={"word": "y"}, by=agent)
    assert await refusal(work) == "not_a_person"
    stranger = Principal.person("edith", tenant="globex", roles=("operator",), scopes=(DECIDE, SCOPE))
    with pytest.raises(NotFound):
        await desk.edit(waiting.approval_id, digest=digest, arguments={"word": "y"}, by=stranger)


async def test_a_rule_may_forbid_edits(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(asks=AskRules(rules=(AskRule(name="as_it_is", may_edit=False),)))
    world, waiting = await asked(open_world, spy, policy=policy)

    assert (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).may_edit is False
    assert await refusal(edit(world, waiting, {"word": "y"})) == "edit_forbidden"


CLOSINGS: dict[str, tuple[Callable[[World, Any], Any], str]] = {
    "approved": (lambda w, a: w.approve(a), "already_decided"),
    "denied": (lambda w, a: w.deny(a), "already_decided"),
    "withdrawn": (lambda w, a: w.gate.desk.withdraw(a.approval_id, by=REVIEWER), "already_decided"),
    "edited": (lambda w, a: edit(w, a, {"word": "z"}), "already_decided"),
}


@pytest.mark.parametrize("how", CLOSINGS)
async def test_what_is_closed_is_not_edited(open_world: OpenWorld, spy: Spy, how: str) -> None:
    close, code = CLOSINGS[how]
    world, waiting = await asked(open_world, spy)
    await close(world, waiting)

    assert await refusal(edit(world, waiting, {"word": "y"})) == code


async def test_what_nobody_decided_in_time_is_not_edited(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    world.clock.advance(86_400)

    assert await refusal(edit(world, waiting, {"word": "y"})) == "approval_expired"


async def test_what_is_asked_about_already_is_not_asked_twice(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    other = await world.submit("write", {"word": "y"}, call_id="c2")
    assert isinstance(other, AwaitingApproval)

    assert await refusal(edit(world, waiting, {"word": "y"})) == "asked_already"
    assert len(await world.gate.desk.pending(by=EDITOR)) == 2


# ---------------------------------------------------------------- what becomes of it


async def test_an_edit_of_an_edit_is_told_as_the_last_one(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    first = await edit(world, waiting, {"word": "y"})
    other = Principal.person("otto", tenant="acme", roles=("operator",), scopes=(DECIDE, SCOPE))
    second = await edit(world, first, {"word": "z"}, by=other)

    assert (second.edited_by, second.edited_from) == ("otto", first.approval_id)
    assert second.reasons.count("edited_by_a_person") == 1
    for word in ("x", "y"):
        arguments = {"word": word, "count": 100} if word == "x" else {"word": word}
        told = await world.submit("write", arguments, call_id=f"c-{word}")
        assert isinstance(told, Refused)
        assert told.edited_arguments == {"word": "z", "count": 1}


ENDINGS: dict[str, Callable[[World, Any], Any]] = {
    "denied": lambda w, v: w.gate.desk.deny(v.approval_id, digest=v.digest, by=REVIEWER),
    "withdrawn": lambda w, v: w.gate.desk.withdraw(v.approval_id, by=REVIEWER),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_once_the_edit_is_closed_the_first_call_is_asked_about_anew(
    open_world: OpenWorld, spy: Spy, how: str
) -> None:
    world, waiting = await asked(open_world, spy)
    view = await edit(world, waiting, {"word": "y"})
    await ENDINGS[how](world, view)

    outcome = await world.submit("write", {"word": "x", "count": 100})

    assert isinstance(outcome, AwaitingApproval)
    assert outcome.approval_id != waiting.approval_id


async def test_an_edit_that_nobody_decided_is_over(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await edit(world, waiting, {"word": "y"})
    world.clock.advance(86_400)

    assert isinstance(await world.submit("write", {"word": "x", "count": 100}), AwaitingApproval)


async def test_an_edit_under_another_policy_is_over(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "p.db")
    world, waiting = await asked(open_world, spy, store=store)
    await edit(world, waiting, {"word": "y"})
    policy = Matrix(asks=AskRules(rules=(AskRule(name="r"),)))
    new = await open_world(written(spy, approval="always"), store=store, policy=policy, seed=1)

    assert isinstance(await new.submit("write", {"word": "x", "count": 100}), AwaitingApproval)


async def test_fields_that_nobody_here_sees_keep_what_they_hold(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy, options={"redact": ("count",)})

    view = await edit(world, waiting, {"word": "y", "count": 1})
    assert view.arguments == {"word": "y", "count": "[REDACTED]"}
    await approve(world, view)
    assert isinstance(await world.submit("write", {"word": "y", "count": 100}, call_id="c2"), Succeeded)
    assert spy.calls == [("y", 100)]


@pytest.mark.parametrize("named", ["business", "caller", "call"])
async def test_an_edited_call_has_the_name_of_its_own_operation(open_world: OpenWorld, spy: Spy, named: str) -> None:
    options = {"operation_key": "w:{word}"} if named == "business" else {}
    more = {"idempotency_key": "k-1"} if named == "caller" else {}
    world = await open_world(written(spy, approval="always", resource="w:{word}", **options))
    waiting = await world.submit("write", {"word": "x"}, **more)
    view = await edit(world, waiting, {"word": "y"})
    assert view.resource == "w:y"
    await approve(world, view)

    assert isinstance(await world.submit("write", {"word": "y"}, call_id="c2", **more), Succeeded)
    (effect,) = await world.effects()
    assert (
        effect.operation_key
        == {
            "business": '["business","w:{word}","y"]',
            "caller": '["caller","agent-operator","k-1"]',
            "call": '["call","r1","c1"]',
        }[named]
    )


async def test_a_pointer_that_somebody_wrote_tells_nobody_anything(open_world: OpenWorld, spy: Spy) -> None:
    """Only what the question says of itself, under its MAC, is believed."""
    world, waiting = await asked(open_world, spy)
    await world.gate.desk.withdraw(waiting.approval_id, by=REVIEWER)
    other = await world.submit("write", {"word": "other"}, call_id="c2")
    assert isinstance(other, AwaitingApproval)
    store: Any = world.gate.store
    tables = store._tables
    of = tables.approvals["acme", waiting.approval_id].question
    tables.edits["acme", other.approval_id] = of

    assert isinstance(await world.submit("write", {"word": "x", "count": 100}), AwaitingApproval)
    row = tables.approvals["acme", other.approval_id]
    mark = Edited(by="edith", from_id=of.approval_id, from_digest=of.argument_digest)
    forged = dataclasses.replace(row, question=dataclasses.replace(row.question, edited=mark))
    tables.approvals["acme", other.approval_id] = forged
    await world.gate.desk.withdraw((await world.gate.desk.pending(by=REVIEWER))[0].approval_id, by=REVIEWER)
    assert isinstance(await world.submit("write", {"word": "x", "count": 100}, call_id="c4"), AwaitingApproval)


async def test_votes_given_before_the_edit_do_not_count_after_it(open_world: OpenWorld, spy: Spy) -> None:
    rule = AskRule(name="two", needs=RequirementKind.QUORUM, votes=2)
    world, waiting = await asked(open_world, spy, policy=Matrix(asks=AskRules(rules=(rule,))))
    await approve(world, await world.gate.desk.show(waiting.approval_id, by=REVIEWER))

    view = await edit(world, waiting, {"word": "y"})

    assert view.votes == ()
    assert (await approve(world, view, by=SECOND)).state is ApprovalState.PENDING


async def _later(world: World) -> None:
    world.clock.advance(86_400)


async def _approved_and_later(world: World, view: Any) -> None:
    await approve(world, view)
    world.clock.advance(86_400)


async def _approved_and_revoked(world: World, view: Any) -> None:
    await approve(world, view)
    await world.gate.desk.withdraw(view.approval_id, by=EDITOR)


CLOSED: dict[str, Callable[[World, Any], Any]] = {
    "withdrawn by its editor": lambda w, v: w.gate.desk.withdraw(v.approval_id, by=EDITOR),
    "run out": lambda w, _: _later(w),
    "approved and run out": _approved_and_later,
    "approved and revoked": _approved_and_revoked,
}


@pytest.mark.req("H017", "H023")
@pytest.mark.case("E13")
@pytest.mark.parametrize("how", CLOSED)
@pytest.mark.parametrize("named", [False, True], ids=["by its call", "by the caller"])
async def test_an_edit_that_was_closed_and_is_proposed_by_the_agent_is_still_the_editors(
    open_world: OpenWorld, spy: Spy, where: str, how: str, named: bool
) -> None:
    """Otherwise an editor would close the edit, wait for the agent to do as it was told, and approve it alone."""
    world, waiting = await asked(open_world, spy, store=where)
    view = await edit(world, waiting, {"word": "y"})
    await CLOSED[how](world, view)
    more = {"idempotency_key": "k"} if named else {}

    anew = await world.submit("write", {"word": "y"}, call_id="c2", **more)

    assert isinstance(anew, AwaitingApproval) and anew.approval_id != view.approval_id
    shown = await world.gate.desk.show(anew.approval_id, by=EDITOR)
    assert (shown.edited_by, shown.why_not) == ("edith", "own_edit")
    assert await refusal(approve(world, shown, by=EDITOR)) == "own_edit"
    await approve(world, shown)
    assert isinstance(await world.submit("write", {"word": "y"}, call_id="c2", **more), Succeeded)


@pytest.mark.req("H017", "H023")
async def test_a_second_attempt_of_what_a_person_edited_is_still_the_editors(open_world: OpenWorld, where: str) -> None:
    def fails(_: object) -> None:
        raise placet.NotSent("no route")

    world, waiting = await asked(open_world, fails, store=where)  # type: ignore[arg-type]
    view = await edit(world, waiting, {"word": "y"})
    await approve(world, view)
    failed = await world.submit("write", {"word": "y"}, call_id="c2")

    anew = await world.submit("write", {"word": "y"}, call_id="c2")

    assert (failed.code, anew.code) == ("not_sent", "approval_required")
    assert isinstance(anew, AwaitingApproval)
    assert (await world.gate.desk.show(anew.approval_id, by=EDITOR)).why_not == "own_edit"
