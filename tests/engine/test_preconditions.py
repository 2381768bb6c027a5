"""An approval that is bound to the state it was given in: compared as late as can be, void where that has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import (
    ApprovalState,
    AwaitingApproval,
    CallContext,
    GateSettings,
    NotAsked,
    Principal,
    ProbeContext,
    Refused,
    Replayed,
    Succeeded,
    Tool,
)
from placet.adapters.clock import SystemClock
from placet.errors import ContractError
from tests.engine import process_tools
from tests.engine.conftest import ADMIN, APPROVER, OPERATOR, OTHER_APPROVER, SCOPE, OpenWorld, World
from tests.engine.people import refusal

SETTINGS = GateSettings(grace_seconds=0.05, probe_seconds=0.2)
EDITOR = Principal.person("edith", tenant="acme", roles=("operator",), scopes=("approvals.decide", SCOPE))


@dataclass
class Account:
    """What a call would close, in some version, and what was read and done of it.

    Attributes:
        says: what a look answers, where it is not the version.
        looks: the arguments of every look.
        closed: what the handler was handed, in order.
    """

    version: int = 12
    says: Callable[[], Any] | None = None
    looks: list[Any] = field(default_factory=list)
    closed: list[Any] = field(default_factory=list)

    async def look(self, asked: ProbeContext) -> Any:
        self.looks.append((asked.tenant, asked.arguments))
        if self.says is None:
            return {"version": self.version}
        answer = self.says()
        return await answer if hasattr(answer, "__await__") else answer

    def tool(self, **options: Any) -> Tool:
        async def close(account: str, context: CallContext) -> str:
            self.closed.append(context.precondition)
            return "closed"

        settings: dict[str, Any] = {
            "effect": "write",
            "risk": "medium",
            "permission": SCOPE,
            "approval": "always",
            "precondition": self.look,
        }
        return placet.tool(**(settings | options))(close)


@pytest.fixture
def account() -> Account:
    return Account()


async def asked(world: World, **more: Any) -> AwaitingApproval:
    outcome = await world.submit("close", {"account": "a-1"}, **more)
    assert isinstance(outcome, AwaitingApproval), outcome
    return outcome


async def state_of(world: World, waiting: AwaitingApproval) -> ApprovalState:
    return (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state


# ---------------------------------------------------------------- the state, then and now


@pytest.mark.case("E12")
async def test_what_was_approved_in_another_state_does_not_run_and_is_asked_anew(
    open_world: OpenWorld, account: Account, where: str
) -> None:
    world = await open_world(account.tool(), store=where)
    waiting = await asked(world)
    await world.approve(waiting)

    account.version = 13
    anew = await asked(world)

    assert anew.approval_id != waiting.approval_id
    assert "has changed since" in anew.message
    assert (account.closed, await world.effects()) == ([], ())
    assert await state_of(world, waiting) is ApprovalState.REVOKED
    (withdrawn,) = world.events("approval_withdrawn")
    assert (withdrawn["detail"], withdrawn["approval_id"]) == ("state_changed", waiting.approval_id)
    assert world.events("approval_spent") == []
    view = await world.gate.desk.show(anew.approval_id, by=APPROVER)
    assert view.reasons == ("contract_always_asks", "state_changed")

    assert (await asked(world)).approval_id == anew.approval_id, "asking again asks nobody twice"
    await world.approve(anew)
    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [{"version": 13}]


@pytest.mark.case("E12")
async def test_in_the_same_state_it_runs_and_the_handler_has_it_in_hand(
    open_world: OpenWorld, account: Account, where: str
) -> None:
    world = await open_world(account.tool(), store=where)
    await world.approve(await asked(world))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)

    assert account.closed == [{"version": 12}]
    assert account.looks == [("acme", {"account": "a-1"})] * 2, "once for the question, once for the dispatch"
    assert isinstance(await world.submit("close", {"account": "a-1"}), Replayed)
    assert len(account.looks) == 2, "what is on record is answered without a look"


async def test_another_process_compares_with_what_the_first_one_saw(
    open_world: OpenWorld, account: Account, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    first = await open_world(account.tool(), store=store)
    waiting = await asked(first)
    await first.approve(waiting)
    second = await open_world(account.tool(), store=store, seed=1)

    account.version = 13
    anew = await asked(second)
    account.version = 12
    assert (await asked(first)).approval_id == anew.approval_id, "what is void stays void"

    await first.approve(anew)
    assert isinstance(await second.submit("close", {"account": "a-1"}), AwaitingApproval), "it was asked about at 13"
    assert account.closed == []


async def test_a_call_about_which_nobody_is_asked_reads_nothing(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool(approval="by_policy"))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)

    assert (account.looks, account.closed) == ([], [None])


async def test_waiting_reads_nothing_and_neither_does_deciding(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool())
    waiting = await asked(world)
    account.version = 13

    for _ in range(3):
        assert (await asked(world)).approval_id == waiting.approval_id
    await world.approve(waiting)

    assert len(account.looks) == 1


async def test_a_plain_function_looks_in_a_thread(open_world: OpenWorld, account: Account) -> None:
    def look(asked: ProbeContext) -> dict[str, int]:
        return {"version": account.version}

    world = await open_world(account.tool(precondition=look))
    await world.approve(await asked(world))
    account.version = 13
    await world.approve(await asked(world))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [{"version": 13}]


@pytest.mark.parametrize(
    "state", [0, "", [], {}, False, {"version": 2**70}, {"b": [1.0, None], "a": "é"}], ids=lambda each: repr(each)[:16]
)
async def test_any_plain_json_but_null_is_a_state(open_world: OpenWorld, account: Account, state: Any) -> None:
    world = await open_world(account.tool())
    account.says = lambda: state
    await world.approve(await asked(world))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [state]


@pytest.mark.parametrize(
    ("was", "now"),
    [(1, 1.0), (1, True), ({"v": 1}, {"v": "1"}), ({"v": 0}, {"v": 0, "w": None}), ([1, 2], [2, 1]), ("a", "a ")],
    ids=repr,
)
async def test_states_are_told_apart_by_type_too(open_world: OpenWorld, account: Account, was: Any, now: Any) -> None:
    world = await open_world(account.tool())
    account.says = lambda: was
    waiting = await asked(world)
    await world.approve(waiting)
    account.says = lambda: now

    assert (await asked(world)).approval_id != waiting.approval_id
    assert account.closed == []


# ---------------------------------------------------------------- the look fails


def _raises() -> Any:
    raise RuntimeError("canary-4711")


async def _hangs() -> Any:
    await asyncio.Event().wait()


async def _cancels_itself() -> Any:
    raise asyncio.CancelledError


class _Mapping(dict[str, int]):
    def __iter__(self) -> Any:
        raise RuntimeError("canary-4711")


class _Hostile:
    """Its methods raise, its class lies, and it is nobody's to look into."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]  # that is the point
        raise RuntimeError("canary-4711")

    def __eq__(self, other: object) -> bool:
        raise asyncio.CancelledError

    __hash__ = None  # type: ignore[assignment]  # the same


