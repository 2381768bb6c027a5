"""The ledger as one person asks it: of the store here, or of a server. What is shown of both is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from placet.cli.project import Place, is_text, load_tools, open_project, person, require_store
from placet.cli.remote import there, told_at
from placet.cli.screen import Screen, shown_key
from placet.cli.session import Session
from placet.engine.effect_views import EffectView, standing_of_effect
from placet.engine.settling import Truth
from placet.errors import DecisionRefused, NotFound
from placet.model.effect import EffectState
from placet.model.principal import Principal
from placet.rules.policy import RECONCILE_SCOPE

if TYPE_CHECKING:
    from placet.client import AsyncClient
    from placet.engine.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEffect:
    """An effect, and when it was looked at, by the clock of its store or server."""

    view: EffectView
    now: datetime


class Ledger(Protocol):
    """What a person may ask about effects. Everything raises what the reconciler of the library raises; a server's,
    what its client raises as well.
    """

    async def listed(self, states: tuple[EffectState, ...], limit: int) -> list[SeenEffect]: ...

    async def show(self, key: str) -> SeenEffect: ...

    async def probe(self, key: str) -> SeenEffect:
        """Ask the probe of one unknown effect now, whether or not it is due; another state is only shown."""
        ...

    async def settle(self, key: str, truth: Truth, *, looked_at: datetime | None, reason: str) -> SeenEffect:
        """A person says what it saw. `looked_at`: None for now, by the clock of the store or server."""
        ...


def ledger_of(session: Session) -> Place[Ledger]:
    """The ledger that the command line names; what it lacks is told in the order of what is looked at first."""
    if session.server is not None:
        return partial(there, session.server, _LedgerThere)
    require_store(session.settings)
    return partial(_here, session, person(session.settings))


@asynccontextmanager
async def _here(session: Session, by: Principal) -> AsyncIterator[Ledger]:
    yield _LedgerHere(session, by)


class _LedgerHere:
    """Only the probe needs the project's tools, so nothing else fails where they cannot be loaded."""

    def __init__(self, session: Session, by: Principal) -> None:
        self._settings = session.settings
        self._screen: Screen = session.screen
        self._by = by

    async def listed(self, states: tuple[EffectState, ...], limit: int) -> list[SeenEffect]:
        async with open_project(self._settings, ()) as gate:
            reconciler, now = gate.reconciler, await gate.store.now()
            found = await reconciler.effects(by=self._by, states=states, limit=limit)
            for broken in await reconciler.broken_among(by=self._by, states=states, limit=limit):
                key = shown_key(broken.operation_key)
                self._screen.warn(f"A row cannot be read, somebody changed it by hand: {key}")
                self._screen.warn("  next: placet effects list --broken finds all of them")
            return [SeenEffect(view=reconciler.view(effect), now=now) for effect in found]

    async def show(self, key: str) -> SeenEffect:
        async with open_project(self._settings, ()) as gate:
            return await self._seen(gate, key)

    async def probe(self, key: str) -> SeenEffect:
        async with open_project(self._settings, load_tools(self._settings)) as gate:
            view = await gate.reconciler.probe_now(key, by=self._by)
            return SeenEffect(view=view, now=await gate.store.now())

    async def settle(self, key: str, truth: Truth, *, looked_at: datetime | None, reason: str) -> SeenEffect:
        async with open_project(self._settings, ()) as gate:
            when = looked_at if looked_at is not None else await gate.store.now()
            try:
                await gate.reconciler.settle_by_person(key, truth, by=self._by, looked_at=when, reason=reason)
            except DecisionRefused as refused:
                refusal = refused
            else:
                return await self._seen(gate, key)
            if RECONCILE_SCOPE in self._by.scopes:
                refusal.changed = standing_of_effect((await self._seen(gate, key)).view)
            raise refusal

    async def _seen(self, gate: Gate, key: str) -> SeenEffect:
        return SeenEffect(view=await gate.reconciler.show(key, by=self._by), now=await gate.store.now())


class _LedgerThere:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def listed(self, states: tuple[EffectState, ...], limit: int) -> list[SeenEffect]:
        views = await self._client.effects(states=states, limit=limit)
        return [SeenEffect(view=view, now=told_at(self._client)) for view in views]

    async def show(self, key: str) -> SeenEffect:
        return await self._seen(self._client.effect(_required_key(key)))

    async def probe(self, key: str) -> SeenEffect:
        return await self._seen(self._client.probe(_required_key(key)))

    async def settle(self, key: str, truth: Truth, *, looked_at: datetime | None, reason: str) -> SeenEffect:
        # "Now" is when the server answered a look before this, which is no later than the person's own look.
        when = looked_at if looked_at is not None else (await self.show(key)).now
        return await self._seen(self._client.settle(_required_key(key), truth, looked_at=when, reason=reason))

    async def _seen(self, look: Awaitable[EffectView]) -> SeenEffect:
        return SeenEffect(view=await look, now=told_at(self._client))


def _required_key(said: str) -> str:
    """
    Raises:
        NotFound: it is the key of nothing, and no part of an address.
    """
    if said and is_text(said):
        return said
    raise NotFound("There is no such effect in your tenant.")
