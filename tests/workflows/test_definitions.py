"""A definition that means nothing is refused where it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet import End, Failure, State, Workflow
from placet.errors import MisuseError
from placet.model.progress import Busy, Ended, Progress, Ready, Unserved, Waiting, progress_of
from placet.rules.workflows import shape_of
from tests.workflows.order import ORDER, Order, check, with_step

NAMES: dict[str, Any] = {
    "tenant": "acme",
    "run_id": "r1",
    "workflow": "order",
    "version": "1",
    "state": "PAY",
    "visit": 1,
    "state_version": 3,
}


def a_state(**changes: Any) -> State[Any]:
    state = State(name="A", inputs=Order, step=check, next=("DONE",), on_failure="FAILED")
    return replace(state, **changes)


ENDS = (End(name="DONE", inputs=Order), End(name="FAILED", inputs=Failure, is_failure=True))


def made(*states: Any, **changes: Any) -> Workflow:
    given: dict[str, Any] = {"name": "w", "version": "1", "start": "A", "states": (*states, *ENDS)}
    return Workflow(**(given | changes))


@pytest.mark.req("B189")
@pytest.mark.parametrize(
    ("states", "changes", "words"),
    [
        ((a_state(),), {"name": "Order"}, "lower case"),
        ((a_state(),), {"version": ""}, "version"),
        ((a_state(),), {"start": "B"}, "which is no state"),
        ((a_state(),), {"max_entries": 0}, "max_entries"),
        ((a_state(),), {"accepts": {"1": lambda rest: rest}}, "older versions"),
        ((a_state(), a_state()), {}, "one name"),
        ((a_state(name="a"),), {}, "named A-Z"),
        ((a_state(next=("NOWHERE",)),), {}, "which is no state"),
        ((a_state(next=("DONE", "DONE")),), {}, "next= of A"),
        ((a_state(next=["DONE"]),), {}, "next= of A"),
        ((a_state(tools=("pay money",)),), {}, "tools= of A"),
        ((a_state(inputs=None),), {}, "inputs= of A"),
        ((a_state(step=None),), {}, "step= of A"),
        ((a_state(on_failure="DONE"),), {}, "failure exit"),
        ((a_state(on_failure="A"),), {}, "circle"),
        ((a_state(), a_state(name="B")), {}, "No way leads to B"),
        (
            (
                a_state(on_failure="B"),
                a_state(name="B", inputs=Failure, on_failure="C"),
                a_state(name="C", inputs=Failure, on_failure="B"),
            ),
            {},
            "circle",
        ),
    ],
)
def test_a_definition_that_means_nothing_is_refused(
    states: tuple[Any, ...], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(MisuseError, match=words):
        made(*states, **changes)


def test_a_shape_is_of_moves_tools_and_inputs_and_of_no_function() -> None:
    shape = shape_of(ORDER)

    assert shape_of(with_step("CHECK", lambda inputs, context: None)) == shape
    assert shape_of(replace(ORDER, version="2")) == shape
    others = [
        with_step("CHECK", check, tools=("pay",)),
        with_step("CHECK", check, next=("PAY", "CONFIRM")),
        with_step("CHECK", check, on_failure="REFUND"),
        replace(ORDER, name="other"),
    ]
    assert len({shape, *map(shape_of, others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "progress",
    [
        Ready(**NAMES),
        Waiting(**NAMES, code="approval_required", approvals=("apr-1", "apr-2"), check_after_seconds=1.5),
        Ended(**NAMES, status="failed", code="not_paid"),
        Busy(**NAMES, retry_after_seconds=2.0),
        Unserved(**NAMES, code="workflow_version"),
    ],
    ids=lambda progress: progress.kind,
)
@pytest.mark.case("P05")
def test_how_far_a_run_is_is_read_as_it_was_written(progress: Progress) -> None:
    assert progress_of(progress.as_data()) == progress
    for broken in (None, {}, progress.as_data() | {"progress": "else"}, progress.as_data() | {"more": 1}):
        with pytest.raises(MisuseError):
            progress_of(broken)
