"""Approvals from the question to the spending: bound to one call, decided by the right person, in time, once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    ApprovalState,
    Ask,
    AwaitingApproval,
    Conflict,
    EffectState,
    Failed,
    Matrix,
    Principal,
    Refused,
    Replayed,
    Requirement,
    RequirementKind,
    Succeeded,
    ToolRejected,
)
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.approval import Answer, Approval, ApprovalDecision, Edited, Leave, Mac, Question
from placet.model.call import Call
from placet.model.decision import Decision, Terms
from placet.model.identifiers import ApprovalId, Digest
from placet.model.reminders import Reminders
from placet.testing import FakeClock
from tests.engine.conftest import (
    ADMIN,
    APPROVER,
    OPERATOR,
    OTHER_APPROVER,
    SCOPE,
    OpenWorld,
    Spy,
    World,
    looked_up,
    written,
)

FOREIGN_APPROVER = Principal.person("paula", tenant="globex", scopes=("approvals.decide",))
MICROSECOND = timedelta(microseconds=1)


async def asked(open_world: OpenWorld, spy: Spy, **more: Any) -> tuple[World, AwaitingApproval]:
    world = await open_world(written(spy, approval="always", redact=("count",)), **more)
    outcome = await world.submit("write", {"word": "x"})
    assert isinstance(outcome, AwaitingApproval)
    return world, outcome


async def refusal(work: Any) -> str:
    with pytest.raises(DecisionRefused) as caught:
        await work
    assert caught.value.__cause__ is None
    return caught.value.code


def stored(world: World) -> dict[Any, Approval]:
    """The rows of the memory store, as somebody who can write to the database has them."""
    tables: Any = world.gate.store
    return tables._tables.approvals  # type: ignore[no-any-return]


# ---------------------------------------------------------------- asking, deciding, spending


@pytest.mark.req("B042", "B062", "B063", "B085", "H013", "H026", "H010", "C024", "B122")
async def test_a_write_waits_for_a_person_runs_once_and_says_who_approved(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    assert (spy.count, await world.effects()) == (0, ())

    await world.approve(waiting)
    assert spy.count == 0, "approving never executes"
    outcome = await world.submit("write", {"word": "x"})
    again = await world.submit("write", {"word": "x"})

    assert (type(outcome), type(again), spy.count) == (Succeeded, Replayed, 1)
    assert world.words() == ["started", "approval_required", "started", "success", "started", "replayed"]
    for event in world.events("started", "completed")[2:4]:
        assert {name: event[name] for name in ("decision", "approval_id", "decided_by", "purpose")} == {
            "decision": "allow_after_approval",
            "approval_id": waiting.approval_id,
            "decided_by": "paula",
            "purpose": "write",
        }
        assert event["model_suggested"] is True
        lifetime = datetime.fromisoformat(event["expires_at"]) - datetime.fromisoformat(event["decided_at"])
        assert lifetime == timedelta(seconds=300)
    kinds = [event["kind"] for event in world.events() if event["kind"].startswith("approval_")]
    assert kinds == ["approval_asked", "approval_approved", "approval_spent"]
    assert [event["model_suggested"] for event in world.events("approval_approved")] == [False]


@pytest.mark.req("C025", "C021")
async def test_an_admin_of_a_critical_tool_is_stopped_until_approved(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, risk="critical"))

    waiting = await world.submit("write", {"word": "x"}, principal=ADMIN)
    await world.approve(waiting)
    outcome = await world.submit("write", {"word": "x"}, principal=ADMIN)

    assert (type(waiting), type(outcome), spy.count) == (AwaitingApproval, Succeeded, 1)


@pytest.mark.req("B045", "H010")
async def test_a_tool_that_never_asks_is_denied_where_policy_asks(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, risk="high", approval="never"))

    outcome = await world.submit("write", {"word": "x"}, principal=ADMIN)

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons) == ("denied", ("matrix_admin_high", "contract_never_asks"))
    assert await world.gate.desk.pending(by=APPROVER) == ()


async def test_a_read_that_needs_a_person_spends_its_approval_once(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy, approval="always"))

    await world.approve(await world.submit("look", {"word": "x"}))
    outcomes = [await world.submit("look", {"word": "x"}) for _ in range(2)]

    assert ([type(outcome) for outcome in outcomes], spy.count) == ([Succeeded, Replayed], 1)


@pytest.mark.req("B046", "B091")
@pytest.mark.case("E07")
async def test_a_call_that_breaks_its_contract_asks_nobody_and_spends_nothing(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.submit("write", {"word": 7}, call_id="c2")
    assert len(await world.gate.desk.pending(by=APPROVER)) == 1

    await world.approve(waiting)
    invalid = await world.submit("write", {"word": "x", "sql": "y"})
    denied = await world.submit("write", {"word": "x"}, principal=Principal.agent("v", tenant="acme"), run="r2")
    right = await world.submit("write", {"word": "x"})

    assert (invalid.code, denied.code, type(right), spy.count) == ("invalid_arguments", "denied", Succeeded, 1)


@pytest.mark.req("B072", "B061", "H015")
@pytest.mark.parametrize("change", [{"word": "y"}, {"word": "x", "count": 2}, {"word": "x" * 2000 + "y"}])
async def test_an_approval_is_for_exactly_these_arguments(
    open_world: OpenWorld, spy: Spy, change: dict[str, Any]
) -> None:
    world = await open_world(written(spy, approval="always"))
    base = {"word": "x" * 2000 + "x"} if len(change["word"]) > 9 else {"word": "x"}
    await world.approve(await world.submit("write", base))

    outcome = await world.submit("write", change, call_id="c2")

    assert (type(outcome), spy.count) == (AwaitingApproval, 0)
    assert isinstance(await world.submit("write", base), Succeeded)


@pytest.mark.req("B083", "B071")
async def test_a_differently_written_but_equal_call_is_the_approved_one(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    await world.approve(await world.submit("write", '{"word": "x", "count": 1}'))

    outcome = await world.submit("write", {"count": 1, "word": "x"})

    assert (type(outcome), spy.count) == (Succeeded, 1)


@pytest.mark.case("E15")
async def test_asking_again_asks_nobody_twice(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)

    again = await world.submit("write", {"word": "x"})
    renamed = await world.submit("write", {"word": "x"}, call_id="c2")

    assert isinstance(again, AwaitingApproval)
    assert isinstance(renamed, AwaitingApproval)
    assert {again.approval_id, renamed.approval_id} == {waiting.approval_id}
    assert len(await world.gate.desk.pending(by=APPROVER)) == 1
    assert world.words() == ["started", "approval_required"] * 3


async def test_the_same_wish_under_a_new_call_id_is_answered_by_its_own_id(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)

    outcome = await world.submit("write", {"word": "x"}, call_id="c2")
    under_the_first = await world.submit("write", {"word": "x"}, call_id="c1")

    assert (type(outcome), outcome.call_id, type(under_the_first), spy.count) == (Succeeded, "c2", Replayed, 1)


@pytest.mark.req("H022", "H026", "H016")
@pytest.mark.case("E08", "E01")
async def test_another_run_or_principal_needs_an_approval_of_its_own(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    other = Principal.agent("agent-other", tenant="acme", roles=("operator",), scopes=(SCOPE,))

    run = await world.submit("write", {"word": "x"}, run="r2")
    principal = await world.submit("write", {"word": "x"}, run="r3", principal=other)

    assert (type(run), type(principal), spy.count) == (AwaitingApproval, AwaitingApproval, 0)
    assert len({waiting.approval_id, run.approval_id, principal.approval_id}) == 3  # type: ignore[attr-defined]


@pytest.mark.req("B060", "H016")
@pytest.mark.parametrize("change", ["environment", "on_behalf_of"])
async def test_an_approval_is_tied_to_the_context_it_was_asked_in(open_world: OpenWorld, spy: Spy, change: str) -> None:
    user = Principal.person("uma", tenant="acme", roles=("operator",), scopes=(SCOPE,))
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    other = dataclasses.replace(OPERATOR, **{change: "staging" if change == "environment" else user})

    same_run = await world.submit("write", {"word": "x"}, principal=other)
    run_of_its_own = await world.submit("write", {"word": "x"}, principal=other, run="r-other")

    assert (same_run.code, type(run_of_its_own), spy.count) == ("not_your_run", AwaitingApproval, 0)


async def test_a_question_waiting_in_another_context_is_not_this_question(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)

    staging = dataclasses.replace(OPERATOR, environment="staging")
    other = await world.submit("write", {"word": "x"}, principal=staging, run="r-other")

    assert isinstance(other, AwaitingApproval)
    assert other.approval_id != waiting.approval_id


async def test_the_database_holds_no_plain_arguments(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    world = await open_world(written(spy, approval="always"), store=str(tmp_path / "p.db"))
    waiting = await world.submit("write", {"word": "s3cr3t-in-arguments"})
    await world.approve(waiting)
    await world.submit("write", {"word": "s3cr3t-in-arguments"})

    for file in tmp_path.iterdir():
        assert b"s3cr3t-in-arguments" not in file.read_bytes(), file


async def test_waiting_and_approved_questions_survive_a_restart(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    first, waiting = await asked(open_world, spy, store=store)
    second = await open_world(written(spy, approval="always", redact=("count",)), store=store)
    await second.approve(waiting)
    third = await open_world(written(spy, approval="always", redact=("count",)), store=store)

    outcomes = [await world.submit("write", {"word": "x"}) for world in (third, first)]

    assert ([type(outcome) for outcome in outcomes], spy.count) == ([Succeeded, Replayed], 1)


@pytest.mark.parametrize("read", range(1, 9))
async def test_an_approval_that_another_process_spends_between_two_reads_asks_nobody_again(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    """The slower one read the ledger before the faster one's claim, and the approvals after it."""
    store = str(tmp_path / "p.db")
    slower, waiting = await asked(open_world, spy, store=store)
    faster = await open_world(written(spy, approval="always", redact=("count",)), store=store, seed=1)
    await slower.approve(waiting)
    reads: list[str] = []

    def before(name: str) -> None:
        real = getattr(slower.gate.store, name)

        async def read_it(*asked_for: Any, **more: Any) -> Any:
            reads.append(name)
            if len(reads) == read:
                assert (await faster.submit("write", {"word": "x"})).code == "succeeded"
            return await real(*asked_for, **more)

        monkeypatch.setattr(slower.gate.store, name, read_it)

    for name in ("effect", "same_ask", "closed_ask"):
        before(name)
    outcome = await slower.submit("write", {"word": "x"})

    assert (outcome.code, spy.count) == ("replayed" if len(reads) >= read else "succeeded", 1), reads
    assert await slower.gate.desk.pending(by=APPROVER) == ()
    assert len(slower.events("approval_asked")) == 1


