"""`/v1/audit`: the events of one's tenant, an export of them, and whether the whole audit holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from placet.http_api import describing
from placet.http_api.door import Door, door_of, refuse_repeated, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.problems import TooManyWaiting
from placet.model.audit import ChainedEvent, EventKind
from placet.model.json import JsonObject
from placet.model.principal import Principal

router = APIRouter(tags=["audit"])
SignedIn = Annotated[Principal, Depends(signed_in)]
LINES = "application/jsonl"
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
    try:
        body: Any = json.loads(event.body)
    except ValueError:
        body = None
    return {**place, **body} if type(body) is dict else {**place, "unreadable": True}


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
    """Needs the scope `audit.read`. An audit that does not hold ends in the middle, without the line that closes it."""
    door = door_of(request)
    refuse_repeated(request)
    opened = AsyncExitStack()
    lines = await opened.enter_async_context(door.gate.auditor.export(by=principal))
    try:
        first = await anext(lines)
    except BaseException:
        await opened.aclose()
        raise
    return StreamingResponse(_streamed(door, opened, first, lines), media_type=LINES)


async def _streamed(
    door: Door, opened: AsyncExitStack, first: bytes, lines: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    async with opened:
        yield first
        async for line in lines:
            if door.ending.is_set():
                return
            yield line


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
    door = door_of(request)
    if door.verifying.locked():
        raise TooManyWaiting("The audit is being verified already.", code="audit_busy", hint="Ask again in a while.")
    async with door.verifying:
        report = await door.gate.auditor.verify(by=principal)
    counts = Counter(each.problem for each in report.breaks)
    problems = [f"{problem}: {count}" for problem, count in counts.most_common(_MOST_PROBLEMS)]
    return json_response({"holds": report.holds, "problems": list(problems)})
