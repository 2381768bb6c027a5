"""What the suite is made of: an empty store with its clock, sample commands, and the steps many tests begin with."""

# ruff: noqa: S101, S107 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import orjson

from placet.engine.auditing import verify_store
from placet.errors import PlacetError
from placet.model.approval import Answer, Approval, ApprovalDecision, ApprovalState, Mac, Question
from placet.model.audit import AuditEvent, AuditOutcome, ChainedEvent, EventKind
from placet.model.decision import RequirementKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import (
    ApprovalId,
    CallId,
    Digest,
    OperationKey,
    OwnerId,
    PolicyVersion,
    RequestId,
    RunId,
    Token,
)
from placet.model.ledger import (
    Claim,
    Claimed,
    Moved,
    OpenRead,
    Place,
    Reconciliation,
    Recorded,
    SameAsk,
    Settlement,
    Spend,
    Step,
    Turn,
)
from placet.ports.store import Store
from placet.rules.chain_check import ChainReport
from placet.rules.chains import Linker
from placet.testing.fakes import FakeClock

LEASE_SECONDS = 30.0
WINDOW_SECONDS = 10.0
PAUSE_SECONDS = 5.0
EVERY_STATE = tuple(EffectState)
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class HandlersTransaction:
    """An open transaction as a handler has one. `write` puts a word into a table of the handler's own."""

    connection: object
    write: Callable[[str], Awaitable[None]]


class HandlersDatabase(Protocol):
    """The database of the store, as a handler uses it beside the store: one table of words."""

    def transaction(self) -> AbstractAsyncContextManager[HandlersTransaction]:
        """On a connection of its own; committed at its end, rolled back by an exception."""
        ...

    async def words(self) -> list[str]:
        """What was committed, in order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One empty store and what its tests need beside it.

    Attributes:
        clock: the store's clock; the store was opened with it.
        linker: checks the MACs of the store's audit chains.
        open_again: opens the same store a second time, as another process would; None if that cannot be.
        database: where handlers write beside the store; None if they cannot.
    """

    store: Store
    clock: FakeClock
    linker: Linker
    open_again: Callable[[], Awaitable[Store]] | None = None
    database: HandlersDatabase | None = None

    async def verified(self) -> ChainReport:
        return await verify_store(self.store, self.linker)

    async def events(self) -> list[ChainedEvent]:
        return [event async for event in self.store.chained()]

    async def told(self, tenant: str = "acme") -> list[str]:
        """The kinds of a tenant's events, in order of each writer."""
        return [str(orjson.loads(event.body)["kind"]) async for event in self.store.chained(tenant=tenant)]


MakeStore = Callable[[], Awaitable[Subject]]

# ---------------------------------------------------------------- samples


def an_event(kind: EventKind = EventKind.STARTED, *, tenant: str = "acme", **changes: Any) -> AuditEvent:
    facts: dict[str, Any] = {"run_id": "run-1", "call_id": "call-1", "tool": "pay", "attempt": 1, "fence": 1}
    facts.update(changes)
    if kind is EventKind.COMPLETED:
        facts.setdefault("outcome", AuditOutcome.SUCCESS)
    return AuditEvent(kind=kind, at=_BEGINNING, tenant=tenant, subject="agent-1", key_id="k-1", **facts)


def a_forbidden_event() -> AuditEvent:
    """One that no store may write: a completed event without an outcome."""
    return replace(an_event(EventKind.COMPLETED), outcome=None)


def a_step(
    call_id: str = "call-1",
    *,
    tenant: str = "acme",
    run_id: str = "run-1",
    subject: str = "agent-1",
    max_steps: int = 50,
    fingerprint: str = "f" * 64,
    max_denials: int = 3,
    pin: Digest | None = None,
) -> Step:
    return Step(
        tenant=tenant,
        run_id=RunId(run_id),
        call_id=CallId(call_id),
        fingerprint=fingerprint,
        subject=subject,
        policy_version=PolicyVersion("policy-1"),
        max_steps=max_steps,
        max_denials=max_denials,
        pin=pin,
    )


