"""`placet doctor`: is this deployment safe to start? It looks, and changes nothing."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.cli.project import finish, load_tools, policy_of, shadow_of
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.settings import Origin, Settings, unknown_variables
from placet.cli.table import Exit
from placet.errors import PlacetError
from placet.ports.policy import PolicyEngine
from placet.proof.doctor import Deployment, Depth, Diagnosis, Level, Report, diagnose
from placet.rules.contracts import Tool

app = new_app("doctor")


@app.command(epilog=epilog())
@with_session
def doctor(
    session: Session,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every row and every event, however long it takes.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 on warnings too.")] = False,
) -> Exit:
    """Say whether this deployment is safe to start: one line per check, with what to do about it.

    Nothing is changed or made. Ends with 0 if nothing failed, 1 under --strict if something was warned of, and 2 if
    something failed or could not be looked at.
    """
    report = finish(diagnose(deployment(session.settings), depth=Depth.DEEP if deep else Depth.NEWEST))
    _tell(session.screen, report)
    match report.worst:
        case Level.OK:
            return Exit.OK
        case Level.WARN:
            return Exit.FAILED if strict else Exit.OK
        case Level.FAIL | Level.SKIPPED:
            return Exit.USAGE


def deployment(settings: Settings) -> Deployment:
    """What the settings would start."""
    return Deployment(
        store=settings.store,
        key=settings.key,
        tools=_tools(settings),
        policy=_policy(settings),
        shadow=_shadow(settings),
        shadow_since=_changed_at(settings.shadow),
        agent=settings.agent,
        people=tuple(settings.people.values()),
        unread=unknown_variables(),
        announcements=settings.announcements,
        admission=settings.admission if settings.origins["sign_in"] is Origin.FILE else None,
        listening=settings.listening if settings.origins["serve"] is Origin.FILE else None,
        upstreams=settings.upstreams,
        pins=settings.pins_file,
    )


def _policy(settings: Settings) -> PolicyEngine | PlacetError:
    try:
        return policy_of(settings)
    except PlacetError as error:
        return error


def _shadow(settings: Settings) -> PolicyEngine | PlacetError | None:
    try:
        return shadow_of(settings)
    except PlacetError as error:
        return error


def _changed_at(file: Path | None) -> datetime | None:
    with suppress(OSError, ValueError, OverflowError):
        return None if file is None else datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return None


def _tools(settings: Settings) -> tuple[Tool, ...] | PlacetError:
    sys.dont_write_bytecode = True  # importing the project's modules changes nothing of its folder either
    try:
        return load_tools(settings)
    except PlacetError as error:
        return error


def _tell(screen: Screen, report: Report) -> None:
    if not screen.is_text:
        screen.document("doctor/1", _data(report))
        return
    width = max(len(each.id) for each in report.diagnoses)
    for each in report.diagnoses:
        screen.line(f"{each.saying.level.value:<7}  {each.id:<{width}}  {shown(each.saying.told)}")
        if each.saying.next_step:
            screen.line(f"{'':<7}  {'':<{width}}  next: {shown(each.saying.next_step)}")
    screen.talk(_summary(report))


def _summary(report: Report) -> str:
    counts = ", ".join(f"{report.count(level)} {level.value}" for level in Level)
    if report.red:
        return f"{counts}. Do not start: {', '.join(each.id for each in report.red)}"
    return f"{counts}."


def _data(report: Report) -> dict[str, Any]:
    return {
        "worst": report.worst.value,
        "counts": {level.value: report.count(level) for level in Level},
        "checks": [_line(each) for each in report.diagnoses],
    }


def _line(each: Diagnosis) -> dict[str, Any]:
    saying = each.saying
    return {
        "id": each.id,
        "about": each.about,
        "level": saying.level.value,
        "told": saying.told,
        "next": saying.next_step or None,
    }
