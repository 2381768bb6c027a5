"""Accepting and quarantining: who may, what is on record, and that all processes of the store refuse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import CallContext, Gate, Principal, Tool
from placet.engine.quarantine import Quarantine
from placet.errors import ContractError, DecisionRefused, MisuseError, NotFound, PinsNotWritable, StoreUnavailable
from placet.model.audit import EventKind
from placet.model.contract import ApprovalMode, EffectClass
from placet.model.outcome import AwaitingApproval, Refused, Succeeded
from placet.model.pins import Definition, Drift, PinFault
from placet.model.stopping import StopScope
from placet.rules.pins import definition_digest
from placet.rules.upstream_tools import tool_of
from placet.testing import FakeClock
from placet.worker import Worker
from tests.rules.definitions import a_definition, a_pin, some_terms

MARA = Principal.person("mara", tenant="acme", scopes=("upstreams.accept",))
NORA = Principal.person("nora", tenant="acme", scopes=("ops.stop.all",))
AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("desk.create", "upstreams.accept"))
APPROVER = Principal.person("paula", tenant="acme", scopes=("approvals.decide",))
ONE, OTHER = a_definition(), a_definition(description="Makes a ticket, and sends it to eve.")
SECRET = "customer 4711 complained"


class Remote:
    """What the tool's server did."""

    def __init__(self) -> None:
        self.acts: list[dict[str, Any]] = []

    def tool(self, definition: Definition = ONE, **terms: Any) -> Tool:
        async def carry(arguments: dict[str, Any], context: CallContext) -> object:
            context.guard()
            self.acts.append(arguments)
            return {"id": "t-1"}

        return tool_of(
            a_pin(definition), some_terms(definition.tool, **terms), name=f"desk.{definition.tool}", handler=carry
        )


@pytest.fixture
def remote() -> Remote:
    return Remote()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@asynccontextmanager
async def gate_of(folder: Path, *tools: Tool, store: str = "") -> AsyncIterator[Gate]:
    async with placet.open(
        tools=tools, pins=folder / "pins.json", store=store or folder / "store.db", recovery="manual"
    ) as gate:
        yield gate


async def submit(gate: Gate, tool: str = "desk.create", *, call_id: str = "c1", **arguments: Any) -> placet.Outcome:
    proposal = {"call_id": call_id, "tool": tool, "arguments": arguments or {"title": "x"}}
    return await gate.submit(proposal, principal=AGENT, run="r1")


async def events(gate: Gate, *kinds: EventKind) -> list[dict[str, Any]]:
    found = [json.loads(each.body) async for each in gate.store.chained()]
    return [each for each in found if each["kind"] in kinds]


def drift_of(definition: Definition = ONE, seen: Definition = OTHER) -> Drift:
    return Drift(
        server=definition.server,
        tool=definition.tool,
        name=f"{definition.server}.{definition.tool}",
        pin=definition_digest(definition),
        seen=definition_digest(seen),
    )


def quarantine_of(gate: Gate) -> Quarantine:
    """As an upstream that is opened with the gate is given it."""
    return gate.pins._quarantine


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize(
    ("by", "code"),
    [(AGENT, "not_a_person"), (NORA, "scope_missing"), (APPROVER, "scope_missing")],
    ids=["agent", "operator", "approver"],
)
async def test_only_a_person_with_the_scope_accepts_or_quarantines_and_it_is_on_record(
    tmp_path: Path, by: Principal, code: str
) -> None:
    async with gate_of(tmp_path) as gate:
        await gate.pins.accept([ONE], by=MARA)
        for work in (gate.pins.accept([OTHER], by=by), gate.pins.quarantine("desk", "create", by=by)):
            with pytest.raises(DecisionRefused) as caught:
                await work
            assert (caught.value.code, caught.value.may_have_acted) == (code, False)
        refused = await events(gate, EventKind.ACCEPTANCE_REFUSED)

        assert [(each["detail"], each["decided_by"], each["tenant"]) for each in refused] == [
            (code, by.subject, "acme")
        ] * 2
        assert gate.pins.pins().pins["desk", "create"].definition == ONE
        assert await gate.pins.quarantined() == frozenset()


# ---------------------------------------------------------------- accepting


