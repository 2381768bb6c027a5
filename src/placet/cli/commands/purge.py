"""`placet purge`: forget what is old, or count it. What it was called and how it ended stays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any

import typer

from placet.cli.ages import age_seconds, age_text
from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.project import finish, load_tools, open_project, person, require_store
from placet.cli.screen import Column, instant_data
from placet.cli.session import Session, epilog, new_app, with_list_session
from placet.cli.table import Exit
from placet.engine.forgetting import PurgeReport
from placet.engine.purging import OldKind
from placet.errors import DecisionRefused, PlacetError
from placet.model.principal import Principal
from placet.model.retention import Retention, is_retention
from placet.rules.contracts import Tool
from placet.rules.retention import PURGE_SCOPE

app = new_app("purge")

_AN_AGE = "is an age of one day or more, such as 90d or 12w"
_HOW_OLD = "Say how old: --older-than 90d, --audit-older-than 400d, or [retention] in placet.toml"


@app.command(epilog=epilog())
@with_list_session
def purge(
    session: Session,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Such as 90d. Contracts that say so themselves keep their own."
        ),
    ] = None,
    audit_older_than: Annotated[
        str | None, typer.Option("--audit-older-than", metavar="AGE", help="Also cut audit events that are so old.")
    ] = None,
    unregistered: Annotated[
        bool, typer.Option("--unregistered", help="Also operations of tools that this project does not register.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without it what is old is counted, and stays.")] = False,
) -> Exit:
    """Forget what finished long ago, of every tenant; without --yes only count it.

    Of operations the arguments, the result and the external reference go; key, fingerprint and digests stay, so that
    none is ever run again. Idle runs, closed approvals, voided tokens and ended API keys go whole. An audit that was
    cut begins with a signed tombstone. Nothing that is held goes: placet holds list. Needs the scope ops.purge.
    """
    require_store(session.settings)
    by = person(session.settings)
    retention = _retention(session, older_than, audit_older_than)
    tools = _tools(session)
    if retention == Retention() and all(tool.contract.retention_seconds is None for tool in tools):
        raise UsageProblem(_HOW_OLD)
    if yes:
        _show(session, finish(_purged(session, tools, retention, by, unregistered)))
    else:
        _list(session, finish(_counted(session, tools, retention, by)), unregistered)
    return Exit.OK


def _retention(session: Session, older_than: str | None, audit_older_than: str | None) -> Retention:
    """What the flags say, and where they say nothing the project file."""
    retention = session.settings.retention
    if older_than is not None:
        retention = replace(retention, seconds=_age(older_than, "--older-than"))
    if audit_older_than is not None:
        retention = replace(retention, audit_seconds=_age(audit_older_than, "--audit-older-than"))
    return retention


def _age(said: str, option: str) -> float:
    seconds = age_seconds(said)
    if seconds is None or not is_retention(seconds):
        raise UsageProblem(f"{option} {_AN_AGE}")
    return seconds


def _tools(session: Session) -> tuple[Tool, ...]:
    """The project's tools, whose contracts may say how long what they did is kept; without them theirs is left."""
    try:
        return load_tools(session.settings)
    except PlacetError:
        session.screen.warn("placet: the tools of the project could not be loaded, so what they did is left alone")
        return ()


async def _purged(
    session: Session, tools: Collection[Tool], retention: Retention, by: Principal, unregistered: bool
) -> PurgeReport:
    async with open_project(session.settings, tools) as gate:
        try:
            return await gate.purger.purge(retention, by=by, includes_unregistered=unregistered)
        except DecisionRefused as error:
            refusal = with_hint(error, PURGE_SCOPE)
        raise refusal


async def _counted(
    session: Session, tools: Collection[Tool], retention: Retention, by: Principal
) -> tuple[OldKind, ...]:
    async with open_project(session.settings, tools) as gate:
        try:
            return await gate.purger.old(retention, by=by)
        except DecisionRefused as error:
            refusal = with_hint(error, PURGE_SCOPE)
        raise refusal


def with_hint(error: DecisionRefused, scope: str) -> DecisionRefused:
    if error.code == "scope_missing":
        error.hint = scope_hint(scope)
    return error


# ---------------------------------------------------------------- showing


def _list(session: Session, found: tuple[OldKind, ...], unregistered: bool) -> None:
    screen = session.screen
    kinds = [kind for kind in found if kind.rows.count]
    screen.listing(
        "old",
        kinds,
        as_data=_data,
        columns=[
            Column(title="kind", cell=lambda k: k.kept.value),
            Column(title="tenant", cell=lambda k: k.tenant or "-"),
            Column(title="tool", cell=lambda k: k.tool or "-"),
            Column(title="older than", cell=lambda k: age_text(k.retention_seconds)),
            Column(title="rows", cell=lambda k: str(k.rows.count)),
            Column(title="oldest", cell=lambda k: screen.instant(k.rows.oldest_at) or "-"),
        ],
        item_schema="old-kind/1",
        nothing="Nothing is old enough.",
    )
    left = sum(kind.rows.count for kind in kinds if kind.is_left)
    if left and not unregistered:
        screen.warn(f"placet: {left} operations are of tools not registered here; --unregistered forgets them too")
    if kinds:
        screen.talk("Nothing was changed. To forget it, add --yes. Denials of runs that go on, and what does not")
        screen.talk("verify, are counted here and stay.")


def _data(kind: OldKind) -> dict[str, Any]:
    return {
        "kind": kind.kept.value,
        "tenant": kind.tenant,
        "tool": kind.tool,
        "retention_seconds": kind.retention_seconds,
        "rows": kind.rows.count,
        "oldest_at": instant_data(kind.rows.oldest_at),
        "is_registered": not kind.is_left,
    }


def _show(session: Session, report: PurgeReport) -> None:
    screen = session.screen
    if screen.is_text:
        screen.fields((kept.value, str(count)) for kept, count in report.purged.items())
    else:
        purged = {kept.value: count for kept, count in report.purged.items()}
        data = {"purged": purged, "broken": report.broken, "is_audit_waiting": report.is_audit_waiting}
        screen.document("purge/1", data)
    if report.is_audit_waiting:
        screen.flush()
        screen.warn("placet: no event was forgotten, because others wait to be chained; ask again, or: placet doctor")
    if report.broken:
        screen.flush()
        screen.warn(
            f"placet: {report.broken} rows or chains do not hold and were left, as evidence: placet audit verify"
        )
