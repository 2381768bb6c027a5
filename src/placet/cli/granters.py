"""Standing grants as one person asks about them: of the store here, or of a server, shown the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from placet.cli.project import Place, open_project, person, require_store, tools_if_loadable
from placet.cli.remote import required_id, there, whole_digest
from placet.cli.session import Session
from placet.cli.settings import Settings
from placet.engine.grant_views import GrantView
from placet.engine.granting import Granting
from placet.model.grant import GrantWish
from placet.model.principal import Principal

if TYPE_CHECKING:
    from placet.client import AsyncClient
    from placet.rules.contracts import Tool


class Granter(Protocol):
    """What a person may ask about grants. Everything raises what `Granting` raises; a server's, what its client raises
    as well.
    """

    async def like(self, approval_id: str) -> GrantWish: ...

    async def draft(self, wish: GrantWish) -> GrantView: ...

    async def give(self, wish: GrantWish, *, digest: str) -> GrantView: ...

    async def listed(self, *, limit: int) -> tuple[GrantView, ...]: ...

    async def standing(self, *, limit: int) -> tuple[GrantView, ...]: ...

    async def show(self, grant_id: str) -> GrantView: ...

    async def revoke(self, grant_id: str) -> GrantView: ...


def granter_of(session: Session) -> Place[Granter]:
    """The grants that the command line names; what is lacking is told in the order of what is looked at first."""
    if session.server is not None:
        return partial(there, session.server, _GranterThere)
    require_store(session.settings)
    return partial(_here, session.settings, person(session.settings), tools_if_loadable(session))


@asynccontextmanager
async def _here(settings: Settings, by: Principal, tools: Collection[Tool]) -> AsyncIterator[Granter]:
    async with open_project(settings, tools) as gate:
        yield _GranterHere(gate.grants, by)


class _GranterHere:
    def __init__(self, grants: Granting, by: Principal) -> None:
        self._grants = grants
        self._by = by

    async def like(self, approval_id: str) -> GrantWish:
        return await self._grants.like(approval_id, by=self._by)

    async def draft(self, wish: GrantWish) -> GrantView:
        return await self._grants.draft(wish, by=self._by)

    async def give(self, wish: GrantWish, *, digest: str) -> GrantView:
        return await self._grants.give(wish, digest=digest, by=self._by)

    async def listed(self, *, limit: int) -> tuple[GrantView, ...]:
        return await self._grants.listed(by=self._by, limit=limit)

    async def standing(self, *, limit: int) -> tuple[GrantView, ...]:
        return await self._grants.standing(by=self._by, limit=limit)

    async def show(self, grant_id: str) -> GrantView:
        return await self._grants.show(grant_id, by=self._by)

    async def revoke(self, grant_id: str) -> GrantView:
        return await self._grants.revoke(grant_id, by=self._by)


class _GranterThere:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def like(self, approval_id: str) -> GrantWish:
        return await self._client.grant_like(required_id(approval_id, "approval"))

    async def draft(self, wish: GrantWish) -> GrantView:
        return await self._client.draft_grant(wish)

    async def give(self, wish: GrantWish, *, digest: str) -> GrantView:
        return await self._client.give_grant(wish, digest=whole_digest(digest))

    async def listed(self, *, limit: int) -> tuple[GrantView, ...]:
        return await self._client.grants(limit=limit)

    async def standing(self, *, limit: int) -> tuple[GrantView, ...]:
        return await self._client.standing_grants(limit=limit)

    async def show(self, grant_id: str) -> GrantView:
        return await self._client.grant(required_id(grant_id, "grant", hint="placet grants list"))

    async def revoke(self, grant_id: str) -> GrantView:
        return await self._client.revoke_grant(required_id(grant_id, "grant", hint="placet grants list"))
