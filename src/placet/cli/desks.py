"""The approval desk as one person asks it: of the store here, or of a server. What is shown of both is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from placet.cli.project import Place, is_text, open_project, person, require_store, tools_if_loadable
from placet.cli.proposing import text_of
from placet.cli.remote import required_id, there, told_at, whole_digest
from placet.cli.seen import Seen
from placet.cli.session import Session
from placet.cli.settings import Settings
from placet.cli.several import Answered, answered
from placet.engine.approval_views import standing_of
from placet.engine.desk import ApprovalView
from placet.engine.pages import MOST_IN_A_PAGE
from placet.errors import DecisionRefused, NotFound
from placet.model.approval import ApprovalState, Chosen
from placet.model.listing import Mark
from placet.model.principal import Principal
from placet.model.waking import approvals_topic
from placet.ports.wakeups import Wakeup, silence

if TYPE_CHECKING:
    from placet.client import AsyncClient
    from placet.engine.gate import Gate
    from placet.rules.contracts import Tool


class Desk(Protocol):
    """What a person may ask about approvals. Everything raises what the desk of the library raises; a server's, what
    its client raises as well. A refused change says how it stands now, in `changed`.

    Attributes:
        trouble: what to say while it does not serve for a moment.
    """

    trouble: str

    async def listed(self, states: tuple[ApprovalState, ...], limit: int) -> list[Seen]: ...

    async def listed_by_risk(self, states: tuple[ApprovalState, ...], limit: int) -> tuple[list[Seen], bool]:
        """The gravest first; and whether there were more than could be looked through."""
        ...

    async def show(self, approval_id: str) -> Seen: ...

    async def approve_several(self, chosen: Sequence[Chosen], reason: str) -> list[Answered]:
        """What became of each. Raises where they are not alike, and decides nothing then."""
        ...

    async def approve(self, approval_id: str, digest: str, reason: str) -> Seen: ...

    async def deny(self, approval_id: str, reason: str) -> Seen:
        """A refusal needs no look at the arguments: it is about this question, whatever is in it."""
        ...

    async def edit(self, approval_id: str, digest: str, arguments: str | bytes) -> Seen: ...

    async def withdraw(self, approval_id: str) -> Seen: ...

    async def withdraw_vote(self, approval_id: str) -> Seen: ...

    def woken(self) -> AbstractContextManager[Wakeup]:
        """A hint that something changed, for whoever looks again and again."""
        ...


def desk_of(session: Session) -> Place[Desk]:
    """The desk that the command line names; what it lacks is told in the order of what is looked at first."""
    if session.server is not None:
        return partial(there, session.server, _DeskThere)
    require_store(session.settings)
    by = person(session.settings)
    return partial(_here, session.settings, by, tools_if_loadable(session))


@asynccontextmanager
async def _here(settings: Settings, by: Principal, tools: Collection[Tool]) -> AsyncIterator[Desk]:
    async with open_project(settings, tools) as gate:
        yield _DeskHere(gate, by)


class _DeskHere:
    trouble = "the store does not serve; looking again"

    def __init__(self, gate: Gate, by: Principal) -> None:
        self._gate = gate
        self._by = by

    async def listed(self, states: tuple[ApprovalState, ...], limit: int) -> list[Seen]:
        views = await self._gate.desk.listed(by=self._by, states=states, limit=limit)
        now = await self._gate.store.now()
        return [Seen(view=view, now=now) for view in views]

    async def listed_by_risk(self, states: tuple[ApprovalState, ...], limit: int) -> tuple[list[Seen], bool]:
        triage, found, is_cut = self._gate.desk.triage, list[ApprovalView](), False
        after: Mark | None = None
        while len(found) < limit:
            size = min(limit - len(found), MOST_IN_A_PAGE)
            page = await triage.page(by=self._by, states=states, limit=size, after=after)
            found += page.rows
            after, is_cut = page.after, is_cut or page.is_cut
            if after is None:
                break
        now = await self._gate.store.now()
        return [Seen(view=view, now=now) for view in found], is_cut

    async def approve_several(self, chosen: Sequence[Chosen], reason: str) -> list[Answered]:
        answers = await self._gate.desk.several.approve(tuple(chosen), by=self._by, reason=reason)
        now = await self._gate.store.now()
        return [answered(each, now=now) for each in answers]

    async def show(self, approval_id: str) -> Seen:
        return await self._seen(self._gate.desk.show(_as_id(approval_id), by=self._by))

    async def approve(self, approval_id: str, digest: str, reason: str) -> Seen:
        change = self._gate.desk.approve(_as_id(approval_id), digest=digest, by=self._by, reason=reason)
        return await self._changed(approval_id, change)

    async def deny(self, approval_id: str, reason: str) -> Seen:
        asked = await self._gate.desk.show(_as_id(approval_id), by=self._by)
        change = self._gate.desk.deny(asked.approval_id, digest=asked.digest, by=self._by, reason=reason)
        return await self._changed(approval_id, change)

    async def edit(self, approval_id: str, digest: str, arguments: str | bytes) -> Seen:
        change = self._gate.desk.edit(_as_id(approval_id), digest=digest, arguments=arguments, by=self._by)
        return await self._changed(approval_id, change)

    async def withdraw(self, approval_id: str) -> Seen:
        return await self._changed(approval_id, self._gate.desk.withdraw(_as_id(approval_id), by=self._by))

    async def withdraw_vote(self, approval_id: str) -> Seen:
        return await self._changed(approval_id, self._gate.desk.withdraw_vote(_as_id(approval_id), by=self._by))

    def woken(self) -> AbstractContextManager[Wakeup]:
        return self._gate.store.waiting_for(approvals_topic(self._by.tenant))

    async def _changed(self, approval_id: str, change: Awaitable[ApprovalView]) -> Seen:
        try:
            return await self._seen(change)
        except DecisionRefused as refused:
            refusal = refused
        with suppress(DecisionRefused, NotFound):
            refusal.changed = standing_of(await self._gate.desk.show(_as_id(approval_id), by=self._by))
        raise refusal

    async def _seen(self, look: Awaitable[ApprovalView]) -> Seen:
        return Seen(view=await look, now=await self._gate.store.now())


class _DeskThere:
    trouble = "the server does not answer; looking again"

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def listed(self, states: tuple[ApprovalState, ...], limit: int) -> list[Seen]:
        views = await self._client.approvals(states=states, limit=limit)
        return [Seen(view=view, now=told_at(self._client)) for view in views]

    async def listed_by_risk(self, states: tuple[ApprovalState, ...], limit: int) -> tuple[list[Seen], bool]:
        urgent = await self._client.approvals_by_risk(states=states, limit=limit)
        return [Seen(view=view, now=told_at(self._client)) for view in urgent.approvals], urgent.is_cut

    async def approve_several(self, chosen: Sequence[Chosen], reason: str) -> list[Answered]:
        answers = await self._client.approve_several(chosen, reason=reason)
        return [answered(each, now=told_at(self._client)) for each in answers]

    async def show(self, approval_id: str) -> Seen:
        return await self._seen(self._client.approval(required_id(approval_id, "approval")))

    async def approve(self, approval_id: str, digest: str, reason: str) -> Seen:
        change = self._client.approve(required_id(approval_id, "approval"), digest=whole_digest(digest), reason=reason)
        return await self._seen(change)

    async def deny(self, approval_id: str, reason: str) -> Seen:
        from placet.client import AnswerUnreadable

        asked = (await self.show(approval_id)).view
        if not asked.digest.isascii():
            raise AnswerUnreadable(only_looked=True)
        return await self._seen(self._client.deny(approval_id, digest=asked.digest, reason=reason))

    async def edit(self, approval_id: str, digest: str, arguments: str | bytes) -> Seen:
        said = text_of(arguments)
        return await self._seen(
            self._client.edit(required_id(approval_id, "approval"), digest=whole_digest(digest), arguments=said)
        )

    async def withdraw(self, approval_id: str) -> Seen:
        return await self._seen(self._client.withdraw(required_id(approval_id, "approval")))

    async def withdraw_vote(self, approval_id: str) -> Seen:
        return await self._seen(self._client.withdraw_vote(required_id(approval_id, "approval")))

    def woken(self) -> AbstractContextManager[Wakeup]:
        return silence()

    async def _seen(self, look: Awaitable[ApprovalView]) -> Seen:
        return Seen(view=await look, now=told_at(self._client))


def _as_id(said: str) -> str:
    """What was typed, if it can be an id at all; bytes that are no text are the id of nothing."""
    return said if is_text(said) else ""
