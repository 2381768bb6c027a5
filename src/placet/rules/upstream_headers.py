"""Headers of requests to upstreams that neither a deployment nor an argument sets."""

from __future__ import annotations

from typing import Final

OF_THE_MESSAGE: Final = frozenset(
    {
        "connection", "content-encoding", "content-length", "cookie", "date", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "via",
    }
)  # fmt: skip
"""What says how a message travels."""
