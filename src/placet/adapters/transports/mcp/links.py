"""A session whose server describes its tools as they were accepted; where it does not, nothing goes to those tools.

What was verified holds until the server says that it changed, or it has become old. While it is verified anew, calls
wait. A list that cannot be believed verifies nothing: then nothing goes out at all, and nothing accepted is forgotten.
Source: ADR 0046; CASES K04, L01.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from placet.adapters.transports.mcp.channels import Channel, Era
from placet.adapters.transports.mcp.conversing import Talk
from placet.adapters.transports.mcp.faults import (
    NOT_NOW,
    NotAccepted,
    Refused,
    RequestFault,
    SessionGone,
    StatusAnswered,
)
from placet.adapters.transports.mcp.messages import RequestId
from placet.adapters.transports.mcp.negotiating import greet, negotiate
from placet.adapters.transports.mcp.session import Session
from placet.adapters.transports.mcp.verifying import Listing, ListingBroken, listing
from placet.model.json import JsonObject
from placet.model.pins import Definition, Drift, Pin
from placet.model.upstreams import Relayed, UpstreamBounds
from placet.ports.clock import Clock
from placet.rules.pins import Comparison, compared

_log = logging.getLogger("placet.upstreams")

_ACKNOWLEDGE_SECONDS: Final = 1.0
"""How long a server may take to say that it will tell of changes, before it is asked what it has now."""
_CALM_SECONDS: Final = 5.0
"""So far ahead of its pace a server may be looked at."""
_PAUSE_SECONDS: Final = 1.0
"""Between two looks of a server that keeps saying that it has changed, or whose list cannot be believed."""
_LIST_BYTES_PER_SECOND: Final = 1_048_576.0
"""Of a list that is larger, the pause is longer: to read it takes everybody's time."""
_LARGE_LIST_BYTES: Final = 262_144
_LONGEST_PAUSE_SECONDS: Final = 60.0
_LATE_FOLDS: Final = 2.0


def _nothing(*_: object) -> None: ...


MakeChannel = Callable[[Session], Channel]


