"""`/v1/runs`: how far runs have come, what is left open of them; and pausing, resuming and cancelling one."""

from __future__ import annotations

import json
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.engine.pages import MOST_IN_A_PAGE
from placet.engine.run_views import RunView
from placet.engine.runs import MAX_REASON_CHARACTERS
from placet.http_api import describing
from placet.http_api.bodies import optional_text, read_document
from placet.http_api.door import door_of, refuse_repeated, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.tagged import tagged
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.run import LeftOpen, RunStatus
from placet.rules.documents import document_of
from placet.rules.run_refs import run_id_of, run_ref

router = APIRouter(tags=["runs"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_REASON: JsonObject = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS, "pattern": r"^[^\u0000]*$"}},
    "additionalProperties": False,
}
_TAGGED = {"ETag": "Names all that is shown."}


class Whose(StrEnum):
    """Which of the runs that one may see."""

    ALL = "all"
    MINE = "mine"


@router.get(
    "/v1/runs",
    operation_id="listRuns",
    summary="Runs of your tenant that you may see, the last to be opened first",
    responses={
        **describing.problems(400, 403, 422),
        200: describing.answer("A page of them.", describing.listed("runs", "Run")),
    },
)
async def list_runs(
    request: Request,
    principal: SignedIn,
    whose: Annotated[Whose, Query(description="`mine`: your own alone, whatever else you may see.")] = Whose.ALL,
    left_open: Annotated[LeftOpen | None, Query(description="Only those of which this is left open.")] = None,
    status: Annotated[RunStatus | None, Query(description="Only those that have it.")] = None,
    limit: LIMIT = 100,
    cursor: CURSOR = None,
) -> Response:
    """One's own; all of the tenant's for people, and with `audit.read`, `effects.read` or `effects.reconcile`.

    `effects` is null where the ledger is not yours to see, and so is asking for what is `unknown` or `in_progress`.
    """
    door = door_of(request)
    refuse_repeated(request)
    of: JsonObject = {
        "list": "runs",
        "whose": whose.value,
        "left": None if left_open is None else left_open.value,
        "status": None if status is None else status.value,
    }
    after = await mark_of(door, cursor, of=of, by=principal)
    runs = door.gate.runs
    look = runs.own_page if whose is Whose.MINE else runs.page
    page = await look(by=principal, left=left_open, status=status, limit=limit, after=after)
    return json_response(
        {"runs": [_document(view) for view in page.rows], "next": await cursor_of(door, page, of=of, by=principal)}
    )


@router.get(
    "/v1/runs/{run}",
    operation_id="showRun",
    summary="One run, and what its calls came to",
    responses={
        **describing.problems(404),
        200: describing.answer("The run.", describing.named("RunDetails"), headers=_TAGGED),
        304: {"description": "As it was."},
    },
)
async def show_run(
    run: str,
    request: Request,
    principal: SignedIn,
    calls: Annotated[int, Query(ge=1, le=MOST_IN_A_PAGE, description="How many calls at most.")] = 100,
) -> Response:
    """`run` is the run's name where it is plain (letters, digits, `._:-`), otherwise its `run_ref`, as lists give it.

    Arguments and results are nowhere in it. With `Prefer: wait=N` and the tag in `If-None-Match`, waits until it is not
    as it was.
    """
    runs = door_of(request).gate.runs

    async def look() -> JsonObject:
        return _document(await runs.show(run_id_of(run), by=principal, limit=calls))

    return await tagged(request, principal, look, tag_of)


class Verb(StrEnum):
    """What may be done with a run."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


@router.post(
    "/v1/runs/{run}/{verb}",
    operation_id="changeRun",
    summary="Pause, resume or cancel a run",
    responses={
        **describing.problems(400, 403, 404, 408, 413, 415, 422),
        200: describing.answer("As it stands now.", describing.named("RunReport")),
    },
    openapi_extra=describing.body(_REASON),
)
async def change_run(run: str, verb: Verb, request: Request, principal: SignedIn) -> Response:
    """When this is answered, nothing of a run that is not open is dispatched any more; what was claimed before goes on.

    Cancelling is for good: questions are withdrawn, and approvals nobody has used revoked. One's own runs may be
    cancelled; pausing and resuming is for people, and others' runs for people with `ops.stop`.
    """
    door = door_of(request)
    refuse_repeated(request)
    document = await read_document(request, door.settings, members=frozenset({"reason"}))
    reason = optional_text(document, "reason", most=MAX_REASON_CHARACTERS)
    runs = door.gate.runs
    verbs = {Verb.PAUSE: runs.pause, Verb.RESUME: runs.resume, Verb.CANCEL: runs.cancel}
    report = await verbs[verb](run_id_of(run), by=principal, reason=reason)
    return json_response(document_of(report))  # type: ignore[arg-type]  # a report has members


def tag_of(document: JsonObject) -> str:
    """The entity tag: a digest of everything that is shown."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f'"{sha256(text.encode()).hexdigest()[:32]}"'


def _document(view: RunView) -> dict[str, Any]:
    document = document_of(view)
    assert type(document) is dict  # noqa: S101  a view has members
    return {"run_ref": run_ref(view.run_id), **document}
