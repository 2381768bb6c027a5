"""Answers calls whose operation the ledger knows already: from the record, or with where it stands."""

from __future__ import annotations

from placet.engine import replies
from placet.engine.chronicle import Chronicle
from placet.engine.refusals import Refusals
from placet.engine.results import RECORD_ALTERED, Results
from placet.engine.session import Session
from placet.engine.steps import Steps
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.call import Call
from placet.model.decision import Decision
from placet.model.effect import Effect
from placet.model.ledger import OutsideRun, Recorded
from placet.model.outcome import Outcome
from placet.model.waking import effect_topic
from placet.ports.clock import Clock
from placet.ports.store import Store
from placet.ports.wakeups import pause
from placet.rules import lifecycle
from placet.rules.policy import READ_EFFECTS_SCOPE

_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 0.2


class KnownOperations:
    """Nothing here dispatches anything."""

    def __init__(
        self,
        *,
        store: Store,
        chronicle: Chronicle,
        results: Results,
        refusals: Refusals,
        steps: Steps,
        clock: Clock,
    ) -> None:
        self._store = store
        self._chronicle = chronicle
        self._results = results
        self._refusals = refusals
        self._steps = steps
        self._clock = clock

    async def answer(
        self, call: Call, decision: Decision, known: lifecycle.LedgerAnswer, session: Session
    ) -> Outcome | None:
        """Answer from the record; None when a running operation has ended and the ledger should be asked anew."""
        match known:
            case lifecycle.MayDispatch():
                return None
            case _ if not _may_know(call, known.effect):
                return await self._recorded(call, decision, AuditOutcome.DENIED, "operation_of_another", None)
            case lifecycle.AlreadyDone(effect=effect):
                return await self._recorded(call, decision, AuditOutcome.REPLAYED, "replayed", effect)
            case lifecycle.NobodyKnows():
                return await self._recorded(call, decision, AuditOutcome.UNKNOWN, "effect_unknown", None)
            case lifecycle.OtherOperation():
                return await self._recorded(call, decision, AuditOutcome.CONFLICT, "operation_conflict", None)
            case lifecycle.WornOut():
                return await self._recorded(call, decision, AuditOutcome.DENIED, "attempts_exhausted", None)
            case lifecycle.StillRunning(effect=effect):
                if await self._ended(effect, session):
                    return None
                return await self._recorded(call, decision, AuditOutcome.CONFLICT, "in_progress", None)

    async def _recorded(
        self, call: Call, decision: Decision, word: AuditOutcome, code: str, done: Effect | None
    ) -> Outcome:
        """Record that a known operation was asked for again, and answer."""
        facts = self._chronicle.of_call(call, decision)
        events: tuple[AuditEvent, ...] = self._chronicle.pair(facts, word, attempt=call.first_attempt, detail=code)
        result, unavailable = self._results.recorded(call, done) if done is not None else (None, None)
        if unavailable == RECORD_ALTERED:
            events = (*events, self._chronicle.event(EventKind.RECORD_ALTERED, facts, detail="result"))
        answer = await self._store.record(events, step=self._steps.of_call(call, decision))
        if isinstance(answer, OutsideRun):  # a run that is over takes no step, but what was done in it stays done
            await self._store.record(events)
        elif not isinstance(answer, Recorded):
            return await self._refusals.step_refused(call, answer)
        match code:
            case "replayed":
                return replies.replayed(call, result, unavailable=unavailable)
            case "effect_unknown":
                return replies.unknown(call)
            case "operation_conflict":
                return replies.conflict(call)
            case "in_progress":
                return replies.in_progress(call)
            case _:
                return replies.refused_call(call, code)

    async def _ended(self, effect: Effect, session: Session) -> bool:
        """Wait, within the caller's patience, for a running operation to leave `dispatched`."""
        rest = _FIRST_LOOK_SECONDS
        with self._store.waiting_for(effect_topic(effect.tenant, effect.operation_key)) as wakeup:
            while (left := session.deadline - self._clock.monotonic()) > 0:
                await pause(wakeup, seconds=min(rest, left), clock=self._clock)
                current = await self._store.effect(effect.tenant, effect.operation_key)
                if current is None or current.state is not effect.state or current.fence != effect.fence:
                    return True
                rest = min(rest * 2, _LONGEST_LOOK_SECONDS)
        return False


def _may_know(call: Call, effect: Effect) -> bool:
    """Details go to the operation's own principal and to holders of `effects.read`; to nobody else (DESIGN 10)."""
    return effect.subject == call.principal.identity or READ_EFFECTS_SCOPE in call.principal.scopes
