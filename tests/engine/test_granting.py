"""Standing grants: given by whoever may, for calls within their limits, used once a dispatch, void with a change."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    Approvers,
    AskRule,
    AskRules,
    AwaitingApproval,
    Failed,
    GateSettings,
    InProgress,
    Matrix,
    Principal,
    Refused,
    Replayed,
    Succeeded,
    ToolRejected,
)
from placet.bootstrap.records import open_custody
from placet.engine.grant_views import GrantView
from placet.engine.granting import GrantWish
from placet.errors import LimitsRefused, MisuseError, NotFound
from placet.model.decision import Allow, Ask, GrantTerms, Requirement
from placet.model.grant import GrantState
from placet.model.principal import Role
from placet.rules.policy import strictest
from placet.testing import FakeClock
from tests.engine.conftest import ADMIN, APPROVER, OPERATOR, OTHER_APPROVER, SCOPE, OpenWorld, Spy, World, written
from tests.engine.people import ListedPeople, refusal

DECIDE = "approvals.decide"
TERMS = GrantTerms(max_uses=5, max_seconds=3_600.0)
WORDS: dict[str, Any] = {"word": {"one_of": ["x", "y"]}, "count": {"at_most": 10}}
ALICE = Principal.person("alice", tenant="acme", scopes=(DECIDE,))


def policy(**changes: Any) -> Matrix:
    settings: dict[str, Any] = {"name": "small", "grants": TERMS}
    return Matrix(asks=AskRules(rules=(AskRule(**(settings | changes)),)))


def wish(**changes: Any) -> GrantWish:
    settings: dict[str, Any] = {"tool": "write", "subjects": ("agent-operator",), "limits": WORDS}
    return GrantWish(**(settings | {"seconds": 600.0, "max_uses": 3} | changes))


async def give(world: World, *, by: Principal = APPROVER, **changes: Any) -> GrantView:
    wanted = wish(**changes)
    draft = await world.gate.grants.draft(wanted, by=by)
    return await world.gate.grants.give(wanted, digest=draft.digest, by=by)


async def opened(open_world: OpenWorld, spy: Spy, *, tool: dict[str, Any] | None = None, **more: Any) -> World:
    more.setdefault("policy", policy())
    return await open_world(written(spy, **({"approval": "always"} | (tool or {}))), **more)


async def uses(world: World, grant: GrantView) -> int:
    return (await world.gate.grants.show(grant.grant_id, by=APPROVER)).uses


async def run(world: World, word: str = "x", *, call_id: str = "c1", count: int = 1, **more: Any) -> Any:
    return await world.submit("write", {"word": word, "count": count}, call_id=call_id, **more)


# ---------------------------------------------------------------- what a grant lets through


async def test_a_call_within_the_limits_runs_at_once_and_the_audit_names_the_grant(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await opened(open_world, spy, store=where)
    grant = await give(world)
    assert spy.count == 0, "granting never executes"

    outcome = await run(world, count=10)

    assert (type(outcome), spy.calls) == (Succeeded, [("x", 10)])
    assert world.words() == ["started", "success"]
    for event in world.events("started", "completed"):
        assert event["decision"] == "allow_by_grant"
        assert event["reasons"] == ["contract_always_asks", "rule:small", f"grant:{grant.grant_id}"]
        assert event["decided_by"] == "paula"
    assert [event["kind"] for event in world.events() if event["kind"].startswith("approval")] == []
    assert (await world.effect()).decision == "allow_by_grant"
    assert await uses(world, grant) == 1


OUTSIDE: dict[str, dict[str, Any]] = {
    "another text": {"word": "z"},
    "more than the most": {"count": 11},
}


@pytest.mark.parametrize("what", OUTSIDE)
async def test_a_call_beyond_the_limits_waits_for_a_person(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world = await opened(open_world, spy)
    grant = await give(world)
    assert isinstance(await run(world, **OUTSIDE[what]), AwaitingApproval)
    assert (spy.count, await uses(world, grant)) == (0, 0)


SECOND_AGENT = Principal.agent("agent-2", tenant="acme", roles=("operator",), scopes=(SCOPE,))
OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another run": ({"run_id": "r1"}, {"run": "r2"}),
    "another agent": ({}, {"principal": SECOND_AGENT}),
    "the same agent for somebody": (
        {},
        {
            "principal": Principal.agent(
                "agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,),
                on_behalf_of=Principal.person("alice", tenant="acme", roles=("operator",), scopes=(SCOPE,)),
            )
        },
    ),
    "another environment": (
        {},
        {
            "principal": Principal.agent(
                "agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,), environment="staging"
            )
        },
    ),
    "another tenant": (
        {},
        {"principal": Principal.agent("agent-operator", tenant="globex", roles=("operator",), scopes=(SCOPE,))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
async def test_a_grant_is_for_one_subject_and_where_it_says_so_for_one_run(
    open_world: OpenWorld, spy: Spy, what: str
) -> None:
    changes, how = OTHERS[what]
    world = await opened(open_world, spy)
    grant = await give(world, **changes)

    assert isinstance(await run(world, **({"run": "r3"} | how)), AwaitingApproval)
    assert await uses(world, grant) == 0
    assert isinstance(await run(world, call_id="c2"), Succeeded)


async def test_a_grant_for_an_agent_that_acts_for_somebody_is_for_exactly_those_two(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await opened(open_world, spy)
    acting = dataclasses.replace(OPERATOR, on_behalf_of=dataclasses.replace(OPERATOR, subject="alice"))
    await give(world, subjects=("agent-operator", "alice"))
    assert isinstance(await run(world, principal=acting), Succeeded)
    assert isinstance(await run(world, run="r2"), AwaitingApproval)


async def test_every_use_counts_and_after_the_last_a_person_is_asked(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await opened(open_world, spy, store=where)
    grant = await give(world, max_uses=2)

    outcomes = [await run(world, call_id=f"c{number}") for number in range(3)]

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Succeeded, AwaitingApproval]
    (told,) = world.events("grant_used_up")
    assert (told["reasons"], told["tool"]) == ([f"grant:{grant.grant_id}", "rule:small", "uses:2"], "write")
    view = await world.gate.grants.show(grant.grant_id, by=APPROVER)
    assert (view.state, view.uses) == (GrantState.USED_UP, 2)


async def test_a_repeat_of_the_same_operation_costs_no_second_use(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await opened(open_world, spy, store=where)
    grant = await give(world)
    outcomes = [await run(world) for _ in range(3)]
    assert [type(outcome) for outcome in outcomes] == [Succeeded, Replayed, Replayed]
    assert (spy.count, await uses(world, grant)) == (1, 1)


async def test_a_use_is_not_given_back_when_the_tool_refuses_and_the_next_try_takes_another(
    open_world: OpenWorld, spy: Spy
) -> None:
    async def failing(word: str, count: int = 1) -> dict[str, str]:
        spy((word, count))
        raise ToolRejected("no")

    tool = placet.tool(effect="write", risk="medium", permission=SCOPE, name="write", approval="always")(failing)
    world = await open_world(tool, policy=policy())
    grant = await give(world)
    assert isinstance(await run(world), Failed)
    assert await uses(world, grant) == 1
    assert isinstance(await run(world), Failed)
    assert (spy.count, await uses(world, grant)) == (2, 2)


async def test_calls_at_once_use_no_more_than_there_are(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "p.db")
    clock = FakeClock()
    first = await opened(open_world, spy, store=store, clock=clock)
    second = await opened(open_world, spy, store=store, clock=clock, seed=1)
    await give(first)

    outcomes = await asyncio.gather(
        *(run(world, call_id=f"c{number}") for number in range(8) for world in (first, second))
    )

    assert sum(isinstance(outcome, Succeeded) for outcome in outcomes) == spy.count == 3
    assert {type(outcome) for outcome in outcomes} <= {Succeeded, Replayed, InProgress, AwaitingApproval}
    assert len(first.events("grant_used_up")) == 1


async def test_a_read_that_asks_uses_a_grant_as_a_write_does(open_world: OpenWorld, spy: Spy) -> None:
    """It is kept in the ledger, so the same call again is answered from there."""
    world = await opened(open_world, spy, tool={"effect": "read", "risk": "low"})
    grant = await give(world)
    assert [type(await run(world)) for _ in range(2)] == [Succeeded, Replayed]
    assert (spy.count, await uses(world, grant)) == (1, 1)


async def test_of_two_grants_the_one_that_expires_sooner_is_used(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    later, sooner = await give(world, seconds=900.0), await give(world, seconds=300.0)
    await run(world)
    assert (await uses(world, later), await uses(world, sooner)) == (0, 1)


# ---------------------------------------------------------------- what comes before a grant


@pytest.mark.case("E05")
async def test_a_persons_refusal_of_this_very_call_beats_every_grant(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    waiting = await run(world)
    await world.deny(waiting)
    grant = await give(world)

    outcome = await run(world)
    assert isinstance(outcome, Refused)
    assert outcome.code == "approval_denied"
    named = await run(world, idempotency_key="another-name")
    assert isinstance(named, Refused)
    assert named.code == "approval_denied"
    assert (spy.count, await uses(world, grant)) == (0, 0)


async def test_a_refusal_under_another_key_beats_a_grant_also_where_a_question_waits(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await opened(open_world, spy)
    first = await run(world, call_id="c1", idempotency_key="one")
    second = await run(world, call_id="c2", idempotency_key="two")
    await world.deny(second)
    await give(world)
    again = await run(world, call_id="c1", idempotency_key="one")
    assert isinstance(first, AwaitingApproval)
    assert isinstance(again, AwaitingApproval)
    assert spy.count == 0


async def test_an_approval_of_this_very_call_is_spent_before_a_grant_is_used(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    await world.approve(await run(world))
    grant = await give(world)
    assert isinstance(await run(world), Succeeded)
    assert await uses(world, grant) == 0
    assert len(world.events("approval_spent")) == 1


async def test_a_question_that_waits_is_answered_by_a_grant_and_taken_back(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    waiting = await run(world)
    grant = await give(world)

    assert isinstance(await run(world), Succeeded)
    assert await uses(world, grant) == 1
    assert await world.gate.desk.pending(by=APPROVER) == ()
    (event,) = world.events("approval_withdrawn")
    assert isinstance(waiting, AwaitingApproval)
    assert (event["detail"], event["approval_id"]) == ("granted", waiting.approval_id)


async def test_what_a_person_made_of_the_call_by_editing_it_comes_first(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    waiting = await run(world)
    assert isinstance(waiting, AwaitingApproval)
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    editor = Principal.person("ed", tenant="acme", roles=("admin",), scopes=(DECIDE, SCOPE))
    await world.gate.desk.edit(waiting.approval_id, digest=view.digest, arguments={"word": "y", "count": 1}, by=editor)
    await give(world)
    outcome = await run(world)
    assert isinstance(outcome, Refused)
    assert (outcome.code, spy.count) == ("edited_by_person", 0)


async def test_policy_denies_whatever_was_granted(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    grant = await give(world)
    unscoped = dataclasses.replace(OPERATOR, scopes=frozenset())
    outcome = await run(world, principal=unscoped)
    assert isinstance(outcome, Refused)
    assert (outcome.code, await uses(world, grant)) == ("denied", 0)


async def test_a_stop_holds_whatever_was_granted(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    grant = await give(world)
    operator = Principal.person("ops", tenant="acme", roles=("admin",), scopes=("ops.stop",))
    await world.gate.switch.stop("tool:write", by=operator)
    outcome = await run(world)
    assert isinstance(outcome, Refused)
    assert (outcome.code, await uses(world, grant), spy.count) == ("stopped", 0, 0)


async def test_a_tool_that_was_refused_too_often_stays_closed(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, settings=GateSettings(grace_seconds=0.05, max_denials=3))
    for number in range(3):
        await world.deny(await run(world, "z", call_id=f"d{number}", count=number))
    grant = await give(world)
    outcome = await run(world)
    assert isinstance(outcome, Refused)
    assert (outcome.code, await uses(world, grant)) == ("tool_closed", 0)


class Provenant:
    """A policy that asks because of where a value came from, beside all else that the matrix says."""

    def __init__(self, *reasons: str) -> None:
        self.inner = policy()
        self.reasons = reasons

    @property
    def version(self) -> Any:
        return self.inner.version

    timeout_seconds = None

    async def decide(self, call: Any) -> Any:
        word = self.inner.word(call.contract, call.principal)
        requirement = word.requirement if isinstance(word, Allow | Ask) else Requirement()
        own = Ask(reasons=self.reasons, policy_version=self.version, requirement=requirement)
        return strictest(word, own)

    def is_listed(self, contract: Any, principal: Any) -> bool:
        return True

    async def may_decide(self, question: Any, person: Any) -> Any:
        return await self.inner.may_decide(question, person)

    async def grantable(self, contract: Any, tenant: str) -> Any:
        return await self.inner.grantable(contract, tenant)


@pytest.mark.parametrize("reason", ["unendorsed_recipient", "secret_read_in_run", "may_act_twice", "my_own_rule"])
async def test_no_grant_answers_an_ask_for_a_reason_of_another_kind(
    open_world: OpenWorld, spy: Spy, reason: str
) -> None:
    world = await opened(open_world, spy, policy=Provenant(reason))
    grant = await give(world)
    assert isinstance(await run(world), AwaitingApproval)
    assert (spy.count, await uses(world, grant)) == (0, 0)


# ---------------------------------------------------------------- what may be granted, and by whom


NEVER: dict[str, dict[str, Any]] = {
    "high risk": {"risk": "high"},
    "critical risk": {"risk": "critical"},
    "an irreversible act": {"effect": "irreversible"},
}


@pytest.mark.parametrize("what", NEVER)
async def test_no_grant_is_given_for_what_is_out_of_reach(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world = await opened(open_world, spy, tool=NEVER[what])
    assert await refusal(give(world)) == "never_granted"
    (event,) = world.events("grant_refused")
    assert (event["detail"], event["decided_by"]) == ("never_granted", "paula")


@pytest.mark.parametrize("what", ["risk", "effect"])
async def test_a_grant_for_what_is_out_of_reach_is_not_used_whoever_wrote_it(
    open_world: OpenWorld, spy: Spy, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if somebody had signed it: giving is not the only lock."""
    from placet.rules import grants

    world = await opened(open_world, spy, tool=NEVER["high risk" if what == "risk" else "an irreversible act"])
    with monkeypatch.context() as unlocked:
        unlocked.setattr(grants, "may_be_granted", lambda contract: True)
        await give(world, subjects=("agent-admin",))
    assert isinstance(await run(world, principal=ADMIN), AwaitingApproval)
    assert spy.count == 0


