"""G6 with real processes: two that race for one operation, and one that is killed while it acts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placet.model.contract import ApprovalMode
from placet.model.effect import Effect, EffectState
from placet.model.outcome import AwaitingApproval, Unknown
from placet.model.principal import Principal, Role
from placet.proof.verify.actor import AFTER_ACTING, BEFORE_ACTING, LATER, NO_TOOLS, READY
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, PerTool, Scenario, require
from placet.proof.verify.scenarios.effects import is_write
from placet.proof.verify.specimens import Specimen
from placet.proof.verify.stage import ALLOW, RUN, STORE, Stage, proposal
from placet.rules.contracts import Tool
from placet.testing.kill_points import SentinelRemote

_PATIENCE_SECONDS = 60.0


async def two_processes(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    by = await _prepared(stage, tool, specimen)
    where = await stage.scratch.place(STORE)
    with _actors(stage, tool, specimen, by, where, dies=("", "")) as actors:
        answers = [_answer(actor) for actor in _released(actors)]
    acted = _remote(stage).effects()
    told = ", ".join(answer["status"] for answer in answers)
    require(sum(acted.values()) == 1, f"two processes asked for one operation, it acted {dict(acted)} ({told})", REPORT)
    require(
        {answer["status"] for answer in answers} <= {"succeeded", "replayed", "in_progress"},
        f"two processes asked for one operation, and were told {told}",
        REPORT,
    )
    return f"two processes at once: it acted once ({told})"


async def killed_after_acting(stage: Stage, tool: Tool) -> str:
    return await _killed(stage, tool, AFTER_ACTING, acted=1)


async def killed_before_acting(stage: Stage, tool: Tool) -> str:
    return await _killed(stage, tool, BEFORE_ACTING, acted=0)


async def _killed(stage: Stage, tool: Tool, moment: str, *, acted: int) -> str:
    """A process dies by SIGKILL inside its attempt. Nobody else can tell whether it acted, so nobody acts again."""
    (specimen,) = stage.specimens(tool)
    by = await _prepared(stage, tool, specimen)
    where = await stage.scratch.place(STORE)
    with _actors(stage, tool, specimen, by, where, dies=(moment,)) as actors:
        (actor,) = _released(actors)
        actor.wait(_PATIENCE_SECONDS)
    require(actor.returncode == -9, "the process was not killed where it should die", REPORT)
    await stage.later(LATER.total_seconds())
    ask = proposal(tool, specimen, "c1")
    async with stage.gate(policy=ALLOW) as gate:
        await gate.reconciler.recover()
        outcome = await gate.submit(ask, principal=by, run=RUN)
        report = await gate.verify_audit()
        (effect,) = await gate.store.effects(tenant=by.tenant, states=tuple(EffectState), limit=2)
    require(isinstance(outcome, Unknown), f"after a kill {moment} it was {outcome.status}", REPORT)
    require(
        not stage.uses and sum(_remote(stage).effects().values()) == acted,
        f"after a kill {moment} it acted again",
        REPORT,
    )
    require(
        report.holds and not report.unpaired, f"after a kill {moment} the audit is left open or does not hold", REPORT
    )
    state = effect.state.value if isinstance(effect, Effect) else "broken"
    require(state == EffectState.UNKNOWN, f"after a kill {moment} the effect is {state}", REPORT)
    return f"killed {moment}: unknown, its audit closed, and not repeated"


async def _prepared(stage: Stage, tool: Tool, specimen: Specimen) -> Principal:
    """The store is made, and an approval given where the contract always asks."""
    if stage.configuration.origin is None:
        raise NotPlayed("the tools are not said to be importable by another process")
    by = stage.agent(tool.contract, Role.ADMIN)
    async with stage.gate(policy=ALLOW) as gate:
        if tool.contract.approval is ApprovalMode.ALWAYS:
            asked = await gate.submit(proposal(tool, specimen, "c1"), principal=by, run=RUN)
            if not isinstance(asked, AwaitingApproval):
                raise NotPlayed(f"it could not be asked for here: {asked.code}")
            await stage.approve(gate, tool, asked)
    return by


def _remote(stage: Stage) -> SentinelRemote:
    return SentinelRemote(stage.scratch.folder / "remote.jsonl")


@contextmanager
def _actors(
    stage: Stage, tool: Tool, specimen: Specimen, by: Principal, where: str | Path, *, dies: tuple[str, ...]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have the store open and wait for their word; none of them is left behind."""
    actors: list[subprocess.Popen[str]] = []
    try:
        for each in dies:
            actor = subprocess.Popen(
                [sys.executable, "-m", "placet.proof.verify.actor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            actors.append(actor)
            _say(actor, json.dumps(_order(stage, tool, specimen, by, where, each)))
        for actor in actors:
            _heard(actor)
        yield actors
    finally:
        for actor in actors:
            actor.kill()
            actor.communicate()


def _order(stage: Stage, tool: Tool, specimen: Specimen, by: Principal, where: str | Path, dies: str) -> dict[str, Any]:
    origin = stage.configuration.origin
    if origin is None:
        raise NotPlayed("the tools are not said to be importable by another process")
    return {
        "folder": str(origin.folder),
        "module": origin.module,
        "attribute": origin.attribute,
        "tool": tool.contract.name,
        "store": str(where),
        "key": str(stage.scratch.key(STORE)),
        "remote": str(stage.scratch.folder / "remote.jsonl"),
        "proposal": proposal(tool, specimen, "c1"),
        "principal": {
            "subject": by.subject,
            "tenant": by.tenant,
            "roles": sorted(role.value for role in by.roles),
            "scopes": sorted(by.scopes),
        },
        "run": RUN,
        "result": stage.hand(tool).result,
        "dies": dies,
    }


def _released(actors: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for actor in actors:
        _say(actor, "go")
    return actors


def _say(actor: subprocess.Popen[str], line: str) -> None:
    assert actor.stdin is not None  # noqa: S101 - it was opened with a pipe
    try:
        actor.stdin.write(line + "\n")
        actor.stdin.flush()
    except BrokenPipeError:
        pass  # what it says, or does not say, tells why


def _heard(actor: subprocess.Popen[str]) -> None:
    assert actor.stdout is not None  # noqa: S101 - it was opened with a pipe
    if actor.stdout.readline().strip() == READY:
        return
    code = actor.wait(_PATIENCE_SECONDS)
    raise NotPlayed(
        "the tools could not be loaded by another process"
        if code == NO_TOOLS
        else "another process could not be started"
    )


def _answer(actor: subprocess.Popen[str]) -> dict[str, str]:
    assert actor.stdout is not None  # noqa: S101 - it was opened with a pipe
    try:
        answer: dict[str, str] = json.loads(actor.stdout.readline())
    except ValueError:
        answer = {"status": "nothing", "code": "nothing"}
    return answer


SCENARIOS: tuple[Scenario, ...] = (
    PerTool(guarantee=Guarantee.G6, id="two_processes", play=two_processes, concerns=is_write),
    PerTool(guarantee=Guarantee.G6, id="killed_after_acting", play=killed_after_acting, concerns=is_write),
    PerTool(guarantee=Guarantee.G7, id="killed_before_acting", play=killed_before_acting, concerns=is_write),
)
