"""Lists of effects for people: what there is, what waits for somebody, what cannot be read any more.

Everybody sees its own; all of its tenant's, with `effects.read` or `effects.reconcile`.
"""

from __future__ import annotations

from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.errors import MisuseError
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.exact import MOST_LISTED, is_limit, members_of
from placet.model.principal import Principal, is_principal
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.policy import READ_EFFECTS_SCOPE, RECONCILE_SCOPE
from placet.rules.unknowns import WaitingEffect, waiting_effect

_FEWEST_IN_A_PAGE = 100


class EffectLists:
    """The effects of one store, as one principal may see them."""

    def __init__(self, *, store: Store, registry: Registry, settings: GateSettings) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings

    @paying
    async def effects(
        self, *, by: Principal, states: tuple[EffectState, ...] = tuple(EffectState), limit: int = 100
    ) -> tuple[Effect, ...]:
        """Effects of the principal's tenant: its own, or all with the scope `effects.read`.

        Raises:
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        found = await self._listed(by, states, limit)
        return tuple(effect for effect in found if isinstance(effect, Effect))

    @paying
    async def broken_among(
        self, *, by: Principal, states: tuple[EffectState, ...] = tuple(EffectState), limit: int = 100
    ) -> tuple[BrokenEffect, ...]:
        """Rows among those that `effects` lists that cannot be read any more; it leaves them out.

        Raises:
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        found = await self._listed(by, states, limit)
        return tuple(effect for effect in found if isinstance(effect, BrokenEffect))

    @paying
    async def broken_effects(self, *, by: Principal, limit: int = 100) -> tuple[BrokenEffect, ...]:
        """Rows that cannot be read any more, of all effects that `effects` would list; every row is read, which takes
        time.

        Raises:
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        require_principal(by)
        if not is_limit(limit):
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_LISTED}.")
        return await self._store.broken_effects(tenant=by.tenant, subject=_whose(by), limit=limit)

    @paying
    async def waiting(self, *, by: Principal, limit: int = 100) -> tuple[WaitingEffect, ...]:
        """The queue for people: unknown effects that `effects` would list, the longest unknown first, and why.

        Raises:
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        require_principal(by)
        if not is_limit(limit):
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_LISTED}.")
        oldest = await self._longest_unknown(by, limit)
        now = await self._store.now()
        return tuple(
            waiting_effect(
                effect,
                self._registry.contract_of(effect.tool),
                by,
                now=now,
                max_probes=self._settings.max_probes,
                pause_seconds=self._settings.pause_seconds,
            )
            for effect in oldest
        )

    # ------------------------------------------------------------ within

    async def _longest_unknown(self, by: Principal, limit: int) -> list[Effect]:
        """As many as were asked for, if there are, past rows that cannot be read; not past more than are ever listed.

        A page at a time, so that no more of them than one page is in memory, however many there are.
        """
        oldest: list[Effect] = []
        page, seen = max(limit, _FEWEST_IN_A_PAGE), 0
        while len(oldest) < limit and seen - len(oldest) < MOST_LISTED:
            found = await self._store.longest_unknown(tenant=by.tenant, subject=_whose(by), limit=page, skip=seen)
            oldest += [effect for effect in found if isinstance(effect, Effect)]
            seen += len(found)
            if len(found) < page:
                break
        return oldest[:limit]

    async def _listed(
        self, by: Principal, states: tuple[EffectState, ...], limit: int
    ) -> tuple[Effect | BrokenEffect, ...]:
        require_principal(by)
        wanted = members_of(EffectState, states)
        if wanted is None:
            raise MisuseError("states= is a tuple of EffectState.")
        if not is_limit(limit):
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_LISTED}.")
        return await self._store.effects(tenant=by.tenant, states=wanted, limit=limit, subject=_whose(by))


def require_principal(by: object) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")


def _whose(by: Principal) -> str | None:
    """Whose effects a principal may see: everybody's with the scope for it, otherwise its own."""
    sees_all = READ_EFFECTS_SCOPE in by.scopes or RECONCILE_SCOPE in by.scopes
    return None if sees_all else by.subject
