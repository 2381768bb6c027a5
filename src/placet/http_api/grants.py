"""`/v1/grants`: standing grants, what each covers, and taking them back. Giving one runs nothing, decides nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.engine.grant_views import GrantView
from placet.engine.granting import MAX_REASON_CHARACTERS
from placet.http_api import describing
from placet.http_api.bodies import member_refused, optional_text, read_document, text_member
from placet.http_api.door import door_of, refuse_repeated, same_tag, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.problems import PreconditionFailed
from placet.http_api.tagged import tagged
from placet.model.grant import DEFAULT_SECONDS, DEFAULT_USES, GrantWish
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.rules.documents import document_of, schema_of

router = APIRouter(tags=["grants"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_TAGGED = {"ETag": "Names what is granted, where it stands, and how often it was used."}
_MOST_SUBJECTS = 16
_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[^\u0000]+$"}
_WISH_MEMBERS: JsonObject = {
    "tool": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_.-]+$"},
    "subjects": {
        "type": "array",
        "items": _NAME,
        "minItems": 1,
        "maxItems": _MOST_SUBJECTS,
        "description": "Whose calls: who acts, then whom it acts for, the far end last.",
    },
    "limits": {
        "type": "object",
        "description": "One for each argument of the tool, and for nothing else.",
        "additionalProperties": {
            "anyOf": [
                {"const": "any"},
                {
                    "type": "object",
                    "properties": {"one_of": {"type": "array", "minItems": 1, "maxItems": 100}},
                    "required": ["one_of"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"at_least": {"type": "number"}, "at_most": {"type": "number"}},
                    "minProperties": 1,
                    "additionalProperties": False,
                },
            ]
        },
    },
    "run": _NAME | {"description": "The only run it is good for; every run of the subjects, if absent."},
    "seconds": {"type": "number", "exclusiveMinimum": 0, "default": DEFAULT_SECONDS},
    "max_uses": {"type": "integer", "minimum": 1, "default": DEFAULT_USES},
    "reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS, "pattern": r"^[^\u0000]*$"},
}
_WISH: JsonObject = {
    "type": "object",
    "properties": _WISH_MEMBERS,
    "required": ["tool", "subjects", "limits"],
    "additionalProperties": False,
}
_SIGNED_WISH: JsonObject = _WISH | {
    "properties": _WISH_MEMBERS | {"digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    "required": ["tool", "subjects", "limits", "digest"],
}
_IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The tag of what was read: nothing is revoked if it stands otherwise by now.",
    "schema": {"type": "string"},
}
_VIEW = schema_of(GrantView)


class Which(StrEnum):
    """Which grants of the tenant."""

    ALL = "all"
    STANDING = "standing"


@router.get(
    "/v1/grants",
    operation_id="listGrants",
    summary="Standing grants of your tenant, the newest first",
    responses={
        **describing.problems(400, 403, 422),
        200: describing.answer(
            "A page of them.",
            {
                "type": "object",
                "properties": {
                    "grants": {"type": "array", "items": _VIEW},
                    "next": {"type": ["string", "null"]},
                },
                "required": ["grants", "next"],
            },
        ),
    },
)
async def list_grants(
    request: Request,
    principal: SignedIn,
    which: Annotated[
        Which,
        Query(description="`standing`: those that answer questions now, and altered rows that stop calls; no others."),
    ] = Which.ALL,
    limit: LIMIT = 100,
    cursor: CURSOR = None,
) -> Response:
    """For people. Of a row that was altered nothing is shown but its id, and when it was ended. A page that is not full
    may have others after it, as long as there is a `next`.
    """
    door = door_of(request)
    refuse_repeated(request)
    of: JsonObject = {"list": "grants", "which": which.value}
    after = await mark_of(door, cursor, of=of, by=principal)
    grants = door.gate.grants
    look = grants.standing_page if which is Which.STANDING else grants.page
    page = await look(by=principal, limit=limit, after=after)
    return json_response(
        {
            "grants": [document_of(view) for view in page.rows],
            "next": await cursor_of(door, page, of=of, by=principal),
        }
    )


@router.post(
    "/v1/grants/drafts",
    operation_id="draftGrant",
    summary="What a grant would cover, in words, before anybody signs it",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 413, 415, 422),
        200: describing.answer("The draft, with the digest that giving it takes. Nothing is stored.", _VIEW),
    },
    openapi_extra=describing.body(_WISH),
)
async def draft_grant(request: Request, principal: SignedIn) -> Response:
    """For people who may approve such calls, where a rule of the policy lets grants be given."""
    wish = _wish_of(await _document(request, frozenset(_WISH_MEMBERS)))
    return json_response(document_of(await door_of(request).gate.grants.draft(wish, by=principal)))  # type: ignore[arg-type]


@router.post(
    "/v1/grants",
    operation_id="giveGrant",
    summary="Give a standing grant: exactly what the draft with this digest said",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 413, 415, 422),
        201: describing.answer("The grant.", _VIEW, headers={**_TAGGED, "Location": "The grant."}),
    },
    openapi_extra=describing.body(_SIGNED_WISH),
)
async def give_grant(request: Request, principal: SignedIn) -> Response:
    """For people who may approve such calls. Nothing runs; the asks that it covers need no approval from now on.

    Not safe to repeat: every answer is another grant.
    """
    document = await _document(request, frozenset({*_WISH_MEMBERS, "digest"}))
    digest = text_member(document, "digest", most=64, least=64)
    wish = _wish_of(document)
    view = await door_of(request).gate.grants.give(wish, digest=digest, by=principal)
    headers = {"ETag": tag_of(view), "Location": f"/v1/grants/{view.grant_id}"}
    return json_response(document_of(view), status=201, headers=headers)  # type: ignore[arg-type]


@router.get(
    "/v1/approvals/{approval_id}/grant-wish",
    operation_id="likeApproval",
    summary="The wish for a grant of calls like this one, and of no others",
    responses={**describing.problems(403, 404, 409), 200: describing.answer("The wish.", _WISH)},
)
async def like_approval(approval_id: str, request: Request, principal: SignedIn) -> Response:
    """For people. Widen it, draft it and give it; the approval itself is decided apart."""
    refuse_repeated(request)
    wish = await door_of(request).gate.grants.like(approval_id, by=principal)
    document: JsonObject = {
        "tool": wish.tool,
        "subjects": list(wish.subjects),
        "limits": wish.limits,
        "seconds": wish.seconds,
        "max_uses": wish.max_uses,
        **({} if wish.run_id is None else {"run": wish.run_id}),
    }
    return json_response(document)


@router.get(
    "/v1/grants/{grant_id}",
    operation_id="showGrant",
    summary="What a grant covers, and how often it was used",
    responses={
        **describing.problems(403, 404, 409),
        200: describing.answer("The grant.", _VIEW, headers=_TAGGED),
        304: {"description": "As it was."},
    },
)
async def show_grant(grant_id: str, request: Request, principal: SignedIn) -> Response:
    """For people."""
    grants = door_of(request).gate.grants
    return await tagged(request, principal, lambda: grants.show(grant_id, by=principal), tag_of)


@router.post(
    "/v1/grants/{grant_id}/revoke",
    operation_id="revokeGrant",
    summary="Take a grant back, on every host",
    responses={
        **describing.problems(403, 404, 409, 412),
        200: describing.answer("As it stands now.", _VIEW, headers=_TAGGED),
    },
    openapi_extra={"parameters": [_IF_MATCH]},
)
async def revoke_grant(grant_id: str, request: Request, principal: SignedIn) -> Response:
    """For its giver, whoever it is for, and people entitled to approve. What it let through stays done."""
    grants = door_of(request).gate.grants
    if "if-match" in request.headers:
        seen = await grants.show(grant_id, by=principal)
        if not same_tag(request, "if-match", tag_of(seen)):
            raise PreconditionFailed(members={"changed": {"state": seen.state.value, "uses": seen.uses}})
    view = await grants.revoke(grant_id, by=principal)
    return json_response(document_of(view), headers={"ETag": tag_of(view)})  # type: ignore[arg-type]


def tag_of(view: GrantView) -> str:
    """The entity tag: what was granted, where it stands, and how often it was used."""
    return f'"{view.digest}.{view.state.value}.{view.uses}"'


async def _document(request: Request, members: frozenset[str]) -> dict[str, Any]:
    """A body with these members. Any integer in its limits may be as wide as an argument may be."""
    door = door_of(request)
    wide = {("limits", *path) for path in door.wide_fields} | {("limits", "*", "*"), ("limits", "*", "*", "*")}
    return await read_document(request, door.settings, members=members, wide=wide)


def _wish_of(document: dict[str, Any]) -> GrantWish:
    """What a body wishes for. What of it is none, although it is of its kind, the engine says.

    Raises:
        RequestMalformed: a member is not of its kind.
    """
    subjects = document.get("subjects")
    if type(subjects) is not list or not all(type(each) is str for each in subjects):
        raise member_refused("subjects", "a list of names")
    if type(document.get("limits")) is not dict:
        raise member_refused("limits", "an object with one member for each argument")
    seconds, uses = document.get("seconds", DEFAULT_SECONDS), document.get("max_uses", DEFAULT_USES)
    if type(seconds) not in (int, float):
        raise member_refused("seconds", "a number above zero")
    if type(uses) is not int:
        raise member_refused("max_uses", "a whole number of at least 1")
    return GrantWish(
        tool=text_member(document, "tool", most=64),
        subjects=tuple(subjects),
        limits=document["limits"],
        seconds=seconds,
        max_uses=uses,
        run_id=text_member(document, "run", most=128) if "run" in document else None,
        reason=optional_text(document, "reason", most=MAX_REASON_CHARACTERS),
    )
