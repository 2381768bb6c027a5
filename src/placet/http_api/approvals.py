"""`/v1/approvals`: what waits for a person, exactly what would run, and the answer. Nothing is decided by looking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.engine.approval_views import standing_of
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.engine.several import MOST_AT_ONCE
from placet.errors import DecisionRefused, NotFound, PlacetError
from placet.http_api import describing
from placet.http_api.bodies import choice_member, member_refused, optional_text, read_document, text_member
from placet.http_api.door import Door, door_of, refuse_repeated, require_admissions, same_tag, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.problems import HttpProblem, PreconditionFailed
from placet.http_api.tagged import tagged
from placet.model.approval import ApprovalState, Chosen
from placet.model.json import JsonObject
from placet.model.listing import Page
from placet.model.principal import Principal, Standing
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.documents import document_of

router = APIRouter(tags=["approvals"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_TAGGED = {"ETag": "Names the arguments and the state that are shown."}
_DECISION: JsonObject = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["approve", "deny"]},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS, "pattern": r"^[^\u0000]*$"},
    },
    "required": ["decision", "digest"],
    "additionalProperties": False,
}
_CHOSEN: JsonObject = {
    "type": "object",
    "properties": {
        "approval_id": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[^\u0000]+$"},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
    "required": ["approval_id", "digest"],
    "additionalProperties": False,
}
_DECISIONS: JsonObject = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["approve", "deny"]},
        "reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS, "pattern": r"^[^\u0000]*$"},
        "approvals": {
            "type": "array",
            "items": _CHOSEN,
            "minItems": 1,
            "maxItems": MOST_AT_ONCE,
            "description": "None twice; to approve them, all alike.",
        },
    },
    "required": ["decision", "approvals"],
    "additionalProperties": False,
}
_EDIT: JsonObject = {
    "type": "object",
    "properties": {
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "arguments": {"description": "All of them, as an object or its JSON text."},
    },
    "required": ["digest", "arguments"],
    "additionalProperties": False,
}
_DECIDED: JsonObject = {
    "type": "object",
    "properties": {"decisions": {"type": "array", "items": describing.named("ChosenAnswer")}},
    "required": ["decisions"],
}
_IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The tag of what was read: nothing is decided if it stands otherwise by now.",
    "schema": {"type": "string"},
}


class Sort(StrEnum):
    """newest: by when they were asked for. risk: the gravest first, of these the nearest deadline to decide."""

    NEWEST = "newest"
    RISK = "risk"


@router.get(
    "/v1/approvals",
    operation_id="listApprovals",
    summary="Approvals of your tenant, the newest first, or the gravest",
    responses={
        **describing.problems(400, 403, 422),
        200: describing.answer(
            "A page of them.", describing.listed("approvals", "Approval", is_cut={"type": "boolean"})
        ),
    },
)
async def list_approvals(
    request: Request,
    principal: SignedIn,
    state: Annotated[list[ApprovalState] | None, Query(description="`pending` if absent; repeatable.")] = None,
    sort: Annotated[Sort, Query(description="`risk`: critical first, of one risk the nearest deadline.")] = Sort.NEWEST,
    limit: LIMIT = 100,
    cursor: CURSOR = None,
) -> Response:
    """For people. Rows that do not hold are left out here; looking at one says why.

    By risk, the newest 10,000 are looked through, and `is_cut` says whether there were more.
    """
    door = door_of(request)
    refuse_repeated(request, many=frozenset({"state"}))
    states = tuple(sorted(set(state or [ApprovalState.PENDING])))
    of: JsonObject = {"list": "approvals", "states": [each.value for each in states]}
    if sort is Sort.RISK:
        of["sort"] = sort.value  # a cursor goes on in the order that it was made in, and in no other
    after = await mark_of(door, cursor, of=of, by=principal)
    desk = door.gate.desk
    more: JsonObject = {}
    if sort is Sort.RISK:
        urgent = await desk.triage.page(by=principal, states=states, limit=limit, after=after)
        page, more = Page(rows=urgent.rows, after=urgent.after), {"is_cut": urgent.is_cut}
    else:
        page = await desk.page(by=principal, states=states, limit=limit, after=after)
    return json_response(
        {
            "approvals": [document_of(view) for view in page.rows],
            "next": await cursor_of(door, page, of=of, by=principal),
            **more,
        }
    )


@router.post(
    "/v1/approvals/decisions",
    operation_id="decideSeveral",
    summary="Deny several, or approve several that are alike, each on its own digest",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 413, 415, 422, 429),
        200: describing.answer("What became of each, in their order.", _DECIDED),
    },
    openapi_extra=describing.body(_DECISIONS),
)
async def decide_several(request: Request, principal: SignedIn) -> Response:
    """For people. Each is decided, refused and recorded by itself, and counts as a request of its own; look at each
    one's `code`. Approving takes calls of one tool and version, asked about by one rule of one policy, and of no high
    risk: otherwise nothing is decided, and the problem's `code` says why. The same again answers the same.
    """
    door = door_of(request)
    document = await read_document(request, door.settings, members=frozenset({"decision", "reason", "approvals"}))
    decision = choice_member(document, "decision", ("approve", "deny"))
    reason = optional_text(document, "reason", most=MAX_REASON_CHARACTERS)
    chosen = _chosen(document.get("approvals"))
    await require_admissions(door, principal, further=len(chosen) - 1)
    several = door.gate.desk.several
    decide = several.approve if decision == "approve" else several.deny
    answers = await decide(chosen, by=principal, reason=reason)
    return json_response({"decisions": [document_of(each) for each in answers]})


def _chosen(said: object) -> tuple[Chosen, ...]:
    """Raises:
    RequestMalformed: it is no list of chosen approvals.
    """
    if type(said) is not list or not 1 <= len(said) <= MOST_AT_ONCE:
        raise member_refused("approvals", f"a list of 1 to {MOST_AT_ONCE} approvals, each with its digest")
    for each in said:
        if type(each) is not dict or each.keys() != {"approval_id", "digest"}:
            raise member_refused("approvals", "a list of objects with approval_id and digest")
    return tuple(
        Chosen(
            approval_id=text_member(each, "approval_id", most=128),
            digest=text_member(each, "digest", most=64, least=64),
        )
        for each in said
    )


@router.get(
    "/v1/approvals/{approval_id}",
    operation_id="showApproval",
    summary="Exactly what would run",
    responses={
        **describing.problems(403, 404, 409),
        200: describing.answer("The approval.", describing.named("Approval"), headers=_TAGGED),
        304: {"description": "As it was."},
    },
)
async def show_approval(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people. With `Prefer: wait=N` and the tag in `If-None-Match`, waits until it is not as it was."""
    desk = door_of(request).gate.desk
    return await tagged(request, principal, lambda: desk.show(approval_id, by=principal), tag_of)


