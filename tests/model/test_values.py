"""Nouns are frozen, slotted, keyword-only values, and outcomes say the same thing in every form."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from enum import Enum
from typing import Any, get_args

import pytest

import placet.model
from placet import EffectClass, EffectState, RemoteStatus, errors
from placet.model.outcome import RETRYABLE_CODES, Failed, Outcome, Refused, Succeeded

MODULES = [importlib.import_module(f"placet.model.{info.name}") for info in pkgutil.iter_modules(placet.model.__path__)]
VALUES = sorted(
    {
        each
        for module in MODULES
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and dataclasses.is_dataclass(each)
    },
    key=lambda each: each.__name__,
)
OUTCOMES = get_args(Outcome)
BY_POSITION = {"Fail", "Next", "Wait"}
"""What a step of a workflow returns: words that are read in their order."""


@pytest.mark.parametrize("value", VALUES)
def test_a_noun_is_frozen_slotted_and_keyword_only(value: Any) -> None:
    assert value.__dataclass_params__.frozen
    assert "__slots__" in vars(value)
    assert value.__name__ in BY_POSITION or all(field.kw_only for field in dataclasses.fields(value))


def test_there_are_nouns_and_every_enum_has_distinct_values() -> None:
    enums = [
        each for module in MODULES for each in vars(module).values() if inspect.isclass(each) and issubclass(each, Enum)
    ]

    assert len(VALUES) > 30
    for each in enums:
        assert len({member.value for member in each}) == len(each)


def test_effect_classes_and_states_answer_their_questions() -> None:
    assert {each for each in EffectClass if each.is_write} == {
        EffectClass.WRITE,
        EffectClass.IDEMPOTENT_WRITE,
        EffectClass.IRREVERSIBLE,
    }
    assert {each for each in EffectClass if each.repeats_safely} == {
        EffectClass.READ,
        EffectClass.SENSITIVE_READ,
        EffectClass.IDEMPOTENT_WRITE,
    }
    assert {each for each in EffectState if each.is_committed} == {
        EffectState.COMMITTED,
        EffectState.RECONCILED_COMMITTED,
    }
    assert {each for each in EffectState if each.may_be_dispatched} == {
        EffectState.PREPARED,
        EffectState.FAILED,
        EffectState.RECONCILED_ABSENT,
    }


# ---------------------------------------------------------------- outcomes


def one(kind: Any, code: str = "denied") -> Any:
    more: dict[str, Any] = {"result": {"a": "ü"}} if dataclasses.fields(kind)[-1].name == "result_unavailable" else {}
    if "approval_id" in {field.name for field in dataclasses.fields(kind)}:
        more["approval_id"] = "apr-1"
    return kind(call_id="c1", tool="t", code=code, message="Said.", **more)


@pytest.mark.parametrize("kind", OUTCOMES)
def test_every_outcome_has_a_status_of_its_own_and_renders_for_everybody(kind: Any) -> None:
    outcome = one(kind)

    data = outcome.as_data()
    assert {"status", "code", "message", "retryable", "may_have_acted"} <= set(data)
    assert [each.status for each in OUTCOMES].count(kind.status) == 1
    for text in (outcome.for_openai()["content"], outcome.for_anthropic()["content"]):
        assert json.loads(text) == data
    assert outcome.for_mcp()["structuredContent"] == data
    assert outcome.for_mcp()["content"] == [{"type": "text", "text": outcome.for_openai()["content"]}]


@pytest.mark.req("B200", "B201")
@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if not issubclass(kind, Succeeded | placet.Replayed)])
def test_every_outcome_without_a_result_raises_an_error_of_ours(kind: Any) -> None:
    with pytest.raises(errors.PlacetError) as caught:
        one(kind).unwrap()

    assert (caught.value.tool, caught.value.__cause__, caught.value.__context__) == ("t", None, None)


@pytest.mark.req("C069")
def test_retryable_is_a_closed_set_of_codes() -> None:
    assert {
        "approval_required",
        "approver_not_entitled",
        "boundary_unavailable",
        "capacity",
        "circuit_open",
        "draining",
        "in_progress",
        "not_run",
        "not_sent",
        "precondition_unavailable",
        "remote_busy",
        "rolled_back",
        "run_paused",
        "stopped",
        "timed_out",
        "too_many_running",
        "upstream_unavailable",
    } == RETRYABLE_CODES
    assert one(Refused, "capacity").retryable
    assert not one(Failed, "tool_failed").retryable


def test_a_performed_call_without_a_result_says_so_in_its_data() -> None:
    outcome = Succeeded(
        call_id="c", tool="t", code="performed_result_unavailable", message="m", result=None, result_unavailable="why"
    )

    assert "result" not in outcome.as_data()
    assert outcome.as_data()["result_unavailable"] == "why"
    assert one(Succeeded).as_data()["result"] == {"a": "ü"}


# ---------------------------------------------------------------- errors


TREE = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.PlacetError)]


@pytest.mark.req("B200", "C068", "H056", "C069")
def test_the_tree_of_errors() -> None:
    parents = {
        errors.PermissionDenied: PermissionError,
        errors.ApprovalRequired: PermissionError,
        errors.BudgetExhausted: RuntimeError,
        errors.NotFound: LookupError,
        errors.DecisionRefused: PermissionError,
        errors.ToolTimedOut: errors.ExecutionError,
        errors.EffectUnknown: errors.ExecutionError,
        errors.UnknownTool: errors.InvalidProposal,
        errors.InvalidArguments: errors.InvalidProposal,
        errors.StoreInDoubt: errors.StoreError,
        errors.KeyMaterialError: errors.ConfigurationError,
        errors.ToolRejected: errors.ToolError,
    }
    for child, parent in parents.items():
        assert issubclass(child, parent)
    assert not issubclass(errors.PermissionDenied, errors.ApprovalRequired)
    assert not issubclass(errors.ApprovalRequired, errors.PermissionDenied)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [each.code for each in TREE]

    assert sorted(codes) == sorted(set(codes))


OWN_SIGNATURE = (errors.ProtocolRejected, errors.InvalidArguments, errors.RemoteStatus)


@pytest.mark.parametrize("kind", [each for each in TREE if each not in OWN_SIGNATURE])
def test_every_error_carries_the_same_five_facts(kind: Any) -> None:
    error = kind("Said.", tool="t", attempt=2, status=503)

    assert (str(error), error.tool, error.attempt, error.status) == ("Said.", "t", 2, 503)
    assert isinstance(error.retryable, bool)
    assert isinstance(error.may_have_acted, bool)


def test_a_remote_status_carries_its_wait() -> None:
    error = RemoteStatus(429, retry_after="7")

    assert (error.status, error.retry_after, str(error)) == (429, "7", "The remote system answered with status 429.")
