"""`GET /v1/approvals/events`: what waits for a person, as it changes, over server-sent events.

    snapshot   everything that waits now; first, and again after a reconnect that missed something
    changed    one approval is new or is not as it was; its id is in the snapshot before or it is new
    gone       one waits no more

Every event's id names what waits as of then, so a reader that reconnects with `Last-Event-ID` is spared the snapshot
only if nothing changed meanwhile: nothing is lost, however long it was away. Nothing is queued for a slow reader: the
next look is taken when it has taken the last one, and one that takes nothing for too long is let go.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from placet.engine.desk import ApprovalView
from placet.errors import SignInRefused
from placet.http_api import describing
from placet.http_api.approvals import tag_of
from placet.http_api.door import Door, door_of, refuse_repeated, require_still, signed_in
from placet.http_api.waiting import has_gone
from placet.model.approval import ApprovalState
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.waking import approvals_topic
from placet.ports.wakeups import Wakeup, pause
from placet.rules.documents import document_of

router = APIRouter(tags=["approvals"])
SignedIn = Annotated[Principal, Depends(signed_in)]
MEDIA_TYPE = "text/event-stream"
_HEARTBEAT = b": still here\n\n"
_MOST_WATCHED = 500
Waiting = dict[str, ApprovalView]


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
    """For people; the newest 500 that wait. Decides nothing."""
    door = door_of(request)
    refuse_repeated(request)
    opened = AsyncExitStack()
    opened.enter_context(door.waiting.place_of(principal))
    try:
        first = await _waiting(door, principal)
    except BaseException:
        await opened.aclose()
        raise
    stream = _Watch(door, request, principal, last_id=request.headers.get("last-event-id", ""))
    return _Stream(door, opened, stream.events(first))


class _Watch:
    """One reader."""

    def __init__(self, door: Door, request: Request, principal: Principal, *, last_id: str) -> None:
        self._door = door
        self._request = request
        self._principal = principal
        self._last_id = last_id

    async def events(self, first: Waiting) -> AsyncIterator[bytes]:
        gone = asyncio.ensure_future(has_gone(self._request))
        ending = asyncio.ensure_future(self._door.ending.wait())
        try:
            with self._door.gate.store.waiting_for(approvals_topic(self._principal.tenant)) as wakeup:
                before = first
                if _id_of(first) != self._last_id:
                    yield _event("snapshot", {"approvals": [document_of(view) for view in first.values()]}, first)
                quiet_since = self._door.clock.monotonic()
                while not (gone.done() or ending.done()):
                    await self._rest(wakeup, gone, ending)
                    if not await self._is_let_in():
                        return
                    now = await _waiting(self._door, self._principal)
                    for event in _changes(before, now):
                        yield event
                        quiet_since = self._door.clock.monotonic()
                    before = now
                    if self._door.clock.monotonic() - quiet_since >= self._door.settings.heartbeat_seconds:
                        yield _HEARTBEAT
                        quiet_since = self._door.clock.monotonic()
        finally:
            gone.cancel()
            ending.cancel()

    async def _is_let_in(self) -> bool:
        """A stream is not good for longer than what it was opened with."""
        try:
            await require_still(self._request, self._principal)
        except SignInRefused:
            return False
        return True

    async def _rest(self, wakeup: Wakeup, *over: asyncio.Future[Any]) -> None:
        settings = self._door.settings
        pausing = asyncio.ensure_future(pause(wakeup, seconds=settings.poll_seconds, clock=self._door.clock))
        try:
            await asyncio.wait((pausing, *over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pausing.cancel()


class _Stream(Response):
    """Sends what comes, and lets go of a reader that does not take it."""

    media_type = MEDIA_TYPE

    def __init__(self, door: Door, opened: AsyncExitStack, events: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._seconds = door.settings.slow_reader_seconds
        self._opened = opened
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opened:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async for event in self._events:
                    async with asyncio.timeout(self._seconds):
                        await send({"type": "http.response.body", "body": event, "more_body": True})
            except TimeoutError:
                return  # without an end, so that the server closes what nobody reads
            finally:
                await self._events.aclose()  # type: ignore[attr-defined]
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _waiting(door: Door, by: Principal) -> Waiting:
    views = await door.gate.desk.listed(by=by, states=(ApprovalState.PENDING,), limit=_MOST_WATCHED)
    return {view.approval_id: view for view in views if view.state is ApprovalState.PENDING}


def _changes(before: Waiting, now: Waiting) -> list[bytes]:
    changed = [view for approval_id, view in now.items() if before.get(approval_id) != view]
    events: list[tuple[str, JsonObject]] = [("changed", {"approval": document_of(view)}) for view in changed[::-1]]
    events += [("gone", {"approval_id": approval_id}) for approval_id in before if approval_id not in now]
    return [_event(name, data, now) for name, data in events]


def _event(name: str, data: JsonObject, waiting: Waiting) -> bytes:
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return f"event: {name}\nid: {_id_of(waiting)}\ndata: {text}\n\n".encode()


def _id_of(waiting: Waiting) -> str:
    """What waits, as one word: the same for two looks exactly if they saw the same."""
    seen = "\n".join(sorted(f"{approval_id} {tag_of(view)}" for approval_id, view in waiting.items()))
    return hashlib.sha256(seen.encode()).hexdigest()[:32]
