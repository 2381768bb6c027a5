"""The second ticket: when one user of something shared broke it, look at the others. Pure; knows no service by name."""

from __future__ import annotations

from typing import Any

from placet.demos.ops.planner import Findings

_MAX_TITLE = 120
_MAX_LABEL = 40


def follow_up(found: Findings, ticket_id: str) -> dict[str, Any] | None:
    """Ask to check whoever else uses what is stuck for the way of working that broke it.

    Args:
        ticket_id: the ticket this one belongs to, as the desk named it.

    Returns:
        The arguments of a ticket; None if no cause is known, for then there is nothing to look for.
    """
    cause, locus = found.cause, found.locus
    if cause is None or locus is None:
        return None
    status = found.statuses.get(locus)
    shared = {locus, *(status.depends_on if status else ())}
    users = sorted(
        name
        for name, other in found.statuses.items()
        if name not in (cause.service, locus) and not shared.isdisjoint(other.depends_on)
    )
    lines = [
        f"Follow-up of {ticket_id}: {locus} got stuck after {cause.name}.",
        "Check whether any other user of it works the same way:",
        *(f"- {name}, owner {found.statuses[name].owner}" for name in users or [cause.service]),
        "What to look for:",
        *(
            f'- "{entry.message}": {name} {before} -> {since}'
            for entry in cause.differences
            for name, before, since in entry.flags
        ),
        *(
            f'- "{entry.message}": mean {name} {before:g} -> {since:g}'
            for entry in cause.differences
            for name, before, since in entry.numbers
        ),
    ]
    labels = ["follow-up", locus, ticket_id, cause.change.change]
    return {
        "title": f"{locus}: check its other users for what {cause.name} does"[:_MAX_TITLE],
        "service": locus,
        "severity": "sev3",
        "body": "\n".join(lines)[:4_000],
        "labels": [label[:_MAX_LABEL] for label in labels if label],
    }