@pytest.mark.req("H053")
async def test_what_is_accepted_is_exactly_what_was_shown_with_who_and_when(tmp_path: Path) -> None:
    async with gate_of(tmp_path) as gate:
        (pin,) = await gate.pins.accept([ONE], by=MARA)
        (changed,) = await gate.pins.accept([OTHER], by=MARA)
        (again,) = await gate.pins.accept([OTHER], by=MARA)
        found = await events(gate, EventKind.TOOL_ACCEPTED)

        assert (pin.definition, pin.digest, pin.accepted_by) == (ONE, definition_digest(ONE), "mara")
        assert gate.pins.pins().pins == {("desk", "create"): again}
        assert changed.digest == definition_digest(OTHER)
    was, now = f"was:{pin.digest[:16]}", f"pin:{changed.digest[:16]}"
    assert [(each["detail"], each["reasons"]) for each in found] == [
        ("new", ["upstream:desk", f"pin:{pin.digest[:16]}"]),
        ("changed", ["upstream:desk", now, was]),
        ("again", ["upstream:desk", now]),
    ]
    assert {(each["tool"], each["subject"], each["decided_by"], each["tenant"]) for each in found} == {
        ("desk.create", "mara", "mara", "unknown")
    }


async def test_what_a_server_says_is_nowhere_in_the_audit(tmp_path: Path) -> None:
    async with gate_of(tmp_path) as gate:
        await gate.pins.accept([a_definition(description=SECRET, title=SECRET)], by=MARA)
        await gate.pins.quarantine("desk", "create", by=MARA, reason=SECRET)
        bodies = b"".join([each.body async for each in gate.store.chained()])

    assert SECRET.encode() not in bodies
    assert SECRET.encode() not in (tmp_path / "store.db").read_bytes()


async def test_of_several_all_are_accepted_or_none(tmp_path: Path) -> None:
    hidden = a_definition("wipe", description="a\u200bb")
    async with gate_of(tmp_path) as gate:
        with pytest.raises(ContractError):
            await gate.pins.accept([ONE, hidden], by=MARA)

        assert gate.pins.pins().pins == {} and await events(gate, EventKind.TOOL_ACCEPTED) == []

        await gate.pins.accept([ONE, a_definition("wipe")], by=MARA)
        assert set(gate.pins.pins().pins) == {("desk", "create"), ("desk", "wipe")}


@pytest.mark.parametrize("definitions", [[], "desk", [7], None, [ONE, object()]])
async def test_what_is_no_definition_is_misuse(tmp_path: Path, definitions: Any) -> None:
    async with gate_of(tmp_path) as gate:
        with pytest.raises(MisuseError):
            await gate.pins.accept(definitions, by=MARA)


async def test_it_is_on_record_before_it_can_be_served(tmp_path: Path) -> None:
    """A file that cannot be written leaves less than was said, never more."""
    async with gate_of(tmp_path) as gate:
        (tmp_path / "pins.json").write_text("broken")
        with pytest.raises(PinsNotWritable):
            await gate.pins.accept([ONE], by=MARA)

        assert len(await events(gate, EventKind.TOOL_ACCEPTED)) == 1
        assert gate.pins.pins().fault is PinFault.UNREADABLE


async def test_what_cannot_be_put_on_record_is_not_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gate_of(tmp_path) as gate:

        async def fails(*_: object, **__: object) -> None:
            raise StoreUnavailable

        with monkeypatch.context() as patched:
            patched.setattr(gate.store, "record", fails)
            with pytest.raises(StoreUnavailable):
                await gate.pins.accept([ONE], by=MARA)

        assert gate.pins.pins().pins == {}


async def test_a_gate_without_a_file_of_pins_accepts_nothing(tmp_path: Path) -> None:
    async with placet.open(tools=(), store=tmp_path / "store.db") as gate:
        with pytest.raises(PinsNotWritable):
            await gate.pins.accept([ONE], by=MARA)


# ---------------------------------------------------------------- quarantine


