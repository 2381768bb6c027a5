"""G8 and G9: every limit holds, and every attempt that began has its end on record."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.model.audit import AuditEvent
from placet.model.context import CallContext
from placet.model.outcome import Outcome, Refused, TimedOut, Unknown
from placet.model.principal import Principal, Role
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, Once, PerTool, Scenario, require
from placet.proof.verify.specimens import Specimen
from placet.proof.verify.stage import ALLOW, RUN, Stage
from placet.rules.contracts import Tool

_STEPS = 3
_ROOM = 2
_STAYS_SECONDS = 30.0


# ---------------------------------------------------------------- G8


async def steps_of_a_run(stage: Stage) -> str:
    """A run has so many steps, whatever its proposals were, and a restart gives it no more."""
    by = Principal.agent("verify-agent", tenant="verify", roles=(Role.VIEWER,))
    settings = GateSettings(max_steps=_STEPS)
    outcomes: list[Outcome] = []
    for half in range(2):
        async with stage.gate(settings=settings) as gate:
            for index in range(_STEPS - 1):
                ask = {"call_id": f"c{half}{index}", "tool": "verify_no_such_tool", "arguments": {}}
                outcomes.append(await gate.submit(ask, principal=by, run=RUN))
    codes = [outcome.code for outcome in outcomes]
    require(
        codes == ["unknown_tool"] * _STEPS + ["budget_exhausted"],
        f"a run of {_STEPS} steps was told {', '.join(codes)}",
        REPORT,
    )
    return f"the step after {_STEPS} is refused, across a restart"


async def deadline(stage: Stage, tool: Tool) -> str:
    """A handler that never answers, and one that will not be cancelled."""
    tool = stage.hurried(tool)
    hand = stage.hand(tool)
    for index, does in enumerate((_never, _stubborn)):
        (specimen,) = stage.specimens(tool)
        hand.does = does
        before = len(hand.used)
        async with stage.gate(named=f"s{index}") as gate:
            by = await stage.let(gate, tool, specimen)
            outcome = await stage.submitted(gate, tool, specimen, "c1", by=by)
        if len(hand.used) == before:
            raise NotPlayed(f"it could not be performed here: {outcome.code}")
        expected = Unknown if tool.contract.effect_class.is_write else TimedOut
        require(isinstance(outcome, expected), f"past its deadline it was {outcome.status}", REPORT)
        attempts = len(hand.used) - before
        most = tool.contract.retry.max_attempts
        require(attempts <= most, f"it was attempted {attempts} times, and {most} are allowed", REPORT)
    return f"past its deadline it is {expected.status}, whatever the handler does"


async def _never(context: CallContext) -> Any:
    await asyncio.Event().wait()


async def _stubborn(context: CallContext) -> Any:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "too late"


async def room(stage: Stage, tool: Tool) -> str:
    """So many calls of a tool run at once, and no more."""
    name = tool.contract.name
    narrow = replace(stage.tools[name].contract, max_concurrent=_ROOM, timeout_seconds=_STAYS_SECONDS)
    hand = stage.hand(tool)
    stage.tools[name] = hand.in_place_of(stage.tools[name], narrow)
    go_on = asyncio.Event()

    async def waits(context: CallContext) -> Any:
        await go_on.wait()
        return hand.result

    hand.does = waits
    specimens = stage.operations(tool, _ROOM + 1)
    settings = GateSettings(max_waiting=0, lease_seconds=3600.0)
    async with stage.gate(settings=settings) as gate:
        by = await stage.let(gate, tool, specimens[0])
        running = [
            asyncio.ensure_future(stage.submitted(gate, tool, specimen, f"c{index}", by=by, run=f"{RUN}-{index}"))
            for index, specimen in enumerate(specimens[:_ROOM])
        ]
        try:
            await _until(lambda: len(hand.used) == _ROOM or all(each.done() for each in running))
            if len(hand.used) < _ROOM:
                raise NotPlayed(f"it could not be performed here: {running[0].result().code}")
            outcome = await stage.submitted(gate, tool, specimens[_ROOM], "one-more", by=by, run=f"{RUN}-more")
        finally:
            go_on.set()
            await asyncio.gather(*running)
    require(
        isinstance(outcome, Refused) and outcome.code == "too_many_running" and len(hand.used) == _ROOM,
        f"one call more than may run at once was {outcome.status} ({outcome.code})",
        REPORT,
    )
    return f"with room for {_ROOM}, the third is refused"


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.001)


# ---------------------------------------------------------------- G9


class _Own(BaseException):
    """What no `except Exception` catches."""


async def every_ending(stage: Stage, tool: Tool) -> str:
    """However an attempt ends, its end is on record."""
    tool = stage.hurried(tool)
    endings: dict[str, Callable[[CallContext], Any]] = {
        "returns": lambda context: stage.hand(tool).result,
        "returns nonsense": lambda context: object(),
        "raises": _raiser(RuntimeError()),
        "raises what is no Exception": _raiser(_Own()),
        "cancels itself": _raiser(asyncio.CancelledError()),
        "never answers": _never,
    }
    specimens = stage.operations(tool, 1) * len(endings)
    async with stage.gate() as gate:
        by = await stage.let(gate, tool, specimens[0])
        for index, (specimen, does) in enumerate(zip(specimens, endings.values(), strict=True)):
            stage.hand(tool).does = does
            await stage.submitted(gate, tool, specimen, f"c{index}", by=by, run=f"{RUN}-{index}")
        await _caller_leaves(stage, gate, tool, specimens[0], by)
        pairs = await _pairs(gate)
    return f"{pairs} attempts, each with one end on record"


def _raiser(error: BaseException) -> Callable[[CallContext], Any]:
    def does(context: CallContext) -> Any:
        raise error

    return does


async def _caller_leaves(stage: Stage, gate: Gate, tool: Tool, specimen: Specimen, by: Principal) -> None:
    hand = stage.hand(tool)
    hand.does = _never
    before = len(hand.used)
    asking = asyncio.ensure_future(stage.submitted(gate, tool, specimen, "left", by=by, run=f"{RUN}-left"))
    await _until(lambda: len(hand.used) > before or asking.done())
    asking.cancel()
    await asyncio.wait((asking,))


async def _pairs(gate: Gate) -> int:
    """How many started attempts there are; each has exactly one completed event.

    Raises:
        Breach: one has none, or more.
    """
    begun: Counter[tuple[Any, ...]] = Counter()
    ended: Counter[tuple[Any, ...]] = Counter()
    async for event in gate.store.chained():
        body = json.loads(event.body)
        name = tuple(body.get(key) for key in ("tenant", "run_id", "call_id", "attempt", "fence"))
        if body["kind"] == "started":
            begun[name] += 1
        elif body["kind"] == "completed":
            ended[name] += 1
    require(begun, "no attempt is on record at all", REPORT)
    lost, extra = (begun - ended).total(), (ended - begun).total()
    require(not lost and not extra, f"{lost} attempts have no end on record, and {extra} ends no beginning", REPORT)
    report = await gate.verify_audit()
    require(report.holds and report.unpaired == 0, "the audit of the scratch store does not hold", REPORT)
    return begun.total()


class _Sink:
    """A sink that takes nothing."""

    is_required = False
    name = "verify"

    def __init__(self, does: Callable[[], Awaitable[None]]) -> None:
        self._does = does

    async def deliver(self, event: AuditEvent) -> None:
        await self._does()


async def sinks_that_fail(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)

    async def raises() -> None:
        raise RuntimeError

    async with stage.gate(policy=ALLOW, sinks=(_Sink(raises),)) as gate:
        by = stage.agent(tool.contract, Role.ADMIN)
        outcome = await stage.submitted(gate, tool, specimen, "c1", by=by)
        if not stage.uses:
            raise NotPlayed(f"it could not be performed here: {outcome.code}")
        pairs = await _pairs(gate)
    return f"a sink that raises changes nothing ({pairs} attempts closed)"


SCENARIOS: tuple[Scenario, ...] = (
    Once(guarantee=Guarantee.G8, id="steps_of_a_run", play=steps_of_a_run),
    PerTool(guarantee=Guarantee.G8, id="deadline", play=deadline),
    PerTool(guarantee=Guarantee.G8, id="room", play=room),
    PerTool(guarantee=Guarantee.G9, id="every_ending", play=every_ending),
    PerTool(guarantee=Guarantee.G9, id="sinks_that_fail", play=sinks_that_fail),
)
