"""An OIDC issuer of our own: real keys, its JWKS and discovery over HTTP in another thread, and whatever goes wrong."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwk, jws


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def a_key(kid: str, kind: str = "ES256") -> Any:
    match kind:
        case "ES256" | "ES384" | "ES512":
            curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[kind]
            return jwk.ECKey.generate_key(curve, {"kid": kid, "use": "sig"})
        case "Ed25519":
            return jwk.OKPKey.generate_key("Ed25519", {"kid": kid})
        case _:
            return jwk.RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


class LocalIssuer:
    """Answers on a port of the kernel's choosing.

    Attributes:
        asked: how often each path was asked for.
        answer: what stands in for the usual answer to every request, if anything.
    """

    def __init__(
        self, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1", name: str | None = None
    ) -> None:
        """
        Args:
            name: of the host in the issuer's addresses, if it is not the address itself.
        """
        self.asked: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.keys: dict[str, tuple[str, Any]] = {}
        self.extra: list[Any] = []
        self.discovery: dict[str, Any] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked[self.path] += 1
                issuer.headers.append({name.lower(): value for name, value in self.headers.items()})
                (issuer.answer or issuer._usual)(self)

            def do_POST(self) -> None:
                issuer.asked[self.path] += 1
                issuer.headers.append({name.lower(): value for name, value in self.headers.items()})
                (issuer.answer or issuer._posted)(self)

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Server((host, 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{name or host}:{self._server.server_address[1]}"
        self.discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, kid: str, kind: str = "ES256") -> Any:
        key = a_key(kid, kind)
        self.keys[kid] = (kind, key)
        return key

    def document(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for _, key in self.keys.values()] + self.extra}

    def _usual(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/.well-known/openid-configuration":
            reply(request, json.dumps(self.discovery).encode())
        elif request.path == "/jwks":
            reply(request, json.dumps(self.document()).encode())
        else:
            reply(request, b"{}", status=404)

    def _posted(self, request: BaseHTTPRequestHandler) -> None:
        reply(request, b"{}", status=404)

    # ------------------------------------------------------------ tokens

    def claims(self, now: float, **changes: Any) -> dict[str, Any]:
        claims = {
            "iss": self.url, "aud": "placet", "sub": "u-17", "iat": int(now), "exp": int(now) + 300, **changes,
        }  # fmt: skip
        return {name: value for name, value in claims.items() if value is not ...}

    def token(self, now: float, *, kid: str = "k1", header: dict[str, Any] | None = None, **changes: Any) -> str:
        kind, key = self.keys[kid]
        head = {"alg": kind, "kid": kid, "typ": "JWT", **(header or {})}
        head = {name: value for name, value in head.items() if value is not ...}
        return signed(head, json.dumps(self.claims(now, **changes)).encode(), key, kind)


def signed(header: dict[str, Any], payload: bytes, key: Any, algorithm: str, *, raw_header: bytes | None = None) -> str:
    """Signed over exactly these bytes, whatever the header says; libraries would refuse to write half of it."""
    head = encoded(raw_header if raw_header is not None else json.dumps(header).encode())
    model = jws.JWSRegistry.algorithms[algorithm]
    signing_input = f"{head}.{encoded(payload)}"
    return f"{signing_input}.{encoded(model.sign(signing_input.encode(), key))}"  # type: ignore[attr-defined]


def reply(request: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    if "content_length" not in headers:
        request.send_header("content-length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def dripping(request: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for as long as anybody listens."""
    request.send_response(200)
    request.end_headers()
    try:
        for _ in range(600):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass
