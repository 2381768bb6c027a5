"""From a decided call to its outcome: claim, attempt, settle. The only code that lets a handler run.

claim   one commit: the effect is dispatched and its started event durable, or nothing runs
──────  point of no return
attempt handler under a deadline; a further attempt costs a turn, one commit
settle  one commit: effect, result and completed event; if it cannot be made, the outcome is Unknown
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

from placet.engine import replies
from placet.engine.afterwards import Afterwards
from placet.engine.attempts import OUR_FAULT, Attempts, Dispatch, Warrant
from placet.engine.chronicle import Chronicle
from placet.engine.co_commit import CoCommit, CoCommits, Stage
from placet.engine.endings import Endings, row_reason
from placet.engine.faults import told
from placet.engine.herald import Herald
from placet.engine.performing import Performing
from placet.engine.results import Results, result_digest, row_binding
from placet.engine.settings import GateSettings
from placet.engine.standing import Granted
from placet.errors import NotFound, PlacetError, StoreInDoubt, StoreUnavailable
from placet.model.attempt import CallerLeft, DeadlinePassed, Raised, Report, Returned, Unsent
from placet.model.audit import EventKind
from placet.model.call import Call
from placet.model.contract import MAX_ATTEMPTS_PER_CALL
from placet.model.effect import CO_COMMIT_MARK, EffectState
from placet.model.identifiers import OwnerId, Token
from placet.model.json import JsonValue
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    Claimed,
    GrantUse,
    Held,
    MoveAnswer,
    Moved,
    NotMoved,
    Settlement,
    Spend,
    Turn,
    Withdrawal,
)
from placet.model.outcome import Outcome
from placet.ports.clock import IdSource
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.ports.waiting import takes_owed_cancellation
from placet.rules import retry
from placet.rules.retry import Knowledge

_log = logging.getLogger("placet.dispatch")
_DOUBT_REPEATS = 3
"""How often a verb whose answer was lost is repeated with its token before we give up learning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """The claim may stand, and the store does not say; nothing was sent by us."""