def a_claim(
    key: str = "key-1",
    *,
    token: str = "token-1",
    fence: int = 0,
    tenant: str = "acme",
    step: Step | None = None,
    **changes: Any,
) -> Claim:
    step = step or a_step(tenant=tenant)
    claim = Claim(
        tenant=tenant,
        operation_key=OperationKey(key),
        fingerprint=Digest("f" * 64),
        tool="pay",
        tool_version="1",
        contract_digest=Digest("c" * 64),
        argument_digest=Digest("a" * 64),
        run_id=step.run_id,
        call_id=step.call_id,
        subject=step.subject,
        policy_version=PolicyVersion("policy-1"),
        decision="allow",
        sealed_arguments=b"sealed arguments",
        arrival_bound_seconds=2.0,
        ends_by_itself=True,
        first_attempt=1,
        expected_fence=fence,
        token=Token(token),
        owner=OwnerId("owner-1"),
        lease_seconds=LEASE_SECONDS,
        send_window_seconds=WINDOW_SECONDS,
        spend=None,
        step=step,
        events=(an_event(tenant=tenant, fence=fence + 1, call_id=step.call_id, run_id=step.run_id),),
    )
    return replace(claim, **changes)


def a_turn(effect: Effect, **changes: Any) -> Turn:
    closing = an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR, attempt=effect.attempt, fence=effect.fence)
    opening = an_event(attempt=effect.attempt + 1, fence=effect.fence)
    turn = Turn(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        fence=effect.fence,
        attempt=effect.attempt,
        lease_seconds=LEASE_SECONDS,
        send_window_seconds=WINDOW_SECONDS,
        max_attempts=100,
        events=(closing, opening),
    )
    return replace(turn, **changes)


def a_settlement(effect: Effect, state: EffectState = EffectState.COMMITTED, **changes: Any) -> Settlement:
    is_committed = state is EffectState.COMMITTED
    settlement = Settlement(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        fence=effect.fence,
        token=effect.token,
        attempt=effect.attempt,
        state=state,
        reason="returned" if is_committed else "raised",
        attempt_has_ended=True,
        sealed_result=b"sealed result" if is_committed else None,
        result_digest=Digest("d" * 64) if is_committed else None,
        external_reference="remote-7" if is_committed else None,
        events=(an_event(EventKind.COMPLETED, tenant=effect.tenant, attempt=effect.attempt, fence=effect.fence),),
        late_events=(an_event(EventKind.EFFECT_RECONCILED, tenant=effect.tenant, fence=effect.fence),),
    )
    return replace(settlement, **changes)


def a_reconciliation(
    effect: Effect, state: EffectState = EffectState.RECONCILED_COMMITTED, *, looked_at: datetime, **changes: Any
) -> Reconciliation:
    reconciliation = Reconciliation(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        fence=effect.fence,
        state=state,
        looked_at=looked_at,
        pause_seconds=PAUSE_SECONDS,
        reason="probe",
        sealed_result=None,
        result_digest=None,
        external_reference=None,
        events=(an_event(EventKind.EFFECT_RECONCILED, tenant=effect.tenant, fence=effect.fence),),
    )
    return replace(reconciliation, **changes)


def a_question(approval_id: str = "apr-1", *, tenant: str = "acme", asked_at: datetime, **changes: Any) -> Question:
    question = Question(
        approval_id=ApprovalId(approval_id),
        tenant=tenant,
        environment="production",
        subject="agent-1",
        on_behalf_of=None,
        request_id=RequestId("request-1"),
        run_id=RunId("run-1"),
        call_id=CallId("call-1"),
        tool="pay",
        tool_version="1",
        contract_digest=Digest("c" * 64),
        argument_digest=Digest("a" * 64),
        resource=None,
        operation_key=OperationKey("key-1"),
        dispatch_number=0,
        purpose="pay",
        policy_version=PolicyVersion("policy-1"),
        reasons=("matrix_admin_high",),
        requirement=RequirementKind.REVIEW,
        lifetime_seconds=300.0,
        asked_at=asked_at,
        decide_by=asked_at + timedelta(days=1),
        nonce="nonce-1",
        sealed_arguments=b"sealed arguments",
    )
    return replace(question, **changes)


def the_same_ask(question: Question, *, operation_key: OperationKey | None = None) -> SameAsk:
    return SameAsk(
        tenant=question.tenant,
        subject=question.subject,
        run_id=question.run_id,
        tool=question.tool,
        argument_digest=question.argument_digest,
        policy_version=question.policy_version,
        operation_key=operation_key,
    )


def an_answer(question: Question, decision: ApprovalDecision = ApprovalDecision.APPROVE, *, at: datetime) -> Answer:
    return Answer(
        decision=decision,
        decided_by="mara",
        decided_at=at,
        expires_at=at + timedelta(seconds=question.lifetime_seconds),
        digest_seen=question.argument_digest,
        reason="",
    )


