"""The front doors as one application, and what is believed of where a request came from.

What is under the console's path is the console's, MCP has an address of its own, and all else is the API's; `/` leads
people to the console. What a proxy
says of a request is taken from proxies that the deployment trusts and from nobody else; it reaches no page and no
answer but as a yes or no: whether the request was sent to this site, and over TLS.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.console.app import Console
from placet.rules.serving import (
    Forwarded,
    ProxyNetwork,
    forwarded,
    host_of,
    is_forwarding,
    is_trusted,
)
from placet.serve.mcp_front import IN_FRONT, McpFront

_LOOKS: Final = ("GET", "HEAD")
_log = logging.getLogger("placet.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the world calls this place, and whose word on it is believed.

    Attributes:
        public_url: scheme, host and port; None leaves it to each request's `Host`.
        proxies: networks of the proxies in front.
    """

    public_url: str | None = None
    proxies: tuple[ProxyNetwork, ...] = ()


def together(
    api: ASGIApp, console: Console | None, site: Site | None = None, *, mcp: McpFront | None = None
) -> ASGIApp:
    """The front doors behind one address."""
    site = site or Site()

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await api(scope, receive, send)
            return
        said = _said_by_proxy(scope, site.proxies)
        plain_scope: Scope = {**scope, "headers": [pair for pair in scope["headers"] if not is_forwarding(pair[0])]}
        if mcp is not None and mcp.is_for(scope["path"]):
            await _mcp(plain_scope, said, mcp, site)(plain_scope, receive, send)
            return
        await _front(plain_scope, said, api, console, site)(plain_scope, receive, send)

    return either


async def nothing_else(scope: Scope, receive: Receive, send: Send) -> None:
    """Where neither API nor console is: that the process is there, and nothing more."""
    if scope["type"] == "http":
        is_asked = scope["path"] == "/healthz" and scope["method"] in _LOOKS
        await (_told("ok", 200) if is_asked else _told("not_found", 404))(scope, receive, send)


def _mcp(scope: Scope, said: Forwarded, mcp: McpFront, site: Site) -> ASGIApp:
    """No credential is taken that came in the clear; which name it was sent to is the door's to judge."""
    if site.public_url is not None and said.scheme == "http":
        return _told("not_over_tls", 403)
    if said.host is not None:
        scope[IN_FRONT] = said.host
    return mcp.app


def _front(scope: Scope, said: Forwarded, api: ASGIApp, console: Console | None, site: Site) -> ASGIApp:
    if console is None:
        return api
    if scope["path"] == "/" and scope["method"] in _LOOKS:
        return _redirect(f"{console.root}/", status=303)
    if not f"{scope['path']}/".startswith(f"{console.root}/"):
        return api
    return _refusal(scope, said, site) or console


def _refusal(scope: Scope, said: Forwarded, site: Site) -> Response | None:
    """Why the console is not for this request: it was sent to another name, or in the clear."""
    if site.public_url is None:
        return None
    named = said.host or next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    if named.lower() != host_of(site.public_url):
        _log.info("sent to another name")
        return _told("misdirected", 421)
    if said.scheme == "http":
        place = site.public_url + scope["raw_path"].decode("latin-1")
        return _redirect(place, status=308) if scope["method"] in _LOOKS else _told("not_over_tls", 403)
    return None


def _said_by_proxy(scope: Scope, proxies: tuple[ProxyNetwork, ...]) -> Forwarded:
    client = scope.get("client")
    return forwarded(scope["headers"]) if client and is_trusted(client[0], proxies) else Forwarded()


def _told(code: str, status: int) -> Response:
    return _silent(PlainTextResponse(f"{code}\n", status_code=status))


def _redirect(place: str, *, status: int) -> Response:
    return _silent(RedirectResponse(place, status_code=status))


def _silent(answer: Response) -> Response:
    headers: MutableHeaders = answer.headers
    headers["Cache-Control"] = "no-store"
    headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    headers["X-Content-Type-Options"] = "nosniff"
    return answer
