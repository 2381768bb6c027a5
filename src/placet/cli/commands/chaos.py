"""`placet chaos`: workers die everywhere under load, and the table says what really happened."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.failing import UsageProblem
from placet.cli.files import write_new_file
from placet.cli.screen import Column
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.settings import Origin
from placet.cli.table import Exit
from placet.errors import ConfigurationError
from placet.proof.chaos import ChaosPlan, ChaosReport, Row, Sabotage, Steps, run_chaos
from placet.proof.chaos.database import CommandedDatabase, Database, own_database
from placet.proof.chaos.report import COLUMNS, SCHEMA
from placet.proof.private_server import NoServer

app = new_app("chaos")


class OwnPostgres(StrEnum):
    """Which PostgreSQL a run is on."""

    PRIVATE = "private"


_COLUMNS = tuple(Column(title=title, cell=cell) for title, cell in COLUMNS)


@app.command(epilog=epilog())
@with_session
def chaos(
    session: Session,
    kills: Annotated[int, typer.Option("--kills", min=1, metavar="N", help="Deaths that end the load.")] = 200,
    seconds: Annotated[float, typer.Option("--seconds", min=1, metavar="S", help="Or this much time.")] = 120.0,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, metavar="N", help="Processes at once.")] = 8,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="What chance begins with.")] = 1,
    steps: Annotated[Steps, typer.Option("--steps", help="Every named step first, or only moments of chance.")] = (
        Steps.ALL
    ),
    per_step: Annotated[int, typer.Option("--per-step", min=1, metavar="N", help="Deaths at each named step.")] = 1,
    sabotage: Annotated[Sabotage | None, typer.Option("--sabotage", help="Break something, to see it shown.")] = None,
    restart_command: Annotated[
        str | None, typer.Option("--restart-command", metavar="COMMAND", help="Restarts the database, now and then.")
    ] = None,
    postgres: Annotated[
        OwnPostgres | None,
        typer.Option("--postgres", help="On a PostgreSQL server of its own, which is killed and restarted meanwhile."),
    ] = None,
    restart_every: Annotated[
        float, typer.Option("--restart-every", min=1, metavar="S", help="How often it is restarted.")
    ] = 10.0,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the JSON document too.")
    ] = None,
) -> Exit:
    """Kill workers at every durable step and at random under load, then compare ledger, audit and remote system.

    Works on a store of its own, in a temporary folder; or with --store on a new file or an empty database, which
    keeps what was done in it. Ends with 1 if anything acted twice, was lost, or is still unknown, and if something was
    broken on purpose.
    """
    if output is not None and output.exists():  # said now, and not when the run is over
        raise UsageProblem(f"Nothing was done, because it exists: {output}", code="exists", hint="Choose another name.")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageProblem(
            f"Nothing was done, because there is no folder for it: {output}", hint="Make the folder first."
        )
    origins = session.settings.origins
    is_said = origins["store"] is Origin.FLAG
    if postgres is not None and (is_said or restart_command is not None):
        raise UsageProblem("--postgres brings a server of its own: no --store or --restart-command goes with it.")
    if origins["key"] is Origin.FLAG and not is_said:
        raise UsageProblem("--key is for the store that --store names; a store of its own has a key of its own.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-chaos-store-")))
        store, key, database = str(folder / "chaos.db"), None, _commanded(restart_command)
        if is_said:
            store = str(session.settings.store)
            key = str(session.settings.key) if session.settings.key is not None else None
        if postgres is not None:
            store, database = _own(stack)
            key = str(folder / "chaos.key")
        plan = ChaosPlan(
            store=store,
            key=key,
            kills=kills,
            seconds=seconds,
            workers=workers,
            seed=seed,
            steps=steps,
            per_step=per_step,
            sabotage=sabotage,
            database=database,
            restart_every_seconds=restart_every,
        )
        session.screen.talk(f"{workers} workers, up to {kills} kills or {seconds:.0f} s; seed {seed}.")
        report = _ran(plan)
    _show(session, report)
    if output is not None:
        asyncio.run(write_new_file(output, _document(report)))
    return Exit.OK if report.is_clean else Exit.FAILED


def _commanded(command: str | None) -> Database | None:
    return None if command is None else CommandedDatabase(command)


def _own(stack: ExitStack) -> tuple[str, Database]:
    """A server that lasts as long as the stack; its files lie where temporary files do."""
    try:
        return stack.enter_context(own_database(Path(tempfile.gettempdir())))
    except NoServer as missing:
        fault = UsageProblem(f"--postgres cannot be had here: {missing}.", code="no_server")
    raise fault


def _ran(plan: ChaosPlan) -> ChaosReport:
    """The run; what makes no sense to begin with is a matter of usage, so that 1 speaks of the table."""
    try:
        return asyncio.run(run_chaos(plan))
    except ConfigurationError as error:
        fault = UsageProblem(str(error), code=error.code, hint=error.hint)
    raise fault


def _show(session: Session, report: ChaosReport) -> None:
    if not session.screen.is_text:
        session.screen.document(SCHEMA, report.as_data())
        return
    session.screen.listing(
        "chaos", report.rows, as_data=_row_data, columns=_COLUMNS, item_schema=SCHEMA, nothing="Nothing happened."
    )
    for line in report.lines():
        session.screen.line(line)


def _row_data(row: Row) -> dict[str, object]:
    return {title: cell(row) for title, cell in COLUMNS}


async def _document(report: ChaosReport) -> AsyncIterator[bytes]:
    yield json.dumps({"schema": SCHEMA, **report.as_data()}, indent=2).encode() + b"\n"
