"""Looks for what became of an effect: asks the probe of its contract, once, and says when to look again.

Inconclusive is inconclusive: the row stays unknown, with one more look counted, and is left to people after a bounded
number of them. Rows that this process cannot look at are another's, and stay as they are.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from placet.engine.faults import told
from placet.engine.registry import Registry
from placet.engine.results import row_binding
from placet.engine.settings import GateSettings
from placet.engine.settling import Settling, is_text
from placet.errors import MisuseError
from placet.model.context import Absent, CannotTell, Found, ProbeContext
from placet.model.effect import Effect, EffectState, is_effect
from placet.model.ledger import MoveAnswer, NotMoved
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.transport import Transport
from placet.rules.decoding import decode_object

_log = logging.getLogger("placet.reconciler")

_FIRST_PROBE_PAUSE_SECONDS = 1.0
_LONGEST_PROBE_PAUSE_SECONDS = 300.0
_MAX_DOUBLINGS = 64
MAX_REFERENCE_CHARACTERS = 200


class Probing:
    """Looks at what is unknown in one store; what they find is for `settling` to write."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        transport: Transport,
        keys: Keys,
        settling: Settling,
        settings: GateSettings,
    ) -> None:
        self._store = store
        self._registry = registry
        self._transport = transport
        self._keys = keys
        self._settling = settling
        self._settings = settings

    async def probe(self, effect: Effect) -> EffectState:
        """What `Reconciler.probe` says."""
        if not is_effect(effect):
            raise MisuseError("A probe looks for an Effect, as the store gives it.")
        if not self.can_look(effect):
            return effect.state
        try:
            effect = await self._settling.with_dead_owner_noted(effect)
            looked_at = await self._store.now()
            answer = await self._settled_by_look(effect, looked_at)
        except Exception:
            await self._count_after_fault(effect)
            raise
        if isinstance(answer, NotMoved) and answer.effect.state is EffectState.UNKNOWN:
            await self._store.probed_in_vain(effect, next_probe_seconds=self._pause_after(effect, looked_at))
        return answer.effect.state

    def can_look(self, effect: Effect) -> bool:
        """Whether this process has the tool and its probe; if not, somebody else has, and its looks are not ours."""
        contract = self._registry.contract_of(effect.tool)
        return contract is not None and contract.has_probe

    # ------------------------------------------------------------ within

    async def _settled_by_look(self, effect: Effect, looked_at: datetime) -> MoveAnswer:
        match await self._look(effect):
            case Found(result=result, external_reference=reference):
                kept = _kept_reference(reference)
                return await self._settling.write(
                    effect, EffectState.RECONCILED_COMMITTED, looked_at, "probe", result=result, reference=kept
                )
            case Absent():
                return await self._settling.write(effect, EffectState.RECONCILED_ABSENT, looked_at, "probe")
            case CannotTell():
                return NotMoved(effect=effect, reason="cannot_tell")

    async def _count_after_fault(self, effect: Effect) -> None:
        try:
            pause = self._pause_after(effect, await self._store.now())
            await self._store.probed_in_vain(effect, next_probe_seconds=pause)
        except Exception as fault:
            _log.warning("a look could not be counted", extra=told(fault))

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

    def _pause_after(self, effect: Effect, looked_at: datetime) -> float:
        """Doubling, at most five minutes; a year once the probes are used up, which leaves it to people."""
        if effect.probes + 1 >= self._settings.max_probes:
            return 31_536_000.0
        pause = min(
            _FIRST_PROBE_PAUSE_SECONDS * 2.0 ** min(effect.probes, _MAX_DOUBLINGS), _LONGEST_PROBE_PAUSE_SECONDS
        )
        quiet = self._settling.quiet_end(effect)
        if quiet is not None and quiet > looked_at:  # an absence seen before this proves nothing
            pause = min(max(pause, (quiet - looked_at + timedelta(milliseconds=1)).total_seconds()), 300.0)
        return pause


def _kept_reference(reference: object) -> str | None:
    """What the remote calls the effect, if it can be stored; the effect is committed either way."""
    if type(reference) is str and is_text(reference) and 0 < len(reference) <= MAX_REFERENCE_CHARACTERS:
        return reference
    return None