# ---------------------------------------------------------------- what is seen


async def test_the_view_shows_exactly_what_will_run_except_redacted_fields(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)

    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)

    assert (view.arguments, view.redacted) == ({"word": "x", "count": "[REDACTED]"}, ("count",))
    assert (view.tool, view.risk, view.effect_class, view.requested_by, view.run_id, view.state, view.why_not) == (
        "write",
        "medium",
        "write",
        "agent-operator",
        "r1",
        ApprovalState.PENDING,
        None,
    )
    assert view.decide_by - view.asked_at == timedelta(hours=24)
    assert await world.gate.desk.pending(by=APPROVER) == (view,)


async def test_what_executes_is_the_stored_call(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    await world.approve(waiting)
    await world.submit("write", {"word": "x"})

    assert spy.calls == [("x", 1)]
    assert (await world.effect()).argument_digest == view.digest


# ---------------------------------------------------------------- who may decide


AGENT_WITH_SCOPE = Principal.agent("bot", tenant="acme", roles=("admin",), scopes=("approvals.decide",))
DECIDERS: dict[str, tuple[Principal, str]] = {
    "a credential that proposes": (AGENT_WITH_SCOPE, "not_a_person"),
    "the agent itself": (OPERATOR, "not_a_person"),
    "a person without the scope": (Principal.person("pia", tenant="acme", roles=("admin",)), "scope_missing"),
    "the requester as a person": (
        Principal.person("agent-operator", tenant="acme", scopes=("approvals.decide",)),
        "own_request",
    ),
}


@pytest.mark.req("H017", "H023", "B047")
@pytest.mark.parametrize("who", DECIDERS)
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_who_is_not_entitled_is_refused_and_nothing_changes(
    open_world: OpenWorld, spy: Spy, who: str, decision: str
) -> None:
    world, waiting = await asked(open_world, spy)
    by, code = DECIDERS[who]
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    assert await refusal(getattr(world.gate.desk, decision)(waiting.approval_id, digest=digest, by=by)) == code
    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state is ApprovalState.PENDING
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)
    if code != "not_a_person":
        assert [event["detail"] for event in world.events("decision_refused")] == [code]


