"""Rounds over what was left dispatched or unknown: take over, look, and say how much waits.

A round goes on past whatever one row does to it; rows that failed come last in the next one. Looks are taken by
`probing`; what a look or a person's word leads to is written by `settling`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime

from placet.engine.chronicle import Chronicle
from placet.engine.effect_lists import EffectLists
from placet.engine.effect_views import EffectView
from placet.engine.performing import Performing
from placet.engine.probing import Probing
from placet.engine.registry import Registry
from placet.engine.rounds import RowQueue, noted
from placet.engine.settings import GateSettings
from placet.engine.settling import Settling, Truth
from placet.model.audit import AuditOutcome
from placet.model.effect import Effect, EffectState
from placet.model.ledger import LostRead, Moved
from placet.model.principal import Principal
from placet.ports.keys import Keys
from placet.ports.liveness import Liveness
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.ports.waiting import paying
from placet.rules import lifecycle
from placet.rules.unknowns import UnknownReason, unknown_reason

_LOOKS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What one round did: rows taken over, and rows settled or still open. A co-commit row taken over is absent."""

    taken_over: int
    committed: int
    absent: int
    still_unknown: int


class Reconciler(EffectLists):
    """Lists the effects of one store, and looks after those that were left."""

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
        self._chronicle = chronicle
        self._meter = meter
        self._performing = performing
        self._settling = Settling(
            store=store,
            registry=registry,
            chronicle=chronicle,
            keys=keys,
            liveness=liveness,
            meter=meter,
            settings=settings,
        )
        self._probing = Probing(
            store=store,
            registry=registry,
            transport=transport,
            keys=keys,
            settling=self._settling,
            settings=settings,
        )
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
            lambda limit: self._store.due_for_probe(limit=limit),
            _row_name,
            _tenant_of,
            is_wanted=self._probing.can_look,
        )

    @paying
    async def settle_by_person(
        self, operation_key: str, truth: Truth | str, *, by: Principal, looked_at: datetime, reason: str
    ) -> Effect:
        """A person says what became of an unknown effect, from looking at the remote system.

        Args:
            truth: `committed` or `absent`, nothing else.
            looked_at: when the person's look began; "absent" counts only if nothing could still be on its way then.
            reason: a code for the kind of evidence, such as `seen_in_desk`: a letter, then at most 127 letters, digits
                and `_ . : -`; recorded.

        Raises:
            MisuseError: an argument is not of its kind; nothing was looked up.
            NotFound: no such effect in the person's tenant.
            DecisionRefused: not a person, not entitled, the requester itself saying "absent", too early for it, or the
                effect is not unknown (any more); `code` says which.
        """
        return await self._settling.settle_by_person(operation_key, truth, by=by, looked_at=looked_at, reason=reason)

    def quiet_end(self, effect: Effect) -> datetime | None:
        """From when on "absent" can be believed; None while the attempt may still be going on."""
        return self._settling.quiet_end(effect)

    @paying
    async def probe(self, effect: Effect) -> EffectState:
        """Look once; the state the effect has afterwards. What has no probe here is left alone.

        Raises:
            MisuseError: it is no effect of a store; nothing was looked at.
            Exception: whatever the store raised; the look has been counted as one in vain where that was possible.
        """
        return await self._probing.probe(effect)

    @paying
    async def probe_now(self, operation_key: str, *, by: Principal) -> EffectView:
        """A person has the probe of one unknown effect asked now, whether or not it is due; how the effect stands then.

        Raises:
            NotFound: no such effect that the person may see.
            DecisionRefused: not a person, or not entitled; nothing was looked at.
        """
        effect = await self.visible(operation_key, by=by)
        await self._settling.require_leave(by)
        if effect.state is EffectState.UNKNOWN:
            await self.probe(effect)
        return await self.show(operation_key, by=by)

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
                    state = await self._probing.probe(effect) if is_ours else None
            return state

        states = await asyncio.gather(*(look(effect) for effect in await self._due.batch()))
        return [state for state in states if state is not None]  # the others are looked at by somebody else

    @property
    def _look_seconds(self) -> float:
        """How long a row that is being looked at is due for nobody else; if we are lost meanwhile, it is due again."""
        return self._settings.probe_seconds + self._settings.lease_seconds

    def _may_be_taken_over(self, effect: Effect) -> bool:
        return not self._performing.is_performing(effect)

    async def _measure(self) -> datetime:
        """Say how many wait for somebody; when that was."""
        unknown = await self._store.unknown_effects()
        now = await self._store.now()
        oldest = (now - unknown.oldest_at).total_seconds() if unknown.oldest_at is not None else 0.0
        self._meter.effects_unknown(unknown.count, max(0.0, oldest))
        counts = dict.fromkeys(UnknownReason, 0)
        for group in unknown.groups:
            contract = self._registry.contract_of(group.tool)
            counts[unknown_reason(contract, probes=group.probes, max_probes=self._settings.max_probes)] += group.count
        for reason, count in counts.items():
            self._meter.effects_unknown_for(reason=reason.value, count=count)
        self._meter.approvals_pending(await self._store.pending_count())
        return now


def _row_name(effect: Effect) -> Hashable:
    return effect.tenant, effect.operation_key, effect.fence


def _tenant_of(effect: Effect) -> str:
    return effect.tenant
