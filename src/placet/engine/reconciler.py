"""Settles what was left dispatched or unknown: take over, look, and believe absence only when nothing can be late.

A probe or a person says what happened; a model never does. Inconclusive is inconclusive: the row stays unknown, with
one more look counted, and is left to people after a bounded number of them.

A round goes on past whatever one row does to it; rows that failed come last in the next one. Rows that this process
cannot look at are another's, and stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from zoneinfo import ZoneInfo

from placet.engine.chronicle import Chronicle
from placet.engine.effect_lists import EffectLists, require_principal
from placet.engine.faults import told
from placet.engine.performing import Performing
from placet.engine.registry import Registry
from placet.engine.results import result_digest, row_binding
from placet.engine.rounds import RowQueue, noted
from placet.engine.settings import GateSettings
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.context import Absent, CannotTell, Found, ProbeContext
from placet.model.effect import Effect, EffectState, is_effect
from placet.model.exact import member_of
from placet.model.identifiers import Digest, OperationKey
from placet.model.ledger import LostRead, MoveAnswer, Moved, NotMoved, Reconciliation
from placet.model.principal import Principal, Standing, subjects_of
from placet.ports.keys import Keys
from placet.ports.liveness import Liveness
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.ports.waiting import paying
from placet.rules import lifecycle
from placet.rules.decoding import LONE_SURROGATE, decode_object
from placet.rules.policy import RECONCILE_SCOPE
from placet.rules.unknowns import UnknownReason, unknown_reason

_log = logging.getLogger("placet.reconciler")

_LOOKS_AT_ONCE = 16
_FIRST_PROBE_PAUSE_SECONDS = 1.0
_LONGEST_PROBE_PAUSE_SECONDS = 300.0
_MAX_DOUBLINGS = 64
MAX_REFERENCE_CHARACTERS = 200
MAX_REASON_CHARACTERS = 500


class Truth(StrEnum):
    """What a person may say of an unknown effect."""

    COMMITTED = "committed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What one round did: rows taken over, and rows settled or still open. A co-commit row taken over is absent."""

    taken_over: int
    committed: int
    absent: int
    still_unknown: int