async def test_the_user_an_agent_acts_for_does_not_review_its_own_wish(open_world: OpenWorld, spy: Spy) -> None:
    user = Principal.person("uma", tenant="acme", roles=("operator",), scopes=(SCOPE, "approvals.decide"))
    service = Principal.agent("svc", tenant="acme", roles=("operator",), scopes=(SCOPE,), on_behalf_of=user)
    world = await open_world(written(spy, approval="always"))

    for number, giver in enumerate((user, service)):
        who = dataclasses.replace(OPERATOR, on_behalf_of=giver)
        waiting = await world.submit("write", {"word": str(number)}, run=f"r{number}", principal=who)
        assert isinstance(waiting, AwaitingApproval)
        digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest
        assert await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=user)) == "own_request"


@pytest.mark.req("H017")
async def test_confirm_is_for_the_requesting_user_and_nobody_else(open_world: OpenWorld, spy: Spy) -> None:
    user = Principal.person("uma", tenant="acme", roles=("admin",), scopes=(SCOPE,))
    policy = Matrix(requirement=Requirement(kind=RequirementKind.CONFIRM))
    world = await open_world(written(spy, risk="high"), policy=policy)
    agent = dataclasses.replace(ADMIN, on_behalf_of=user)
    waiting = await world.submit("write", {"word": "x"}, principal=agent)
    assert isinstance(waiting, AwaitingApproval)
    digest = (await world.gate.desk.show(waiting.approval_id, by=user)).digest

    others = (APPROVER, Principal.person("agent-admin", tenant="acme", scopes=("approvals.decide",)))
    for other in others:
        assert (
            await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=other))
            == "not_the_requesting_user"
        )
    agent_as_user = Principal.agent("uma", tenant="acme", scopes=("approvals.decide",))
    assert (
        await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=agent_as_user)) == "not_a_person"
    )
    await world.gate.desk.approve(waiting.approval_id, digest=digest, by=user)
    assert isinstance(await world.submit("write", {"word": "x"}, principal=agent), Succeeded)


