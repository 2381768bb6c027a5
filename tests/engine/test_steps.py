"""Under which policy a step is counted: its own word for itself, or that it gave none."""

from __future__ import annotations

from typing import Any

import pytest

from placet import GateSettings
from placet.engine.steps import Steps
from placet.model.identifiers import CallId, RunId
from placet.testing import SeededIds
from tests.engine.conftest import OPERATOR


class Raises:
    @property
    def version(self) -> str:
        raise KeyboardInterrupt


class Says:
    def __init__(self, version: Any) -> None:
        self.version = version


def steps(policy: Any) -> Steps:
    return Steps(policy=policy, ids=SeededIds(), settings=GateSettings(max_steps=7, max_denials=3))


@pytest.mark.parametrize(
    ("policy", "version"),
    [
        (Says("v"), "v"),
        (Says("x" * 200), "x" * 200),
        (Says("x" * 201), "unavailable"),
        (Says(""), "unavailable"),
        (Says(7), "unavailable"),
        (Says(type("Text", (str,), {})("v1")), "unavailable"),
        (Raises(), "unavailable"),
    ],
    ids=["shortest", "longest", "too long", "empty", "no text", "a subclass", "raises"],
)
def test_a_step_names_the_policy_in_force_or_that_it_has_no_name(policy: Any, version: str) -> None:
    step = steps(policy).of_rejected(OPERATOR, RunId("r1"), CallId("c1"))

    assert (step.policy_version, step.run_id, step.call_id) == (version, "r1", "c1")
    assert (step.tenant, step.subject, step.max_steps, step.max_denials) == ("acme", OPERATOR.identity, 7, 3)


def test_two_rejected_proposals_of_one_name_are_two_steps() -> None:
    made = steps(Says("v"))
    first, second = (made.of_rejected(OPERATOR, RunId("r1"), CallId("c1")) for _ in range(2))

    assert first.fingerprint != second.fingerprint
