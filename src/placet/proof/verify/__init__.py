"""`placet verify`: every guarantee, tried against the user's own contracts, policy and kind of store.

    verification = verify(Configuration(tools=TOOLS, policy=Matrix()))
    verification.count(Verdict.BROKEN)      # 0, or something to mend
    verification.unproven                   # guarantees of which nothing could be played here

Every scenario has scratch stores: files in a temporary folder, or schemas of their own in the database that the
configuration names, dropped afterwards. The project's own store, key and handlers are not touched. In the place of each
handler and probe are hands of our own. What the contracts themselves run, such as validators of their models, and the
policy, do run.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from placet.bootstrap.scratch import ScratchDatabase
from placet.engine.registry import Registry
from placet.proof.verify.clock import StageClock
from placet.proof.verify.findings import (
    Breach,
    CannotApply,
    Finding,
    Guarantee,
    NotPlayed,
    Once,
    PerTool,
    Scenario,
    Verdict,
    Verification,
)
from placet.proof.verify.scenarios import SCENARIOS
from placet.proof.verify.scratch import Scratch, ScratchFiles, ScratchSchemas
from placet.proof.verify.stage import Configuration, Origin, Stage
from placet.rules.contracts import Tool
from placet.rules.foreign import safe_exception_name

__all__ = ["SCENARIOS", "Configuration", "Finding", "Guarantee", "Origin", "Verdict", "Verification", "verify"]

Heard = Callable[[Finding], None]


def _nobody(finding: Finding) -> None: ...


def verify(
    configuration: Configuration,
    *,
    only: frozenset[Guarantee] = frozenset(Guarantee),
    heard: Heard = _nobody,
) -> Verification:
    """Play every scenario of these guarantees; `heard` hears each finding as it is made.

    Raises:
        ContractError: the tools cannot be registered together.
        ConfigurationError, StoreError: the database cannot be reached, or no scratch schema can be made in it.
    """
    Registry(configuration.tools)
    if configuration.database is not None:
        asyncio.run(_ready(configuration.database))
    findings: list[Finding] = []
    with _quiet():
        for guarantee in Guarantee:
            if guarantee in only:
                for finding in _of_guarantee(guarantee, configuration):
                    heard(finding)
                    findings.append(finding)
    return Verification(findings=tuple(findings))


async def _ready(database: str) -> None:
    """Drop what a run left that died, and see that a store can be made, before anything is said to be proven."""
    scratch = ScratchDatabase(database, label=secrets.token_hex(4))
    await scratch.sweep()
    with tempfile.TemporaryDirectory(prefix="placet-verify-") as folder:
        try:
            await scratch.make("first", Path(folder, "first.key"))
        finally:
            await scratch.drop()


@contextmanager
def _quiet() -> Iterator[None]:
    """Faults are made on purpose here, and what is logged about them would only alarm."""
    ours = logging.getLogger("placet")
    handler, before = logging.NullHandler(), ours.propagate
    ours.addHandler(handler)
    ours.propagate = False
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.propagate = before


def _of_guarantee(guarantee: Guarantee, configuration: Configuration) -> Iterator[Finding]:
    for scenario in SCENARIOS:
        if scenario.guarantee is not guarantee:
            continue
        match scenario:
            case Once():
                yield _played(scenario, configuration, None)
            case PerTool(concerns=concerns):
                for tool in configuration.tools:
                    if concerns(tool.contract):
                        yield _played(scenario, configuration, tool)


def _played(scenario: Scenario, configuration: Configuration, tool: Tool | None) -> Finding:
    began = time.perf_counter()
    verdict, told, next_step = _verdict(scenario, configuration, tool)
    return Finding(
        guarantee=scenario.guarantee,
        scenario=scenario.id,
        tool=None if tool is None else tool.contract.name,
        verdict=verdict,
        told=told,
        next_step=next_step,
        seconds=time.perf_counter() - began,
    )


def _verdict(scenario: Scenario, configuration: Configuration, tool: Tool | None) -> tuple[Verdict, str, str]:
    """How it ended. A scenario that breaks down itself proved nothing, and is red."""
    try:
        with tempfile.TemporaryDirectory(prefix="placet-verify-") as folder:
            return Verdict.HELD, asyncio.run(_told(scenario, configuration, tool, Path(folder))), ""
    except Breach as breach:
        return Verdict.BROKEN, breach.told, breach.next_step
    except NotPlayed as why:
        return Verdict.NOT_PLAYED, str(why), ""
    except CannotApply as why:
        return Verdict.CANNOT_APPLY, str(why), ""
    except Exception as error:
        name = safe_exception_name(error)
    return Verdict.BROKEN, f"the scenario broke down: {name}", "PLACET_DEBUG=1 shows where. Please report it."


async def _told(scenario: Scenario, configuration: Configuration, tool: Tool | None, folder: Path) -> str:
    database = configuration.database
    scratch: Scratch = ScratchFiles(folder) if database is None else ScratchSchemas(folder, database)
    stage = Stage(configuration, scratch, StageClock())
    try:
        match scenario:
            case Once(play=play):
                return await play(stage)
            case PerTool(play=play_with):
                assert tool is not None  # noqa: S101 - a scenario per tool is played with one
                return await play_with(stage, stage.tools[tool.contract.name])
    finally:
        await scratch.end()
