"""`/v1/whoami`, `/v1/tools` and `/v1/policy`: who one is here, what one may see, and which policy decides."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from placet.engine.principal_views import PrincipalView, principal_view
from placet.http_api import describing
from placet.http_api.door import door_of, refuse_repeated, signed_in
from placet.http_api.outcomes import json_response
from placet.model.contract import Contract
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.rules.documents import document_of, schema_of

router = APIRouter(tags=["tools"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_TEXT: JsonObject = {"type": "string"}
_TOOL: JsonObject = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "version", "description", "risk", "effect_class", "approval", "digest"), _TEXT),
        "permission": {"type": ["string", "null"]},
        "timeout_seconds": {"type": "number"},
        "silence_seconds": {"type": ["number", "null"]},
        "arguments": {"type": "object"},
        "result": {"type": "object"},
    },
    "required": ["name", "version", "description", "risk", "effect_class", "arguments", "result"],
}
_TOOLS: JsonObject = {
    "type": "object",
    "properties": {"tools": {"type": "array", "items": _TOOL}},
    "required": ["tools"],
}
_POLICY: JsonObject = {
    "type": "object",
    "properties": {"version": {"type": ["string", "null"]}},
    "required": ["version"],
}


@router.get(
    "/v1/whoami",
    operation_id="whoAmI",
    summary="Who you are here",
    responses={
        **describing.problems(400),
        200: describing.answer("What your credential says.", schema_of(PrincipalView)),
    },
)
async def who_am_i(request: Request, principal: SignedIn) -> Response:
    """Subject, tenant, standing, roles and scopes, as they are used when you ask for something."""
    refuse_repeated(request)
    return json_response(document_of(principal_view(principal)))  # type: ignore[arg-type]  # a view has members


@router.get(
    "/v1/tools",
    operation_id="listTools",
    summary="The tools you may see, by name",
    responses={**describing.problems(400), 200: describing.answer("All of them.", _TOOLS)},
)
async def list_tools(request: Request, principal: SignedIn) -> Response:
    """Seeing a tool is not yet being allowed to use it."""
    refuse_repeated(request)
    found = sorted(door_of(request).gate.tools_for(principal), key=lambda contract: contract.name)
    return json_response({"tools": [_document(contract) for contract in found]})


@router.get(
    "/v1/policy",
    operation_id="showPolicy",
    summary="The policy in force",
    responses={**describing.problems(400), 200: describing.answer("Its version.", _POLICY)},
)
async def show_policy(request: Request, principal: SignedIn) -> Response:
    """Its version changes with every change that may decide otherwise."""
    refuse_repeated(request)
    return json_response({"version": door_of(request).gate.policy_version})


def _document(contract: Contract) -> JsonObject:
    return {
        "name": contract.name,
        "version": contract.version,
        "description": contract.description,
        "risk": contract.risk.value,
        "effect_class": contract.effect_class.value,
        "approval": contract.approval.value,
        "permission": contract.permission,
        "timeout_seconds": contract.timeout_seconds,
        "silence_seconds": contract.silence_seconds,
        "digest": contract.digest,
        "arguments": contract.arguments_schema,
        "result": contract.result_schema,
    }
