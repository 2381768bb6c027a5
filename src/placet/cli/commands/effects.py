"""`placet effects`: what the ledger knows, and settling what is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from shlex import quote
from typing import Annotated, Any

import typer

from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.ledgers import SeenEffect, ledger_of
from placet.cli.project import ask, checked, finish, load_tools, open_project, person, require_store
from placet.cli.queue import show_broken, show_queue
from placet.cli.remote import here_only, told_if_cut
from placet.cli.screen import Column, instant_data, shown_key
from placet.cli.session import Session, epilog, new_app, with_served_list_session, with_served_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.effect_views import EffectView
from placet.engine.reconciler import RecoveryReport
from placet.engine.settling import Truth
from placet.errors import DecisionRefused, NotFound
from placet.model.effect import Effect, EffectState
from placet.model.principal import Principal
from placet.rules.policy import RECONCILE_SCOPE

app = new_app("effects")
_verbs = COMMANDS["effects"].verbs

_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_MANY = 100_000
_LONGEST_WAIT = timedelta(days=1)
"""A probe that is further away is none: its probes are used up."""
_Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The operation key, as `placet effects list` prints it, in single quotes.")
]


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_served_list_session
def list_effects(
    session: Session,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="unknown, committed, ...; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, newest change first.")] = 100,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="The queue for people: what is unknown, longest first, and why.")
    ] = False,
    broken: Annotated[
        bool, typer.Option("--broken", help="Rows that cannot be read any more; reads every row, which takes time.")
    ] = False,
) -> Exit:
    if sum((unknown, broken, bool(state))) > 1:
        raise UsageProblem("--state, --unknown and --broken are three different lists")
    states = _states(state)
    if unknown or broken:
        here_only(
            session.server,
            "The queue of --unknown, and --broken,",
            f"placet effects list --state unknown{session.there}",
        )
        show = show_queue if unknown else show_broken
        return show(session, _person(session), limit)
    seen = ask(ledger_of(session), lambda ledger: ledger.listed(states, limit))
    session.screen.listing(
        "effects",
        seen,
        as_data=_data,
        columns=[
            Column(title="state", cell=lambda s: s.view.state.value),
            Column(title="tool", cell=lambda s: s.view.tool),
            Column(title="by", cell=lambda s: _who(s.view)),
            Column(title="attempts", cell=lambda s: str(s.view.attempts)),
            Column(title="changed at", cell=lambda s: session.screen.instant(s.view.updated_at) or ""),
            Column(title="reason", cell=lambda s: s.view.reason or "-"),
            Column(title="key", cell=lambda s: s.view.operation_key, show=shown_key),
        ],
        item_schema="effect/1",
        nothing="There is no such effect that you may see.",
    )
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_served_session
def show_effect(session: Session, key: _Key) -> Exit:
    with _next_step(session):
        seen = ask(ledger_of(session), lambda ledger: ledger.show(key))
    _show(session, seen)
    return Exit.OK


@app.command("reconcile", help=_verbs["reconcile"], epilog=epilog())
@with_served_session
def reconcile(
    session: Session,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="One effect, its key as `placet effects list` prints it, in single quotes; "
            "its probe is asked at once, or you say it.",
        ),
    ] = None,
    committed: Annotated[bool, typer.Option("--committed", help="You looked: it was done.")] = False,
    absent: Annotated[bool, typer.Option("--absent", help="You looked: it was not done.")] = False,
    looked_at: Annotated[
        str | None, typer.Option("--looked-at", metavar="now|ISO", help="When your look began, with its zone.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="CODE", help="The kind of evidence, such as seen_in_desk.")
    ] = None,
) -> Exit:
    """Learn what became of unknown effects, then settle them.

    Without KEY: one round of recovery over the whole store; every unknown effect that is due is probed. Ends with 7
    while something stays unknown. A server does that by itself; with --server it is about one KEY.
    """
    says = committed or absent
    if committed and absent:
        raise UsageProblem("Say --committed or --absent, not both")
    if key is None and (says or looked_at is not None or reason is not None):
        raise UsageProblem("--committed, --absent, --looked-at and --reason are about one KEY")
    if key is not None and not says and (looked_at is not None or reason is not None):
        raise UsageProblem("Say what you saw: --committed or --absent")
    if says and (looked_at is None or reason is None):
        raise UsageProblem("--committed and --absent need --looked-at now|ISO and --reason CODE")
    if key is None:
        here_only(session.server, "A round of recovery", "A server's own worker does it. For one effect, name its KEY.")
        return _recover(session)
    if looked_at is None or reason is None:
        return _probe(session, key)
    looked = _looked(looked_at)
    checked(reason, "--reason is a code such as seen_in_desk: a letter, then letters, digits and _ . : -", _is_code)
    return _settle(session, key, Truth.COMMITTED if committed else Truth.ABSENT, looked, reason)


# ---------------------------------------------------------------- looking


def _person(session: Session) -> Principal:
    require_store(session.settings)
    return person(session.settings)


def _states(said: Sequence[str] | None) -> tuple[EffectState, ...]:
    try:
        return tuple(EffectState(word) for word in said) if said else tuple(EffectState)
    except ValueError:
        pass
    raise UsageProblem(f"--state is one of {', '.join(EffectState)}")


# ---------------------------------------------------------------- settling


def _recover(session: Session) -> Exit:
    settings = session.settings
    require_store(settings)
    report, left, now = finish(_recovered(session))
    due = min((effect.probe_after for effect in left if effect.probe_after is not None), default=None)
    body: dict[str, Any] = {
        "taken_over": report.taken_over,
        "committed": report.committed,
        "absent": report.absent,
        "still_unknown": report.still_unknown,
        "unknown_in_all": len(left),
    }
    if session.screen.is_text:
        session.screen.fields((name.replace("_", " "), str(number)) for name, number in body.items())
    else:
        session.screen.document("recovery/1", {**body, "look_again_at": instant_data(due)})
    if not left:
        return Exit.OK
    session.screen.talk("Something stays unknown: placet effects list --unknown")
    session.screen.talk(_when_again(session, due, now))
    return Exit.UNKNOWN


def _when_again(session: Session, due: datetime | None, now: datetime) -> str:
    if due is None or due - now > _LONGEST_WAIT:
        return "No probe will settle it: look yourself, then placet effects reconcile KEY --committed|--absent ..."
    return f"Look again after {session.screen.instant(due)}: placet effects reconcile"


async def _recovered(session: Session) -> tuple[RecoveryReport, tuple[Effect, ...], datetime]:
    async with open_project(session.settings, load_tools(session.settings)) as gate:
        report = await gate.reconciler.recover()
        left = await gate.store.effects(tenant=None, states=(EffectState.UNKNOWN,), limit=_MANY)
        return report, tuple(effect for effect in left if isinstance(effect, Effect)), await gate.store.now()


def _probe(session: Session, key: str) -> Exit:
    place = ledger_of(session)
    with _changing(session, key):
        seen = ask(place, lambda ledger: ledger.probe(key))
    _show(session, seen)
    return Exit.UNKNOWN if seen.view.state is EffectState.UNKNOWN else Exit.OK


def _settle(session: Session, key: str, truth: Truth, looked: datetime | None, reason: str) -> Exit:
    place = ledger_of(session)
    try:
        with _changing(session, key):
            seen = ask(place, lambda ledger: ledger.settle(key, truth, looked_at=looked, reason=reason))
    except DecisionRefused as error:
        if error.code == "too_early_for_absent":
            error.hint = _quiet_hint(session, ask(place, lambda ledger: ledger.show(key)))
        raise
    _show(session, seen)
    return Exit.OK


@contextmanager
def _next_step(session: Session) -> Iterator[None]:
    """What goes wrong in here is told with a next step."""
    try:
        yield
    except NotFound as error:
        error.hint = (
            f"placet effects list{session.there} prints the keys; give one as it stands there, in single quotes."
        )
        raise
    except DecisionRefused as error:
        if error.code == "scope_missing":
            error.hint = scope_hint(RECONCILE_SCOPE)
        raise


@contextmanager
def _changing(session: Session, key: str) -> Iterator[None]:
    """The same around what settles, which may have been done though nobody heard of it."""
    look = f"placet effects show {quote(shown_key(key))}{session.there}"
    with _next_step(session), told_if_cut(session.screen, session.server, look):
        yield


def _quiet_hint(session: Session, seen: SeenEffect) -> str:
    if seen.view.quiet_end is None:
        return "Its attempt may still be going on: end the process that made it, then look again."
    return f"Look again after {session.screen.instant(seen.view.quiet_end)}."


def _looked(said: str) -> datetime | None:
    """The instant of a look; None for now."""
    if said == "now":
        return None
    try:
        instant = datetime.fromisoformat(said)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise UsageProblem('--looked-at is "now", or an ISO instant with its zone, such as 2026-03-01T12:00:00Z')
    return instant


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None


# ---------------------------------------------------------------- showing


def _who(view: EffectView) -> str:
    """Who acted, then for whom, and for whom that one did."""
    pair = (view.subject,) if view.on_behalf_of is None else (view.subject, view.on_behalf_of)
    return " for ".join(view.requested_by or pair)  # an older server tells only the two ends


def _show(session: Session, seen: SeenEffect) -> None:
    screen, effect = session.screen, seen.view
    if not screen.is_text:
        screen.document("effect/1", _data(seen))
        return
    screen.line(f"key  {shown_key(effect.operation_key)}")
    screen.fields(
        [
            ("state", effect.state.value),
            ("reason", effect.reason),
            ("tool", f"{effect.tool} (version {effect.tool_version})"),
            ("by", _who(effect)),
            ("run", effect.run_id),
            ("call", effect.call_id),
            ("decision", effect.decision),
            ("approval", effect.approval_id),
            ("dispatches", str(effect.fence)),
            ("attempts", str(effect.attempts)),
            ("probes", str(effect.probes)),
            ("reference", effect.external_reference),
            ("created at", screen.instant(effect.created_at)),
            ("changed at", screen.instant(effect.updated_at)),
            ("held until", screen.instant(effect.lease_until) if effect.state is EffectState.DISPATCHED else None),
            ("quiet after", screen.instant(effect.quiet_end)),
        ]
    )
    for line in _next_steps(session, seen):
        screen.talk(line)


def _next_steps(session: Session, seen: SeenEffect) -> Iterator[str]:
    effect, key = seen.view, quote(shown_key(seen.view.operation_key))
    match effect.state:
        case EffectState.UNKNOWN:
            if effect.probe_after is not None and effect.probe_after - seen.now <= _LONGEST_WAIT:
                yield f"To ask its probe, after {session.screen.instant(effect.probe_after)}:"
                yield f"  placet effects reconcile {key}{session.there}"
            yield "If you looked yourself:"
            yield f"  placet effects reconcile {key} --committed|--absent --looked-at now --reason CODE{session.there}"
        case EffectState.DISPATCHED if effect.lease_until <= seen.now:
            yield "Its lease is over, and nobody said how it ended: the process that ran it is gone, or stands still."
            if session.server is None:
                yield "Recover it, which makes it unknown and asks its probe: placet effects reconcile"
        case EffectState.DISPATCHED:
            yield f"It is being done. Look again after {session.screen.instant(effect.lease_until)}."
        case _:
            pass


def _data(seen: SeenEffect) -> dict[str, Any]:
    """Without arguments, results and digests of them."""
    effect = seen.view
    return {
        "operation_key": effect.operation_key,
        "state": effect.state.value,
        "reason": effect.reason,
        "tenant": effect.tenant,
        "tool": effect.tool,
        "tool_version": effect.tool_version,
        "subject": effect.subject,
        "on_behalf_of": effect.on_behalf_of,
        "run_id": effect.run_id,
        "call_id": effect.call_id,
        "decision": effect.decision,
        "policy_version": effect.policy_version,
        "approval_id": effect.approval_id,
        "fence": effect.fence,
        "attempts": effect.attempts,
        "probes": effect.probes,
        "external_reference": effect.external_reference,
        "created_at": instant_data(effect.created_at),
        "updated_at": instant_data(effect.updated_at),
        "lease_until": instant_data(effect.lease_until),
        "send_by": instant_data(effect.send_by),
        "probe_after": instant_data(effect.probe_after),
        "quiet_end": instant_data(effect.quiet_end),
    }
