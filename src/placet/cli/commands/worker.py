"""`placet worker`: the process that looks after what others left behind."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from placet.bootstrap.addresses import shown_store
from placet.bootstrap.announcing import announcer_of
from placet.bootstrap.surroundings import configure_logging, system_clock
from placet.cli.draining import DRAIN_SECONDS, DrainSeconds, drain_seconds, draining
from placet.cli.failing import UsageProblem
from placet.cli.project import finish, load_tools, load_workflows, project_opening, require_store
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import Exit
from placet.engine.gate import Gate
from placet.engine.inline import InlineDriver
from placet.engine.workflow import Workflows
from placet.model.exact import is_seconds
from placet.rules.contracts import Tool
from placet.worker import Round, Worker

app = new_app("worker")
_log = logging.getLogger("placet.worker")


@app.command(epilog=epilog())
@with_session
def worker(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="One round, then end; for cron.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="How long to pause between rounds.")
    ] = 10.0,
    workflows: Annotated[
        str | None,
        typer.Option(
            "--workflows", metavar="MODULE:NAME", help="Drive the runs of these too, instead of those in placet.toml."
        ),
    ] = None,
    drain: DrainSeconds = DRAIN_SECONDS,
) -> Exit:
    """Recover effects whose processes are gone, ask the probes of unknown ones, and expire what nobody decided.

    Remind of questions that nobody has decided, and escalate them, as the policy file says.

    Where placet.toml has [retention], or contracts say so themselves, forget what finished long ago as well; where it
    has [[notify]], announce what happened. Where [placet] names workflows, drive their runs: a collection of
    placet.Workflow, or a function that is given the gate and makes placet.Workflows.

    Runs until SIGTERM, and then finishes its round, and the steps of runs that are under way; any number may run on one
    store. It writes JSON lines about each round to standard error, and nothing to standard output but the round of
    --once. Ends with 0, or with 1 if a round had to be left or, with --once, had a fault.
    """
    if not is_seconds(interval):
        raise UsageProblem("--interval is a finite number above zero")
    limit = drain_seconds(drain)
    require_store(session.settings)
    served = _Served(tools=load_tools(session.settings))
    place = workflows or session.settings.workflows
    if place is not None:
        served = replace(served, workflows=load_workflows(session.settings, place))
    configure_logging(sys.stderr)
    if once:
        _show(session, finish(_one_round(session, served)), drives=served.workflows is not None)
        return Exit.OK
    finish(_rounds(session, served, interval, limit))
    return Exit.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """What of the project's own code the worker has.

    Attributes:
        workflows: what makes them on the gate; None drives no run.
    """

    tools: Collection[Tool]
    workflows: Callable[[Gate], Workflows] | None = None

    def driver(self, gate: Gate) -> InlineDriver | None:
        return None if self.workflows is None else InlineDriver(self.workflows(gate))


async def _one_round(session: Session, served: _Served) -> Round:
    async with _working(session, served, 1.0) as worker:
        return await worker.once()


@asynccontextmanager
async def _working(session: Session, served: _Served, pause_seconds: float) -> AsyncIterator[Worker]:
    opening = project_opening(session.settings, served.tools)
    with redirect_stdout(sys.stderr):  # a probe's print is no data
        async with opening as gate:
            announcer = announcer_of(opening, session.settings.announcements)
            driver = served.driver(gate)
            yield Worker(gate, clock=system_clock(), pause_seconds=pause_seconds, announcer=announcer, driver=driver)


async def _rounds(session: Session, served: _Served, interval: float, limit: float) -> None:
    ending = asyncio.Event()
    async with _working(session, served, interval) as worker:
        working = asyncio.ensure_future(worker.run(ending))

        async def drain() -> bool:
            _log.info("ending")
            ending.set()
            done, _ = await asyncio.wait((working,), timeout=limit)
            return bool(done)

        with draining(drain, when_left=lambda: _log.warning("round left unfinished"), code=Exit.FAILED):
            _log.info("working", extra={"store": shown_store(session.settings.store)})
            await working
    _log.info("ended")


def _show(session: Session, done: Round, *, drives: bool) -> None:
    body = {**asdict(done.recovery), "expired": done.expired, **asdict(done.reminding), "purged": done.purged}
    if session.settings.announcements.destinations:
        told = done.announcing
        body |= {"delivered": told.delivered, "postponed": told.postponed, "given_up": told.dead}
    if drives:
        body |= {"moved": done.moved}
    if session.screen.is_text:
        session.screen.fields((name.replace("_", " "), str(number)) for name, number in body.items())
    else:
        session.screen.document("round/1", body)
