"""`placet effects`: what the ledger knows, and settling what is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placet.cli.failing import UsageProblem, scope_hint
from placet.cli.project import checked, finish, is_text, load_tools, open_project, person, require_store
from placet.cli.queue import show_broken, show_queue
from placet.cli.screen import Column, instant_data, shown_key
from placet.cli.session import Session, epilog, new_app, with_list_session, with_session
from placet.cli.table import COMMANDS, Exit
from placet.engine.reconciler import RecoveryReport
from placet.engine.settling import Truth
from placet.errors import DecisionRefused, NotFound
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.model.principal import Principal, subjects_of
from placet.rules.policy import READ_EFFECTS_SCOPE, RECONCILE_SCOPE

if TYPE_CHECKING:
    from placet.engine.gate import Gate

app = new_app("effects")
_verbs = COMMANDS["effects"].verbs

_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_MANY = 100_000
_LONGEST_WAIT = timedelta(days=1)
"""A probe that is further away is none: its probes are used up."""
_HOW_TO_FIND = "placet effects list prints the keys; give one as it stands there, in single quotes."
_Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The operation key, as `placet effects list` prints it, in single quotes.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """An effect, when it was looked at, and from when on "absent" can be believed."""

    effect: Effect
    now: datetime
    quiet_end: datetime | None


@app.command("list", help=_verbs["list"], epilog=epilog())
@with_list_session
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
    by = _person(session)
    if unknown:
        return show_queue(session, by, limit)
    if broken:
        return show_broken(session, by, limit)
    seen = finish(_listed(session, by, states, limit))
    session.screen.listing(
        "effects",
        seen,
        as_data=_data,
        columns=[
            Column(title="state", cell=lambda s: s.effect.state.value),
            Column(title="tool", cell=lambda s: s.effect.tool),
            Column(title="by", cell=lambda s: _who(s.effect)),
            Column(title="attempts", cell=lambda s: str(s.effect.attempts)),
            Column(title="changed at", cell=lambda s: session.screen.instant(s.effect.updated_at) or ""),
            Column(title="reason", cell=lambda s: s.effect.reason or "-"),
            Column(title="key", cell=lambda s: s.effect.operation_key, show=shown_key),
        ],
        item_schema="effect/1",
        nothing="There is no such effect that you may see.",
    )
    return Exit.OK


@app.command("show", help=_verbs["show"], epilog=epilog())
@with_session
def show_effect(session: Session, key: _Key) -> Exit:
    by = _person(session)
    _show(session, finish(_shown(session, by, key)))
    return Exit.OK


@app.command("reconcile", help=_verbs["reconcile"], epilog=epilog())
@with_session
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
    while something stays unknown.
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


async def _listed(session: Session, by: Principal, states: tuple[EffectState, ...], limit: int) -> list[_Seen]:
    async with open_project(session.settings, ()) as gate:
        now = await gate.store.now()
        found = await gate.reconciler.effects(by=by, states=states, limit=limit)
        for broken in await gate.reconciler.broken_among(by=by, states=states, limit=limit):
            session.screen.warn(f"A row cannot be read, somebody changed it by hand: {shown_key(broken.operation_key)}")
            session.screen.warn("  next: placet effects list --broken finds all of them")
        return [_seen(gate, effect, now) for effect in found]


async def _shown(session: Session, by: Principal, key: str) -> _Seen:
    async with open_project(session.settings, ()) as gate:
        return _seen(gate, await _visible(gate, by, key), await gate.store.now())


async def _visible(gate: Gate, by: Principal, key: str) -> Effect:
    """One effect, under the rule of `Reconciler.effects`; what a person may not see does not exist.

    Raises:
        NotFound: there is none, or it is not this person's to see.
    """
    effect = await gate.store.effect(by.tenant, _as_key(key))
    sees_all = READ_EFFECTS_SCOPE in by.scopes or RECONCILE_SCOPE in by.scopes
    if effect is None or not (sees_all or by.subject in subjects_of(effect.subject)):
        raise NotFound("There is no such effect in your tenant", hint=_HOW_TO_FIND)
    return effect


def _as_key(said: str) -> OperationKey:
    """What was typed, if it can be a key at all; bytes that are no text are the key of nothing."""
    return OperationKey(said if is_text(said) else "")


def _seen(gate: Gate, effect: Effect, now: datetime) -> _Seen:
    return _Seen(effect=effect, now=now, quiet_end=gate.reconciler.quiet_end(effect))


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
    by = _person(session)
    seen = finish(_probed(session, by, key))
    _show(session, seen)
    return Exit.UNKNOWN if seen.effect.state is EffectState.UNKNOWN else Exit.OK


async def _probed(session: Session, by: Principal, key: str) -> _Seen:
    """Ask the probe of one unknown effect now, whether or not it is due; another state is only shown."""
    async with open_project(session.settings, load_tools(session.settings)) as gate:
        effect = await _visible(gate, by, key)
        if effect.state is EffectState.UNKNOWN:
            await gate.reconciler.probe(effect)
        return _seen(gate, await _visible(gate, by, key), await gate.store.now())


def _settle(session: Session, key: str, truth: Truth, looked: datetime | None, reason: str) -> Exit:
    by = _person(session)
    _show(session, finish(_settled(session, by, key, truth, looked, reason)))
    return Exit.OK


async def _settled(
    session: Session, by: Principal, key: str, truth: Truth, looked: datetime | None, reason: str
) -> _Seen:
    async with open_project(session.settings, ()) as gate:
        looked_at = looked if looked is not None else await gate.store.now()
        try:
            effect = await gate.reconciler.settle_by_person(
                _as_key(key), truth, by=by, looked_at=looked_at, reason=reason
            )
        except DecisionRefused as error:
            if error.code == "too_early_for_absent":
                error.hint = _quiet_hint(session, _seen(gate, await _visible(gate, by, key), await gate.store.now()))
            elif error.code == "scope_missing":
                error.hint = scope_hint(RECONCILE_SCOPE)
            raise
        except NotFound as error:
            error.hint = _HOW_TO_FIND
            raise
        return _seen(gate, effect, await gate.store.now())


def _quiet_hint(session: Session, seen: _Seen) -> str:
    if seen.quiet_end is None:
        return "Its attempt may still be going on: end the process that made it, then look again."
    return f"Look again after {session.screen.instant(seen.quiet_end)}."


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


def _who(effect: Effect) -> str:
    """Who acted, then for whom, and for whom that one did."""
    return " for ".join(subjects_of(effect.subject))


def _show(session: Session, seen: _Seen) -> None:
    screen, effect = session.screen, seen.effect
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
            ("quiet after", screen.instant(seen.quiet_end) if effect.state is EffectState.UNKNOWN else None),
        ]
    )
    for line in _next_steps(session, seen):
        screen.talk(line)


def _next_steps(session: Session, seen: _Seen) -> Iterator[str]:
    effect, key = seen.effect, quote(shown_key(seen.effect.operation_key))
    match effect.state:
        case EffectState.UNKNOWN:
            if effect.probe_after is not None and effect.probe_after - seen.now <= _LONGEST_WAIT:
                yield f"To ask its probe, after {session.screen.instant(effect.probe_after)}:"
                yield f"  placet effects reconcile {key}"
            yield "If you looked yourself:"
            yield f"  placet effects reconcile {key} --committed|--absent --looked-at now --reason CODE"
        case EffectState.DISPATCHED if effect.lease_until <= seen.now:
            yield "Its lease is over, and nobody said how it ended: the process that ran it is gone, or stands still."
            yield "Recover it, which makes it unknown and asks its probe: placet effects reconcile"
        case EffectState.DISPATCHED:
            yield f"It is being done. Look again after {session.screen.instant(effect.lease_until)}."
        case _:
            pass


def _data(seen: _Seen) -> dict[str, Any]:
    """Without arguments, results and digests of them."""
    effect = seen.effect
    return {
        "operation_key": effect.operation_key,
        "state": effect.state.value,
        "reason": effect.reason,
        "tenant": effect.tenant,
        "tool": effect.tool,
        "tool_version": effect.tool_version,
        "subject": subjects_of(effect.subject)[0],
        "on_behalf_of": subjects_of(effect.subject)[-1] if len(subjects_of(effect.subject)) > 1 else None,
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
        "quiet_end": instant_data(seen.quiet_end) if effect.state is EffectState.UNKNOWN else None,
    }
