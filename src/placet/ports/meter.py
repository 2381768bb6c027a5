"""Numbers for dashboards. Labels come from closed sets; a meter never fails a call."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    def attempt_completed(self, *, tool: str, outcome: str, seconds: float) -> None: ...

    def decided(self, *, decision: str) -> None: ...

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

    def recovery_failed(self) -> None:
        """A round of recovery ended with a fault; what it left undone is as old as the last whole one."""
        ...

    def alarmed(self, *, kind: str) -> None:
        """Somebody altered a row: `approval_suspect` or `record_altered`."""
        ...

    def sink_failed(self, *, sink: str) -> None: ...

    def close(self) -> None:
        """Whoever measured has ended: what it said of how things are now is taken back, what it counted stays."""
        ...
