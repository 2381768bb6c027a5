"""Runs as one person looks at them: of the store here, or of a server. What is shown of both is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from placet.cli.project import Place, is_text, open_project, person, require_store
from placet.cli.remote import there
from placet.cli.session import Session
from placet.cli.settings import Settings
from placet.engine.run_views import RunDetails, RunView
from placet.engine.runs import RunReport
from placet.errors import NotFound
from placet.model.listing import Mark, Page
from placet.model.principal import Principal
from placet.model.run import LeftOpen, RunStatus

if TYPE_CHECKING:
    from placet.client import AsyncClient
    from placet.engine.gate import Gate


Verb = Literal["pause", "resume", "cancel"]
_SMALLEST_PAGE: Final = 100
_MOST_PAGES: Final = 50
"""Where few of very many are looked for: a page looks at up to twenty times the rows that it has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Runs of a list. `is_all`: whether as many were found as were asked for, or all there are."""

    runs: tuple[RunView, ...]
    is_all: bool = True


class RunList(Protocol):
    """What a person may ask about runs. Everything raises what `Runs` of the library raises; a server's, what its
    client raises as well.
    """

    async def listed(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed: ...

    async def own(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed: ...

    async def show(self, run_id: str, calls: int) -> RunDetails: ...

    async def change(self, verb: Verb, run_id: str, reason: str) -> RunReport: ...


def runs_of(session: Session) -> Place[RunList]:
    """Where the command line asks; what it lacks is told in the order of what is looked at first."""
    if session.server is not None:
        return partial(there, session.server, _RunsThere)
    require_store(session.settings)
    return partial(_here, session.settings, person(session.settings))


@asynccontextmanager
async def _here(settings: Settings, by: Principal) -> AsyncIterator[RunList]:
    async with open_project(settings, ()) as gate:
        yield _RunsHere(gate, by)


class _RunsHere:
    def __init__(self, gate: Gate, by: Principal) -> None:
        self._runs = gate.runs
        self._by = by

    async def listed(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed:
        return await first_of(partial(self._runs.page, by=self._by, left=left, status=status), limit)

    async def own(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed:
        return await first_of(partial(self._runs.own_page, by=self._by, left=left, status=status), limit)

    async def show(self, run_id: str, calls: int) -> RunDetails:
        return await self._runs.show(run_id, by=self._by, limit=calls)

    async def change(self, verb: Verb, run_id: str, reason: str) -> RunReport:
        verbs = {"pause": self._runs.pause, "resume": self._runs.resume, "cancel": self._runs.cancel}
        return await verbs[verb](run_id, by=self._by, reason=reason)


async def first_of(page: Callable[..., Awaitable[Page[RunView]]], limit: int) -> Listed:
    """So many, page after page: one in which few were of the kind goes on, up to a bound."""
    found: list[RunView] = []
    after: Mark | None = None
    for _ in range(_MOST_PAGES):
        read = await page(limit=max(limit - len(found), _SMALLEST_PAGE), after=after)
        found.extend(read.rows)
        after = read.after
        if after is None or len(found) >= limit:
            return Listed(runs=tuple(found[:limit]))
    return Listed(runs=tuple(found), is_all=False)


class _RunsThere:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def listed(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed:
        return Listed(runs=await self._client.runs(left=left, status=status, limit=limit))

    async def own(self, left: LeftOpen | None, status: RunStatus | None, limit: int) -> Listed:
        return Listed(runs=await self._client.own_runs(left=left, status=status, limit=limit))

    async def show(self, run_id: str, calls: int) -> RunDetails:
        if not run_id or not is_text(run_id):
            raise NotFound("There is no such run in your tenant.")
        return await self._client.run(run_id, calls=calls)

    async def change(self, verb: Verb, run_id: str, reason: str) -> RunReport:
        if not run_id or not is_text(run_id):
            raise NotFound("There is no such run in your tenant.")
        verbs = {"pause": self._client.pause_run, "resume": self._client.resume_run, "cancel": self._client.cancel_run}
        return await verbs[verb](run_id, reason=reason)
