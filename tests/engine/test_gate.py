"""The path of one call as its proposer sees it: protocol, registry, contract, principal, policy, ledger."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import placet
from placet import (
    Allow,
    Ask,
    AwaitingApproval,
    CallContext,
    Conflict,
    Deny,
    EffectState,
    Failed,
    GateSettings,
    InProgress,
    Invalid,
    NotSent,
    Principal,
    Proposal,
    Refused,
    Replayed,
    Requirement,
    RetryPolicy,
    Succeeded,
    Tool,
    ToolRejected,
    Unknown,
    errors,
)
from placet.errors import ContractError, MisuseError
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision, Entitled
from placet.model.ledger import run_scope
from tests.at_once import each_at_once
from tests.engine.conftest import (
    ADMIN,
    OPERATOR,
    SCOPE,
    STRANGER,
    VIEWER,
    OpenWorld,
    Spy,
    World,
    looked_up,
    written,
)

# ---------------------------------------------------------------- protocol


@pytest.mark.req("B001", "B009", "B033", "C010", "C012")
@pytest.mark.parametrize(
    "name", ["run_shell", "restart_service", "order.lookup", "refund.create", "__class__", "__init__", "submit", "os"]
)
async def test_an_unregistered_name_runs_nothing_and_is_on_record(
    open_world: OpenWorld, spy: Spy, where: str, name: str
) -> None:
    world = await open_world(looked_up(spy), store=where)

    outcome = await world.submit(name, {"command": "id"})

    assert isinstance(outcome, Invalid)
    assert (outcome.code, outcome.tool, spy.count) == ("unknown_tool", "unknown", 0)
    assert world.words() == ["started", "validation"]
    assert world.completed()["error_type"] == "UnknownTool"
    assert world.completed()["tool"] == "unknown"
    if len(name) > 3:
        assert name.encode() not in world.bodies()


@pytest.mark.req("B034", "B170")
@pytest.mark.case("B02", "B04")
@pytest.mark.parametrize(
    "name",
    ["Look", "LOOK", " look", "look ", "look\n", "loo", "look_", "l\u043eok", "\uff4cook", "lo\ufeffok", "\ud800"],
)
async def test_names_are_looked_up_exactly_and_never_guessed(open_world: OpenWorld, spy: Spy, name: str) -> None:
    world = await open_world(looked_up(spy))

    outcome = await world.submit(name, {"word": "x"})

    assert (type(outcome), outcome.code, spy.count) == (Invalid, "unknown_tool", 0)


@pytest.mark.req("B015")
async def test_a_rejected_name_is_kept_only_as_a_keyed_hash_that_differs_between_tenants(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(looked_up(spy))

    await world.submit("forbidden_name", call_id="c1")
    await world.submit("forbidden_name", call_id="c2")
    await world.submit("other_name", call_id="c3")
    await world.submit("forbidden_name", call_id="c4", principal=STRANGER, run="r2")

    hashes = [event["rejected_name"] for event in world.events("completed")]
    assert len(hashes[0]) == 64
    assert hashes[0] == hashes[1]
    assert len({hashes[0], hashes[2], hashes[3]}) == 3
    assert b"forbidden_name" not in world.bodies()


@pytest.mark.req("B005", "B009", "B010")
@pytest.mark.parametrize(
    ("proposal", "call_id", "attempt"),
    [
        ({"call_id": "a/b", "tool": "look", "arguments": {}}, "invalid", 1),
        ({"call_id": "c1", "tool": "look", "arguments": {}, "attempt": 101}, "c1", 1),
        ({"call_id": "c1", "tool": "look", "arguments": {}, "attempt": True}, "c1", 1),
        ({"call_id": "c1", "tool": "look", "arguments": {}, "attempt": 99}, "c1", 99),
        ({"call_id": "c1", "tool": 7, "arguments": {}, "attempt": 4}, "c1", 4),
        ({"call_id": "c1", "tool": "look"}, "c1", 1),
        ({"call_id": "c1", "tool": "look", "arguments": {}, "tenant": "globex"}, "c1", 1),
        (None, "invalid", 1),
        ([], "invalid", 1),
        ("look", "invalid", 1),
    ],
)
async def test_a_protocol_rejection_leaves_one_closed_pair_of_substitutes(
    open_world: OpenWorld, spy: Spy, proposal: object, call_id: str, attempt: int
) -> None:
    world = await open_world(looked_up(spy))

    outcome = await world.gate.submit(proposal, principal=OPERATOR, run="r1")

    assert (type(outcome), outcome.code, outcome.call_id, spy.count) == (Invalid, "protocol_rejected", call_id, 0)
    started, completed = world.events()
    assert (started["call_id"], started["attempt"]) == (completed["call_id"], completed["attempt"])
    assert (completed["call_id"], completed["attempt"], completed["outcome"]) == (call_id, attempt, "validation")
    assert set(completed["arguments"].values()) == {0}
    assert len(completed["arguments"]) == 6
    with pytest.raises(errors.ProtocolRejected):
        outcome.unwrap()


@pytest.mark.req("B005")
async def test_an_attempt_that_leaves_no_room_for_the_retries_below_100_is_rejected(
    open_world: OpenWorld, spy: Spy
) -> None:
    twice = looked_up(spy, retry=RetryPolicy(max_attempts=2))
    once = looked_up(spy, name="once", retry=RetryPolicy(max_attempts=1))
    world = await open_world(twice, once)

    refused = await world.submit(twice, {"word": "x"}, attempt=100)
    accepted = await world.submit(once, {"word": "x"}, attempt=100, call_id="c2")

    assert (refused.code, type(accepted)) == ("protocol_rejected", Succeeded)
    assert world.attempts() == [100, 100, 100, 100]


async def test_a_proposal_object_is_as_good_as_a_dict(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))

    outcome = await world.gate.submit(
        Proposal(call_id="c1", tool="look", arguments='{"word":"x"}'),  # type: ignore[arg-type]
        principal=OPERATOR,
        run="r1",
    )

    assert outcome.unwrap() == {"word": "x"}


@pytest.mark.req("H005")
async def test_a_version_that_is_not_the_registered_one_is_refused(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy, version="2"))
    proposal = {"call_id": "c1", "tool": "look", "arguments": {"word": "x"}}

    other = await world.gate.submit(proposal | {"version": "999"}, principal=OPERATOR, run="r1")
    right = await world.gate.submit(proposal | {"version": "2", "call_id": "c2"}, principal=OPERATOR, run="r1")

    assert (other.code, spy.calls, type(right)) == ("unknown_tool_version", ["x"], Succeeded)
    assert [event["tool"] for event in world.events("completed")] == ["look", "look"]


# ---------------------------------------------------------------- registry


@pytest.mark.req("C007")
def test_two_tools_of_one_name_keep_the_gate_shut() -> None:
    with pytest.raises(ContractError, match="Two tools"):
        placet.open(tools=[looked_up(Spy()), looked_up(Spy())], store=placet.MEMORY)


@pytest.mark.req("B030", "H004")
@pytest.mark.parametrize("tool", [print, "look", None, object()])
def test_only_tools_made_with_the_decorator_can_be_registered(tool: Any) -> None:
    with pytest.raises(ContractError):
        placet.open(tools=[tool], store=placet.MEMORY)


@pytest.mark.req("C037", "C038", "H004")
def test_there_is_one_entrance_for_reads_and_writes_and_a_tool_cannot_be_called() -> None:
    entrances = {name for name in vars(placet.Gate) if name.startswith(("submit", "execute", "call", "run"))}

    assert entrances == {"submit", "submit_all", "submit_until_failure", "submit_listed", "submit_followed"}
    assert not callable(written(Spy()))


@pytest.mark.req("B170")
def test_the_label_of_unregistered_names_cannot_be_registered() -> None:
    with pytest.raises(ContractError, match="unknown"):
        placet.open(tools=[looked_up(Spy(), name="unknown")], store=placet.MEMORY)


@pytest.mark.req("C008", "H003", "C013", "C021", "C023", "H056")
async def test_membership_permission_and_approval_are_three_answers_with_three_errors(
    open_world: OpenWorld, spy: Spy
) -> None:
    world = await open_world(written(spy), written(spy, name="asked", approval="always"))
    unscoped = Principal.agent("agent", tenant="acme", roles=("operator",))

    absent = await world.submit("nope", {"word": "x"}, call_id="c1")
    denied = await world.submit("write", {"word": "x"}, call_id="c2", principal=unscoped, run="r2")
    asked = await world.submit("asked", {"word": "x"}, call_id="c3")

    kinds = []
    for outcome in (absent, denied, asked):
        with pytest.raises(errors.PlacetError) as caught:
            outcome.unwrap()
        kinds.append(type(caught.value))
        assert caught.value.__cause__ is None
    assert kinds == [errors.UnknownTool, errors.PermissionDenied, errors.ApprovalRequired]
    assert spy.count == 0
    assert world.words() == ["started", "validation", "started", "denied", "started", "approval_required"]


@pytest.mark.req("C006", "C065")
async def test_one_definition_decides_and_records_the_same_behind_both_facades(
    open_world: OpenWorld, spy: Spy, tmp_path: Any
) -> None:
    tool = written(spy, approval="always")
    world = await open_world(tool)
    proposal = {"call_id": "c1", "tool": "write", "arguments": {"word": "x"}}

    def carried() -> tuple[Any, list[Any]]:
        with placet.open(tools=[tool], store=tmp_path / "p.db", recovery=placet.Recovery.MANUAL) as gate:
            outcome = gate.submit(proposal, principal=OPERATOR, run="r1")
        from placet.bootstrap.stores import open_existing_store

        _, store = open_existing_store(tmp_path / "p.db")
        return outcome, [json.loads(event.body) for event in each_at_once(store.chained())]

    outcome = await world.gate.submit(proposal, principal=OPERATOR, run="r1")
    other, events = await asyncio.to_thread(carried)

    assert (type(outcome), outcome.code, outcome.operation_key) == (type(other), other.code, other.operation_key)
    fixed = ("kind", "outcome", "decision", "tool", "reasons", "policy_version", "attempt", "arguments")
    assert [[event.get(name) for name in fixed] for event in world.events()] == [
        [event.get(name) for name in fixed] for event in events
    ]


# ---------------------------------------------------------------- contract


@pytest.mark.req("B024", "B025", "B026", "B027", "C028")
async def test_arguments_that_break_the_contract_run_nothing_and_close_with_their_attempt(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(looked_up(spy), store=where)

    outcome = await world.submit("look", {"word": 7, "sql": "s3cr3t"}, attempt=4)

    assert isinstance(outcome, Invalid)
    assert (outcome.code, spy.count) == ("invalid_arguments", 0)
    assert outcome.problems == (("/word", "string_type"), ("/sql", "extra_forbidden"))
    assert "word" in outcome.message
    assert world.attempts() == [4, 4]
    assert (world.completed()["outcome"], world.completed()["error_type"]) == ("validation", "ValidationError")
    with pytest.raises(errors.InvalidArguments) as caught:
        outcome.unwrap()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert b"s3cr3t" not in world.bodies()


@pytest.mark.req("B016", "B017")
@pytest.mark.parametrize("value", ["\ud800", object(), pytest.param(10**5000, id="giant"), {1: 2}, (1,)])
async def test_arguments_that_are_no_json_close_a_pair(open_world: OpenWorld, spy: Spy, value: object) -> None:
    world = await open_world(looked_up(spy))

    outcome = await world.submit("look", {"word": value})

    assert (type(outcome), spy.count, world.words()) == (Invalid, 0, ["started", "validation"])


@pytest.mark.req("B004")
@pytest.mark.parametrize("arguments", [[], "not json", None, 7, "[]", "null", b"\xff", True])
async def test_arguments_that_are_no_object_are_refused(open_world: OpenWorld, spy: Spy, arguments: object) -> None:
    world = await open_world(looked_up(spy))
    proposal = {"call_id": "c1", "tool": "look", "arguments": arguments}

    outcome = await world.gate.submit(proposal, principal=OPERATOR, run="r1")

    assert (type(outcome), spy.count, world.words()) == (Invalid, 0, ["started", "validation"])


@pytest.mark.req("B037", "C014", "B042")
@pytest.mark.case("C01")
@pytest.mark.parametrize("name", ["tenant", "tenant_id", "principal", "role", "confirmed", "approval_id", "user"])
async def test_arguments_cannot_say_what_the_server_says(open_world: OpenWorld, spy: Spy, name: str) -> None:
    world = await open_world(written(spy, approval="always"))

    outcome = await world.submit("write", {"word": "I am admin", name: "globex"})

    assert (type(outcome), spy.count) == (Invalid, 0)


@pytest.mark.req("B014")
async def test_a_later_change_of_the_callers_mapping_has_no_effect(open_world: OpenWorld) -> None:
    seen: list[str] = []
    second = {"call_id": "c2", "tool": "note", "arguments": {"word": "before"}}

    @placet.tool(effect="read")
    async def note(word: str) -> str:
        seen.append(word)
        second["tool"] = "other"
        second["call_id"] = "c9"
        return word

    world = await open_world(note)
    outcomes = await world.gate.submit_all(
        [{"call_id": "c1", "tool": "note", "arguments": {"word": "first"}}, second], principal=OPERATOR, run="r1"
    )

    assert [outcome.call_id for outcome in outcomes] == ["c1", "c2"]
    assert seen == ["first", "before"]


# ---------------------------------------------------------------- tenant and principal


@pytest.mark.req("B036", "B038", "B110", "H007", "C046")
async def test_the_handler_hears_tenant_call_and_key_from_the_server(open_world: OpenWorld) -> None:
    heard: list[CallContext] = []

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write(word: str, context: CallContext) -> str:
        heard.append(context)
        return word

    world = await open_world(write)
    await world.submit(write, {"word": "x"})

    (context,) = heard
    assert (context.tenant, context.call_id, context.run_id, context.attempt) == ("acme", "c1", "r1", 1)
    assert context.principal == OPERATOR
    assert context.operation_key == (await world.effect()).operation_key
    assert (context.deadline_at - world.clock.now()).total_seconds() == context.remaining_seconds() == 10.0


@pytest.mark.parametrize(
    "misuse",
    [
        {"run": ""},
        {"run": "r" * 129},
        {"run": None},
        {"request_id": ""},
        {"run": "r\0"},
        {"request_id": "\0"},
        {"idempotency_key": "k\0"},
        {"idempotency_key": "k" * 129},
        {"idempotency_key": 7},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": True},
    ],
)
async def test_misuse_of_the_api_is_raised_and_runs_nothing(
    open_world: OpenWorld, spy: Spy, misuse: dict[str, Any]
) -> None:
    world = await open_world(looked_up(spy))
    proposal = {"call_id": "c1", "tool": "look", "arguments": {"word": "x"}}

    with pytest.raises(MisuseError):
        await world.gate.submit(proposal, **({"principal": OPERATOR, "run": "r1"} | misuse))

    assert (spy.count, world.events()) == (0, [])


@pytest.mark.req("B041", "B050", "H007")
@pytest.mark.parametrize("field", ["subject", "tenant", "environment"])
@pytest.mark.parametrize("value", ["", "x" * 129, None, 7, b"acme", "\ud800"])
def test_an_identity_is_a_text_of_1_to_128_characters(field: str, value: object) -> None:
    good: dict[str, Any] = {"subject": "a", "tenant": "t", "environment": "e"}

    with pytest.raises(MisuseError):
        Principal(**(good | {field: value}))
    assert Principal(**(good | {field: "x" * 128}))


async def test_to_another_principal_a_run_does_not_exist(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), store=where)
    await world.submit("look", {"word": "mine"})

    other = await world.submit("look", {"word": "theirs"}, call_id="c2", principal=VIEWER)

    assert (other.code, spy.calls) == ("not_your_run", ["mine"])
    assert world.words()[-1] == "denied"


async def test_the_same_run_id_of_another_tenant_is_another_run(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(looked_up(spy), store=where)

    assert isinstance(await world.submit("look", {"word": "a"}), Succeeded)
    assert isinstance(await world.submit("look", {"word": "b"}, principal=STRANGER), Succeeded)


# ---------------------------------------------------------------- policy


@pytest.mark.req("C020", "H009", "H011")
async def test_a_denied_call_leaves_no_effect_and_runs_nothing(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)

    outcome = await world.submit("write", {"word": "x"}, principal=VIEWER)

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reasons) == ("denied", ("scope_missing",))
    assert (spy.count, await world.effects()) == (0, ())
    assert world.words() == ["started", "denied"]
    started = world.events()[0]
    assert (started["decision"], started["reasons"]) == ("deny", ["scope_missing"])
    assert not outcome.retryable


@pytest.mark.req("H011", "C050")
async def test_the_decision_stands_in_the_started_event_before_the_handler_runs(open_world: OpenWorld) -> None:
    seen: list[dict[str, Any]] = []

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write() -> str:
        seen.extend(world.events())
        return ""

    world = await open_world(write)
    await world.submit(write)

    (started,) = seen
    assert {name: started[name] for name in ("kind", "decision", "reasons", "tool", "subject", "roles", "risk")} == {
        "kind": "started",
        "decision": "allow",
        "reasons": ["matrix_operator_medium"],
        "tool": "write",
        "subject": "agent-operator",
        "roles": ["operator"],
        "risk": "medium",
    }
    assert len(started["policy_version"]) == 64


class Answering:
    """A policy that does what the test says."""

    timeout_seconds: float | None = 0.02
    version = "v1"

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[Call] = []

    async def decide(self, call: Call) -> Decision:
        self.asked.append(call)
        answer = self._answer(call) if callable(self._answer) else self._answer
        return await answer if asyncio.iscoroutine(answer) else answer

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return True

    async def may_decide(self, question: Any, person: Principal) -> Entitled:
        return Entitled()


class Lying(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def raising(error: BaseException) -> Any:
    def answer(call: Call) -> Decision:
        raise error

    return answer


ALLOW = Allow(reasons=("fine",), policy_version="v1")  # type: ignore[arg-type]


def altered(**values: object) -> Requirement:
    """A requirement that was changed after it was made, as only a hostile engine would."""
    requirement = Requirement()
    for name, value in values.items():
        object.__setattr__(requirement, name, value)
    return requirement


FAULTS: dict[str, Any] = {
    "raises": raising(RuntimeError("s3cr3t")),
    "raises a cancellation": raising(asyncio.CancelledError("s3cr3t")),
    "exits": raising(SystemExit("s3cr3t")),
    "interrupts": raising(KeyboardInterrupt("s3cr3t")),
    "sleeps past its budget": lambda call: asyncio.sleep(30),
    "says nothing": None,
    "says it in words": "allow ",
    "says true": True,
    "says one": 1,
    "says a class": Allow,
    "allow with lying reasons": Allow(reasons=["fine"], policy_version="v1"),  # type: ignore[arg-type]
    "allow with a hostile reason": Allow(reasons=(Lying("x y"),), policy_version="v1"),  # type: ignore[arg-type]
    "allow of no version": Allow(reasons=(), policy_version=None),  # type: ignore[arg-type]
    "allow of a hostile version": Allow(reasons=(), policy_version=Lying("v1")),  # type: ignore[arg-type]
    "ask without a requirement": Ask(reasons=(), policy_version="v1", requirement=None),  # type: ignore[arg-type]
    "ask of no kind": Ask(reasons=(), policy_version="v1", requirement=altered(kind="review")),  # type: ignore[arg-type]
    "ask for ever": Ask(reasons=(), policy_version="v1", requirement=altered(lifetime_seconds=float("inf"))),  # type: ignore[arg-type]
    "ask for no time": Ask(reasons=(), policy_version="v1", requirement=altered(decide_within_seconds=0.0)),  # type: ignore[arg-type]
    "ask for a negative time": Ask(reasons=(), policy_version="v1", requirement=altered(lifetime_seconds=-1.0)),  # type: ignore[arg-type]
    "ask for nan": Ask(reasons=(), policy_version="v1", requirement=altered(lifetime_seconds=float("nan"))),  # type: ignore[arg-type]
    "ask beyond the calendar": Ask(reasons=(), policy_version="v1", requirement=Requirement(lifetime_seconds=1e300)),  # type: ignore[arg-type]
}


@pytest.mark.req("B066", "B068")
@pytest.mark.case("D01", "D05", "E06")
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_in_deciding_is_a_deny_on_record(open_world: OpenWorld, spy: Spy, fault: str) -> None:
    world = await open_world(written(spy), policy=Answering(FAULTS[fault]))

    outcome = await world.submit("write", {"word": "x"})

    assert (type(outcome), outcome.code) == (Refused, "denied")
    assert (outcome.reasons, spy.count, await world.effects()) == (("policy_failed",), 0, ())
    assert world.words() == ["started", "denied"]
    assert b"s3cr3t" not in world.bodies()


class Synchronous(Answering):
    def decide(self, call: Call) -> Any:  # type: ignore[override]
        return self._answer(call) if callable(self._answer) else self._answer


class Faulty(Answering):
    @property
    def timeout_seconds(self) -> float:  # type: ignore[override]
        raise RuntimeError("s3cr3t")


@pytest.mark.case("D01")
@pytest.mark.parametrize("policy", [Synchronous(raising(RuntimeError("s3cr3t"))), Synchronous(ALLOW), Faulty(ALLOW)])
async def test_a_policy_that_is_not_even_shaped_like_one_denies(open_world: OpenWorld, spy: Spy, policy: Any) -> None:
    world = await open_world(written(spy), policy=policy)

    outcome = await world.submit("write", {"word": "x"})

    assert (type(outcome), outcome.code, spy.count, world.words()) == (Refused, "denied", 0, ["started", "denied"])


@pytest.mark.case("D02", "D07", "A12")
async def test_policy_is_asked_every_time_and_sees_the_validated_arguments(open_world: OpenWorld, spy: Spy) -> None:
    policy = Answering(ALLOW)
    world = await open_world(written(spy), policy=policy)

    await world.submit("write", '{"word": "x"}', call_id="c1")
    await world.submit("write", {"word": "x"}, call_id="c2")
    await world.submit("write", {"word": "x"}, call_id="c2")
    await world.submit("write", {"word": 7}, call_id="c3")

    assert [(call.call_id, call.arguments) for call in policy.asked] == [
        ("c1", {"word": "x", "count": 1}),
        ("c2", {"word": "x", "count": 1}),
        ("c2", {"word": "x", "count": 1}),
    ]


@pytest.mark.req("H008")
async def test_a_tool_of_other_tenants_is_denied_and_not_listed(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy, allowed_tenants=("globex",)))

    assert (await world.submit("look", {"word": "x"})).code == "denied"
    assert isinstance(await world.submit("look", {"word": "y"}, principal=STRANGER), Succeeded)
    assert world.gate.tools_for(OPERATOR) == ()
    assert [contract.name for contract in world.gate.tools_for(STRANGER)] == ["look"]


async def test_listing_is_by_principal_and_a_policy_that_fails_lists_nothing(open_world: OpenWorld, spy: Spy) -> None:
    class Unlisting(Answering):
        def is_listed(self, contract: Contract, principal: Principal) -> bool:
            raise RuntimeError("s3cr3t")

    tools = (looked_up(spy), written(spy), written(spy, name="erase", risk="critical"))
    world = await open_world(*tools)
    failing = await open_world(*tools, policy=Unlisting(ALLOW))

    names = [[contract.name for contract in world.gate.tools_for(who)] for who in (VIEWER, OPERATOR, ADMIN)]
    assert names == [["look"], ["look", "write"], ["look", "write", "erase"]]
    assert failing.gate.tools_for(ADMIN) == ()


@pytest.mark.req("C051")
async def test_explaining_decides_and_leaves_nothing(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), looked_up(spy))
    proposal = {"call_id": "c1", "tool": "write", "arguments": {"word": "x"}}

    decisions = [
        await world.gate.explain(proposal, principal=OPERATOR, run="r1"),
        await world.gate.explain(proposal, principal=VIEWER, run="r1"),
        await world.gate.explain(proposal | {"arguments": {}}, principal=VIEWER, run="r1"),
        await world.gate.explain(None, principal=VIEWER, run="r1"),
    ]

    assert [type(decision) for decision in decisions] == [Allow, Deny, Invalid, Invalid]
    assert (spy.count, world.events(), world.gate.store.commits) == (0, [], 0)


# ---------------------------------------------------------------- the ledger answers


@pytest.mark.req("C034", "H027", "H044", "H030", "B112", "C039")
async def test_asking_again_replays_the_recorded_result(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)

    first = await world.submit("write", {"word": "x"})
    first.unwrap()["word"] = "changed by the caller"  # type: ignore[index,call-overload]
    again = await world.submit("write", {"word": "x"})
    third = await world.submit("write", {"word": "x"})

    assert (type(again), again.unwrap(), spy.count) == (Replayed, {"word": "x"}, 1)
    again.unwrap()["word"] = "changed"  # type: ignore[index,call-overload]
    assert third.unwrap() == {"word": "x"}
    assert world.words() == ["started", "success", "started", "replayed", "started", "replayed"]
    assert [len(event.get("operation", "")) for event in world.events()] == [64] * 6


@pytest.mark.req("C033", "C034", "B111")
@pytest.mark.case("H10")
async def test_two_call_ids_under_one_key_are_one_operation(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)

    first = await world.submit("write", {"word": "x"}, call_id="c1", idempotency_key="k")
    again = await world.submit("write", {"word": "x"}, call_id="c2", run="r2", idempotency_key="k")

    assert (type(first), type(again), spy.count) == (Succeeded, Replayed, 1)
    assert again.call_id == "c2"


@pytest.mark.req("C035", "C036", "H031")
async def test_the_same_key_for_another_wish_is_a_conflict(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), written(spy, name="other"), store=where)
    await world.submit("write", {"word": "x"}, idempotency_key="k")

    arguments = await world.submit("write", {"word": "y"}, call_id="c2", idempotency_key="k")
    tool = await world.submit("other", {"word": "x"}, call_id="c3", idempotency_key="k")
    same_call_id = await world.submit("write", {"word": "z"}, call_id="c4")
    reused_call_id = await world.submit("write", {"word": "zz"}, call_id="c4")

    assert [type(outcome) for outcome in (arguments, tool, same_call_id, reused_call_id)] == [
        Conflict,
        Conflict,
        Succeeded,
        Conflict,
    ]
    assert spy.count == 2
    assert world.completed()["outcome"] == "conflict"


@pytest.mark.case("H07", "H08")
async def test_a_callers_key_belongs_to_its_principal_and_a_business_key_to_the_tenant(
    open_world: OpenWorld, spy: Spy
) -> None:
    other = Principal.agent("other", tenant="acme", roles=("operator",), scopes=(SCOPE,))
    world = await open_world(written(spy), written(spy, name="refund", operation_key="refund:{word}"))

    await world.submit("write", {"word": "x"}, idempotency_key="k")
    theirs = await world.submit("write", {"word": "x"}, run="r2", idempotency_key="k", principal=other)
    await world.submit("refund", {"word": "A"}, call_id="c2")
    business = await world.submit("refund", {"word": "A"}, call_id="c2", run="r2", principal=other)
    abroad = await world.submit("refund", {"word": "A"}, call_id="c2", principal=STRANGER)

    assert (type(theirs), type(abroad)) == (Succeeded, Succeeded)
    assert (type(business), business.code) == (Refused, "operation_of_another")
    assert business.message == "This operation belongs to somebody else. Nothing ran; do not ask again, tell the user."
    assert spy.count == 4


async def test_another_principals_conflict_and_unknown_look_the_same_as_its_success(
    open_world: OpenWorld, spy: Spy
) -> None:
    other = Principal.agent("other", tenant="acme", roles=("operator",), scopes=(SCOPE,))

    @placet.tool(effect="write", risk="medium", permission=SCOPE, operation_key="k:{word}")
    async def write(word: str, mode: str = "") -> str:
        if word == "unsure":
            raise RuntimeError
        return word

    world = await open_world(write)
    await world.submit(write, {"word": "done"}, call_id="c1")
    await world.submit(write, {"word": "unsure"}, call_id="c2")

    answers = [
        await world.submit(write, arguments, call_id=f"d{index}", run="r2", principal=other)
        for index, arguments in enumerate(({"word": "done"}, {"word": "unsure"}, {"word": "done", "mode": "m"}))
    ]

    assert {(outcome.code, outcome.message) for outcome in answers} == {
        (
            "operation_of_another",
            "This operation belongs to somebody else. Nothing ran; do not ask again, tell the user.",
        )
    }


async def test_a_holder_of_effects_read_may_see_the_recorded_result(open_world: OpenWorld, spy: Spy) -> None:
    auditor = Principal.agent("auditor", tenant="acme", roles=("operator",), scopes=(SCOPE, "effects.read"))
    world = await open_world(written(spy, operation_key="k:{word}"))
    await world.submit("write", {"word": "x"})

    outcome = await world.submit("write", {"word": "x"}, run="r2", principal=auditor)

    assert (type(outcome), outcome.unwrap(), spy.count) == (Replayed, {"word": "x"}, 1)


@pytest.mark.req("H030")
async def test_a_redeploy_with_a_new_version_replays(open_world: OpenWorld, spy: Spy, tmp_path: Any) -> None:
    store = str(tmp_path / "p.db")
    old = await open_world(written(spy, version="1"), store=store)
    await old.submit("write", {"word": "x"})
    new = await open_world(written(spy, version="2", description="Better."), store=store)

    outcome = await new.submit("write", {"word": "x"})

    assert (type(outcome), spy.count) == (Replayed, 1)


async def test_deny_comes_before_the_ledgers_answer(open_world: OpenWorld, spy: Spy, tmp_path: Any) -> None:
    store = str(tmp_path / "p.db")
    world = await open_world(written(spy), store=store)
    await world.submit("write", {"word": "x"})
    closed = await open_world(written(spy), store=store, policy=Answering(None))

    outcome = await closed.submit("write", {"word": "x"})

    assert (outcome.code, world.words()[-1]) == ("denied", "denied")


@pytest.mark.req("C040", "H040", "C047")
async def test_an_unknown_operation_is_refused_until_reconciled(open_world: OpenWorld, spy: Spy, where: str) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write(word: str) -> str:
        spy(word)
        raise RuntimeError("s3cr3t")

    world = await open_world(write, store=where)
    outcomes = [await world.submit(write, {"word": "x"}) for _ in range(3)]

    assert [type(outcome) for outcome in outcomes] == [Unknown] * 3
    assert (spy.count, (await world.effect()).state) == (1, EffectState.UNKNOWN)
    assert world.words() == ["started", "error", "started", "unknown", "started", "unknown"]


@pytest.mark.req("H040")
async def test_a_failed_operation_may_be_dispatched_again_under_the_same_key(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write(word: str) -> str:
        spy(word)
        if spy.count == 1:
            raise ToolRejected("closed today")
        return "done"

    world = await open_world(write, store=where)
    first, second = [await world.submit(write, {"word": "x"}) for _ in range(2)]

    assert isinstance(first, Failed)
    assert (first.code, first.words, second.unwrap()) == ("tool_rejected", "closed today", "done")
    effect = await world.effect()
    assert (effect.fence, effect.attempts, effect.state) == (2, 2, EffectState.COMMITTED)


@pytest.mark.req("C041", "C042", "B092")
@pytest.mark.case("H05")
async def test_fifty_callers_of_one_key_at_once_make_one_effect_and_get_one_result(
    open_world: OpenWorld, where: str
) -> None:
    ran: list[int] = []

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write(word: str) -> str:
        ran.append(1)
        await asyncio.sleep(0.01)
        return "once"

    from placet.adapters.clock import SystemClock

    world = await open_world(write, store=where, clock=SystemClock())
    outcomes = await asyncio.gather(
        *(world.submit(write, {"word": "x"}, call_id=f"c{n}", idempotency_key="k") for n in range(50))
    )

    assert len(ran) == 1
    assert [outcome.unwrap() for outcome in outcomes] == ["once"] * 50
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Replayed"] * 49 + ["Succeeded"]


@pytest.mark.case("H05")
async def test_a_duplicate_waits_no_longer_than_its_caller(open_world: OpenWorld, spy: Spy) -> None:
    release = asyncio.Event()

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write(word: str) -> str:
        spy(word)
        await release.wait()
        return "once"

    world = await open_world(write)
    first = asyncio.create_task(world.submit(write, {"word": "x"}))
    while not spy.count:
        await asyncio.sleep(0)

    second = await world.submit(write, {"word": "x"}, timeout_seconds=1.0)
    release.set()

    assert isinstance(second, InProgress)
    assert (second.retryable, second.may_have_acted, spy.count) == (True, True, 1)
    assert (await first).unwrap() == "once"
    assert sum(world.clock.slept) == pytest.approx(1.0)


@pytest.mark.req("C039", "H035", "H052")
async def test_reads_run_again_unless_the_caller_names_the_operation(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy))

    await world.submit("look", {"word": "x"})
    await world.submit("look", {"word": "x"})
    await world.submit("look", {"word": "x"}, call_id="c2", idempotency_key="k")
    named = await world.submit("look", {"word": "x"}, call_id="c3", idempotency_key="k")

    assert (type(named), spy.count) == (Replayed, 3)
    effect = await world.effect()
    assert effect.state is EffectState.COMMITTED
    assert len(str(effect.result_digest)) == 64
    assert [event.get("effect_state") for event in world.events("completed")] == [None, None, "committed", None]


@pytest.mark.req("H034")
async def test_the_ledger_says_dispatched_while_the_handler_runs(open_world: OpenWorld, where: str) -> None:
    seen: list[EffectState] = []

    @placet.tool(effect="write", risk="medium", permission=SCOPE)
    async def write() -> str:
        seen.append((await world.effect()).state)
        return ""

    world = await open_world(write, store=where)
    await world.submit(write)

    assert seen == [EffectState.DISPATCHED]
    assert (await world.effect()).state is EffectState.COMMITTED


async def test_a_lone_governed_write_costs_two_commits(open_world: OpenWorld, spy: Spy, where: str) -> None:
    world = await open_world(written(spy), store=where)
    before = world.gate.store.commits

    await world.submit("write", {"word": "x"})

    assert world.gate.store.commits - before == 2


# ---------------------------------------------------------------- stops


@pytest.mark.parametrize("scope", ["all", "tenant:acme", "tool:write", run_scope("acme", "r1")])
async def test_a_stop_lets_nothing_be_dispatched_and_waiting_work_waits(
    open_world: OpenWorld, spy: Spy, where: str, scope: str
) -> None:
    world = await open_world(written(spy), store=where)
    await world.gate.store.stop(scope, ())

    stopped = await world.submit("write", {"word": "x"})
    await world.gate.store.resume(scope, ())
    again = await world.submit("write", {"word": "x"})

    assert (stopped.code, stopped.retryable, type(again), spy.count) == ("stopped", True, Succeeded, 1)


async def test_a_stop_holds_reads_too_and_leaves_other_tools_alone(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(looked_up(spy), written(spy))
    await world.gate.store.stop("tool:look", ())

    assert (await world.submit("look", {"word": "x"})).code == "stopped"
    assert isinstance(await world.submit("write", {"word": "x"}, call_id="c2"), Succeeded)


# ---------------------------------------------------------------- outcomes


async def one_of_each(open_world: OpenWorld) -> tuple[World, list[Any]]:
    def made(name: str, error: BaseException | None, **options: Any) -> Tool:
        async def act() -> str:
            if error is not None:
                raise error
            return "done"

        settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "name": name}
        return placet.tool(**(settings | options))(act)

    world = await open_world(
        made("good", None),
        made("asked", None, approval="always"),
        made("rejects", ToolRejected("no\u202ename")),
        made("unsent", NotSent(), retry=RetryPolicy(max_attempts=1)),
        made("unsure", RuntimeError("s3cr3t")),
    )
    outcomes = [
        await world.submit("good", call_id="c1"),
        await world.submit("good", call_id="c1"),
        await world.submit("good", {"x": 1}, call_id="c2"),
        await world.submit("asked", call_id="c3"),
        await world.submit("rejects", call_id="c4"),
        await world.submit("unsent", call_id="c5"),
        await world.submit("unsure", call_id="c6"),
        await world.submit("good", call_id="c7", principal=Principal.agent("v", tenant="acme"), run="r2"),
    ]
    return world, outcomes


@pytest.mark.req("C068", "C069", "C051", "B202")
async def test_outcomes_tell_what_may_be_asked_again_and_what_may_have_acted(open_world: OpenWorld) -> None:
    _, outcomes = await one_of_each(open_world)

    assert [(outcome.status, outcome.code, outcome.retryable, outcome.may_have_acted) for outcome in outcomes] == [
        ("succeeded", "succeeded", False, True),
        ("replayed", "replayed", False, True),
        ("invalid", "invalid_arguments", False, False),
        ("awaiting_approval", "approval_required", True, False),
        ("failed", "tool_rejected", False, False),
        ("failed", "not_sent", True, False),
        ("unknown", "effect_unknown", False, True),
        ("refused", "denied", False, False),
    ]


@pytest.mark.req("B200", "B201", "C068")
async def test_unwrapping_raises_our_errors_with_fixed_texts_and_no_cause(open_world: OpenWorld) -> None:
    _, outcomes = await one_of_each(open_world)
    raised = []
    for outcome in outcomes[2:]:
        with pytest.raises(errors.PlacetError) as caught:
            outcome.unwrap()
        error = caught.value
        raised.append(type(error))
        assert (error.__cause__, error.__context__) == (None, None)
        assert error.code == outcome.code
        assert error.tool == outcome.tool
        assert error.retryable is outcome.retryable
        assert "s3cr3t" not in f"{error!s}{error!r}{error.hint}"

    assert raised == [
        errors.InvalidArguments,
        errors.ApprovalRequired,
        errors.ToolFailed,
        errors.ToolFailed,
        errors.EffectUnknown,
        errors.PermissionDenied,
    ]


async def test_every_outcome_answers_its_call_for_every_provider(open_world: OpenWorld) -> None:
    _, outcomes = await one_of_each(open_world)

    for outcome in outcomes:
        data = outcome.as_data()
        openai, anthropic, mcp = outcome.for_openai(), outcome.for_anthropic(), outcome.for_mcp()
        assert (openai["role"], openai["tool_call_id"]) == ("tool", outcome.call_id)
        assert (anthropic["type"], anthropic["tool_use_id"]) == ("tool_result", outcome.call_id)
        assert json.loads(openai["content"]) == json.loads(anthropic["content"]) == mcp["structuredContent"] == data
        assert anthropic["is_error"] is mcp["isError"] is not outcome.is_success
        assert "\u202e" not in openai["content"]


@pytest.mark.case("E15")
async def test_a_pause_says_that_nothing_ran_and_what_to_do(open_world: OpenWorld) -> None:
    _, outcomes = await one_of_each(open_world)
    waiting = outcomes[3]

    assert isinstance(waiting, AwaitingApproval)
    assert waiting.message.startswith("Nothing ran yet: a person has to approve exactly this call.")
    assert waiting.as_data()["approval_id"] == waiting.approval_id


# ---------------------------------------------------------------- store faults


async def test_a_store_that_cannot_record_refuses_before_dispatch(
    open_world: OpenWorld, spy: Spy, tmp_path: Any
) -> None:
    world = await open_world(written(spy), looked_up(spy), store=str(tmp_path / "p.db"))
    store: Any = world.gate.store
    store._writer._connection.execute("CREATE TEMP TRIGGER full BEFORE INSERT ON audit_events "
                                      "BEGIN SELECT RAISE(ABORT, 'disk full'); END")  # fmt: skip

    outcomes = [
        await world.submit("write", {"word": "x"}),
        await world.submit("look", {"word": "x"}, call_id="c2"),
        await world.submit("nope", call_id="c3"),
        await world.submit("write", {"word": "x"}, call_id="c4", principal=VIEWER, run="r2"),
    ]
    store._writer._connection.execute("DROP TRIGGER full")

    assert {(type(outcome), outcome.code, outcome.retryable) for outcome in outcomes} == {
        (Refused, "boundary_unavailable", True)
    }
    assert (spy.count, await world.effects(), world.events()) == (0, (), [])


async def test_settings_refuse_what_is_not_finite_and_positive() -> None:
    for name in ("max_steps", "call_seconds", "lease_seconds", "grace_seconds", "probe_seconds"):
        for value in (0, -1, float("nan"), float("inf"), True, "1", None):
            with pytest.raises(errors.ConfigurationError, match=name):
                GateSettings(**{name: value})  # type: ignore[arg-type]
