"""Coming in and going out: a one-time link, an issuer's own pages, one's own sessions, and signing out.

    sign-in page ─ a way ─► begun: sealed, kept by this browser ─► the issuer ─► back: a code ─► a session
                 └ a link ─────────────────────────────────────────────────────────────────────► a session

Who comes back from an issuer comes from another site, and browsers send no strict cookie on such a way, redirects
included: so what comes back is answered by a page, which goes on by itself. The cookie of an attempt alone is lax. What
an issuer says is never shown, in no words of its own. Source: ADR-0043.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from placet.console.doors import Doors, NotAForm
from placet.console.headers import protect
from placet.console.visit import new_nonce
from placet.errors import BoundaryUnavailable, MisuseError, NotFound, PlacetError, SignInRefused, StoreError
from placet.model.issuer_sign_in import Shown
from placet.ports.issuer_sign_in import IssuerSignIn
from placet.ports.sessions import ConsoleSession, Sessions
from placet.rules.issuer_sign_in import NOT_BEGUN

ATTEMPT_COOKIE: Final = "__Host-placet-sign-in"
ALL: Final = "all"
"""What a form says to end every session of its person."""
_ATTEMPT_SECONDS: Final = 600
_MOST_WORDS: Final = 40
_LINK_REFUSED: Final = "This link was used already, or is too old. Ask for a new one."
_NO_STORE: Final = "The store does not answer. Try again."
_DONE: Final = {
    "signed_out": "You are signed out.",
    "signed_out_everywhere": "You are signed out, here and in every other browser.",
}


class Entrance:
    """The pages before the pages. Everything of a request that says where it is, or was sent to, is left alone."""

    def __init__(
        self,
        doors: Doors,
        *,
        sessions: Sessions,
        issuers: IssuerSignIn | None,
        templates: Environment,
        root: str,
        is_dev: bool,
    ) -> None:
        self._doors = doors
        self._sessions = sessions
        self._issuers = None if is_dev else issuers  # no `__Host-` cookie over http, and a link there already
        self._templates = templates
        self._root = root
        self._is_dev = is_dev

    def routes(self) -> list[Route]:
        return [
            Route("/sign-in", self._page, methods=["GET"]),
            Route("/sign-in", self._by_link, methods=["POST"]),
            Route("/sign-in/through/{name}", self._begin, methods=["GET"]),
            Route("/sign-in/back/{name}", self._back, methods=["GET"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/me/sessions", self._end_own, methods=["POST"]),
        ]

    # ------------------------------------------------------------ in

    async def _page(self, request: Request) -> Response:
        """The secret of a one-time link is behind its `#`, which no browser sends: a script puts it into the form."""
        return self._door(request, said="", status=200)

    async def _by_link(self, request: Request) -> Response:
        try:
            form = await self._doors.form(request, None)
            cookie = await self._doors.redeem(form.get("link", "").strip())
        except NotAForm as refused:
            return plain(refused.code, refused.status)
        except SignInRefused:
            return self._door(request, said=_LINK_REFUSED, status=403)
        except StoreError:
            return self._door(request, said=_NO_STORE, status=503)
        answer = RedirectResponse(self._doors.place_after(form.get("next", "")), status_code=303)
        self._keep(answer, cookie)
        protect(answer.headers, nonce=None)
        return answer

    async def _begin(self, request: Request) -> Response:
        """To the issuer. Nothing is kept of it here, so whoever is sent along this way by somebody loses nothing."""
        if self._issuers is None:
            return plain("not_found", 404)
        if not _is_going_there(request):
            return plain("not_a_look", 405)
        wanted = self._doors.place_after(request.query_params.get("next", ""))
        try:
            begun = await self._issuers.begin(request.path_params["name"], wanted=wanted)
        except NotFound:
            return plain("not_found", 404)
        except BoundaryUnavailable as absent:
            return self._door(request, said=_words(absent), status=503)
        answer = RedirectResponse(begun.address, status_code=303)
        answer.set_cookie(
            ATTEMPT_COOKIE, begun.kept, max_age=_ATTEMPT_SECONDS, path="/", secure=True, httponly=True, samesite="lax"
        )
        protect(answer.headers, nonce=None)
        return answer

    async def _back(self, request: Request) -> Response:
        """A look that signs somebody in, as the protocol has it; so only a person's own look, and none ahead of it."""
        if self._issuers is None:
            return plain("not_found", 404)
        if not _is_going_there(request):
            return plain("not_a_look", 405)
        kept = self._doors.cookie(request, ATTEMPT_COOKIE)
        try:
            words = parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=_MOST_WORDS)
            shown = await self._issuers.finish(request.path_params["name"], words, kept=kept)
            opened = await self._sessions.open(shown.principal, through=shown.through)
        except NotFound:
            return plain("not_found", 404)
        except SignInRefused as refused:
            answer = self._door(request, said=_words(refused), status=403)
            if refused.code == NOT_BEGUN:
                return answer  # no answer to the attempt that this browser keeps, which may still be under way
        except BoundaryUnavailable as absent:
            answer = self._door(request, said=_words(absent), status=503)
        except StoreError:
            answer = self._door(request, said=_NO_STORE, status=503)
        except ValueError:
            return plain("too_long", 400)
        else:
            answer = self._onward(shown)
            self._keep(answer, opened.cookie)
        answer.delete_cookie(ATTEMPT_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
        return answer

    def _onward(self, shown: Shown) -> Response:
        place = self._doors.place_after(shown.wanted)
        text = self._templates.get_template("onward.html.jinja").render(
            root=self._root, place=place, title="You are signed in", what="Go on", seconds=0
        )
        answer = HTMLResponse(text)
        protect(answer.headers, nonce=None)
        answer.headers["Referrer-Policy"] = "no-referrer"  # the address holds the code
        return answer

    def _keep(self, answer: Response, cookie: str) -> None:
        answer.set_cookie(
            self._doors.cookie_name, cookie, path="/", secure=not self._is_dev, httponly=True, samesite="strict"
        )

    # ------------------------------------------------------------ out

    async def _sign_out(self, request: Request) -> Response:
        match await self._own(request):
            case Response() as refusal:
                return refusal
            case None:
                return await self._gone(None, "signed_out")
            case session, _:
                await self._doors.sign_out(request)
                return await self._gone(session, "signed_out")

    async def _end_own(self, request: Request) -> Response:
        """One of the person's sessions, or all of them; the one that asks may be among them."""
        match await self._own(request):
            case Response() as refusal:
                return refusal
            case None:
                return plain("signed_out", 401)
            case session, form:
                return await self._ended(session, form.get("name", ""))

    async def _ended(self, session: ConsoleSession, name: str) -> Response:
        try:
            if name == ALL:
                await self._sessions.end_all(session.principal)
            else:
                await self._sessions.end_named(session.principal, name)
        except (NotFound, MisuseError):
            pass  # it has ended by itself, or was ended elsewhere: that it is over is what was asked for
        except StoreError:
            return plain("store_unavailable", 503)
        if name in (ALL, session.name):
            return await self._gone(session, "signed_out_everywhere" if name == ALL else "signed_out")
        answer = RedirectResponse(f"{self._root}/me?done=session_ended", status_code=303)
        protect(answer.headers, nonce=None)
        return answer

    async def _own(self, request: Request) -> tuple[ConsoleSession, dict[str, str]] | Response | None:
        """Whose own post it is, and its fields; what is answered instead; None where nobody is signed in.

        A post from another site comes without the strict cookie, and as nobody's it must not take that cookie away.
        """
        try:
            session = await self._doors.session_of(request)
            form = await self._doors.form(request, session)
            return None if session is None else (session, form)
        except NotAForm as refused:
            return plain(refused.code, refused.status)
        except StoreError as fault:
            return plain(fault.code, 503)

    async def _gone(self, session: ConsoleSession | None, done: str) -> Response:
        """To the sign-in page; or, where that was wanted, on to the issuer's own sign-out."""
        through = session.through if session is not None else None
        onward = None if self._issuers is None else await self._issuers.way_out(through)
        if onward is None:
            answer: Response = RedirectResponse(f"{self._root}/sign-in?{urlencode({'done': done})}", status_code=303)
        else:
            text = self._templates.get_template("onward.html.jinja").render(
                root=self._root, place=onward, title=_DONE[done], what="Go on, to sign out there as well", seconds=2
            )
            answer = HTMLResponse(text)
        protect(answer.headers, nonce=None)
        answer.delete_cookie(
            self._doors.cookie_name, path="/", secure=not self._is_dev, httponly=True, samesite="strict"
        )
        answer.headers["Clear-Site-Data"] = '"cache"'
        return answer

    # ------------------------------------------------------------ the sign-in page

    def _door(self, request: Request, *, said: str, status: int) -> Response:
        nonce = new_nonce()
        wanted = self._doors.place_after(request.query_params.get("next", ""))
        ways = () if self._issuers is None else self._issuers.ways
        text = self._templates.get_template("sign_in.html.jinja").render(
            root=self._root,
            nonce=nonce,
            said=said,
            next=wanted,
            ways=[
                (way.issuer, f"{self._root}/sign-in/through/{way.name}?{urlencode({'next': wanted})}") for way in ways
            ],
            takes_links=self._is_dev or not ways,
            is_dev=self._is_dev,
            done=_DONE.get(request.query_params.get("done", ""), ""),
        )
        answer = HTMLResponse(text, status_code=status)
        protect(answer.headers, nonce=nonce)
        return answer


def plain(code: str, status: int) -> Response:
    """An answer that is no page: a code of ours."""
    answer = PlainTextResponse(f"{code}\n", status_code=status)
    if status in (408, 413):
        answer.headers["Connection"] = "close"  # the rest of the body is not waited for
    protect(answer.headers, nonce=None)
    return answer


def _is_going_there(request: Request) -> bool:
    """Whether somebody goes to this page, and no page fetches, frames or draws it, or looks ahead."""
    return (
        request.method == "GET"
        and request.headers.get("sec-fetch-dest", "document") == "document"
        and "prefetch" not in request.headers.get("sec-purpose", "")
    )


def _words(error: PlacetError) -> str:
    """What a refusal says, what to do next, and its code, for whoever helps."""
    return f"{error} {error.hint} ({error.code})"
