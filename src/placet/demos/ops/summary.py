"""What is left when the story is over: numbers read from the stores, never counted by the story itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from placet.demos.ops.scene import Scene, person
from placet.demos.stage.leaks import Leak
from placet.demos.stage.talk import Talk, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The end of the story in numbers.

    Attributes:
        calls: proposals on record in the audit, each asking anew included.
        attempts: attempts on record, retries included.
        refused: not allowed, or no valid call.
        tickets: real ones, asked of the desk.
        requests: creations that reached the desk.
        effects: how many are in which state, from the ledger.
        commits: durable ones of the gate's store.
    """

    calls: int
    attempts: int
    refused: int
    approved: int
    denied_by_person: int
    replayed: int
    tickets: int
    requests: int
    effects: dict[str, int]
    commits: int
    audit_events: int
    audit_chains: int
    audit_holds: bool
    audit_unpaired: int


async def numbers(scene: Scene) -> Numbers:
    """Read them, while the gate is open."""
    events = [json.loads(event.body) async for event in scene.gate.store.chained()]
    ended = [event for event in events if event["kind"] == "completed"]
    first = [event for event in ended if event["attempt"] == 1]
    outcomes = Counter(event["outcome"] for event in first)
    kinds = Counter(event["kind"] for event in events)
    effects = await scene.gate.reconciler.effects(by=person(scene.approver.name))
    report = await scene.gate.verify_audit()
    return Numbers(
        calls=len(first),
        attempts=len(ended),
        refused=outcomes["denied"] + outcomes["validation"],
        approved=kinds["approval_approved"],
        denied_by_person=kinds["approval_denied"],
        replayed=outcomes["replayed"],
        tickets=await scene.desk.count(),
        requests=len(await scene.desk.arrivals()),
        effects=dict(sorted(Counter(effect.state.value for effect in effects).items())),
        commits=scene.gate.store.commits,
        audit_events=report.events,
        audit_chains=report.writers,
        audit_holds=report.holds,
        audit_unpaired=report.unpaired,
    )


def as_document(found: Numbers, scene: Scene, leaks: Sequence[Leak]) -> dict[str, Any]:
    """The summary as one JSON document."""
    return {
        "schema": "placet-demo-ops/1",
        "holds": not scene.checks.failed,
        "declined": scene.has_declined,
        "expectations": {"held": scene.checks.held, "failed": scene.checks.failed},
        "calls": {
            "submitted": found.calls,
            "refused": found.refused,
            "replayed": found.replayed,
            "attempts": found.attempts,
        },
        "approvals": {"approved": found.approved, "denied": found.denied_by_person},
        "effects": found.effects,
        "desk": {"tickets": found.tickets, "requests": found.requests},
        "store": {"commits": found.commits},
        "audit": {
            "events": found.audit_events,
            "chains": found.audit_chains,
            "unpaired": found.audit_unpaired,
            "verified": found.audit_holds,
        },
        "leaks": {
            "canaries": sorted(scene.planted.words),
            "found": [{"canary": leak.canary, "place": leak.place, "as": leak.spelling} for leak in leaks],
        },
    }


def print_table(found: Numbers, talk: Talk, leaks: Sequence[Leak]) -> None:
    """The summary for people."""
    effects = ", ".join(f"{count} {state}" for state, count in found.effects.items()) or "none"
    rows: Iterable[tuple[str, object, str]] = (
        ("calls", found.calls, f"audit; {found.attempts} attempts"),
        ("refused", found.refused, "audit"),
        ("approved", found.approved, "audit; by a person, for one exact call each"),
        ("denied", found.denied_by_person, "audit; by a person"),
        ("replayed", found.replayed, "audit; answered from the record"),
        ("real tickets", found.tickets, f"the desk; {found.requests} requests reached it"),
        ("effects", effects, "ledger"),
        ("durable commits", found.commits, "store"),
        (
            "audit events",
            found.audit_events,
            f"store; {found.audit_chains} chain, {found.audit_unpaired} attempts left open",
        ),
        ("audit verified", "yes" if found.audit_holds else "NO", "every link, from the first event on"),
        ("leaks found", len(leaks), "every byte written, the desk's own file aside"),
    )
    for name, value, source in rows:
        talk.line(f"{name:<16} {value!s:<40} {talk.painted('dim', source)}")
    for leak in leaks:
        talk.line(talk.painted("red", f"LEAK: {leak.canary} in {shown(leak.place)}, as {leak.spelling}"))
