"""Who may decide: asked when somebody decides, and again before what it approved is spent."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import ApprovalState, Approvers, AskRule, AskRules, AwaitingApproval, Matrix, Principal, Refused, Succeeded
from placet.engine.deciding import LONGEST_DECIDING_SECONDS
from placet.errors import MisuseError, PolicyFileError
from placet.model.decision import Entitled, Entitlement, NotEntitled
from placet.model.principal import Role
from placet.testing import FakeClock
from tests.engine.conftest import ADMIN, APPROVER, OTHER_APPROVER, OpenWorld, Spy, World, written
from tests.engine.people import ListedPeople, refusal

DECIDE = "approvals.decide"
LEAD = Principal.person("lena", tenant="acme", roles=("admin",), scopes=(DECIDE, "finance.approve"))


def rules(*, name: str = "payments", **changes: Any) -> AskRules:
    return AskRules(rules=(AskRule(name=name, tools=frozenset({"write"}), **changes),))


async def asked(open_world: OpenWorld, spy: Spy, **more: Any) -> tuple[World, AwaitingApproval]:
    world = await open_world(written(spy, approval="always"), **more)
    outcome = await world.submit("write", {"word": "x"})
    assert isinstance(outcome, AwaitingApproval)
    return world, outcome


async def decide(world: World, waiting: AwaitingApproval, *, by: Principal, reason: str = "") -> Any:
    view = await world.gate.desk.show(waiting.approval_id, by=by)
    return await world.gate.desk.approve(waiting.approval_id, digest=view.digest, by=by, reason=reason)


# ---------------------------------------------------------------- lost between approving and spending


LOSSES: dict[str, tuple[Callable[[ListedPeople], None], str]] = {
    "it left the list": (lambda people: people.remove(LEAD), "not_listed_any_more"),
    "it lost the scope": (
        lambda people: people.put(dataclasses.replace(LEAD, scopes=frozenset({"finance.approve"}))), "scope_missing"
    ),
    "it lost the role": (
        lambda people: people.put(dataclasses.replace(LEAD, roles=frozenset({Role.VIEWER}))), "not_an_approver"
    ),
    "it lost the scope of the rule": (
        lambda people: people.put(dataclasses.replace(LEAD, scopes=frozenset({DECIDE}))), "not_an_approver"
    ),
    "it became an agent": (
        lambda people: people.put(Principal.agent("lena", tenant="acme", roles=("admin",), scopes=tuple(LEAD.scopes))),
        "not_a_person",
    ),
    "it works elsewhere now": (
        lambda people: people.put(dataclasses.replace(LEAD, environment="staging")), "other_environment"
    ),
}  # fmt: skip
APPROVERS = Approvers(roles=frozenset({Role.ADMIN}), scopes=frozenset({"finance.approve"}))


@pytest.mark.req("H017", "H023", "B064")
@pytest.mark.parametrize("what", LOSSES)
async def test_whoever_lost_its_leave_since_has_approved_nothing(
    open_world: OpenWorld, spy: Spy, where: str, what: str
) -> None:
    lose, code = LOSSES[what]
    people = ListedPeople(LEAD)
    policy = Matrix(asks=rules(approvers=APPROVERS))
    world, waiting = await asked(open_world, spy, store=where, policy=policy, people=people)
    await decide(world, waiting, by=LEAD)

    lose(people)
    outcome = await world.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, outcome.retryable) == ("approver_not_entitled", (code,), True)
    assert (spy.count, await world.effects()) == (0, ())
    (refused,) = world.events("decision_refused")
    assert (refused["detail"], refused["decided_by"], refused["approval_id"]) == (code, "lena", waiting.approval_id)
    assert world.events("approval_withdrawn")[0]["detail"] == code
    assert world.events("approval_spent") == []
    view = await world.gate.desk.show(waiting.approval_id, by=APPROVER)
    assert view.state is ApprovalState.REVOKED

    people.put(LEAD)
    again = await world.submit("write", {"word": "x"})
    assert isinstance(again, AwaitingApproval)
    await decide(world, again, by=LEAD)
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert spy.count == 1


async def test_whoever_is_still_what_it_was_has_its_approval_spent(open_world: OpenWorld, spy: Spy, where: str) -> None:
    policy = Matrix(asks=rules(approvers=APPROVERS))
    world, waiting = await asked(open_world, spy, store=where, policy=policy, people=ListedPeople(LEAD))
    await decide(world, waiting, by=LEAD)

    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)
    assert world.events("decision_refused") == []


async def test_of_somebody_whom_no_list_has_the_signed_leave_is_all_that_is_known(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    people = ListedPeople()
    world, waiting = await asked(open_world, spy, store=store, people=people)
    await decide(world, waiting, by=LEAD)
    people.put(dataclasses.replace(LEAD, scopes=frozenset()))  # another lena: she was in no list when she decided

    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_the_list_counts_in_a_process_that_did_not_see_the_decision(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    deciding, waiting = await asked(open_world, spy, store=store, people=ListedPeople(LEAD))
    await decide(deciding, waiting, by=LEAD)
    spending = await open_world(written(spy, approval="always"), store=store, people=ListedPeople(), seed=1)

    outcome = await spending.submit("write", {"word": "x"})

    assert (outcome.code, spy.count) == ("approver_not_entitled", 0)


async def test_a_process_that_keeps_no_list_spends_what_somebody_listed_elsewhere_approved(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    deciding, waiting = await asked(open_world, spy, store=store, people=ListedPeople(LEAD))
    await decide(deciding, waiting, by=LEAD)
    spending = await open_world(written(spy, approval="always"), store=store, seed=1)

    assert isinstance(await spending.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.parametrize("fault", [RuntimeError("s3cr3t"), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_a_list_that_fails_says_no_and_voids_nothing(
    open_world: OpenWorld, spy: Spy, fault: BaseException
) -> None:
    people = ListedPeople(LEAD)
    world, waiting = await asked(open_world, spy, people=people)
    await decide(world, waiting, by=LEAD)

    people.fault = fault
    outcome = await world.submit("write", {"word": "x"})
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approver_not_entitled", ("people_failed",), 0)
    assert (await world.gate.store.approval("acme", waiting.approval_id)).state is ApprovalState.APPROVED  # type: ignore[union-attr]
    assert world.events("decision_refused")[0]["detail"] == "people_failed"

    people.fault = None
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.parametrize("fault", [RuntimeError("s3cr3t"), asyncio.CancelledError()])
async def test_nobody_decides_while_the_list_fails(open_world: OpenWorld, spy: Spy, fault: BaseException) -> None:
    people = ListedPeople(LEAD)
    world, waiting = await asked(open_world, spy, people=people)
    people.fault = fault

    assert await refusal(decide(world, waiting, by=LEAD)) == "people_failed"
    assert (await world.gate.desk.show(waiting.approval_id, by=LEAD)).why_not == "people_failed"


async def test_the_list_narrows_what_a_sign_in_says(open_world: OpenWorld, spy: Spy) -> None:
    people = ListedPeople(dataclasses.replace(LEAD, scopes=frozenset()))
    world, waiting = await asked(open_world, spy, people=people)

    assert await refusal(decide(world, waiting, by=LEAD)) == "scope_missing"


async def test_a_list_widens_nothing(open_world: OpenWorld, spy: Spy) -> None:
    people = ListedPeople(LEAD)
    world, waiting = await asked(open_world, spy, people=people)

    bare = dataclasses.replace(LEAD, scopes=frozenset())
    assert await refusal(decide(world, waiting, by=bare)) == "scope_missing"


async def test_a_list_that_says_somebody_else_says_nothing(open_world: OpenWorld, spy: Spy) -> None:
    class Confused(ListedPeople):
        async def person(self, tenant: str, subject: str) -> Principal | None:
            return OTHER_APPROVER

    world, waiting = await asked(open_world, spy, people=Confused())

    assert await refusal(decide(world, waiting, by=LEAD)) == "people_failed"


# ---------------------------------------------------------------- the policy's word


class Telling(Matrix):
    """The matrix, with a word of its own about who may decide."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        object.__setattr__(self, "answer", answer)

    async def may_decide(self, question: Any, person: Any) -> Any:
        answer = self.answer  # type: ignore[attr-defined]
        if isinstance(answer, BaseException):
            raise answer
        return await answer() if asyncio.iscoroutinefunction(answer) else answer


