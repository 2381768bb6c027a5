"""The sessions with one server: one for each tenant, or for each principal where the server remembers things.

    nobody there ── first call connects, all others wait for it ── open ── lost ── the next call connects, once for all
                          └── failed: for a while calls are told so at once, longer each time

A session is never another tenant's; one that remembers is never another principal's. Source: ADR 0046; issue of MCP
upstreams, point 3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import NotAccepted, RequestFault
from placet.adapters.transports.mcp.links import Link, MakeChannel, Terms, opened
from placet.model.upstreams import Statefulness
from placet.ports.meter import UpstreamMeter
from placet.rules.relaying import SECRET

_log = logging.getLogger("placet.upstreams")

_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_MOST_DOUBLINGS: Final = 10
_MOST_REMEMBERED: Final = 1_024
CLOSING_SECONDS: Final = 12.0
"""How long all sessions together may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose session it is.

    Attributes:
        subject: the principal's identity; None for the gate itself, which looks for effects of the tenant.
    """

    tenant: str
    subject: str | None


@dataclass(slots=True, kw_only=True)
class _Failing:
    """Connecting failed so often in a row; not again before then."""

    times: int
    until: float


class Pool:
    """Sessions with one server.

    Args:
        way: makes the channel for a tenant's session; it does not wait.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        statefulness: Statefulness,
        way: Callable[[str | None], MakeChannel],
        meter: UpstreamMeter,
    ) -> None:
        self._terms = terms
        self._statefulness = statefulness
        self._way = way
        self._meter = meter
        self._links: OrderedDict[Hashable, Link] = OrderedDict()
        self._connecting: dict[Hashable, asyncio.Task[Link]] = {}
        self._failing: OrderedDict[Hashable, _Failing] = OrderedDict()
        self._had: OrderedDict[Hashable, None] = OrderedDict()
        self._ending: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._users: Counter[Hashable] = Counter()
        self._used: Counter[str] = Counter()
        """How many sessions are used by calls, by tenant."""
        self._is_closed = False

    def note_question(self, kind: str, answer: str) -> None:
        """The server asked something, and so it was answered; words of `rules.relaying`."""
        self._meter.questioned(server=self._terms.server, kind=kind, answer=answer)
        if answer == SECRET:
            server = self._terms.server
            _log.warning("an upstream asked for a secret in a form; nobody was asked", extra={"server": server})

    def note_request(self, method: str, outcome: str) -> None:
        self._meter.requested(server=self._terms.server, method=method, outcome=outcome)

    @asynccontextmanager
    async def link(self, holder: Holder, talk: Talk) -> AsyncIterator[Link]:
        """A verified session for this holder, which stays open while the block lasts.

        Raises:
            NotAccepted: there is none, and none to be had now; nothing was sent.
        """
        key = self._key(holder, talk)
        with self._in_share(key, holder.tenant):
            link = await self._link(key, holder, talk, make_room=self._make_room)
            link.users += 1
            try:
                yield link
            finally:
                link.users -= 1
                link.used_at = self._terms.clock.monotonic()

    @asynccontextmanager
    async def listening(self, holder: Holder, talk: Talk) -> AsyncIterator[Link]:
        """The same for whoever only hears what it says. Where calls need the room, the session ends under it.

        Raises:
            NotAccepted: there is none, and none to be had without ending what somebody else uses or hears.
        """
        link = await self._link(self._key(holder, talk), holder, talk, make_room=self._find_room)
        link.listeners += 1
        try:
            yield link
        finally:
            link.listeners -= 1
            link.used_at = self._terms.clock.monotonic()

    async def close(self) -> None:
        """End every session, in bounded time."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        connecting = tuple(self._connecting.values())
        for task in connecting:
            task.cancel()
        for link in tuple(self._links.values()):
            link.session.lost()  # nobody waits for what is still under way
        if connecting:
            await asyncio.wait(connecting, timeout=CLOSING_SECONDS)  # each leaves behind what it had begun
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSING_SECONDS)

    # ------------------------------------------------------------ within

    def _key(self, holder: Holder, talk: Talk) -> Hashable:
        whose = holder.tenant if self._statefulness is Statefulness.STATELESS else holder
        return whose, talk.abilities

    @contextmanager
    def _in_share(self, key: Hashable, tenant: str) -> Iterator[None]:
        """Counts a session as one that is used by its tenant, which may use half of what others leave: however many
        principals one has, somebody of another is let in.

        Raises:
            NotAccepted: its tenant uses as many as it may.
        """
        if not self._users[key]:
            left = self._terms.bounds.max_sessions - (self._used.total() - self._used[tenant])
            if self._used[tenant] >= (left + 1) // 2:
                self._refuse("too_many_sessions")
            self._used[tenant] += 1
        self._users[key] += 1
        try:
            yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._used -= Counter((tenant,))  # none of a tenant is no entry

    async def _link(self, key: Hashable, holder: Holder, talk: Talk, *, make_room: Callable[[], None]) -> Link:
        if self._is_closed:
            raise NotAccepted("closed")
        link = self._links.get(key)
        if link is not None and link.session.is_haunted and _is_idle(link):
            self._ended(link)
            link = None
        if link is not None and not link.session.is_lost:
            self._links.move_to_end(key)
            return link
        task = self._connecting.get(key)
        if task is None:
            self._refuse_too_soon(key)
            make_room()
            task = asyncio.create_task(self._connect(key, holder, talk))
            self._connecting[key] = task
            task.add_done_callback(_taken_note_of)
        await asyncio.wait((task,))  # whoever is cancelled leaves it to those who wait for it too
        return task.result() if not task.cancelled() else self._refuse("closed")

    async def _connect(self, key: Hashable, holder: Holder, talk: Talk) -> Link:
        reason, way = "unreachable", self._way(holder.tenant)
        try:
            async with asyncio.timeout(self._terms.bounds.connect_seconds):
                link = await opened(self._terms, way, talk=talk, ended=self._ended, discard=self._end)
            self._connected(key, link)
            return link
        except NotAccepted as fault:
            reason = fault.reason
        except (TimeoutError, RequestFault, OSError, ValueError):
            pass
        finally:
            self._connecting.pop(key, None)
        self._failed(key)
        raise NotAccepted(reason)

    def _connected(self, key: Hashable, link: Link) -> None:
        self._failing.pop(key, None)
        self._links[key] = link
        self._meter.sessions(server=self._terms.server, change=+1)
        if key in self._had:
            self._meter.reinitialised(server=self._terms.server)
        self._had[key] = None
        while len(self._had) > _MOST_REMEMBERED:
            self._had.popitem(last=False)
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())

    def _failed(self, key: Hashable) -> None:
        self._left_alone(key)
        self._meter.connecting_failed(server=self._terms.server)

    def _left_alone(self, key: Hashable, *, at_least: float = 0.0) -> None:
        failing = self._failing.setdefault(key, _Failing(times=0, until=0.0))
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(failing.times, _MOST_DOUBLINGS))
        failing.times += 1
        failing.until = self._terms.clock.monotonic() + max(pause, at_least)
        while len(self._failing) > _MOST_REMEMBERED:
            self._failing.popitem(last=False)

    def _refuse_too_soon(self, key: Hashable) -> None:
        failing = self._failing.get(key)
        if failing is not None and self._terms.clock.monotonic() < failing.until:
            self._refuse("left_alone")

    def _refuse(self, reason: str) -> Link:
        raise NotAccepted(reason)

    def _make_room(self) -> None:
        """End the session that was not used for the longest time, if there are as many as may be; one that is only
        listened to if there is no other."""
        if self._has_room():
            return
        if (least := self._first(_is_idle) or self._first(_is_only_heard)) is None:
            self._refuse("too_many_sessions")
        else:
            self._end(least)

    def _find_room(self) -> None:
        """The same for whoever has to give way itself."""
        if self._has_room():
            return
        if (idle := self._first(_is_idle)) is None:
            self._refuse("too_many_sessions")
        else:
            self._end(idle)

    def _has_room(self) -> bool:
        return len(self._links) + len(self._connecting) < self._terms.bounds.max_sessions

    def _first(self, fits: Callable[[Link], bool]) -> Link | None:
        return next((link for link in self._links.values() if fits(link)), None)

    def _ended(self, link: Link) -> None:
        if link.session.has_flooded and not link.is_ending:
            self._terms.flooded()
        for key, each in tuple(self._links.items()):
            if each is link:
                del self._links[key]
                self._meter.sessions(server=self._terms.server, change=-1)
                ahead = link.seconds_ahead()
                if link.session.has_flooded or ahead:
                    self._left_alone(key, at_least=ahead)
        self._end(link)

    def _end(self, link: Link) -> None:
        """Begin to end a session; it is found by nobody any more."""
        if link.is_ending:
            return
        link.is_ending = True
        link.session.retired()
        task = asyncio.create_task(link.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _sweep(self) -> None:
        """End what nobody has used for a while, a few times in that while."""
        bounds, clock = self._terms.bounds, self._terms.clock
        while True:
            await clock.sleep(bounds.idle_seconds / 4.0)
            long_ago = clock.monotonic() - bounds.idle_seconds
            for link in tuple(self._links.values()):
                if link.used_at <= long_ago and _is_idle(link):
                    self._end(link)


def _is_idle(link: Link) -> bool:
    return _is_without_call(link) and not link.listeners


def _is_only_heard(link: Link) -> bool:
    return _is_without_call(link) and link.listeners > 0


def _is_without_call(link: Link) -> bool:
    return not link.users and not link.session.is_busy


def _taken_note_of(task: asyncio.Task[Link]) -> None:
    if not task.cancelled():
        task.exception()
