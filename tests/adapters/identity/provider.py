"""An OpenID provider of our own: the issuer's keys, and in front of them its pages, its codes, and its ID tokens.

It holds clients to the protocol as strictly as it can: a code is good once, for its client, its address and its
verifier. What a wicked or broken provider would do is put in by each test.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from tests.adapters.identity.issuer import LocalIssuer, reply

CLIENT, SECRET = "placet-console", "s3cr#t/:+ %word"
SECRET_WORDS = "WORDS-OF-THE-PROVIDER-9c1f"


@dataclass
class Client:
    """A client as the provider knows it."""

    secret: str | None = SECRET
    addresses: list[str] = field(default_factory=list)


class LocalProvider(LocalIssuer):
    """
    Attributes:
        now: the instant that its tokens go by.
        clients: by their ids.
        person: what its ID tokens say besides; a test may change it.
        answered: changes the words that go back to the client's address.
        token_answer: stands in for the answer to a code.
    """

    def __init__(self, now: Callable[[], float], *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.now = now
        self.clients: dict[str, Client] = {CLIENT: Client()}
        self.person: dict[str, Any] = {"sub": "u-17", "amr": ["mfa"]}
        self.codes: dict[str, dict[str, str]] = {}
        self.forms: list[dict[str, str]] = []
        self.authorizations: list[str | None] = []
        self.ended: list[dict[str, str]] = []
        self.answered: Callable[[dict[str, str]], Iterable[tuple[str, str]]] = lambda words: words.items()
        self.token_answer: Callable[[dict[str, Any]], tuple[int, Any]] = lambda answer: (200, answer)
        self.shows_page = False
        self._count = 0
        self._lock = threading.Lock()
        self.discovery |= {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "end_session_endpoint": f"{self.url}/logout",
            "response_types_supported": ["code", "id_token"],
            "code_challenge_methods_supported": ["S256", "plain"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.add("k1")

    # ------------------------------------------------------------ what a browser sees

    def authorized(self, address: str, **words: str) -> str:
        """Where the person that comes with this request goes back to, with a code."""
        asked = dict(parse_qsl(urlsplit(address).query, strict_parsing=True))
        client = self.clients[asked["client_id"]]
        assert asked["redirect_uri"] in client.addresses, "not an address of this client"
        assert asked["response_type"] == "code" and "openid" in asked["scope"].split(" ")
        assert asked["code_challenge_method"] == "S256"
        with self._lock:
            self._count += 1
            code = f"code-{self._count}"
            self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url} | words
        return f"{asked['redirect_uri']}?{urlencode(list(self.answered(back)))}"

    def _usual(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        if path == "/authorize" and self.shows_page:
            back = escape(self.authorized(request.path))
            page = f'<!doctype html><html lang="en"><title>id</title><a href="{back}">Go on as u-17</a>'
            reply(request, page.encode(), content_type="text/html; charset=utf-8")
        elif path == "/authorize":
            reply(request, b"", status=302, location=self.authorized(request.path))
        elif path == "/logout":
            self.ended.append({name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()})
            reply(request, b"<!doctype html><title>out</title>Signed out there", content_type="text/html")
        else:
            super()._usual(request)

    # ------------------------------------------------------------ what a client sees

    def _posted(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("content-length") or 0)
        form = dict(parse_qsl(request.rfile.read(length).decode("ascii"), strict_parsing=True))
        self.forms.append(form)
        self.authorizations.append(request.headers.get("authorization"))
        if urlsplit(request.path).path != "/token" or not self._is_client(request, form):
            reply(
                request, json.dumps({"error": "invalid_client", "error_description": SECRET_WORDS}).encode(), status=401
            )
            return
        with self._lock:
            asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or not self._fits(form, asked):
            reply(
                request, json.dumps({"error": "invalid_grant", "error_description": SECRET_WORDS}).encode(), status=400
            )
            return
        said = {"aud": asked["client_id"], "nonce": asked["nonce"], **self.person}
        answer = {"access_token": "at-" + SECRET_WORDS, "token_type": "Bearer", "expires_in": 300}
        status, document = self.token_answer(answer | {"id_token": self.token(self.now(), **said)})
        reply(request, document if type(document) is bytes else json.dumps(document).encode(), status=status)

    def _is_client(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> bool:
        said = request.headers.get("authorization", "")
        if said.startswith("Basic "):
            name, _, secret = base64.b64decode(said[6:]).decode("ascii").partition(":")
            shown = unquote(name.replace("+", " ")), unquote(secret.replace("+", " "))
        else:
            shown = form.get("client_id", ""), form.get("client_secret", "")
        client = self.clients.get(shown[0])
        return client is not None and shown[1] == (client.secret or "")

    def _fits(self, form: dict[str, str], asked: dict[str, str]) -> bool:
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return (
            form.get("grant_type") == "authorization_code"
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