async def hanging() -> Entitlement:
    await asyncio.Event().wait()
    return Entitled()


def unmade() -> NotEntitled:
    return object.__new__(NotEntitled)


NOT_A_YES: dict[str, tuple[Callable[[], Any], str]] = {
    "no": (lambda: NotEntitled(code="on_holiday"), "on_holiday"),
    "a no with words": (lambda: NotEntitled(code="s3cr3t words \n"), "policy_failed"),
    "a no of no text": (lambda: NotEntitled(code=7), "policy_failed"),  # type: ignore[arg-type]
    "a no without its code": (unmade, "policy_failed"),
    "nothing": (lambda: None, "policy_failed"),
    "true": (lambda: True, "policy_failed"),
    "the class of a yes": (lambda: Entitled, "policy_failed"),
    "a fault": (lambda: RuntimeError("s3cr3t"), "policy_failed"),
    "a made-up cancellation": (asyncio.CancelledError, "policy_failed"),
}


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize("what", NOT_A_YES)
async def test_only_a_yes_of_the_policy_is_one(open_world: OpenWorld, spy: Spy, what: str) -> None:
    make, code = NOT_A_YES[what]
    policy = Telling(make())
    world, waiting = await asked(open_world, spy, policy=policy)

    assert await refusal(decide(world, waiting, by=LEAD)) == code
    assert (await world.gate.desk.show(waiting.approval_id, by=LEAD)).why_not == code
    assert [event["detail"] for event in world.events("decision_refused")] == [code]
    assert b"s3cr3t" not in world.bodies()

    object.__setattr__(policy, "answer", Entitled())
    await decide(world, waiting, by=LEAD)
    object.__setattr__(policy, "answer", make())
    outcome = await world.submit("write", {"word": "x"})
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, spy.count) == ("approver_not_entitled", (code,), 0)
    row = await world.gate.store.approval("acme", waiting.approval_id)
    assert row is not None
    assert row.state is (ApprovalState.APPROVED if code == "policy_failed" else ApprovalState.REVOKED)


