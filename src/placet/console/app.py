"""The console as one application: its addresses, its doors, and what happens when something goes wrong behind them.

Looking (GET, HEAD) changes nothing. A post is taken from a page of this site, in its own session; then the browser is
sent on to look. Faults are told in fixed sentences, never in the words of an exception that is not ours.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from placet.console import refusals
from placet.console.doors import FORM_SECONDS, Doors, NotAForm
from placet.console.drawing import environment
from placet.console.entrance import Entrance, plain
from placet.console.headers import protect
from placet.console.pages import audit, decision, effects, grants, inbox, operating, runs, several, standing, tools, why
from placet.console.visit import Visit
from placet.engine.faults import told
from placet.engine.gate import Gate
from placet.engine.listing import PEOPLE_FAILED
from placet.errors import AuditBusy, DecisionRefused, MisuseError, NotFound, PlacetError, StoreError
from placet.model import rates
from placet.model.waking import approvals_topic
from placet.model.watching import WaitingMark
from placet.ports.clock import Clock
from placet.ports.issuer_sign_in import IssuerSignIn
from placet.ports.rate_limits import RateLimiter
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
MOST_OPEN = 1_024
MOST_OPEN_EACH = 64
"""Pages that hear of changes at the same time, of everybody and of one person; one more is only told when it asks."""

_LOOKS: dict[str, Page] = {
    "/": inbox.inbox,
    "/news": inbox.news,
    "/several": several.look,
    "/approvals/{approval_id}": decision.show,
    "/approvals/{approval_id}/standing": standing.standing,
    "/effects": effects.effects,
    "/effect": effects.effect,
    "/runs": runs.runs,
    "/run": runs.run,
    "/run/news": runs.run_news,
    "/audit": audit.audit,
    "/audit/verify": audit.verify,
    "/audit/events.jsonl": audit.export,
    "/why": why.why,
    "/grants": grants.grants,
    "/tools": tools.tools,
    "/stops": operating.stops,
    "/me": operating.me,
}
_GLANCES = frozenset({inbox.news, runs.run_news, standing.standing})
"""What an open page asks by itself."""
_POSTS: dict[str, Page] = {
    "/several/decision": several.decide,
    "/approvals/{approval_id}/decision": decision.decide,
    "/approvals/{approval_id}/edit": decision.edit,
    "/approvals/{approval_id}/withdrawal": decision.withdraw,
    "/approvals/{approval_id}/vote-withdrawal": decision.withdraw_vote,
    "/grants/revocation": grants.revoke,
    "/effect/settlement": effects.settle,
    "/effect/probe": effects.probe,
    "/run/change": runs.change,
    "/stops/stop": operating.stop,
    "/stops/resume": operating.resume,
}


_WEIGHTS: dict[Page, Callable[[Mapping[str, str]], int]] = {several.decide: several.weight}
"""As how many requests a form counts that decides more than one thing."""


class Console:
    """The console of one gate, as an ASGI application for the event loop that the gate was opened in.

    Args:
        root: where it is mounted; all its links begin with it.
        is_dev: whether it is served over http on loopback, so that its cookie cannot be a `__Host-` one.
        form_seconds: how long a browser may take to send a form.
        issuers: whose own pages people come in through; not where it `is_dev`.
        public_url: this site as browsers know it; forms come from there. Without it they come from where `Host` says.
        rate_limiter: the one limit of all front doors; asked for every request of somebody who has signed in.
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
        issuers: IssuerSignIn | None = None,
        public_url: str | None = None,
        rate_limiter: RateLimiter | None = None,
    ) -> None:
        self.root = root
        self._rate_limiter = rate_limiter
        self._open: Counter[tuple[str, str]] = Counter()
        self._closing = asyncio.Event()
        self._gate = gate
        self._sessions = sessions
        self._clock = clock
        self._is_dev = is_dev
        self._doors = Doors(sessions, root=root, is_dev=is_dev, form_seconds=form_seconds, public_url=public_url)
        self._templates: Environment = environment()
        self._entrance = Entrance(
            self._doors, sessions=sessions, issuers=issuers, templates=self._templates, root=root, is_dev=is_dev
        )
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
                await plain("internal_fault", 500)(scope, receive, send)

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
            *self._entrance.routes(),
            Route("/static/{name}", self._static, methods=["GET"]),
            Route("/{path:path}", self._nowhere, methods=["GET", "POST"]),
        ]
        made = Starlette(
            routes=[Route(self.root, self._front, methods=["GET"]), Mount(self.root, routes=inside)],
            exception_handlers={HTTPException: self._not_routed, StoreError: _away},
        )
        made.router.redirect_slashes = False  # its redirects go to whatever host the request names
        return made

    # ------------------------------------------------------------ looks and posts

    def _look(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        seen_by = self._watch if page in _GLANCES else self._visit

        async def look(request: Request) -> Response:
            visit = await seen_by(request)
            if visit is None:
                return self._to_sign_in(request)
            answer = await self._too_often(visit) or await self._answered(visit, page)
            if page in _GLANCES and answer.status_code >= 400:
                answer.headers["HX-Reswap"] = "none"  # what an open page says stays until there is something better
            return answer

        return look

    def _post(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def post(request: Request) -> Response:
            visit = await self._visit(request)
            if visit is None:
                return plain("signed_out", 401)
            if (refusal := await self._too_often(visit)) is not None:
                return refusal
            try:
                form = await self._doors.form(request, visit.session)
            except NotAForm as refused:
                return plain(refused.code, refused.status)
            for _ in range(_WEIGHTS[page](form) - 1 if page in _WEIGHTS else 0):
                if (refusal := await self._too_often(visit)) is not None:
                    return refusal
            return await self._answered(replace(visit, form=form), page)

        return post

    async def _visit(self, request: Request) -> Visit | None:
        return await self._visit_of(request, self._doors.session_of)

    async def _watch(self, request: Request) -> Visit | None:
        """A visit of a page that is open, and not of its person."""
        return await self._visit_of(request, self._doors.glance)

    async def _visit_of(self, request: Request, whose: WhoseRequest) -> Visit | None:
        session = await whose(request)
        if session is None:
            return None
        return Visit(
            request=request,
            gate=self._gate,
            sessions=self._sessions,
            session=session,
            templates=self._templates,
            root=self.root,
        )

    async def _too_often(self, visit: Visit) -> Response | None:
        """What is answered instead where somebody's requests come too often; nothing else was done then."""
        if self._rate_limiter is None:
            return None
        match await self._rate_limiter.admit(visit.by):
            case rates.Admitted():
                return None
            case rates.TooOften(retry_after_seconds=seconds):
                said = "They come too often, and this one was not looked at. Go back, wait a moment, and try again."
                answer = self._fault(visit, 429, "Too many requests", said)
                answer.headers["Retry-After"] = str(max(1, math.ceil(seconds)))
                protect(answer.headers, nonce=visit.nonce)
                return answer

    async def _answered(self, visit: Visit, page: Page) -> Response:
        try:
            answer = await page(visit)
        except NotFound as absent:
            answer = self._fault(visit, 404, "There is no such thing", str(absent))
        except MisuseError as misuse:
            answer = self._fault(visit, 400, "That cannot be done", str(misuse))
        except DecisionRefused as refusal:
            answer = self._fault(visit, refusals.status_of(refusal), "That was refused", refusals.words_of(refusal))
        except AuditBusy as busy:
            answer = self._fault(visit, 503, "Somebody verifies the audit already", f"{busy} {busy.hint}")
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
            return plain("signed_out", 401)
        if (refusal := await self._too_often(visit)) is not None:
            return refusal
        if self._open.total() >= MOST_OPEN or self._open[visit.by.tenant, visit.by.subject] >= MOST_OPEN_EACH:
            return plain("too_many_waiting", 503)
        answer = StreamingResponse(self._counted(visit), media_type="text/event-stream")
        protect(answer.headers, nonce=visit.nonce)
        answer.headers["X-Accel-Buffering"] = "no"
        return answer

    async def _counted(self, visit: Visit) -> AsyncIterator[str]:
        """The changes, for as long as the page is open and one of so many."""
        whose = visit.by.tenant, visit.by.subject
        self._open[whose] += 1
        try:
            async for change in self._changes(visit):
                yield change
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]

    async def _changes(self, visit: Visit) -> AsyncIterator[str]:
        before: tuple[WaitingMark, ...] | None = None
        quiet = 0.0
        with self._gate.store.waiting_for(approvals_topic(visit.by.tenant)) as wakeup:
            while not self._closing.is_set():
                try:
                    if await self._doors.glance(visit.request) is None:
                        yield "event: signed-out\ndata: 1\n\n"
                        return
                    glance = await self._gate.desk.watching.glance(by=visit.by, limit=inbox.MOST_ROWS)
                except PlacetError:
                    glance = None
                if glance is not None and glance.marks != before:
                    before, quiet = glance.marks, 0.0
                    yield f"event: approvals\ndata: {len(glance.marks)}\n\n"
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

    # ------------------------------------------------------------ whoever is nobody

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

    # ------------------------------------------------------------ the rest

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC_NAMES:
            return plain("not_found", 404)
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
        answer = plain("method_not_allowed", 405) if is_method else plain("not_found", 404)
        if isinstance(error, HTTPException) and is_method:
            answer.headers["Allow"] = (error.headers or {}).get("Allow", "GET")
        return answer

    async def _nowhere(self, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is None:
            return self._to_sign_in(request) if request.method == "GET" else plain("signed_out", 401)
        answer = self._fault(visit, 404, "There is no such page", "Perhaps it was moved, or the address is cut.")
        protect(answer.headers, nonce=visit.nonce)
        return answer


async def _away(request: Request, fault: Exception) -> Response:
    """Nobody can tell whose request it is; nothing was looked at or done, and whoever is signed in stays so."""
    code = getattr(fault, "code", "")
    if code == PEOPLE_FAILED:
        absent = "list of people"  # of which the log says once that it is away
    else:
        absent = "store"
        _log.warning("a request had no store", extra={"code": code})
    said = f"The {absent} does not answer. Nothing was done. Try again. ({code})\n"
    answer = PlainTextResponse(said, status_code=503)
    answer.headers["Retry-After"] = "1"
    answer.headers["HX-Reswap"] = "none"
    protect(answer.headers, nonce=None)
    return answer