@pytest.mark.case("L01")
@pytest.mark.req("H053")
async def test_what_one_process_sees_changed_every_process_refuses_and_other_tools_go_on(
    tmp_path: Path, stack: AsyncExitStack, remote: Remote
) -> None:
    tools = (remote.tool(), remote.tool(a_definition("wipe")))
    sees, other = [await stack.enter_async_context(gate_of(tmp_path, *tools)) for _ in range(2)]
    assert type(await submit(other, call_id="c0")) is Succeeded

    await quarantine_of(sees).drifted(drift_of())

    for gate in (sees, other):
        refused = await submit(gate, call_id=f"c-{id(gate)}")
        assert (type(refused), refused.code) == (Refused, "quarantined")
        assert (refused.may_have_acted, refused.retryable) == (False, False)
    assert type(await submit(other, "desk.wipe", call_id="c9")) is Succeeded
    assert len(remote.acts) == 2


@pytest.mark.case("L01")
async def test_a_further_attempt_is_not_begun_once_it_was_seen_changed(tmp_path: Path) -> None:
    attempts: list[int] = []
    gates: list[Gate] = []

    async def carry(arguments: dict[str, Any], context: CallContext) -> object:
        attempts.append(context.attempt)
        await quarantine_of(gates[0]).drifted(drift_of())
        raise placet.NotSent("not yet")

    retry = placet.RetryPolicy(max_attempts=3, initial_delay_seconds=0.001, max_delay_seconds=0.001)
    tool = tool_of(a_pin(), some_terms(retry=retry), name="desk.create", handler=carry)
    async with gate_of(tmp_path, tool) as gate:
        gates.append(gate)
        outcome = await submit(gate)

        assert (outcome.status, attempts) == ("failed", [1])


@pytest.mark.case("L01")
async def test_reads_are_refused_as_well(tmp_path: Path, remote: Remote) -> None:
    tool = remote.tool(effect=EffectClass.READ, permission=None)
    async with gate_of(tmp_path, tool) as gate:
        await quarantine_of(gate).drifted(drift_of())

        assert (await submit(gate)).code == "quarantined"
        assert remote.acts == []


@pytest.mark.case("L01")
async def test_what_is_approved_is_not_dispatched_after_it_was_seen_changed_and_the_approval_is_not_spent(
    tmp_path: Path, remote: Remote
) -> None:
    async with gate_of(tmp_path, remote.tool(approval=ApprovalMode.ALWAYS)) as gate:
        asked = await submit(gate)
        assert type(asked) is AwaitingApproval
        view = await gate.desk.show(asked.approval_id, by=APPROVER)
        await gate.desk.approve(asked.approval_id, digest=view.digest, by=APPROVER)

        await quarantine_of(gate).drifted(drift_of())
        refused = await submit(gate)
        assert (refused.code, remote.acts) == ("quarantined", [])

        await gate.pins.accept([ONE], by=MARA)  # the server describes it as before
        assert type(await submit(gate)) is Succeeded


@pytest.mark.case("L01")
async def test_another_definition_voids_what_was_approved_under_the_old_one(
    tmp_path: Path, stack: AsyncExitStack, remote: Remote
) -> None:
    """The pin is part of the contract, and the contract of the approval."""
    before = await stack.enter_async_context(gate_of(tmp_path, remote.tool(approval=ApprovalMode.ALWAYS)))
    asked = await submit(before)
    assert type(asked) is AwaitingApproval
    view = await before.desk.show(asked.approval_id, by=APPROVER)
    await before.desk.approve(asked.approval_id, digest=view.digest, by=APPROVER)

    changed = remote.tool(OTHER, approval=ApprovalMode.ALWAYS)
    after = await stack.enter_async_context(gate_of(tmp_path, changed))
    again = await submit(after)

    assert type(again) is AwaitingApproval and again.approval_id != asked.approval_id
    assert remote.acts == []


async def test_however_often_and_by_whomever_it_is_seen_it_is_recorded_once(
    tmp_path: Path, stack: AsyncExitStack, remote: Remote
) -> None:
    gates = [await stack.enter_async_context(gate_of(tmp_path, remote.tool())) for _ in range(2)]
    for gate in gates * 2:
        await quarantine_of(gate).drifted(drift_of())
        await quarantine_of(gate).drifted(drift_of(seen=a_definition(description="A third.")))

    (event,) = await events(gates[0], EventKind.TOOL_QUARANTINED)

    assert (event["tool"], event["detail"], event["tenant"], event["subject"]) == (
        "desk.create",
        "schema_drift",
        "unknown",
        "unknown",
    )
    assert event["reasons"] == [
        "upstream:desk",
        f"pin:{definition_digest(ONE)[:16]}",
        f"seen:{definition_digest(OTHER)[:16]}",
    ]


