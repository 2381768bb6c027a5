"""The console as one application: its addresses, its doors, and what happens when something goes wrong behind them.

Looking (GET, HEAD) changes nothing. A post is taken from a page of this site, in its own session; then the browser is
sent on to look. Faults are told in fixed sentences, never in the words of an exception that is not ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from placet.console.doors import FORM_SECONDS, Doors, NotAForm
from placet.console.drawing import environment
from placet.console.headers import protect
from placet.console.pages import audit, decision, effects, inbox, operating
from placet.console.visit import Visit, new_nonce
from placet.engine.faults import told
from placet.engine.gate import Gate
from placet.errors import DecisionRefused, MisuseError, NotFound, PlacetError, SignInRefused, StoreError
from placet.model.waking import approvals_topic
from placet.ports.clock import Clock
from placet.ports.sessions import ConsoleSession, Sessions
from placet.ports.wakeups import Wakeup, pause

Page = Callable[[Visit], Awaitable[Response]]
WhoseRequest = Callable[[Request], Awaitable[ConsoleSession | None]]

_log = logging.getLogger("placet.console")
_STATIC = Path(__file__).parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_STATIC_NAMES = frozenset(path.name for path in _STATIC.iterdir() if path.suffix in _KINDS)
LOOK_SECONDS = 5.0
"""How often an open page looks for changes where nobody wakes it."""
_BEAT_SECONDS = 15.0

_LOOKS: dict[str, Page] = {
    "/": inbox.inbox,
    "/news": inbox.news,
    "/approvals/{approval_id}": decision.show,
    "/effects": effects.effects,
    "/effect": effects.effect,
    "/runs": audit.runs,
    "/run": audit.run,
    "/audit": audit.audit,
    "/audit/verify": audit.verify,
    "/audit/events.jsonl": audit.export,
    "/tools": operating.tools,
    "/stops": operating.stops,
    "/me": operating.me,
}
_POSTS: dict[str, Page] = {
    "/approvals/{approval_id}/decision": decision.decide,
    "/approvals/{approval_id}/edit": decision.edit,
    "/approvals/{approval_id}/withdrawal": decision.withdraw,
    "/approvals/{approval_id}/vote-withdrawal": decision.withdraw_vote,
    "/effect/settlement": effects.settle,
    "/effect/probe": effects.probe,
    "/stops/stop": operating.stop,
    "/stops/resume": operating.resume,
}


class Console:
    """The console of one gate, as an ASGI application for the event loop that the gate was opened in.

    Args:
        root: where it is mounted; all its links begin with it.
        is_dev: whether it is served over http on loopback, so that its cookie cannot be a `__Host-` one.
        form_seconds: how long a browser may take to send a form.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        sessions: Sessions,
        clock: Clock,
        root: str = "/console",
        is_dev: bool = False,
        form_seconds: float = FORM_SECONDS,
    ) -> None:
        self.root = root
        self._closing = asyncio.Event()
        self._gate = gate
        self._clock = clock
        self._is_dev = is_dev
        self._doors = Doors(sessions, root=root, is_dev=is_dev, form_seconds=form_seconds)
        self._templates: Environment = environment()
        self._application = self._routed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """No exception leaves: one that nobody expected is an answer without its text, and a line with its name."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, receive, sending)
        except Exception as fault:
            _log.error("the console failed", extra=told(fault))
            if not begun and scope["type"] == "http":
                await self._plain("internal_fault", 500)(scope, receive, send)

    def close(self) -> None:
        """Let open pages go: nobody is told anything live any more."""
        self._closing.set()

    def _routed(self) -> Starlette:
        looks = [Route(path, self._look(page), methods=["GET"]) for path, page in _LOOKS.items()]
        posts = [Route(path, self._post(page), methods=["POST"]) for path, page in _POSTS.items()]
        inside = [
            *looks,
            *posts,
            Route("/live", self._live, methods=["GET"]),
            Route("/sign-in", self._sign_in_page, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{name}", self._static, methods=["GET"]),
            Route("/{path:path}", self._nowhere, methods=["GET", "POST"]),
        ]
        made = Starlette(
            routes=[Route(self.root, self._front, methods=["GET"]), Mount(self.root, routes=inside)],
            exception_handlers={HTTPException: self._not_routed},
        )
        made.router.redirect_slashes = False  # its redirects go to whatever host the request names
        return made

    # ------------------------------------------------------------ looks and posts

    def _look(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        seen_by = self._watch if page is inbox.news else self._visit

        async def look(request: Request) -> Response:
            visit = await seen_by(request)
            return self._to_sign_in(request) if visit is None else await self._answered(visit, page)

        return look

    def _post(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def post(request: Request) -> Response:
            visit = await self._visit(request)
            if visit is None:
                return self._plain("signed_out", 401)
            try:
                form = await self._doors.form(request, visit.session)
            except NotAForm as refused:
                return self._plain(refused.code, refused.status)
            return await self._answered(replace(visit, form=form), page)

        return post

    async def _visit(self, request: Request) -> Visit | None:
        return await self._visit_of(request, self._doors.session_of)

    async def _watch(self, request: Request) -> Visit | None:
        """A visit of a page that is open, and not of its person."""
        return await self._visit_of(request, self._doors.glance)

    async def _visit_of(self, request: Request, whose: WhoseRequest) -> Visit | None:
        try:
            session = await whose(request)
        except StoreError:
            session = None
        if session is None:
            return None
        return Visit(request=request, gate=self._gate, session=session, templates=self._templates, root=self.root)

    async def _answered(self, visit: Visit, page: Page) -> Response:
        try:
            answer = await page(visit)
        except NotFound as absent:
            answer = self._fault(visit, 404, "There is no such thing", str(absent))
        except MisuseError as misuse:
            answer = self._fault(visit, 400, "That cannot be done", str(misuse))
        except DecisionRefused as refusal:
            status = 403 if refusal.code == "scope_missing" else 409
            answer = self._fault(visit, status, "That was refused", f"{refusal} {refusal.hint}")
        except StoreError as fault:
            _log.warning("a page had no store", extra={"code": fault.code})
            answer = self._fault(visit, 503, "The store does not answer", f"{fault} {fault.hint}")
        except PlacetError as fault:
            answer = self._fault(visit, 500, "That did not work", f"{fault} {fault.hint}")
        except Exception as fault:
            _log.error("a page failed", extra=told(fault))
            answer = self._fault(visit, 500, "That did not work", "The fault is in the server's log.")
        protect(answer.headers, nonce=visit.nonce)
        return answer

    def _fault(self, visit: Visit, status: int, title: str, words: str) -> Response:
        return visit.page("fault.html.jinja", status=status, title=title, said=words.strip())

    # ------------------------------------------------------------ live

    async def _live(self, request: Request) -> Response:
        """Says that something changed; the page asks what. Ends with the session."""
        visit = await self._watch(request)
        if visit is None:
            return self._plain("signed_out", 401)
        answer = StreamingResponse(self._changes(visit), media_type="text/event-stream")
        protect(answer.headers, nonce=visit.nonce)
        answer.headers["X-Accel-Buffering"] = "no"
        return answer

    async def _changes(self, visit: Visit) -> AsyncIterator[str]:
        before: frozenset[str] | None = None
        quiet = 0.0
        with self._gate.store.waiting_for(approvals_topic(visit.by.tenant)) as wakeup:
            while not self._closing.is_set():
                try:
                    if await self._doors.glance(visit.request) is None:
                        yield "event: signed-out\ndata: 1\n\n"
                        return
                    pending = await self._gate.desk.pending(by=visit.by, limit=inbox.MOST_ROWS)
                except PlacetError:
                    pending = None
                if pending is not None:
                    now = frozenset(f"{view.approval_id}{view.state}" for view in pending)
                    if now != before:
                        before, quiet = now, 0.0
                        yield f"event: approvals\ndata: {len(pending)}\n\n"
                if quiet >= _BEAT_SECONDS:
                    quiet = 0.0
                    yield ": still here\n\n"
                await self._pause(wakeup)
                quiet += LOOK_SECONDS

    async def _pause(self, wakeup: Wakeup) -> None:
        """Until somebody says that something changed, it is time to look, or the console closes."""
        resting = asyncio.ensure_future(pause(wakeup, seconds=LOOK_SECONDS, clock=self._clock))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((resting, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            resting.cancel()
            closing.cancel()

    # ------------------------------------------------------------ in and out

    def _to_sign_in(self, request: Request) -> Response:
        """To the door; a part of a page that finds nobody signed in takes the whole page there."""
        if request.headers.get("hx-request") == "true":
            answer: Response = PlainTextResponse("", status_code=401, headers={"HX-Redirect": f"{self.root}/sign-in"})
        else:
            query = f"?{request.url.query}" if request.url.query else ""
            wanted = self._doors.place_after(f"{self.root}{request.scope['path'].removeprefix(self.root)}{query}")
            answer = RedirectResponse(f"{self.root}/sign-in?{urlencode({'next': wanted})}", status_code=303)
        protect(answer.headers, nonce=None)
        return answer

    async def _sign_in_page(self, request: Request) -> Response:
        """The secret of a one-time link is behind its `#`, which no browser sends: a script puts it into the form."""
        return self._door(request, said="", status=200)

    async def _sign_in(self, request: Request) -> Response:
        try:
            form = await self._doors.form(request, None)
            cookie = await self._doors.redeem(form.get("link", "").strip())
        except NotAForm as refused:
            return self._plain(refused.code, refused.status)
        except SignInRefused:
            return self._door(request, said="This link was used already, or is too old. Ask for a new one.", status=403)
        except StoreError:
            return self._door(request, said="The store does not answer. Try again.", status=503)
        answer = RedirectResponse(self._doors.place_after(form.get("next", "")), status_code=303)
        answer.set_cookie(
            self._doors.cookie_name, cookie, path="/", secure=not self._is_dev, httponly=True, samesite="strict"
        )
        protect(answer.headers, nonce=None)
        return answer

    async def _sign_out(self, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is not None:
            try:
                await self._doors.form(request, visit.session)
            except NotAForm as refused:
                return self._plain(refused.code, refused.status)
            await self._doors.sign_out(request)
        answer = RedirectResponse(f"{self.root}/sign-in?done=signed_out", status_code=303)
        answer.delete_cookie(
            self._doors.cookie_name, path="/", secure=not self._is_dev, httponly=True, samesite="strict"
        )
        protect(answer.headers, nonce=None)
        answer.headers["Clear-Site-Data"] = '"cache"'
        return answer

    def _door(self, request: Request, *, said: str, status: int) -> Response:
        nonce = new_nonce()
        wanted = self._doors.place_after(request.query_params.get("next", ""))
        text = self._templates.get_template("sign_in.html.jinja").render(
            root=self.root,
            nonce=nonce,
            said=said,
            next=wanted,
            is_dev=self._is_dev,
            done=request.query_params.get("done") == "signed_out",
        )
        answer = HTMLResponse(text, status_code=status)
        protect(answer.headers, nonce=nonce)
        return answer

    # ------------------------------------------------------------ the rest

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC_NAMES:
            return self._plain("not_found", 404)
        path = _STATIC / name
        answer = FileResponse(path, media_type=_KINDS[path.suffix])
        protect(answer.headers, nonce=None)
        answer.headers["Cache-Control"] = "no-cache"  # asked for again each time, and answered with 304
        return answer

    async def _front(self, request: Request) -> Response:
        """The address as people type it."""
        answer = RedirectResponse(f"{self.root}/", status_code=303)
        protect(answer.headers, nonce=None)
        return answer

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        """What the router says by itself: not this method."""
        is_method = isinstance(error, HTTPException) and error.status_code == 405
        answer = self._plain("method_not_allowed", 405) if is_method else self._plain("not_found", 404)
        if isinstance(error, HTTPException) and is_method:
            answer.headers["Allow"] = (error.headers or {}).get("Allow", "GET")
        return answer

    async def _nowhere(self, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is None:
            return self._to_sign_in(request) if request.method == "GET" else self._plain("signed_out", 401)
        answer = self._fault(visit, 404, "There is no such page", "Perhaps it was moved, or the address is cut.")
        protect(answer.headers, nonce=visit.nonce)
        return answer

    def _plain(self, code: str, status: int) -> Response:
        answer = PlainTextResponse(f"{code}\n", status_code=status)
        if status in (408, 413):
            answer.headers["Connection"] = "close"  # the rest of the body is not waited for
        protect(answer.headers, nonce=None)
        return answer
