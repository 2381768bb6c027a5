"""What a run may still do: its status, its deadline, its tools and its budgets, as its row says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from placet.errors import MisuseError
from placet.model.ledger import OutsideRun
from placet.model.run import Run, RunLimits, RunStatus

ATTEMPTS: Final = "attempts"
COST: Final = "cost"
UNSENT: Final = frozenset({"not_sent", "sink_failed", "caller_left"})
"""Reasons of a failed effect of which no byte left: what its dispatch took of a budget is given back."""
BUDGETS: Final = frozenset({"run_attempts_exhausted", "run_tool_exhausted", "run_cost_exhausted"})
CLOSED: Final = frozenset({"run_paused", "run_cancelled", "run_over"})
_STATUS_CODES: Final = {
    RunStatus.PAUSED: "run_paused",
    RunStatus.CANCELLED: "run_cancelled",
    RunStatus.DONE: "run_over",
    RunStatus.FAILED: "run_over",
}


def closed(run: Run | None) -> OutsideRun | None:
    """Why nothing of this run goes on; None where something may."""
    code = _STATUS_CODES.get(run.status) if run is not None else None
    return None if code is None else OutsideRun(code=code)


def outside(run: Run | None, tool: str, *, now: datetime) -> OutsideRun | None:
    """Why this tool may not be asked for, or dispatched, in this run now, whatever its budgets are."""
    if (answer := closed(run)) is not None:
        return answer
    limits = run.limits if run is not None else None
    if limits is None:
        return None
    if limits.deadline is not None and now >= limits.deadline:
        return OutsideRun(code="run_deadline_passed")
    if limits.tools is not None and tool not in limits.tools:
        return OutsideRun(code="tool_not_in_run")
    return None


def takes(run: Run | None, tool: str) -> Iterator[tuple[str, int, int, str]]:
    """What a dispatch of the tool takes: a budget, how much of it, how much there is, and the code without it."""
    limits = run.limits if run is not None else None
    if limits is None:
        return
    if limits.max_attempts is not None:
        yield ATTEMPTS, 1, limits.max_attempts, "run_attempts_exhausted"
    if tool in limits.per_tool:
        yield f"tool:{tool}", 1, limits.per_tool[tool], "run_tool_exhausted"
    if limits.max_cost is not None and tool in limits.costs:
        yield COST, limits.costs[tool], limits.max_cost, "run_cost_exhausted"


def takes_again(run: Run | None) -> Iterator[tuple[str, int, int, str]]:
    """What a further attempt of a dispatch takes."""
    limits = run.limits if run is not None else None
    if limits is not None and limits.max_attempts is not None:
        yield ATTEMPTS, 1, limits.max_attempts, "run_attempts_exhausted"


def gives_back(run: Run | None, tool: str) -> Iterator[tuple[str, int]]:
    """What a dispatch of which nothing was sent gives back: all but its attempts."""
    for name, count, _, _ in takes(run, tool):
        if name != ATTEMPTS:
            yield name, count


def is_taken_alike(before: RunLimits | None, after: RunLimits) -> bool:
    """Whether a dispatch of any tool takes the same under both: what was taken under one is given back under the other.

    How much there is of a budget does not matter, nor attempts, which are never given back.
    """
    return _kept(before) == _kept(after)


def _kept(limits: RunLimits | None) -> tuple[frozenset[str], dict[str, int]]:
    if limits is None:
        return frozenset(), {}
    return frozenset(limits.per_tool), {} if limits.max_cost is None else dict(limits.costs)


def budgets_of(limits: RunLimits | None) -> Iterator[tuple[str, int]]:
    """Every declared budget but that of steps, and how much there is of it."""
    if limits is None:
        return
    if limits.max_attempts is not None:
        yield ATTEMPTS, limits.max_attempts
    if limits.max_cost is not None:
        yield COST, limits.max_cost
    for tool, most in sorted(limits.per_tool.items()):
        yield f"tool:{tool}", most


def limits_text(limits: RunLimits | None) -> str | None:
    """As a row has them."""
    if limits is None:
        return None
    members = {
        "max_steps": limits.max_steps,
        "max_attempts": limits.max_attempts,
        "deadline": None if limits.deadline is None else limits.deadline.astimezone(UTC).isoformat(),
        "allowed_tools": None if limits.allowed_tools is None else sorted(limits.allowed_tools),
        "per_tool": dict(sorted(limits.per_tool.items())) or None,
        "max_cost": limits.max_cost,
        "costs": dict(sorted(limits.costs.items())) or None,
        "workflow_tools": None if limits.workflow_tools is None else sorted(limits.workflow_tools),
    }
    return json.dumps({name: value for name, value in members.items() if value is not None}, separators=(",", ":"))


def limits_of(text: str | None) -> RunLimits | None:
    """What `limits_text` wrote.

    Raises:
        ValueError: somebody changed it by hand.
    """
    if text is None:
        return None
    try:
        members = json.loads(text)
        if "deadline" in members:
            members["deadline"] = datetime.fromisoformat(members["deadline"])
        for name in ("allowed_tools", "workflow_tools"):
            if name in members:
                members[name] = frozenset(members[name])
        return RunLimits(**members)
    except (MisuseError, TypeError, ValueError, RecursionError):
        pass
    raise ValueError("These are no limits of a run.")
