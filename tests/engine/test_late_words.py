"""Decisions that come late, from elsewhere, or about what could never be decided."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from placet import ApprovalState, AwaitingApproval, Matrix, Principal, Refused, Requirement, RequirementKind, Succeeded
from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Allow, Ask, Decision, Deny, Entitled, Entitlement, Terms
from placet.model.identifiers import PolicyVersion
from placet.rules.policy import DECIDE_SCOPE
from placet.testing import FakeClock
from tests.engine.conftest import ADMIN, APPROVER, OTHER_APPROVER, SCOPE, OpenWorld, Spy, written
from tests.engine.people import refusal

WITHIN = 60.0
EDITOR = Principal.person("edith", tenant="acme", roles=("admin",), scopes=(DECIDE_SCOPE, SCOPE))


class Engine:
    """Stands where somebody's own policy engine stands: it thinks for a while, and wants more of larger calls."""

    version = PolicyVersion("shop-1")
    timeout_seconds = None

    def __init__(self, clock: FakeClock, *, votes: int = 0) -> None:
        self.clock, self.seconds = clock, 0.0
        kind = RequirementKind.QUORUM if votes else RequirementKind.REVIEW
        terms = Terms(rule="any", votes=votes) if votes else None
        self.small = Requirement(decide_within_seconds=WITHIN, kind=kind, terms=terms)
        self.large = Requirement(kind=RequirementKind.QUORUM, terms=Terms(rule="large", votes=2))

    async def decide(self, call: Call) -> Decision:
        requirement = self.large if call.arguments.get("count", 0) > 100 else self.small
        return Ask(reasons=("shop_asks",), policy_version=self.version, requirement=requirement)

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return True

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        self.clock.advance(self.seconds)
        return Entitled()


@pytest.mark.parametrize("verb", ["approve", "deny", "vote", "edit"])
async def test_the_clock_is_read_after_the_policy_that_took_its_time(
    open_world: OpenWorld, spy: Spy, verb: str
) -> None:
    clock = FakeClock()
    engine = Engine(clock, votes=2 if verb == "vote" else 0)
    world = await open_world(written(spy), policy=engine, clock=clock)
    waiting = await world.submit("write", {"word": "x"}, principal=ADMIN)
    assert isinstance(waiting, AwaitingApproval)
    desk, said = world.gate.desk, {"digest": (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).digest}
    clock.advance(WITHIN - 1)
    engine.seconds = 2.0

    act: Any = desk.edit if verb == "edit" else desk.deny if verb == "deny" else desk.approve
    more = {"arguments": {"word": "y"}} if verb == "edit" else {}
    assert await refusal(act(waiting.approval_id, **said, **more, by=EDITOR)) == "approval_expired"

    engine.seconds = 0.0
    assert (await desk.show(waiting.approval_id, by=EDITOR)).state is ApprovalState.EXPIRED
    assert spy.count == 0


async def test_an_edit_needs_what_policy_wants_of_the_new_call(open_world: OpenWorld, spy: Spy) -> None:
    clock = FakeClock()
    world = await open_world(written(spy), policy=Engine(clock), clock=clock)
    waiting = await world.submit("write", {"word": "x", "count": 50}, principal=ADMIN)
    assert isinstance(waiting, AwaitingApproval)
    desk = world.gate.desk
    digest = (await desk.show(waiting.approval_id, by=EDITOR)).digest

    larger = await desk.edit(waiting.approval_id, digest=digest, arguments={"word": "x", "count": 5_000}, by=EDITOR)

    assert (larger.requirement, larger.votes_needed) == ("quorum", 2)
    assert "edited_by_a_person" in larger.reasons
    for person in (APPROVER, OTHER_APPROVER):
        view = await desk.approve(larger.approval_id, digest=larger.digest, by=person)
    assert view.state is ApprovalState.APPROVED
    outcome = await world.submit("write", {"word": "x", "count": 5_000}, principal=ADMIN, call_id="c2")
    assert isinstance(outcome, Succeeded)
    assert spy.count == 1


async def test_an_edit_that_policy_would_simply_let_the_editor_do_needs_what_was_wanted_before(
    open_world: OpenWorld, spy: Spy
) -> None:
    class Lenient(Engine):
        async def decide(self, call: Call) -> Decision:
            if call.principal.subject == EDITOR.subject:
                return Allow(reasons=(), policy_version=self.version, requirement=self.small)
            return Ask(reasons=("shop_asks",), policy_version=self.version, requirement=self.large)

    clock = FakeClock()
    world = await open_world(written(spy), policy=Lenient(clock), clock=clock)
    waiting = await world.submit("write", {"word": "x"}, principal=ADMIN)
    assert isinstance(waiting, AwaitingApproval)
    digest = (await world.gate.desk.show(waiting.approval_id, by=EDITOR)).digest

    edited = await world.gate.desk.edit(waiting.approval_id, digest=digest, arguments={"word": "y"}, by=EDITOR)

    assert (edited.requirement, edited.votes_needed) == ("quorum", 2)


async def test_a_confirmation_that_nobody_could_give_is_denied_at_once(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(requirement=Requirement(kind=RequirementKind.CONFIRM))
    world = await open_world(written(spy, risk="high"), policy=policy)

    outcome = await world.submit("write", {"word": "x"}, principal=ADMIN)

    assert isinstance(outcome, Refused) and outcome.code == "denied"
    assert outcome.reasons == ("matrix_admin_high", "nobody_confirms")
    assert await world.gate.desk.pending(by=APPROVER) == ()
    word = await world.gate.explain(
        {"tool": "write", "arguments": {"word": "x"}, "call_id": "c"}, principal=ADMIN, run="r"
    )
    assert isinstance(word, Deny)


@pytest.mark.parametrize("is_approved", [False, True])
async def test_whoever_signs_in_elsewhere_takes_nothing_back(
    open_world: OpenWorld, spy: Spy, is_approved: bool
) -> None:
    world = await open_world(written(spy, approval="always"))
    waiting = await world.submit("write", {"word": "x"})
    assert isinstance(waiting, AwaitingApproval)
    if is_approved:
        await world.approve(waiting)

    for person in (APPROVER, OTHER_APPROVER):
        elsewhere = dataclasses.replace(person, environment="staging")
        assert await refusal(world.gate.desk.withdraw(waiting.approval_id, by=elsewhere)) == "other_environment"

    state = ApprovalState.APPROVED if is_approved else ApprovalState.PENDING
    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state is state