@pytest.mark.case("L01")
async def test_a_quarantine_is_of_what_was_accepted_then_and_not_of_what_is_accepted_later(
    tmp_path: Path, stack: AsyncExitStack, remote: Remote
) -> None:
    old = await stack.enter_async_context(gate_of(tmp_path, remote.tool()))
    await quarantine_of(old).drifted(drift_of())
    await old.pins.accept([OTHER], by=MARA)
    new = await stack.enter_async_context(gate_of(tmp_path, remote.tool(OTHER)))
    await quarantine_of(old).drifted(drift_of())  # the old process still sees what it never accepted

    served, refused = await submit(new), await submit(old, call_id="c2")

    assert (type(served), refused.code, len(remote.acts)) == (Succeeded, "quarantined", 1)


async def test_accepting_the_very_same_definition_again_ends_it(tmp_path: Path, remote: Remote) -> None:
    async with gate_of(tmp_path, remote.tool()) as gate:
        await quarantine_of(gate).drifted(drift_of())
        await gate.pins.accept([OTHER], by=MARA)
        assert (await submit(gate)).code == "quarantined"  # this process has the old one still

        await gate.pins.accept([ONE], by=MARA)

        assert type(await submit(gate)) is Succeeded
        assert await gate.pins.quarantined() == {StopScope.quarantine("desk.create", definition_digest(OTHER)).key}


@pytest.mark.case("L01")
async def test_what_is_replaced_is_refused_by_whoever_has_it_still(tmp_path: Path, remote: Remote) -> None:
    """Where no process has seen the change, or the server is many and some have not changed."""
    async with gate_of(tmp_path, remote.tool()) as gate:
        await gate.pins.accept([ONE], by=MARA)
        before = await submit(gate, call_id="c0")
        await gate.pins.accept([OTHER], by=MARA)

        after = await submit(gate, call_id="c1")
        (event,) = await events(gate, EventKind.TOOL_QUARANTINED)

    assert (type(before), after.code, after.may_have_acted) == (Succeeded, "quarantined", False)
    assert (event["detail"], event["decided_by"], len(remote.acts)) == ("replaced", "mara", 1)


async def test_a_person_quarantines_what_is_accepted_now(tmp_path: Path, remote: Remote) -> None:
    async with gate_of(tmp_path, remote.tool()) as gate:
        await gate.pins.accept([ONE], by=MARA)

        first = await gate.pins.quarantine("desk", "create", by=MARA, reason=SECRET)
        second = await gate.pins.quarantine("desk", "create", by=MARA)
        (event,) = await events(gate, EventKind.TOOL_QUARANTINED)

        assert (first, second) == (True, False)
        assert (await submit(gate)).code == "quarantined"
        assert (event["detail"], event["decided_by"], event["subject"]) == ("by_hand", "mara", "mara")
        assert await gate.pins.quarantined() == {StopScope.quarantine("desk.create", definition_digest(ONE)).key}


async def test_what_was_never_accepted_cannot_be_quarantined(tmp_path: Path) -> None:
    async with gate_of(tmp_path) as gate:
        with pytest.raises(NotFound):
            await gate.pins.quarantine("desk", "create", by=MARA)


@pytest.mark.parametrize("reason", [7, "x" * 501, "two\nlines"])
async def test_a_reason_is_one_short_line(tmp_path: Path, reason: Any) -> None:
    async with gate_of(tmp_path) as gate:
        await gate.pins.accept([ONE], by=MARA)
        with pytest.raises(MisuseError):
            await gate.pins.quarantine("desk", "create", by=MARA, reason=reason)


async def test_a_quarantine_is_no_stop_that_operators_see_or_lift(tmp_path: Path, remote: Remote) -> None:
    async with gate_of(tmp_path, remote.tool()) as gate:
        await quarantine_of(gate).drifted(drift_of())
        scope = StopScope.quarantine("desk.create", definition_digest(ONE))

        assert await gate.switch.stops(by=NORA) == ()
        for work in (gate.switch.resume(scope, by=NORA), gate.switch.stop(scope, by=NORA)):
            with pytest.raises(MisuseError, match="A quarantine is no stop"):
                await work
        with pytest.raises(NotFound):
            await gate.switch.resume(StopScope.of_tool("desk.create"), by=NORA)
        assert (await submit(gate)).code == "quarantined"


