"""Small real implementations of the ports that a test wants to own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from placet.errors import NotFound, SignInRefused
from placet.model.credentials import SessionView
from placet.model.principal import Principal, Standing
from placet.ports.clock import Clock
from placet.ports.sessions import ConsoleSession, OpenedSession


class FakeClock:
    """Time that moves only when told, or when somebody sleeps: a sleep takes no time and moves both clocks."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class SeededIds:
    """The same names and the same chance in every run."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:06d}"

    def fraction(self) -> float:
        return self._random.random()


class FixedSignIn:
    """Knows these credentials and no others."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self._principals = dict(principals)

    async def principal_of(self, credential: str) -> Principal:
        if credential not in self._principals:
            raise SignInRefused
        return self._principals[credential]


class SessionsInMemory:
    """Sessions that live as long as this object, and a cookie and a link for whoever a test signs in."""

    def __init__(self, clock: Clock, *, seconds: float = 3_600.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._sessions: dict[str, ConsoleSession] = {}
        self._links: dict[str, Principal] = {}
        self._count = 0

    def link_for(self, principal: Principal) -> str:
        """A word that signs this person in, once."""
        self._count += 1
        link = f"link-{self._count}"
        self._links[link] = principal
        return link

    async def open(self, principal: Principal, *, through: str | None = None) -> OpenedSession:
        if principal.standing is not Standing.PERSON:
            raise SignInRefused
        self._count += 1
        ends_at = self._clock.now() + timedelta(seconds=self._seconds)
        session = ConsoleSession(
            principal=principal,
            csrf=f"csrf-{self._count}",
            ends_at=ends_at,
            name=f"{self._count:016x}",
            through=through,
        )
        self._sessions[f"cookie-{self._count}"] = session
        return OpenedSession(cookie=f"cookie-{self._count}", session=session)

    async def redeem(self, link: str) -> OpenedSession:
        if link not in self._links:
            raise SignInRefused
        return await self.open(self._links.pop(link))

    async def session_of(self, cookie: str) -> ConsoleSession:
        session = self._sessions.get(cookie)
        if session is None or session.ends_at <= self._clock.now():
            raise SignInRefused
        return session

    async def glance(self, cookie: str) -> ConsoleSession:
        return await self.session_of(cookie)

    async def end(self, cookie: str) -> None:
        self._sessions.pop(cookie, None)

    async def listed(self, principal: Principal) -> tuple[SessionView, ...]:
        return tuple(
            SessionView(
                name=session.name,
                subject=session.principal.subject,
                began_at=session.ends_at - timedelta(seconds=self._seconds),
                used_at=None,
                ends_at=session.ends_at,
                through=session.through,
            )
            for session in reversed(self._of(principal).values())
        )

    async def end_named(self, principal: Principal, name: str) -> None:
        cookies = [cookie for cookie, session in self._of(principal).items() if session.name == name]
        if not cookies:
            raise NotFound("There is no such session.")
        del self._sessions[cookies[0]]

    async def end_all(self, principal: Principal) -> int:
        ended = self._of(principal)
        self._sessions = {cookie: each for cookie, each in self._sessions.items() if cookie not in ended}
        return len(ended)

    def _of(self, principal: Principal) -> dict[str, ConsoleSession]:
        who = (principal.tenant, principal.subject)
        return {
            cookie: each
            for cookie, each in self._sessions.items()
            if (each.principal.tenant, each.principal.subject) == who and each.ends_at > self._clock.now()
        }


class RecordingMeter:
    """Keeps every number, by the name of the meter's method."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, object]]] = []

    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None:
        self.heard.append(("attempt_completed", {"tool": tool, "outcome": outcome, "seconds": seconds}))

    def decided(self, *, decision: str) -> None:
        self.heard.append(("decided", {"decision": decision}))

    def shadowed(self, *, enforced: str, would_be: str) -> None:
        self.heard.append(("shadowed", {"enforced": enforced, "would_be": would_be}))

    def effect_settled(self, *, state: str) -> None:
        self.heard.append(("effect_settled", {"state": state}))

    def approvals_pending(self, count: int) -> None:
        self.heard.append(("approvals_pending", {"count": count}))

    def committed(self, *, operations: int, seconds: float) -> None:
        self.heard.append(("committed", {"operations": operations, "seconds": seconds}))

    def strays(self, *, tool: str, change: int) -> None:
        self.heard.append(("strays", {"tool": tool, "change": change}))

    def process_cut_short(self, *, tool: str, reason: str) -> None:
        self.heard.append(("process_cut_short", {"tool": tool, "reason": reason}))

    def calls_running(self, *, tool: str, change: int) -> None:
        self.heard.append(("calls_running", {"tool": tool, "change": change}))

    def call_without_room(self, *, tool: str, code: str) -> None:
        self.heard.append(("call_without_room", {"tool": tool, "code": code}))

    def breaker_changed(self, *, tool: str, state: str) -> None:
        self.heard.append(("breaker_changed", {"tool": tool, "state": state}))

    def breakers_open(self, *, tool: str, change: int) -> None:
        self.heard.append(("breakers_open", {"tool": tool, "change": change}))

    def effects_unknown(self, count: int, oldest_seconds: float) -> None:
        self.heard.append(("effects_unknown", {"count": count, "oldest_seconds": oldest_seconds}))

    def recovered(self, *, at_seconds: float) -> None:
        self.heard.append(("recovered", {"at_seconds": at_seconds}))

    def effects_unknown_for(self, *, reason: str, count: int) -> None:
        self.heard.append(("effects_unknown_for", {"reason": reason, "count": count}))

    def run_write_refused(self) -> None:
        self.heard.append(("run_write_refused", {}))

    def heartbeat_failed(self) -> None:
        self.heard.append(("heartbeat_failed", {}))

    def recovery_failed(self) -> None:
        self.heard.append(("recovery_failed", {}))

    def alarmed(self, *, kind: str) -> None:
        self.heard.append(("alarmed", {"kind": kind}))

    def sink_failed(self, *, sink: str) -> None:
        self.heard.append(("sink_failed", {"sink": sink}))

    def signed_in(self, *, kind: str, outcome: str) -> None:
        self.heard.append(("signed_in", {"kind": kind, "outcome": outcome}))

    def rate_limited(self, *, scope: str) -> None:
        self.heard.append(("rate_limited", {"scope": scope}))

    def announced(self, *, destination: str, outcome: str) -> None:
        self.heard.append(("announced", {"destination": destination, "outcome": outcome}))

    def announcements_waiting(self, *, destination: str, pending: int, oldest_seconds: float, dead: int) -> None:
        counts = {"pending": pending, "oldest_seconds": oldest_seconds, "dead": dead}
        self.heard.append(("announcements_waiting", {"destination": destination, **counts}))

    def rate_limiter_failed(self) -> None:
        self.heard.append(("rate_limiter_failed", {}))

    def close(self) -> None:
        self.heard.append(("close", {}))