A_MAC = Mac(key_id="k-1", value="5" * 64)
ANOTHER_MAC = Mac(key_id="k-1", value="6" * 64)


def a_spend(approval: Approval) -> Spend:
    signature = approval.signature.value if approval.signature is not None else ""
    return Spend(
        approval_id=approval.question.approval_id, signature=signature, event=an_event(EventKind.APPROVAL_SPENT)
    )


# ---------------------------------------------------------------- steps that many tests begin with


async def claimed(subject: Subject, /, key: str = "key-1", **changes: Any) -> Effect:
    answer = await subject.store.claim(a_claim(key, **changes))
    assert isinstance(answer, Claimed), answer
    return answer.effect


async def unknown(subject: Subject, /, key: str = "key-1", **changes: Any) -> Effect:
    """An effect whose owner was lost: the lease is over and the row was taken over."""
    effect = await claimed(subject, key, **changes)
    subject.clock.advance(LEASE_SECONDS)
    return await taken_over(subject, effect)


async def taken_over(subject: Subject, effect: Effect) -> Effect:
    event = an_event(
        EventKind.COMPLETED,
        outcome=AuditOutcome.UNKNOWN,
        tenant=effect.tenant,
        attempt=effect.attempt,
        fence=effect.fence,
    )
    answer = await subject.store.take_over(effect, (event,))
    assert isinstance(answer, Moved) and answer.is_news, answer
    return answer.effect


async def settled(subject: Subject, effect: Effect, state: EffectState = EffectState.COMMITTED) -> Effect:
    answer = await subject.store.settle(a_settlement(effect, state))
    assert isinstance(answer, Moved) and answer.is_news, answer
    return answer.effect


async def pending(subject: Subject, /, approval_id: str = "apr-1", **changes: Any) -> Approval:
    question = a_question(approval_id, asked_at=subject.clock.now(), **changes)
    answer = await subject.store.ask(
        question,
        A_MAC,
        the_same_ask(question),
        step=a_step(tenant=question.tenant),
        events=(an_event(EventKind.APPROVAL_ASKED, tenant=question.tenant),),
    )
    assert isinstance(answer, Approval), answer
    return answer


async def decided(
    subject: Subject, approval: Approval, decision: ApprovalDecision = ApprovalDecision.APPROVE
) -> Approval:
    kind = EventKind.APPROVAL_APPROVED if decision is ApprovalDecision.APPROVE else EventKind.APPROVAL_DENIED
    given = an_answer(approval.question, decision, at=subject.clock.now())
    event = an_event(kind, tenant=approval.question.tenant)
    return await subject.store.answer(approval, given, ANOTHER_MAC, events=(event,))


async def in_state(subject: Subject, state: ApprovalState) -> Approval:
    """An approval brought into the state by the verbs that lead there."""
    store, approval = subject.store, await pending(subject)
    match state:
        case ApprovalState.PENDING:
            return approval
        case ApprovalState.DENIED:
            return await decided(subject, approval, ApprovalDecision.DENY)
        case ApprovalState.EXPIRED | ApprovalState.WITHDRAWN:
            return await store.retire(approval, state, events=())
        case _:
            approval = await decided(subject, approval)
    if state is ApprovalState.REVOKED:
        return await store.retire(approval, state, events=())
    if state is ApprovalState.SPENT:
        assert isinstance(await store.claim(a_claim("spender", spend=a_spend(approval))), Claimed)
        found = await store.approval("acme", approval.question.approval_id)
        assert found is not None
        return found
    return approval


async def opened(subject: Subject, *, owner: str = "owner-1") -> Place:
    """The place of a started event whose read is under way."""
    opens = OpenRead(owner=OwnerId(owner), lease_seconds=LEASE_SECONDS)
    answer = await subject.store.record((an_event(),), step=a_step(), starts_tool="look", opens=opens)
    assert isinstance(answer, Recorded), answer
    return answer.place


Snapshot = tuple[object, ...]


async def everything(subject: Subject) -> Snapshot:
    """All that can be seen of a store; two equal ones mean that nothing was written."""
    store = subject.store
    approvals = [await store.approvals(tenant, states=tuple(ApprovalState), limit=99) for tenant in ("acme", "other")]
    return (
        frozenset(await store.effects(tenant=None, states=EVERY_STATE, limit=99)),
        approvals,
        await store.stop_records(),
        [event.body async for event in store.chained()],
    )


async def fault_of(work: Awaitable[object]) -> PlacetError | None:
    """The fault a verb raised, if it did."""
    try:
        await work
    except PlacetError as fault:
        return fault
    return None
