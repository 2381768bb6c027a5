"""Numbers for dashboards. Labels come from closed sets; a meter never fails a call."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None: ...

    def decided(self, *, decision: str) -> None: ...

    def shadowed(self, *, enforced: str, would_be: str) -> None:
        """A policy in shadow was asked too: what was enforced, and what it would have answered, or `error`."""
        ...

    def effect_settled(self, *, state: str) -> None: ...

    def approvals_pending(self, count: int) -> None: ...

    def committed(self, *, operations: int, seconds: float) -> None: ...

    def strays(self, *, tool: str, change: int) -> None:
        """So many more attempts of the tool, or fewer, go on past their end: coroutines, threads or processes."""
        ...

    def process_cut_short(self, *, tool: str, reason: str) -> None: ...

    def calls_running(self, *, tool: str, change: int) -> None:
        """So many more calls of the tool, or fewer, have a place to run in."""
        ...

    def call_without_room(self, *, tool: str, code: str) -> None:
        """A call was refused before anything was claimed; `code`: that of its refusal."""
        ...

    def breaker_changed(self, *, tool: str, state: str) -> None: ...

    def breakers_open(self, *, tool: str, change: int) -> None:
        """So many more breakers of the tool, one per tenant, or fewer, are not closed."""
        ...

    def effects_unknown(self, count: int, oldest_seconds: float) -> None: ...

    def effects_unknown_for(self, *, reason: str, count: int) -> None:
        """So many of them for this reason, a word of `rules.unknowns.UnknownReason`."""
        ...

    def recovered(self, *, at_seconds: float) -> None:
        """A round of recovery ended without a fault, at this many seconds since 1970."""
        ...

    def heartbeat_failed(self) -> None:
        """A sign of life was not taken; if it goes on for a lease, others take this process for dead."""
        ...

    def run_write_refused(self) -> None:
        """A driver laid down the step of a run that another had taken meanwhile: its own write was refused."""
        ...

    def recovery_failed(self) -> None:
        """A round of recovery ended with a fault; what it left undone is as old as the last whole one."""
        ...

    def alarmed(self, *, kind: str) -> None:
        """Somebody altered a row: `approval_suspect`, `record_altered`, `credential_suspect`, `grant_suspect`,
        `pin_suspect`.
        """
        ...

    def sink_failed(self, *, sink: str) -> None: ...

    def signed_in(self, *, kind: str, outcome: str) -> None:
        """Somebody was at the door: `api_key`, `token`, `session`, `issuer` (came back from one's pages) or `unknown`;
        `let_in`, `refused` or `unavailable`.
        """
        ...

    def rate_limited(self, *, scope: str) -> None:
        """Somebody was told to come later: `principal` or `tenant`, whose limit it was."""
        ...

    def rate_limiter_failed(self) -> None:
        """The limits that replicas share could not be asked; this process goes by stricter ones of its own."""
        ...

    def announced(self, *, destination: str, outcome: str) -> None:
        """An attempt to send a message came to this: `delivered`, `postponed`, `dead`; or a destination was `closed`.

        `destination`: its kind: `webhook`, `slack` or `email`.
        """
        ...

    def announcements_waiting(self, *, destination: str, pending: int, oldest_seconds: float, dead: int) -> None:
        """So many messages to destinations of this kind wait, the longest for so long, and so many were given up."""
        ...

    def close(self) -> None:
        """Whoever measured has ended: what it said of how things are now is taken back, what it counted stays."""
        ...


class HttpMeter(Protocol):
    """Numbers of a front door that speaks HTTP."""

    def answered(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """One request has been answered. `route`: the address as it is declared; what is not declared is `unknown`."""
        ...


class UpstreamMeter(Protocol):
    """Numbers of upstreams. `server`: the id that the deployment gave it."""

    def sessions(self, *, server: str, change: int) -> None:
        """So many more sessions with it, or fewer, are open."""
        ...

    def reinitialised(self, *, server: str) -> None:
        """A session was begun in the place of one that was lost or ended."""
        ...

    def connecting_failed(self, *, server: str) -> None: ...

    def drifted(self, *, server: str) -> None:
        """A tool is described otherwise than it was accepted; counted once for each such description."""
        ...

    def unbelievable(self, *, server: str) -> None:
        """What it says of its tools cannot be believed, so that nothing goes to it."""
        ...

    def flooded(self, *, server: str) -> None:
        """A session was ended because the server went on to say too much that nobody asked for."""
        ...

    def discovered(self, *, server: str) -> None:
        """It describes a tool of which nothing is accepted; counted once for each in a process."""
        ...

    def questioned(self, *, server: str, kind: str, answer: str) -> None:
        """It asked something, and so it was answered, or not asked at all; words of `rules.relaying`."""
        ...

    def requested(self, *, server: str, method: str, outcome: str) -> None:
        """Something that is no tool call was asked of it for a client: `ok`, `refused` by it, or `failed`."""
        ...


class McpMeter(Protocol):
    """Numbers of the MCP front door."""

    def answered(self, *, method: str, outcome: str, seconds: float) -> None:
        """One message has been answered. Both are of closed sets; what a client made up is `unknown`."""
        ...
