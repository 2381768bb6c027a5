"""`placet approvals`: what waits, exactly what would run, and a person's answer.

What is shown is what is signed: an approval carries the digest of the arguments that were shown, in full. Who decides
is the operating system's word. Approving runs nothing; the proposer's next ask does.
"""

from __future__ import annotations

import re
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.failing import ContractUnavailable, Declined, UsageProblem, scope_hint
from placet.cli.project import checked, finish, is_text, open_project, person, require_store, tools_if_loadable
from placet.cli.screen import Column, Form, shown, value_lines
from placet.cli.seen import Seen, countdown, details, seconds_left, seen_of, summary
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.cli.watching import watched
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.errors import DecisionRefused, NotFound
from placet.model.approval import ApprovalState
from placet.model.contract import EffectClass, Risk
from placet.model.principal import Principal
from placet.rules.policy import DECIDE_SCOPE

if TYPE_CHECKING:
    from placet.rules.contracts import Tool

app = new_app("approvals")
_verbs = COMMANDS["approvals"].verbs

_PREFIX = re.compile(r"[0-9a-f]{8,64}")
_ALL = "all"
_NEEDS_DIGEST = frozenset({Risk.HIGH.value, Risk.CRITICAL.value})
_NOT_GIVEN = frozenset({ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED})

_Id = Annotated[str, typer.Argument(metavar="ID", help="The approval.")]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
def list_approvals(
    session: Session,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="pending (the default), approved, denied, ... or all; repeatable."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, newest first.")] = 100,
) -> Exit:
    states = _states(state or [ApprovalState.PENDING.value])
    by, tools = _surroundings(session)
    seen = finish(_listed(session, by, tools, states, limit))
    session.screen.listing(
        "approvals",
        seen,
        as_data=summary,
        columns=[
            Column(title="id", cell=lambda s: s.view.approval_id),
            Column(title="state", cell=lambda s: s.view.state.value),
            Column(title="tool", cell=lambda s: s.view.tool),
            Column(title="risk", cell=lambda s: s.view.risk),
            Column(title="asked by", cell=lambda s: s.view.requested_by),
            Column(title="asked at", cell=lambda s: session.screen.instant(s.view.asked_at) or ""),
            Column(title="time left", cell=countdown),
        ],
        item_schema="approval-summary/1",
        nothing="Nothing waits for you." if state is None else "There is no such approval.",
    )
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_session
def show_approval(session: Session, approval_id: _Id) -> Exit:
    by, tools = _surroundings(session)
    with _next_steps(approval_id):
        _show(session, finish(_shown(session, by, tools, approval_id)))
    return Exit.OK


@app.command("approve", help=_verbs["approve"], epilog=epilog())
@with_session
def approve(
    session: Session,
    approval_id: _Id,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="PREFIX",
            help="At least 8 hex digits of the digest that `show` printed. Without it you are asked at the terminal; "
            "irreversible calls and those of high or critical risk always need it.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Your words, for the record.")] = "",
) -> Exit:
    screen = session.screen
    if digest is not None:
        checked(digest, "--digest is 8 to 64 hex digits, as `placet approvals show` prints them", _is_prefix)
    elif not screen.can_ask:
        raise UsageProblem("Off a terminal --digest PREFIX is needed", hint=_how_to_see(approval_id))
    _check_reason(reason)
    by, tools = _surroundings(session)
    with _next_steps(approval_id):
        seen = finish(_shown(session, by, tools, approval_id))
    if not seen.has_contract:
        raise ContractUnavailable(
            f"The contract of {seen.view.tool!r} is not known here, so its arguments cannot be shown in full",
            hint="Mend [placet] tools in placet.toml, or deny it.",
        )
    view = seen.view
    is_open = view.state is ApprovalState.PENDING and view.why_not is None
    if digest is None and is_open:
        _show(session, seen)
        if _is_grave(view):
            raise UsageProblem(
                f"Nothing was approved: a call of risk {view.risk}, {view.effect_class}, needs --digest PREFIX",
                hint=f"If exactly this may run: {_how_to_approve(view)}",
            )
        _ask(session, approval_id)
    # A prefix of the digest that was shown stands for it; any other is refused by the desk, on record.
    carried = view.digest if digest is None or view.digest.startswith(digest) else digest
    with _next_steps(approval_id):
        return _decide(session, by, tools, approval_id, carried, reason)


@app.command("deny", help=_verbs["deny"], epilog=epilog())
@with_session
def deny(
    session: Session,
    approval_id: _Id,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the proposer is told, as data.")],
) -> Exit:
    _check_reason(reason)
    by, tools = _surroundings(session)
    with _next_steps(approval_id):
        _report(session, finish(_denied(session, by, tools, approval_id, reason)))
    return Exit.OK


