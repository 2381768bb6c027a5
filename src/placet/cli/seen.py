"""One approval as the command line shows it: in a list, in full, or while it is watched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from placet.cli.screen import instant_data, shown, time_left, value_lines
from placet.engine.approval_views import UNREGISTERED
from placet.engine.desk import ApprovalView
from placet.model.approval import ApprovalState

_LONGEST_GIST: Final = 60
_MOST_LINES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One approval as it is shown here, and when it was looked at, by the clock of its store or server."""

    view: ApprovalView
    now: datetime

    @property
    def has_contract(self) -> bool:
        """Whether the contract that was asked under is known there; without it nobody can tell what is redacted."""
        return self.view.risk != UNREGISTERED


def gist(seen: Seen) -> str:
    """What tells one question from another in a list: what it acts on, or how its arguments begin. It may be cut, so
    nobody decides by it. Escaped, as a person may see it.
    """
    view = seen.view
    if view.resource is not None:
        return _cut(shown(view.resource))
    if not (seen.has_contract and view.arguments):
        return "-"
    return _cut(", ".join(islice(value_lines(view.arguments), _MOST_LINES)))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_GIST else f"{text[: _LONGEST_GIST - 1]}\u2026"


def seconds_left(seen: Seen) -> float | None:
    """Seconds until it can no longer be decided or used; None once it is over."""
    match seen.view.state:
        case ApprovalState.PENDING:
            end = seen.view.decide_by
        case ApprovalState.APPROVED if seen.view.expires_at is not None:
            end = seen.view.expires_at
        case _:
            return None
    return max(0.0, (end - seen.now).total_seconds())


def countdown(seen: Seen) -> str:
    seconds = seconds_left(seen)
    return "-" if seconds is None else time_left(seconds)


def summary(seen: Seen) -> dict[str, Any]:
    """Without the whole arguments and the digest: whoever approves has asked for them."""
    view = seen.view
    return {
        "approval_id": view.approval_id,
        "state": view.state.value,
        "tool": view.tool,
        "tool_version": view.tool_version,
        "risk": view.risk,
        "effect_class": view.effect_class,
        "requested_by": view.requested_by,
        "on_behalf_of": view.on_behalf_of,
        "run_id": view.run_id,
        "about": gist(seen),
        "reasons": list(view.reasons),
        "requirement": view.requirement,
        "rule": view.rule,
        "votes": len(view.votes),
        "votes_needed": view.votes_needed,
        "asked_at": instant_data(view.asked_at),
        "decide_by": instant_data(view.decide_by),
        "seconds_left": seconds_left(seen),
        "why_not": view.why_not,
    }


def details(seen: Seen) -> dict[str, Any]:
    view = seen.view
    return {
        **summary(seen),
        "description": view.description,
        "resource": view.resource,
        "policy_version": view.policy_version,
        "arguments": view.arguments if seen.has_contract else None,
        "display": list(value_lines(view.arguments)) if seen.has_contract else None,
        "redacted": list(view.redacted),
        "digest": view.digest,
        "decided_by": view.decided_by,
        "decided_at": instant_data(view.decided_at),
        "expires_at": instant_data(view.expires_at),
        "words": view.words,
        "voters": [
            {"voter": each.voter, "voted_at": instant_data(each.voted_at), "words": each.words} for each in view.votes
        ],
        "own_vote": view.own_vote,
        "who_may": list(view.who_may),
        "needs_reason": list(view.needs_reason),
        "edited_by": view.edited_by,
        "edited_from": view.edited_from,
        "may_edit": view.may_edit,
        "reminded_at": [instant_data(each) for each in view.reminded_at],
        "escalates_at": instant_data(view.escalates_at),
        "escalated_at": instant_data(view.escalated_at),
        "escalate_to": list(view.escalate_to),
        "escalation_widens": view.escalation_widens,
        "state_digest": view.state_digest,
        "differences": [{"name": each.name, "was": each.was, "now": each.now} for each in view.differences],
    }
