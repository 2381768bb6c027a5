"""`/v1/stops`: halt a tool, an upstream, a tenant, a run or everything, see what is halted, and lift it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.engine.switch import MAX_REASON_CHARACTERS, StopReport, StopView
from placet.errors import MisuseError
from placet.http_api import describing
from placet.http_api.bodies import member_refused, optional_text, read_document, text_member
from placet.http_api.door import door_of, refuse_repeated, signed_in
from placet.http_api.outcomes import json_response
from placet.http_api.problems import HttpProblem, Meaningless
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.model.stopping import StopKind, StopScope
from placet.rules.documents import document_of, schema_of
from placet.rules.stopping import scope_of_words

router = APIRouter(tags=["stops"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_MOST_SCOPE = 300
_HOW = "`all`, `tenant`, `tool:NAME`, `upstream:NAME` or `run:ID` of your own tenant, `tenant:NAME`."
_SCOPE: JsonObject = {
    "type": "string",
    "pattern": "^(all|tenant|tool:[a-zA-Z0-9_.-]{1,64}|upstream:[a-z][a-z0-9_-]{0,23})$",
    "description": _HOW,
}
_STOP: JsonObject = {
    "type": "object",
    "properties": {
        "scope": _SCOPE,
        "all_tenants": {
            "type": "boolean",
            "description": "A tool, or an upstream, of every tenant. Needs `ops.stop.all`.",
        },
        "reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS, "pattern": r"^[^\u0000]*$"},
    },
    "required": ["scope"],
    "additionalProperties": False,
}
_LIST: JsonObject = {
    "type": "object",
    "properties": {"stops": {"type": "array", "items": schema_of(StopView)}},
    "required": ["stops"],
}


@router.get(
    "/v1/stops",
    operation_id="listStops",
    summary="What is halted that concerns you",
    responses={**describing.problems(400, 403), 200: describing.answer("All of it.", _LIST)},
)
async def list_stops(request: Request, principal: SignedIn) -> Response:
    """For people."""
    refuse_repeated(request)
    found = await door_of(request).gate.switch.stops(by=principal)
    return json_response({"stops": [document_of(view) for view in found]})


@router.post(
    "/v1/stops",
    operation_id="stop",
    summary="Halt something",
    responses={
        **describing.problems(400, 403, 408, 413, 415, 422),
        200: describing.answer("It is halted; what was claimed before and runs on.", schema_of(StopReport)),
    },
    openapi_extra=describing.body(_STOP),
)
async def stop(request: Request, principal: SignedIn) -> Response:
    """For people with `ops.stop`. When this is answered, nothing of the scope is dispatched any more."""
    door = door_of(request)
    document = await read_document(request, door.settings, members=frozenset({"scope", "reason", "all_tenants"}))
    scope = text_member(document, "scope", most=_MOST_SCOPE)
    reason = optional_text(document, "reason", most=MAX_REASON_CHARACTERS)
    everywhere = document.get("all_tenants", False)
    if type(everywhere) is not bool:
        raise member_refused("all_tenants", "true or false")
    try:
        wanted = _scope(scope, principal, everywhere)
        report = await door.gate.switch.stop(wanted, by=principal, reason=reason)
    except MisuseError as error:
        refusal = _malformed(error)
    else:
        return json_response(document_of(report))  # type: ignore[arg-type]
    raise refusal


@router.delete(
    "/v1/stops",
    operation_id="resume",
    summary="Lift a stop",
    responses={
        **describing.problems(400, 403, 404, 422),
        204: {"description": "It is lifted; another that halts the same calls stays."},
    },
)
async def resume(
    request: Request,
    principal: SignedIn,
    scope: Annotated[str, Query(min_length=1, max_length=_MOST_SCOPE, description=_HOW)],
    all_tenants: Annotated[bool, Query(description="A tool of every tenant. Needs `ops.stop.all`.")] = False,
) -> Response:
    """For people with no less leave than it was given with."""
    refuse_repeated(request)
    try:
        await door_of(request).gate.switch.resume(_scope(scope, principal, all_tenants), by=principal)
    except MisuseError as error:
        refusal = _malformed(error)
    else:
        return Response(status_code=204)
    raise refusal


def _scope(words: str, by: Principal, everywhere: bool) -> StopScope:
    """Raises:
    MisuseError: it names nothing that can be halted.
    """
    scope = scope_of_words(words, by)
    if not everywhere:
        return scope
    match scope.kind:
        case StopKind.TOOL:
            return StopScope.of_tool(str(scope.name))
        case StopKind.UPSTREAM:
            return StopScope.of_upstream(str(scope.name))
        case _:
            raise MisuseError("Only a tool or an upstream is halted for every tenant by its name.")


def _malformed(error: MisuseError) -> HttpProblem:
    """Which words name a scope is the engine's to say, and it repeats none of them."""
    return Meaningless(f"This names nothing that can be halted. Say {_HOW}", hint=error.hint or None)
