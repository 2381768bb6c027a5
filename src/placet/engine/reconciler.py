"""Settles what was left dispatched or unknown: take over, look, and believe absence only when nothing can be late.

A probe or a person says what happened; a model never does. Inconclusive is inconclusive: the row stays unknown, with
one more look counted, and is left to people after a bounded number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from placet.engine.chronicle import Chronicle
from placet.engine.dispatch import result_digest, row_binding
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.errors import DecisionRefused, InvalidArguments, KeyMaterialError, MisuseError, NotFound
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.context import Absent, CannotTell, Found, ProbeContext
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Digest, OperationKey
from placet.model.ledger import MoveAnswer, Moved, NotMoved, Reconciliation
from placet.model.principal import Principal, Standing, subjects_of
from placet.ports.clock import IdSource
from placet.ports.keys import Keys
from placet.ports.liveness import Liveness
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.rules import lifecycle
from placet.rules.decoding import decode_object
from placet.rules.policy import READ_EFFECTS_SCOPE, RECONCILE_SCOPE

_BATCH = 100
_FIRST_PROBE_PAUSE_SECONDS = 1.0
_LONGEST_PROBE_PAUSE_SECONDS = 300.0


class Truth(StrEnum):
    """What a person may say of an unknown effect."""

    COMMITTED = "committed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What one round did: rows taken over, and unknown rows settled or still open."""

    taken_over: int
    committed: int
    absent: int
    still_unknown: int


