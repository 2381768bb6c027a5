"""What is decided of a workflow from values alone: its shape, its calls' names, what a step's word leads to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from placet.model.identifiers import CallId
from placet.model.json import JsonValue
from placet.model.outcome import RETRYABLE_CODES, AwaitingApproval, InProgress, Outcome, Refused, Unknown
from placet.model.workflow import End, Fail, Failure, Next, State, Wait, Workflow, is_code, moves_of
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts import step_inputs

_LONGEST_PAUSE_SECONDS: Final = 300.0
_LONGEST_SHIFT: Final = 8


def shape_of(workflow: Workflow) -> str:
    """Of states, moves, tools and what the states take: what may not change without another version."""
    shape: JsonValue = [
        [
            state.name,
            list(moves_of(state)),
            list(state.tools) if isinstance(state, State) else state.is_failure,
            state.inputs.__name__,
            step_inputs.described(state.inputs),
        ]
        for state in workflow.states
    ]
    return hashlib.sha256(canonical_bytes(["placet/workflow/1", workflow.name, workflow.start, shape])).hexdigest()[:32]


def call_id_of(state: str, visit: int, position: int) -> CallId:
    """The id of the call a step makes at this position. A named call has its name, which no state can have."""
    return CallId(f"{state}.{visit}.{position}")


def call_key(run_id: str, call_id: str) -> str:
    """The idempotency key that every write of a workflow carries: one act for each call id of a run."""
    return "workflow-" + hashlib.sha256(canonical_bytes(["placet/workflow-call/1", run_id, call_id])).hexdigest()[:40]


def waits_for(outcome: Outcome) -> bool:
    """Whether there will be something to know later that is not known now."""
    if isinstance(outcome, AwaitingApproval | InProgress | Unknown):
        return True
    return isinstance(outcome, Refused) and outcome.code in RETRYABLE_CODES


def pause_seconds(tries: int) -> float:
    """How long to wait before the next look, after so many in vain; what a person does is told at once anyway."""
    return min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(tries, _LONGEST_SHIFT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goes:
    """Into a state, with its input as JSON."""

    state: State[Any] | End[Any]
    inputs: JsonValue
    code: str | None = None


def follows(workflow: Workflow, at: State[Any], move: object) -> Goes | tuple[Wait, Goes]:
    """Where a step's word leads: what the definition does not allow leads to the failure exit."""
    match move:
        case Next():
            return _next(workflow, at, move)
        case Wait(then=then) if type(then) is Next and type(move.question) is AwaitingApproval:
            goes = _next(workflow, at, then)
            return (move, goes) if goes.code is None else goes
        case Fail(code=code) if is_code(code):
            return fails(workflow, at, code)
        case _:
            return fails(workflow, at, "step_broken")


def fails(workflow: Workflow, at: State[Any], code: str) -> Goes:
    target = workflow.state(at.on_failure)
    assert target is not None  # noqa: S101 - the definition was checked
    failure = Failure(state=at.name, code=code)
    return Goes(state=target, inputs=step_inputs.written(Failure, failure), code=code)


def _next(workflow: Workflow, at: State[Any], move: Next) -> Goes:
    target = workflow.state(move.state) if type(move.state) is str and move.state in at.next else None
    if target is None:
        return fails(workflow, at, "state_outside")
    try:
        return Goes(state=target, inputs=step_inputs.written(target.inputs, move.inputs))
    except step_inputs.InputBroken:
        return fails(workflow, at, "input_broken")
