"""`placet grants`: leave given before the calls are made, what each covers, and taking it back.

Giving one says in words what it covers, and asks; off a terminal it takes the digest that the draft printed. It runs
nothing, and decides nothing that waits.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from placet.cli.answering import ask_yes
from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.granters import Granter, granter_of
from placet.cli.project import ask, is_text
from placet.cli.proposing import read_argument_text
from placet.cli.remote import told_if_cut
from placet.cli.screen import Column, Screen, instant_data, shown
from placet.cli.session import Session, epilog, new_app, with_served_list_session, with_served_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.grant_views import GrantView
from placet.engine.granting import MAX_REASON_CHARACTERS
from placet.errors import DecisionRefused, InvalidArguments, LimitsRefused
from placet.model.grant import DEFAULT_USES, GrantState, GrantWish
from placet.model.json import JsonObject
from placet.model.principal import is_identity
from placet.rules.decoding import decode_object
from placet.rules.policy import DECIDE_SCOPE
from placet.rules.policy_files import span_seconds

app = new_app("grants")
_verbs = COMMANDS["grants"].verbs

Answered = TypeVar("Answered")
_PREFIX = re.compile(r"[0-9a-f]{8,64}")
_Id = Annotated[str, typer.Argument(metavar="ID", help="The grant.")]


@app.command("give", help=_verbs["give"], epilog=epilog())
@with_served_session
def give(
    session: Session,
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="The tool.")] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="NAME", help="Whose calls: the agent, then, repeated, whom it acts for."),
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            "--limits",
            metavar="JSON",
            help='One for each argument: {"queue": {"one_of": ["it"]}, "amount": {"at_most": 100}, "note": "any"}; '
            "JSON, @FILE, or - for standard input.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="APPROVAL", help="Begin with exactly the call that this approval is about."),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="The only run it is good for; with --like its run.")
    ] = None,
    is_every_run: Annotated[bool, typer.Option("--every-run", help="With --like: in every run.")] = False,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="SPAN", help="How long it is good for, such as 30m, 8h or 2d: 1h if absent."),
    ] = None,
    uses: Annotated[
        int | None, typer.Option("--uses", min=1, metavar="N", help=f"Calls at most: {DEFAULT_USES} if absent.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Your words, for the record.")] = "",
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="PREFIX", help="At least 8 hex digits of the digest that the draft printed."),
    ] = None,
    is_draft: Annotated[bool, typer.Option("--draft", help="Say what it would cover, and give nothing.")] = False,
) -> Exit:
    if not is_text(reason) or len(reason) > MAX_REASON_CHARACTERS:
        raise UsageProblem(f"--reason is text of at most {MAX_REASON_CHARACTERS} characters")
    if digest is not None and _PREFIX.fullmatch(digest) is None:
        raise UsageProblem("--digest is 8 to 64 hex digits, as the draft prints them")
    said = _Said(tool=tool, subjects=subject, limits=limits, run=run, every_run=is_every_run, like=like)

    async def work(grants: Granter) -> tuple[GrantWish, GrantView]:
        wish = await _begun(grants, said)
        if expires is not None:
            wish = replace(wish, seconds=_seconds(expires))
        if uses is not None:
            wish = replace(wish, max_uses=uses)
        wish = replace(wish, reason=reason)
        return wish, await grants.draft(wish)

    wish, draft = _asked(session, work)
    if is_draft:
        _show(session.screen, draft)
        return Exit.OK
    carried = _consented(session, draft, digest)
    with told_if_cut(session.screen, session.server, f"placet grants list{session.there}"):
        given = _asked(session, lambda grants: grants.give(wish, digest=carried))
    if session.screen.is_text:
        session.screen.line(f"given  {shown(given.grant_id)}")
    else:
        session.screen.document("grant/1", _data(given))
    end = f"placet grants revoke {shown(given.grant_id)}{session.there}"
    session.screen.talk(f"Good until {session.screen.instant(given.expires_at)}, or: {end}")
    return Exit.OK


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_served_list_session
def list_grants(
    session: Session,
    is_all: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many, newest first.")] = 100,
) -> Exit:
    views = _asked(session, lambda grants: grants.listed(limit=limit) if is_all else grants.standing(limit=limit))
    session.screen.listing(
        "grants",
        views,
        as_data=_data,
        columns=[
            Column(title="id", cell=lambda v: v.grant_id),
            Column(title="state", cell=lambda v: v.state.value.replace("_", " ")),
            Column(title="tool", cell=lambda v: v.tool or "-"),
            Column(title="for", cell=lambda v: " for ".join((v.granted_to, *v.on_behalf_of)) or "-"),
            Column(title="run", cell=lambda v: v.run_id or "every"),
            Column(title="used", cell=lambda v: f"{v.uses} of {v.max_uses}"),
            Column(title="given by", cell=lambda v: v.given_by or "-"),
            Column(title="expires", cell=lambda v: session.screen.instant(v.expires_at) or "-"),
        ],
        item_schema="grant/1",
        nothing="There is no standing grant." if is_all else "There is no standing grant that is good for anything.",
    )
    if any(view.state is GrantState.ALTERED and view.revoked_at is None for view in views):
        session.screen.warn("placet: somebody altered a grant's row; it lets nothing through. placet audit verify says")
        session.screen.warn("  more, and placet grants revoke ends it. Find out who can write the store.")
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_served_session
def show(session: Session, grant_id: _Id) -> Exit:
    _show(session.screen, _asked(session, lambda grants: grants.show(grant_id)))
    return Exit.OK


@app.command("revoke", help=_verbs["revoke"], epilog=epilog())
@with_served_session
def revoke(session: Session, grant_id: _Id) -> Exit:
    with told_if_cut(session.screen, session.server, f"placet grants list --all{session.there}"):
        view = _asked(session, lambda grants: grants.revoke(grant_id))
    if not session.screen.is_text:
        session.screen.document("grant-revoked/1", _data(view))
    else:
        session.screen.line(f"{'ended' if view.state is GrantState.ALTERED else 'revoked'}  {shown(grant_id)}")
    if view.uses:
        session.screen.talk(f"It was used {view.uses} times; what it let through stays done.")
    return Exit.OK


# ---------------------------------------------------------------- what is wished for


class _Said:
    """What the command line says of the wish, besides its times."""

    def __init__(
        self,
        *,
        tool: str | None,
        subjects: list[str] | None,
        limits: str | None,
        run: str | None,
        every_run: bool,
        like: str | None,
    ) -> None:
        self.tool, self.subjects, self.limits, self.like = tool, tuple(subjects or ()), limits, like
        self.run, self.every_run = run, every_run
        if like is None and (tool is None or not self.subjects or limits is None):
            raise UsageProblem(
                "A grant needs --tool, --for and --limits, or --like APPROVAL",
                hint='--tool notes.create --for agent --limits \'{"title": "any"}\'',
            )
        if run is not None and every_run:
            raise UsageProblem("--run and --every-run exclude each other")
        names = (*self.subjects, *(() if run is None else (run,)))
        if not all(map(is_identity, names)):
            raise UsageProblem("--for and --run are text of 1 to 128 characters")


async def _begun(grants: Granter, said: _Said) -> GrantWish:
    """The wish as the command line says it, on top of a call that somebody asked about."""
    if said.like is None:
        limits = _read_limits(said.limits or "")
        return GrantWish(tool=said.tool or "", subjects=said.subjects, limits=limits, run_id=said.run)
    wish = await grants.like(said.like)
    if said.limits is not None:
        wish = replace(wish, limits={**wish.limits, **_read_limits(said.limits)})
    if said.run is not None or said.every_run:
        wish = replace(wish, run_id=said.run)
    return replace(wish, tool=said.tool or wish.tool, subjects=said.subjects or wish.subjects)


def _read_limits(said: str) -> JsonObject:
    text = read_argument_text(said)
    wide = frozenset(("*",) * depth for depth in range(1, 5))
    try:
        return decode_object(text, wide=wide)
    except InvalidArguments:
        pass
    raise LimitsRefused("--limits is no JSON object.", hint='Like {"queue": {"one_of": ["it"]}, "note": "any"}.')


def _seconds(said: str) -> float:
    seconds = span_seconds(said)
    if seconds is None:
        raise UsageProblem("--expires is a span of time such as 30m, 8h or 2d")
    return seconds


# ---------------------------------------------------------------- asking


def _consented(session: Session, draft: GrantView, digest: str | None) -> str:
    """The digest that is signed: of what was shown here and said yes to, or the one that was given.

    Raises:
        Declined: the answer was no yes.
        UsageProblem: nobody can be asked.
    """
    if digest is not None:
        return draft.digest if draft.digest.startswith(digest) else digest
    if not session.screen.can_ask:
        raise UsageProblem(
            "Off a terminal --digest PREFIX is needed",
            hint="The same words with --draft say what it covers, and print it.",
        )
    _show(session.screen, draft)
    ask_yes(
        session.screen,
        "give this grant?",
        hint="Change the words, and look again: --draft",
        otherwise="Nothing was given",
    )
    return draft.digest


def _asked(session: Session, work: Callable[[Granter], Awaitable[Answered]]) -> Answered:
    try:
        answered: Answered = ask(granter_of(session), work)
        return answered
    except DecisionRefused as error:
        refusal = error
    if refusal.code == "scope_missing":
        refusal.hint = scope_hint(DECIDE_SCOPE)
    raise refusal


def _show(screen: Screen, view: GrantView) -> None:
    if not screen.is_text:
        screen.document("grant/1", _data(view))
        return
    for sentence in view.covers:
        screen.line(shown(sentence))
    screen.fields(
        [
            ("id", view.grant_id or None),
            ("state", view.state.value.replace("_", " ") + (f": {view.why_not}" if view.why_not else "")),
            ("used", f"{view.uses} of {view.max_uses}" if view.grant_id else None),
            ("last used", screen.instant(view.used_at)),
            ("given by", view.given_by),
            ("words", view.words),
            ("rule", view.rule),
            ("expires", screen.instant(view.expires_at)),
            ("revoked by", view.revoked_by),
            ("revoked at", screen.instant(view.revoked_at)),
            ("digest", view.digest),
        ]
    )


def _data(view: GrantView) -> dict[str, Any]:
    return {
        "grant_id": view.grant_id or None,
        "state": view.state.value,
        "why_not": view.why_not,
        "tool": view.tool,
        "tool_version": view.tool_version,
        "granted_to": view.granted_to,
        "on_behalf_of": list(view.on_behalf_of),
        "run": view.run_id,
        "limits": view.limits,
        "covers": list(view.covers),
        "digest": view.digest,
        "max_uses": view.max_uses,
        "uses": view.uses,
        "used_at": instant_data(view.used_at),
        "given_by": view.given_by,
        "given_at": instant_data(view.given_at),
        "expires_at": instant_data(view.expires_at),
        "words": view.words,
        "rule": view.rule,
        "policy_version": view.policy_version,
        "revoked_by": view.revoked_by,
        "revoked_at": instant_data(view.revoked_at),
    }