class Reconciler:
    """Looks after the effects of one store."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        transport: Transport,
        chronicle: Chronicle,
        keys: Keys,
        ids: IdSource,
        liveness: Liveness,
        meter: Meter,
        settings: GateSettings,
    ) -> None:
        self._store = store
        self._registry = registry
        self._transport = transport
        self._chronicle = chronicle
        self._keys = keys
        self._ids = ids
        self._liveness = liveness
        self._meter = meter
        self._settings = settings

    async def recover(self) -> RecoveryReport:
        """One round: take over what its owners lost, then probe every unknown effect that is due."""
        taken = await self._take_over_stranded()
        await self._close_lost_reads()
        states: list[EffectState] = []
        for effect in await self._store.due_for_probe(limit=_BATCH):
            states.append(await self.probe(effect))
        await self._measure()
        return RecoveryReport(
            taken_over=taken,
            committed=states.count(EffectState.RECONCILED_COMMITTED),
            absent=states.count(EffectState.RECONCILED_ABSENT),
            still_unknown=states.count(EffectState.UNKNOWN),
        )

    async def probe(self, effect: Effect) -> EffectState:
        """Look once; the state the effect has afterwards."""
        effect = await self._with_dead_owner_noted(effect)
        looked_at = await self._store.now()
        match await self._look(effect):
            case Found(result=result, external_reference=reference):
                answer = await self._write(
                    effect, EffectState.RECONCILED_COMMITTED, looked_at, "probe", result, reference
                )
            case Absent():
                answer = await self._write(effect, EffectState.RECONCILED_ABSENT, looked_at, "probe", None, None)
            case CannotTell():
                answer = NotMoved(effect=effect, reason="cannot_tell")
        if isinstance(answer, NotMoved) and answer.effect.state is EffectState.UNKNOWN:
            await self._store.probed_in_vain(effect, next_probe_seconds=self._pause_after(effect, looked_at))
        return answer.effect.state

    async def settle_by_person(
        self,
        operation_key: str,
        truth: Truth | str,
        *,
        by: Principal,
        looked_at: datetime,
        reason: str,
    ) -> Effect:
        """A person says what became of an unknown effect, from looking at the remote system.

        Args:
            truth: `committed` or `absent`, nothing else.
            looked_at: when the person's look began; "absent" counts only if nothing could still be on its way then.
            reason: a fixed code of the kind of evidence, such as `seen_in_desk`; recorded.

        Raises:
            NotFound: no such unknown effect in the person's tenant.
            DecisionRefused: not a person, not entitled, the requester itself saying "absent", or too early for it.
        """
        truth = _truth(truth)
        if looked_at.tzinfo is None:
            raise MisuseError("looked_at= knows its zone.")
        effect = await self._store.effect(by.tenant, OperationKey(operation_key))
        if effect is None:
            raise NotFound("There is no such effect in your tenant.")
        effect = await self._with_dead_owner_noted(effect)
        if by.standing is not Standing.PERSON:
            raise await self._refusal(effect, by, "not_a_person")
        if RECONCILE_SCOPE not in by.scopes:
            raise await self._refusal(effect, by, "scope_missing")
        if truth is Truth.ABSENT and by.subject in subjects_of(effect.subject):
            raise await self._refusal(effect, by, "own_request")
        state = EffectState.RECONCILED_COMMITTED if truth is Truth.COMMITTED else EffectState.RECONCILED_ABSENT
        answer = await self._write(effect, state, looked_at, reason, None, None, by=by)
        if isinstance(answer, NotMoved):
            raise await self._refusal(answer.effect, by, answer.reason)
        return answer.effect

    async def effects(
        self, *, by: Principal, states: tuple[EffectState, ...] = tuple(EffectState), limit: int = 100
    ) -> tuple[Effect, ...]:
        """Effects of the principal's tenant: its own, or all with the scope `effects.read`."""
        found = await self._store.effects(tenant=by.tenant, states=states, limit=limit)
        sees_all = READ_EFFECTS_SCOPE in by.scopes or RECONCILE_SCOPE in by.scopes
        return tuple(effect for effect in found if sees_all or by.subject in subjects_of(effect.subject))

    def quiet_end(self, effect: Effect) -> datetime | None:
        """From when on "absent" can be believed; None while the attempt may still be going on."""
        return lifecycle.quiet_end(effect, pause_seconds=self._settings.pause_seconds)

    # ------------------------------------------------------------ within

    async def _take_over_stranded(self) -> int:
        taken = 0
        for effect in await self._store.stranded(limit=_BATCH):
            facts = self._chronicle.of_effect(effect)
            del facts["attempt"], facts["fence"]
            completed = self._chronicle.completed(
                facts,
                AuditOutcome.UNKNOWN,
                attempt=effect.attempt,
                fence=effect.fence,
                detail="owner_lost",
                effect_state=EffectState.UNKNOWN.value,
            )
            answer = await self._store.take_over(effect, (completed,))
            if isinstance(answer, Moved) and answer.is_news:
                taken += 1
                self._meter.effect_settled(state=EffectState.UNKNOWN.value)
        return taken

    async def _close_lost_reads(self) -> None:
        """A read whose process died changed nothing; only its completed event is missing."""
        for lost in await self._store.lost_reads(limit=_BATCH):
            completed = self._chronicle.completing(lost.started)
            if completed is not None:
                await self._store.close_lost_read(lost, completed)

    async def _with_dead_owner_noted(self, effect: Effect) -> Effect:
        needs_end = effect.state is EffectState.UNKNOWN and effect.attempt_ended_at is None
        if needs_end and self._liveness.is_dead(effect.owner):
            await self._store.owner_died(effect)
            return await self._store.effect(effect.tenant, effect.operation_key) or effect
        return effect

    async def _look(self, effect: Effect) -> Found | Absent | CannotTell:
        try:
            binding = row_binding(effect.tenant, effect.operation_key, "arguments")
            canonical = self._keys.unseal(effect.sealed_arguments, bound_to=binding)
            tool = self._registry.tools.get(effect.tool)
            wide = tool.contract.wide_fields if tool is not None else frozenset()
            arguments = decode_object(canonical, wide=wide)
        except (KeyMaterialError, InvalidArguments):
            return CannotTell()
        context = ProbeContext(tenant=effect.tenant, operation_key=effect.operation_key, arguments=arguments)
        return await self._transport.probe(effect.tool, context, timeout_seconds=self._settings.probe_seconds)

    async def _write(
        self,
        effect: Effect,
        state: EffectState,
        looked_at: datetime,
        reason: str,
        result: object,
        reference: str | None,
        by: Principal | None = None,
    ) -> MoveAnswer:
        sealed, digest = self._sealed_result(effect, state, result)
        event = self._event(EventKind.EFFECT_RECONCILED, effect, by, detail=reason, effect_state=state.value)
        answer = await self._store.reconcile(
            Reconciliation(
                tenant=effect.tenant,
                operation_key=effect.operation_key,
                fence=effect.fence,
                state=state,
                looked_at=looked_at,
                pause_seconds=self._settings.pause_seconds,
                reason=reason,
                sealed_result=sealed,
                result_digest=digest,
                external_reference=reference,
                events=(event,),
            )
        )
        if isinstance(answer, Moved) and answer.is_news:
            self._meter.effect_settled(state=state.value)
        return answer

    def _sealed_result(self, effect: Effect, state: EffectState, result: object) -> tuple[bytes | None, Digest | None]:
        """What the probe brought, if it keeps the result contract; the effect is committed either way."""
        tool = self._registry.tools.get(effect.tool)
        if state is not EffectState.RECONCILED_COMMITTED or tool is None or result is None:
            return None, None
        try:
            _, canonical = tool.check_result(result)
        except InvalidArguments:
            return None, None
        binding = row_binding(effect.tenant, effect.operation_key, "result")
        return self._keys.seal(canonical, bound_to=binding), result_digest(canonical)

    async def _refusal(self, effect: Effect, by: Principal, code: str) -> DecisionRefused:
        event = self._event(EventKind.RECONCILE_REFUSED, effect, by, detail=code)
        await self._store.record((event,))
        return DecisionRefused(_REFUSALS.get(code, "The effect cannot be settled like this."), code=code)

    def _event(self, kind: EventKind, effect: Effect, by: Principal | None, **more: object) -> AuditEvent:
        facts = self._chronicle.of_effect(effect)
        return self._chronicle.event(
            kind, facts, decided_by=by.subject if by is not None else None, model_suggested=False, **more
        )

    def _pause_after(self, effect: Effect, looked_at: datetime) -> float:
        """Doubling, at most five minutes; a year once the probes are used up, which leaves it to people."""
        if effect.probes + 1 >= self._settings.max_probes:
            return 31_536_000.0
        pause = min(_FIRST_PROBE_PAUSE_SECONDS * 2.0**effect.probes, _LONGEST_PROBE_PAUSE_SECONDS)
        quiet = self.quiet_end(effect)
        if quiet is not None and quiet > looked_at:  # an absence seen before this proves nothing
            pause = min(max(pause, (quiet - looked_at + timedelta(milliseconds=1)).total_seconds()), 300.0)
        return pause

    async def _measure(self) -> None:
        unknown = await self._store.effects(tenant=None, states=(EffectState.UNKNOWN,), limit=1000)
        now = await self._store.now()
        oldest = max(((now - effect.updated_at).total_seconds() for effect in unknown), default=0.0)
        self._meter.effects_unknown(len(unknown), max(0.0, oldest))
        self._meter.approvals_pending(await self._store.pending_count())


def _truth(value: Truth | str) -> Truth:
    """One of the two words; a slip of the pen must never become the other one."""
    try:
        return Truth(value)
    except ValueError:
        pass
    raise MisuseError("truth= is 'committed' or 'absent'.")


_REFUSALS = {
    "not_a_person": "Only a person's own sign-in may settle an effect.",
    "scope_missing": "Settling an effect needs the scope effects.reconcile.",
    "own_request": "Whoever asked for the effect may not declare it absent.",
    "moved_on": "The effect is not unknown any more.",
    "looked_in_the_future": "The look cannot have begun in the future.",
    "too_early_for_absent": (
        "A request could still have been on its way when you looked. Look again after the quiet end, then say so."
    ),
}
