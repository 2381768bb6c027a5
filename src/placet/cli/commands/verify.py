"""`placet verify`: every guarantee, tried against this project's own tools and policy, in a scratch store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.bootstrap.addresses import shown_store
from placet.bootstrap.scratch import NAMES
from placet.cli.failing import UsageProblem
from placet.cli.files import write_new_file
from placet.cli.project import finish, load_tools, policy_of
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.settings import Settings
from placet.cli.table import Exit
from placet.proof.verify import Configuration, Finding, Guarantee, Origin, Verdict, Verification, verify
from placet.proof.verify.junit import junit

app = new_app("verify")


@app.command(epilog=epilog())
@with_session
def verify_project(
    session: Session,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="G", help="Only this guarantee, such as G5; repeatable.")
    ] = None,
    junit_file: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML to a new file as well.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 1 if anything that applies could not be run, too.")
    ] = False,
) -> Exit:
    """Try every guarantee against this project's own tools and policy.

    Each scenario has scratch stores of its own. The project's store and key are not opened, and none of its handlers
    and probes is called: hands of placet's own stand in for them. Where the store is a PostgreSQL database, scratch
    stores are schemas in it named placet_verify_..., each dropped when its scenario ends; what a run left that died
    is dropped by the next run after an hour. Ends with 1 if a guarantee was broken.
    """
    wanted = _guarantees(only or ())
    settings, screen = session.settings, session.screen
    configuration = _configuration(settings)
    if junit_file is not None and Path(junit_file).exists():
        raise UsageProblem(f"--junit: there is such a file already: {junit_file}", hint="Name a new one.")
    if configuration.database is not None:
        where = shown(shown_store(configuration.database))
        screen.talk(f"Scratch schemas named {NAMES}... are made in {where} and dropped again.")
    verification = verify(configuration, only=wanted, heard=lambda finding: _tell(screen, finding))
    if junit_file is not None:
        finish(write_new_file(Path(junit_file), _once(junit(verification))))
    if not screen.is_text:
        screen.document("verification/1", _data(verification, configuration.database))
    screen.talk(_summary(verification, wanted))
    if verification.count(Verdict.BROKEN) or (strict and verification.count(Verdict.NOT_PLAYED)):
        return Exit.FAILED
    return Exit.OK


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _guarantees(said: list[str] | tuple[str, ...]) -> frozenset[Guarantee]:
    names = {word.upper() for word in said}
    known = {guarantee.name: guarantee for guarantee in Guarantee}
    if names - known.keys():
        raise UsageProblem(f"--only is one of {', '.join(known)}")
    return frozenset(known[name] for name in names) or frozenset(Guarantee)


def _configuration(settings: Settings) -> Configuration:
    tools = load_tools(settings)
    module, _, attribute = (settings.tools or "").partition(":")
    return Configuration(
        tools=tools,
        policy=policy_of(settings),
        agent=settings.agent,
        origin=Origin(folder=settings.folder, module=module, attribute=attribute),
        database=settings.store if isinstance(settings.store, str) else None,
    )


def _tell(screen: Screen, finding: Finding) -> None:
    if not screen.is_text:
        return
    tool = "" if finding.tool is None else f"  {shown(finding.tool)}"
    screen.line(
        f"{finding.verdict.value:<7}  {finding.guarantee.name:<3}  {finding.scenario}{tool}: {shown(finding.told)}"
    )
    if finding.next_step:
        screen.line(f"{'':<12}  next: {shown(finding.next_step)}")
    screen.flush()


def _summary(verification: Verification, wanted: frozenset[Guarantee]) -> str:
    counts = ", ".join(f"{verification.count(verdict)} {verdict.value}" for verdict in Verdict)
    unproven = [guarantee.name for guarantee in verification.unproven if guarantee in wanted]
    if verification.count(Verdict.BROKEN):
        return f"{counts}. A guarantee does not hold here."
    return f"{counts}." + (f" Nothing could be run for {', '.join(unproven)}." if unproven else "")


def _data(verification: Verification, database: str | None) -> dict[str, Any]:
    return {
        "scratch": "sqlite" if database is None else "postgresql",
        "counts": {verdict.value: verification.count(verdict) for verdict in Verdict},
        "unproven": [guarantee.name for guarantee in verification.unproven],
        "findings": [
            {
                "guarantee": finding.guarantee.name,
                "says": finding.guarantee.value,
                "scenario": finding.scenario,
                "tool": finding.tool,
                "verdict": finding.verdict.value,
                "told": finding.told,
                "next": finding.next_step or None,
                "seconds": round(finding.seconds, 3),
            }
            for finding in verification.findings
        ],
    }
