"""The guarantees of README.md, one test each, through the public API alone and on a real file."""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.testing import FakeClock
from tests.unguarded import unguarded

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("orders.refund",))
MARA = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read"))
CANARY = "canary-4f1c"


class Till:
    """What really happened, and what shall happen next time."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []
        self.trouble: BaseException | None = None
        self.answer: Any = None

    def tools(self, **options: Any) -> list[placet.Tool]:
        settings: dict[str, Any] = {"operation_key": "refund:{order_id}", "approval": "never", **options}

        @placet.tool(effect="write", risk="medium", permission="orders.refund", **settings)
        async def refund(order_id: str, cents: int) -> dict[str, int]:
            self.refunds.append((order_id, cents))
            if self.trouble is not None:
                raise self.trouble
            return {"refunded": cents} if self.answer is None else self.answer

        @placet.tool(effect="read")
        async def get_order(order_id: str) -> dict[str, str]:
            if self.trouble is not None:
                raise self.trouble
            return {"order": order_id}

        return [refund, get_order]


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


def proposal(tool: str = "refund", call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"call_id": call_id, "tool": tool, "arguments": arguments or {"order_id": "A7", "cents": 4200}}


def bodies(store: Path) -> list[dict[str, Any]]:
    connection = apsw.Connection(str(store))
    found = connection.execute("SELECT body FROM audit_events ORDER BY writer, sequence").fetchall()
    connection.close()
    return [json.loads(body) for (body,) in found]


def change(store: Path, *statements: str) -> None:
    """What a writer of the database may do without the key. A second SQLite library in one process would lose data."""
    connection = unguarded(apsw.Connection(str(store)))
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_g1_nothing_unlisted_runs(till: Till, store: Path) -> None:
    async with placet.open(tools=till.tools(), store=store) as gate:
        for name in ("Refund", "refund ", "refunds", "__class__", "tools", "os.system"):
            outcome = await gate.submit(proposal(name), principal=AGENT, run="r")
            assert (type(outcome), outcome.code) == (placet.Invalid, "unknown_tool")
    assert till.refunds == []


async def test_g2_nothing_unchecked_runs_or_is_shown(till: Till, store: Path) -> None:
    broken = [
        {"order_id": "A7", "cents": "4200"},
        {"order_id": "A7", "cents": 4200.0},
        {"order_id": "A7", "cents": 4200, "to": "me"},
        {"order_id": "A7"},
        '{"order_id":"A7","cents":1,"cents":4200}',
        '{"order_id":"A7","cents":NaN}',
        "",
    ]
    async with placet.open(tools=till.tools(), store=store) as gate:
        for index, arguments in enumerate(broken):
            call = {"call_id": f"c{index}", "tool": "refund", "arguments": arguments}
            assert type(await gate.submit(call, principal=AGENT, run="r")) is placet.Invalid
        assert till.refunds == []

        till.answer = {"refunded": "all of it"}
        outcome = await gate.submit(proposal(), principal=AGENT, run="r")

    assert type(outcome) is placet.Succeeded
    assert (outcome.code, outcome.result) == ("performed_result_unavailable", None)


@pytest.mark.parametrize("name", ["tenant", "tenant_id", "principal", "operation_key", "approval_id"])
def test_g3_the_server_says_who(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"async def act({name}: str) -> dict[str, str]: ...", namespace)

    with pytest.raises(placet.PlacetError, match="the server's to say"):
        placet.tool(effect="write", risk="low", permission="x")(namespace["act"])


class Policy:
    """A policy engine that answers whatever it was given, or raises it."""

    version = "test"
    timeout_seconds = 0.01

    def __init__(self, behaviour: Callable[[], Any]) -> None:
        self._behaviour = behaviour

    async def decide(self, call: object) -> Any:
        answer = self._behaviour()
        return await answer if asyncio.iscoroutine(answer) else answer

    def is_listed(self, contract: object, principal: object) -> bool:
        return True

    async def may_decide(self, question: object, person: object) -> Any:
        return None


def crash() -> None:
    raise RuntimeError


@pytest.mark.parametrize("behaviour", [crash, lambda: None, lambda: True, lambda: "allow", asyncio.Event().wait])
async def test_g4_every_fault_in_deciding_is_a_deny(behaviour: Callable[[], Any], till: Till, store: Path) -> None:
    async with placet.open(tools=till.tools(), store=store, policy=Policy(behaviour)) as gate:  # type: ignore[arg-type]
        outcome = await gate.submit(proposal(), principal=AGENT, run="r")

    assert (type(outcome), outcome.code, till.refunds) == (placet.Refused, "denied", [])


async def test_g4_nobody_acts_without_role_and_scope(till: Till, store: Path) -> None:
    viewer = placet.Principal.agent("viewer", tenant="acme", scopes=("orders.refund",))
    scopeless = placet.Principal.agent("scopeless", tenant="acme", roles=("admin",))
    async with placet.open(tools=till.tools(), store=store) as gate:
        for who in (viewer, scopeless):
            assert (await gate.submit(proposal(), principal=who, run=who.subject)).code == "denied"
    assert till.refunds == []


async def test_g5_an_approval_fits_one_call_and_is_spent_once(till: Till, store: Path) -> None:
    tools = till.tools(approval="always", operation_key=None)
    async with placet.open(tools=tools, store=store) as gate:

        async def ask(call_id: str, cents: int) -> placet.Outcome:
            return await gate.submit(proposal(call_id=call_id, order_id="A7", cents=cents), principal=AGENT, run="r")

        waiting = await ask("c1", 4200)
        assert type(waiting) is placet.AwaitingApproval
        view = await gate.desk.show(waiting.approval_id, by=MARA)
        with pytest.raises(placet.PlacetError) as refused:
            await gate.desk.approve(view.approval_id, digest=view.digest, by=AGENT)
        assert refused.value.code == "not_a_person"
        await gate.desk.approve(view.approval_id, digest=view.digest, by=MARA)

        assert (await ask("c2", 9900)).code == "approval_required"
        assert (await ask("c3", 4200)).code == "succeeded"
        assert (await ask("c4", 4200)).code == "approval_required"

    assert till.refunds == [("A7", 4200)]


async def test_g5_a_state_written_into_the_database_is_no_approval(till: Till, store: Path) -> None:
    async with placet.open(tools=till.tools(approval="always"), store=store) as gate:
        assert (await gate.submit(proposal(), principal=AGENT, run="r")).code == "approval_required"
        change(store, "UPDATE approvals SET state = 'approved'")
        outcome = await gate.submit(proposal(), principal=AGENT, run="r")

    assert (outcome.code, till.refunds) == ("approval_suspect", [])
    assert "approval_suspect" in [body["kind"] for body in bodies(store)]


async def test_g6_one_key_acts_once_among_concurrent_callers_and_after_reopening(till: Till, store: Path) -> None:
    async with placet.open(tools=till.tools(), store=store) as one, placet.open(tools=till.tools(), store=store) as two:
        calls = [
            gate.submit(proposal(call_id=f"c{index}"), principal=AGENT, run="r")
            for index in range(16)
            for gate in (one, two)
        ]
        codes = [outcome.code for outcome in await asyncio.gather(*calls)]
    async with placet.open(tools=till.tools(version="2"), store=store) as gate:
        codes.append((await gate.submit(proposal(call_id="late"), principal=AGENT, run="r2")).code)

    assert till.refunds == [("A7", 4200)]
    assert sorted(codes) == ["replayed"] * 32 + ["succeeded"]


async def test_g7_silence_is_unknown_until_reconciled(till: Till, store: Path) -> None:
    async def probe(context: placet.ProbeContext) -> Any:
        return seen.pop(0)

    seen: list[Any] = [placet.CannotTell(), placet.Found(result={"refunded": 4200})]
    till.trouble = ConnectionResetError()
    clock = FakeClock()
    manual = placet.Recovery.MANUAL
    async with placet.open(tools=till.tools(probe=probe), store=store, clock=clock, recovery=manual) as gate:
        assert (await gate.submit(proposal(), principal=AGENT, run="r")).code == "effect_unknown"
        till.trouble = None
        assert (await gate.submit(proposal(), principal=AGENT, run="r")).code == "effect_unknown"

        assert (await gate.reconciler.recover()).still_unknown == 1
        clock.advance(300)
        assert (await gate.reconciler.recover()).committed == 1
        replayed = await gate.submit(proposal(), principal=AGENT, run="r")

    assert type(replayed) is placet.Replayed
    assert (replayed.result, till.refunds) == ({"refunded": 4200}, [("A7", 4200)])


async def test_g7_absent_counts_only_after_the_quiet_end_and_not_from_the_requester(till: Till, store: Path) -> None:
    till.trouble = ConnectionResetError()
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    requester = placet.Principal.person("agent", tenant="acme", scopes=("effects.reconcile",))
    manual = placet.Recovery.MANUAL
    async with placet.open(tools=till.tools(approval="by_policy"), store=store, clock=clock, recovery=manual) as gate:
        unknown = await gate.submit(proposal(), principal=AGENT, run="r")
        assert type(unknown) is placet.Unknown
        assert unknown.operation_key is not None

        async def say_absent(by: placet.Principal) -> str:
            try:
                effect = await gate.reconciler.settle_by_person(
                    unknown.operation_key or "", placet.Truth.ABSENT, by=by, looked_at=clock.now(), reason="not_in_till"
                )
            except placet.PlacetError as refused:
                return refused.code
            return effect.state.value

        assert await say_absent(MARA) == "too_early_for_absent"
        clock.advance(15.001)  # 10 s to send, 5 s of pause, no bound of the remote
        assert await say_absent(requester) == "own_request"
        assert await say_absent(MARA) == "reconciled_absent"

        # this remote gives no hold, so even an allowed call now needs a person
        again = await gate.submit(proposal(), principal=AGENT, run="r")
        assert type(again) is placet.AwaitingApproval
        assert "may_act_twice" in (await gate.desk.show(again.approval_id, by=MARA)).reasons

    # a contract that never asks is refused instead
    async with placet.open(tools=till.tools(), store=store, clock=clock, recovery=manual) as gate:
        never = await gate.submit(proposal(), principal=AGENT, run="r")
        assert type(never) is placet.Refused
        assert never.reasons == ("may_act_twice", "contract_never_asks")


async def test_g8_steps_are_limited_across_reopening(till: Till, store: Path) -> None:
    settings = placet.GateSettings(max_steps=2)
    codes = []
    for call_id in ("c1", "c2", "c3"):
        async with placet.open(tools=till.tools(), store=store, settings=settings) as gate:
            asked = proposal("get_order", call_id, order_id="A7")
            codes.append((await gate.submit(asked, principal=AGENT, run="r")).code)

    assert codes == ["succeeded", "succeeded", "budget_exhausted"]


async def test_g8_a_deadline_ends_an_attempt_and_late_success_is_not_success(store: Path) -> None:
    @placet.tool(effect="write", risk="low", permission="orders.refund", timeout_seconds=0.02)
    async def slow(order_id: str) -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    async with placet.open(tools=[slow], store=store) as gate:
        outcome = await gate.submit(proposal("slow", order_id="A7"), principal=AGENT, run="r")

    assert type(outcome) is placet.Unknown


@pytest.mark.parametrize(
    "trouble", [None, ValueError(), SystemExit(), KeyboardInterrupt(), asyncio.CancelledError(), placet.NotSent()]
)
async def test_g9_every_started_attempt_is_completed(trouble: BaseException | None, till: Till, store: Path) -> None:
    till.trouble = trouble
    async with placet.open(tools=till.tools(), store=store) as gate:
        await gate.submit(proposal(), principal=AGENT, run="r")
        await gate.submit(proposal("get_order", "c2", order_id="A7"), principal=AGENT, run="r")
        await gate.submit(proposal("nothing", "c3"), principal=AGENT, run="r")
        report = await gate.verify_audit()

    kinds = [body["kind"] for body in bodies(store)]
    assert kinds.count("started") == kinds.count("completed") >= 3
    assert (report.holds, report.unpaired) == (True, 0)


async def test_g9_a_caller_that_leaves_has_its_attempt_closed(store: Path) -> None:
    begun = asyncio.Event()

    @placet.tool(effect="write", risk="low", permission="orders.refund")
    async def hang(order_id: str) -> dict[str, str]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    async with placet.open(tools=[hang], store=store) as gate:
        call = asyncio.ensure_future(gate.submit(proposal("hang", order_id="A7"), principal=AGENT, run="r"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (effect,) = await gate.reconciler.effects(by=AGENT)
        assert (effect.state, (await gate.verify_audit()).unpaired) == (placet.EffectState.UNKNOWN, 0)


async def test_g10_no_argument_result_or_exception_text_leaves(
    till: Till, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    metrics = CollectorRegistry()
    told: list[str] = []
    async with placet.open(tools=till.tools(operation_key=None), store=store, metrics=metrics) as gate:
        for call_id, trouble in (("c1", None), ("c2", ValueError(CANARY)), ("c3", RuntimeError(CANARY))):
            till.trouble, till.answer = trouble, {CANARY: 1}
            call = proposal(call_id=call_id, order_id=CANARY, cents=1)
            outcome = await gate.submit(call, principal=AGENT, run="r")
            told.append("" if type(outcome) is placet.Succeeded else repr(outcome))
        told.append(repr(await gate.submit(proposal("refund", "c4", **{CANARY: CANARY}), principal=AGENT, run="r")))
        told.append(repr(await gate.submit(proposal(CANARY, "c5"), principal=AGENT, run="r")))

    written = b"".join(path.read_bytes() for path in store.parent.iterdir())
    assert CANARY.encode() not in written
    assert CANARY not in "".join(repr(vars(record)) for record in caplog.records)
    assert CANARY not in generate_latest(metrics).decode()
    assert [text for text in told[:3] if CANARY in text] == []
    assert CANARY not in told[4]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE audit_events SET body = replace(body, 'agent', 'angel') WHERE sequence = 2", "event_altered"),
        ("DELETE FROM audit_events WHERE sequence = 2", "events_missing"),
        ("DELETE FROM audit_events WHERE sequence > 2", "tail_missing"),
        ("UPDATE audit_events SET sequence = CASE sequence WHEN 2 THEN 3 ELSE 2 END WHERE sequence IN (2, 3)", None),
        ("UPDATE audit_heads SET sequence = 2", "head_altered"),
        ("DELETE FROM audit_heads", "head_missing"),
    ],
)
async def test_g11_a_changed_removed_or_moved_event_shows(
    statement: str, problem: str | None, till: Till, store: Path
) -> None:
    async with placet.open(tools=till.tools(), store=store) as gate:
        for call_id in ("c1", "c2"):
            await gate.submit(proposal(call_id=call_id), principal=AGENT, run="r")
        assert (await gate.verify_audit()).holds
    if problem is None:  # two rows change places by way of a free one
        change(
            store,
            "UPDATE audit_events SET sequence = 99 WHERE sequence = 2",
            "UPDATE audit_events SET sequence = 2 WHERE sequence = 3",
            "UPDATE audit_events SET sequence = 3 WHERE sequence = 99",
        )
    else:
        change(store, statement)

    async with placet.open(tools=till.tools(), store=store) as gate:
        report = await gate.verify_audit()

    assert not report.holds
    assert problem in (None, *(each.problem for each in report.breaks))


async def test_g11_a_rollback_of_everything_shows_against_a_head_kept_outside(till: Till, store: Path) -> None:
    async with placet.open(tools=till.tools(), store=store) as gate:
        await gate.submit(proposal(), principal=AGENT, run="r")
        anchors = {head.writer: (head.sequence, head.link) for head in await gate.store.heads()}
        assert (await gate.verify_audit(anchors=dict(anchors))).holds
    change(store, "DELETE FROM audit_events", "DELETE FROM audit_heads")

    async with placet.open(tools=till.tools(), store=store) as gate:
        assert (await gate.verify_audit()).holds  # nobody inside can tell
        report = await gate.verify_audit(anchors=dict(anchors))

    assert [each.problem for each in report.breaks] == ["history_missing"]


async def test_g12_another_tenants_object_does_not_exist(till: Till, store: Path) -> None:
    stranger = placet.Principal.person("eve", tenant="other", roles=("admin",), scopes=tuple(MARA.scopes))
    theirs = placet.Principal.agent("agent", tenant="other", roles=("operator",), scopes=("orders.refund",))
    async with placet.open(tools=till.tools(approval="always"), store=store) as gate:
        waiting = await gate.submit(proposal(), principal=AGENT, run="r")
        assert type(waiting) is placet.AwaitingApproval
        told = []
        for approval_id in (waiting.approval_id, "apr-0"):
            with pytest.raises(placet.PlacetError) as refused:
                await gate.desk.show(approval_id, by=stranger)
            told.append((refused.value.code, str(refused.value)))
        assert told[0] == told[1]
        assert await gate.desk.listed(by=stranger) == ()
        assert await gate.reconciler.effects(by=stranger) == ()

        # the same key of another tenant is another operation
        other = await gate.submit(proposal(), principal=theirs, run="r")
        assert type(other) is placet.AwaitingApproval
        assert other.approval_id != waiting.approval_id