async def test_an_operators_stop_of_the_tool_outlives_its_acceptance(tmp_path: Path, remote: Remote) -> None:
    async with gate_of(tmp_path, remote.tool()) as gate:
        await gate.switch.stop(StopScope.of_tool("desk.create"), by=NORA)
        await quarantine_of(gate).drifted(drift_of())

        await gate.pins.accept([ONE], by=MARA)

        assert (await submit(gate)).code == "stopped"


async def test_a_stop_of_an_upstream_halts_its_tools_and_no_other(tmp_path: Path, remote: Remote) -> None:
    files = tool_of(
        a_pin(a_definition(server="files")), some_terms(), name="files.create", handler=remote.tool().function
    )
    async with gate_of(tmp_path, remote.tool(), files) as gate:
        report = await gate.switch.stop(StopScope.of_upstream("desk"), by=NORA)
        halted, goes_on = await submit(gate), await submit(gate, "files.create", call_id="c2")
        (stopped,) = await events(gate, EventKind.STOPPED)
        await gate.switch.resume(StopScope.of_upstream("desk"), by=NORA)
        again = await submit(gate, call_id="c3")

        assert (report.running_count, halted.code, type(goes_on), type(again)) == (0, "stopped", Succeeded, Succeeded)
        assert (stopped["detail"], stopped["reasons"]) == ("upstream", ["leave:deployment", "upstream:desk"])


async def test_a_store_that_fails_leaves_it_to_be_begun_again(
    tmp_path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gate_of(tmp_path, remote.tool()) as gate:

        async def fails(*_: object, **__: object) -> None:
            raise StoreUnavailable

        with monkeypatch.context() as patched:
            patched.setattr(gate.store, "stop", fails)
            with pytest.raises(StoreUnavailable):
                await quarantine_of(gate).drifted(drift_of())

        await quarantine_of(gate).drifted(drift_of())
        assert (await submit(gate)).code == "quarantined"


# ---------------------------------------------------------------- pins that are not what was signed


async def test_a_pin_that_somebody_altered_is_an_alarm_once_and_one_of_another_deployment_is_none(
    tmp_path: Path,
) -> None:
    def alter(change: Any) -> None:
        document = json.loads((tmp_path / "pins.json").read_text())
        change(document["pins"]["desk"])
        (tmp_path / "pins.json").write_text(json.dumps(document))

    async with gate_of(tmp_path) as gate:
        await gate.pins.accept([a_definition(tool) for tool in "abcd"], by=MARA)
        await gate.pins.check()
        assert await events(gate, EventKind.PIN_SUSPECT) == []
        alter(
            lambda tools: (tools["a"].update(accepted_by="eve"), tools["b"].update(more=1), tools["c"].update(key="k"))
        )

        await gate.pins.check()
        await gate.pins.check()
        assert [(each["detail"], each["reasons"]) for each in await events(gate, EventKind.PIN_SUSPECT)] == [
            ("altered", ["upstream:desk"]),
            ("unreadable", ["upstream:desk"]),
        ]

        (tmp_path / "pins.json").write_text("broken")
        await Worker(gate, clock=FakeClock(), pause_seconds=1.0).once()
        whole = (await events(gate, EventKind.PIN_SUSPECT))[-1]
        assert (whole["detail"], whole.get("reasons")) == ("unreadable", None)


# ---------------------------------------------------------------- names


def test_a_tool_of_our_own_is_not_named_like_those_of_an_upstream(remote: Remote) -> None:
    @placet.tool(effect="read", name="desk.mine")
    def mine() -> str:
        return ""

    with pytest.raises(ContractError, match="named like those of the upstream 'desk'"):
        placet.open(tools=[remote.tool(), mine], store=placet.MEMORY)


def test_a_tool_of_an_upstream_is_named_after_it() -> None:
    tool = tool_of(a_pin(), some_terms(), name="create", handler=Remote().tool().function)

    with pytest.raises(ContractError, match="not named after its upstream 'desk'"):
        placet.open(tools=[tool], store=placet.MEMORY)
