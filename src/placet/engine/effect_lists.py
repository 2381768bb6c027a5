"""Lists of effects for people: what there is, what waits for somebody, what cannot be read any more.

Everybody sees its own; all of its tenant's, with `effects.read` or `effects.reconcile`.
"""

from __future__ import annotations

from placet.engine.effect_views import EffectView, effect_view
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.errors import MisuseError, NotFound
from placet.model.effect import BrokenEffect, Effect, EffectState
from placet.model.exact import MOST_LISTED, is_limit, members_of
from placet.model.identifiers import OperationKey
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, is_principal, subjects_of
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.lifecycle import quiet_end
from placet.rules.listing import mark_of_effect
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
    async def page(
        self,
        *,
        by: Principal,
        states: tuple[EffectState, ...] = tuple(EffectState),
        limit: int = 100,
        after: Mark | None = None,
    ) -> Page[EffectView]:
        """What `effects` lists, a page of at most 1,000 at a time; rows that cannot be read are left out.

        Raises:
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        require_principal(by)
        wanted = members_of(EffectState, states)
        if wanted is None or not is_limit(limit) or limit > MOST_IN_A_PAGE:
            raise MisuseError(f"states= is a tuple of EffectState, limit= a whole number from 1 to {MOST_IN_A_PAGE}.")

        async def fetch(mark: Mark | None, count: int) -> tuple[Effect | BrokenEffect, ...]:
            whose = _whose(by)
            return await self._store.effects_after(by.tenant, mark, states=wanted, limit=count, subject=whose)

        return await read_page(
            fetch,
            mark_of=lambda row: mark_of_effect(row) if isinstance(row, Effect) else None,
            shown=lambda row: self.view(row) if isinstance(row, Effect) else None,
            after=after,
            limit=limit,
        )

    @paying
    async def show(self, operation_key: str, *, by: Principal) -> EffectView:
        """One effect, if `effects` would list it.

        Raises:
            NotFound: there is none, or it is not this principal's to see.
            MisuseError: `by` is not a principal.
        """
        return self.view(await self.visible(operation_key, by=by))

    async def visible(self, operation_key: str, *, by: Principal) -> Effect:
        """The row behind `show`, for whoever goes on with it. Raises what `show` raises."""
        require_principal(by)
        is_text = type(operation_key) is str and LONE_SURROGATE.search(operation_key) is None
        is_key = is_text and "\x00" not in operation_key  # which not every store can look up, and none has
        effect = await self._store.effect(by.tenant, OperationKey(operation_key)) if is_key else None
        whose = _whose(by)
        if effect is None or (whose is not None and whose not in subjects_of(effect.subject)):
            raise NotFound("There is no such effect in your tenant.")
        return effect

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

    def view(self, effect: Effect) -> EffectView:
        """What may be seen of a row that `effects` has listed."""
        end = quiet_end(effect, pause_seconds=self._settings.pause_seconds)
        return effect_view(effect, quiet_end=end if effect.state is EffectState.UNKNOWN else None)

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
