"""The numbers of a process at an address of their own, for whoever can reach it: nobody signs in there.

They name tools and tenants of no call, and are of every tenant together; so the address is one of a network where only
the deployment's own machines are.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.http_api.operations import PROMETHEUS


def numbers(page: Callable[[], bytes]) -> Starlette:
    """`GET /metrics`, and nothing else."""

    async def metrics(request: Request) -> Response:
        return Response(page(), media_type=PROMETHEUS, headers={"Cache-Control": "no-store"})

    return Starlette(routes=[Route("/metrics", metrics, methods=["GET"])])