async def test_nobody_grants_what_the_policy_does_not_say(open_world: OpenWorld, spy: Spy) -> None:
    for engine in (Matrix(), policy(grants=None), policy(tools=frozenset({"other"}))):
        world = await opened(open_world, Spy(), policy=engine)
        assert await refusal(give(world)) == "not_grantable"


async def test_an_engine_that_knows_of_no_grants_lets_nobody_give_one(open_world: OpenWorld, spy: Spy) -> None:
    class Silent(Provenant):
        grantable = None  # type: ignore[assignment]

    world = await opened(open_world, spy, policy=Silent("contract_always_asks"))
    assert await refusal(give(world)) == "not_grantable"


MOST: dict[str, tuple[dict[str, Any], str | None]] = {
    "as long as may be": ({"seconds": 3_600.0}, None),
    "longer": ({"seconds": 3_600.5}, "grant_too_long"),
    "as often as may be": ({"max_uses": 5}, None),
    "more often": ({"max_uses": 6}, "grant_too_often"),
}


@pytest.mark.parametrize("what", MOST)
async def test_a_grant_is_at_most_what_the_policy_says(open_world: OpenWorld, spy: Spy, what: str) -> None:
    changes, code = MOST[what]
    world = await opened(open_world, spy)
    if code is None:
        assert (await give(world, **changes)).state is GrantState.USABLE
    else:
        assert await refusal(give(world, **changes)) == code