@router.post(
    "/v1/approvals/{approval_id}/decision",
    operation_id="decide",
    summary="Approve or deny exactly the call with this digest",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 412, 413, 415, 422),
        200: describing.answer("As it stands now.", describing.named("Approval"), headers=_TAGGED),
    },
    openapi_extra={**describing.body(_DECISION), "parameters": [_IF_MATCH]},
)
async def decide(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people. The digest is what was on the screen. Approving runs nothing; the proposer's next ask does."""
    door = door_of(request)
    document = await read_document(request, door.settings, members=frozenset({"decision", "digest", "reason"}))
    decision = choice_member(document, "decision", ("approve", "deny"))
    digest = text_member(document, "digest", most=64, least=64)
    reason = optional_text(document, "reason", most=MAX_REASON_CHARACTERS)
    await _require_match(door, request, approval_id, principal)
    desk = door.gate.desk
    answer = desk.approve if decision == "approve" else desk.deny
    change = answer(approval_id, digest=digest, by=principal, reason=reason)
    return _tagged(await _changed(door, approval_id, principal, change))


@router.post(
    "/v1/approvals/{approval_id}/withdraw",
    operation_id="withdraw",
    summary="Take a question, or an approval that nobody has used, back",
    responses={
        **describing.problems(400, 403, 404, 409, 412),
        200: describing.answer("As it stands now.", describing.named("Approval"), headers=_TAGGED),
    },
    openapi_extra={"parameters": [_IF_MATCH]},
)
async def withdraw(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people: the requesting one, who decided it, or somebody entitled to decide."""
    return await _taken_back(request, approval_id, principal, door_of(request).gate.desk.withdraw)


@router.post(
    "/v1/approvals/{approval_id}/edit",
    operation_id="edit",
    summary="Make another question of one that waits, with other arguments",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 412, 413, 415, 422),
        201: describing.answer(
            "The new question.", describing.named("Approval"), headers={**_TAGGED, "Location": "The new question."}
        ),
    },
    openapi_extra={**describing.body(_EDIT), "parameters": [_IF_MATCH]},
)
async def edit(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people who are entitled, where the policy allows it. The first question is closed; the new one has to be
    decided like any other, and nothing runs."""
    door = door_of(request)
    wide = {("arguments", *path) for path in door.wide_fields}
    document = await read_document(request, door.settings, members=frozenset({"digest", "arguments"}), wide=wide)
    digest = text_member(document, "digest", most=64, least=64)
    if "arguments" not in document:
        raise member_refused("arguments", "all arguments of the new call")
    await _require_match(door, request, approval_id, principal)
    change = door.gate.desk.edit(approval_id, digest=digest, arguments=document["arguments"], by=principal)
    view = await _changed(door, approval_id, principal, change)
    headers = {"ETag": tag_of(view), "Location": f"/v1/approvals/{view.approval_id}"}
    return json_response(document_of(view), status=201, headers=headers)  # type: ignore[arg-type]


@router.post(
    "/v1/approvals/{approval_id}/withdraw-vote",
    operation_id="withdrawVote",
    summary="Take back your vote, while other people's are waited for",
    responses={
        **describing.problems(403, 404, 409, 412),
        200: describing.answer("As it stands now.", describing.named("Approval"), headers=_TAGGED),
    },
    openapi_extra={"parameters": [_IF_MATCH]},
)
async def withdraw_vote(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people who voted for what needs several votes. It does not refuse it."""
    return await _taken_back(request, approval_id, principal, door_of(request).gate.desk.withdraw_vote)


async def _taken_back(
    request: Request, approval_id: str, principal: Principal, take_back: Callable[..., Awaitable[ApprovalView]]
) -> Response:
    door = door_of(request)
    await _require_match(door, request, approval_id, principal)
    return _tagged(await _changed(door, approval_id, principal, take_back(approval_id, by=principal)))


def _tagged(view: ApprovalView) -> Response:
    return json_response(document_of(view), headers={"ETag": tag_of(view)})  # type: ignore[arg-type]


async def _changed(door: Door, approval_id: str, by: Principal, change: Awaitable[ApprovalView]) -> ApprovalView:
    """The approval after a change, or a refusal that says how it stands."""
    try:
        return await change
    except DecisionRefused as refused:
        refusal = refused
    raise await _with_what_changed(door, refusal, approval_id, by)


def tag_of(view: ApprovalView) -> str:
    """The entity tag: the digest that was shown, and where it stood, votes by whose they are."""
    voted = ""
    if view.votes:
        voted = f".{sha256_hex('placet/votes-tag/1', canonical_bytes([vote.voter for vote in view.votes]))[:16]}"
    return f'"{view.digest}.{view.state.value}{voted}"'


async def _require_match(door: Door, request: Request, approval_id: str, by: Principal) -> None:
    """Raises:
    PreconditionFailed: `If-Match` is there, and it stands otherwise.
    """
    if "if-match" not in request.headers:
        return
    view = await door.gate.desk.show(approval_id, by=by)
    if not same_tag(request, "if-match", tag_of(view)):
        raise PreconditionFailed(members={"changed": standing_of(view)})


async def _with_what_changed(door: Door, refusal: DecisionRefused, approval_id: str, by: Principal) -> PlacetError:
    """The refusal, saying how it stands: who decided, when, or since when it is expired. Source: UI 22."""
    if by.standing is not Standing.PERSON:
        return refusal  # it may not look either, and that is on record once
    try:
        view = await door.gate.desk.show(approval_id, by=by)
    except (DecisionRefused, NotFound):
        return refusal
    return HttpProblem.about(refusal, {"changed": standing_of(view)})
