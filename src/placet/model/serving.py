"""Where a process of the front doors listens, and as whom the world knows it. All of it is the deployment's word."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8420


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An address of this machine, and a port there; 0 lets the system choose."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a listener shows for itself, as PEM files: the certificate with what leads up to it, and its key."""

    chain: Path
    key: Path


class ResumedTraces(Enum):
    """Where the span of an MCP call belongs that goes on after a person has decided; a link leads to the other trace.

    SAME_TRACE: the trace in which it was asked for first.
    LINKED: the trace of the message that came back.
    """

    SAME_TRACE = "same_trace"
    LINKED = "linked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What `[serve]` says.

    Attributes:
        public_url: this site as browsers and issuers know it: https, host and port. None: nobody was told.
        trusted_proxies: addresses, or networks, whose word on where a request came from is believed.
        certificate: for TLS of its own; without one somebody in front ends it.
        mcp: whether MCP clients are served beside the API and the console.
        mcp_audience: what has to stand in `aud` of a token for MCP; the address of that door if absent.
        mcp_resumed_traces: in which trace a call goes on after a person has decided.
        metrics_at: where the numbers are served to whoever can reach it; None leaves them to `/metrics` and its scope.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    certificate: Certificate | None = None
    metrics_at: Place | None = None
    mcp: bool = False
    mcp_audience: str | None = None
    mcp_resumed_traces: ResumedTraces = ResumedTraces.SAME_TRACE