GIVERS: dict[str, tuple[Principal, dict[str, Any], str]] = {
    "an agent": (dataclasses.replace(ADMIN, scopes=frozenset({DECIDE})), {}, "not_a_person"),
    "somebody without the scope": (Principal.person("pat", tenant="acme"), {}, "scope_missing"),
    "the user it acts for": (ALICE, {"subjects": ("agent-operator", "alice")}, "own_request"),
    "somebody in the middle": (ALICE, {"subjects": ("agent-operator", "alice", "bob")}, "own_request"),
    "the agent's own name": (Principal.person("agent-operator", tenant="acme", scopes=(DECIDE,)), {}, "own_request"),
}


@pytest.mark.parametrize("who", GIVERS)
async def test_only_who_may_approve_the_calls_may_grant_them(open_world: OpenWorld, spy: Spy, who: str) -> None:
    giver, changes, code = GIVERS[who]
    world = await opened(open_world, spy)
    assert await refusal(give(world, by=giver, **changes)) == code
    assert await refusal(world.gate.grants.give(wish(**changes), digest="", by=giver)) == code
    assert (await world.gate.grants.listed(by=APPROVER), len(world.events("grant_refused"))) == ((), 2)


async def test_the_rule_says_who_may_grant_as_it_says_who_may_approve(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, policy=policy(approvers=Approvers(roles=frozenset({Role.ADMIN}))))
    assert await refusal(give(world)) == "not_an_approver"
    lead = Principal.person("lena", tenant="acme", roles=("admin",), scopes=(DECIDE,))
    assert (await give(world, by=lead)).given_by == "lena"


