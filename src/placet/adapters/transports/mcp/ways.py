"""From a declared way to a channel: what the server is given of ours, looked up when it is needed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.adapters.transports.mcp.attention import Attention, Share
from placet.adapters.transports.mcp.channels import Channel, OverHttp, OverStdio
from placet.adapters.transports.mcp.faults import NotAccepted
from placet.adapters.transports.mcp.session import Session
from placet.adapters.transports.mcp.stdio import StdioChannel
from placet.model.destinations import SecretRef
from placet.model.upstreams import Credential, CredentialForm, StdioWay, StreamableWay, UpstreamBounds
from placet.ports.clock import Clock

if TYPE_CHECKING:
    import httpx

_MOST_CONNECTIONS = 100
_KEEP_SECONDS = 15.0
"""Shorter than servers usually keep an idle connection, so that they seldom close one that is just used again."""


def way_to(
    way: StdioWay | StreamableWay,
    tenant: str | None,
    *,
    bounds: UpstreamBounds,
    clock: Clock,
    attention: Attention,
) -> Callable[[Session], Channel]:
    """What makes the channel of a tenant's session; None: of no tenant's.

    Args:
        attention: the server's, for all of its sessions.
    """
    match way:
        case StdioWay():
            return lambda session: _process(way, tenant, bounds, attention, session)
        case StreamableWay():
            return lambda session: _service(way, tenant, bounds, clock, attention, session)


def _process(
    way: StdioWay, tenant: str | None, bounds: UpstreamBounds, attention: Attention, session: Session
) -> Channel:
    own = {} if tenant is None else way.environment_by_tenant.get(tenant, {})
    return OverStdio(
        StdioChannel(
            way.command,
            way.args,
            environment=_environment({**way.environment, **own}),
            folder=Path(way.folder),
            most_bytes=bounds.max_message_bytes,
            share=Share(attention),
            awaits=session.awaits,
            heard=lambda message: session.heard(message, None),
            flooded=session.flooded,
            lost=session.lost,
        )
    )


def _environment(named: Mapping[str, str | SecretRef]) -> dict[str, str]:
    try:
        return {name: value if isinstance(value, str) else secret_of(value) for name, value in named.items()}
    except SecretMissing:
        pass
    raise NotAccepted("secret_missing")


def _service(
    way: StreamableWay,
    tenant: str | None,
    bounds: UpstreamBounds,
    clock: Clock,
    attention: Attention,
    session: Session,
) -> Channel:
    from placet.adapters.reaching import ReachingTransport
    from placet.adapters.transports.mcp.streamable import StreamableChannel

    credential = way.credential if tenant is None else way.credential_by_tenant.get(tenant, way.credential)
    transport: httpx.AsyncBaseTransport = ReachingTransport(
        way.network, ca_file=way.ca_file, max_connections=_MOST_CONNECTIONS, keep_seconds=_KEEP_SECONDS
    )
    if credential is not None and credential.form is CredentialForm.OAUTH:
        from placet.adapters.transports.mcp.authorizing import Authorized
        from placet.adapters.transports.mcp.token_file import TokenFile

        transport = Authorized(way.url, transport, TokenFile(Path(credential.secret.name)))
    return OverHttp(
        StreamableChannel(
            way.url,
            transport,
            shown=lambda: shown(credential),
            connect_seconds=bounds.connect_seconds,
            most_bytes=bounds.max_message_bytes,
            clock=clock,
            share=Share(attention),
            awaits=session.awaits,
            heard=session.heard,
            failed=session.failed,
            flooded=session.flooded,
            retired=session.retired,
            missed=session.missed,
        )
    )


def shown(credential: Credential | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Headers and members of the query that let us in.

    Raises:
        SecretMissing: it is not where it should be.
    """
    if credential is None or credential.form is CredentialForm.OAUTH:  # the transport shows that itself
        return {}, {}
    secret = secret_of(credential.secret)
    match credential.form:
        case CredentialForm.BEARER:
            return {"authorization": f"Bearer {secret}"}, {}
        case CredentialForm.BASIC:
            pair = base64.b64encode(f"{credential.user or ''}:{secret}".encode()).decode("ascii")
            return {"authorization": f"Basic {pair}"}, {}
        case CredentialForm.HEADER:
            return {credential.name or "authorization": secret}, {}
        case CredentialForm.QUERY:
            return {}, {credential.name or "key": secret}
