"""An operator lets this deployment in at an upstream: a browser goes to its authorization server and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from placet.errors import ConfigurationError, UpstreamUnreachable
from placet.model.upstreams import Credential, CredentialForm, StreamableWay, Upstream

WAIT_SECONDS: Final = 600.0
"""How long the operator's browser may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAs:
    """Who this deployment is for the upstream's authorization server; nothing: it registers itself.

    Attributes:
        client_id: of a client that was registered by hand.
        described_at: where a description of this client is published.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    described_at: str | None = None


def oauth_credential(upstream: Upstream, tenant: str | None) -> tuple[StreamableWay, Credential]:
    """
    Raises:
        ConfigurationError: this upstream, or this tenant of it, is let in by no sign-in.
    """
    way = upstream.way
    if isinstance(way, StreamableWay):
        credential = way.credential if tenant is None else way.credential_by_tenant.get(tenant)
        if credential is not None and credential.form is CredentialForm.OAUTH:
            return way, credential
    raise ConfigurationError(
        f"The upstream {upstream.name!r} has no credential of form oauth for this.",
        hint='credential = { form = "oauth", secret = "file:upstreams/NAME.tokens.json" }',
    )


async def sign_in_at(
    upstream: Upstream,
    *,
    tenant: str | None,
    known_as: KnownAs,
    port: int,
    open_page: Callable[[str], Awaitable[None]],
) -> Path:
    """Have the operator sign in; the file that now lets this deployment in.

    Args:
        tenant: whose credential it is; None: everybody's.
        port: of the page that the browser comes back to; 0 takes a free one.
        open_page: is told which page the operator has to visit.

    Raises:
        ConfigurationError: this upstream is let in by no sign-in, or the port is taken.
        UpstreamUnreachable: it did not come to that; what let it in before still does.
    """
    from placet.adapters.reaching import ReachingTransport
    from placet.adapters.transports.mcp.authorizing import Client, SignInFailed, sign_in
    from placet.adapters.transports.mcp.coming_back import coming_back
    from placet.adapters.transports.mcp.token_file import TokenFile

    way, credential = oauth_credential(upstream, tenant)
    path = Path(credential.secret.name)
    transport = ReachingTransport(way.network, ca_file=way.ca_file)
    known = None if known_as.client_id is None else (known_as.client_id, known_as.client_secret)
    try:
        async with coming_back(port) as (address, come_back), asyncio.timeout(WAIT_SECONDS):
            client = Client(redirect_url=address, known_as=known, described_at=known_as.described_at)
            await sign_in(way.url, transport, TokenFile(path), client, open_page=open_page, come_back=come_back)
        return path
    except OSError:
        is_ours = True
    except (SignInFailed, TimeoutError):
        is_ours = False
    finally:
        await transport.aclose()
    if is_ours:
        raise ConfigurationError(
            f"Port {port} cannot be listened on, or {path.name!r} cannot be written.", hint="Name another --port."
        )
    raise UpstreamUnreachable(
        f"The sign-in at the upstream {upstream.name!r} did not come to an end that lets this deployment in.",
        hint="Look at the page that the browser showed; what let this deployment in before still does.",
    )
