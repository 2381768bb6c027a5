"""An operator who lets the gateway in at an upstream, in a browser that needs no clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.shared.auth import AuthorizationCodeResult

from placet.adapters.reaching import ReachingTransport
from placet.adapters.transports.mcp.authorizing import Client, sign_in
from placet.adapters.transports.mcp.token_file import TokenFile
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import Credential, CredentialForm

REDIRECT_URL = "http://127.0.0.1:8914/callback"
DESCRIBED_AT = "https://conformance-test.local/client-metadata.json"


class Operator:
    def __init__(self, url: str, folder: Path, told: dict[str, Any]) -> None:
        known = (told["client_id"], told.get("client_secret")) if "client_id" in told else None
        self._url = url
        self._client = Client(redirect_url=REDIRECT_URL, known_as=known, described_at=DESCRIBED_AT)
        self._tokens = TokenFile(folder / "tokens.json")
        self._came_back_with = AuthorizationCodeResult(code="", state=None)
        self.credential = Credential(
            form=CredentialForm.OAUTH, secret=SecretRef(place=SecretPlace.FILE, name=str(folder / "tokens.json"))
        )

    @property
    def is_asked_for_more(self) -> bool:
        return self._tokens.missing() is not None

    async def signs_in(self) -> None:
        """
        Raises:
            SignInFailed: something about the server, or about what came back, does not hold.
        """
        transport = ReachingTransport(Network.LOOPBACK)
        try:
            await sign_in(
                self._url, transport, self._tokens, self._client, open_page=self._opens, come_back=self._comes_back
            )
        finally:
            await transport.aclose()

    async def _opens(self, page: str) -> None:
        """The page sends its visitor straight back; nothing listens there, since the address says it all."""
        async with httpx.AsyncClient(follow_redirects=False, trust_env=False) as browser:
            answer = await browser.get(page)
        said = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
        self._came_back_with = AuthorizationCodeResult(
            code=said.get("code", ""), state=said.get("state"), iss=said.get("iss")
        )

    async def _comes_back(self) -> AuthorizationCodeResult:
        return self._came_back_with
