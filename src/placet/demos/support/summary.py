"""What is left when the story is over: numbers read from the stores, never counted by the story itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placet.demos.stage.leaks import Leak
from placet.demos.stage.talk import Talk, padded, shown
from placet.demos.support.scene import Scene
from placet.demos.support.tools import SEARCH
from placet.demos.support.words import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The end of the story in numbers.

    Attributes:
        runs: how many ended in which state, by the audit.
        searches: attempts of the search tool, by the audit.
        drafts, requests: drafts that exist, and creations that arrived, asked of the service.
    """

    runs: Mapping[str, int]
    searches: int
    approved: int
    denied: int
    drafts: int
    requests: int
    events: int
    unpaired: int
    holds: bool


async def numbers(scene: Scene) -> Numbers:
    """Read them, while the gate is open."""
    events = await scene.events()
    kinds = Counter(event["kind"] for event in events)
    report = await scene.gate.verify_audit()
    searched = [event for event in events if event["kind"] == "completed" and event["tool"] == SEARCH]
    return Numbers(
        runs=Counter(event["detail"] for event in events if event["kind"] == "run_ended"),
        searches=sum(event["outcome"] == "success" for event in searched),
        approved=kinds["approval_approved"],
        denied=kinds["approval_denied"],
        drafts=await scene.drafts.count(),
        requests=len(await scene.drafts.arrivals()),
        events=report.events,
        unpaired=report.unpaired,
        holds=report.holds,
    )


def as_document(found: Numbers, scene: Scene, leaks: Sequence[Leak], language: str) -> dict[str, Any]:
    """The summary as one JSON document."""
    return {
        "schema": "placet-demo-support/1",
        "language": language,
        "holds": not scene.checks.failed,
        "declined": scene.has_declined,
        "expectations": {"held": scene.checks.held, "failed": scene.checks.failed},
        "runs": dict(sorted(found.runs.items())),
        "searches": found.searches,
        "approvals": {"approved": found.approved, "denied": found.denied},
        "drafts": {"kept": found.drafts, "requests": found.requests},
        "audit": {"events": found.events, "unpaired": found.unpaired, "verified": found.holds},
        "leaks": {
            "canaries": sorted(scene.planted.words),
            "found": [{"canary": leak.canary, "place": leak.place, "as": leak.spelling} for leak in leaks],
        },
    }


def print_table(found: Numbers, words: Words, talk: Talk, leaks: Sequence[Leak]) -> None:
    """The summary for people."""
    values: dict[str, object] = {
        "runs": ", ".join(f"{count} {state}" for state, count in sorted(found.runs.items())) or "0",
        "searches": found.searches,
        "approved": found.approved,
        "denied": found.denied,
        "drafts": found.drafts,
        "requests": found.requests,
        "events": found.events,
        "verified": words.yes if found.holds else words.no,
        "leaks": len(leaks),
    }
    for name, value in values.items():
        talk.line(f"{padded(words.rows[name], 16)} {value}")
    for leak in leaks:
        talk.line(talk.painted("red", f"LEAK: {leak.canary} in {shown(leak.place)}, as {leak.spelling}"))
