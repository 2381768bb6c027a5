"""`placet approvals`: what waits, exactly what would run, and a person's answer.

What is shown is what is signed: an approval carries the digest of the arguments that were shown, in full. Who decides
is the operating system's word. Approving runs nothing; the proposer's next ask does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from placet.cli.answering import ask_target, ask_yes, is_grave, is_irreversible, is_of_high_risk, refuse_unlike
from placet.cli.desks import Desk, desk_of
from placet.cli.failing import ContractUnavailable, UsageProblem, scope_hint
from placet.cli.project import Place, ask, checked, finish, is_text
from placet.cli.proposing import read_argument_text
from placet.cli.remote import told_if_cut, whole_digest
from placet.cli.screen import Column, Form, Screen, shown, value_lines
from placet.cli.seen import Seen, countdown, details, gist, seconds_left, summary
from placet.cli.session import Session, epilog, new_app, with_served_list_session, with_served_session
from placet.cli.several import Answered, refuse_twice_or_too_many, report_several, told_before
from placet.cli.table import COMMANDS, Exit
from placet.cli.watching import watched
from placet.engine.approval_views import VoteView
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.engine.entitling import UNCERTAIN
from placet.errors import DecisionRefused, NotFound
from placet.model.approval import ApprovalState, Chosen, Difference, VoteKind
from placet.rules.policy import DECIDE_SCOPE

app = new_app("approvals")
_verbs = COMMANDS["approvals"].verbs

_PREFIX = re.compile(r"[0-9a-f]{8,64}")
_ALL = "all"
_NOT_GIVEN = frozenset({ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN, ApprovalState.REVOKED})


class Sort(StrEnum):
    """In which order approvals are listed."""

    NEWEST = "newest"
    RISK = "risk"


_Id = Annotated[str, typer.Argument(metavar="ID", help="The approval.")]
_Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="The approval, or several.")]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_served_list_session
def list_approvals(
    session: Session,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="pending (the default), approved, denied, ... or all; repeatable."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")] = 100,
    sort: Annotated[
        Sort, typer.Option("--sort", help="The newest first, or the gravest and of these the first to be over.")
    ] = Sort.NEWEST,
) -> Exit:
    states = _states(state or [ApprovalState.PENDING.value])
    if sort is Sort.RISK:
        seen, is_cut = ask(desk_of(session), lambda desk: desk.listed_by_risk(states, limit))
    else:
        seen, is_cut = ask(desk_of(session), lambda desk: desk.listed(states, limit)), False
    if is_cut:
        session.screen.warn("placet: there are more than can be looked through: graver ones may be among the oldest")
    session.screen.listing(
        "approvals",
        seen,
        as_data=summary,
        columns=[
            Column(title="id", cell=lambda s: s.view.approval_id),
            Column(title="state", cell=lambda s: s.view.state.value),
            Column(title="tool", cell=lambda s: s.view.tool),
            Column(title="risk", cell=lambda s: s.view.risk),
            Column(title="about", cell=gist, show=str),
            Column(title="run", cell=lambda s: s.view.run_id),
            Column(title="asked by", cell=lambda s: s.view.requested_by),
            Column(title="asked at", cell=lambda s: session.screen.instant(s.view.asked_at) or ""),
            Column(title="time left", cell=countdown),
        ],
        item_schema="approval-summary/1",
        nothing="Nothing waits for you." if state is None else "There is no such approval.",
    )
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_served_session
def show_approval(session: Session, approval_id: _Id) -> Exit:
    with _next_steps(session, approval_id):
        _show(session, ask(desk_of(session), lambda desk: desk.show(approval_id)))
    return Exit.OK


@app.command("approve", help=_verbs["approve"], epilog=epilog())
@with_served_session
def approve(
    session: Session,
    approval_ids: _Ids,
    digest: Annotated[
        list[str] | None,
        typer.Option(
            "--digest",
            metavar="PREFIX",
            help="At least 8 hex digits of the digest that `show` printed; with several approvals, one for each, in "
            "their order. Without it you are asked at the terminal; calls of high or critical risk always need it.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Your words, for the record.")] = "",
) -> Exit:
    _check_digests(session, approval_ids, digest)
    _check_reason(reason)
    place = desk_of(session)
    seen = [_seen_to_approve(session, place, each) for each in approval_ids]
    refuse_unlike(seen)
    if not digest:
        _ask(session, seen)
    # A prefix of the digest that was shown stands for it; any other is refused by the desk, on record.
    given = digest or [each.view.digest for each in seen]
    carried = [
        each.view.digest if each.view.digest.startswith(said) else said for each, said in zip(seen, given, strict=True)
    ]
    if len(approval_ids) == 1:
        with _changing(session, approval_ids[0]):
            _report(session, _decide(place, approval_ids[0], carried[0], reason))
        return Exit.OK
    chosen = [
        Chosen(approval_id=name, digest=whole_digest(each)) for name, each in zip(approval_ids, carried, strict=True)
    ]
    with _changing(session, approval_ids[0]):
        answers: list[Answered] = ask(place, lambda desk: desk.approve_several(chosen, reason))
    return report_several(session.screen, answers, lambda each: _report(session, each))


@app.command("deny", help=_verbs["deny"], epilog=epilog())
@with_served_session
def deny(
    session: Session,
    approval_ids: _Ids,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the proposer is told, as data.")],
) -> Exit:
    refuse_twice_or_too_many(approval_ids)
    _check_reason(reason)
    place = desk_of(session)
    if len(approval_ids) == 1:
        with _changing(session, approval_ids[0]):
            _report(session, ask(place, lambda desk: desk.deny(approval_ids[0], reason)))
        return Exit.OK
    denied: list[Answered] = []
    for approval_id in approval_ids:
        with told_before(session.screen, denied):
            denied.append(_denied(session, place, approval_id, reason))
    return report_several(session.screen, denied, lambda each: _report(session, each))


@app.command("watch", help=_verbs["watch"], epilog=epilog())
@with_served_list_session
def watch(
    session: Session,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600.0, help="How often to look.")
    ] = 1.0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 100,
) -> Exit:
    if session.screen.form is Form.JSON:
        raise UsageProblem("Watching has no one document: --jsonl writes one for each change")
    finish(watched(session, desk_of(session), interval_seconds=interval, limit=limit))
    return Exit.OK


@app.command("withdraw", help=_verbs["withdraw"], epilog=epilog())
@with_served_session
def withdraw(session: Session, approval_id: _Id) -> Exit:
    place = desk_of(session)
    with _changing(session, approval_id):
        _report(session, ask(place, lambda desk: desk.withdraw(approval_id)))
    return Exit.OK


@app.command("edit", help=_verbs["edit"], epilog=epilog())
@with_served_session
def edit(
    session: Session,
    approval_id: _Id,
    digest: Annotated[
        str, typer.Option("--digest", metavar="PREFIX", help="At least 8 hex digits of the digest that `show` printed.")
    ],
    args: Annotated[
        str, typer.Option("--args", metavar="JSON", help="All arguments: JSON, @FILE, or - for standard input.")
    ],
) -> Exit:
    _check_digests(session, [approval_id], [digest])
    place = desk_of(session)
    seen = _seen_to_approve(session, place, approval_id)
    carried = seen.view.digest if seen.view.digest.startswith(digest) else digest
    arguments = read_argument_text(args)
    with _changing(session, approval_id):
        made = ask(place, lambda desk: desk.edit(approval_id, carried, arguments))
    _show(session, made)
    session.screen.talk(f"{shown(approval_id)} is closed. Somebody else has to decide this one; the proposer is told.")
    return Exit.OK


@app.command("withdraw-vote", help=_verbs["withdraw-vote"], epilog=epilog())
@with_served_session
def withdraw_vote(session: Session, approval_id: _Id) -> Exit:
    place = desk_of(session)
    with _changing(session, approval_id):
        _report(session, ask(place, lambda desk: desk.withdraw_vote(approval_id)))
    return Exit.OK


# ---------------------------------------------------------------- asking the desk


@contextmanager
def _next_steps(session: Session, approval_id: str) -> Iterator[None]:
    """What goes wrong in here is told with a next step about this approval."""
    try:
        yield
    except NotFound as error:
        error.hint = error.hint or f"placet approvals list --state all{session.there}"
        raise
    except DecisionRefused as error:
        see = _how_to_see(session, approval_id)
        steps = {
            "other_digest": f"The digest is the one that {see} prints; its first 8 digits are enough.",
            "already_decided": f"{see} says who decided. Another decision needs a new ask by the proposer.",
            "not_approved": f"{see} says who decided, and why. The proposer has to ask anew.",
            "scope_missing": scope_hint(DECIDE_SCOPE),
            "not_an_approver": f"{see} names who may decide it, as far as they are listed here.",
        }
        error.hint = error.hint or steps.get(error.code, "")
        raise


@contextmanager
def _changing(session: Session, approval_id: str) -> Iterator[None]:
    """The same around a decision, which may have been taken though nobody heard of it."""
    with (
        _next_steps(session, approval_id),
        told_if_cut(session.screen, session.server, _how_to_see(session, approval_id)),
    ):
        yield


def _seen_to_approve(session: Session, place: Place[Desk], approval_id: str) -> Seen:
    with _next_steps(session, approval_id):
        seen: Seen = ask(place, lambda desk: desk.show(approval_id))
    if not seen.has_contract:
        raise ContractUnavailable(
            f"The contract of {seen.view.tool!r} is not known here, so its arguments cannot be shown in full",
            hint="Mend [placet] tools in placet.toml, or deny it."
            if session.server is None
            else "Ask a server that has this version of the tool, or deny it.",
        )
    return seen


def _decide(place: Place[Desk], approval_id: str, digest: str, reason: str) -> Seen:
    try:
        seen: Seen = ask(place, lambda desk: desk.approve(approval_id, digest, reason))
        return seen
    except DecisionRefused as error:
        refusal = error
    changed = refusal.changed or {}
    if refusal.code == "already_decided" and changed.get("state") in _NOT_GIVEN:
        # "Decided already", by a decision that was no approval, has an exit code of its own.
        refusal = DecisionRefused(str(refusal), code="not_approved", hint=refusal.hint)
        refusal.changed = changed
    raise refusal


def _denied(session: Session, place: Place[Desk], approval_id: str, reason: str) -> Answered:
    """What became of it: a refusal of one keeps no other back, and whatever else fails ends it all."""
    try:
        with _changing(session, approval_id):
            return Answered(approval_id=approval_id, seen=ask(place, lambda desk: desk.deny(approval_id, reason)))
    except (DecisionRefused, NotFound) as refusal:
        if refusal.code in UNCERTAIN:
            raise
        return Answered(approval_id=approval_id, seen=None, refusal=refusal)


# ---------------------------------------------------------------- asking the person


def _ask(session: Session, seen: Sequence[Seen]) -> None:
    """Show everything that would run, and ask; what is decided already, or not this person's, is left to the desk.

    Raises:
        Declined: the answer was no yes.
        UsageProblem: a yes is too little for it.
    """
    open_ones = [each for each in seen if each.view.state is ApprovalState.PENDING and each.view.why_not is None]
    for each in open_ones:
        _show(session, each)
    if not open_ones:
        return
    view = open_ones[0].view
    hint = f"To refuse it for good: {_how_to_deny(session, view.approval_id)}"
    if len(open_ones) == 1 and is_irreversible(view) and not is_of_high_risk(view):
        ask_target(session.screen, view, hint=hint)
        return
    if any(is_grave(each.view) for each in open_ones):
        raise UsageProblem(
            f"Nothing was approved: a call of risk {view.risk}, {view.effect_class}, needs --digest PREFIX",
            hint=f"If exactly this may run: {_how_to_approve(session, view)}",
        )
    ask_yes(session.screen, "approve?" if len(open_ones) == 1 else f"approve all {len(open_ones)}?", hint=hint)


def _check_digests(session: Session, approval_ids: Sequence[str], digests: Sequence[str] | None) -> None:
    refuse_twice_or_too_many(approval_ids)
    if not digests:
        if not session.screen.can_ask:
            raise UsageProblem("Off a terminal --digest PREFIX is needed", hint=_how_to_see(session, approval_ids[0]))
        return
    for digest in digests:
        checked(digest, "--digest is 8 to 64 hex digits, as `placet approvals show` prints them", _is_prefix)
    if len(digests) != len(approval_ids):
        raise UsageProblem(
            f"{len(approval_ids)} approvals need a --digest each, in their order; {len(digests)} were given"
        )


def _how_to_see(session: Session, approval_id: str) -> str:
    return f"placet approvals show {approval_id}{session.there}"


def _how_to_approve(session: Session, view: ApprovalView) -> str:
    return f"placet approvals approve {shown(view.approval_id)} --digest {view.digest[:12]}{session.there}"


def _how_to_deny(session: Session, approval_id: str) -> str:
    return f"placet approvals deny {shown(approval_id)} --reason TEXT{session.there}"


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
            ("edited by", view.edited_by),
            ("edited from", view.edited_from),
            ("on behalf of", view.on_behalf_of),
            ("run", view.run_id),
            ("reasons", ", ".join(view.reasons) or None),
            ("needs", _needs(view)),
            *(("asked before", _difference(each)) for each in view.differences),
            ("may decide", ", ".join(view.who_may) or None),
            *(("vote", _vote(screen, vote)) for vote in view.votes),
            ("resource", view.resource),
            ("asked at", screen.instant(view.asked_at)),
            ("decide by", f"{screen.instant(view.decide_by)}{left if view.decided_at is None else ''}"),
            ("reminded at", ", ".join(screen.instant(each) or "" for each in view.reminded_at) or None),
            ("escalated at" if view.escalated_at is not None else "escalates at", _escalation(screen, view)),
            ("decided by", view.decided_by),
            ("decided at", screen.instant(view.decided_at)),
            ("usable until", f"{screen.instant(view.expires_at)}{left}" if view.expires_at is not None else None),
            ("said", view.words),
            ("bound to", _bound(view)),
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
        screen.talk(
            f"You may not decide this: {view.why_not}" if view.why_not is not None else _how_to_decide(session, view)
        )


def _escalation(screen: Screen, view: ApprovalView) -> str | None:
    """When, to whom, and whether those may decide then; nothing of one that was decided before."""
    is_over = view.escalated_at is None and view.state is not ApprovalState.PENDING
    if view.escalates_at is None or is_over:
        return None
    to = f" to {', '.join(view.escalate_to)}" if view.escalate_to else ""
    widens = ", who may decide then" if view.escalation_widens else ""
    return f"{screen.instant(view.escalated_at or view.escalates_at)}{to}{widens}"


def _difference(said: Difference) -> str:
    """Of the same call, under an earlier policy."""
    return f"{said.name.replace('_', ' ')}: {said.was or 'none'}, now {said.now or 'none'}"


def _bound(view: ApprovalView) -> str | None:
    """That something else has to be as it was, too, when the call runs."""
    return None if view.state_digest is None else f"the state of the world when it was asked, {view.state_digest}"


def _needs(view: ApprovalView) -> str:
    """Whose answer it takes, by which rule, and with what words."""
    of = f" of {view.votes_needed} people" if view.votes_needed > 1 else ""
    rule = f", by rule {view.rule}" if view.rule is not None else ""
    reason = f", with a reason to {' and to '.join(view.needs_reason)}" if view.needs_reason else ""
    return f"{view.requirement}{of}{rule}{reason}"


def _vote(screen: Screen, vote: VoteView) -> str:
    return f"{vote.voter} at {screen.instant(vote.voted_at)}" + (f": {vote.words}" if vote.words else "")


def _how_to_decide(session: Session, view: ApprovalView) -> str:
    return f"{_how_to_approve(session, view)}, or: {_how_to_deny(session, view.approval_id)}"


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
        case ApprovalState.PENDING:
            said = "Your vote counts" if view.own_vote == VoteKind.APPROVE else "Your vote is taken back"
            screen.talk(f"{said}: {len(view.votes)} of {view.votes_needed} people have approved. Nothing may run yet.")
        case ApprovalState.SPENT:
            screen.talk("You approved it before, and it was used already: it cannot run again.")
        case ApprovalState.WITHDRAWN:
            screen.talk("The question can no longer be decided. The proposer may ask anew.")
        case ApprovalState.REVOKED:
            screen.talk("The approval can no longer be used. The proposer may ask anew.")
        case _:
            pass
