"""The stop switch as one person asks it: of the store here, or of a server. What is shown of both is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from placet.cli.naming import names_of_tools
from placet.cli.project import Place, ask, open_project, person, require_store
from placet.cli.remote import there
from placet.cli.session import Session
from placet.cli.settings import Settings
from placet.engine.switch import StopReport, StopView
from placet.errors import MisuseError
from placet.model.principal import Principal
from placet.model.stopping import StopScope

if TYPE_CHECKING:
    from placet.client import AsyncClient
    from placet.engine.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A scope, and the words that mean it to whoever said them."""

    scope: StopScope
    words: str
    all_tenants: bool


class Switch(Protocol):
    """What a person may ask about stops. Everything raises what the switch of the library raises; a server's, what its
    client raises as well.
    """

    async def stop(self, wanted: Wanted, reason: str) -> StopReport: ...

    async def resume(self, wanted: Wanted) -> None: ...

    async def stops(self) -> tuple[StopView, ...]: ...

    async def tool_names(self) -> frozenset[str] | None:
        """What tools are called there; None where they cannot be looked at."""
        ...


def operator(session: Session) -> Principal:
    """Who asks: the person at the keyboard, or whom the server takes them for.

    Raises:
        PlacetError: there is no store here, or nobody is listed; or what the client of a server raises.
    """
    if session.server is None:
        require_store(session.settings)
        return person(session.settings)
    from placet.client import AnswerUnreadable

    with session.server.connect() as client:
        view = client.whoami()
    with suppress(MisuseError):
        return Principal(
            subject=view.subject,
            tenant=view.tenant,
            environment=view.environment,
            scopes=frozenset(view.scopes),
            standing=view.standing,
        )
    raise AnswerUnreadable(only_looked=True)


def switch_of(session: Session, by: Principal) -> Place[Switch]:
    """The switch that the command line names."""
    if session.server is not None:
        return partial(there, session.server, _SwitchThere)
    return partial(_here, session.settings, by)


def known_tools(session: Session, by: Principal) -> frozenset[str] | None:
    """What tools are called; None where they cannot be looked at."""
    names: frozenset[str] | None = ask(switch_of(session, by), lambda switch: switch.tool_names())
    return names


@asynccontextmanager
async def _here(settings: Settings, by: Principal) -> AsyncIterator[Switch]:
    yield _SwitchHere(settings, by)


class _SwitchHere:
    def __init__(self, settings: Settings, by: Principal) -> None:
        self._settings = settings
        self._by = by

    async def stop(self, wanted: Wanted, reason: str) -> StopReport:
        async with self._open() as gate:
            return await gate.switch.stop(wanted.scope, by=self._by, reason=reason)

    async def resume(self, wanted: Wanted) -> None:
        async with self._open() as gate:
            await gate.switch.resume(wanted.scope, by=self._by)

    async def stops(self) -> tuple[StopView, ...]:
        async with self._open() as gate:
            return await gate.switch.stops(by=self._by)

    async def tool_names(self) -> frozenset[str] | None:
        return names_of_tools(self._settings)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Gate]:
        async with open_project(self._settings, ()) as gate:
            yield gate


class _SwitchThere:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def stop(self, wanted: Wanted, reason: str) -> StopReport:
        return await self._client.stop(wanted.words, reason=reason, all_tenants=wanted.all_tenants)

    async def resume(self, wanted: Wanted) -> None:
        await self._client.resume(wanted.words, all_tenants=wanted.all_tenants)

    async def stops(self) -> tuple[StopView, ...]:
        return await self._client.stops()

    async def tool_names(self) -> frozenset[str] | None:
        return frozenset(str(tool.get("name")) for tool in await self._client.tools())
