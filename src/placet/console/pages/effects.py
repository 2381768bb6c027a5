"""What happened to the world; and what nobody knows yet, with what a person can do about it."""

from __future__ import annotations

import re
from datetime import datetime

from starlette.responses import Response

from placet.console import refusals
from placet.console.doors import text_of
from placet.console.visit import Visit
from placet.engine.settling import Truth
from placet.errors import DecisionRefused, MisuseError
from placet.model.effect import Effect, EffectState
from placet.model.principal import subjects_of
from placet.rules.unknowns import WaitingEffect

_MOST_ROWS = 200
_EVIDENCE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")


async def effects(visit: Visit) -> Response:
    wanted = visit.asked("state")
    states = (EffectState(wanted),) if wanted in tuple(EffectState) else tuple(EffectState)
    gate = visit.gate
    return visit.page(
        "effects.html.jinja",
        waiting=await gate.reconciler.waiting(by=visit.by, limit=_MOST_ROWS),
        found=await gate.reconciler.effects(by=visit.by, states=states, limit=_MOST_ROWS),
        broken=await gate.reconciler.broken_among(by=visit.by, states=states, limit=_MOST_ROWS),
        wanted=wanted if wanted in tuple(EffectState) else "",
        states=tuple(EffectState),
        now=await gate.store.now(),
        whom=_whom,
    )


async def effect(visit: Visit) -> Response:
    return await _page(visit, await visit.gate.reconciler.visible(visit.asked("key"), by=visit.by))


async def settle(visit: Visit) -> Response:
    """A person says, from looking at the remote system, what became of it."""
    form, key = visit.form, visit.form.get("key", "")
    found = await visit.gate.reconciler.visible(key, by=visit.by)
    truth, evidence = form.get("truth", ""), text_of(dict(form), "evidence", most=128)
    if _EVIDENCE.fullmatch(evidence) is None or truth not in tuple(Truth):
        words = "Say what you saw, and name the kind of evidence: letters, digits and _ . : - without blanks."
        return await _page(visit, found, conflict=words, status=422)
    try:
        await visit.gate.reconciler.settle_by_person(
            key, truth, by=visit.by, looked_at=_instant(form.get("looked_at", "")), reason=evidence
        )
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go("/effect", key=key, done="settled")
    return await _page(visit, await visit.gate.reconciler.visible(key, by=visit.by), conflict=conflict, status=status)


async def probe(visit: Visit) -> Response:
    """Ask the contract's probe once more. It looks and changes nothing; what it finds may settle the effect."""
    key = visit.form.get("key", "")
    try:
        await visit.gate.reconciler.probe_now(key, by=visit.by)
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go("/effect", key=key, done="probed")
    return await _page(visit, await visit.gate.reconciler.visible(key, by=visit.by), conflict=conflict, status=status)


# ---------------------------------------------------------------- within


async def _page(visit: Visit, found: Effect, *, conflict: str = "", status: int = 200) -> Response:
    gate = visit.gate
    queue = await gate.reconciler.waiting(by=visit.by, limit=10_000) if found.state is EffectState.UNKNOWN else ()
    waits = next((each for each in queue if each.effect.operation_key == found.operation_key), None)
    return visit.page(
        "effect.html.jinja",
        status=status,
        effect=found,
        waits=waits,
        quiet_end=gate.reconciler.quiet_end(found),
        now=await gate.store.now(),
        conflict=conflict,
        whom=_whom,
        can_be_probed=waits is not None and _has_probe(waits),
    )


def _has_probe(waits: WaitingEffect) -> bool:
    return waits.reason not in ("no_probe", "not_here")


def _whom(found: Effect) -> str:
    return " for ".join(subjects_of(found.subject))


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise MisuseError("The time of the look is missing: open the page again.")
    return instant
