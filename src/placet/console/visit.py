"""One request of a signed-in person: who, through which gate, and how its page is made."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from placet.console.words import DONE
from placet.engine.gate import Gate
from placet.model.principal import Principal
from placet.ports.sessions import ConsoleSession, Sessions


def new_nonce() -> str:
    """A word that names the scripts of one answer; nobody can guess it."""
    return secrets.token_urlsafe(18)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a page is made from.

    Attributes:
        form: the fields of a post that was found to be this person's own; empty for a look.
        nonce: of this answer's scripts.
    """

    request: Request
    gate: Gate
    sessions: Sessions
    session: ConsoleSession
    templates: Environment
    root: str
    form: Mapping[str, str] = field(default_factory=dict)
    nonce: str = field(default_factory=new_nonce)

    @property
    def by(self) -> Principal:
        return self.session.principal

    @property
    def is_part(self) -> bool:
        """Whether only a part of a page is wanted, by the vendored library."""
        return self.request.headers.get("hx-request") == "true"

    def asked(self, name: str, default: str = "") -> str:
        """A word of the address; the first of them, and never more than a page is made for."""
        return self.request.query_params.get(name, default)[:500]

    def page(self, template: str, *, status: int = 200, **facts: Any) -> Response:
        """A whole page, or the part of it that its template makes on its own."""
        done = DONE.get(self.asked("done"), "")
        text = self.templates.get_template(template).render(
            visit=self,
            by=self.by,
            session=self.session,
            root=self.root,
            nonce=self.nonce,
            **({"done": done} | facts),
        )
        return HTMLResponse(text, status_code=status)

    def go(self, place: str, **words: str) -> Response:
        """Look at another page, with what was done as a word in its address."""
        query = f"?{urlencode(words)}" if words else ""
        return RedirectResponse(f"{self.root}{place}{query}", status_code=303)
