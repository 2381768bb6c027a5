"""Whether this process is there and ready, its numbers, and the OpenAPI document. Nothing here names a tenant."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from placet.errors import DecisionRefused, NotFound, PlacetError
from placet.http_api import describing
from placet.http_api.door import door_of, signed_in
from placet.http_api.outcomes import json_response
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.rules.access import READ_METRICS_SCOPE, has_scope
from placet.rules.foreign import safe_exception_name

router = APIRouter(tags=["operations"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_log = logging.getLogger("placet.http")
_STATE: JsonObject = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "reason": {"type": "string"}},
    "required": ["status"],
}
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/healthz",
    operation_id="health",
    summary="Whether this process answers",
    responses={200: describing.answer("It does.", _STATE)},
)
async def health() -> Response:
    """Looks at nothing: a store that is away is no reason to kill the process."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="ready",
    summary="Whether this process may be sent requests",
    responses={
        200: describing.answer("It may.", _STATE),
        503: describing.answer("Not now.", _STATE, headers={"Retry-After": "Seconds."}),
    },
)
async def ready(request: Request) -> Response:
    """Not while it ends, and not while its store does not answer. A failure is told by its safe name alone (B162)."""
    door = door_of(request)
    if door.ending.is_set() or door.gate.is_draining:
        return _unready("draining")
    try:
        async with asyncio.timeout(door.settings.ready_seconds):
            await door.gate.store.now()
    except Exception as fault:
        name = safe_exception_name(fault)
    else:
        return json_response({"status": "ready"})
    _log.warning("not ready", extra={"error_type": name})
    return _unready(name)


def _unready(reason: str) -> Response:
    return json_response({"status": "unready", "reason": reason}, status=503, headers={"Retry-After": "1"})


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="The numbers of this process, as Prometheus reads them",
    responses={
        **describing.problems(403, 404),
        200: {"description": "The numbers.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def metrics(request: Request, principal: SignedIn) -> Response:
    """They are of every tenant, so they need the scope `metrics.read`. A scraper sends its key as a bearer token."""
    if not has_scope(principal, READ_METRICS_SCOPE):
        raise _needs(READ_METRICS_SCOPE)
    pages = door_of(request).pages
    if pages is None:
        raise NotFound("Nothing is measured here.")
    return Response(pages(), media_type=PROMETHEUS)


def _needs(scope: str) -> PlacetError:
    return DecisionRefused(f"This needs the scope {scope}.", code="scope_missing")
