"""G6 and G7 in one process: an operation acts once, and silence after dispatch is unknown."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from placet.engine.settling import Truth
from placet.model.context import Found
from placet.model.contract import Contract, EffectClass
from placet.model.outcome import Conflict, Replayed, Unknown
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, PerTool, Scenario, require
from placet.proof.verify.stage import RUN, Stage, proposal
from placet.rules.contracts import Tool


def is_write(contract: Contract) -> bool:
    return contract.effect_class.is_write


def _has_key(contract: Contract) -> bool:
    return is_write(contract) and contract.operation_key is not None


# ---------------------------------------------------------------- G6


async def asked_again(stage: Stage, tool: Tool) -> str:
    """The same call again, also after a restart, is answered from the record."""
    (specimen,) = stage.specimens(tool)
    async with stage.gate() as gate:
        by = await stage.let(gate, tool, specimen)
        first = await stage.submitted(gate, tool, specimen, "c1", by=by)
        again = await stage.submitted(gate, tool, specimen, "c1", by=by)
    async with stage.gate() as gate:
        restarted = await stage.submitted(gate, tool, specimen, "c1", by=by)
    require(first.is_success, f"it could not be performed here: {first.status} ({first.code})", "Look at the contract.")
    ran = len(stage.hand(tool).used)
    require(ran == 1, f"asked three times, it ran {ran} times", REPORT)
    require(
        isinstance(again, Replayed) and isinstance(restarted, Replayed),
        f"asked again it was {again.status}, and {restarted.status} after a restart",
        REPORT,
    )
    return "asked three times, with a restart between: it ran once"


async def under_another_call_id(stage: Stage, tool: Tool) -> str:
    """The operation has a name of its own, which no call id, run or attempt changes."""
    (specimen,) = stage.specimens(tool)
    async with stage.gate() as gate:
        by = await stage.let(gate, tool, specimen)
        for index in range(3):
            await stage.submitted(gate, tool, specimen, f"c{index}", by=by, run=f"{RUN}-{index}")
        used = stage.hand(tool).used
        require(len(used) == 1, f"one operation under three call ids ran {len(used)} times", REPORT)
        conflict = await _conflict(stage, gate, tool, by)
    return "three call ids in three runs: it ran once" + conflict


async def _conflict(stage: Stage, gate: Any, tool: Tool, by: Any) -> str:
    """The same key with other arguments, where the contract has arguments that are not in the key."""
    template = tool.contract.operation_key
    try:
        first, other = stage.specimens(tool, 2)
    except NotPlayed:
        return ""
    if template is None or set(template.fields) >= set(first.proposed):
        return ""
    mixed = {**other.proposed, **{name: first.proposed[name] for name in template.fields if name in first.proposed}}
    ask = {"call_id": "mixed", "tool": tool.contract.name, "arguments": mixed}
    outcome = await gate.submit(ask, principal=by, run=f"{RUN}-mixed")
    ran = len(stage.hand(tool).used)
    if outcome.status == "invalid":
        return ""
    require(
        isinstance(outcome, Conflict) and ran == 1, f"the same key with other arguments was {outcome.status}", REPORT
    )
    return "; other arguments under its key are a conflict"


async def at_once(stage: Stage, tool: Tool) -> str:
    """Two gates on one store are asked for one operation at the same moment."""
    (specimen,) = stage.specimens(tool)
    hand = stage.hand(tool)

    async def slowly(context: object) -> Any:
        for _ in range(20):
            await asyncio.sleep(0)
        return hand.result

    hand.does = slowly
    ask = proposal(tool, specimen, "c1")
    async with AsyncExitStack() as opened:
        gates = [await opened.enter_async_context(stage.gate()) for _ in range(2)]
        by = await stage.let(gates[0], tool, specimen)
        outcomes = await asyncio.gather(
            *(stage.submitted(gate, tool, specimen, "c1", by=by) for gate in gates), return_exceptions=True
        )
        settled = await gates[0].submit(ask, principal=by, run=RUN)
    ran = len([context for _, context in hand.used if context.attempt == 1])
    told = ", ".join(getattr(outcome, "status", type(outcome).__name__) for outcome in outcomes)
    require(ran == 1, f"asked through two gates at once, it ran {ran} times ({told})", REPORT)
    require(settled.is_success, f"afterwards it was {settled.status}", REPORT)
    return "two gates at the same moment: it ran once"


# ---------------------------------------------------------------- G7


async def silence_after_dispatch(stage: Stage, tool: Tool) -> str:
    """A handler acts, and its answer is lost."""
    (specimen,) = stage.specimens(tool)
    hand = stage.hand(tool)

    def lost(context: object) -> Any:
        raise ConnectionError

    hand.does = lost
    async with stage.gate() as gate:
        by = await stage.let(gate, tool, specimen)
        outcome = await stage.submitted(gate, tool, specimen, "c1", by=by)
        ran = len(hand.used)
        if ran == 0:
            raise NotPlayed(f"it could not be performed here: {outcome.code}")
        require(
            isinstance(outcome, Unknown) and outcome.may_have_acted,
            f"a write whose answer was lost was told as {outcome.status}",
            REPORT,
        )
        _require_safe_attempts(tool, ran, {context.operation_key for _, context in hand.used})
        again = [
            await gate.submit(proposal(tool, specimen, call_id), principal=by, run=RUN)
            for call_id in ("c1", "c2" if _has_key(tool.contract) else "c1")
        ]
        require(
            len(hand.used) == ran and all(isinstance(each, Unknown) for each in again),
            f"asked again while unknown, it was {', '.join(each.status for each in again)}",
            REPORT,
        )
        settled = await _settle(stage, gate, tool, outcome.operation_key or "")
        replayed = await gate.submit(proposal(tool, specimen, "c1"), principal=by, run=RUN)
    require(
        isinstance(replayed, Replayed) and len(hand.used) == ran,
        f"after it was settled as committed, it was {replayed.status}",
        REPORT,
    )
    return f"unknown, never repeated blindly; then settled by {settled} and replayed"


def _require_safe_attempts(tool: Tool, ran: int, keys: set[Any]) -> None:
    repeats = tool.contract.effect_class is EffectClass.IDEMPOTENT_WRITE
    most = tool.contract.retry.max_attempts if repeats else 1
    require(
        1 <= ran <= most and len(keys) == 1,
        f"a {tool.contract.effect_class.value} was attempted {ran} times under {len(keys)} keys",
        REPORT,
    )


async def _settle(stage: Stage, gate: Any, tool: Tool, key: str) -> str:
    await stage.later(3_600.0)
    hand = stage.hand(tool)
    if tool.contract.has_probe:
        hand.sees = Found(result=hand.result)
        await gate.reconciler.recover()
        return "a probe"
    person = stage.person(tool.contract)
    looked_at = stage.clock.now()
    await gate.reconciler.settle_by_person(key, Truth.COMMITTED, by=person, looked_at=looked_at, reason="verify")
    return "a person"


SCENARIOS: tuple[Scenario, ...] = (
    PerTool(guarantee=Guarantee.G6, id="asked_again", play=asked_again, concerns=is_write),
    PerTool(guarantee=Guarantee.G6, id="under_another_call_id", play=under_another_call_id, concerns=_has_key),
    PerTool(guarantee=Guarantee.G6, id="at_once", play=at_once, concerns=is_write),
    PerTool(guarantee=Guarantee.G7, id="silence_after_dispatch", play=silence_after_dispatch, concerns=is_write),
)