class Reconciler(EffectLists):
    """Looks after the effects of one store."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        transport: Transport,
        chronicle: Chronicle,
        keys: Keys,
        liveness: Liveness,
        meter: Meter,
        settings: GateSettings,
        performing: Performing,
    ) -> None:
        super().__init__(store=store, registry=registry, settings=settings)
        self._transport = transport
        self._chronicle = chronicle
        self._keys = keys
        self._liveness = liveness
        self._meter = meter
        self._performing = performing
        self._stranded: RowQueue[Effect] = RowQueue(
            lambda limit: self._store.stranded(limit=limit), _row_name, _tenant_of, is_wanted=self._may_be_taken_over
        )
        self._lost: RowQueue[LostRead] = RowQueue(
            lambda limit: self._store.lost_reads(limit=limit),
            lambda lost: lost.place,
            lambda lost: lost.place.writer,
            is_wanted=lambda lost: not self._performing.is_reading(lost.place),
        )
        self._due: RowQueue[Effect] = RowQueue(
            lambda limit: self._store.due_for_probe(limit=limit), _row_name, _tenant_of, is_wanted=self._can_look
        )

    @paying
    async def recover(self) -> RecoveryReport:
        """One round: take over what its owners lost, close lost reads, then probe unknown effects that are due.

        At most 100 rows of each kind, of every tenant some; what this process cannot probe is left to others. A row
        that fails is told in the log and tried again later; it does not end the round.

        Raises:
            Exception: the first fault of a whole kind, a `StoreError` where its rows could not be listed; those of the
                other kinds were looked after all the same.
        """
        faults: list[Exception] = []
        await noted(self._store.chain_waiting(), faults, 0)
        taken = await noted(self._take_over_stranded(), faults, [])
        await noted(self._close_lost_reads(), faults, None)
        states = await noted(self._probe_due(), faults, [])
        measured_at = await noted(self._measure(), faults, None)
        if faults or measured_at is None:
            self._meter.recovery_failed()
            raise faults[0]
        self._meter.recovered(at_seconds=max(0.0, measured_at.timestamp()))
        return RecoveryReport(
            taken_over=len(taken),
            committed=states.count(EffectState.RECONCILED_COMMITTED),
            absent=(taken + states).count(EffectState.RECONCILED_ABSENT),
            still_unknown=states.count(EffectState.UNKNOWN),
        )

    @paying
    async def probe(self, effect: Effect) -> EffectState:
        """Look once; the state the effect has afterwards. What has no probe here is left alone.

        Raises:
            MisuseError: it is no effect of a store; nothing was looked at.
            Exception: whatever the store raised; the look has been counted as one in vain where that was possible.
        """
        if not is_effect(effect):
            raise MisuseError("A probe looks for an Effect, as the store gives it.")
        if not self._can_look(effect):
            return effect.state
        try:
            effect = await self._with_dead_owner_noted(effect)
            looked_at = await self._store.now()
            answer = await self._settled_by_look(effect, looked_at)
        except Exception:
            await self._count_after_fault(effect)
            raise
        if isinstance(answer, NotMoved) and answer.effect.state is EffectState.UNKNOWN:
            await self._store.probed_in_vain(effect, next_probe_seconds=self._pause_after(effect, looked_at))
        return answer.effect.state

    async def _settled_by_look(self, effect: Effect, looked_at: datetime) -> MoveAnswer:
        match await self._look(effect):
            case Found(result=result, external_reference=reference):
                kept = _kept_reference(reference)
                return await self._write(effect, EffectState.RECONCILED_COMMITTED, looked_at, "probe", result, kept)
            case Absent():
                return await self._write(effect, EffectState.RECONCILED_ABSENT, looked_at, "probe", None, None)
            case CannotTell():
                return NotMoved(effect=effect, reason="cannot_tell")

    async def _count_after_fault(self, effect: Effect) -> None:
        try:
            pause = self._pause_after(effect, await self._store.now())
            await self._store.probed_in_vain(effect, next_probe_seconds=pause)
        except Exception as fault:
            _log.warning("a look could not be counted", extra=told(fault))

    @paying
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
            reason: a fixed code of the kind of evidence, such as `seen_in_desk`; at most 500 characters, recorded.

        Raises:
            MisuseError: an argument is not of its kind; nothing was looked up.
            NotFound: no such effect in the person's tenant.
            DecisionRefused: not a person, not entitled, the requester itself saying "absent", too early for it, or the
                effect is not unknown (any more); `code` says which.
        """
        truth = _truth(truth)
        require_principal(by)
        looked_at = _instant(looked_at)
        if not _is_text(reason) or len(reason) > MAX_REASON_CHARACTERS:
            raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")
        if by.standing is not Standing.PERSON:
            raise await self._not_for(by, "not_a_person")
        if RECONCILE_SCOPE not in by.scopes:
            raise await self._not_for(by, "scope_missing")
        known = _is_text(operation_key)
        effect = await self._store.effect(by.tenant, OperationKey(operation_key)) if known else None
        if effect is None:
            raise NotFound("There is no such effect in your tenant.")
        effect = await self._with_dead_owner_noted(effect)
        if truth is Truth.ABSENT and by.subject in subjects_of(effect.subject):
            raise await self._refusal(effect, by, "own_request")
        state = EffectState.RECONCILED_COMMITTED if truth is Truth.COMMITTED else EffectState.RECONCILED_ABSENT
        answer = await self._write(effect, state, looked_at, reason, None, None, by=by)
        if isinstance(answer, NotMoved):
            raise await self._refusal(answer.effect, by, answer.reason)
        return answer.effect

    def quiet_end(self, effect: Effect) -> datetime | None:
        """From when on "absent" can be believed; None while the attempt may still be going on."""
        return lifecycle.quiet_end(effect, pause_seconds=self._settings.pause_seconds)

    # ------------------------------------------------------------ within

    async def _take_over_stranded(self) -> list[EffectState]:
        taken: list[EffectState] = []
        for effect in await self._stranded.batch():
            with self._stranded.past_faults(effect):
                if await self._take_over(effect):
                    taken.append(lifecycle.taken_over_state(effect))
        return taken

    async def _take_over(self, effect: Effect) -> bool:
        state = lifecycle.taken_over_state(effect)
        is_unknown = state is EffectState.UNKNOWN
        facts = self._chronicle.of_effect(effect)
        del facts["attempt"], facts["fence"]
        completed = self._chronicle.completed(
            facts,
            AuditOutcome.UNKNOWN if is_unknown else AuditOutcome.ERROR,
            attempt=effect.attempt,
            fence=effect.fence,
            detail="owner_lost",
            error_type=None if is_unknown else "OwnerLost",
            effect_state=state.value,
        )
        answer = await self._store.take_over(effect, (completed,))
        if isinstance(answer, Moved) and answer.is_news:
            self._meter.effect_settled(state=state.value)
            return True
        return False

    async def _close_lost_reads(self) -> None:
        """A read whose process died changed nothing; only its completed event is missing."""
        for lost in await self._lost.batch():
            with self._lost.past_faults(lost):
                completed = self._chronicle.completing(lost.started)
                if completed is None:
                    self._lost.put_last(lost)
                else:
                    await self._store.close_lost_read(lost, completed)

    async def _probe_due(self) -> list[EffectState]:
        """Some at once, so that probes that hang delay the others by one deadline and not by their sum."""
        room = asyncio.Semaphore(_LOOKS_AT_ONCE)

        async def look(effect: Effect) -> EffectState | None:
            state: EffectState | None = effect.state
            async with room:
                with self._due.past_faults(effect):
                    is_ours = await self._store.begin_probe(effect, seconds=self._look_seconds)
                    state = await self.probe(effect) if is_ours else None
            return state

        states = await asyncio.gather(*(look(effect) for effect in await self._due.batch()))
        return [state for state in states if state is not None]  # the others are looked at by somebody else

    @property
    def _look_seconds(self) -> float:
        """How long a row that is being looked at is due for nobody else; if we are lost meanwhile, it is due again."""
        return self._settings.probe_seconds + self._settings.lease_seconds

    def _may_be_taken_over(self, effect: Effect) -> bool:
        return not self._performing.is_performing(effect)

    def _can_look(self, effect: Effect) -> bool:
        """Whether this process has the tool and its probe; if not, somebody else has, and its looks are not ours."""
        contract = self._contract_of(effect.tool)
        return contract is not None and contract.has_probe

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
            context = ProbeContext(tenant=effect.tenant, operation_key=effect.operation_key, arguments=arguments)
            return await self._transport.probe(effect.tool, context, timeout_seconds=self._settings.probe_seconds)
        except Exception as fault:  # another key, an altered row, a transport that broke its word: nothing was seen
            _log.warning("a look failed", extra=told(fault))
            return CannotTell()

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
        event = self._event(
            EventKind.EFFECT_RECONCILED, effect, by, detail=reason, effect_state=state.value, decided_at=looked_at
        )
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
        except Exception:  # the remote chose it
            return None, None
        binding = row_binding(effect.tenant, effect.operation_key, "result")
        return self._keys.seal(canonical, bound_to=binding), result_digest(canonical)

    async def _not_for(self, by: Principal, code: str) -> DecisionRefused:
        """Refused before anything was looked up, so that nobody learns which effects there are."""
        facts = self._chronicle.of_principal(by)
        await self._store.record(
            (self._chronicle.event(EventKind.RECONCILE_REFUSED, facts, detail=code, model_suggested=False),)
        )
        return DecisionRefused(_REFUSALS[code], code=code)

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
        pause = min(
            _FIRST_PROBE_PAUSE_SECONDS * 2.0 ** min(effect.probes, _MAX_DOUBLINGS), _LONGEST_PROBE_PAUSE_SECONDS
        )
        quiet = self.quiet_end(effect)
        if quiet is not None and quiet > looked_at:  # an absence seen before this proves nothing
            pause = min(max(pause, (quiet - looked_at + timedelta(milliseconds=1)).total_seconds()), 300.0)
        return pause

    async def _measure(self) -> datetime:
        """Say how many wait for somebody; when that was."""
        unknown = await self._store.unknown_effects()
        now = await self._store.now()
        oldest = (now - unknown.oldest_at).total_seconds() if unknown.oldest_at is not None else 0.0
        self._meter.effects_unknown(unknown.count, max(0.0, oldest))
        counts = dict.fromkeys(UnknownReason, 0)
        for group in unknown.groups:
            contract = self._contract_of(group.tool)
            counts[unknown_reason(contract, probes=group.probes, max_probes=self._settings.max_probes)] += group.count
        for reason, count in counts.items():
            self._meter.effects_unknown_for(reason=reason.value, count=count)
        self._meter.approvals_pending(await self._store.pending_count())
        return now


