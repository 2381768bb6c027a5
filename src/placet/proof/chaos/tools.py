"""The tools of a chaos run, one of each kind, all against the sentinel.

transfer   write; the remote bounds how late a request may act
top_up     idempotent write with retries; the remote honours keys
book       write; the remote refuses what comes late, however late
refund     write that a person approves
stamp      write in a thread, which nobody can cancel
balance    read
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from placet.model.context import Absent, CallContext, Found, ProbeContext
from placet.model.contract import Remote, RetryPolicy
from placet.proof.chaos.plan import Inside, Sabotage, Timing
from placet.rules.contracts import Tool, tool
from placet.testing.kill_points import die
from placet.testing.sentinel import SentinelClient
from placet.testing.sentinel_manners import Manner, SentinelRules

TENANT = "chaos"
BOUNDED, KEYED, PUNCTUAL = "bounded", "keyed", "punctual"
SERVICE_OF = {"transfer": BOUNDED, "top_up": KEYED, "book": PUNCTUAL, "refund": BOUNDED, "stamp": BOUNDED}
WRITES = tuple(SERVICE_OF)
BALANCE = "balance"
_READ_SECONDS = 0.05
_RETRY = RetryPolicy(max_attempts=3, initial_delay_seconds=0.01, max_delay_seconds=0.05)

_MISCHIEF: Mapping[Manner, float] = {
    Manner.ACT: 62,
    Manner.ACT_LATE: 12,
    Manner.DROP_REPLY: 6,
    Manner.HANG_UP: 4,
    Manner.HANG_UP_THEN_ACT: 4,
    Manner.BUSY: 3,
    Manner.UNAVAILABLE: 3,
    Manner.UNAVAILABLE_BUT_ACTS: 2,
    Manner.REFUSE: 2,
    Manner.CONFLICT: 2,
}
_LATE: Mapping[Manner, float] = {**_MISCHIEF, Manner.HANG_UP_THEN_ACT: 12}
_LATEST: Mapping[Manner, float] = {Manner.HANG_UP_THEN_ACT: 1}


def services(timing: Timing, sabotage: Sabotage | None, *, seed: int) -> dict[str, SentinelRules]:
    """What the sentinel offers; sabotaged, it acts late where its contract says that it refuses to."""
    bounded = SentinelRules(weights=_MISCHIEF, longest_delay_seconds=timing.delay_seconds, seed=seed)
    keyed = SentinelRules(
        weights={**_MISCHIEF, Manner.UNAVAILABLE: 12},
        honours_keys=True,
        longest_delay_seconds=timing.delay_seconds,
        seed=seed,
    )
    if sabotage is Sabotage.LATE_REMOTE:
        punctual = SentinelRules(
            weights=_LATEST,
            shortest_delay_seconds=timing.late_seconds,
            longest_delay_seconds=timing.late_seconds,
            seed=seed,
        )
    else:
        punctual = SentinelRules(weights=_LATE, refuses_late=True, longest_delay_seconds=timing.late_seconds, seed=seed)
    return {BOUNDED: bounded, KEYED: keyed, PUNCTUAL: punctual}


def tools(
    port: int,
    timing: Timing,
    *,
    dies: Inside | None = None,
    sabotage: Sabotage | None = None,
    still: Callable[[], None] = lambda: None,
) -> list[Tool]:
    """The tools of one process.

    Args:
        dies: where inside the first handler that gets there this process ends, or stands still.
        still: told right before this process stands still.
    """
    clients = {service: SentinelClient(port=port, service=service) for service in (BOUNDED, KEYED, PUNCTUAL)}
    waits = dies

    def first_byte(call: CallContext) -> Callable[[], None]:
        def guard() -> None:
            nonlocal waits
            if waits is Inside.STANDS_STILL:
                waits = None
                still()
                os.kill(os.getpid(), signal.SIGSTOP)
            if sabotage is not Sabotage.NO_GUARD:
                call.guard()
            if dies is Inside.BEFORE_FIRST_BYTE:
                die()

        return guard

    def acted(value: Any) -> dict[str, str]:
        if dies is Inside.AFTER_IT_ACTED:
            die()
        answer: dict[str, str] = value
        return answer

    async def act(name: str, order: str, call: CallContext) -> dict[str, str]:
        client = clients[SERVICE_OF[name]]
        value = await client.act(
            call.operation_key, {"order": order}, deadline_at=call.deadline_at, guard=first_byte(call)
        )
        return acted(value)

    def probe_of(name: str) -> Callable[[ProbeContext], Any]:
        async def probe(context: ProbeContext) -> Found | Absent:
            value = await clients[SERVICE_OF[name]].found(context.operation_key)
            return Absent() if value is None else Found(result=value)

        return probe

    def common(name: str) -> dict[str, Any]:
        return {
            "name": name,
            "risk": "medium",
            "permission": "chaos.write",
            "operation_key": f"{name}:{{order}}",
            "probe": probe_of(name),
            "timeout_seconds": timing.timeout_seconds,
            "breaker": None,
            "retry": _RETRY,
        }

    within = Remote(arrival_bound_seconds=timing.arrival_seconds)

    @tool(effect="write", remote=within, **common("transfer"))
    async def transfer(order: str, call: CallContext) -> dict[str, str]:
        return await act("transfer", order, call)

    @tool(
        effect="idempotent_write",
        remote=Remote(honours_key=True, arrival_bound_seconds=timing.arrival_seconds),
        **common("top_up"),
    )
    async def top_up(order: str, call: CallContext) -> dict[str, str]:
        return await act("top_up", order, call)

    @tool(effect="write", remote=Remote(refuses_late=True), **common("book"))
    async def book(order: str, call: CallContext) -> dict[str, str]:
        return await act("book", order, call)

    @tool(effect="write", remote=within, approval="always", **common("refund"))
    async def refund(order: str, call: CallContext) -> dict[str, str]:
        return await act("refund", order, call)

    @tool(effect="write", remote=within, **common("stamp"))
    def stamp(order: str, call: CallContext) -> dict[str, str]:
        value = clients[BOUNDED].act_blocking(
            call.operation_key,
            {"order": order},
            deadline_at=call.deadline_at,
            guard=first_byte(call),
            timeout_seconds=max(0.01, call.remaining_seconds()),
        )
        return acted(value)

    @tool(effect="read", name=BALANCE, breaker=None)
    async def balance(order: str) -> dict[str, str]:
        await asyncio.sleep(_READ_SECONDS)  # long enough to die in
        return {"order": order}

    return [transfer, top_up, book, refund, stamp, balance]
