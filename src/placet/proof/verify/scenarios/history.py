"""G11: the audit of the scratch store is changed by hand, and the check of it has to see that."""

from __future__ import annotations

from placet.model.principal import Principal, Role
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, Once, Scenario, require
from placet.proof.verify.scratch import audit_of
from placet.proof.verify.stage import RUN, STORE, Stage


async def untouched(stage: Stage) -> str:
    """The check that has to see changes must not see any where there are none."""
    events = await _history(stage)
    report = await audit_of(stage.scratch, STORE)
    require(report.holds and report.events == events, "an untouched audit does not hold", REPORT)
    return f"{events} untouched events hold"


async def altered(stage: Stage) -> str:
    change = """replace(body, '"subject":"', '"subject":"x')"""
    return await _seen(stage, "altered", f"UPDATE audit_events SET body = {change} WHERE sequence = 3")  # noqa: S608


async def deleted(stage: Stage) -> str:
    return await _seen(stage, "deleted", "DELETE FROM audit_events WHERE sequence = 3")


async def reordered(stage: Stage) -> str:
    return await _seen(
        stage,
        "reordered",
        "UPDATE audit_events SET sequence = 1000 WHERE sequence = 3",
        "UPDATE audit_events SET sequence = 3 WHERE sequence = 4",
        "UPDATE audit_events SET sequence = 4 WHERE sequence = 1000",
    )


async def cut_off(stage: Stage) -> str:
    """The newest events are gone, and the head says that they never were."""
    return await _seen(
        stage,
        "cut off",
        "DELETE FROM audit_events WHERE sequence > 3",
        "UPDATE audit_heads SET sequence = 3, link = (SELECT link FROM audit_events"
        " WHERE audit_events.writer = audit_heads.writer AND audit_events.sequence = 3)",
    )


async def _seen(stage: Stage, what: str, *statements: str) -> str:
    await _history(stage)
    await stage.scratch.changed(STORE, *statements)
    report = await audit_of(stage.scratch, STORE)
    require(not report.holds, f"history that was {what} still holds", REPORT)
    return f"history that was {what} shows: {report.breaks[0].problem}"


async def _history(stage: Stage) -> int:
    """Some events in the one chain of a fresh store; how many. Calls of the project's tools where that is possible."""
    by = Principal.agent("verify-agent", tenant="verify", roles=(Role.VIEWER,))
    async with stage.gate() as gate:
        for index, tool in enumerate(list(stage.tools.values())[:2]):
            try:
                (specimen,) = stage.specimens(tool)
                who = await stage.let(gate, tool, specimen)
                await stage.submitted(gate, tool, specimen, f"t{index}", by=who)
            except NotPlayed:
                continue
        for index in range(3):
            ask = {"call_id": f"c{index}", "tool": "verify_no_such_tool", "arguments": {}}
            await gate.submit(ask, principal=by, run=RUN)
        return len([event async for event in gate.store.chained()])


SCENARIOS: tuple[Scenario, ...] = tuple(
    Once(guarantee=Guarantee.G11, id=play.__name__, play=play)
    for play in (untouched, altered, deleted, reordered, cut_off)
)
