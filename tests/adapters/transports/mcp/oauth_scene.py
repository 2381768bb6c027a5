"""An MCP server that wants tokens, and the authorization server that gives them, as one application of our own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from placet.serve.http_server import listening_socket


@dataclass
class Scene:
    """
    Attributes:
        good: the tokens that let somebody in.
        granted: what each request for a token asked with.
        seen: the tokens that requests to the server itself showed, in order.
        issuer_said: what comes back as `iss`; None: the true one.
        refreshes: what a refresh token is answered with in place of a token; None: a token.
    """

    url: str = ""
    good: set[str] = field(default_factory=set)
    granted: list[dict[str, Any]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    challenges: dict[str, str] = field(default_factory=dict)
    issuer_said: str | None = None
    refreshes: int | None = None

    @property
    def server(self) -> str:
        return f"{self.url}/mcp"

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.server, "authorization_servers": [self.url], "scopes_supported": ["a"]})

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(self, request: Request) -> Response:
        asked = await request.json()
        made = {"client_id": "client-1", "redirect_uris": asked["redirect_uris"], "token_endpoint_auth_method": "none"}
        return JSONResponse(made, status_code=201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.challenges["code-1"] = asked["code_challenge"]
        back = {"code": "code-1", "state": asked["state"], "iss": self.issuer_said or self.url}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    async def token(self, request: Request) -> Response:
        asked = {name: str(value) for name, value in (await request.form()).items()}
        self.granted.append(asked)
        if asked["grant_type"] == "authorization_code":
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenges.get(asked["code"]):
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
        elif self.refreshes is not None:
            return JSONResponse({"error": "invalid_grant"}, status_code=self.refreshes)
        token = f"token-{len(self.granted)}"
        self.good.add(token)
        given = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": f"again-{token}"}
        return JSONResponse(given)

    async def mcp(self, request: Request) -> Response:
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.seen.append(shown)
        if shown not in self.good:
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            return JSONResponse({}, status_code=401, headers={"www-authenticate": where})
        asked = json.loads(await request.body())
        return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": {}})


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    routes = [
        Route("/.well-known/oauth-protected-resource/mcp", made.resource),
        Route("/.well-known/oauth-authorization-server", made.metadata),
        Route("/register", made.register, methods=["POST"]),
        Route("/authorize", made.authorize),
        Route("/token", made.token, methods=["POST"]),
        Route("/mcp", made.mcp, methods=["POST"]),
    ]
    at = listening_socket("127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{at.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error", ws="none", lifespan="off"))
    serving = asyncio.ensure_future(server.serve(sockets=[at]))
    try:
        yield made
    finally:
        server.should_exit = True
        await serving


async def browse(page: str) -> httpx.Response:
    """What a browser does that is shown a page: it goes where it is sent."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        return await browser.get(page)
