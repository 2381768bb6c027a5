"""The small rules: exit codes of every outcome and failure, values for people, countdowns."""

import re

import pytest

from placet import errors
from placet.cli.commands.call import worst
from placet.cli.failing import ConfigProblem, ToolsNotLoaded, exit_of_error, exit_of_outcome, hint_of
from placet.cli.screen import shown_key, time_left, value_lines
from placet.cli.table import Exit
from placet.engine import replies
from placet.model import outcome as outcomes
from scripts import generated_docs

BASE = {"call_id": "c", "tool": "t", "message": "m"}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (outcomes.Succeeded(**BASE, code="succeeded", result=1), Exit.OK),
        (outcomes.Replayed(**BASE, code="replayed", result=1), Exit.OK),
        (outcomes.Invalid(**BASE, code="invalid_arguments"), Exit.INVALID),
        (outcomes.Conflict(**BASE, code="operation_conflict"), Exit.INVALID),
        (outcomes.Refused(**BASE, code="denied"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="operation_of_another"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="not_your_run"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="approval_suspect"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="tool_closed"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="tool_not_in_run"), Exit.DENIED),
        (outcomes.Refused(**BASE, code="approval_denied"), Exit.NOT_APPROVED),
        (outcomes.Refused(**BASE, code="approval_expired"), Exit.NOT_APPROVED),
        (outcomes.Refused(**BASE, code="approval_withdrawn"), Exit.NOT_APPROVED),
        (outcomes.Refused(**BASE, code="budget_exhausted"), Exit.FAILED),
        (outcomes.Refused(**BASE, code="boundary_unavailable"), Exit.FAILED),
        (outcomes.AwaitingApproval(**BASE, code="approval_required", approval_id="a"), Exit.PENDING),
        (outcomes.InProgress(**BASE, code="in_progress"), Exit.UNKNOWN),
        (outcomes.Unknown(**BASE, code="effect_unknown"), Exit.UNKNOWN),
        (outcomes.TimedOut(**BASE, code="timed_out"), Exit.FAILED),
        (outcomes.Failed(**BASE, code="tool_failed"), Exit.FAILED),
        (outcomes.NotRun(**BASE, code="not_run"), None),
    ],
)
def test_what_may_have_acted_never_looks_like_a_failure(outcome: outcomes.Outcome, code: Exit | None) -> None:
    assert exit_of_outcome(outcome) is code
    if outcome.may_have_acted:
        assert code in (Exit.OK, Exit.UNKNOWN)


def test_every_refusal_is_a_denial_but_those_that_say_nothing_against_the_call() -> None:
    asked_again_later = {
        *("approver_not_entitled", "boundary_unavailable", "capacity", "circuit_open", "draining", "stopped"),
        *("precondition_unavailable", "quarantined", "run_paused", "too_many_running"),
    }
    spent = {
        *("attempts_exhausted", "budget_exhausted", "run_attempts_exhausted", "run_cancelled", "run_cost_exhausted"),
        *("run_deadline_passed", "run_over", "run_tool_exhausted"),
    }
    no_leave = {"approval_denied", "approval_expired", "approval_withdrawn", "edited_by_person"}
    denials = {
        code for code in replies._REFUSALS if exit_of_outcome(outcomes.Refused(**BASE, code=code)) is Exit.DENIED
    }

    assert set(replies._REFUSALS) - denials == asked_again_later | spent | no_leave


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StoreInDoubt(), Exit.UNKNOWN),
        (errors.EffectUnknown(), Exit.UNKNOWN),
        (errors.OperationInProgress(), Exit.UNKNOWN),
        (errors.StoreMissing(), Exit.FAILED),
        (errors.KeyMaterialError(), Exit.USAGE),
        *((errors.KeyMaterialError(code=f"key_{what}"), Exit.USAGE) for what in ("mismatch", "unreadable", "exposed")),
        *((errors.KeyMaterialError(code=f"key_{what}"), Exit.FAILED) for what in ("busy", "in_doubt", "in_use")),
        (errors.ConfigurationError(), Exit.USAGE),
        (errors.ContractError(), Exit.USAGE),
        (ConfigProblem(), Exit.USAGE),
        (ToolsNotLoaded(), Exit.USAGE),
        (errors.MisuseError(), Exit.USAGE),
        (errors.PermissionDenied(), Exit.DENIED),
        (errors.ApprovalRequired(), Exit.PENDING),
        (errors.InvalidArguments("x"), Exit.INVALID),
        (errors.DecisionRefused(code="own_request"), Exit.NOT_ENTITLED),
        (errors.DecisionRefused(code="not_a_person"), Exit.NOT_ENTITLED),
        (errors.DecisionRefused(code="approval_expired"), Exit.NOT_APPROVED),
        (errors.DecisionRefused(code="anything_new"), Exit.FAILED),
    ],
)
def test_every_failure_has_its_exit_code(error: errors.PlacetError, code: Exit) -> None:
    assert exit_of_error(error) is code


def test_every_refused_decision_has_a_next_step() -> None:
    codes = re.findall(r"^\| an? [a-z ]+ \| `(\w+)`", generated_docs.decision_table(), re.M)
    without = [
        code
        for code in codes
        if code != "too_early_for_absent" and not hint_of(errors.DecisionRefused(code=code))  # it says when, by itself
    ]

    assert {"contract_not_here", "key_retired"} < set(codes) and len(codes) > 12
    assert without == []


@pytest.mark.parametrize("code", ["key_missing", "key_unreadable", "key_mismatch"])
def test_each_key_fault_has_a_next_step_of_its_own(code: str) -> None:
    assert hint_of(errors.KeyMaterialError(code=code)) not in ("", errors.KeyMaterialError.hint)
    assert hint_of(errors.KeyMaterialError(code=code, hint="Do this.")) == "Do this."


def test_the_worst_of_a_batch_is_what_matters_most() -> None:
    order = [Exit.UNKNOWN, Exit.FAILED, Exit.INVALID, Exit.DENIED, Exit.NOT_APPROVED, Exit.PENDING, Exit.OK]
    for index, code in enumerate(order):
        assert worst([None, *reversed(order[index:])]) is code
    assert worst([None]) is Exit.FAILED


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ({}, ["{}"]),
        ([], ["[]"]),
        (None, ["null"]),
        ("x", ['"x"']),
        ({"a": 1, "b": 1.0, "c": "1", "d": True, "e": None}, ["a: 1", "b: 1.0", 'c: "1"', "d: true", "e: null"]),
        ({"a": {"b": [1, {"c": []}]}}, ["a.b[0]: 1", "a.b[1].c: []"]),
        ({'a: "x"': 1}, ['"a: \\"x\\"": 1']),
        ({"a\n b": "x\ny"}, ['"a\\n b": "x\\ny"']),
        ({"é": "é"}, ['"é": "é"']),
        ({"n": 10**30}, ["n: 1" + "0" * 30]),
    ],
)
def test_values_are_whole_one_scalar_a_line(value: object, lines: list[str]) -> None:
    assert list(value_lines(value)) == lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "over"), (0, "over"), (0.5, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3661, "1 h 1 min"), (90061, "1 d 1 h")],
)
def test_countdowns(seconds: float, text: str) -> None:
    assert time_left(seconds) == text


def test_keys_are_shown_as_they_are_typed_unless_something_hides_in_them() -> None:
    assert shown_key('["business","a:{b}","caf\\u00e9"]') == '["business","a:{b}","caf\\u00e9"]'
    assert shown_key("a\x1bb") == "a\\u{1b}b"
    assert shown_key('["a","' + " " * 20 + '"]') == '["a","[20 blanks]"]'
