"""`/v1/audit`: the events of one's tenant, an export of them, and whether the whole audit holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.http_api import describing
from placet.http_api.door import door_of, is_still, refuse_repeated, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.streams import CutShort, Stream
from placet.http_api.waiting import has_gone
from placet.model.audit import ChainedEvent, EventKind
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.rules.audit import shown_body_of

router = APIRouter(tags=["audit"])
SignedIn = Annotated[Principal, Depends(signed_in)]
LINES = "application/jsonl"
_PIECE_BYTES = 65_536
_MOST_PROBLEMS = 20
_REPORT: JsonObject = {
    "type": "object",
    "properties": {
        "holds": {"type": "boolean"},
        "problems": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["holds", "problems"],
}
_WORD = Query(min_length=1, max_length=128)


@router.get(
    "/v1/audit",
    operation_id="listEvents",
    summary="Events of your tenant, the newest first",
    responses={
        **describing.problems(400, 403, 422),
        200: describing.answer("A page of them.", describing.listed("events", "Event")),
    },
)
async def list_events(
    request: Request,
    principal: SignedIn,
    kind: Annotated[list[EventKind] | None, Query(description="All if absent; repeatable.")] = None,
    run: Annotated[str | None, _WORD] = None,
    tool: Annotated[str | None, _WORD] = None,
    limit: LIMIT = 100,
    cursor: CURSOR = None,
) -> Response:
    """Needs the scope `audit.read`. A page of what is rare may be short, or empty, and go on all the same."""
    door = door_of(request)
    refuse_repeated(request, many=frozenset({"kind"}))
    kinds = tuple(sorted(set(kind or EventKind)))
    of: JsonObject = {"list": "audit", "kinds": [each.value for each in kinds], "run": run, "tool": tool}
    after = await mark_of(door, cursor, of=of, by=principal)
    page = await door.gate.auditor.page(by=principal, kinds=kinds, run_id=run, tool=tool, limit=limit, after=after)
    return json_response(
        {"events": [_document(event) for event in page.rows], "next": await cursor_of(door, page, of=of, by=principal)}
    )


def _document(event: ChainedEvent) -> JsonObject:
    place: JsonObject = {"writer": event.writer, "sequence": event.sequence}
    return {**place, **(shown_body_of(event) or {"unreadable": True})}


@router.get(
    "/v1/audit/export",
    operation_id="exportAudit",
    summary="Your tenant's part of the audit, as lines that can be checked away from the store",
    responses={
        **describing.problems(400, 403, 409),
        200: {"description": "The export; `placet audit verify --export` checks it.", "content": {LINES: {}}},
    },
)
async def export_audit(request: Request, principal: SignedIn) -> Response:
    """Needs the scope `audit.read`. An audit that does not hold ends in the middle, without the line that closes it; so
    does one whose reader takes nothing for too long. It takes one of the places of those who wait."""
    door = door_of(request)
    refuse_repeated(request)
    opened = AsyncExitStack()
    opened.enter_context(door.waiting.place_of(principal))
    try:
        lines = await opened.enter_async_context(door.gate.auditor.export(by=principal))
        first = await anext(lines)
    except BaseException:
        await opened.aclose()
        raise
    return Stream(door, opened, _pieces(request, principal, first, lines), media_type=LINES)


async def _pieces(
    request: Request, principal: Principal, first: bytes, lines: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """Some hundred lines at a time, for as long as somebody who is let in is there to take them.

    Raises:
        CutShort: nobody is, or this process ends.
    """
    gone, ending = asyncio.ensure_future(has_gone(request)), door_of(request).ending
    try:
        piece = bytearray(first)
        async for line in lines:
            piece += line
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
                if gone.done() or ending.is_set() or not await is_still(request, principal):
                    raise CutShort
        yield bytes(piece)
    finally:
        gone.cancel()


@router.post(
    "/v1/audit/verify",
    operation_id="verifyAudit",
    summary="Hold the whole audit against its chains",
    responses={
        **describing.problems(403),
        200: describing.answer("Whether it holds.", _REPORT),
    },
)
async def verify_audit(request: Request, principal: SignedIn) -> Response:
    """Needs the scope `audit.read`. Reads everything, so one at a time; others are told to come back."""
    report = await door_of(request).gate.auditor.verify(by=principal)
    counts = Counter(each.problem for each in report.breaks)
    problems = [f"{problem}: {count}" for problem, count in counts.most_common(_MOST_PROBLEMS)]
    return json_response({"holds": report.holds, "problems": list(problems)})
