"""What a store must do to be a placet store: one suite, for ours and for anybody's.

Subclass `StoreConformance` in a test module and give it a fixture `make_store`, a coroutine function that opens an
empty store and answers with a `Subject`. Tests are coroutines (pytest-asyncio in auto mode, or anyio's plugin).

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self): ...

A store is right when every test passes. Nothing here knows how it keeps its rows.
"""

# ruff: noqa: S101, S106, S107 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from placet.errors import NotFound, PlacetError, StoreUnavailable
from placet.model.approval import Answer, Approval, ApprovalState, Mac, Question, Verdict
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
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
    Halted,
    Held,
    Moved,
    NotMoved,
    NotUsable,
    NotYourRun,
    OpenRead,
    OverBudget,
    Place,
    Reconciliation,
    Recorded,
    SameAsk,
    Settlement,
    Spend,
    Step,
    Turn,
    Voided,
)
from placet.ports.store import Store
from placet.rules.approvals import TRANSITIONS as APPROVAL_TRANSITIONS
from placet.rules.audit import ChainReport, Linker, verify_chains
from placet.testing.fakes import FakeClock

LEASE_SECONDS = 30.0
WINDOW_SECONDS = 10.0
PAUSE_SECONDS = 5.0
EVERY_STATE = tuple(EffectState)
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One empty store and what its tests need beside it.

    Attributes:
        clock: the store's clock; the store was opened with it.
        linker: checks the MACs of the store's audit chains.
        open_again: opens the same store a second time, as another process would; None if that cannot be.
    """

    store: Store
    clock: FakeClock
    linker: Linker
    open_again: Callable[[], Awaitable[Store]] | None = None

    def verified(self) -> ChainReport:
        return verify_chains(self.store.chained(), self.store.heads(), self.linker)

    def told(self, tenant: str = "acme") -> list[str]:
        """The kinds of a tenant's events, in order of each writer."""
        return [str(orjson.loads(event.body)["kind"]) for event in self.store.chained(tenant=tenant)]


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
) -> Step:
    return Step(
        tenant=tenant,
        run_id=RunId(run_id),
        call_id=CallId(call_id),
        subject=subject,
        policy_version=PolicyVersion("policy-1"),
        max_steps=max_steps,
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


def an_answer(question: Question, verdict: Verdict = Verdict.APPROVE, *, at: datetime) -> Answer:
    return Answer(
        verdict=verdict,
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


async def decided(subject: Subject, approval: Approval, verdict: Verdict = Verdict.APPROVE) -> Approval:
    kind = EventKind.APPROVAL_APPROVED if verdict is Verdict.APPROVE else EventKind.APPROVAL_DENIED
    given = an_answer(approval.question, verdict, at=subject.clock.now())
    event = an_event(kind, tenant=approval.question.tenant)
    return await subject.store.answer(approval, given, ANOTHER_MAC, events=(event,))


async def in_state(subject: Subject, state: ApprovalState) -> Approval:
    """An approval brought into the state by the verbs that lead there."""
    store, approval = subject.store, await pending(subject)
    match state:
        case ApprovalState.PENDING:
            return approval
        case ApprovalState.DENIED:
            return await decided(subject, approval, Verdict.DENY)
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
        await store.stops(),
        [event.body for event in store.chained()],
    )


class StoreConformance:
    """The suite. Every test opens its own empty store."""

    # ------------------------------------------------------------ claim

    async def test_a_first_claim_is_dispatched_with_fence_1_and_its_started_event(self, make_store: MakeStore) -> None:
        subject = await make_store()
        now = subject.clock.now()

        answer = await subject.store.claim(a_claim())

        assert isinstance(answer, Claimed)
        assert answer.effect == await subject.store.effect("acme", OperationKey("key-1"))
        assert answer.effect == Effect(
            tenant="acme",
            operation_key=OperationKey("key-1"),
            fingerprint=Digest("f" * 64),
            tool="pay",
            tool_version="1",
            contract_digest=Digest("c" * 64),
            argument_digest=Digest("a" * 64),
            run_id=RunId("run-1"),
            call_id=CallId("call-1"),
            subject="agent-1",
            policy_version=PolicyVersion("policy-1"),
            decision="allow",
            approval_id=None,
            state=EffectState.DISPATCHED,
            fence=1,
            attempts=1,
            attempt=1,
            token=Token("token-1"),
            owner=OwnerId("owner-1"),
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            send_by=now + timedelta(seconds=WINDOW_SECONDS),
            arrival_bound_seconds=2.0,
            ends_by_itself=True,
            attempt_ended_at=None,
            probes=0,
            probe_after=None,
            sealed_arguments=b"sealed arguments",
            sealed_result=None,
            result_digest=None,
            external_reference=None,
            reason=None,
            created_at=now,
            updated_at=now,
        )
        assert subject.told() == ["started"]

    async def test_a_second_claim_is_held_and_writes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        answer = await subject.store.claim(a_claim(token="token-2", step=a_step("call-2", max_steps=1)))

        assert answer == Held(effect=effect)
        assert await everything(subject) == before

    async def test_a_claim_repeated_by_its_token_is_claimed_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(1)
        before = await everything(subject)

        answer = await subject.store.claim(a_claim())

        assert answer == Claimed(effect=effect)
        assert await everything(subject) == before

    async def test_a_claim_repeated_after_the_row_was_taken_over_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        before = await everything(subject)

        assert await subject.store.claim(a_claim()) == Held(effect=effect)
        assert await everything(subject) == before

    async def test_a_failed_operation_is_claimed_with_the_next_fence_and_keeps_its_history(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)
        subject.clock.advance(1)

        again = await claimed(subject, token="token-2", fence=1)

        assert (again.fence, again.attempts, again.created_at) == (2, 2, failed.created_at)
        assert (again.state, again.reason, again.sealed_result) == (EffectState.DISPATCHED, None, None)

    async def test_an_absent_operation_is_claimed_with_the_next_fence(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        look = subject.clock.now()
        truth = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=look)
        assert isinstance(await subject.store.reconcile(truth), Moved)

        again = await claimed(subject, token="token-2", fence=1)

        assert (again.fence, again.state, again.probes) == (2, EffectState.DISPATCHED, 0)

    async def test_a_claim_that_expects_another_fence_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)
        before = await everything(subject)

        for fence in (0, 2, 7):
            assert await subject.store.claim(a_claim(token="token-2", fence=fence)) == Held(effect=failed)
        assert await everything(subject) == before

    async def test_a_claim_of_other_arguments_is_held(self, make_store: MakeStore) -> None:
        subject = await make_store()
        failed = await settled(subject, await claimed(subject), EffectState.FAILED)

        answer = await subject.store.claim(a_claim(token="token-2", fence=1, fingerprint=Digest("0" * 64)))

        assert answer == Held(effect=failed)

    async def test_a_finished_or_unknown_operation_is_never_claimed(self, make_store: MakeStore) -> None:
        subject = await make_store()
        committed = await settled(subject, await claimed(subject, "done"))
        lost = await unknown(subject, "lost", token="token-2")
        found = await unknown(subject, "found", token="token-3")
        truth = await subject.store.reconcile(a_reconciliation(found, looked_at=subject.clock.now()))
        before = await everything(subject)

        for effect in (committed, lost, truth.effect):
            claim = a_claim(effect.operation_key, token="late", fence=effect.fence)
            assert await subject.store.claim(claim) == Held(effect=effect)
        assert await everything(subject) == before

    async def test_of_many_claims_at_once_one_wins(self, make_store: MakeStore) -> None:
        subject = await make_store()

        answers = await asyncio.gather(
            *(subject.store.claim(a_claim(token=f"token-{n}", step=a_step(f"call-{n}"))) for n in range(32))
        )

        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert sum(isinstance(answer, Held) for answer in answers) == 31
        assert subject.told() == ["started"]

    async def test_of_two_openings_of_one_store_one_wins(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        second = await subject.open_again()

        answers = await asyncio.gather(
            *(
                store.claim(a_claim(f"key-{n}", token=f"token-{which}-{n}", step=a_step(f"call-{which}-{n}")))
                for n in range(16)
                for which, store in enumerate((subject.store, second))
            )
        )
        await second.close()

        assert sum(isinstance(answer, Claimed) for answer in answers) == 16
        assert sum(isinstance(answer, Held) for answer in answers) == 16
        assert subject.verified().holds

    async def test_a_claim_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        before = await everything(subject)

        claim = a_claim(spend=a_spend(approval), events=(an_event(), a_forbidden_event()))
        assert await fault_of(subject.store.claim(claim)) is not None

        assert await everything(subject) == before
        assert subject.verified().holds

    # ------------------------------------------------------------ voiding

    async def test_a_voided_token_never_claims(self, make_store: MakeStore) -> None:
        subject = await make_store()

        assert await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))
        assert await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))

        assert await subject.store.claim(a_claim()) == Voided()
        assert await subject.store.effect("acme", OperationKey("key-1")) is None
        assert isinstance(await subject.store.claim(a_claim(token="token-2")), Claimed)

    async def test_a_token_that_has_claimed_cannot_be_voided(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)

        assert not await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))
        await settled(subject, effect)
        assert not await subject.store.void("acme", OperationKey("key-1"), Token("token-1"))

        assert subject.told() == ["started", "completed"]

    # ------------------------------------------------------------ stops

    async def test_a_stop_halts_claims_of_its_scope_until_resumed(self, make_store: MakeStore) -> None:
        subject = await make_store()

        for scope in ("all", "tenant:acme", "tool:pay", 'run:["acme","run-1"]'):
            await subject.store.stop(scope, (an_event(EventKind.STOPPED),))
            before = await everything(subject)
            assert await subject.store.claim(a_claim()) == Halted(scope=scope)
            assert await everything(subject) == before
            await subject.store.resume(scope, (an_event(EventKind.RESUMED),))

        assert await subject.store.stops() == ()
        assert isinstance(await subject.store.claim(a_claim()), Claimed)

    async def test_a_stop_of_others_halts_nothing_here(self, make_store: MakeStore) -> None:
        subject = await make_store()

        for scope in ("tenant:other", "tool:refund", 'run:["acme","run-2"]', 'run:["other","run-1"]'):
            await subject.store.stop(scope, ())

        assert isinstance(await subject.store.claim(a_claim()), Claimed)

    async def test_a_stop_counts_what_is_still_dispatched_in_its_scope(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject, "key-1")
        await claimed(subject, "key-2", token="token-2", tool="refund")
        await claimed(subject, "key-3", token="token-3", tenant="other", step=a_step(tenant="other", run_id="run-2"))
        await settled(subject, await claimed(subject, "key-4", token="token-4"))

        counts = {
            scope: await subject.store.stop(scope, ())
            for scope in ("all", "tenant:acme", "tool:pay", 'run:["other","run-2"]', 'run:["acme","run-9"]')
        }

        assert counts == {
            "all": 3,
            "tenant:acme": 2,
            "tool:pay": 2,
            'run:["other","run-2"]': 1,
            'run:["acme","run-9"]': 0,
        }
        assert await subject.store.stop("all", ()) == 3

    async def test_a_stop_refuses_the_next_attempt_and_lets_the_effect_settle(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.stop("tool:pay", ())
        before = await everything(subject)

        answer = await subject.store.turn(a_turn(effect))

        assert answer == NotMoved(effect=effect, reason="stopped:tool:pay")
        assert await everything(subject) == before
        assert (await settled(subject, effect)).state is EffectState.COMMITTED

    # ------------------------------------------------------------ steps and budgets

    async def test_a_run_has_so_many_steps_and_no_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in (1, 2):
            await claimed(subject, f"key-{n}", token=f"token-{n}", step=a_step(f"call-{n}", max_steps=2))
        before = await everything(subject)

        third = a_claim("key-3", token="token-3", step=a_step("call-3", max_steps=2))
        assert await subject.store.claim(third) == OverBudget()
        assert await subject.store.record((an_event(),), step=a_step("call-3", max_steps=2)) == OverBudget()
        question = a_question(asked_at=subject.clock.now())
        asked = await subject.store.ask(
            question, A_MAC, the_same_ask(question), step=a_step("call-3", max_steps=2), events=(an_event(),)
        )

        assert asked == OverBudget()
        assert await everything(subject) == before

    async def test_one_call_id_counts_once_whatever_it_does(self, make_store: MakeStore) -> None:
        subject = await make_store()
        step = a_step("call-1", max_steps=1)

        for n in range(3):
            assert isinstance(await subject.store.record((an_event(),), step=step), Recorded)
            await claimed(subject, f"key-{n}", token=f"token-{n}", step=step)

        assert await subject.store.record((), step=a_step("call-2", max_steps=1)) == OverBudget()

    async def test_the_limit_of_a_run_is_the_one_it_began_with(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((), step=a_step("call-1", max_steps=1))

        assert await subject.store.record((), step=a_step("call-2", max_steps=50)) == OverBudget()

    async def test_a_refused_claim_takes_no_step(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject, step=a_step("call-1", max_steps=2))
        assert isinstance(await subject.store.claim(a_claim(token="token-2", step=a_step("call-2", max_steps=2))), Held)

        assert isinstance(await subject.store.record((), step=a_step("call-3", max_steps=2)), Recorded)
        assert await subject.store.record((), step=a_step("call-2", max_steps=2)) == OverBudget()

    async def test_a_run_belongs_to_whoever_opened_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((), step=a_step())
        before = await everything(subject)
        stranger = a_step("call-2", subject="agent-2")

        assert await subject.store.claim(a_claim(step=stranger)) == NotYourRun()
        assert await subject.store.record((an_event(),), step=stranger) == NotYourRun()
        assert await everything(subject) == before

    async def test_runs_of_two_tenants_with_one_name_are_two(self, make_store: MakeStore) -> None:
        subject = await make_store()
        assert isinstance(await subject.store.record((), step=a_step(max_steps=1)), Recorded)

        other = a_step("call-2", tenant="other", subject="agent-2", max_steps=1)
        assert isinstance(await subject.store.record((), step=other), Recorded)

    # ------------------------------------------------------------ turn

    async def test_a_turn_closes_one_attempt_and_opens_the_next(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(7)
        now = subject.clock.now()

        answer = await subject.store.turn(a_turn(effect))

        expected = replace(
            effect,
            attempt=2,
            attempts=2,
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            send_by=now + timedelta(seconds=WINDOW_SECONDS),
            updated_at=now,
        )
        assert answer == Moved(effect=expected)
        assert await subject.store.effect("acme", OperationKey("key-1")) == expected
        assert subject.told() == ["started", "completed", "started"]

    async def test_a_turn_repeated_after_a_lost_answer_changes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        turn = a_turn(await claimed(subject))
        first = await subject.store.turn(turn)
        before = await everything(subject)

        assert await subject.store.turn(turn) == Moved(effect=first.effect, is_news=False)
        assert await everything(subject) == before

    async def test_a_turn_of_another_dispatch_or_attempt_or_end_is_refused(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        for turn, reason in (
            (a_turn(effect, fence=2), "taken_over"),
            (a_turn(effect, attempt=2), "other_attempt"),
            (a_turn(effect, max_attempts=1), "attempts_used_up"),
        ):
            assert await subject.store.turn(turn) == NotMoved(effect=effect, reason=reason)
        assert await everything(subject) == before

        done = await settled(subject, effect)
        assert await subject.store.turn(a_turn(effect)) == NotMoved(effect=done, reason="taken_over")

    # ------------------------------------------------------------ settle

    async def test_a_settlement_stores_state_result_and_completed_event_together(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(3)

        answer = await subject.store.settle(a_settlement(effect))

        expected = replace(
            effect,
            state=EffectState.COMMITTED,
            reason="returned",
            attempt_ended_at=subject.clock.now(),
            sealed_result=b"sealed result",
            result_digest=Digest("d" * 64),
            external_reference="remote-7",
            updated_at=subject.clock.now(),
        )
        assert answer == Moved(effect=expected)
        assert await subject.store.effect("acme", OperationKey("key-1")) == expected
        assert subject.told() == ["started", "completed"]

    async def test_a_settlement_repeated_by_its_token_changes_nothing_and_answers_the_same(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n, state in enumerate((EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN)):
            settlement = a_settlement(await claimed(subject, f"key-{n}", token=f"token-{n}"), state)
            first = await subject.store.settle(settlement)
            subject.clock.advance(1)
            before = await everything(subject)

            assert await subject.store.settle(settlement) == Moved(effect=first.effect, is_news=False)
            assert await everything(subject) == before

    async def test_a_settlement_by_a_stale_fence_or_a_strange_token_changes_nothing(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        for settlement in (
            a_settlement(effect, fence=2),
            a_settlement(effect, fence=0),
            a_settlement(effect, token=Token("token-2")),
        ):
            assert await subject.store.settle(settlement) == NotMoved(effect=effect, reason="taken_over")
        assert await everything(subject) == before

    async def test_a_settlement_closes_the_attempt_that_is_open_and_no_other(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await claimed(subject)
        turned = (await subject.store.turn(a_turn(first))).effect
        before = await everything(subject)

        for attempt in (1, 3):
            answer = await subject.store.settle(a_settlement(turned, attempt=attempt))
            assert answer == NotMoved(effect=turned, reason="other_attempt")
        assert await everything(subject) == before
        assert (await settled(subject, turned)).state is EffectState.COMMITTED

    async def test_what_was_settled_is_not_settled_otherwise(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n, state in enumerate((EffectState.COMMITTED, EffectState.FAILED)):
            effect = await claimed(subject, f"key-{n}", token=f"token-{n}")
            done = await settled(subject, effect, state)
            before = await everything(subject)
            for other in {EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN} - {state}:
                answer = await subject.store.settle(a_settlement(effect, other))
                assert answer == NotMoved(effect=done, reason="already_settled")
            assert await everything(subject) == before

    async def test_a_late_success_of_the_same_dispatch_settles_what_was_taken_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)

        answer = await subject.store.settle(a_settlement(effect))

        assert isinstance(answer, Moved) and answer.is_news
        assert answer.effect.state is EffectState.RECONCILED_COMMITTED
        assert answer.effect.sealed_result == b"sealed result"
        assert subject.told() == ["started", "completed", "effect_reconciled"]

    async def test_a_late_success_repeated_changes_nothing_and_answers_the_same(self, make_store: MakeStore) -> None:
        subject = await make_store()
        settlement = a_settlement(await unknown(subject))
        first = await subject.store.settle(settlement)
        before = await everything(subject)

        assert await subject.store.settle(settlement) == Moved(effect=first.effect, is_news=False)
        assert await everything(subject) == before

    async def test_a_late_failure_proves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        before = await everything(subject)

        answer = await subject.store.settle(a_settlement(effect, EffectState.FAILED))

        assert answer == NotMoved(effect=effect, reason="already_settled")
        assert await everything(subject) == before

    async def test_a_late_word_of_an_earlier_dispatch_proves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await settled(subject, await claimed(subject), EffectState.FAILED)
        second = await unknown(subject, token="token-2", fence=1)

        answer = await subject.store.settle(a_settlement(replace(first, state=EffectState.DISPATCHED)))

        assert answer == NotMoved(effect=second, reason="taken_over")

    async def test_a_late_word_that_an_attempt_has_ended_is_kept_without_an_event(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject, ends_by_itself=False)
        open_end = a_settlement(effect, EffectState.UNKNOWN, attempt_has_ended=False)
        first = await subject.store.settle(open_end)
        assert first.effect.attempt_ended_at is None
        subject.clock.advance(3)
        told = subject.told()

        ended = await subject.store.settle(a_settlement(effect, EffectState.UNKNOWN))

        assert ended == Moved(effect=replace(first.effect, attempt_ended_at=subject.clock.now()), is_news=False)
        assert await subject.store.effect("acme", OperationKey("key-1")) == ended.effect
        assert subject.told() == told

    async def test_an_attempt_that_outlived_its_end_does_not_end_by_itself_any_more(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        before_take_over = await claimed(subject, "key-1")
        word = a_settlement(before_take_over, EffectState.UNKNOWN, attempt_has_ended=False)
        assert not (await subject.store.settle(word)).effect.ends_by_itself

        after_take_over = await unknown(subject, "key-2", token="token-2")
        word = a_settlement(after_take_over, EffectState.UNKNOWN, attempt_has_ended=False)
        assert not (await subject.store.settle(word)).effect.ends_by_itself

    async def test_what_is_not_known_cannot_be_moved(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        elsewhere = replace(effect, tenant="other")

        for work in (
            subject.store.settle(a_settlement(elsewhere)),
            subject.store.turn(a_turn(elsewhere)),
            subject.store.take_over(elsewhere, ()),
            subject.store.reconcile(a_reconciliation(elsewhere, looked_at=subject.clock.now())),
        ):
            assert type(await fault_of(work)) is NotFound

    async def test_a_settlement_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        assert await fault_of(subject.store.settle(a_settlement(effect, events=(a_forbidden_event(),)))) is not None

        assert await everything(subject) == before
        await settled(subject, effect)
        assert subject.verified().holds

    # ------------------------------------------------------------ leases

    async def test_a_row_is_taken_over_at_the_end_of_its_lease_and_not_before(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(LEASE_SECONDS - 0.001)
        assert await subject.store.stranded(limit=9) == ()
        assert await subject.store.take_over(effect, (an_event(),)) == NotMoved(effect=effect, reason="lease_renewed")
        assert subject.told() == ["started"]

        subject.clock.advance(0.001)
        assert await subject.store.stranded(limit=9) == (effect,)
        lost = await taken_over(subject, effect)

        assert (lost.state, lost.reason, lost.fence) == (EffectState.UNKNOWN, "owner_lost", 1)
        assert subject.told() == ["started", "completed"]
        assert await subject.store.stranded(limit=9) == ()

    async def test_a_row_is_taken_over_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(LEASE_SECONDS)

        answers = await asyncio.gather(*(subject.store.take_over(effect, (an_event(),)) for _ in range(8)))

        assert sum(isinstance(answer, Moved) for answer in answers) == 1
        assert subject.told() == ["started", "started"]

    async def test_a_row_that_had_a_turn_since_it_was_seen_is_not_taken_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        seen = await claimed(subject)
        turned = (await subject.store.turn(a_turn(seen))).effect
        subject.clock.advance(LEASE_SECONDS)

        assert await subject.store.take_over(seen, ()) == NotMoved(effect=turned, reason="taken_over")

    async def test_a_heartbeat_renews_the_lease_and_never_the_send_window(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await claimed(subject, "key-2", token="token-2", owner=OwnerId("owner-2"))
        subject.clock.advance(20)

        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=LEASE_SECONDS) == 1

        renewed = replace(effect, lease_until=subject.clock.now() + timedelta(seconds=LEASE_SECONDS))
        assert await subject.store.effect("acme", OperationKey("key-1")) == renewed
        subject.clock.advance(LEASE_SECONDS - 1)
        assert [lost.operation_key for lost in await subject.store.stranded(limit=9)] == ["key-2"]

    async def test_a_heartbeat_never_shortens_a_lease_and_never_revives_a_row(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)

        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=1.0) == 1
        assert await subject.store.effect("acme", OperationKey("key-1")) == effect

        subject.clock.advance(LEASE_SECONDS)
        lost = await taken_over(subject, effect)
        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=LEASE_SECONDS) == 0
        assert await subject.store.effect("acme", OperationKey("key-1")) == lost

    # ------------------------------------------------------------ reconcile

    async def test_absence_needs_a_look_that_began_strictly_after_the_quiet_end(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        quiet_end = effect.send_by + timedelta(seconds=PAUSE_SECONDS + effect.arrival_bound_seconds)
        before = await everything(subject)

        early = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=quiet_end)
        assert await subject.store.reconcile(early) == NotMoved(effect=effect, reason="too_early_for_absent")
        assert await everything(subject) == before

        late = replace(early, looked_at=quiet_end + timedelta(microseconds=1))
        answer = await subject.store.reconcile(late)
        assert isinstance(answer, Moved) and answer.effect.state is EffectState.RECONCILED_ABSENT
        assert subject.told()[-1] == "effect_reconciled"

    async def test_absence_of_what_cannot_be_stopped_needs_its_end_on_record(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        subject.clock.advance(10_000)
        absent = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=subject.clock.now())
        assert await subject.store.reconcile(absent) == NotMoved(effect=effect, reason="too_early_for_absent")

        await subject.store.owner_died(effect)

        noted = replace(effect, attempt_ended_at=subject.clock.now())
        assert await subject.store.effect("acme", OperationKey("key-1")) == noted
        assert await subject.store.reconcile(absent) == NotMoved(effect=noted, reason="too_early_for_absent")
        subject.clock.advance(PAUSE_SECONDS + 2.001)
        later = replace(absent, looked_at=subject.clock.now())
        assert isinstance(await subject.store.reconcile(later), Moved)

    async def test_a_death_is_noted_of_the_owner_it_was_seen_of(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        before = await everything(subject)

        await subject.store.owner_died(replace(effect, owner=OwnerId("owner-2")))
        await subject.store.owner_died(replace(effect, fence=7))

        assert await everything(subject) == before

    async def test_presence_is_believed_at_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        truth = a_reconciliation(
            effect,
            looked_at=subject.clock.now(),
            sealed_result=b"found",
            result_digest=Digest("e" * 64),
            external_reference="remote-8",
        )

        answer = await subject.store.reconcile(truth)

        assert answer == Moved(
            effect=replace(
                effect,
                state=EffectState.RECONCILED_COMMITTED,
                reason="probe",
                sealed_result=b"found",
                result_digest=Digest("e" * 64),
                external_reference="remote-8",
                updated_at=subject.clock.now(),
            )
        )
        assert await subject.store.effect("acme", OperationKey("key-1")) == answer.effect

    async def test_a_reconciliation_repeated_changes_nothing_and_another_is_refused(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        truth = a_reconciliation(effect, looked_at=subject.clock.now())
        first = await subject.store.reconcile(truth)
        before = await everything(subject)

        assert await subject.store.reconcile(truth) == Moved(effect=first.effect, is_news=False)
        other = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=subject.clock.now())
        assert await subject.store.reconcile(other) == NotMoved(effect=first.effect, reason="moved_on")
        assert await everything(subject) == before

    async def test_a_look_at_an_earlier_dispatch_or_from_the_future_settles_nothing(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        await settled(subject, await claimed(subject), EffectState.FAILED)
        effect = await unknown(subject, token="token-2", fence=1)
        now = subject.clock.now()

        stale = a_reconciliation(effect, looked_at=now, fence=1)
        assert await subject.store.reconcile(stale) == NotMoved(effect=effect, reason="moved_on")
        future = a_reconciliation(effect, looked_at=now + timedelta(seconds=1))
        assert await subject.store.reconcile(future) == NotMoved(effect=effect, reason="looked_in_the_future")

    async def test_what_is_running_or_finished_is_not_reconciled(self, make_store: MakeStore) -> None:
        subject = await make_store()
        running = await claimed(subject, "running")
        failed = await settled(subject, await claimed(subject, "failed", token="token-2"), EffectState.FAILED)
        done = await settled(subject, await claimed(subject, "done", token="token-3"))
        before = await everything(subject)

        for effect in (running, failed, done):
            for state in (EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT):
                truth = a_reconciliation(effect, state, looked_at=subject.clock.now())
                assert await subject.store.reconcile(truth) == NotMoved(effect=effect, reason="moved_on")
        assert await everything(subject) == before

    async def test_a_look_in_vain_is_counted_and_the_next_one_waits(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        assert await subject.store.due_for_probe(limit=9) == (effect,)

        await subject.store.probed_in_vain(effect, next_probe_seconds=60)

        assert await subject.store.due_for_probe(limit=9) == ()
        subject.clock.advance(60)
        [due] = await subject.store.due_for_probe(limit=9)
        assert (due.probes, due.state, due.updated_at) == (1, EffectState.UNKNOWN, effect.updated_at)
        assert subject.told() == ["started", "completed"]

    # ------------------------------------------------------------ looking

    async def test_effects_are_listed_by_tenant_and_state_newest_change_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in range(3):
            await claimed(subject, f"key-{n}", token=f"token-{n}")
            subject.clock.advance(1)
        effect = await subject.store.effect("acme", OperationKey("key-0"))
        assert effect is not None
        await settled(subject, effect)
        await claimed(subject, "key-9", token="token-9", tenant="other")

        async def keys(tenant: str | None, *states: EffectState, limit: int = 9) -> list[str]:
            found = await subject.store.effects(tenant=tenant, states=states or EVERY_STATE, limit=limit)
            return [each.operation_key for each in found]

        assert await keys("acme") == ["key-0", "key-2", "key-1"]
        assert await keys("acme", limit=2) == ["key-0", "key-2"]
        assert await keys("acme", EffectState.DISPATCHED) == ["key-2", "key-1"]
        assert sorted(await keys(None)) == ["key-0", "key-1", "key-2", "key-9"]
        assert await keys("nobody") == []

    async def test_one_key_in_two_tenants_is_two_operations(self, make_store: MakeStore) -> None:
        subject = await make_store()

        mine = await claimed(subject)
        theirs = await claimed(subject, token="token-2", tenant="other", subject="agent-9")
        await settled(subject, mine)

        assert await subject.store.effect("other", OperationKey("key-1")) == theirs
        assert await subject.store.effect("nobody", OperationKey("key-1")) is None
        assert subject.told("other") == ["started"]
        assert subject.told("nobody") == []

    # ------------------------------------------------------------ approvals

    async def test_a_question_is_kept_as_asked(self, make_store: MakeStore) -> None:
        subject = await make_store()
        question = a_question(
            asked_at=subject.clock.now(), on_behalf_of="ümlaut \u2028", resource='["a"]', reasons=("one", "two")
        )

        asked = await subject.store.ask(
            question, A_MAC, the_same_ask(question), step=a_step(), events=(an_event(EventKind.APPROVAL_ASKED),)
        )

        assert asked == Approval(
            question=question,
            question_mac=A_MAC,
            state=ApprovalState.PENDING,
            answer=None,
            signature=None,
            spent_at=None,
        )
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == asked
        assert subject.told() == ["approval_asked"]

    async def test_the_same_wish_has_one_open_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        before = await everything(subject)

        assert await pending(subject, "apr-2", nonce="nonce-2") == first
        assert await everything(subject) == before

        approved = await decided(subject, first)
        assert await pending(subject, "apr-3") == approved

    async def test_many_askers_of_one_wish_get_one_question(self, make_store: MakeStore) -> None:
        subject = await make_store()

        answers = await asyncio.gather(*(pending(subject, f"apr-{n}") for n in range(16)))

        assert len({answer.question.approval_id for answer in answers}) == 1
        assert subject.told() == ["approval_asked"]

    async def test_asking_counts_a_step_even_if_the_question_was_open(self, make_store: MakeStore) -> None:
        subject = await make_store()
        question = a_question(asked_at=subject.clock.now())
        for n in (1, 2):
            step = a_step(f"call-{n}", max_steps=2)
            await subject.store.ask(question, A_MAC, the_same_ask(question), step=step, events=())

        assert await subject.store.record((), step=a_step("call-3", max_steps=2)) == OverBudget()

    async def test_a_wish_is_found_under_any_policy_if_none_is_named(self, make_store: MakeStore) -> None:
        subject = await make_store()
        old = await pending(subject)
        subject.clock.advance(1)
        new = await pending(subject, "apr-2", policy_version=PolicyVersion("policy-2"))

        assert await subject.store.same_ask(the_same_ask(new.question)) == (new,)
        any_policy = replace(the_same_ask(new.question), policy_version=None)
        assert await subject.store.same_ask(any_policy) == (new, old)

    async def test_an_answered_wish_may_be_asked_again_once_it_is_closed(self, make_store: MakeStore) -> None:
        for state in (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.REVOKED, ApprovalState.SPENT):
            subject = await make_store()
            await in_state(subject, state)

            assert (await pending(subject, "apr-2")).question.approval_id == "apr-2"

    async def test_another_wish_is_another_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await pending(subject)

        others: tuple[dict[str, Any], ...] = (
            {"tenant": "other"},
            {"subject": "agent-2"},
            {"run_id": RunId("run-2")},
            {"tool": "refund"},
            {"argument_digest": Digest("b" * 64)},
            {"policy_version": PolicyVersion("policy-2")},
        )
        for n, changes in enumerate(others):
            question = a_question(f"apr-x{n}", asked_at=subject.clock.now(), **changes)
            step = a_step(tenant=question.tenant)
            asked = await subject.store.ask(question, A_MAC, the_same_ask(question), step=step, events=())
            assert isinstance(asked, Approval) and asked.question == question

    async def test_a_wish_with_a_name_of_its_own_is_looked_for_by_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await pending(subject)
        named = the_same_ask(first.question, operation_key=OperationKey("key-2"))

        assert await subject.store.same_ask(named) == ()
        assert await subject.store.same_ask(the_same_ask(first.question)) == (first,)
        question = a_question("apr-2", asked_at=subject.clock.now(), operation_key=OperationKey("key-2"))
        asked = await subject.store.ask(question, A_MAC, named, step=a_step(), events=())
        assert isinstance(asked, Approval) and asked.question == question

    async def test_the_first_answer_stands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)

        denied = await decided(subject, approval, Verdict.DENY)
        assert (denied.state, denied.signature) == (ApprovalState.DENIED, ANOTHER_MAC)
        before = await everything(subject)

        assert await decided(subject, approval, Verdict.APPROVE) == denied
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == denied
        assert await everything(subject) == before
        assert subject.told() == ["approval_asked", "approval_denied"]

    async def test_of_many_answers_and_withdrawals_at_once_one_stands(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        withdrawn = (an_event(EventKind.APPROVAL_WITHDRAWN),)

        answers = await asyncio.gather(
            *(decided(subject, approval, verdict) for verdict in (Verdict.APPROVE, Verdict.DENY) for _ in range(8)),
            *(subject.store.retire(approval, ApprovalState.WITHDRAWN, events=withdrawn) for _ in range(8)),
        )

        assert len(set(answers)) == 1
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == answers[0]
        assert len(subject.told()) == 2

    async def test_an_approval_moves_only_as_its_table_says(self, make_store: MakeStore) -> None:
        for before in ApprovalState:
            for after in (ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED):
                subject = await make_store()
                approval = await in_state(subject, before)
                told = subject.told()

                closed = await subject.store.retire(approval, after, events=(an_event(EventKind.APPROVAL_EXPIRED),))

                if (before, after) in APPROVAL_TRANSITIONS:
                    assert closed == replace(approval, state=after)
                    assert subject.told() == [*told, "approval_expired"]
                else:
                    assert closed == approval
                    assert subject.told() == told

    async def test_a_claim_spends_its_approval_in_the_same_commit(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))

        effect = await claimed(subject, spend=a_spend(approval))

        assert effect.approval_id == "apr-1"
        spent = replace(approval, state=ApprovalState.SPENT, spent_at=subject.clock.now())
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == spent
        assert subject.told() == ["approval_asked", "approval_approved", "started", "approval_spent"]

    async def test_an_approval_is_spent_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        spend = a_spend(await decided(subject, await pending(subject)))

        answers = await asyncio.gather(
            *(
                subject.store.claim(
                    a_claim(f"key-{n}", token=f"token-{n}", spend=spend, step=a_step(f"call-{n}", max_steps=2))
                )
                for n in range(8)
            )
        )

        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert answers.count(NotUsable()) + answers.count(OverBudget()) == 7
        assert subject.told().count("approval_spent") == 1

    async def test_a_claim_repeated_by_its_token_spends_nothing_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        claim = a_claim(spend=a_spend(await decided(subject, await pending(subject))))
        first = await subject.store.claim(claim)
        before = await everything(subject)

        assert await subject.store.claim(claim) == first
        assert await everything(subject) == before

    async def test_what_cannot_be_spent_leaves_nothing_behind(self, make_store: MakeStore) -> None:
        for state in set(ApprovalState) - {ApprovalState.APPROVED}:
            subject = await make_store()
            approval = await in_state(subject, state)
            before = await everything(subject)
            claim = a_claim("key-7", token="token-7", spend=a_spend(approval))
            assert await subject.store.claim(claim) == NotUsable()
            assert await everything(subject) == before

    async def test_an_approval_is_spent_by_the_signature_that_was_verified(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        before = await everything(subject)

        for spend in (
            replace(a_spend(approval), signature="7" * 64),
            replace(a_spend(approval), approval_id=ApprovalId("apr-2")),
        ):
            assert await subject.store.claim(a_claim(spend=spend)) == NotUsable()
        theirs = a_claim(tenant="other", spend=a_spend(approval))
        assert await subject.store.claim(theirs) == NotUsable()
        assert await everything(subject) == before

    async def test_an_approval_is_expired_at_the_instant_it_expires(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        subject.clock.advance(299.999999)
        just_in_time = await make_store()
        other = await decided(just_in_time, await pending(just_in_time))

        subject.clock.advance(0.000001)
        assert await subject.store.claim(a_claim(spend=a_spend(approval))) == NotUsable()
        just_in_time.clock.advance(299.999999)
        assert isinstance(await just_in_time.store.claim(a_claim(spend=a_spend(other))), Claimed)

    async def test_a_held_or_halted_claim_does_not_spend(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await decided(subject, await pending(subject))
        await claimed(subject, token="token-9")
        assert isinstance(await subject.store.claim(a_claim(spend=a_spend(approval))), Held)
        await subject.store.stop("all", ())
        assert isinstance(await subject.store.claim(a_claim("key-2", spend=a_spend(approval))), Halted)

        assert await subject.store.approval("acme", ApprovalId("apr-1")) == approval

    async def test_approvals_of_a_wish_are_those_that_still_answer_it_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        denied = await decided(subject, await pending(subject), Verdict.DENY)
        subject.clock.advance(1)
        expired = await pending(subject, "apr-2")
        await subject.store.retire(expired, ApprovalState.EXPIRED, events=())
        subject.clock.advance(1)
        waiting = await pending(subject, "apr-3")

        assert await subject.store.same_ask(the_same_ask(waiting.question)) == (waiting, denied)

    async def test_approvals_are_listed_by_tenant_and_state_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await decided(subject, await pending(subject), Verdict.DENY)
        subject.clock.advance(1)
        second = await pending(subject, "apr-2")
        await pending(subject, "apr-3", tenant="other")
        store = subject.store

        assert await store.approvals("acme", states=tuple(ApprovalState), limit=9) == (second, first)
        assert await store.approvals("acme", states=tuple(ApprovalState), limit=1) == (second,)
        assert await store.approvals("acme", states=(ApprovalState.DENIED,), limit=9) == (first,)
        assert await store.approvals("nobody", states=tuple(ApprovalState), limit=9) == ()
        assert await store.approval("other", ApprovalId("apr-1")) is None

    async def test_an_approval_that_does_not_exist_cannot_be_moved(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        elsewhere = replace(approval, question=replace(approval.question, tenant="other"))
        answer = an_answer(approval.question, at=subject.clock.now())

        assert type(await fault_of(subject.store.answer(elsewhere, answer, A_MAC, events=()))) is NotFound
        assert type(await fault_of(subject.store.retire(elsewhere, ApprovalState.EXPIRED, events=()))) is NotFound

    async def test_an_answer_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await pending(subject)
        answer = an_answer(approval.question, at=subject.clock.now())
        before = await everything(subject)
        forbidden = (a_forbidden_event(),)

        assert await fault_of(subject.store.answer(approval, answer, A_MAC, events=forbidden)) is not None
        assert await fault_of(subject.store.retire(approval, ApprovalState.EXPIRED, events=forbidden)) is not None
        assert await fault_of(subject.store.stop("all", forbidden)) is not None

        assert await everything(subject) == before

    # ------------------------------------------------------------ journal

    async def test_a_read_is_halted_by_a_stop_and_a_mere_record_is_not(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.stop("tool:look", ())

        started = await subject.store.record((an_event(),), step=a_step(), starts_tool="look")
        assert started == Halted(scope="tool:look")
        assert subject.told() == []
        assert isinstance(await subject.store.record((an_event(),), step=a_step()), Recorded)
        assert isinstance(
            await subject.store.record((an_event(),), step=a_step("call-2"), starts_tool="find"), Recorded
        )
        assert subject.told() == ["started", "started"]

    async def test_a_read_whose_owner_is_lost_is_completed_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        place = await opened(subject)
        subject.clock.advance(LEASE_SECONDS - 0.001)
        assert await subject.store.lost_reads(limit=9) == ()
        subject.clock.advance(0.001)
        [lost] = await subject.store.lost_reads(limit=9)
        assert (lost.place, orjson.loads(lost.started)["kind"]) == (place, "started")

        completed = an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR)
        answers = await asyncio.gather(*(subject.store.close_lost_read(lost, completed) for _ in range(8)))

        assert sorted(answers) == [False] * 7 + [True]
        assert subject.told() == ["started", "completed"]
        assert await subject.store.lost_reads(limit=9) == ()

    async def test_a_read_that_recovery_completed_is_not_completed_again_by_its_reader(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        place = await opened(subject)
        subject.clock.advance(LEASE_SECONDS)
        [lost] = await subject.store.lost_reads(limit=9)
        await subject.store.close_lost_read(lost, an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR))
        before = await everything(subject)

        late = subject.store.record((an_event(EventKind.COMPLETED),), closes=place)

        assert type(await fault_of(late)) is StoreUnavailable
        assert await everything(subject) == before

    async def test_a_read_that_ended_or_shows_signs_of_life_is_not_lost(self, make_store: MakeStore) -> None:
        subject = await make_store()
        ended = await opened(subject)
        await opened(subject, owner="owner-2")
        await subject.store.record((an_event(EventKind.COMPLETED),), closes=ended)
        subject.clock.advance(LEASE_SECONDS - 1)
        assert await subject.store.heartbeat(OwnerId("owner-2"), lease_seconds=LEASE_SECONDS) == 0
        subject.clock.advance(1)

        assert await subject.store.lost_reads(limit=9) == ()
        subject.clock.advance(LEASE_SECONDS - 1)
        assert len(await subject.store.lost_reads(limit=9)) == 1

    async def test_a_further_attempt_of_a_read_closes_the_one_before(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await opened(subject)
        closing, opening = an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR), an_event(attempt=2)

        again = OpenRead(owner=OwnerId("owner-1"), lease_seconds=LEASE_SECONDS)
        answer = await subject.store.record((closing, opening), opens=again, closes=first)

        assert isinstance(answer, Recorded)
        subject.clock.advance(LEASE_SECONDS)
        assert [lost.place for lost in await subject.store.lost_reads(limit=9)] == [answer.place]

    async def test_waiting_questions_are_counted_over_all_tenants(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await pending(subject)
        await pending(subject, "apr-2", tenant="other")
        await decided(subject, await pending(subject, "apr-3", tool="refund"))

        assert await subject.store.pending_count() == 2

    async def test_events_stand_in_the_order_they_were_written_and_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.turn(a_turn(effect))
        await subject.store.record((an_event(EventKind.OVERRIDE_DECLARED), an_event(EventKind.DECISION_REFUSED)))

        assert subject.told() == ["started", "completed", "started", "override_declared", "decision_refused"]
        assert [event.sequence for event in subject.store.chained()] == [1, 2, 3, 4, 5]
        [head] = subject.store.heads()
        last = list(subject.store.chained())[-1]
        assert (head.writer, head.sequence, head.link) == (subject.store.writer, 5, last.link)
        assert subject.verified() == ChainReport(writers=1, events=5, breaks=(), unpaired=1)

    async def test_an_empty_store_has_no_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()

        assert (list(subject.store.chained()), subject.store.heads()) == ([], ())
        assert subject.verified().holds

    async def test_a_tenant_sees_its_own_events_whatever_its_name(self, make_store: MakeStore) -> None:
        subject = await make_store()
        names = ["acme", "acme2", 'a"b', "ümläut", 'x","tenant":"acme', "back\\slash", "line\nbreak"]
        for name in names:
            await subject.store.record((an_event(tenant=name), an_event(EventKind.COMPLETED, tenant=name)))

        for name in names:
            assert subject.told(name) == ["started", "completed"], name
            newest = [orjson.loads(event.body) for event in subject.store.chained(tenant=name, newest=1)]
            assert [(body["tenant"], body["kind"]) for body in newest] == [(name, "completed")]

    async def test_a_refused_event_leaves_no_hole_in_the_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((an_event(),))

        assert await fault_of(subject.store.record((an_event(), a_forbidden_event()))) is not None

        await subject.store.record((an_event(EventKind.COMPLETED),))
        assert subject.told() == ["started", "completed"]
        assert subject.verified() == ChainReport(writers=1, events=2, breaks=(), unpaired=0)

    async def test_two_openings_write_two_chains_and_the_later_remembers_the_earlier(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        await subject.store.record((an_event(),))
        second = await subject.open_again()
        await second.record((an_event(EventKind.COMPLETED),))
        await second.close()

        assert subject.verified() == ChainReport(writers=2, events=2, breaks=(), unpaired=0)
        [later] = [head for head in subject.store.heads() if head.writer != subject.store.writer]
        assert list(orjson.loads(later.opened_after)) == [subject.store.writer]

    async def test_many_callers_at_once_write_one_sound_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()

        await asyncio.gather(
            *(subject.store.record((an_event(), an_event(EventKind.COMPLETED))) for _ in range(64)),
            *(fault_of(subject.store.record((a_forbidden_event(),))) for _ in range(64)),
        )

        assert subject.verified() == ChainReport(writers=1, events=128, breaks=(), unpaired=0)

    async def test_what_is_closed_serves_no_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        await subject.store.close()
        await subject.store.close()

        assert await fault_of(subject.store.record((an_event(),))) is not None


async def fault_of(work: Awaitable[object]) -> PlacetError | None:
    """The fault a verb raised, if it did."""
    try:
        await work
    except PlacetError as fault:
        return fault
    return None