class Dispatcher:
    """Runs what has been decided."""

    def __init__(
        self,
        *,
        store: Store,
        attempts: Attempts,
        endings: Endings,
        results: Results,
        chronicle: Chronicle,
        herald: Herald,
        afterwards: Afterwards,
        co_commits: CoCommits,
        performing: Performing,
        keys: Keys,
        ids: IdSource,
        settings: GateSettings,
        owner: OwnerId,
        meter: Meter,
    ) -> None:
        self._store = store
        self._attempts = attempts
        self._endings = endings
        self._results = results
        self._chronicle = chronicle
        self._herald = herald
        self._afterwards = afterwards
        self._co_commits = co_commits
        self._performing = performing
        self._keys = keys
        self._ids = ids
        self._settings = settings
        self._owner = owner
        self._meter = meter

    # ------------------------------------------------------------ claim

    async def claim(self, call: Call, warrant: Warrant) -> tuple[ClaimAnswer | InDoubt, Dispatch]:
        """Take the operation for one dispatch; approval, step and limits are spent in the same commit.

        Raises:
            StoreError: nothing was claimed, and it never will be.
        """
        grant = warrant.grant.stored.grant if warrant.grant is not None else None
        facts = self._chronicle.of_call(call, warrant.decision, warrant.approval, grant)
        fence = warrant.expected_fence + 1
        dispatch = self._attempts.submitted_now(
            call,
            warrant,
            facts=facts,
            started=self._chronicle.started(facts, attempt=call.first_attempt, fence=fence),
            token=self._fresh_token(call),
            fence=fence,
        )
        claim = self._claim_of(call, warrant, dispatch)
        has_doubt = False
        refusal: ClaimAnswer | None = None
        for _ in range(_DOUBT_REPEATS):
            try:
                answer = await self._store.claim(claim)
            except StoreInDoubt:
                has_doubt = True  # the same claim again: the token on the row decides
                continue
            except PlacetError:
                if not has_doubt:
                    raise
                continue
            if not has_doubt or isinstance(answer, Claimed | Held):
                return answer, dispatch
            refusal = answer
            break
        cleared = await self._without_doubt(claim, refusal)
        if isinstance(cleared, InDoubt):
            self._afterwards.insist(lambda: self._close_unsent(claim, dispatch))
        return cleared, dispatch

    def _fresh_token(self, call: Call) -> Token:
        mark = CO_COMMIT_MARK if call.contract.remote.co_commits else ""
        return Token(mark + self._ids.new_id("t"))

    async def _without_doubt(self, claim: Claim, refusal: ClaimAnswer | None) -> ClaimAnswer | InDoubt:
        """After a lost answer "not run" is told only once the lost try can never land."""
        try:
            if not await self._store.void(claim.tenant, claim.operation_key, claim.token):
                return await self._store.claim(claim)
        except PlacetError:
            return InDoubt()
        if refusal is not None:
            return refusal
        raise StoreUnavailable("The claim was not acknowledged, and has been voided.")

    async def _close_unsent(self, claim: Claim, dispatch: Dispatch) -> None:
        """The end of a claim in doubt: voided, or, if it has landed, failed; we sent nothing under it."""
        if not await self._store.void(claim.tenant, claim.operation_key, claim.token):
            await self._write(dispatch, EffectState.FAILED, "not_sent", Unsent())

    def _claim_of(self, call: Call, warrant: Warrant, dispatch: Dispatch) -> Claim:
        contract, approval = call.contract, warrant.approval
        spend = None
        if approval is not None and approval.signature is not None:
            event = self._chronicle.event(EventKind.APPROVAL_SPENT, dispatch.facts, fence=dispatch.fence)
            spend = Spend(approval_id=approval.question.approval_id, signature=approval.signature.value, event=event)
        return Claim(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fingerprint=call.fingerprint,
            tool=contract.name,
            tool_version=contract.version,
            contract_digest=contract.digest,
            argument_digest=call.argument_digest,
            run_id=call.run_id,
            call_id=call.call_id,
            subject=call.principal.identity,
            policy_version=warrant.decision.policy_version,
            decision=str(dispatch.facts["decision"]),
            sealed_arguments=self._keys.seal(
                call.canonical_arguments,
                bound_to=row_binding(call.principal.tenant, call.operation_key, "arguments"),
            ),
            arrival_bound_seconds=contract.remote.arrival_bound_seconds or 0.0,
            ends_by_itself=contract.isolation.ends_by_itself,
            first_attempt=call.first_attempt,
            expected_fence=warrant.expected_fence,
            token=dispatch.token,
            owner=self._owner,
            lease_seconds=self._settings.lease_seconds,
            send_window_seconds=dispatch.window,
            spend=spend,
            step=warrant.step,
            events=(dispatch.started,),
            grant=None if warrant.grant is None else self._use_of(warrant.grant),
        )

    def _use_of(self, granted: Granted) -> GrantUse:
        stored, waiting = granted.stored, granted.waiting
        grant = stored.grant
        last = self._chronicle.event(
            EventKind.GRANT_USED_UP, self._chronicle.of_grant(grant), decided_by=grant.given_by, model_suggested=False
        )
        withdrawn = None
        if waiting is not None:
            facts = self._chronicle.of_question(waiting.question)
            event = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail="granted")
            withdrawn = Withdrawal(approval=waiting, event=event)
        return GrantUse(
            grant_id=grant.grant_id,
            mac=stored.mac.value,
            max_uses=grant.max_uses,
            expires_at=grant.expires_at,
            last_event=last,
            same=granted.same,
            withdrawn=withdrawn,
            passed_over=granted.passed_over,
        )

    # ------------------------------------------------------------ attempt

    async def perform(self, dispatch: Dispatch) -> Outcome:
        """Run a claimed call to its outcome. The effect is dispatched; whatever happens now is settled."""
        self._performing.begin(dispatch.token)
        try:
            if not await self._herald.before_dispatch(dispatch.started):
                return await self._settle_unsent(dispatch)
            dispatch.co_commit = self._co_commits.of(dispatch)
            report, has_doubt = await self._until_certain(dispatch)
            if dispatch.co_commit is not None:
                return await self._settle_by_row(dispatch, dispatch.co_commit, report, has_doubt=has_doubt)
            return await self._settle(dispatch, report, has_doubt=has_doubt)
        except Exception as fault:  # a fault of our own after the point of no return: it may have acted
            _log.error("dispatch failed", extra={"tool": dispatch.call.contract.name, **told(fault)})
            await self._write(dispatch, EffectState.UNKNOWN, "internal_fault", OUR_FAULT)
            return replies.unknown(dispatch.call)
        finally:
            self._performing.end(dispatch.token)

    async def _until_certain(self, dispatch: Dispatch) -> tuple[Report, bool]:
        """Attempt until something is certain, patience ends, or the ledger says stop."""
        has_doubt = False
        while True:
            when_late = partial(self._hear_attempt, dispatch, dispatch.attempt)
            report = await self._attempts.attempt(dispatch, when_late=when_late)
            has_doubt |= _leaves_doubt(dispatch, report)
            wait = self._attempts.wait_before_next(dispatch, report, has_doubt=has_doubt)
            if wait is None or not await self._attempts.may_go_on(dispatch, after_seconds=wait):
                return report, has_doubt
            if not await self._turn(dispatch, report):
                return report, has_doubt
            if not await self._herald.before_dispatch(dispatch.started):
                return Unsent(), has_doubt

    async def _turn(self, dispatch: Dispatch, report: Report) -> bool:
        """Close this attempt and open the next in one commit; false if the ledger does not agree."""
        call = dispatch.call
        closing = self._endings.closing(dispatch, report)
        opening = self._chronicle.started(dispatch.facts, attempt=dispatch.attempt + 1, fence=dispatch.fence)
        submitted, submitted_at, window = self._attempts.next_window(dispatch)
        turn = Turn(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fence=dispatch.fence,
            attempt=dispatch.attempt,
            lease_seconds=self._settings.lease_seconds,
            send_window_seconds=window,
            max_attempts=MAX_ATTEMPTS_PER_CALL,
            events=(closing, opening),
            pin=None if call.contract.origin is None else call.contract.origin.pin,
        )
        for _ in range(_DOUBT_REPEATS):
            try:
                answer = await self._store.turn(turn)
            except StoreInDoubt:
                continue
            except PlacetError:
                return False
            if isinstance(answer, NotMoved):
                return False
            dispatch.attempt += 1
            dispatch.started = opening
            dispatch.began = dispatch.submitted = submitted
            dispatch.submitted_at, dispatch.window = submitted_at, window
            return True
        return False

    # ------------------------------------------------------------ settle

    async def _settle(self, dispatch: Dispatch, report: Report, *, has_doubt: bool) -> Outcome:
        """Write what is known; the answer follows what the ledger then says, never the report alone."""
        call = dispatch.call
        match report:
            case Returned(value=value):
                result, canonical, broken = self._results.checked(call, value)
                settled = await self._write(
                    dispatch, EffectState.COMMITTED, broken or "returned", report, result=result, canonical=canonical
                )
                if not settled:
                    return replies.unknown(call)
                if broken is not None:
                    return replies.performed_without_result(call, broken)
                return replies.succeeded(call, result)
            case _ if has_doubt:
                await self._write(dispatch, EffectState.UNKNOWN, row_reason(report), report)
                if isinstance(report, DeadlinePassed) and report.late is not None:
                    self._hear(dispatch, report.late)
                return replies.unknown(call)
            case _:
                settled = await self._write(dispatch, EffectState.FAILED, row_reason(report), report)
                return self._endings.failure(call, report) if settled else replies.unknown(call)

    async def _settle_by_row(
        self, dispatch: Dispatch, co_commit: CoCommit, report: Report, *, has_doubt: bool
    ) -> Outcome:
        """Make sure that nothing of the handler's transaction can commit from here on, or learn that it has."""
        ending = co_commit.ending(report, has_doubt=has_doubt)
        answer = await self._written(dispatch, ending.state, ending.reason, ending.report)
        if isinstance(answer, NotMoved) and answer.effect.state is EffectState.COMMITTED:
            self._meter.effect_settled(state=answer.effect.state.value)
            self._co_commits.chain_soon()
        return co_commit.outcome(answer, ending)

    async def _settle_unsent(self, dispatch: Dispatch) -> Outcome:
        """A required sink did not hear, or its hearing was cut short: nothing is sent, the approval stays spent."""
        reason = "caller_left" if await takes_owed_cancellation() else "sink_failed"
        settled = await self._write(dispatch, EffectState.FAILED, reason, Unsent())
        if not settled:
            return replies.unknown(dispatch.call)
        return replies.refused_call(dispatch.call, "boundary_unavailable", reasons=(reason,))

    async def _write(
        self,
        dispatch: Dispatch,
        state: EffectState,
        reason: str,
        report: Report,
        *,
        result: JsonValue = None,
        canonical: bytes | None = None,
    ) -> bool:
        """Settle; whether the ledger now says so."""
        answer = await self._written(dispatch, state, reason, report, result=result, canonical=canonical)
        return isinstance(answer, Moved) and answer.effect.state in (state, EffectState.RECONCILED_COMMITTED)

    async def _written(
        self,
        dispatch: Dispatch,
        state: EffectState,
        reason: str,
        report: Report,
        *,
        result: JsonValue = None,
        canonical: bytes | None = None,
    ) -> MoveAnswer | None:
        """Settle; what the ledger says to it, or None. After a lost answer the same settlement is repeated."""
        call = dispatch.call
        is_open = isinstance(report, DeadlinePassed | CallerLeft) and not report.has_ended
        has_ended = not is_open and report is not OUR_FAULT  # after a fault of our own nobody knows that it has
        completed = self._endings.closing(
            dispatch, report, state=state, reason=reason, result=result, canonical=canonical
        )
        late = self._chronicle.event(
            EventKind.EFFECT_RECONCILED,
            dispatch.facts,
            attempt=dispatch.attempt,
            fence=dispatch.fence,
            effect_state=EffectState.RECONCILED_COMMITTED.value,
            detail="late_word",
        )
        settlement = Settlement(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fence=dispatch.fence,
            token=dispatch.token,
            attempt=dispatch.attempt,
            state=state,
            reason=reason,
            attempt_has_ended=has_ended,
            sealed_result=self._results.sealed(call, canonical) if canonical is not None else None,
            result_digest=result_digest(canonical) if canonical is not None else None,
            external_reference=None,
            events=(completed,),
            late_events=(late,),
        )
        for _ in range(_DOUBT_REPEATS):
            try:
                return await self._settle_open_attempt(dispatch, settlement)
            except StoreInDoubt:
                continue
            except NotFound:
                return None  # somebody took the row out of the store
            except PlacetError:
                break
        self._afterwards.insist(lambda: self._settle_open_attempt(dispatch, settlement))
        return None

    async def _settle_open_attempt(self, dispatch: Dispatch, settlement: Settlement) -> MoveAnswer:
        """Settle once; a turn whose answer was lost may have landed, and what it opened was never sent."""
        answer = await self._store.settle(settlement)
        opened = settlement.attempt + 1
        if isinstance(answer, NotMoved) and answer.reason == "other_attempt" and answer.effect.attempt == opened:
            unsent = self._endings.closing(
                replace(dispatch, attempt=opened), Unsent(), state=settlement.state, reason=settlement.reason
            )
            answer = await self._store.settle(replace(settlement, attempt=opened, events=(unsent,)))
        if isinstance(answer, Moved) and answer.is_news:
            self._meter.effect_settled(state=answer.effect.state.value)
        return answer

    # ------------------------------------------------------------ late words

    def _hear_attempt(self, dispatch: Dispatch, attempt: int, report: Report) -> None:
        """What an attempt said that went on; after a further one it is evidence of nothing any more."""
        if attempt == dispatch.attempt:
            self._hear(dispatch, report)

    def _hear(self, dispatch: Dispatch, report: Report) -> None:
        """A word that came too late: evidence for the ledger, in a task of its own."""
        self._afterwards.begin(self._settle_late(dispatch, report))

    async def _settle_late(self, dispatch: Dispatch, report: Report) -> None:
        if dispatch.co_commit is not None:  # the row has told, and only an attempt beside it has to be known as ended
            if dispatch.co_commit.stage is Stage.NOT_COVERED:
                await self._write(dispatch, EffectState.UNKNOWN, "late_word", Raised(error_type="LateWord"))
        elif isinstance(report, Returned):
            result, canonical, broken = self._results.checked(dispatch.call, report.value)
            reason = broken or "late_word"
            said = await self._write(
                dispatch, EffectState.COMMITTED, reason, report, result=result, canonical=canonical
            )
            if not said:
                _log.error("a late success contradicts the record", extra={"tool": dispatch.call.contract.name})
        else:
            await self._write(dispatch, EffectState.UNKNOWN, "late_word", report)


def _leaves_doubt(dispatch: Dispatch, report: Report) -> bool:
    if dispatch.co_commit is not None:
        return dispatch.co_commit.leaves_doubt(report)
    return retry.knowledge(dispatch.call.contract.effect_class, report) is Knowledge.CANNOT_TELL