@app.command("watch", help=_verbs["watch"], epilog=epilog())
@with_list_session
def watch(
    session: Session,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600.0, help="How often to look.")
    ] = 1.0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 100,
) -> Exit:
    if session.screen.form is Form.JSON:
        raise UsageProblem("Watching has no one document: --jsonl writes one for each change")
    by, tools = _surroundings(session)
    finish(watched(session, by, tools, interval_seconds=interval, limit=limit))
    return Exit.OK


@app.command("withdraw", help=_verbs["withdraw"], epilog=epilog())
@with_session
def withdraw(session: Session, approval_id: _Id) -> Exit:
    by, tools = _surroundings(session)
    with _next_steps(approval_id):
        _report(session, finish(_withdrawn(session, by, tools, approval_id)))
    return Exit.OK


# ---------------------------------------------------------------- asking the desk


def _surroundings(session: Session) -> tuple[Principal, Sequence[Tool]]:
    """Who is asking, and the contracts to show with, in the order of what is told first if it is absent."""
    require_store(session.settings)
    by = person(session.settings)
    return by, tools_if_loadable(session)


async def _listed(
    session: Session, by: Principal, tools: Sequence[Tool], states: tuple[ApprovalState, ...], limit: int
) -> list[Seen]:
    async with open_project(session.settings, tools) as gate:
        views = await gate.desk.listed(by=by, states=states, limit=limit)
        now = await gate.store.now()
    return [seen_of(view, now, tools) for view in views]


async def _shown(session: Session, by: Principal, tools: Sequence[Tool], approval_id: str) -> Seen:
    async with open_project(session.settings, tools) as gate:
        return seen_of(await gate.desk.show(_as_id(approval_id), by=by), await gate.store.now(), tools)


async def _approved(
    session: Session, by: Principal, tools: Sequence[Tool], approval_id: str, digest: str, reason: str
) -> Seen:
    async with open_project(session.settings, tools) as gate:
        view = await gate.desk.approve(approval_id, digest=digest, by=by, reason=reason)
        return seen_of(view, await gate.store.now(), tools)


async def _denied(session: Session, by: Principal, tools: Sequence[Tool], approval_id: str, reason: str) -> Seen:
    """A refusal needs no look at the arguments: it is about this question, whatever is in it."""
    async with open_project(session.settings, tools) as gate:
        asked = await gate.desk.show(_as_id(approval_id), by=by)
        view = await gate.desk.deny(approval_id, digest=asked.digest, by=by, reason=reason)
        return seen_of(view, await gate.store.now(), tools)


async def _withdrawn(session: Session, by: Principal, tools: Sequence[Tool], approval_id: str) -> Seen:
    async with open_project(session.settings, tools) as gate:
        view = await gate.desk.withdraw(_as_id(approval_id), by=by)
        return seen_of(view, await gate.store.now(), tools)


@contextmanager
def _next_steps(approval_id: str) -> Iterator[None]:
    """What goes wrong in here is told with a next step about this approval."""
    try:
        yield
    except NotFound as error:
        error.hint = error.hint or "placet approvals list --state all"
        raise
    except DecisionRefused as error:
        see = _how_to_see(approval_id)
        steps = {
            "other_digest": f"The digest is the one that {see} prints; its first 8 digits are enough.",
            "already_decided": f"{see} says who decided. Another decision needs a new ask by the proposer.",
            "not_approved": f"{see} says who decided, and why. The proposer has to ask anew.",
            "scope_missing": scope_hint(DECIDE_SCOPE),
        }
        error.hint = error.hint or steps.get(error.code, "")
        raise


def _decide(session: Session, by: Principal, tools: Sequence[Tool], approval_id: str, digest: str, reason: str) -> Exit:
    try:
        seen = finish(_approved(session, by, tools, approval_id, digest, reason))
    except DecisionRefused as error:
        if error.code != "already_decided":
            raise
        refusal = error
    else:
        _report(session, seen)
        return Exit.OK
    state = finish(_shown(session, by, tools, approval_id)).view.state
    if state in _NOT_GIVEN:  # "decided already", by a decision that was no approval, has an exit code of its own
        raise DecisionRefused(str(refusal), code="not_approved", hint=refusal.hint)
    raise refusal


def _as_id(said: str) -> str:
    """What was typed, if it can be an id at all; bytes that are no text are the id of nothing."""
    return said if is_text(said) else ""


# ---------------------------------------------------------------- asking the person