async def test_a_policy_that_does_not_answer_in_its_time_says_no(open_world: OpenWorld, spy: Spy) -> None:
    class Slow(Telling):
        @property
        def timeout_seconds(self) -> float | None:
            return 0.02

    world, waiting = await asked(open_world, spy, policy=Slow(hanging))

    assert await refusal(decide(world, waiting, by=LEAD)) == "policy_failed"


async def test_a_policy_that_names_no_time_has_the_rest_of_the_callers(open_world: OpenWorld, spy: Spy) -> None:
    policy = Telling(Entitled())
    world, waiting = await asked(open_world, spy, policy=policy)
    await decide(world, waiting, by=LEAD)
    object.__setattr__(policy, "answer", hanging)

    async with asyncio.timeout(LONGEST_DECIDING_SECONDS / 2):
        outcome = await world.submit("write", {"word": "x"}, timeout_seconds=0.05)

    assert (outcome.code, spy.count) == ("approver_not_entitled", 0)


@pytest.mark.req("H017")
@pytest.mark.parametrize(
    ("who", "code"),
    [
        (dataclasses.replace(LEAD, subject="agent-operator"), "own_request"),
        (dataclasses.replace(LEAD, scopes=frozenset()), "scope_missing"),
        (dataclasses.replace(LEAD, environment="staging"), "other_environment"),
        (Principal.agent("lena", tenant="acme", scopes=(DECIDE,)), "not_a_person"),
    ],
)
async def test_a_yes_of_the_policy_widens_nothing(open_world: OpenWorld, spy: Spy, who: Principal, code: str) -> None:
    world, waiting = await asked(open_world, spy, policy=Telling(Entitled()))
    digest = (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).digest

    assert await refusal(world.gate.desk.approve(waiting.approval_id, digest=digest, by=who)) == code


def test_an_engine_that_cannot_say_who_may_decide_is_refused_at_once() -> None:
    class Old:
        version = "v1"
        timeout_seconds = None

        async def decide(self, call: Any) -> Any: ...
        def is_listed(self, contract: Any, principal: Any) -> bool:
            return True

    with pytest.raises(MisuseError, match="may_decide"):
        placet.open(tools=[], store=placet.MEMORY, policy=Old())  # type: ignore[arg-type]


# ---------------------------------------------------------------- the rules of a file