def _bottomless() -> Any:
    root: list[Any] = []
    root.append(root)
    return root


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "it raises": (_raises, "cannot_tell"),
    "it hangs": (_hangs, "cannot_tell"),
    "it cancels itself": (_cancels_itself, "cannot_tell"),
    "it cannot tell": (placet.CannotTell, "cannot_tell"),
    "it says nothing": (lambda: None, "state_broken"),
    "it says what is no JSON": (lambda: {"at": object()}, "state_broken"),
    "it says a number that is none": (lambda: {"balance": float("nan")}, "state_broken"),
    "it says too much": (lambda: "x" * 8_192, "state_broken"),
    "it says something bottomless": (_bottomless, "state_broken"),
    "it says something hostile": (_Hostile, "state_broken"),
    "it says a mapping of its own": (lambda: _Mapping(version=12), "state_broken"),
}


@pytest.mark.case("E12")
@pytest.mark.parametrize("fault", FAULTS)
async def test_where_the_state_cannot_be_read_nothing_runs_and_the_approval_is_kept(
    open_world: OpenWorld, account: Account, fault: str
) -> None:
    says, reason = FAULTS[fault]
    world = await open_world(account.tool(), settings=SETTINGS)
    waiting = await asked(world)
    await world.approve(waiting)

    account.says = says
    outcome = await world.submit("close", {"account": "a-1"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, outcome.retryable, outcome.may_have_acted) == (
        "precondition_unavailable", (reason,), True, False
    )  # fmt: skip
    with pytest.raises(placet.errors.BoundaryUnavailable):
        outcome.unwrap()
    assert (account.closed, await world.effects()) == ([], ())
    assert await state_of(world, waiting) is ApprovalState.APPROVED
    assert world.completed()["detail"] == "precondition_unavailable"

    account.says = None
    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [{"version": 12}]


@pytest.mark.parametrize("fault", FAULTS)
async def test_nobody_is_asked_about_a_state_that_cannot_be_read(
    open_world: OpenWorld, account: Account, fault: str
) -> None:
    account.says, reason = FAULTS[fault]
    world = await open_world(account.tool(), settings=SETTINGS)

    outcome = await world.submit("close", {"account": "a-1"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons, outcome.retryable) == ("precondition_unavailable", (reason,), True)
    assert world.events("approval_asked") == []
    proposal = {"call_id": "c2", "tool": "close", "arguments": {"account": "a-1"}}
    assert await world.gate.ask(proposal, principal=OPERATOR, run="r1") is NotAsked.REFUSED

    account.says = None
    assert isinstance(await world.gate.ask(proposal, principal=OPERATOR, run="r1"), AwaitingApproval)


async def test_a_caller_that_waits_no_longer_leaves_the_approval_as_it_was(
    open_world: OpenWorld, account: Account
) -> None:
    world = await open_world(account.tool())
    waiting = await asked(world)
    await world.approve(waiting)
    looks = asyncio.Event()

    async def hangs() -> Any:
        looks.set()
        await asyncio.Event().wait()

    account.says = hangs
    submitting = asyncio.ensure_future(world.submit("close", {"account": "a-1"}))
    await asyncio.wait_for(looks.wait(), 10)
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting

    assert await state_of(world, waiting) is ApprovalState.APPROVED
    account.says = None
    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [{"version": 12}]


async def test_the_callers_own_patience_bounds_a_look(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool(), settings=GateSettings(grace_seconds=0.05, probe_seconds=3_600.0))
    await world.approve(await asked(world))
    account.says = _hangs

    outcome = await asyncio.wait_for(world.submit("close", {"account": "a-1"}, timeout_seconds=0.1), 60)

    assert outcome.code == "precondition_unavailable"


async def test_looks_that_never_end_are_bounded(open_world: OpenWorld, account: Account) -> None:
    def never_ends() -> Any:
        async def stays() -> Any:
            while not done.is_set():
                try:
                    await done.wait()
                except asyncio.CancelledError:
                    continue

        return stays()

    done = asyncio.Event()
    account.says = never_ends
    settings = GateSettings(grace_seconds=0.05, probe_seconds=0.01)
    world = await open_world(account.tool(), settings=settings)
    try:
        for number in range(12):
            outcome = await world.submit("close", {"account": f"a-{number}"}, call_id=f"c{number}")
            assert outcome.code == "precondition_unavailable"
        assert len(account.looks) == 8
    finally:
        done.set()


# ---------------------------------------------------------------- around the dispatch


async def test_a_changed_state_leaves_its_room_to_others(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool(max_concurrent=1))
    await world.approve(await asked(world))

    account.version = 13
    await world.approve(await asked(world))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)


async def test_further_attempts_are_handed_the_same_state_and_are_not_compared(
    open_world: OpenWorld, account: Account
) -> None:
    handed: list[Any] = []

    async def close(account: str, context: CallContext) -> str:
        handed.append(dict(context.precondition))  # type: ignore[call-overload]  # it is what `look` says
        context.precondition.clear()  # type: ignore[union-attr]
        if context.attempt == 1:
            raise placet.RemoteStatus(503)
        return "closed"

    tool = placet.tool(
        effect="idempotent_write",
        risk="medium",
        permission=SCOPE,
        approval="always",
        precondition=account.look,
        retry=placet.RetryPolicy(initial_delay_seconds=0.001, max_delay_seconds=0.001),
    )(close)
    world = await open_world(tool)
    await world.approve(await asked(world))

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert handed == [{"version": 12}, {"version": 12}]
    assert len(account.looks) == 2


async def test_of_many_at_once_one_acts_whatever_the_others_read(
    open_world: OpenWorld, account: Account, where: str
) -> None:
    world = await open_world(account.tool(), store=where, clock=SystemClock())  # a fake one hurries on as they wait
    await world.approve(await asked(world))

    outcomes = await asyncio.gather(*(world.submit("close", {"account": "a-1"}) for _ in range(16)))

    assert account.closed == [{"version": 12}]
    assert {type(each) for each in outcomes} <= {Succeeded, Replayed, placet.InProgress}


async def test_a_read_that_needs_leave_is_bound_too(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool(effect="sensitive_read"))
    waiting = await asked(world)
    await world.approve(waiting)

    account.version = 13
    assert (await asked(world)).approval_id != waiting.approval_id
    assert account.closed == []


async def test_where_the_budget_lets_nobody_be_asked_anew_the_approval_waits_for_its_state(
    open_world: OpenWorld, account: Account
) -> None:
    settings = GateSettings(grace_seconds=0.05, max_steps=1)
    world = await open_world(account.tool(), settings=settings)
    waiting = await asked(world)
    await world.approve(waiting)

    account.version = 13
    outcome = await world.submit("close", {"account": "a-1"}, call_id="c2")

    assert (outcome.code, account.closed) == ("budget_exhausted", [])
    assert await state_of(world, waiting) is ApprovalState.APPROVED


async def test_a_contract_that_gets_a_precondition_later_is_another_one(
    open_world: OpenWorld, account: Account, tmp_path: Path
) -> None:
    store = str(tmp_path / "p.db")
    before = await open_world(account.tool(precondition=None), store=store)
    waiting = await asked(before)
    await before.approve(waiting)
    after = await open_world(account.tool(), store=store, seed=1)

    assert (await asked(after)).approval_id != waiting.approval_id
    assert account.closed == []


async def test_a_handler_in_a_process_of_its_own_has_the_state_in_hand_too(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    version = tmp_path / "version"
    version.write_text("12")
    world = await open_world(process_tools.close)
    arguments = {"folder": str(tmp_path)}
    await world.approve(await world.submit("close", arguments))
    version.write_text("13")
    await world.approve(await world.submit("close", arguments))

    outcome = await world.submit("close", arguments)

    assert isinstance(outcome, Succeeded)
    assert outcome.result == repr({"version": 13, "wide": 2**70})


# ---------------------------------------------------------------- people


@pytest.mark.case("E12", "E13")
async def test_an_edited_call_is_bound_to_the_state_that_its_editor_asks_about(
    open_world: OpenWorld, account: Account
) -> None:
    world = await open_world(account.tool(), settings=SETTINGS)
    waiting = await asked(world)
    desk = world.gate.desk
    first = await desk.show(waiting.approval_id, by=EDITOR)
    account.says = _raises
    changes = {"account": "a-2"}
    edit = desk.edit(waiting.approval_id, digest=first.digest, arguments=changes, by=EDITOR)
    assert await refusal(edit) == "precondition_unavailable"
    assert await state_of(world, waiting) is ApprovalState.PENDING

    account.says = None
    account.version = 13
    edited = await desk.edit(waiting.approval_id, digest=first.digest, arguments=changes, by=EDITOR)

    assert account.looks[-1] == ("acme", changes)
    assert edited.state_digest not in (None, first.state_digest)
    await desk.approve(edited.approval_id, digest=edited.digest, by=APPROVER)
    account.version = 14
    anew = await world.submit("close", changes, call_id="c2")
    assert isinstance(anew, AwaitingApproval) and anew.approval_id != edited.approval_id
    view = await desk.show(anew.approval_id, by=EDITOR)
    assert (view.edited_by, view.why_not) == ("edith", "own_edit"), "asked anew, it is still the editor's"
    await world.approve(anew, by=OTHER_APPROVER)
    assert isinstance(await world.submit("close", changes, call_id="c2"), Succeeded)
    assert account.closed == [{"version": 14}]


async def test_people_see_that_it_is_bound_and_no_value(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool())
    desk = world.gate.desk
    first = await desk.show((await asked(world)).approval_id, by=APPROVER)
    same = await desk.show((await asked(world, run="r2")).approval_id, by=APPROVER)
    account.version = 13
    other = await desk.show((await asked(world, run="r3")).approval_id, by=APPROVER)

    assert first.state_digest is not None and len(first.state_digest) == 12
    assert first.state_digest == same.state_digest != other.state_digest
    (listed,) = [each for each in await desk.pending(by=APPROVER) if each.approval_id == first.approval_id]
    assert listed.state_digest == first.state_digest


async def test_a_tool_without_a_precondition_is_bound_to_no_state(open_world: OpenWorld, account: Account) -> None:
    world = await open_world(account.tool(precondition=None))
    waiting = await asked(world)
    assert (await world.gate.desk.show(waiting.approval_id, by=APPROVER)).state_digest is None
    await world.approve(waiting)

    assert isinstance(await world.submit("close", {"account": "a-1"}), Succeeded)
    assert account.closed == [None]


@pytest.mark.case("E12")
async def test_no_state_is_kept_or_told_anywhere(
    open_world: OpenWorld, account: Account, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world = await open_world(account.tool(), store=str(tmp_path / "p.db"), settings=SETTINGS)
    account.says = lambda: {"note": "canary-0815"}
    waiting = await asked(world)
    await world.approve(waiting)
    account.says = lambda: {"note": "canary-4711"}
    anew = await asked(world)
    account.says = _raises
    await world.approve(anew)
    assert (await world.submit("close", {"account": "a-1"})).code == "precondition_unavailable"

    view = await world.gate.desk.show(anew.approval_id, by=APPROVER)
    kept = world.bodies() + repr((view, anew)).encode() + caplog.text.encode()
    kept += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"canary" not in kept
    told = [each.__dict__ for each in caplog.records]
    assert "canary" not in repr(told)


# ---------------------------------------------------------------- standing grants


async def test_no_standing_grant_answers_for_a_state_that_nobody_saw(open_world: OpenWorld, account: Account) -> None:
    rule = placet.AskRule(name="closing", grants=placet.GrantTerms(max_uses=5, max_seconds=3_600.0))
    policy = placet.Matrix(asks=placet.AskRules(rules=(rule,)))
    wish = placet.GrantWish(tool="close", subjects=("agent-operator",), limits={"account": "any"}, max_uses=3)
    free = await open_world(account.tool(precondition=None), policy=policy)
    world = await open_world(account.tool(), policy=policy)

    assert (await free.gate.grants.draft(wish, by=APPROVER)).tool == "close"
    assert await refusal(world.gate.grants.draft(wish, by=APPROVER)) == "never_granted"


# ---------------------------------------------------------------- registering


def test_a_precondition_is_a_function_and_binds_an_approval_that_there_can_be(account: Account) -> None:
    with pytest.raises(ContractError, match="precondition is a function of a ProbeContext"):
        account.tool(precondition=7)
    with pytest.raises(ContractError, match="there is no approval that its precondition could bind"):
        account.tool(approval="never")
    assert account.tool().contract.has_precondition
    assert account.tool().contract.digest != account.tool(precondition=None).contract.digest
    assert ADMIN.tenant == "acme"
