"""`POST /v1/proposals`: one proposal, or one model turn, through the gate; and where a question of one's own stands."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from placet.engine.questions import QuestionView
from placet.http_api import describing
from placet.http_api.bodies import member_refused, read_document, text_member
from placet.http_api.door import (
    Door,
    door_of,
    idempotency_key,
    preferred_wait,
    request_id_of,
    require_still,
    signed_in,
)
from placet.http_api.outcomes import document_of, json_response, outcome_response, status_of
from placet.http_api.problems import RequestMalformed, TooManyWaiting
from placet.http_api.tagged import tagged
from placet.model.approval import ApprovalState
from placet.model.json import JsonValue
from placet.model.outcome import AwaitingApproval, Invalid, Outcome
from placet.model.principal import Principal, is_identity
from placet.model.waking import approvals_topic

router = APIRouter(tags=["proposals"])
SignedIn = Annotated[Principal, Depends(signed_in)]

_OF_PROPOSAL = frozenset({"tool", "arguments", "call_id", "version", "attempt"})
_MEMBERS = _OF_PROPOSAL | {"run"}
_OF_BATCH = frozenset({"run", "proposals", "stop_on_failure"})
_MOST_NAME = 128
_KEY_HEADER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Names the operation where its contract does not: asking twice under it is asking once. A quoted "
    "string, or a bare word. Needed where there is no `call_id`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 130, "pattern": r'^"[A-Za-z0-9._:-]{1,128}"$'},
}
_WAIT_HEADER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`: wait so many seconds for a person's answer, and go on with it.",
    "schema": {"type": "string"},
}
_LATER = {"Location": "Where to look.", "Retry-After": "Seconds."}


@router.post(
    "/v1/proposals",
    operation_id="propose",
    summary="Put one proposal through the gate",
    responses={
        **describing.problems(400, 408, 413, 415),
        **describing.outcomes(200, 403, 409, 422, 424, 429, 502, 503, 504),
        202: describing.answer("Not over yet.", describing.named("Outcome"), headers=_LATER),
    },
    openapi_extra={
        **describing.body(describing.in_a_run(describing.PROPOSAL)),
        "parameters": [_KEY_HEADER, _WAIT_HEADER],
    },
)
async def propose(request: Request, principal: SignedIn) -> Response:
    """The body of the answer is the outcome, whatever its status. A repeat under the same names never acts twice."""
    door = door_of(request)
    key = idempotency_key(request)
    patience = preferred_wait(request, door.settings)
    document = await read_document(
        request, door.settings, members=_MEMBERS, wide={("arguments", *path) for path in door.wide_fields}
    )
    run = _run(document)
    proposal = _named({name: value for name, value in document.items() if name != "run"}, key)
    outcome, waited = await _submitted(
        door, request, proposal, principal=principal, run=run, key=key, patience=patience
    )
    headers = {"Preference-Applied": f"wait={int(waited)}"} if waited else {}
    return outcome_response(outcome, run=run, headers=headers)


async def _submitted(
    door: Door, request: Request, proposal: object, *, principal: Principal, run: str, key: str | None, patience: float
) -> tuple[Outcome, float]:
    """The outcome, where a person is waited for that of asking again once there is an answer; and the patience that
    there was room for. What is asked for without a place to wait in is on record all the same, under a name."""
    end = door.clock.monotonic() + patience

    async def submit() -> Outcome:
        return await door.gate.submit(
            proposal, principal=principal, run=run, request_id=request_id_of(request), idempotency_key=key
        )

    outcome = await submit()
    while isinstance(outcome, AwaitingApproval) and (left := end - door.clock.monotonic()) > 0:
        try:
            if not await _is_answered(door, request, outcome.approval_id, principal, seconds=left):
                break
        except TooManyWaiting:
            return outcome, 0.0
        await require_still(request, principal)  # what was revoked while it waited runs nothing
        outcome = await submit()
    return outcome, patience


async def _is_answered(door: Door, request: Request, approval_id: str, by: Principal, *, seconds: float) -> bool:
    async def look() -> QuestionView:
        await require_still(request, by)
        return await door.gate.questions.show(approval_id, by=by)

    with door.waiting.place_of(by):
        seen = await door.waiting.until(
            look,
            lambda view: view.state is not ApprovalState.PENDING,
            topic=approvals_topic(by.tenant),
            seconds=seconds,
            request=request,
        )
    return seen.state is not ApprovalState.PENDING


@router.post(
    "/v1/proposals/batch",
    operation_id="proposeTurn",
    summary="Put all proposals of one model turn through the gate, in order",
    responses={
        **describing.problems(400, 408, 413, 415),
        200: describing.answer("One outcome each, in the order proposed.", describing.named("Outcomes")),
        422: describing.answer("The turn as a whole makes no calls; nothing ran.", describing.named("Outcomes")),
    },
    openapi_extra=describing.body(
        {
            "type": "object",
            "properties": {
                "run": describing.in_a_run(describing.PROPOSAL)["properties"]["run"],  # type: ignore[index,call-overload]
                "proposals": {
                    "type": "array",
                    "maxItems": 128,
                    "items": describing.IN_A_TURN,
                },
                "stop_on_failure": {"type": "boolean"},
            },
            "required": ["run", "proposals"],
            "additionalProperties": False,
        }
    ),
)
async def propose_turn(request: Request, principal: SignedIn) -> Response:
    """Every proposal has a `call_id`. If one of them is none, nothing of the turn runs."""
    door = door_of(request)
    if idempotency_key(request) is not None:
        raise RequestMalformed(
            "No one key can name all calls of a turn; each has its call_id.", code="idempotency_key_malformed"
        )
    wide = {("proposals", "*", "arguments", *path) for path in door.wide_fields}
    document = await read_document(request, door.settings, members=_OF_BATCH, wide=wide)
    run, batch, stops = _run(document), document.get("proposals"), document.get("stop_on_failure", False)
    if type(batch) is not list:
        raise member_refused("proposals", "a list of proposals")
    if type(stops) is not bool:
        raise member_refused("stop_on_failure", "true or false")
    submit = door.gate.submit_until_failure if stops else door.gate.submit_all
    outcomes = await submit(batch, principal=principal, run=run, request_id=request_id_of(request))
    is_rejected = any(isinstance(each, Invalid) and each.code == "protocol_rejected" for each in outcomes)
    documents: list[JsonValue] = [document_of(each, run=run) | {"http_status": status_of(each)} for each in outcomes]
    return json_response({"run": run, "outcomes": documents}, status=422 if is_rejected else 200)


@router.get(
    "/v1/proposals/{approval_id}",
    operation_id="showQuestion",
    summary="Where a question that you asked stands",
    responses={
        **describing.problems(404),
        200: describing.answer("The question.", describing.named("Question"), headers={"ETag": "Its state."}),
        304: {"description": "As it was."},
    },
    openapi_extra={"parameters": [_WAIT_HEADER]},
)
async def show_question(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """With `Prefer: wait=N` and the tag in `If-None-Match`, waits until it is not as it was."""
    questions = door_of(request).gate.questions
    return await tagged(request, principal, lambda: questions.show(approval_id, by=principal), _tag)


def _tag(view: QuestionView) -> str:
    return f'"{view.state.value}"'


def _run(document: dict[str, Any]) -> str:
    run = text_member(document, "run", most=_MOST_NAME)
    if is_identity(run):
        return run
    raise member_refused("run", "the name of the conversation or job")


def _named(proposal: dict[str, Any], key: str | None) -> dict[str, Any]:
    """The proposal with a call id. Whoever names the operation need not name the call as well: the same key then gives
    the same call, so that a repeat is a repeat in every respect.

    Raises:
        RequestMalformed: neither is there; a repeat would be another operation.
    """
    if "call_id" in proposal:
        return proposal
    if key is None:
        raise RequestMalformed(
            "Name the call: call_id in the body, or an Idempotency-Key. Without a name a repeat would act again.",
            code="idempotency_key_missing",
        )
    return {"call_id": f"k-{hashlib.sha256(key.encode()).hexdigest()[:32]}", **proposal}
