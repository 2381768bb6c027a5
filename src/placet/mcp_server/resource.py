"""This door as a protected resource: what it is called, who issues tokens for it, and which hosts and pages ask it.

Source: RFC 9728; MCP, authorization and transports (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from placet.model.issuers import Issuer
from placet.model.json import JsonObject
from placet.model.principal import Standing
from placet.rules.serving import MCP_PATH, host_of

PATH: Final = MCP_PATH
METADATA: Final = "/.well-known/oauth-protected-resource"
METADATA_PATHS: Final = frozenset({METADATA, METADATA + PATH})
_LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The door as the world knows it.

    Attributes:
        site: scheme, host and port; what others put before this door's path.
        audience: what has to stand in `aud` of a token for it.
        issuers: whose tokens they are.
        is_public: whether the deployment has said what the site is called; otherwise it is this machine's alone.
    """

    site: str
    audience: str
    issuers: tuple[str, ...] = ()
    is_public: bool = False

    @property
    def url(self) -> str:
        return self.site + PATH

    @property
    def metadata_url(self) -> str:
        return self.site + METADATA + PATH

    def metadata(self) -> JsonObject:
        """What `/.well-known/oauth-protected-resource` says."""
        return {
            "resource": self.url,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": "placet",
        }

    def is_host(self, host: str) -> bool:
        """Whether a request to this `Host` is meant for us: a page of somebody else's site that has had its name
        pointed here is not."""
        host = host.lower()
        return (self.is_public and host == host_of(self.site)) or _LOOPBACK.fullmatch(host) is not None

    def is_origin(self, origin: str) -> bool:
        """Whether a browser's page from there may ask: this site's own, or this machine's."""
        origin = origin.lower()
        scheme, _, host = origin.partition("://")
        is_local = scheme in ("http", "https") and _LOOPBACK.fullmatch(host) is not None
        return is_local or (self.is_public and origin == self.site)


def issuers_of_agents(issuers: Iterable[Issuer]) -> tuple[str, ...]:
    """Where a client gets a token that is good here: a person's own sign-in is not."""
    return tuple(dict.fromkeys(each.issuer for each in issuers if each.standing is Standing.AGENT))
