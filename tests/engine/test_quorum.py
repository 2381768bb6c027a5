"""Several people, each for itself: approved at the last vote that is needed, and worth as much as every vote in it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import placet
from placet import (
    ApprovalState,
    Approvers,
    AskRule,
    AskRules,
    AwaitingApproval,
    Matrix,
    Principal,
    Refused,
    RequirementKind,
    Succeeded,
)
from placet.adapters.keys import KeyFile, create_key_file, load_key_file
from placet.engine.signing import Signing
from placet.engine.verifying import sound_votes, verify_quorum
from placet.errors import DecisionRefused, StoreInDoubt, StoreUnavailable
from placet.model.approval import Approval, ApprovalDecision, Leave, Mac, OtherVotes, SignedVote, Vote, VoteKind
from placet.model.principal import Role
from placet.rules.approvals import Misfit
from placet.testing import FakeClock
from placet.testing.conformance import a_question
from tests.engine.conftest import OpenWorld, Spy, World, written
from tests.engine.people import ListedPeople, refusal

DECIDE = "approvals.decide"


def a_person(name: str, **more: Any) -> Principal:
    return Principal.person(name, tenant="acme", roles=("admin",), scopes=(DECIDE,), **more)


ANN, BEN, CAT = a_person("ann"), a_person("ben"), a_person("cat")
MICROSECOND = timedelta(microseconds=1)


def quorum(votes: int = 2, **changes: Any) -> Matrix:
    rule = AskRule(name="several", needs=RequirementKind.QUORUM, votes=votes, **changes)
    return Matrix(asks=AskRules(rules=(rule,)))


async def asked(open_world: OpenWorld, spy: Spy, **more: Any) -> tuple[World, AwaitingApproval]:
    more.setdefault("policy", quorum())
    world = await open_world(written(spy, approval="always"), **more)
    outcome = await world.submit("write", {"word": "x"})
    assert isinstance(outcome, AwaitingApproval)
    return world, outcome


async def vote(world: World, waiting: AwaitingApproval, by: Principal, reason: str = "") -> Any:
    view = await world.gate.desk.show(waiting.approval_id, by=by)
    return await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=by, reason=reason)


def rows_of(world: World) -> dict[Any, SignedVote]:
    """The votes of the memory store, as somebody who can write to the database has them."""
    store: Any = world.gate.store
    return store._tables.cast  # type: ignore[no-any-return]


# ---------------------------------------------------------------- voting


@pytest.mark.req("H017", "H023", "B064")
async def test_the_last_of_the_votes_that_are_needed_approves(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where, policy=quorum(3))

    first = await vote(world, waiting, BEN, "looks right")
    assert (first.state, first.votes_needed, first.own_vote) == (ApprovalState.PENDING, 3, "approve")
    assert [(each.voter, each.words) for each in first.votes] == [("ben", "looks right")]
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)
    second = await vote(world, waiting, ANN)
    assert [each.voter for each in second.votes] == ["ann", "ben"]
    assert second.decided_by is None
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)
    third = await vote(world, waiting, CAT)

    assert (third.state, third.decided_by) == (ApprovalState.APPROVED, "cat")
    assert spy.count == 0
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert spy.count == 1
    kinds = [event["kind"] for event in world.events() if event["kind"].startswith(("approval_", "vote_"))]
    assert kinds == ["approval_asked", *["approval_voted"] * 3, "approval_approved", "approval_spent"]
    assert [event["decided_by"] for event in world.events("approval_voted")] == ["ben", "ann", "cat"]
    view = await world.gate.desk.show(waiting.approval_id, by=ANN)
    assert (view.state, len(view.votes)) == (ApprovalState.SPENT, 3)


@pytest.mark.req("H017")
async def test_one_person_is_one_vote(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)

    first = await vote(world, waiting, ANN)
    again = await vote(world, waiting, ANN)

    assert first == again
    assert (again.state, len(again.votes)) == (ApprovalState.PENDING, 1)
    assert len(world.events("approval_voted")) == 1
    await vote(world, waiting, BEN)
    assert (await vote(world, waiting, ANN)).state is ApprovalState.APPROVED, "it had a part in it"


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize(
    ("who", "code"),
    [
        (a_person("agent-operator"), "own_request"),
        (Principal.person("dan", tenant="acme"), "scope_missing"),
        (Principal.agent("dan", tenant="acme", scopes=(DECIDE,)), "not_a_person"),
        (a_person("dan", environment="staging"), "other_environment"),
    ],
)
async def test_whoever_may_not_decide_does_not_vote(open_world: OpenWorld, spy: Spy, who: Principal, code: str) -> None:
    world, waiting = await asked(open_world, spy)
    digest = (await world.gate.desk.show(waiting.approval_id, by=ANN)).digest

    assert await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=who)) == code
    assert (await world.gate.desk.show(waiting.approval_id, by=ANN)).votes == ()


async def test_a_vote_is_about_the_arguments_that_were_shown(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)

    work = world.gate.desk.approve(waiting.approval_id, digest="0" * 64, by=ANN)
    assert await refusal(work) == "other_digest"


async def test_one_denial_ends_it(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await vote(world, waiting, ANN)

    await world.deny(waiting, reason="not today", by=BEN)
    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.words, spy.count) == ("approval_denied", "not today", 0)
    assert await refusal(vote(world, waiting, CAT)) == "already_decided"


async def test_whoever_voted_may_deny_after_all(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)

    await world.deny(waiting, by=ANN)

    assert (await world.submit("write", {"word": "x"})).code == "approval_denied"


async def test_a_vote_is_taken_back_and_not_given_again(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await vote(world, waiting, ANN)

    view = await world.gate.desk.withdraw_vote(waiting.approval_id, by=ANN)
    assert (view.votes, view.own_vote) == ((), "withdraw")
    assert await world.gate.desk.withdraw_vote(waiting.approval_id, by=ANN) == view
    assert await refusal(vote(world, waiting, ANN)) == "vote_withdrawn"

    assert (await vote(world, waiting, BEN)).state is ApprovalState.PENDING
    assert (await vote(world, waiting, CAT)).state is ApprovalState.APPROVED
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert [event["decided_by"] for event in world.events("vote_withdrawn")] == ["ann"]


async def test_nobody_takes_a_vote_back_that_it_has_not_or_that_has_done_its_work(
    open_world: OpenWorld, spy: Spy
) -> None:
    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)

    assert await refusal(world.gate.desk.withdraw_vote(waiting.approval_id, by=BEN)) == "no_vote"
    await vote(world, waiting, BEN)
    assert await refusal(world.gate.desk.withdraw_vote(waiting.approval_id, by=ANN)) == "already_decided"
    details = [event["detail"] for event in world.events("decision_refused")]
    assert details == ["no_vote", "already_decided"]


async def test_whoever_had_a_part_may_take_the_approval_back(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)
    await vote(world, waiting, BEN)
    bare = dataclasses.replace(ANN, scopes=frozenset())

    assert (await world.gate.desk.withdraw(waiting.approval_id, by=bare)).state is ApprovalState.REVOKED
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)


async def test_an_expired_question_takes_no_vote(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy, policy=quorum(decide_within_seconds=60))
    await vote(world, waiting, ANN)
    world.clock.advance(60)

    assert await refusal(vote(world, waiting, BEN)) == "approval_expired"
    new = await world.submit("write", {"word": "x"})
    assert isinstance(new, AwaitingApproval)
    assert new.approval_id != waiting.approval_id
    assert (await world.gate.desk.show(new.approval_id, by=ANN)).votes == ()


async def test_the_lifetime_counts_from_the_last_vote(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)
    world.clock.advance(3_000)
    view = await vote(world, waiting, BEN)

    assert view.expires_at == world.clock.now() + timedelta(seconds=300)


async def test_a_rule_may_want_a_reason_of_every_voter(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy, policy=quorum(reason_to_approve=True))

    assert await refusal(vote(world, waiting, ANN)) == "reason_missing"
    await vote(world, waiting, ANN, "a")
    view = await vote(world, waiting, BEN, "b")
    assert [(each.voter, each.words) for each in view.votes] == [("ann", "a"), ("ben", "b")]


async def test_the_view_says_who_may_still_vote(open_world: OpenWorld, spy: Spy) -> None:
    people = ListedPeople(ANN, BEN, CAT, a_person("agent-operator"), Principal.person("dan", tenant="acme"))
    world, waiting = await asked(open_world, spy, people=people, policy=quorum(3))

    assert (await world.gate.desk.show(waiting.approval_id, by=ANN)).who_may == ("ann", "ben", "cat")
    assert (await vote(world, waiting, BEN)).who_may == ("ann", "cat")
    await world.gate.desk.withdraw_vote(waiting.approval_id, by=BEN)
    assert (await world.gate.desk.show(waiting.approval_id, by=ANN)).who_may == ("ann", "cat")


async def test_a_quorum_without_a_file_is_of_anybody_entitled(open_world: OpenWorld, spy: Spy) -> None:
    terms = placet.Terms(rule="two_people", votes=2)
    requirement = placet.Requirement(kind=RequirementKind.QUORUM, terms=terms)
    world, waiting = await asked(open_world, spy, policy=Matrix(requirement=requirement))

    await vote(world, waiting, ANN)
    await vote(world, waiting, BEN)
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


# ---------------------------------------------------------------- at once


@pytest.mark.case("E04", "F06")
async def test_of_two_last_votes_one_closes_it(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where)
    await vote(world, waiting, ANN)

    answers = await asyncio.gather(vote(world, waiting, BEN), vote(world, waiting, CAT), return_exceptions=True)

    approved = [each for each in answers if not isinstance(each, BaseException)]
    (refused,) = [each for each in answers if isinstance(each, DecisionRefused)]
    assert [view.state for view in approved] == [ApprovalState.APPROVED]
    assert refused.code == "already_decided"
    assert str(refused).startswith(f"It is approved already by {approved[0].decided_by} at 2")
    assert len(world.events("approval_approved")) == 1
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_votes_at_once_all_count(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world, waiting = await asked(open_world, spy, store=where, policy=quorum(8))
    people = [a_person(f"voter-{n}") for n in range(8)]

    views = await asyncio.gather(*(vote(world, waiting, each) for each in people))

    assert sorted(len(view.votes) for view in views) == list(range(1, 9))
    assert [view.state for view in views].count(ApprovalState.APPROVED) == 1
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_two_gates_of_one_store_count_together(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    store = str(tmp_path / "p.db")
    key = tmp_path / "p.db.key"
    one, waiting = await asked(open_world, spy, store=store, key=key)
    other = await open_world(written(spy, approval="always"), store=store, key=key, policy=quorum(), seed=1)

    await vote(one, waiting, ANN)
    assert (await vote(other, waiting, BEN)).state is ApprovalState.APPROVED
    assert isinstance(await one.submit("write", {"word": "x"}), Succeeded)


class Meddling:
    """A store that lets somebody else vote in between, and may lose the answer to a vote."""

    def __init__(self, store: Any, meddle: Callable[[], Any], *, fault: Exception | None = None) -> None:
        self._store = store
        self._meddle: Callable[[], Any] | None = meddle
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def vote(self, *args: Any, **kwargs: Any) -> Any:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            await meddle()
        answer = await self._store.vote(*args, **kwargs)
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        return answer


async def test_a_vote_that_was_overtaken_is_made_anew_over_what_is_there(open_world: OpenWorld, spy: Spy) -> None:
    world, waiting = await asked(open_world, spy, policy=quorum(3))
    desk: Any = world.gate.desk
    store = desk._store
    desk._store = desk._views._store = Meddling(store, lambda: vote(world, waiting, ANN))

    view = await vote(world, waiting, BEN)

    assert [each.voter for each in view.votes] == ["ann", "ben"]
    assert len(world.events("approval_voted")) == 2


async def test_a_vote_that_is_overtaken_every_time_is_told_so(open_world: OpenWorld, spy: Spy) -> None:
    class Other:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def vote(self, *args: Any, **kwargs: Any) -> OtherVotes:
            return OtherVotes()

    world, waiting = await asked(open_world, spy)
    desk: Any = world.gate.desk
    desk._store = desk._views._store = Other(desk._store)

    with pytest.raises(StoreUnavailable):
        await vote(world, waiting, ANN)


async def test_a_vote_whose_answer_was_lost_is_asked_again_and_counts_once(open_world: OpenWorld, spy: Spy) -> None:
    async def nothing() -> None: ...

    world, waiting = await asked(open_world, spy)
    desk: Any = world.gate.desk
    for who, state in ((ANN, ApprovalState.PENDING), (BEN, ApprovalState.APPROVED)):
        store = desk._store
        desk._store = desk._views._store = Meddling(store, nothing, fault=StoreInDoubt("lost"))
        with pytest.raises(StoreInDoubt):
            await vote(world, waiting, who)
        desk._store = desk._views._store = store
        assert (await vote(world, waiting, who)).state is state
    assert len(world.events("approval_voted")) == 2


# ---------------------------------------------------------------- before it is spent


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize("who", ["ann", "ben"])
async def test_one_voter_who_lost_its_leave_is_enough(open_world: OpenWorld, spy: Spy, where: str, who: str) -> None:
    people = ListedPeople(ANN, BEN)
    policy = quorum(approvers=Approvers(roles=frozenset({Role.ADMIN})))
    world, waiting = await asked(open_world, spy, store=where, people=people, policy=policy)
    await vote(world, waiting, ANN)
    await vote(world, waiting, BEN)

    lost = dataclasses.replace(ANN if who == "ann" else BEN, roles=frozenset({Role.OPERATOR}))
    people.put(lost)
    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approver_not_entitled", ("not_an_approver",), 0)
    assert world.events("decision_refused")[-1]["decided_by"] == who


def sample_of(value: Any) -> st.SearchStrategy[Any]:
    """Something else of the same kind."""
    match value:
        case bool():
            return st.just(not value)
        case VoteKind():
            return st.just(VoteKind.WITHDRAW)
        case str():
            return st.text(st.characters(exclude_categories=("Cs",)), max_size=70).filter(lambda text: text != value)
        case Leave():
            return st.builds(
                Leave,
                roles=st.sampled_from([("admin",), ("operator",), ()]),
                scopes=st.sampled_from([(DECIDE,), (DECIDE, "more"), ()]),
                is_listed=st.booleans(),
            ).filter(lambda leave: leave != value)
        case _:
            return st.integers(1, 10**9).map(lambda n: value + n * MICROSECOND)


@pytest.mark.req("H020", "B043", "B044", "B056")
@pytest.mark.parametrize("is_closed", [False, True], ids=["while it waits", "once it is closed"])
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_any_changed_field_of_any_vote_is_refused(is_closed: bool, data: st.DataObject) -> None:
    asyncio.run(_any_changed_field(is_closed, data))


async def _any_changed_field(is_closed: bool, data: st.DataObject) -> None:
    ran: list[str] = []

    async def write(word: str) -> str:
        ran.append(word)
        return word

    tool = placet.tool(effect="write", risk="medium", permission="ops.write", name="write", approval="always")(write)
    agent = Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=("ops.write",))
    opening = placet.open(
        tools=[tool], store=placet.MEMORY, policy=quorum(), clock=FakeClock(), recovery=placet.Recovery.MANUAL
    )
    async with opening as gate:
        proposal = {"call_id": "c1", "tool": "write", "arguments": {"word": "x"}}
        waiting = await gate.submit(proposal, principal=agent, run="r1")
        assert isinstance(waiting, AwaitingApproval)
        digest = (await gate.desk.show(waiting.approval_id, by=ANN)).digest
        for who in (ANN, BEN) if is_closed else (ANN,):
            await gate.desk.approve(waiting.approval_id, digest=digest, by=who)
        store: Any = gate.store
        cast: dict[Any, SignedVote] = store._tables.cast
        key = data.draw(st.sampled_from(sorted(cast)))
        signed = cast[key]
        names = [field.name for field in dataclasses.fields(Vote)] + ["value", "key_id"]
        name = data.draw(st.sampled_from(names))
        if name in ("value", "key_id"):
            mac = data.draw(sample_of(getattr(signed.signature, name)))
            cast[key] = dataclasses.replace(signed, signature=dataclasses.replace(signed.signature, **{name: mac}))
        else:
            changed = data.draw(sample_of(getattr(signed.vote, name)))
            cast[key] = dataclasses.replace(signed, vote=dataclasses.replace(signed.vote, **{name: changed}))

        with pytest.raises(DecisionRefused) as caught:
            await gate.desk.show(waiting.approval_id, by=CAT)
        assert caught.value.code == "approval_suspect"
        with pytest.raises(DecisionRefused):
            await gate.desk.approve(waiting.approval_id, digest=digest, by=CAT)
        assert await gate.desk.listed(by=CAT) == ()
        outcome = await gate.submit(proposal, principal=agent, run="r1")
        assert outcome.code == ("approval_suspect" if is_closed else "approval_required")
        assert ran == []


FORGED = Mac(key_id="k-none", value="0" * 64)


def of_another(world: World, waiting: AwaitingApproval) -> SignedVote:
    """A vote that was truly signed, on another question."""
    (other,) = [each for key, each in rows_of(world).items() if key[1] != waiting.approval_id]
    return other


TAMPERINGS: dict[str, Callable[[World, AwaitingApproval, dict[Any, SignedVote]], None]] = {
    "a vote is gone": lambda w, a, rows: rows.__delitem__(("acme", a.approval_id, "ann", VoteKind.APPROVE)),
    "a vote is added": lambda w, a, rows: rows.__setitem__(
        ("acme", a.approval_id, "zoe", VoteKind.APPROVE), next(iter(rows.values()))
    ),
    "a vote of another question is put in": lambda w, a, rows: rows.__setitem__(
        ("acme", a.approval_id, "ann", VoteKind.APPROVE), of_another(w, a)
    ),
    "a vote stands twice": lambda w, a, rows: rows.__setitem__(
        ("acme", a.approval_id, "ben", VoteKind.APPROVE), rows["acme", a.approval_id, "ann", VoteKind.APPROVE]
    ),
}


@pytest.mark.req("H020", "B056")
@pytest.mark.parametrize("what", TAMPERINGS)
async def test_a_closed_quorum_is_its_very_votes(open_world: OpenWorld, spy: Spy, what: str) -> None:
    world, waiting = await asked(open_world, spy)
    other = await world.submit("write", {"word": "y"}, call_id="c2")
    assert isinstance(other, AwaitingApproval)
    await vote(world, other, ANN)
    await vote(world, waiting, ANN)
    await vote(world, waiting, BEN)

    TAMPERINGS[what](world, waiting, rows_of(world))
    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approval_suspect", ("votes_forged",), 0)
    assert world.events("approval_suspect")[0]["approval_id"] == waiting.approval_id
    assert await world.effects() == ()


async def test_votes_that_vanish_after_they_were_verified_spend_nothing(open_world: OpenWorld, spy: Spy) -> None:
    class Vanishing:
        def __init__(self, store: Any) -> None:
            self._store = store
            self.looks = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def votes(self, *names: Any) -> tuple[SignedVote, ...]:
            self.looks += 1
            found: tuple[SignedVote, ...] = await self._store.votes(*names)
            return found if self.looks == 1 else found[:1]

    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)
    await vote(world, waiting, BEN)
    gate: Any = world.gate
    gate._path._approver._store = Vanishing(gate._path._approver._store)

    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approver_not_entitled", ("votes_forged",), 0)
    assert world.events("approval_suspect")[0]["approval_id"] == waiting.approval_id


async def test_a_state_that_somebody_wrote_is_no_quorum(open_world: OpenWorld, spy: Spy) -> None:
    """One vote and a signed answer of an ordinary review do not make one, whatever the row says."""
    world, waiting = await asked(open_world, spy)
    await vote(world, waiting, ANN)
    tables: Any = world.gate.store
    (row,) = tables._tables.approvals.values()
    tables._tables.approvals["acme", waiting.approval_id] = dataclasses.replace(row, state=ApprovalState.APPROVED)

    assert (await world.submit("write", {"word": "x"})).code == "approval_suspect"
    assert spy.count == 0


@pytest.mark.case("E16")
def test_a_vote_of_a_retired_key_counts_no_more_and_is_no_alarm(tmp_path: Path) -> None:
    """Another process may have voted with a key that was not the newest any more."""
    clock = FakeClock()
    path = tmp_path / "placet.key"
    before = create_key_file(path)
    old = before.current
    asked = a_question(asked_at=clock.now(), requirement=RequirementKind.QUORUM, terms=placet.Terms(rule="r", votes=2))
    leave = Leave(roles=(), scopes=(DECIDE,), is_listed=False)
    early = Signing(before).vote(asked, VoteKind.APPROVE, by=ANN, leave=leave, now=clock.now(), reason="")
    shelf = KeyFile(path)
    with shelf.held():
        shelf.add_current(at=clock.now())
    keys = load_key_file(path)
    late = Signing(keys).vote(asked, VoteKind.APPROVE, by=BEN, leave=leave, now=clock.now(), reason="")
    approve = ApprovalDecision.APPROVE
    answer = Signing(keys).answer(asked, approve, by=BEN, leave=leave, now=clock.now(), reason="", votes=(early, late))
    approval = Approval(
        question=asked,
        question_mac=Signing(keys).question(asked),
        state=ApprovalState.APPROVED,
        answer=answer.answer,
        signature=answer.signature,
        spent_at=None,
    )
    assert sound_votes(asked, (early, late), keys) == (early, late)
    assert verify_quorum(approval, (early, late), keys) is None

    with shelf.held():
        shelf.retire(old, at=clock.now())
    keys = load_key_file(path)

    assert sound_votes(asked, (early, late), keys) == (late,)
    assert verify_quorum(approval, (early, late), keys) is Misfit.KEY_RETIRED
    forged = dataclasses.replace(late, signature=FORGED)
    assert sound_votes(asked, (early, forged), keys) is Misfit.VOTES_FORGED
    assert verify_quorum(approval, (early, forged), keys) is Misfit.VOTES_FORGED