async def test_a_rule_says_who_may_approve(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(asks=rules(approvers=Approvers(subjects=frozenset({"lena"}))))
    world, waiting = await asked(open_world, spy, policy=policy)

    assert await refusal(decide(world, waiting, by=APPROVER)) == "not_an_approver"
    view = await decide(world, waiting, by=LEAD)

    assert (view.state, view.rule, view.requirement) == (ApprovalState.APPROVED, "payments", "review")
    assert view.reasons == ("contract_always_asks", "rule:payments")
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


async def test_a_rule_never_names_a_requester_into_approving(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(asks=rules(approvers=Approvers(subjects=frozenset({"agent-operator", "lena"}))))
    world, waiting = await asked(open_world, spy, policy=policy)
    own = Principal.person("agent-operator", tenant="acme", scopes=(DECIDE,))

    assert await refusal(decide(world, waiting, by=own)) == "own_request"


@pytest.mark.req("H014", "H018")
@pytest.mark.case("D07")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_changed_rule_asks_open_questions_again(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, approved: bool
) -> None:
    store = str(tmp_path / "p.db")
    old, waiting = await asked(open_world, spy, store=store, policy=Matrix(asks=rules()))
    if approved:
        await decide(old, waiting, by=LEAD)
    stricter = Matrix(asks=rules(approvers=Approvers(subjects=frozenset({"lena"}))))
    new = await open_world(written(spy, approval="always"), store=store, policy=stricter, seed=1)

    outcome = await new.submit("write", {"word": "x"})

    assert isinstance(outcome, AwaitingApproval)
    assert (outcome.approval_id != waiting.approval_id, spy.count) == (True, 0)
    assert new.events("approval_withdrawn")[0]["detail"] == "policy_changed"


async def test_a_denial_stands_although_other_rules_asked_again_meanwhile_and_nobody_answered(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store, clock = str(tmp_path / "p.db"), FakeClock()
    old, waiting = await asked(open_world, spy, store=store, clock=clock, policy=Matrix(asks=rules()))
    await old.deny(waiting, by=LEAD)
    stricter = Matrix(asks=rules(approvers=Approvers(subjects=frozenset({"lena"}))))
    new = await open_world(written(spy, approval="always"), store=store, clock=clock, policy=stricter, seed=1)
    clock.advance(1)
    assert isinstance(await new.submit("write", {"word": "x"}), AwaitingApproval), "these rules have not been answered"
    clock.advance(2 * 86_400)

    outcome = await old.submit("write", {"word": "x"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, spy.count) == ("approval_denied", 0)
    assert (len(old.events("approval_asked")), len(old.events("approval_expired"))) == (2, 1)


@pytest.mark.parametrize(
    ("here", "code"),
    [
        (Matrix(), "policy_changed"),
        (Matrix(asks=rules(votes=1, reason_to_deny=True)), "policy_changed"),
        (Matrix(asks=rules(name="other")), "policy_changed"),
    ],
)
async def test_nobody_decides_by_rules_that_did_not_ask(
    open_world: OpenWorld, spy: Spy, tmp_path: Path, here: Matrix, code: str
) -> None:
    store = str(tmp_path / "p.db")
    _, waiting = await asked(open_world, spy, store=store, policy=Matrix(asks=rules()))
    other = await open_world(written(spy, approval="always"), store=store, policy=here, seed=1)

    assert await refusal(decide(other, waiting, by=LEAD)) == code


async def test_a_question_of_no_rule_is_decided_by_whoever_has_the_same_policy(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    asks = AskRules(rules=(AskRule(name="others", tools=frozenset({"something_else"})),))
    world, waiting = await asked(open_world, spy, store=store, policy=Matrix(asks=asks))
    without = await open_world(written(spy, approval="always"), store=store, seed=1)
    with_others = await open_world(written(spy, approval="always"), store=store, seed=2, policy=Matrix(asks=rules()))

    assert (await world.gate.desk.show(waiting.approval_id, by=LEAD)).rule is None
    assert await refusal(decide(with_others, waiting, by=LEAD)) == "policy_changed"
    assert (await decide(without, waiting, by=LEAD)).state is ApprovalState.APPROVED, "as before there were files"
    assert isinstance(await world.submit("write", {"word": "x"}), Succeeded)


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_rule_may_want_a_reason(open_world: OpenWorld, spy: Spy, decision: str) -> None:
    wanted: dict[str, Any] = {f"reason_to_{decision}": True}
    policy = Matrix(asks=rules(**wanted))
    world, waiting = await asked(open_world, spy, policy=policy)
    view = await world.gate.desk.show(waiting.approval_id, by=LEAD)
    decide_it = getattr(world.gate.desk, decision)

    assert view.needs_reason == (decision,)
    for reason in ("", "  \n"):
        work = decide_it(waiting.approval_id, digest=view.digest, by=LEAD, reason=reason)
        assert await refusal(work) == "reason_missing"
    view = await decide_it(waiting.approval_id, digest=view.digest, by=LEAD, reason="because")

    assert view.words == "because"


async def test_a_rules_clocks_are_the_questions(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(asks=rules(decide_within_seconds=60, usable_for_seconds=10))
    world, waiting = await asked(open_world, spy, policy=policy)
    view = await world.gate.desk.show(waiting.approval_id, by=LEAD)
    assert (view.decide_by - view.asked_at).total_seconds() == 60

    view = await decide(world, waiting, by=LEAD)
    assert view.expires_at is not None and view.decided_at is not None
    assert (view.expires_at - view.decided_at).total_seconds() == 10
    world.clock.advance(10)
    assert isinstance(await world.submit("write", {"word": "x"}), AwaitingApproval)


async def test_a_confirmation_by_a_rule_is_the_requesting_users(open_world: OpenWorld, spy: Spy) -> None:
    policy = Matrix(asks=rules(needs=placet.RequirementKind.CONFIRM))
    world = await open_world(written(spy, approval="always"), policy=policy)
    uma = Principal.person("uma", tenant="acme", roles=("admin",), scopes=("ops.write",))
    agent = dataclasses.replace(ADMIN, on_behalf_of=uma)
    waiting = await world.submit("write", {"word": "x"}, principal=agent)
    assert isinstance(waiting, AwaitingApproval)

    assert await refusal(decide(world, waiting, by=LEAD)) == "not_the_requesting_user"
    await decide(world, waiting, by=uma)
    assert isinstance(await world.submit("write", {"word": "x"}, principal=agent), Succeeded)


async def test_the_view_says_who_of_the_listed_may_decide(open_world: OpenWorld, spy: Spy) -> None:
    class EveryTenants(ListedPeople):
        async def people(self, tenant: str) -> tuple[Principal, ...]:
            return tuple(self.listed.values())

    people = EveryTenants(LEAD, APPROVER, OTHER_APPROVER, Principal.person("zoe", tenant="acme"))
    people.put(Principal.person("zara", tenant="globex", roles=("admin",), scopes=tuple(LEAD.scopes)))
    policy = Matrix(asks=rules(approvers=Approvers(roles=frozenset({Role.ADMIN}), subjects=frozenset({"omar"}))))
    world, waiting = await asked(open_world, spy, policy=policy, people=people)

    view = await world.gate.desk.show(waiting.approval_id, by=LEAD)
    assert view.who_may == ("lena", "omar")
    assert [each.who_may for each in await world.gate.desk.pending(by=LEAD)] == [()]
    assert (await decide(world, waiting, by=LEAD)).who_may == ()


async def test_a_gate_opens_with_the_path_of_a_file(open_world: OpenWorld, spy: Spy, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        '[[ask]]\nname = "payments"\ntools = ["write"]\nneeds = "review"\napprovers = {subjects=["lena"]}\n'
    )
    for policy in (file, str(file)):
        world, waiting = await asked(open_world, spy, policy=policy)
        assert await refusal(decide(world, waiting, by=APPROVER)) == "not_an_approver"


def test_a_file_that_is_wrong_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[[ask]]\nname = "payments"\nneeds = "review"\naprovers = {subjects=["lena"]}\n')

    with pytest.raises(PolicyFileError) as caught:
        placet.open(tools=[], store=placet.MEMORY, policy=file)

    assert str(caught.value) == f"{file}:4: an unknown member 'aprovers' at a rule."
    assert caught.value.hint.startswith("Did you mean 'approvers'?")
    assert caught.value.code == "policy_invalid"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: None, "policy_missing"),
        (lambda path: path.mkdir(), "policy_unreadable"),
        (lambda path: path.write_bytes(b"\xff"), "policy_invalid"),
        (lambda path: path.write_bytes(b"#" * 1_000_001), "policy_invalid"),
    ],
    ids=["absent", "a folder", "no text", "too large"],
)
def test_a_file_that_cannot_be_read_opens_nothing(tmp_path: Path, make: Callable[[Path], Any], code: str) -> None:
    file = tmp_path / "policy.toml"
    make(file)

    with pytest.raises(PolicyFileError) as caught:
        placet.open(tools=[], store=placet.MEMORY, policy=file)

    assert (caught.value.code, bool(caught.value.hint), caught.value.__cause__) == (code, True, None)