@pytest.mark.case("C03")
@pytest.mark.parametrize("verb", ["show", "approve", "deny", "withdraw"])
async def test_another_tenants_approval_looks_exactly_like_none(
    open_world: OpenWorld, spy: Spy, where: str, verb: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest
    more = {"digest": digest} if verb in ("approve", "deny") else {}
    before = world.events()

    told = []
    for approval_id in (waiting.approval_id, "apr-none"):
        with pytest.raises(NotFound) as caught:
            await getattr(world.gate.desk, verb)(approval_id, by=FOREIGN_APPROVER, **more)
        told.append((str(caught.value), caught.value.code, caught.value.hint))

    assert told[0] == told[1]
    assert await world.gate.desk.listed(by=FOREIGN_APPROVER) == ()
    assert world.events() == before


@pytest.mark.parametrize("by", [None, "paula", object()])
async def test_deciding_as_nobody_is_misuse(open_world: OpenWorld, spy: Spy, by: Any) -> None:
    world, waiting = await asked(open_world, spy)

    with pytest.raises(MisuseError):
        await world.gate.desk.approve(waiting.approval_id, digest="d", by=by)


class Agreeing(str):
    """A text that says it equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@pytest.mark.case("E06")
@pytest.mark.parametrize("digest", ["", "d" * 64, None, True, Agreeing("d"), b"d"])
async def test_a_decision_about_another_digest_is_refused(open_world: OpenWorld, spy: Spy, digest: Any) -> None:
    world, waiting = await asked(open_world, spy)

    assert await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=APPROVER)) == "other_digest"
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)


@pytest.mark.parametrize("reason", ["x" * 501, 7, None, "\ud800"])
async def test_a_reason_is_text_of_at_most_500_characters(open_world: OpenWorld, spy: Spy, reason: Any) -> None:
    world, waiting = await asked(open_world, spy)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    with pytest.raises(MisuseError):
        await world.gate.desk.deny(waiting.approval_id, digest=digest, by=APPROVER, reason=reason)
    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state is ApprovalState.PENDING


async def test_a_reason_of_500_characters_is_kept_whole(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)

    await world.deny(waiting, reason="x" * 500)

    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).words == "x" * 500


# ---------------------------------------------------------------- several decisions


@pytest.mark.case("F05")
async def test_a_double_click_is_one_decision(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    one, two = await asyncio.gather(
        *(world.gate.desk.approve(waiting.approval_id, digest=digest, by=APPROVER) for _ in range(2))
    )
    third = await world.gate.desk.approve(waiting.approval_id, digest=digest, by=APPROVER)

    assert one == two == third
    assert len(world.events("approval_approved")) == 1


@pytest.mark.case("F05")
@pytest.mark.parametrize("first", ["approve", "deny"])
async def test_of_two_operators_the_first_decides_and_the_other_hears_who_it_was(
    open_world: OpenWorld, spy: Spy, where: str, first: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    desk, second = world.gate.desk, "deny" if first == "approve" else "approve"
    digest = (await desk.show(waiting.approval_id, by=APPROVER)).digest

    answers = await asyncio.gather(
        getattr(desk, first)(waiting.approval_id, digest=digest, by=APPROVER),
        getattr(desk, second)(waiting.approval_id, digest=digest, by=OTHER_APPROVER),
        return_exceptions=True,
    )

    (loser,) = [answer for answer in answers if isinstance(answer, BaseException)]
    assert isinstance(loser, DecisionRefused)
    assert loser.code == "already_decided"
    winner = (await desk.show(waiting.approval_id, by=APPROVER)).decided_by
    assert str(winner) in str(loser)
    assert "2026-01-01T00:00:00" in str(loser)
    assert len(world.events("approval_approved", "approval_denied")) == 1


async def test_one_person_cannot_change_its_mind(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    code = await refusal(world.gate.desk.deny(waiting.approval_id, digest=digest, by=APPROVER))

    assert code == "already_decided"
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


# ---------------------------------------------------------------- denial


@pytest.mark.req("H021")
@pytest.mark.case("D09", "G05")
async def test_a_denial_is_remembered_for_the_run_and_its_words_go_back_to_the_model(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.deny(waiting, reason="wrong customer")

    again = await world.submit("write", {"word": "x"})
    renamed = await world.submit("write", {"word": "x"}, call_id="c2")
    other_run = await world.submit("write", {"word": "x"}, run="r2")
    other_wish = await world.submit("write", {"word": "y"}, call_id="c3")

    for outcome in (again, renamed):
        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.words, outcome.retryable) == ("approval_denied", "wrong customer", False)
        assert outcome.as_data()["reviewer_said"] == "wrong customer"
    assert (type(other_run), type(other_wish), spy.count) == (AwaitingApproval, AwaitingApproval, 0)
    assert len(world.events("approval_asked")) == 3
    assert b"wrong customer" not in world.bodies()


@pytest.mark.case("D09", "E05")
async def test_a_denial_is_not_got_around_with_another_idempotency_key(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    await world.deny(await world.submit("write", {"word": "x"}, idempotency_key="k1"))

    outcomes = [
        await world.submit("write", {"word": "x"}, call_id="c2", idempotency_key="k2"),
        await world.submit("write", {"word": "x"}, call_id="c3"),
    ]

    assert [outcome.code for outcome in outcomes] == ["approval_denied", "approval_denied"]


async def test_two_named_operations_of_the_same_arguments_are_two_questions(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"))
    one = await world.submit("write", {"word": "x"}, idempotency_key="k1")
    two = await world.submit("write", {"word": "x"}, call_id="c2", idempotency_key="k2")
    await world.approve(one)

    first = await world.submit("write", {"word": "x"}, idempotency_key="k1")
    second = await world.submit("write", {"word": "x"}, call_id="c2", idempotency_key="k2")

    assert one.approval_id != two.approval_id  # type: ignore[attr-defined]
    assert (type(first), type(second), spy.count) == (Succeeded, AwaitingApproval, 1)


# ---------------------------------------------------------------- time


@pytest.mark.req("B051", "B052", "H019", "B055")
@pytest.mark.case("E10")
@pytest.mark.parametrize(
    ("offset", "runs"), [(-MICROSECOND, True), (timedelta(0), False), (MICROSECOND, False)], ids=["-1us", "=", "+1us"]
)
async def test_an_approval_is_expired_at_its_instant_to_the_microsecond(
    open_world: OpenWorld, spy: Spy, where: str, offset: timedelta, runs: bool
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.approve(waiting)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert view.expires_at is not None
    world.clock._now = (view.expires_at + offset).astimezone(timezone(timedelta(hours=8)))

    outcome = await world.submit("write", {"word": "x"})

    assert (isinstance(outcome, Succeeded), spy.count) == (runs, int(runs))
    if not runs:
        assert isinstance(outcome, AwaitingApproval)
        assert outcome.approval_id != waiting.approval_id
        assert len(world.events("approval_expired")) == 1
        again = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
        assert again.state is ApprovalState.EXPIRED


@pytest.mark.case("E10")
@pytest.mark.parametrize(
    ("offset", "decides"), [(-MICROSECOND, True), (timedelta(0), False), (MICROSECOND, False)], ids=["-1us", "=", "+1"]
)
async def test_a_question_may_be_decided_until_its_instant(
    open_world: OpenWorld, spy: Spy, where: str, offset: timedelta, decides: bool
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    world.clock._now = view.decide_by + offset

    work = world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=APPROVER)
    if decides:
        assert (await work).state is ApprovalState.APPROVED
        return
    assert await refusal(work) == "approval_expired"
    asked_anew = await world.submit("write", {"word": "x"})
    assert isinstance(asked_anew, AwaitingApproval)
    assert asked_anew.approval_id != waiting.approval_id
    assert [event["kind"] for event in world.events() if event["kind"] == "approval_expired"] == ["approval_expired"]


@pytest.mark.req("B053")
@pytest.mark.parametrize(
    ("back", "runs"), [(30.0, True), (30.000001, False), (3600.0, False)], ids=["30s", "30.000001s", "1h"]
)
async def test_a_decision_may_lie_30_seconds_in_the_readers_future(
    open_world: OpenWorld, spy: Spy, where: str, back: float, runs: bool
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.approve(waiting)
    world.clock._now -= timedelta(seconds=back)

    outcome = await world.submit("write", {"word": "x"})

    assert (isinstance(outcome, Succeeded), spy.count) == (runs, int(runs))


@pytest.mark.req("B051")
async def test_another_default_lifetime_does_not_void_what_was_signed(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, risk="high"), policy=Matrix(requirement=Requirement(lifetime_seconds=3600.0)))
    await world.approve(await world.submit("write", {"word": "x"}, principal=ADMIN))
    world.clock.advance(3599)

    assert isinstance(await world.submit("write", {"word": "x"}, principal=ADMIN), Succeeded)


@pytest.mark.req("B069", "B054")
async def test_an_approval_that_expires_between_look_and_claim_is_not_spent(open_world: OpenWorld, spy: Spy) -> None:
    class Jumping(FakeClock):
        jumps_at = -1
        reads = 0

        def now(self) -> datetime:
            self.reads += 1
            if self.reads == self.jumps_at:
                self.advance(301)
            return super().now()

    for reading in range(1, 12):
        clock = Jumping()
        world = await open_world(written(spy, approval="always"), clock=clock)
        await world.approve(await world.submit("write", {"word": "x"}))
        before, clock.reads, clock.jumps_at = spy.count, 0, reading
        outcome = await world.submit("write", {"word": "x"})
        if spy.count > before:
            claimed = world.events("approval_spent")[0]
            approved = world.events("approval_approved")[0]
            assert datetime.fromisoformat(claimed["at"]) < datetime.fromisoformat(approved["expires_at"]) or isinstance(
                outcome, Succeeded | Failed
            )
        else:
            assert outcome.code in ("approval_required", "denied", "not_sent")


# ---------------------------------------------------------------- what changes meanwhile


class Versioned(Matrix):
    """The matrix under another version."""

    @property
    def version(self) -> Any:
        return "policy-2"


@pytest.mark.req("H014", "H018", "X002")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_new_policy_version_asks_again(open_world: OpenWorld, spy: Spy, tmp_path: Path, approved: bool) -> None:
    store = str(tmp_path / "p.db")
    old, waiting = await asked(open_world, spy, store=store)
    if approved:
        await old.approve(waiting)
    new = await open_world(written(spy, approval="always", redact=("count",)), store=store, policy=Versioned())

    outcome = await new.submit("write", {"word": "x"})

    assert isinstance(outcome, AwaitingApproval)
    assert (outcome.approval_id != waiting.approval_id, spy.count) == (True, 0)
    await new.approve(outcome)
    assert isinstance(await new.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_new_contract_asks_again_and_takes_the_old_question_back(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, approved: bool
) -> None:
    store = str(tmp_path / "p.db")
    old, waiting = await asked(open_world, spy, store=store)
    if approved:
        await old.approve(waiting)
    new = await open_world(written(spy, approval="always", timeout_seconds=9), store=store)

    outcome = await new.submit("write", {"word": "x"})

    assert isinstance(outcome, AwaitingApproval)
    assert (outcome.approval_id != waiting.approval_id, spy.count) == (True, 0)
    closed = await new.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert closed.state is (ApprovalState.REVOKED if approved else ApprovalState.WITHDRAWN)
    assert len(await new.gate.desk.pending(by=APPROVER)) == 1


async def test_a_deploy_of_another_tool_voids_nothing(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "p.db")
    old, waiting = await asked(open_world, spy, store=store)
    await old.approve(waiting)
    new = await open_world(written(spy, approval="always", redact=("count",)), looked_up(spy), store=store)

    assert isinstance(await new.submit("write", {"word": "x"}), Succeeded)


async def test_a_tool_that_is_gone_leaves_its_question_readable_and_undecidable_by_accident(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    _, waiting = await asked(open_world, spy, store=store)
    new = await open_world(looked_up(spy), store=store)

    view = await new.gate.desk.show(waiting.approval_id, by=APPROVER)

    assert (view.risk, view.tool) == ("unregistered", "write")
    assert (await new.submit("write", {"word": "x"})).code == "unknown_tool"


# ---------------------------------------------------------------- once


@pytest.mark.req("B086", "B088", "B113", "B087")
async def test_retries_within_a_dispatch_reuse_the_approval_and_a_failed_dispatch_needs_a_new_one(
    open_world: OpenWorld, spy: Spy
) -> None:
    reports: list[Exception] = [ToolRejected("no"), ConnectionError(), ConnectionError()]

    @placet.tool(effect="idempotent_write", risk="medium", permission=SCOPE, approval="always")
    async def act() -> str:
        spy()
        if len(reports) > 1:
            raise reports.pop()
        return "done"

    world = await open_world(act)
    await world.approve(await world.submit(act))
    first = await world.submit(act)

    assert (first.unwrap(), spy.count) == ("done", 3)
    assert len(world.events("approval_spent")) == 1


async def test_after_a_failure_the_spent_approval_is_no_leave_for_another_dispatch(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always")
    async def act() -> str:
        spy()
        if spy.count == 1:
            raise ToolRejected("not today")
        return "done"

    world = await open_world(act, store=where)
    waiting = await world.submit(act)
    await world.approve(waiting)
    failed = await world.submit(act)
    asked_again = await world.submit(act)

    assert (failed.code, type(asked_again), spy.count) == ("tool_rejected", AwaitingApproval, 1)
    assert asked_again.approval_id != waiting.approval_id  # type: ignore[attr-defined]
    await world.approve(asked_again)
    assert (await world.submit(act)).unwrap() == "done"
    assert (await world.effect()).fence == 2


async def test_a_spare_approval_never_fires_a_second_dispatch(open_world: OpenWorld, spy: Spy, where: str) -> None:
    """Two runs ask for one business operation; the first dispatch fails; the other run's approval was for that one."""

    @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always", operation_key="refund:{order}")
    async def refund(order: str) -> str:
        spy()
        if spy.count == 1:
            raise ToolRejected("not today")
        return "done"

    world = await open_world(refund, store=where)
    one = await world.submit(refund, {"order": "A"}, run="r1")
    two = await world.submit(refund, {"order": "A"}, run="r2")
    await world.approve(one)
    await world.approve(two)

    failed = await world.submit(refund, {"order": "A"}, run="r1")
    spare = await world.submit(refund, {"order": "A"}, run="r2")

    assert (failed.code, type(spare), spy.count) == ("tool_rejected", AwaitingApproval, 1)
    assert spare.approval_id != two.approval_id  # type: ignore[attr-defined]


@pytest.mark.req("B111", "B087")
async def test_a_fresh_approval_for_a_finished_operation_repeats_nothing(open_world: OpenWorld, spy: Spy) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always", operation_key="refund:{order}")
    async def refund(order: str) -> str:
        spy()
        return "done"

    world = await open_world(refund)
    one = await world.submit(refund, {"order": "A"}, run="r1")
    two = await world.submit(refund, {"order": "A"}, run="r2")
    await world.approve(one)
    await world.approve(two)
    outcomes = [await world.submit(refund, {"order": "A"}, run=run) for run in ("r1", "r2", "r2")]

    assert ([type(outcome) for outcome in outcomes], spy.count) == ([Succeeded, Replayed, Replayed], 1)


@pytest.mark.req("B092")
async def test_one_approval_and_twenty_callers_make_one_effect(open_world: OpenWorld, spy: Spy, where: str) -> None:
    from placet.adapters.clock import SystemClock

    world = await open_world(written(spy, approval="always"), store=where, clock=SystemClock())
    await world.approve(await world.submit("write", {"word": "x"}))

    outcomes = await asyncio.gather(
        *(world.submit("write", {"word": "x"}, call_id=f"c{number}") for number in range(20))
    )

    assert spy.count == 1
    kinds = {type(outcome) for outcome in outcomes}
    assert Succeeded in kinds
    assert kinds <= {Succeeded, Replayed, AwaitingApproval, Refused}
    assert len(world.events("approval_spent")) == 1


async def test_a_withdrawn_question_and_a_revoked_approval_authorise_nothing(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    requester = Principal.person("agent-operator", tenant="acme")
    world, waiting = await asked(open_world, spy, store=where)

    view = await world.gate.desk.withdraw(waiting.approval_id, by=requester)
    assert view.state is ApprovalState.WITHDRAWN
    assert await refusal(world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=APPROVER)) == (
        "already_decided"
    )
    second = await world.submit("write", {"word": "x"})
    await world.approve(second)
    revoked = await world.gate.desk.withdraw(second.approval_id, by=APPROVER)  # type: ignore[attr-defined]
    third = await world.submit("write", {"word": "x"})

    assert (revoked.state, type(third), spy.count) == (ApprovalState.REVOKED, AwaitingApproval, 0)
    nosy = Principal.person("nora", tenant="acme")
    assert await refusal(world.gate.desk.withdraw(third.approval_id, by=nosy)) == "scope_missing"  # type: ignore[attr-defined]


async def test_approving_again_what_was_taken_back_is_refused_and_not_called_approved(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.approve(waiting)
    view = await world.gate.desk.withdraw(waiting.approval_id, by=APPROVER)

    again = world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=APPROVER)
    with pytest.raises(DecisionRefused, match=r"^It is revoked already\.$") as refused:
        await again

    assert refused.value.code == "already_decided"
    assert world.events("decision_refused")[-1]["detail"] == "already_decided"
    assert spy.count == 0


async def test_approving_again_what_was_used_since_changes_nothing_and_says_that_it_was_used(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.approve(waiting)
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    again = await world.gate.desk.approve(waiting.approval_id, digest=digest, by=APPROVER)

    assert again.state is ApprovalState.SPENT
    assert await refusal(world.gate.desk.deny(waiting.approval_id, digest=digest, by=APPROVER)) == "already_decided"
    assert (spy.count, len(world.events("approval_approved"))) == (1, 1)


async def test_approving_again_what_nobody_used_in_time_is_refused_as_expired(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await world.approve(waiting)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert view.expires_at is not None
    world.clock.advance((view.expires_at - await world.gate.store.now()).total_seconds())

    again = world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=APPROVER)

    assert await refusal(again) == "approval_expired"


async def test_denying_again_changes_nothing_and_answers_the_same(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    first = await world.gate.desk.deny(waiting.approval_id, digest=digest, by=APPROVER, reason="no")
    again = await world.gate.desk.deny(waiting.approval_id, digest=digest, by=APPROVER, reason="no")

    assert first == again
    assert again.state is ApprovalState.DENIED


async def test_the_ledger_answers_before_a_person_is_asked(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always", operation_key="k:{word}"))
    await world.approve(await world.submit("write", {"word": "x"}))
    await world.submit("write", {"word": "x"})

    replayed = await world.submit("write", {"word": "x"}, run="r2")
    conflict = await world.submit("write", {"word": "x", "count": 2}, run="r2", call_id="c2")

    assert (type(replayed), type(conflict)) == (Replayed, Conflict)
    assert await world.gate.desk.pending(by=APPROVER) == ()


# ---------------------------------------------------------------- somebody writes to the database


def different(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case RequirementKind():
            return RequirementKind.CONFIRM
        case ApprovalDecision():
            return ApprovalDecision.DENY
        case str():
            return value + "x"
        case int() | float():
            return value + 1
        case datetime():
            return value + MICROSECOND
        case bytes():
            return value[:-1] + bytes([value[-1] ^ 1])
        case tuple():
            return (*value, "more")
        case Leave():
            return dataclasses.replace(value, scopes=(*value.scopes, "more"))
        case None:
            return "somebody"
    raise AssertionError(value)


EDITED = Edited(by="somebody", from_id=ApprovalId("apr-0"), from_digest=Digest("0" * 64))


def changed_question(name: str) -> Callable[[Approval], Approval]:
    def change(row: Approval) -> Approval:
        reminders = Reminders(escalate_after_seconds=1.0, escalate_to=("role:viewer",), widens=True)
        given: dict[str, Any] = {
            "terms": Terms(rule="lax"),
            "edited": EDITED,
            "reminders": reminders,
            "precondition": FORGED,
        }
        value = given.get(name) or different(getattr(row.question, name))
        return dataclasses.replace(row, question=dataclasses.replace(row.question, **{name: value}))

    return change


def changed_answer(name: str) -> Callable[[Approval], Approval]:
    def change(row: Approval) -> Approval:
        assert row.answer is not None
        return dataclasses.replace(
            row, answer=dataclasses.replace(row.answer, **{name: different(getattr(row.answer, name))})
        )

    return change


def tampered(**changes: Any) -> Callable[[Approval], Approval]:
    return lambda row: dataclasses.replace(row, **changes)


FORGED = Mac(key_id="k-none", value="0" * 64)
TAMPERINGS: dict[str, Callable[[Approval], Approval]] = {
    **{f"question.{field.name}": changed_question(field.name) for field in dataclasses.fields(Question)},
    **{f"answer.{field.name}": changed_answer(field.name) for field in dataclasses.fields(Answer)},
    "answer gone": tampered(answer=None),
    "signature gone": tampered(signature=None),
    "signature forged": tampered(signature=FORGED),
    "question mac forged": tampered(question_mac=FORGED),
    "macs swapped": lambda row: dataclasses.replace(row, question_mac=row.signature, signature=row.question_mac),  # type: ignore[arg-type]
    "signature in capitals": lambda row: dataclasses.replace(
        row, signature=Mac(key_id=row.signature.key_id, value=row.signature.value.upper())  # type: ignore[union-attr]
    ),
    "signature of another key": lambda row: dataclasses.replace(
        row, signature=Mac(key_id="k-other", value=row.signature.value)  # type: ignore[union-attr]
    ),
    "signature of another type": lambda row: dataclasses.replace(
        row, signature=Mac(key_id=row.signature.key_id, value=row.signature.value.encode())  # type: ignore[arg-type,union-attr]
    ),
    "signature too short": lambda row: dataclasses.replace(
        row, signature=Mac(key_id=row.signature.key_id, value=row.signature.value[:63])  # type: ignore[union-attr]
    ),
    "signature a list": lambda row: dataclasses.replace(row, signature=[1]),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.req("B043", "B044", "B056", "B058", "B060", "B061", "H015", "H016", "H017", "H018", "H020", "B064")
@pytest.mark.case("E01", "E06")
@pytest.mark.parametrize("what", TAMPERINGS)
async def test_any_one_changed_field_makes_the_approval_worthless(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    rows = stored(world)
    (key,) = rows
    rows[key] = TAMPERINGS[what](rows[key])

    outcome = await world.submit("write", {"word": "x"})

    assert (spy.count, await world.effects()) == (0, ())
    assert outcome.code in ("approval_suspect", "approval_required")
    if outcome.code == "approval_suspect":
        assert isinstance(outcome, Refused)
        assert [event["kind"] for event in world.events("approval_suspect")] == ["approval_suspect"]
    with pytest.raises(DecisionRefused) as caught:
        await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert caught.value.code == "approval_suspect"
    assert waiting.approval_id not in [view.approval_id for view in await world.gate.desk.listed(by=APPROVER)]


@pytest.mark.req("H020", "B043")
async def test_an_untouched_row_runs_and_is_immutable(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    (row,) = stored(world).values()

    assert row.signature is not None
    assert (len(row.signature.value), len(row.question_mac.value)) == (64, 64)
    for value, name in ((row, "state"), (row.question, "tool"), (row.answer, "decision")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "x")
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.parametrize("state", [ApprovalState.APPROVED, ApprovalState.SPENT, ApprovalState.DENIED])
async def test_a_state_written_into_the_row_gives_nothing(
    open_world: OpenWorld, spy: Spy, state: ApprovalState
) -> None:
    world, _ = await asked(open_world, spy)
    rows = stored(world)
    (key,) = rows
    rows[key] = dataclasses.replace(rows[key], state=state)

    outcome = await world.submit("write", {"word": "x"})

    assert (outcome.code in ("approval_suspect", "approval_required"), spy.count) == (True, 0)


async def test_an_approved_row_called_denied_is_not_forged_into_an_approval(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.deny(waiting)
    rows = stored(world)
    (key,) = rows
    rows[key] = dataclasses.replace(rows[key], state=ApprovalState.APPROVED)

    outcome = await world.submit("write", {"word": "x"})

    assert (isinstance(outcome, Succeeded), spy.count) == (False, 0)


async def test_an_approval_copied_onto_another_question_is_worthless(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    await world.submit("write", {"word": "evil"}, call_id="c2")
    rows = stored(world)
    good_key, evil_key = rows
    good = rows[good_key]
    rows[evil_key] = dataclasses.replace(
        rows[evil_key], state=ApprovalState.APPROVED, answer=good.answer, signature=good.signature
    )

    outcome = await world.submit("write", {"word": "evil"}, call_id="c2")

    assert (outcome.code, spy.count) == ("approval_suspect", 0)


@pytest.mark.req("B065")
async def test_a_tampered_row_beside_a_good_one_is_an_alarm(open_world: OpenWorld, spy: Spy) -> None:
    """A forged row raises an alarm instead of being skipped in silence; nothing runs until somebody looked."""
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    rows = stored(world)
    (key,) = rows
    forged_id = "apr-forged"
    forged = dataclasses.replace(rows[key], question=dataclasses.replace(rows[key].question, approval_id=forged_id))  # type: ignore[arg-type]
    rows[key[0], forged_id] = forged  # type: ignore[index]

    assert (await world.submit("write", {"word": "x"})).code == "approval_suspect"
    del rows[key[0], forged_id]  # type: ignore[arg-type]
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_a_row_of_another_tenant_moved_here_is_refused(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    rows = stored(world)
    (key,) = rows
    rows["globex", key[1]] = rows[key]

    code = await refusal(world.gate.desk.show(waiting.approval_id, by=FOREIGN_APPROVER))

    assert code == "approval_suspect"


@pytest.mark.req("B067", "B082")
async def test_a_signature_made_with_any_other_key_of_ours_is_refused(open_world: OpenWorld, spy: Spy) -> None:
    from placet.ports.keys import KeyPurpose
    from placet.rules.approvals import signed_form

    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    rows = stored(world)
    (key,) = rows
    good = rows[key]
    keys: Any = world.gate.desk._keys
    for purpose in KeyPurpose:
        mac = keys.mac(purpose, signed_form(good.question, good.answer))  # type: ignore[arg-type]
        assert (mac == good.signature) is (purpose is KeyPurpose.APPROVAL)
        if purpose is not KeyPurpose.APPROVAL:
            rows[key] = dataclasses.replace(good, signature=mac)
            assert (await world.submit("write", {"word": "x"})).code == "approval_suspect"
    assert spy.count == 0


async def test_sealed_arguments_that_the_digest_does_not_name_are_an_alarm_even_under_good_signatures(
    open_world: OpenWorld, spy: Spy
) -> None:
    from placet.engine.verifying import question_binding
    from placet.ports.keys import KeyPurpose
    from placet.rules.approvals import question_form, signed_form

    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    rows = stored(world)
    (key,) = rows
    keys: Any = world.gate.desk._keys
    good = rows[key]
    assert good.answer is not None
    bound_to = question_binding("acme", waiting.approval_id)
    other = dataclasses.replace(
        good.question, sealed_arguments=keys.seal(b'{"count":1,"word":"evil"}', bound_to=bound_to)
    )
    rows[key] = dataclasses.replace(
        good,
        question=other,
        question_mac=keys.mac(KeyPurpose.APPROVAL, question_form(other)),
        signature=keys.mac(KeyPurpose.APPROVAL, signed_form(other, good.answer)),
    )

    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approval_suspect", ("arguments_forged",), 0)


async def test_the_words_in_the_audit_never_hold_the_question(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    (row,) = stored(world).values()

    assert row.question.nonce.encode() not in world.bodies()
    for event in world.events():
        assert "reason" not in event
        json.dumps(event)


class Recording(Matrix):
    """Asks for the lifetimes it was given."""

    async def decide(self, call: Call) -> Decision:
        return Ask(reasons=("house_rule",), policy_version=self.version, requirement=self.requirement)


@pytest.mark.req("B066")
async def test_policy_says_how_long_a_question_waits_and_an_approval_lasts(open_world: OpenWorld, spy: Spy) -> None:
    policy = Recording(requirement=Requirement(lifetime_seconds=60.0, decide_within_seconds=120.0))
    world = await open_world(written(spy), policy=policy)
    waiting = await world.submit("write", {"word": "x"})
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)  # type: ignore[attr-defined]
    await world.approve(waiting)
    after = await world.gate.desk.show(waiting.approval_id, by=APPROVER)  # type: ignore[attr-defined]

    assert (view.reasons, view.decide_by - view.asked_at) == (("house_rule",), timedelta(seconds=120))
    assert after.expires_at is not None
    assert after.decided_at is not None
    assert after.expires_at - after.decided_at == timedelta(seconds=60)


async def test_an_effect_is_committed_under_the_approval_it_spent(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await world.approve(waiting)
    await world.submit("write", {"word": "x"})

    effect = await world.effect()
    assert (effect.approval_id, effect.state) == (waiting.approval_id, EffectState.COMMITTED)
    (row,) = stored(world).values()
    assert (row.state, row.spent_at) == (ApprovalState.SPENT, world.clock.now())