def _truth(value: Truth | str) -> Truth:
    """One of the two words; a slip of the pen must never become the other one."""
    if (truth := member_of(Truth, value)) is not None:
        return truth
    raise MisuseError("truth= is 'committed' or 'absent'.")


def _instant(value: object) -> datetime:
    """An exact instant in a zone of the standard library; a foreign one would be asked for its offset."""
    if type(value) is datetime and (type(value.tzinfo) is timezone or type(value.tzinfo) is ZoneInfo):
        with suppress(OverflowError):  # the first and last hours there are
            return value.astimezone(UTC)
    raise MisuseError("looked_at= is a datetime that knows its zone.")


def _row_name(effect: Effect) -> Hashable:
    return effect.tenant, effect.operation_key, effect.fence


def _tenant_of(effect: Effect) -> str:
    return effect.tenant


def _is_text(value: object) -> bool:
    """Whether it is an exact str that can be encoded, and so stored and looked up."""
    return type(value) is str and LONE_SURROGATE.search(value) is None


def _kept_reference(reference: object) -> str | None:
    """What the remote calls the effect, if it can be stored; the effect is committed either way."""
    if type(reference) is str and _is_text(reference) and 0 < len(reference) <= MAX_REFERENCE_CHARACTERS:
        return reference
    return None


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
