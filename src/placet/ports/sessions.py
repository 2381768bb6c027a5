"""A person's sign-in that a browser keeps: a cookie that names a session, and the word that its forms carry.

A session is a person's own sign-in, so it may decide approvals; an agent never has one. What the cookie holds is a
random name; who it is and until when stands in the store, so signing out holds on every host at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from placet.model.credentials import SessionView
from placet.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """Who is signed in.

    Attributes:
        principal: a person.
        csrf: what every form of this session carries back; another session's is another.
        ends_at: when it is over at the latest, by the store's clock; sooner if nobody uses it.
        name: how the lists of sessions call it; opens nothing.
        through: the issuer that showed who it is; None for a link of this server's own.
    """

    principal: Principal
    csrf: str = field(repr=False)
    ends_at: datetime
    name: str = ""
    through: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A session that has just begun.

    Attributes:
        cookie: what the browser sends from now on. Told once; only a digest of it is kept.
    """

    cookie: str = field(repr=False)
    session: ConsoleSession


class Sessions(Protocol):
    """The sessions of one store. Every verb may also raise a `StoreError`; then nobody is let in."""

    async def open(self, principal: Principal, *, through: str | None = None) -> OpenedSession:
        """Begin a session for a person that has just proven who it is.

        Args:
            through: the issuer that showed it.

        Raises:
            SignInRefused: an agent.
        """
        ...

    async def redeem(self, link: str) -> OpenedSession:
        """Begin a session with the secret of a one-time sign-in link, which is worth nothing afterwards.

        Raises:
            SignInRefused: unknown, used, or too late; nobody is told which.
        """
        ...

    async def session_of(self, cookie: str) -> ConsoleSession:
        """Whose session it is; using it is what keeps it from ending early.

        Raises:
            SignInRefused: unknown, ended, or over.
        """
        ...

    async def glance(self, cookie: str) -> ConsoleSession:
        """As `session_of`, for what a page asks by itself: it is no use, and keeps no session from ending.

        Raises:
            SignInRefused: unknown, ended, or over.
        """
        ...

    async def end(self, cookie: str) -> None:
        """Sign out. What is unknown, or over, is signed out already."""
        ...

    async def listed(self, principal: Principal) -> tuple[SessionView, ...]:
        """The person's own sessions that go on, the newest first.

        Raises:
            SignInRefused: an agent has none.
        """
        ...

    async def end_named(self, principal: Principal, name: str) -> None:
        """End one of the person's own sessions, by the name that `listed` says. One that is over is over already.

        Raises:
            SignInRefused: an agent has none.
            NotFound: the name is nobody's, or another person's.
        """
        ...

    async def end_all(self, principal: Principal) -> int:
        """Sign the person out everywhere, links that were not used included; how many sessions there were.

        Raises:
            SignInRefused: an agent has none.
        """
        ...
