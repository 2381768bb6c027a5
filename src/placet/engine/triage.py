"""What waits, the gravest first: of a tenant's questions those of the highest risk, and of these the first to be over.

A question holds no risk; its contract does, which the registry has. So the order is made here, of what the store gives
a bounded statement at a time, and no more is looked through than `MOST_LOOKED_THROUGH`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Final

from placet.engine.approval_views import ApprovalView, ApprovalViews
from placet.engine.pages import MOST_IN_A_PAGE
from placet.engine.verifying import verify
from placet.errors import MisuseError
from placet.model.approval import Approval, ApprovalState
from placet.model.exact import is_limit, members_of
from placet.model.listing import Mark
from placet.model.principal import Principal
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import one_turn, paying
from placet.rules.listing import mark_of_approval
from placet.rules.urgency import mark_of_urgency, urgency

MOST_LOOKED_THROUGH: Final = 10_000
"""Questions, the newest, of which one page is made."""
_AT_ONCE: Final = 500
_SOUND_A_TURN: Final = 25
"""Rows of which a page is sure before whatever else is ready goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentPage:
    """Some questions, the gravest first.

    Attributes:
        after: what to go on after; None where nothing more was there when this page was read.
        is_cut: whether there were more than could be looked through: graver ones may be among the oldest.
    """

    rows: tuple[ApprovalView, ...]
    after: Mark | None
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A stored question and where it stands."""

    mark: Mark
    approval: Approval

    @property
    def place(self) -> tuple[int, datetime, str]:
        return urgency(self.mark)


class Triage:
    """Puts the questions of one store into the order in which they matter."""

    def __init__(
        self, *, store: Store, keys: Keys, views: ApprovalViews, may_look: Callable[[Principal], Awaitable[None]]
    ) -> None:
        self._store = store
        self._keys = keys
        self._views = views
        self._may_look = may_look

    @paying
    async def page(
        self,
        *,
        by: Principal,
        states: tuple[ApprovalState, ...] = (ApprovalState.PENDING,),
        limit: int = 100,
        after: Mark | None = None,
    ) -> UrgentPage:
        """What `Desk.page` gives, critical ones first and of one risk the nearest deadline to decide first. Where the
        contract is not known here, nobody can tell the risk: such a question stands right after the critical ones.

        Every question that waits all the while is given once. One that is asked meanwhile is given if it stands after
        the page; begin anew to see those that stand before it. Raises what `Desk.listed` raises.
        """
        wanted = members_of(ApprovalState, states)
        if wanted is None or not is_limit(limit) or limit > MOST_IN_A_PAGE:
            raise MisuseError(f"states= is a tuple of ApprovalState, limit= a whole number from 1 to {MOST_IN_A_PAGE}.")
        if after is not None and type(after) is not Mark:
            raise MisuseError("after= is the `after` of a page in this order.")
        await self._may_look(by)
        found, is_cut = await self._first(by.tenant, wanted, after, limit + 1)
        rows = found[:limit]
        views = await self._views.listed([each.approval for each in rows], by, await self._store.now())
        return UrgentPage(rows=views, after=rows[-1].mark if len(found) > limit else None, is_cut=is_cut)

    async def _first(
        self, tenant: str, states: tuple[ApprovalState, ...], after: Mark | None, count: int
    ) -> tuple[list[_Placed], bool]:
        """So many of those that stand after the mark and hold; and whether some were not looked at."""
        first: list[_Placed] = []
        mark: Mark | None = None
        looked_at = 0
        while looked_at < MOST_LOOKED_THROUGH:
            wanted = min(_AT_ONCE, MOST_LOOKED_THROUGH - looked_at)
            found = await self._store.approvals_after(tenant, mark, states=states, limit=wanted)
            first = list(islice(merge(first, await self._sound(tenant, found, after, count), key=_place), count))
            looked_at += len(found)
            if len(found) < wanted:
                return first, False
            last = self._further(found)
            if mark is not None and last.place >= mark.place:
                break  # nothing but rows that somebody altered: there is no going on from them
            mark = last
        return first, bool(await self._store.approvals_after(tenant, mark, states=states, limit=1))

    async def _sound(self, tenant: str, found: tuple[Approval, ...], after: Mark | None, count: int) -> list[_Placed]:
        """In order, and no more looked into than are wanted: what holds is a matter of cryptography."""
        placed = sorted((self._placed(each) for each in found), key=_place)
        sound: list[_Placed] = []
        for number, each in enumerate(placed, start=1):
            if number % _SOUND_A_TURN == 0:
                await one_turn()
            if len(sound) == count:
                break
            if after is not None and each.place <= urgency(after):
                continue
            if each.approval.question.tenant == tenant and verify(each.approval, self._keys) is None:
                sound.append(each)
        return sound

    def _further(self, found: tuple[Approval, ...]) -> Mark:
        """Where to look on: after the last row that holds, since one that was altered may stand anywhere."""
        sound = next((each for each in reversed(found) if verify(each, self._keys) is None), found[-1])
        return mark_of_approval(sound)

    def _placed(self, approval: Approval) -> _Placed:
        contract = self._views.contract_of(approval.question)
        return _Placed(
            mark=mark_of_urgency(approval, contract.risk if contract is not None else None), approval=approval
        )


def _place(placed: _Placed) -> tuple[int, datetime, str]:
    return placed.place
