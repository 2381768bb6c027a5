"""`GET /v1/approvals/events`: what waits for a person, as it changes, over server-sent events.

    snapshot   everything that waits now; first, and again after a reconnect that missed something
    changed    one approval is new or is not as it was; its id is in the snapshot before or it is new
    gone       one waits no more: it was looked for, or its time is over

Where more wait than are watched, those that were told and are not among the newest any more are looked up one by one, a
few at each look; until then nothing is said of them.

Every event's id names what its reader knows once it has taken it. So a reader that reconnects with `Last-Event-ID` is
spared the snapshot only if that is what waits now: nothing is lost, wherever it broke off and however long it was away.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from placet.engine.desk import ApprovalView
from placet.http_api import describing
from placet.http_api.door import Door, door_of, is_still, refuse_repeated, signed_in
from placet.http_api.lookout import MOST_WATCHED
from placet.http_api.streams import Stream
from placet.http_api.waiting import has_gone
from placet.model.approval import ApprovalState
from placet.model.identifiers import ApprovalId
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.waking import approvals_topic
from placet.model.watching import Glance
from placet.ports.wakeups import Wakeup
from placet.rules.documents import document_of

router = APIRouter(tags=["approvals"])
SignedIn = Annotated[Principal, Depends(signed_in)]
MEDIA_TYPE = "text/event-stream"
_HEARTBEAT = b": still here\n\n"
_LOOKED_UP = 50
"""Those that one look asks after one by one, at most."""


@router.get(
    "/v1/approvals/events",
    operation_id="watchApprovals",
    summary="What waits, as it changes",
    responses={
        **describing.problems(400, 403),
        200: {"description": "Events, until either end goes.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
    },
)
async def watch(request: Request, principal: SignedIn) -> Response:
    """For people; begins with the newest 500 that wait. Decides nothing."""
    door = door_of(request)
    refuse_repeated(request)
    opened = AsyncExitStack()
    opened.enter_context(door.waiting.place_of(principal))
    try:
        reader = _Reader(door, request, principal)
        views = await reader.first()
    except BaseException:
        await opened.aclose()
        raise
    events = reader.events(views, last_id=request.headers.get("last-event-id", ""))
    return Stream(door, opened, events, media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a reader was told of one approval.

    Attributes:
        digest: of all of it.
    """

    decide_by: datetime
    digest: str


class _Reader:
    """One reader, and what it knows."""

    def __init__(self, door: Door, request: Request, principal: Principal) -> None:
        self._door = door
        self._request = request
        self._principal = principal
        self._looks = door.lookout.over(principal.tenant)
        self._watching = door.gate.desk.watching
        self._seen: dict[ApprovalId, str] = {}
        self._told: dict[ApprovalId, _Told] = {}

    async def first(self) -> tuple[ApprovalView, ...]:
        """What waits, with the look that it is compared with from then on."""
        self._see(await self._watching.glance(by=self._principal, limit=MOST_WATCHED))
        pending = (ApprovalState.PENDING,)
        views = await self._door.gate.desk.listed(by=self._principal, states=pending, limit=MOST_WATCHED)
        return tuple(view for view in views if view.state is ApprovalState.PENDING)

    async def events(self, views: tuple[ApprovalView, ...], *, last_id: str) -> AsyncGenerator[bytes, None]:
        clock = self._door.clock
        gone = asyncio.ensure_future(has_gone(self._request))
        ending = asyncio.ensure_future(self._door.ending.wait())
        try:
            with self._door.gate.store.waiting_for(approvals_topic(self._principal.tenant)) as wakeup:
                self._told = {view.approval_id: _told(view) for view in views}
                if self._id() != last_id:
                    yield self._event("snapshot", {"approvals": [document_of(view) for view in views]})
                quiet_since = clock.monotonic()
                while not (gone.done() or ending.done()):
                    begun_after = await self._rest(wakeup, gone, ending)
                    if not await is_still(self._request, self._principal):
                        return  # a stream is not good for longer than what it was opened with
                    for event in await self._news(begun_after):
                        yield event
                        quiet_since = clock.monotonic()
                    if clock.monotonic() - quiet_since >= self._door.settings.heartbeat_seconds:
                        yield _HEARTBEAT
                        quiet_since = clock.monotonic()
        finally:
            gone.cancel()
            ending.cancel()

    async def _rest(self, wakeup: Wakeup, *over: asyncio.Future[Any]) -> float:
        """Until there is reason to look; after which instant the look must have begun, where a younger one is there."""
        clock, seconds = self._door.clock, self._door.settings.poll_seconds
        woken = asyncio.ensure_future(wakeup.wait())
        resting = asyncio.ensure_future(clock.sleep(seconds))
        try:
            await asyncio.wait((woken, resting, *over), return_when=asyncio.FIRST_COMPLETED)
            return clock.monotonic() if woken.done() else clock.monotonic() - seconds / 2
        finally:
            woken.cancel()
            resting.cancel()

    def _see(self, glance: Glance) -> list[ApprovalId]:
        """What of it is new or not as it was, the oldest first."""
        before, self._seen = self._seen, {mark.approval_id: mark.version for mark in glance.marks}
        return [name for name, version in self._seen.items() if before.get(name) != version][::-1]

    async def _news(self, begun_after: float) -> list[bytes]:
        glance = await self._looks.glance(by=self._principal, begun_after=begun_after)
        asked = [*self._see(glance), *self._beyond(glance)]
        views = await self._watching.views(asked, by=self._principal) if asked else ()
        absent = set(asked) - {view.approval_id for view in views}
        if not _is_cut(glance):
            absent |= self._told.keys() - self._seen.keys()
        changed = [view for view in views if self._told.get(view.approval_id) != _told(view)]
        gone = [name for name, told in self._told.items() if name in absent or told.decide_by <= glance.now]
        return [*map(self._changed, changed), *map(self._gone, gone)]

    def _beyond(self, glance: Glance) -> list[ApprovalId]:
        """Of what was told and is not among the newest any more, those that were not looked up for the longest."""
        if not _is_cut(glance):
            return []
        beyond = [name for name in self._told if name not in self._seen][:_LOOKED_UP]
        for name in beyond:
            self._told[name] = self._told.pop(name)  # to the end, so that every one has its turn
        return beyond

    def _changed(self, view: ApprovalView) -> bytes:
        self._told[view.approval_id] = _told(view)
        return self._event("changed", {"approval": document_of(view)})

    def _gone(self, name: ApprovalId) -> bytes:
        del self._told[name]
        return self._event("gone", {"approval_id": name})

    def _event(self, name: str, data: JsonObject) -> bytes:
        return f"event: {name}\nid: {self._id()}\ndata: {_json(data)}\n\n".encode()

    def _id(self) -> str:
        """What the reader knows, as one word: the same for two readers exactly if they know the same."""
        known = "\n".join(sorted(f"{name} {told.digest}" for name, told in self._told.items()))
        return hashlib.sha256(known.encode()).hexdigest()[:32]


def _is_cut(glance: Glance) -> bool:
    """Whether more may wait than it shows."""
    return len(glance.marks) >= MOST_WATCHED


def _told(view: ApprovalView) -> _Told:
    return _Told(decide_by=view.decide_by, digest=hashlib.sha256(_json(document_of(view)).encode()).hexdigest())


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"))