def _ask(session: Session, approval_id: str) -> None:
    """Ask at the terminal; only a plain yes is one, and only one that was typed after the question was there.

    Raises:
        Declined: anything else, or the end of the input.
    """
    sys.stdout.flush()
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stdout.write("approve? [y/N] ")
    sys.stdout.flush()
    line = sys.stdin.readline()  # not input(): an interrupt that comes right after its prompt would be lost in it
    if not line.endswith("\n"):
        session.screen.warn("")
    answer = line.removesuffix("\n")
    if answer not in ("y", "Y", "yes"):
        raise Declined("Not approved; it still waits", hint=f"To refuse it for good: {_how_to_deny(approval_id)}")


def _is_grave(view: ApprovalView) -> bool:
    return view.risk in _NEEDS_DIGEST or view.effect_class == EffectClass.IRREVERSIBLE.value


def _how_to_see(approval_id: str) -> str:
    return f"placet approvals show {approval_id}"


def _how_to_approve(view: ApprovalView) -> str:
    return f"placet approvals approve {shown(view.approval_id)} --digest {view.digest[:12]}"


def _how_to_deny(approval_id: str) -> str:
    return f"placet approvals deny {shown(approval_id)} --reason TEXT"


def _is_prefix(value: str) -> bool:
    return _PREFIX.fullmatch(value) is not None


def _check_reason(reason: str) -> None:
    if not is_text(reason) or len(reason) > MAX_REASON_CHARACTERS:
        raise UsageProblem(
            f"--reason is text of at most {MAX_REASON_CHARACTERS} characters",
            hint=f"It has {len(reason)} characters: say it shorter, and keep the rest elsewhere."
            if is_text(reason)
            else "It holds bytes that are no UTF-8.",
        )


def _states(said: Sequence[str]) -> tuple[ApprovalState, ...]:
    if _ALL in said:
        return tuple(ApprovalState)
    try:
        return tuple(ApprovalState(word) for word in said)
    except ValueError:
        pass
    raise UsageProblem(f"--state is one of {', '.join(ApprovalState)}, {_ALL}")


# ---------------------------------------------------------------- showing


def _show(session: Session, seen: Seen) -> None:
    screen, view = session.screen, seen.view
    if not screen.is_text:
        screen.document("approval/2", details(seen))
        return
    left = f" ({countdown(seen)} left)" if seconds_left(seen) is not None else ""
    screen.fields(
        [
            ("approval", view.approval_id),
            ("state", view.state.value),
            ("tool", f"{view.tool} (version {view.tool_version})"),
            ("does", view.description or None),
            ("risk", f"{view.risk}, {view.effect_class}"),
            ("asked by", view.requested_by),
            ("on behalf of", view.on_behalf_of),
            ("run", view.run_id),
            ("reasons", ", ".join(view.reasons) or None),
            ("resource", view.resource),
            ("asked at", screen.instant(view.asked_at)),
            ("decide by", f"{screen.instant(view.decide_by)}{left if view.decided_at is None else ''}"),
            ("decided by", view.decided_by),
            ("decided at", screen.instant(view.decided_at)),
            ("usable until", f"{screen.instant(view.expires_at)}{left}" if view.expires_at is not None else None),
            ("said", view.words),
            ("digest", view.digest),
        ]
    )
    if seen.has_contract:
        screen.line("arguments, all that would run:")
        for line in value_lines(view.arguments) if view.arguments else ("none",):
            screen.line(f"  {line}")
        if view.redacted:
            screen.line(f"redacted by contract, covered by the digest: {shown(', '.join(view.redacted))}")
    else:
        screen.line("arguments: hidden, because the tool's contract is not known here")
    if view.state is ApprovalState.PENDING:
        screen.talk(f"You may not decide this: {view.why_not}" if view.why_not is not None else _how_to_decide(view))


def _how_to_decide(view: ApprovalView) -> str:
    return f"{_how_to_approve(view)}, or: {_how_to_deny(view.approval_id)}"


def _report(session: Session, seen: Seen) -> None:
    """Where the approval stands now, with the digest it was decided on."""
    screen, view = session.screen, seen.view
    if not screen.is_text:
        screen.document("approval/2", details(seen))
        return
    screen.line(f"{view.state.value}  {shown(view.approval_id)}  {shown(view.tool)}  for {shown(view.requested_by)}")
    screen.line(f"digest  {view.digest}")
    match view.state:
        case ApprovalState.APPROVED:
            for line in value_lines(view.arguments):
                screen.line(f"  {line}")
            screen.talk(
                f"Nothing ran. The proposer may run exactly this, once, until {screen.instant(view.expires_at)}."
            )
        case ApprovalState.SPENT:
            screen.talk("You approved it before, and it was used already: it cannot run again.")
        case ApprovalState.WITHDRAWN:
            screen.talk("The question can no longer be decided. The proposer may ask anew.")
        case ApprovalState.REVOKED:
            screen.talk("The approval can no longer be used. The proposer may ask anew.")
        case _:
            pass
