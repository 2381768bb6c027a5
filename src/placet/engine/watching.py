"""What waits for people, for pages and streams that look every moment.

A look is cheap however much waits: one short statement, nothing unsealed, nobody's entitlement asked. Only what is new
or has changed since the look before is made into what a person sees. What changes while no question does (the policy,
the list of people) is seen by whoever looks at the questions themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from placet.engine.approval_views import ApprovalView, ApprovalViews
from placet.errors import MisuseError
from placet.model.approval import ApprovalState
from placet.model.exact import MOST_LISTED, is_limit
from placet.model.identifiers import ApprovalId
from placet.model.principal import Principal
from placet.model.watching import Glance
from placet.ports.store import Store
from placet.ports.waiting import paying


class Watching:
    """Looks at the questions of one store on behalf of people. Everything here raises what `Desk.listed` raises."""

    def __init__(self, *, store: Store, views: ApprovalViews, may_look: Callable[[Principal], Awaitable[None]]) -> None:
        self._store = store
        self._views = views
        self._may_look = may_look

    @paying
    async def glance(self, *, by: Principal, limit: int = 500) -> Glance:
        """What waits in the person's tenant, whoever of the tenant looks. As rows say, unverified."""
        if not is_limit(limit):
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_LISTED}.")
        await self._may_look(by)
        marks = await self._store.waiting_marks(by.tenant, limit=limit)
        return Glance(now=await self._store.now(), marks=marks)

    @paying
    async def views(self, approval_ids: Iterable[ApprovalId], *, by: Principal) -> tuple[ApprovalView, ...]:
        """Those of them that wait and hold, as `Desk.listed` shows them, in the order asked for."""
        await self._may_look(by)
        found = [await self._store.approval(by.tenant, each) for each in approval_ids]
        there = [approval for approval in found if approval is not None]
        views = await self._views.listed(there, by, await self._store.now())
        return tuple(view for view in views if view.state is ApprovalState.PENDING)
