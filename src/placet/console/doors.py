"""Who may come in, and which posts are a person's own.

The cookie names a session; nothing else in a request says who it is. A post counts only if it comes from a page of ours
(its origin), carries the word of its own session, and is an ordinary form. GET and HEAD change nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from starlette.requests import ClientDisconnect, Request

from placet.errors import MisuseError, SignInRefused
from placet.ports.sessions import ConsoleSession, Sessions

COOKIE = "__Host-placet"
DEV_COOKIE = "placet-dev"
"""Over http on loopback, where a browser keeps no `__Host-` cookie."""
MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 64
FORM_SECONDS = 15.0
"""How long a browser may take to send a form."""
_FORM = "application/x-www-form-urlencoded"
_PLACE = re.compile(r"[A-Za-z0-9_.~%/=&?+:,*-]{1,1500}")
_SAME_SITE = frozenset({"same-origin", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAForm(Exception):
    """A post that is none of ours: nothing was done. `code` says why, `status` in HTTP's words."""

    code: str
    status: int


class Doors:
    """Lets people in and out, and forms through."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        root: str,
        is_dev: bool,
        form_seconds: float = FORM_SECONDS,
        public_url: str | None = None,
    ) -> None:
        self._sessions = sessions
        self._public_url = public_url
        self._form_seconds = form_seconds
        self._root = root
        self._is_dev = is_dev

    @property
    def cookie_name(self) -> str:
        return DEV_COOKIE if self._is_dev else COOKIE

    async def session_of(self, request: Request) -> ConsoleSession | None:
        """Whose request it is; None for nobody's."""
        return await self._session(request, self._sessions.session_of)

    async def glance(self, request: Request) -> ConsoleSession | None:
        """The same, of what an open page asks by itself: nobody being there must not keep a session from ending."""
        return await self._session(request, self._sessions.glance)

    async def _session(
        self, request: Request, look: Callable[[str], Awaitable[ConsoleSession]]
    ) -> ConsoleSession | None:
        cookie = self.cookie(request, self.cookie_name)
        if not cookie:
            return None
        try:
            return await look(cookie)
        except SignInRefused:
            return None

    async def redeem(self, link: str) -> str:
        """The cookie of a session that a one-time link opens.

        Raises:
            SignInRefused: it opens none.
        """
        return (await self._sessions.redeem(link)).cookie

    async def sign_out(self, request: Request) -> None:
        await self._sessions.end(self.cookie(request, self.cookie_name))

    def cookie(self, request: Request, name: str) -> str:
        """The value of the one cookie of exactly this name. Two of it, or a name that is only read as it, are
        nobody's: another site of the same domain may have set them.
        """
        said = [part for header in request.headers.getlist("cookie") for part in header.split(";")]
        found = [value for key, _, value in (part.strip(" \t").partition("=") for part in said) if key == name]
        return found[0] if len(found) == 1 else ""

    async def form(self, request: Request, session: ConsoleSession | None) -> dict[str, str]:
        """The fields of a post; each once.

        Raises:
            NotAForm: it is not a form of this site, of this session, or of a sane size.
        """
        if not _is_from_here(request, self._public_url):
            raise NotAForm(code="foreign_origin", status=403)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise NotAForm(code="not_a_form", status=415)
        fields = _fields(await _body(request, self._form_seconds))
        if session is not None and not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
            raise NotAForm(code="not_your_form", status=403)
        return fields

    def place_after(self, wanted: str) -> str:
        """Where to go after signing in: a place of the console, whatever was asked for."""
        inside = f"{self._root}/"
        is_ours = wanted.startswith(inside) and _PLACE.fullmatch(wanted) is not None
        path = unquote(wanted.partition("?")[0])  # a browser reads `%2e%2e` as two dots
        return wanted if is_ours and "//" not in wanted and "/../" not in f"{path}/" else inside


def _is_from_here(request: Request, public_url: str | None) -> bool:
    """Whether a page of this very site sent it. Browsers say so in one header or the other, and scripts cannot."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in _SAME_SITE:
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return site is not None
    if public_url is not None:
        return origin == public_url
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and host == request.headers.get("host")


async def _body(request: Request, seconds: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    code, status = "not_a_form", 400
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > MAX_FORM_BYTES:
                    raise NotAForm(code="too_long", status=413)
                parts.append(part)
    except ClientDisconnect:
        pass
    except TimeoutError:
        code, status = "too_slow", 408
    else:
        return b"".join(parts)
    raise NotAForm(code=code, status=status)


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body), errors="strict",
            max_num_fields=MAX_FORM_FIELDS,
        )  # fmt: skip
    except ValueError:
        pairs = None
    if pairs is None or len({name for name, _ in pairs}) != len(pairs):
        raise NotAForm(code="not_a_form", status=400)
    return dict(pairs)


def text_of(fields: dict[str, str], name: str, *, most: int) -> str:
    """A field as text, line ends as they were typed on any system.

    Raises:
        MisuseError: it is longer than `most` characters.
    """
    text = fields.get(name, "").replace("\r\n", "\n").strip()
    if len(text) > most:
        raise MisuseError(f"At most {most} characters.")
    return text