async def test_a_reason_is_wanted_where_an_approval_wants_one(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, policy=policy(reason_to_approve=True))
    assert await refusal(give(world, reason="  ")) == "reason_missing"
    assert (await give(world, reason="payday")).words == "payday"


async def test_what_was_shown_is_what_is_signed(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    draft = await world.gate.grants.draft(wish(), by=APPROVER)
    for other in (wish(max_uses=4), wish(seconds=601.0), wish(run_id="r1"), wish(limits={**WORDS, "word": "any"})):
        assert await refusal(world.gate.grants.give(other, digest=draft.digest, by=APPROVER)) == "other_digest"
    assert (await world.gate.grants.listed(by=APPROVER), world.events("grant_given")) == ((), [])
    given = await world.gate.grants.give(wish(), digest=draft.digest, by=APPROVER)
    assert (given.digest, draft.grant_id, draft.covers) == (draft.digest, "", given.covers)
    assert given.covers == (
        "Calls of write, version 1, by agent-operator, in every run.",
        "count: a number, at most 10",
        'word: one of "x", "y"',
        f"At most 3 of them, until {_text(given.expires_at)}.",
    )


LIMITS: dict[str, Any] = {
    "an argument without one": {"word": "any"},
    "an argument that there is not": {**WORDS, "other": "any"},
    "no object": ["word"],
    "a word that is none": {**WORDS, "word": "all"},
    "nothing to be one of": {**WORDS, "word": {"one_of": []}},
    "too much to be one of": {**WORDS, "word": {"one_of": [str(number) for number in range(101)]}},
    "a bound of a text": {**WORDS, "word": {"at_most": 5}},
    "a value of another type": {**WORDS, "word": {"one_of": [5]}},
    "no bound at all": {**WORDS, "count": {"at_most": None}},
    "bounds with nothing between": {**WORDS, "count": {"at_most": 1, "at_least": 2}},
    "a bound that is none": {**WORDS, "count": {"at_most": True}},
    "a bound without end": {**WORDS, "count": {"at_most": float("inf")}},
    "a pattern": {**WORDS, "word": {"prefix": "x"}},
    "what JSON cannot carry": {**WORDS, "word": {"one_of": [b"x"]}},
}


@pytest.mark.parametrize("what", LIMITS)
async def test_limits_say_something_of_every_argument_and_of_nothing_else(
    open_world: OpenWorld, spy: Spy, what: str
) -> None:
    world = await opened(open_world, spy)
    with pytest.raises(LimitsRefused) as caught:
        await give(world, limits=LIMITS[what])
    assert (caught.value.code, caught.value.__cause__, caught.value.__context__) == ("bad_limits", None, None)
    assert await world.gate.grants.listed(by=APPROVER) == ()


async def test_what_the_contract_redacts_is_left_open_or_not_granted(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, tool={"redact": ("word",)})
    with pytest.raises(LimitsRefused):
        await give(world)
    await give(world, limits={"word": "any", "count": {"at_most": 10}})
    assert isinstance(await run(world, "whatever"), Succeeded)


WISHES: dict[str, dict[str, Any]] = {
    "no subject": {"subjects": ()},
    "a subject that is none": {"subjects": ("agent-operator", "")},
    "subjects in a text": {"subjects": "agent-operator"},
    "a run that is none": {"run_id": ""},
    "no time": {"seconds": 0.0},
    "time without end": {"seconds": float("inf")},
    "no use": {"max_uses": 0},
    "uses that are true": {"max_uses": True},
    "a reason that is no text": {"reason": 5},
    "a reason without end": {"reason": "x" * 501},
}


@pytest.mark.parametrize("what", WISHES)
async def test_a_wish_is_of_its_kind(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world = await opened(open_world, spy)
    with pytest.raises(MisuseError):
        await give(world, **WISHES[what])


async def test_there_are_so_many_usable_grants_for_one_subject_and_tool_and_no_more(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await opened(open_world, spy)
    given = [await give(world) for _ in range(32)]
    assert await refusal(give(world)) == "too_many_grants"
    assert (await give(world, subjects=("agent-2",))).state is GrantState.USABLE
    await world.gate.grants.revoke(given[0].grant_id, by=APPROVER)
    assert (await give(world)).state is GrantState.USABLE


async def test_a_wish_like_a_question_covers_exactly_that_call(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, tool={"redact": ("count",)})
    waiting = await run(world)
    assert isinstance(waiting, AwaitingApproval)
    wanted = await world.gate.grants.like(waiting.approval_id, by=APPROVER)
    assert wanted == GrantWish(
        tool="write",
        subjects=("agent-operator",),
        limits={"word": {"one_of": ["x"]}, "count": "any"},
        seconds=3_600.0,
        max_uses=5,
        run_id="r1",
    )
    draft = await world.gate.grants.draft(wanted, by=APPROVER)
    await world.gate.grants.give(wanted, digest=draft.digest, by=APPROVER)
    assert [v.approval_id for v in await world.gate.desk.pending(by=APPROVER)] == [waiting.approval_id], "two acts"
    assert isinstance(await run(world, call_id="c2"), Succeeded)
    with pytest.raises(NotFound):
        await world.gate.grants.like("apr-none", by=APPROVER)


# ---------------------------------------------------------------- until


async def test_a_grant_is_expired_at_its_instant(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    grant = await give(world, seconds=60.0)
    world.clock.advance(59.999)
    assert isinstance(await run(world), Succeeded)
    world.clock.advance(0.001)
    assert isinstance(await run(world, call_id="c2"), AwaitingApproval)
    view = await world.gate.grants.show(grant.grant_id, by=APPROVER)
    assert (view.state, view.expires_at) == (GrantState.EXPIRED, world.clock.now())


async def test_a_grant_from_the_future_is_not_used(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    world.clock.advance(31.0)
    await give(world)
    world.clock.advance(-31.0)
    assert isinstance(await run(world), AwaitingApproval)
    world.clock.advance(1.0)
    assert isinstance(await run(world, call_id="c2"), Succeeded)


REVOKERS: dict[str, tuple[Principal, str | None]] = {
    "its giver, whatever became of its leave": (Principal.person("paula", tenant="acme"), None),
    "somebody entitled": (OTHER_APPROVER, None),
    "somebody else": (Principal.person("eve", tenant="acme"), "scope_missing"),
    "an agent": (OPERATOR, "not_a_person"),
}


@pytest.mark.parametrize("who", REVOKERS)
async def test_a_revoked_grant_lets_nothing_through(open_world: OpenWorld, spy: Spy, where: str, who: str) -> None:
    by, code = REVOKERS[who]
    world = await opened(open_world, spy, store=where)
    grant = await give(world)
    if code is not None:
        assert await refusal(world.gate.grants.revoke(grant.grant_id, by=by)) == code
        assert isinstance(await run(world), Succeeded)
        return
    view = await world.gate.grants.revoke(grant.grant_id, by=by)
    again = await world.gate.grants.revoke(grant.grant_id, by=by)
    assert (view.state, view.revoked_by, again) == (GrantState.REVOKED, by.subject, view)
    assert isinstance(await run(world), AwaitingApproval)
    (event,) = world.events("grant_revoked")
    assert (event["decided_by"], event["reasons"][0]) == (by.subject, f"grant:{grant.grant_id}")


async def test_what_a_grant_let_through_stays_done_when_it_is_revoked(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    grant = await give(world)
    await run(world)
    view = await world.gate.grants.revoke(grant.grant_id, by=APPROVER)
    assert (view.uses, view.max_uses) == (1, 3)
    assert isinstance(await run(world), Replayed)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the contract": ({"version": "2"}, {}, "contract_changed"),
    "what is redacted": ({"redact": ("count",)}, {}, "contract_changed"),
    "the policy": ({}, {"policy": policy(usable_for_seconds=299.0)}, "policy_changed"),
    "the most of a grant": ({}, {"policy": policy(grants=GrantTerms(max_uses=4, max_seconds=9.0))}, "policy_changed"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_grant_is_void_once_what_it_was_given_under_has_changed(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, what: str
) -> None:
    tool, more, why = CHANGES[what]
    store, clock = str(tmp_path / "p.db"), FakeClock()
    before = await opened(open_world, spy, store=store, clock=clock)
    grant = await give(before)
    after = await opened(open_world, spy, tool=tool, store=store, clock=clock, seed=1, **more)

    assert isinstance(await run(after), AwaitingApproval)
    view = await after.gate.grants.show(grant.grant_id, by=APPROVER)
    assert (view.state, view.why_not, view.uses) == (GrantState.VOID, why, 0)
    is_known = why != "contract_changed"  # what another contract redacts is not known here
    assert (view.limits is not None, view.covers != ()) == (is_known, is_known)
    assert isinstance(await run(before, call_id="c2"), Succeeded)
    revoked = await after.gate.grants.revoke(grant.grant_id, by=APPROVER)
    assert revoked.state is GrantState.REVOKED


# ---------------------------------------------------------------- asked again with each use


LEAD = Principal.person("lena", tenant="acme", roles=("admin",), scopes=(DECIDE,))
LOSSES: dict[str, tuple[Callable[[ListedPeople], None], str, bool]] = {
    "it left the list": (lambda people: people.remove(LEAD), "not_listed_any_more", True),
    "it lost the scope": (
        lambda people: people.put(dataclasses.replace(LEAD, scopes=frozenset())), "scope_missing", True
    ),
    "it lost the role": (
        lambda people: people.put(dataclasses.replace(LEAD, roles=frozenset({Role.VIEWER}))), "not_an_approver", True
    ),
    "nobody can tell": (lambda people: setattr(people, "fault", RuntimeError("x")), "people_failed", False),
}  # fmt: skip


@pytest.mark.parametrize("what", LOSSES)
async def test_a_grant_of_somebody_who_may_not_give_it_any_more_is_not_used(
    open_world: OpenWorld, spy: Spy, where: str, what: str
) -> None:
    lose, code, is_certain = LOSSES[what]
    people = ListedPeople(LEAD)
    approvers = Approvers(roles=frozenset({Role.ADMIN}))
    world = await opened(open_world, spy, store=where, policy=policy(approvers=approvers), people=people)
    grant = await give(world, by=LEAD)
    assert isinstance(await run(world), Succeeded)

    lose(people)
    outcome = await run(world, call_id="c2")

    assert (type(outcome), spy.count) == (AwaitingApproval, 1)
    (refused,) = world.events("grant_refused")
    assert (refused["detail"], refused["decided_by"]) == (code, "lena")
    view = await world.gate.grants.show(grant.grant_id, by=APPROVER)
    assert (view.state, view.uses) == (GrantState.REVOKED if is_certain else GrantState.USABLE, 1)
    assert [event["detail"] for event in world.events("grant_revoked")] == ([code] if is_certain else [])


# ---------------------------------------------------------------- seen by whom


async def test_another_tenants_grant_is_like_one_that_there_is_not(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    grant = await give(world)
    stranger = Principal.person("paula", tenant="globex", scopes=(DECIDE,))
    assert await world.gate.grants.listed(by=stranger) == ()
    for look in (world.gate.grants.show, world.gate.grants.revoke):
        with pytest.raises(NotFound) as mine:
            await look(grant.grant_id, by=stranger)
        with pytest.raises(NotFound) as none:
            await look("grt-none", by=stranger)
        assert str(mine.value) == str(none.value)
    assert isinstance(await run(world), Succeeded)


async def test_a_tool_of_other_tenants_is_like_one_that_there_is_not(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy, tool={"allowed_tenants": ("globex",)})
    for tool in ("write", "none"):
        with pytest.raises(NotFound, match="no such tool"):
            await give(world, tool=tool)


async def test_grants_are_listed_a_page_at_a_time_the_newest_first(open_world: OpenWorld, spy: Spy) -> None:
    world = await opened(open_world, spy)
    given = []
    for _ in range(3):
        given.append((await give(world)).grant_id)
        world.clock.advance(1.0)
    page = await world.gate.grants.page(by=APPROVER, limit=2)
    rest = await world.gate.grants.page(by=APPROVER, limit=2, after=page.after)
    assert [view.grant_id for view in (*page.rows, *rest.rows)] == given[::-1]
    assert rest.after is None
    assert await refusal(world.gate.grants.listed(by=OPERATOR)) == "not_a_person"


# ---------------------------------------------------------------- what it costs


class Counting:
    """Counts which verbs of a store are asked for."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def counted(*args: Any, **more: Any) -> Any:
            self.asked.append(name)
            return found(*args, **more)

        return counted


GRANT_VERBS = {"standing_grants", "grant", "grants_after", "add_grant", "revoke_grant", "end_grant"}


@pytest.mark.parametrize(
    ("tool", "engine", "looks"),
    [
        ({"approval": "never"}, policy(), 0),
        ({}, Matrix(), 0),
        ({}, policy(grants=None), 0),
        ({"risk": "high"}, policy(), 0),
        ({}, policy(), 1),
    ],
)
async def test_a_call_that_no_grant_can_answer_asks_the_store_for_none(
    open_world: OpenWorld, spy: Spy, monkeypatch: pytest.MonkeyPatch, tool: dict[str, Any], engine: Matrix, looks: int
) -> None:
    world = await opened(open_world, spy, tool=tool, policy=engine)
    counting = Counting(world.gate._path._standing._store)
    monkeypatch.setattr(world.gate._path._standing, "_store", counting)
    outcome = await run(world, principal=ADMIN)
    assert isinstance(outcome, Succeeded if "approval" in tool else AwaitingApproval)
    assert counting.asked.count("standing_grants") == looks
    assert len(counting.asked) == looks


def _text(instant: datetime) -> str:
    assert instant.utcoffset() == timedelta(0)
    return instant.isoformat(timespec="microseconds")


# ---------------------------------------------------------------- keys, and engines of others


@pytest.mark.parametrize("retires", [False, True], ids=["rotated", "and retired"])
async def test_a_grant_is_void_once_another_key_signs(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, retires: bool
) -> None:
    store, clock = str(tmp_path / "p.db"), FakeClock()
    before = await opened(open_world, spy, store=store, clock=clock)
    grant, ended = await give(before), await give(before)
    await before.gate.grants.revoke(ended.grant_id, by=APPROVER)
    custody, opened_store = open_custody(Path(store))
    try:
        changed = await custody.rotate(by="mara")
        if retires:
            await custody.retire(changed.previous, by="mara", losing=())
    finally:
        await opened_store.close()

    after = await opened(open_world, spy, store=store, clock=clock, seed=1)
    assert isinstance(await run(after), AwaitingApproval)
    view = await after.gate.grants.show(grant.grant_id, by=APPROVER)
    assert (view.state, view.why_not, view.limits is None) == (GrantState.VOID, "key_changed", retires)
    assert (await after.gate.grants.show(ended.grant_id, by=APPROVER)).state is not GrantState.ALTERED
    assert after.events("grant_suspect") == []
    await after.gate.grants.revoke(grant.grant_id, by=APPROVER)
    states = {each.grant_id: each.state for each in await after.gate.grants.listed(by=APPROVER)}
    assert states.get(grant.grant_id, GrantState.REVOKED) is GrantState.REVOKED


class Answering(Provenant):
    """Answers the question what may be granted as a test says, and means every other answer."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        super().__init__("contract_always_asks")
        self.answer = answer

    async def grantable(self, contract: Any, tenant: str) -> Any:
        return self.answer()


def unmade(kind: type) -> Any:
    """A value that never passed its constructor."""
    return object.__new__(kind)


def raising(fault: BaseException) -> Any:
    raise fault


RUBBISH: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "yes": lambda: True,
    "terms alone": lambda: TERMS,
    "a requirement without grants": lambda: policy(grants=None).asks.rules[0].requirement,  # type: ignore[union-attr]
    "a requirement without its constructor": lambda: unmade(Requirement),
    "an error": lambda: raising(RuntimeError("x")),
    "a made-up cancellation": lambda: raising(asyncio.CancelledError()),
    "an exit": lambda: raising(SystemExit(1)),
}


@pytest.mark.parametrize("what", RUBBISH)
async def test_an_answer_that_is_none_lets_nobody_grant_anything(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world = await opened(open_world, spy, policy=Answering(RUBBISH[what]))
    assert await refusal(give(world)) == "not_grantable"


async def test_grant_terms_without_their_constructor_make_no_decision(open_world: OpenWorld, spy: Spy) -> None:
    class Unmade(Provenant):
        async def decide(self, call: Any) -> Any:
            answer = await super().decide(call)
            object.__setattr__(answer.requirement, "grants", unmade(GrantTerms))
            return answer

    world = await opened(open_world, spy, policy=Unmade("contract_always_asks"))
    outcome = await run(world)
    assert isinstance(outcome, Refused)
    assert (outcome.reasons, spy.count) == (("policy_failed",), 0)


def test_the_synchronous_gate_grants_too(spy: Spy) -> None:
    with placet.open(tools=[written(spy, approval="always")], store=placet.MEMORY, policy=policy()) as gate:
        draft = gate.grants.draft(wish(), by=APPROVER)
        given = gate.grants.give(wish(), digest=draft.digest, by=APPROVER)
        call = {"call_id": "c1", "tool": "write", "arguments": {"word": "x"}}
        assert gate.submit(call, principal=OPERATOR, run="r1").code == "succeeded"
        assert gate.grants.show(given.grant_id, by=APPROVER).uses == 1
        assert gate.grants.revoke(given.grant_id, by=APPROVER).state is GrantState.REVOKED
        assert len(gate.grants.listed(by=APPROVER)) == 1
