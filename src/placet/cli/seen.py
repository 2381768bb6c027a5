"""One approval as the command line shows it: in a list, in full, or while it is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from placet.cli.screen import instant_data, time_left, value_lines
from placet.engine.desk import ApprovalView
from placet.model.approval import ApprovalState

if TYPE_CHECKING:
    from placet.rules.contracts import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One approval as it is shown here.

    Attributes:
        has_contract: whether the tool's contract is known; without it nobody can tell which arguments are redacted.
    """

    view: ApprovalView
    now: datetime
    has_contract: bool


def seen_of(view: ApprovalView, now: datetime, tools: Sequence[Tool]) -> Seen:
    return Seen(view=view, now=now, has_contract=any(tool.contract.name == view.tool for tool in tools))


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
    """Without arguments and digest: whoever approves has asked for them."""
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
    }