class Agree(Protocol):
    """How to agree with a server on a revision."""

    async def __call__(self, session: Session, *, talk: Talk, within_seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all links to one server have in common.

    Attributes:
        pins: what was accepted, by the server's own names.
        drifted: is told of each tool that is described otherwise, at each look.
        unbelievable: is told why a list verifies nothing.
        flooded: is told of each session that was ended because its server said too much unasked.
        discovered: is told at each look of the tools that are described and not accepted, by the server's own names.
    """

    server: str
    pins: Mapping[str, Pin] = field(repr=False)
    bounds: UpstreamBounds
    relayed: frozenset[Relayed]
    clock: Clock
    drifted: Callable[[Drift], None]
    unbelievable: Callable[[str], None]
    flooded: Callable[[], None] = _nothing
    discovered: Callable[[frozenset[str]], None] = _nothing


async def opened(
    terms: Terms,
    make_channel: MakeChannel,
    *,
    talk: Talk,
    ended: Callable[[Link], None],
    discard: Callable[[Link], None],
) -> Link:
    """A link that is open. A process that dies of a question of the newer era is begun anew and greeted the older way.

    Args:
        discard: is handed every link that could not be opened.

    Raises:
        RequestFault: as `Link.open`.
    """
    link = Link(terms, talk=talk, ended=ended)
    try:
        await link.open(make_channel)
        return link
    except RequestFault:
        discard(link)
        if not link.has_died_of_a_question():
            raise
    except BaseException:
        discard(link)
        raise
    link = Link(terms, talk=talk, ended=ended)
    try:
        await link.open(make_channel, agree=greet)
        return link
    except BaseException:
        discard(link)
        raise


class Link:
    """One session with one server, for one tenant or principal."""

    def __init__(self, terms: Terms, *, talk: Talk, ended: Callable[[Link], None]) -> None:
        self._terms = terms
        self._talk = talk
        self.session = Session(relayed=terms.relayed, changed=self._changed, ended=partial(ended, self))
        self.abilities = talk.abilities
        self.definitions: tuple[Definition, ...] = ()
        self._comparison: Comparison | None = None
        self._verifying: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._headers_of: dict[str, dict[tuple[str, ...], str]] = {}
        self._changes = 0
        self._verified_at = self._not_before = self._paced_to = 0.0
        self._listed_bytes = self._listed_in_all = 0
        self._began_at = terms.clock.monotonic()
        self._is_open = False
        self._acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.used_at = terms.clock.monotonic()
        self.users = 0
        self.listeners = 0
        self.is_ending = False

    async def open(self, make_channel: MakeChannel, *, agree: Agree = negotiate) -> None:
        """Connect, agree on a revision, and verify.

        Raises:
            RequestFault: it cannot be reached, or not be spoken with. A list that cannot be believed is no fault here.
        """
        self.session.over(make_channel(self.session))
        await agree(self.session, talk=self._talk, within_seconds=self._terms.bounds.connect_seconds)
        self.session.channel.listens(self.session.era)
        if self.session.era is Era.STATELESS and self._tells_of_changes():
            self._begin(self._subscribe())
            await asyncio.wait((self._acknowledged,), timeout=_ACKNOWLEDGE_SECONDS)
        self._is_open = True
        self._verify_anew()
        await self._verified()
        if self.session.is_lost:
            raise SessionGone
        self._begin(self._refresh())

    def has_died_of_a_question(self) -> bool:
        """Whether a process ended when it was asked what only servers of the newer era know."""
        session = self.session
        return session.is_lost and session.era is Era.STATELESS and not (self._is_open or session.channel.has_headers)

    async def ready(self) -> None:
        """Wait until what is verified is current.

        Raises:
            SessionGone: the session is lost.
            NotAccepted: the server's list cannot be believed.
        """
        while True:
            await self._verified()
            if self.session.is_lost:
                raise SessionGone
            now = self._terms.clock.monotonic()
            if self._comparison is not None and now - self._verified_at < (
                self._terms.bounds.refresh_seconds * _LATE_FOLDS
            ):
                return
            if self._comparison is None and now < self._not_before:
                raise NotAccepted("unverified")
            self._verify_anew()

    def is_current(self) -> bool:
        """Whether what is verified is so at this very moment."""
        return self._verifying is None and self._comparison is not None and not self.session.is_lost

    def is_as_accepted(self, tool: str, digest: str) -> bool:
        """Whether the server described this tool as it was accepted under this digest, when it was looked at last."""
        pin = self._terms.pins.get(tool)
        is_same = self._comparison is not None and tool in self._comparison.same
        return is_same and pin is not None and pin.digest == digest

    def seconds_ahead(self) -> float:
        """How much longer a session with lists as large as it had should have lasted; 0.0 where they were small.

        A server that ends each session has the next one listed anew: its pace is not its sessions' own.
        """
        if self._listed_in_all < _LARGE_LIST_BYTES:
            return 0.0
        lasted = self._terms.clock.monotonic() - self._began_at
        return max(0.0, self._listed_in_all / _LIST_BYTES_PER_SECOND - lasted)

    def look_again(self) -> None:
        """Verify anew before anything else is sent."""
        self._verify_anew()

    def argument_headers(self, definition: Definition, params: JsonObject) -> dict[str, str]:
        """Arguments that a server of the newer era wants to see in headers too. Source: MCP 2026-07-28, transports.

        Args:
            definition: the pinned one.
        """
        if not self._has_mirrored_headers():
            return {}
        wanted = self._headers_of.get(definition.tool)
        if wanted is None:
            from mcp.shared.inbound import x_mcp_header_map

            wanted = self._headers_of[definition.tool] = x_mcp_header_map(definition.input_schema)
        arguments = params.get("arguments")
        if not wanted or type(arguments) is not dict:
            return {}
        from mcp.shared.inbound import mcp_param_headers

        return mcp_param_headers(wanted, arguments)

    def _has_mirrored_headers(self) -> bool:
        return self.session.era is Era.STATELESS and self.session.channel.has_headers

    async def close(self) -> None:
        for task in (*self._tasks, *((self._verifying,) if self._verifying is not None else ())):
            task.cancel()
        await self.session.close()

    # ------------------------------------------------------------ verifying

    def _changed(self) -> None:
        """On the path of what comes in: nothing is done here but to say that it has to be."""
        if not self._acknowledged.done():
            self._acknowledged.set_result(None)
        if self._is_open:
            self._verify_anew()

    def _verify_anew(self) -> None:
        self._changes += 1
        if self._verifying is None and not self.session.is_lost:
            self._verifying = asyncio.create_task(self._verify())

    async def _verified(self) -> None:
        while self._verifying is not None:
            await asyncio.wait((self._verifying,))

    async def _verify(self) -> None:
        try:
            while not self.session.is_lost:
                await self._pace()
                changes = self._changes
                await self._look()
                if changes == self._changes:
                    return
        finally:
            self._verifying = None

    async def _pace(self) -> None:
        """A few looks at once are nothing; who says all the time that it has changed is looked at in measured steps."""
        ahead = self._paced_to - self._terms.clock.monotonic() - _CALM_SECONDS
        if ahead > 0.0:
            await self._terms.clock.sleep(ahead)

    async def _look(self) -> None:
        """Whatever goes wrong in it is a list that cannot be believed; what it was is not for any log."""
        terms, reason = self._terms, "no_list"
        self._comparison, self._listed_bytes = None, 0
        try:
            async with asyncio.timeout(terms.bounds.connect_seconds):
                found = await listing(terms.server, self._ask, terms.bounds)
            self.definitions, self._comparison = found.definitions, self._compared(found)
        except ListingBroken as broken:
            reason = broken.reason
        except (RequestFault, TimeoutError):
            pass
        except Exception:  # of ours; a task that ends by it would be begun anew by every call
            reason = "unreadable"
        now = terms.clock.monotonic()
        pause = max(_PAUSE_SECONDS, self._listed_bytes / _LIST_BYTES_PER_SECOND)
        self._paced_to = max(self._paced_to, now) + pause
        if self._comparison is None:
            self._not_before = now + _PAUSE_SECONDS
            if not self.session.is_lost:
                terms.unbelievable(reason)
            return
        self._verified_at = now
        for drift in self._comparison.changed:
            terms.drifted(drift)
        if self._comparison.added:
            terms.discovered(self._comparison.added)

    def _compared(self, found: Listing) -> Comparison:
        """Compared first: what cannot be called may be another description too."""
        comparison = compared(self._terms.server, self._terms.pins, found.definitions, malformed=found.malformed)
        left_alone = {each.tool for each in found.definitions if not self._can_be_called(each)}
        return replace(comparison, same=comparison.same - left_alone)

    async def _ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        result, size = await self.session.request(method, params, talk=self._talk)
        self._listed_bytes += size
        self._listed_in_all += size
        return result, size

    def _can_be_called(self, definition: Definition) -> bool:
        """A tool whose arguments have to be in headers, and cannot be, is to be left alone. Source: MCP 2026-07-28."""
        if not self._has_mirrored_headers():
            return True
        from mcp.shared.inbound import find_invalid_x_mcp_header

        return find_invalid_x_mcp_header(definition.input_schema) is None

    # ------------------------------------------------------------ hearing of changes

    def _tells_of_changes(self) -> bool:
        tools = self.session.capabilities.get("tools")
        return type(tools) is dict and tools.get("listChanged") is True

    async def _subscribe(self) -> None:
        """Have a server of the newer era tell of changes; where it breaks off, something may have been missed."""
        pause = _PAUSE_SECONDS
        while not self.session.is_lost:
            began = self._terms.clock.monotonic()
            try:
                await self.session.request(
                    "subscriptions/listen",
                    {"notifications": {"toolsListChanged": True}},
                    talk=self._talk,
                    begun=self._subscribed,
                )
            except (Refused, StatusAnswered) as fault:
                if not (isinstance(fault, StatusAnswered) and fault.status in NOT_NOW):
                    self._acknowledge()
                    return  # it does not; definitions are looked at again from time to time
            except RequestFault:
                pass
            self._acknowledge()
            if self._terms.clock.monotonic() - began > _LONGEST_PAUSE_SECONDS:
                pause = _PAUSE_SECONDS
            await self._terms.clock.sleep(pause)
            pause = min(pause * 2.0, _LONGEST_PAUSE_SECONDS)
            self._changed()

    def _subscribed(self, subscription: RequestId) -> None:
        self.session.subscription = subscription

    def _acknowledge(self) -> None:
        if not self._acknowledged.done():
            self._acknowledged.set_result(None)

    async def _refresh(self) -> None:
        while not self.session.is_lost:
            await self._terms.clock.sleep(self._terms.bounds.refresh_seconds)
            self._verify_anew()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
