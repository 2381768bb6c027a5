"""`placet runs`: how far each run has come, what is left open of it; and pausing, resuming and cancelling one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Annotated, Any

import typer

from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.project import ask, checked, is_text
from placet.cli.remote import told_if_cut
from placet.cli.run_lists import Verb, runs_of
from placet.cli.screen import Column, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_served_list_session, with_served_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.run_views import RunCall, RunDetails, RunEffects, RunRests, RunView
from placet.engine.runs import MAX_REASON_CHARACTERS, RunReport
from placet.errors import DecisionRefused, NotFound
from placet.model.run import LeftOpen, RunStatus
from placet.rules.documents import document_of
from placet.rules.policy import READ_EFFECTS_SCOPE
from placet.rules.stopping import STOP_SCOPE

app = new_app("runs")
_verbs = COMMANDS["runs"].verbs
RUN = Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")]
REASON = Annotated[str, typer.Option("--reason", metavar="TEXT", help="For those who may see it; kept encrypted.")]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_served_list_session
def list_runs(
    session: Session,
    left_open: Annotated[
        str | None,
        typer.Option("--left-open", metavar="WHAT", help="Only those with something unknown, in_progress or waiting."),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Only those that are open, paused, done, failed or cancelled."),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Your own alone.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000, help="How many, the last to be opened first.")
    ] = 100,
) -> Exit:
    left, kind = _left(left_open), _status(status)
    with _next_step(session):
        place = runs_of(session)
        listed = ask(place, lambda runs: runs.own(left, kind, limit) if mine else runs.listed(left, kind, limit))
    session.screen.listing(
        "runs",
        listed.runs,
        as_data=_data,
        columns=[
            Column(title="steps", cell=lambda v: f"{v.steps} of {v.max_steps}"),
            Column(title="left open", cell=_left_words),
            Column(title="status", cell=lambda v: v.status.value),
            Column(title="stopped", cell=lambda v: "yes" if v.stopped_by else "-"),
            Column(title="by", cell=lambda v: " for ".join(v.requested_by)),
            Column(title="opened at", cell=lambda v: session.screen.instant(v.opened_at) or ""),
            Column(title="last step", cell=lambda v: session.screen.instant(v.stepped_at) or "-"),
            Column(title="run", cell=lambda v: v.run_id),
        ],
        item_schema="run/1",
        nothing="There is no such run that you may see." if listed.is_all else "There is none among the latest runs.",
    )
    if not listed.is_all:
        session.screen.warn("Older runs were not looked at; there may be more.")
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_served_session
def show_run(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")],
    calls: Annotated[int, typer.Option("--calls", min=1, max=1_000, help="How many calls, last change first.")] = 100,
) -> Exit:
    with _next_step(session):
        view = ask(runs_of(session), lambda runs: runs.show(run, calls))
    _show(session, view)
    return Exit.OK


@app.command("pause", help=_verbs["pause"], epilog=epilog())
@with_served_session
def pause_run(session: Session, run: RUN, reason: REASON = "") -> Exit:
    return _change(session, "pause", run, reason)


@app.command("resume", help=_verbs["resume"], epilog=epilog())
@with_served_session
def resume_run(session: Session, run: RUN, reason: REASON = "") -> Exit:
    return _change(session, "resume", run, reason)


@app.command("cancel", help=_verbs["cancel"], epilog=epilog())
@with_served_session
def cancel_run(session: Session, run: RUN, reason: REASON = "") -> Exit:
    return _change(session, "cancel", run, reason)


def _change(session: Session, verb: Verb, run: str, reason: str) -> Exit:
    checked(reason, f"--reason is text of at most {MAX_REASON_CHARACTERS} characters", _is_reason)
    there = f"placet runs show {quote(shown(run))}{session.there}"
    with _next_step(session, needs=STOP_SCOPE), told_if_cut(session.screen, session.server, there):
        report = ask(runs_of(session), lambda runs: runs.change(verb, run, reason))
    _tell(session, report)
    return Exit.OK


def _is_reason(reason: str) -> bool:
    return is_text(reason) and "\x00" not in reason and len(reason) <= MAX_REASON_CHARACTERS


def _tell(session: Session, report: RunReport) -> None:
    screen = session.screen
    if not screen.is_text:
        report_data: Any = document_of(report)
        screen.document("run_report/1", report_data)
        return
    screen.fields(
        [
            ("run", report.run_id),
            ("status", report.status.value if report.is_news else f"{report.status.value}, as it was"),
            ("withdrawn", str(report.withdrawn) if report.withdrawn else None),
            ("still running", str(len(report.running)) if report.running else None),
        ]
    )
    for call in report.running:
        screen.line(f"  {shown(call.call_id)}  {shown(call.tool)}  claimed {call.age_seconds:.0f} s ago")
    if report.running:
        screen.talk("What was claimed before goes on; nothing else of the run does.")


def _left(said: str | None) -> LeftOpen | None:
    try:
        return None if said is None else LeftOpen(said)
    except ValueError:
        pass
    raise UsageProblem(f"--left-open is one of {', '.join(LeftOpen)}")


def _status(said: str | None) -> RunStatus | None:
    try:
        return None if said is None else RunStatus(said)
    except ValueError:
        pass
    raise UsageProblem(f"--status is one of {', '.join(RunStatus)}")


@contextmanager
def _next_step(session: Session, *, needs: str = READ_EFFECTS_SCOPE) -> Iterator[None]:
    """What goes wrong in here is told with a next step."""
    try:
        yield
    except NotFound as error:
        error.hint = f"placet runs list{session.there} prints their names."
        raise
    except DecisionRefused as error:
        if error.code == "scope_missing":
            error.hint = scope_hint(needs)
        raise


# ---------------------------------------------------------------- showing


def _left_words(view: RunView) -> str:
    return ", ".join(_words(each) for each in view.left_open) or "-"


def _show(session: Session, view: RunDetails) -> None:
    screen = session.screen
    if not screen.is_text:
        screen.document("run_details/1", _details(view))
        return
    screen.fields(
        [
            ("run", view.run_id),
            ("by", " for ".join(view.requested_by)),
            ("opened at", screen.instant(view.opened_at)),
            ("last step", screen.instant(view.stepped_at)),
            ("status", view.status.value),
            ("changed by", view.changed_by),
            ("reason", view.reason),
            ("rests", None if view.rests is None else _rest_words(session, view, view.rests)),
            ("steps", f"{view.steps} of {view.max_steps}"),
            ("budgets", ", ".join(f"{each.name} {each.taken} of {each.most}" for each in view.budgets) or None),
            ("deadline", screen.instant(view.deadline)),
            ("tools", None if view.allowed_tools is None else ", ".join(view.allowed_tools) or "none"),
            ("policy", f"{view.policy_version}{_POLICY[view.is_policy_todays]}"),
            ("left open", _left_words(view)),
            ("stopped by", _stopped(view)),
            ("closed tools", ", ".join(view.closed_tools) or None),
            ("effects", None if view.effects is None else _effect_words(view.effects)),
            ("waiting", _waiting(view)),
        ]
    )
    for call in view.calls or ():
        screen.line(_line(session, call))
    if view.has_more_calls:
        screen.talk("There are more calls than these: --calls")
    if view.calls is None:
        screen.talk("What its calls came to is told with audit.read, effects.read or effects.reconcile.")
    if view.effects is not None and view.effects.unknown:
        screen.talk(f"Learn what became of what is unknown: placet effects list --state unknown{session.there}")
    if view.waiting:
        screen.talk(f"See what waits: placet approvals show {quote(shown(view.waiting[0]))}{session.there}")


def _rest_words(session: Session, view: RunDetails, rests: RunRests) -> str:
    at = f"{rests.state} (visit {rests.visit}) of {rests.workflow} {rests.version}"
    if rests.is_driven or rests.look_at is None:
        return f"{at}{_why(rests.code)}{', driven now' if rests.is_driven else ''}"
    if rests.look_at > (view.stepped_at or view.opened_at):
        return f"{at}{_why(rests.code)}, looked at again {session.screen.instant(rests.look_at)}"
    # An answer makes its run due, and changes nothing else of it: that a person is asked is over.
    why = "" if rests.code == "approval_required" else _why(rests.code)
    return f"{at}{why}, due: whoever serves its workflow drives it"


def _why(code: str | None) -> str:
    return f", {_words(code)}" if code else ""


_POLICY = {True: "", False: " (not today's)", None: ""}


def _words(code: str) -> str:
    return code.replace("_", " ")


def _effect_words(effects: RunEffects) -> str:
    counts: Any = document_of(effects)
    return ", ".join(f"{count} {_words(name)}" for name, count in counts.items() if count) or "none"


def _stopped(view: RunView) -> str | None:
    what = {"all": "a stop of everything", "tenant": "a stop of the tenant", "run": "a stop of this run"}
    return ", ".join(what[each] for each in view.stopped_by) or None


def _waiting(view: RunView) -> str | None:
    rest = view.waiting_count - len(view.waiting)
    more = [f"and {rest} more"] if rest else []
    return ", ".join([*view.waiting, *more]) or None


def _line(session: Session, call: RunCall) -> str:
    if call.tool is None:
        return f"  {shown(call.call_id)}  no row: a read, a refusal, or answered from the record"
    at = session.screen.instant(call.changed_at) or "-"
    words = f"{call.state or '-'}" + (f" ({call.reason})" if call.reason else "")
    asked = f"  {call.approval_id}" if call.approval_id else ""
    return f"  {shown(call.call_id)}  {shown(call.tool)}  {shown(words)}  {at}{shown(asked)}"


def _data(view: RunView) -> dict[str, Any]:
    return {
        "run_id": view.run_id,
        "tenant": view.tenant,
        "requested_by": list(view.requested_by),
        "opened_at": instant_data(view.opened_at),
        "stepped_at": instant_data(view.stepped_at),
        "status": view.status.value,
        "deadline": instant_data(view.deadline),
        "allowed_tools": None if view.allowed_tools is None else list(view.allowed_tools),
        "steps": view.steps,
        "max_steps": view.max_steps,
        "policy_version": view.policy_version,
        "is_policy_todays": view.is_policy_todays,
        "left_open": [each.value for each in view.left_open],
        "stopped_by": list(view.stopped_by),
        "closed_tools": list(view.closed_tools),
        "waiting_count": view.waiting_count,
        "waiting": list(view.waiting),
        "effects": document_of(view.effects),
    }


def _details(view: RunDetails) -> dict[str, Any]:
    calls = None if view.calls is None else [_call_data(call) for call in view.calls]
    rests: Any = None
    if view.rests is not None:
        rests = document_of(view.rests)
        rests["look_at"] = instant_data(view.rests.look_at)
    return {
        **_data(view),
        "changed_by": view.changed_by,
        "reason": view.reason,
        "budgets": [document_of(each) for each in view.budgets],
        "rests": rests,
        "calls": calls,
        "has_more_calls": view.has_more_calls,
    }


def _call_data(call: RunCall) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "tool": call.tool,
        "state": call.state,
        "reason": call.reason,
        "approval_id": call.approval_id,
        "began_at": instant_data(call.began_at),
        "changed_at": instant_data(call.changed_at),
    }
