"""What may be a state that an approval is bound to, and what its digest covers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from placet.errors import InvalidArguments
from placet.rules import preconditions as rules
from placet.rules.preconditions import MAX_STATE_BYTES
from tests.rules.test_approvals import tool_call

pytestmark = pytest.mark.case("E12")


@pytest.mark.parametrize(
    ("answered", "state"),
    [
        ({"version": 12}, b'{"state":{"version":12}}'),
        ({"b": 1, "a": [None, True, 1.0, 2**70]}, b'{"state":{"a":[null,true,1.0,1180591620717411303424],"b":1}}'),
        ("", b'{"state":""}'),
        (False, b'{"state":false}'),
    ],
)
def test_a_state_is_canonical_and_is_read_as_it_was(answered: Any, state: bytes) -> None:
    assert rules.state_of(answered) == state
    first, second = rules.read_state(state), rules.read_state(state)
    assert first == second == answered
    assert type(answered) is not dict or first is not second


@pytest.mark.parametrize("answered", [None, object(), (1, 2), {1: 2}, float("inf"), b"x", "\ud800", {"a": {1}}])
def test_null_and_what_is_no_plain_json_is_none(answered: object) -> None:
    with pytest.raises(InvalidArguments) as caught:
        rules.state_of(answered)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_state_is_bounded() -> None:
    around = len(b'{"state":""}')

    assert len(rules.state_of("x" * (MAX_STATE_BYTES - around))) == MAX_STATE_BYTES
    with pytest.raises(InvalidArguments):
        rules.state_of("x" * (MAX_STATE_BYTES - around + 1))
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    with pytest.raises(InvalidArguments):
        rules.state_of(deep)


def test_its_digest_is_of_this_form_so_that_approvals_of_before_stay_good() -> None:
    call, state = tool_call(), rules.state_of({"version": 12})

    assert json.loads(rules.state_form(call, state)) == {
        "v": "precondition/1",
        "tenant": "acme",
        "tool": "act",
        "argument_digest": "d" * 64,
        "state": '{"state":{"version":12}}',
    }


def test_a_state_of_another_call_or_another_state_has_another_digest() -> None:
    call, state = tool_call(), rules.state_of(1)
    elsewhere = dataclasses.replace(call.principal, tenant="globex")
    others = (
        rules.state_form(tool_call(argument_digest="e" * 64), state),
        rules.state_form(tool_call(principal=elsewhere), state),
        rules.state_form(tool_call(contract=dataclasses.replace(call.contract, name="other")), state),
        rules.state_form(call, rules.state_of(1.0)),
        rules.state_form(call, rules.state_of("1")),
    )

    assert len({rules.state_form(call, state), *others}) == 6
    assert rules.state_form(tool_call(run_id="r2", call_id="c2"), state) == rules.state_form(call, state)


def test_the_reason_is_said_once() -> None:
    assert rules.because_it_changed(("a",)) == ("a", "state_changed")
    assert rules.because_it_changed(("a", "state_changed")) == ("a", "state_changed")
