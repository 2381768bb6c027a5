"""The queue for people: unknown effects, why nothing settles them, and rows that nobody can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placet.cli.project import finish, load_tools, open_project
from placet.cli.screen import Column, instant_data, shown_key, time_left
from placet.cli.session import Session
from placet.cli.table import Exit
from placet.errors import PlacetError
from placet.model.effect import BrokenEffect
from placet.model.principal import Principal
from placet.rules.policy import RECONCILE_SCOPE
from placet.rules.unknowns import Absence, UnknownReason, WaitingEffect

if TYPE_CHECKING:
    from placet.rules.contracts import Tool


async def _queue(session: Session, by: Principal, limit: int) -> list[WaitingEffect]:
    async with open_project(session.settings, _tools_of_queue(session)) as gate:
        return list(await gate.reconciler.waiting(by=by, limit=limit))


def _tools_of_queue(session: Session) -> tuple[Tool, ...]:
    """Only the contracts say which probes there are, and what a remote promises."""
    try:
        return load_tools(session.settings)
    except PlacetError as error:
        session.screen.warn(f"placet: {error}")
        session.screen.warn("  so nobody here can say which effects have a probe")
        return ()


def show_queue(session: Session, by: Principal, limit: int) -> Exit:
    """What is unknown, longest first: why nothing settles it, and what may be said of it now."""
    screen, waiting = session.screen, finish(_queue(session, by, limit))
    screen.listing(
        "unknown_effects",
        waiting,
        as_data=_waiting_data,
        columns=[
            Column(title="unknown for", cell=lambda w: time_left(w.age_seconds)),
            Column(title="tool", cell=lambda w: w.effect.tool),
            Column(title="by", cell=lambda w: " for ".join(w.requested_by)),
            Column(title="why", cell=lambda w: _why(session, w)),
            Column(title="absent", cell=lambda w: _absence(session, w)),
            Column(title="key", cell=lambda w: w.effect.operation_key, show=shown_key),
        ],
        item_schema="unknown_effect/1",
        nothing="Nothing that you may see is unknown.",
    )
    if waiting and screen.is_text:
        screen.talk("Look at the remote system, then say what is true:")
        screen.talk("  placet effects reconcile KEY --committed|--absent --looked-at now --reason CODE")
        screen.talk(f"It needs {RECONCILE_SCOPE}; who asked for an effect may not call it absent.")
    return Exit.OK


def _why(session: Session, waiting: WaitingEffect) -> str:
    match waiting.reason:
        case UnknownReason.NO_PROBE:
            return "it has no probe"
        case UnknownReason.NOT_HERE:
            return "its tool is not known here"
        case UnknownReason.NOT_PROBED:
            return f"not probed yet; {_next_probe(session, waiting)}"
        case UnknownReason.CANNOT_TELL:
            return f"its probe could not tell, {waiting.effect.probes} times; {_next_probe(session, waiting)}"
        case UnknownReason.GAVE_UP:
            return f"its probe gave up after {waiting.effect.probes}"


def _next_probe(session: Session, waiting: WaitingEffect) -> str:
    return f"due {session.screen.instant(waiting.next_probe_at)}"


def _absence(session: Session, waiting: WaitingEffect) -> str:
    match waiting.absence:
        case Absence.BELIEVABLE:
            said = "may be said"
        case Absence.TOO_EARLY:
            said = f"too early until {session.screen.instant(waiting.absent_after)}"
        case Absence.ATTEMPT_OPEN:
            said = "no: its attempt may still go on"
    return said + (", and then it may act twice" if waiting.may_act_twice else "")


def _waiting_data(waiting: WaitingEffect) -> dict[str, Any]:
    return {
        "operation_key": waiting.effect.operation_key,
        "tenant": waiting.effect.tenant,
        "tool": waiting.effect.tool,
        "run_id": waiting.effect.run_id,
        "call_id": waiting.effect.call_id,
        "age_seconds": waiting.age_seconds,
        "reason": waiting.reason.value,
        "row_reason": waiting.effect.reason,
        "probes": waiting.effect.probes,
        "next_probe_at": instant_data(waiting.next_probe_at),
        "absence": waiting.absence.value,
        "absent_after": instant_data(waiting.absent_after),
        "may_act_twice": waiting.may_act_twice,
        "requested_by": list(waiting.requested_by),
        "settled_with": RECONCILE_SCOPE,
        "why_not_committed": waiting.why_not_committed,
        "why_not_absent": waiting.why_not_absent,
    }


async def _broken(session: Session, by: Principal, limit: int) -> list[BrokenEffect]:
    async with open_project(session.settings, ()) as gate:
        return list(await gate.reconciler.broken_effects(by=by, limit=limit))


def show_broken(session: Session, by: Principal, limit: int) -> Exit:
    """Rows that cannot be read any more, however old."""
    broken = finish(_broken(session, by, limit))
    session.screen.listing(
        "broken_effects",
        broken,
        as_data=lambda b: {"tenant": b.tenant, "operation_key": b.operation_key},
        columns=[Column(title="key", cell=lambda b: b.operation_key, show=shown_key)],
        item_schema="broken_effect/1",
        nothing="Every row that you may see can be read.",
    )
    return Exit.OK
