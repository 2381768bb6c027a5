"""Writes what became of an unknown effect, on a probe's word or a person's; never on a model's.

Absence is believed only when nothing can be late, and the fence that was read is compared. Source: DESIGN section 12.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timezone
from enum import StrEnum
from zoneinfo import ZoneInfo

from placet.engine.chronicle import Chronicle
from placet.engine.effect_lists import require_principal
from placet.engine.registry import Registry
from placet.engine.results import result_digest, row_binding
from placet.engine.settings import GateSettings
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.exact import member_of
from placet.model.identifiers import Digest, OperationKey
from placet.model.ledger import MoveAnswer, Moved, NotMoved, Reconciliation
from placet.model.principal import Principal, Standing, subjects_of
from placet.ports.keys import Keys
from placet.ports.liveness import Liveness
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.rules import lifecycle
from placet.rules.audit import is_code
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.policy import RECONCILE_SCOPE


class Truth(StrEnum):
    """What a person may say of an unknown effect."""

    COMMITTED = "committed"
    ABSENT = "absent"


class Settling:
    """The end of what is unknown in one store."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        chronicle: Chronicle,
        keys: Keys,
        liveness: Liveness,
        meter: Meter,
        settings: GateSettings,
    ) -> None:
        self._store = store
        self._registry = registry
        self._chronicle = chronicle
        self._keys = keys
        self._liveness = liveness
        self._meter = meter
        self._settings = settings

    async def settle_by_person(
        self, operation_key: str, truth: Truth | str, *, by: Principal, looked_at: datetime, reason: str
    ) -> Effect:
        """What `Reconciler.settle_by_person` says."""
        truth = _truth(truth)
        require_principal(by)
        looked_at = _instant(looked_at)
        if not is_code(reason):
            raise MisuseError(
                "reason= is a code such as 'seen_in_desk': a letter, then at most 127 of a-z A-Z 0-9 _ . : -"
            )
        await self.require_leave(by)
        known = is_text(operation_key)
        effect = await self._store.effect(by.tenant, OperationKey(operation_key)) if known else None
        if effect is None:
            raise NotFound("There is no such effect in your tenant.")
        effect = await self.with_dead_owner_noted(effect)
        if truth is Truth.ABSENT and by.subject in subjects_of(effect.subject):
            raise await self._refusal(effect, by, "own_request")
        state = EffectState.RECONCILED_COMMITTED if truth is Truth.COMMITTED else EffectState.RECONCILED_ABSENT
        answer = await self.write(effect, state, looked_at, reason, by=by)
        if isinstance(answer, NotMoved):
            raise await self._refusal(answer.effect, by, answer.reason)
        return answer.effect

    async def require_leave(self, by: Principal) -> None:
        """Raises:
        DecisionRefused: it is no person, or one without the scope; it is on record.
        """
        if by.standing is not Standing.PERSON:
            raise await self._not_for(by, "not_a_person")
        if RECONCILE_SCOPE not in by.scopes:
            raise await self._not_for(by, "scope_missing")

    def quiet_end(self, effect: Effect) -> datetime | None:
        """From when on "absent" can be believed; None while the attempt may still be going on."""
        return lifecycle.quiet_end(effect, pause_seconds=self._settings.pause_seconds)

    async def with_dead_owner_noted(self, effect: Effect) -> Effect:
        """The effect as it is once it is on record that its owner's death ended the attempt, where that is so."""
        needs_end = effect.state is EffectState.UNKNOWN and effect.attempt_ended_at is None
        if needs_end and self._liveness.is_dead(effect.owner):
            await self._store.owner_died(effect)
            return await self._store.effect(effect.tenant, effect.operation_key) or effect
        return effect

    async def write(
        self,
        effect: Effect,
        state: EffectState,
        looked_at: datetime,
        reason: str,
        *,
        result: object = None,
        reference: str | None = None,
        by: Principal | None = None,
    ) -> MoveAnswer:
        """What a look that began at `looked_at` found, on record; not moved where it is not believed or came late."""
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

    # ------------------------------------------------------------ within

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


def is_text(value: object) -> bool:
    """Whether it is an exact str that every store can hold, and so look up."""
    return type(value) is str and LONE_SURROGATE.search(value) is None and "\x00" not in value


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
