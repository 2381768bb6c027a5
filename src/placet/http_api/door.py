"""The front door: what every request shares, and who stands there.

A door belongs to one gate and one event loop. It has no rules of its own: who somebody is, is the sign-in's word, and
what they may do is the engine's.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import Any, cast

from fastapi.security.base import SecurityBase
from starlette.requests import Request

from placet.engine.gate import Gate
from placet.errors import SignInRefused
from placet.http_api.lookout import Lookout
from placet.http_api.problems import RequestMalformed, TooOften
from placet.http_api.settings import HttpSettings
from placet.http_api.waiting import WaitingRoom
from placet.model import rates
from placet.model.principal import Principal, is_principal
from placet.ports.clock import Clock
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn

_CREDENTIAL = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_WAIT = re.compile(r"wait=(\d{1,6})")
_KEY = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,256})"')
_BARE_KEY = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{1,128}")
_MOST_KEY_CHARACTERS = 128


class Door:
    """One gate as HTTP sees it.

    Attributes:
        ending: set once this process ends; whoever waits then is answered at once.
        pages: what `GET /metrics` gives; None where nothing is measured.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        sign_in: SignIn,
        settings: HttpSettings,
        clock: Clock,
        pages: Callable[[], bytes] | None,
        rate_limiter: RateLimiter | None = None,
    ) -> None:
        self.gate = gate
        self.sign_in = sign_in
        self.rate_limiter = rate_limiter
        self.settings = settings
        self.clock = clock
        self.pages = pages
        self.ending = asyncio.Event()
        self.waiting = WaitingRoom(gate=gate, settings=settings, clock=clock, ending=self.ending)
        self.lookout = Lookout(gate=gate, clock=clock)
        self.wide_fields = gate.wide_fields

    def close(self) -> None:
        """Let nobody wait any longer."""
        self.ending.set()


def door_of(request: Request) -> Door:
    return cast(Door, request.app.state.door)


def request_id_of(request: Request) -> str:
    """The id this request goes by, as the guard took or minted it."""
    return str(request.scope["placet_request_id"])


class _Bearer(SecurityBase):
    """`Authorization: Bearer …`, as the OpenAPI document names it, and whom it stands for."""

    def __init__(self) -> None:
        from fastapi.openapi.models import HTTPBearer

        self.model: Any = HTTPBearer(description="An API key, or a token of a configured issuer.")
        self.scheme_name = "bearer"

    async def __call__(self, request: Request) -> Principal:
        principal = await _holder(request)
        await _require_admission(door_of(request), principal)
        return principal


async def _holder(request: Request) -> Principal:
    said = request.headers.getlist("authorization")
    if not said:
        raise SignInRefused(
            "The request says nobody's name.",
            code="sign_in_missing",
            hint="Send Authorization: Bearer, with an API key or a token of a configured issuer.",
        )
    scheme, _, credential = (said[0] if len(said) == 1 else "").partition(" ")
    if scheme.lower() != "bearer" or _CREDENTIAL.fullmatch(credential) is None:
        raise SignInRefused
    principal = await door_of(request).sign_in.principal_of(credential)
    if not is_principal(principal):
        raise SignInRefused
    return principal


async def require_still(request: Request, principal: Principal) -> None:
    """Ask again who stands there, after a while has passed.

    Raises:
        SignInRefused: nobody any more, or somebody else.
    """
    if await _holder(request) != principal:
        raise SignInRefused


async def is_still(request: Request, principal: Principal) -> bool:
    """Whether the same one still stands there."""
    try:
        await require_still(request, principal)
    except SignInRefused:
        return False
    return True


async def _require_admission(door: Door, principal: Principal) -> None:
    """Raises:
    TooOften: it comes too often; nothing else was looked at.
    """
    if door.rate_limiter is None:
        return
    match await door.rate_limiter.admit(principal):
        case rates.TooOften(retry_after_seconds=seconds):
            raise TooOften(headers={"Retry-After": str(max(1, math.ceil(seconds)))})
        case rates.Admitted():
            return


async def require_admissions(door: Door, principal: Principal, *, further: int) -> None:
    """Count what a request does as often as it would be counted in requests of its own, which is once already.

    Raises:
        TooOften: that is too often; nothing else was looked at.
    """
    for _ in range(further):
        await _require_admission(door, principal)


signed_in = _Bearer()
"""The dependency that names the principal of a request, or refuses it."""


def idempotency_key(request: Request) -> str | None:
    """The caller's own name for the operation: `Idempotency-Key`, a quoted RFC 8941 string or a bare word.

    Raises:
        RequestMalformed: there are two, or it is neither.
    """
    said = request.headers.getlist("idempotency-key")
    if not said:
        return None
    text = said[0].strip() if len(said) == 1 else ""
    quoted = _KEY.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted is not None else text
    if (quoted is not None or _BARE_KEY.fullmatch(text)) and len(key) <= _MOST_KEY_CHARACTERS:
        return key
    raise RequestMalformed(
        f"Idempotency-Key is one quoted string of 1 to {_MOST_KEY_CHARACTERS} printable ASCII characters.",
        code="idempotency_key_malformed",
    )


def preferred_wait(request: Request, settings: HttpSettings) -> float:
    """How long the client would wait for what is not over yet: `Prefer: wait=N`, at most what the settings allow.

    What cannot be read is no preference: RFC 7240 lets a server ignore it.
    """
    said = ",".join(request.headers.getlist("prefer"))
    found = next((match for part in re.split(r"[,;]", said) if (match := _WAIT.fullmatch(part.strip()))), None)
    return min(float(found[1]), settings.max_wait_seconds) if found is not None else 0.0


def refuse_repeated(request: Request, *, many: frozenset[str] = frozenset()) -> None:
    """Refuse a query that says one thing twice.

    Raises:
        RequestMalformed: it does.
    """
    names = [name for name, _ in request.query_params.multi_items()]
    if any(names.count(name) > 1 for name in set(names) - many):
        raise RequestMalformed("A parameter of the query is there twice.")


def same_tag(request: Request, name: str, tag: str) -> bool:
    """Whether `If-Match` or `If-None-Match` names this entity tag."""
    tags = [each.strip() for each in ",".join(request.headers.getlist(name)).split(",")]
    return "*" in tags or tag in tags or f"W/{tag}" in tags
