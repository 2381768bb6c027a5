"""The HTTP API of one gate, as an ASGI application. Source: ADR-0035."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from placet.bootstrap.surroundings import http_meter, metrics_page, random_ids, system_clock
from placet.engine.gate import Gate
from placet.errors import PlacetError
from placet.http_api import (
    approvals,
    audit,
    describing,
    effects,
    events,
    grants,
    operations,
    proposals,
    runs,
    stops,
    tools,
)
from placet.http_api.door import Door, request_id_of
from placet.http_api.guard import Guard, route_of
from placet.http_api.problems import HttpProblem, MethodNotAllowed, NoSuchAddress, RequestMalformed, problem_response
from placet.http_api.settings import HttpSettings
from placet.model.json import JsonValue
from placet.ports.clock import Clock
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

API_VERSION = "1"
OPENAPI = "/openapi.json"
_ROUTERS = (
    proposals.router,
    events.router,
    approvals.router,
    grants.router,
    effects.router,
    runs.router,
    tools.router,
    audit.router,
    stops.router,
    operations.router,
)
_OPEN = frozenset({"/healthz", "/readyz"})
"""Addresses that nobody signs in for."""
_MOST_PROBLEMS = 16


def create_app(
    *,
    gate: Gate,
    sign_in: SignIn,
    settings: HttpSettings | None = None,
    metrics: CollectorRegistry | None = None,
    rate_limiter: RateLimiter | None = None,
    clock: Clock | None = None,
) -> FastAPI:
    """The API of an open gate, for the event loop that it was opened in. Close its door before the gate.

    Args:
        sign_in: who stands behind a bearer credential.
        rate_limiter: asked for every request of somebody who has signed in, before anything else is done.
        metrics: the registry that `/metrics` shows; the one that the gate measures into.
    """
    clock = clock or system_clock()
    app = FastAPI(
        title="placet",
        version=API_VERSION,
        summary="A model proposes. placet decides, acts at most once, and can prove it.",
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False},
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.state.door = Door(
        gate=gate,
        sign_in=sign_in,
        rate_limiter=rate_limiter,
        settings=settings or HttpSettings(),
        clock=clock,
        pages=None if metrics is None else metrics_page(metrics),
    )
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    app.add_exception_handler(PlacetError, _answer_problem)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_routing)
    meter = http_meter(metrics, routes={route.path for route in api_routes()} | {OPENAPI})
    app.add_middleware(Guard, clock=clock, ids=random_ids(), meter=meter)
    return app


def api_routes() -> list[APIRoute]:
    """Every operation there is."""
    return [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlacetError)  # noqa: S101  registered for nothing else
    return problem_response(error, request_id=request_id_of(request))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Which parameter is wrong and how, and never what was sent."""
    found: Iterable[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    problems: list[JsonValue] = [
        {"path": ".".join(str(part) for part in each["loc"][:2]), "problem": str(each["type"])}
        for each in list(found)[:_MOST_PROBLEMS]
    ]
    refusal = RequestMalformed(
        "A parameter of the request is not what this address takes.", members={"problems": problems}
    )
    return problem_response(refusal, request_id=request_id_of(request))


async def _answer_routing(request: Request, error: Exception) -> Response:
    """What the router says by itself: no such address, not this method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem: HttpProblem
    match status:
        case 404:
            problem = NoSuchAddress()
        case 405:
            problem = MethodNotAllowed(headers={"Allow": ", ".join(_methods_at(route_of(request.scope)))})
        case _:
            problem = RequestMalformed()
    return problem_response(problem, request_id=request_id_of(request))


def _methods_at(path: str) -> list[str]:
    """The methods that an address takes."""
    return sorted({method for route in api_routes() if route.path == path for method in route.methods or ()} or {"GET"})


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            openapi_version="3.1.0",
            summary=app.summary,
            routes=app.routes,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas.update(describing.SCHEMAS)
        for path, operations_of_path in document["paths"].items():
            for operation in operations_of_path.values():
                _complete(path, operation)
        app.openapi_schema = document
    return app.openapi_schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    """What is true of every operation, said in each of them."""
    responses = operation["responses"]
    if "422" in responses and "HTTPValidationError" in str(responses["422"]):
        del responses["422"]
    if operation.get("parameters") and path not in _OPEN:
        responses.setdefault("400", describing.problems(400)[400])
    for answer in responses.values():
        answer.setdefault("headers", {})["X-Request-Id"] = {
            "description": "The id of this request; yours, if it was well formed.",
            "required": True,
            "schema": {"type": "string"},
        }
