"""Every outcome and every error has the status that ADR 0035 gives it; one that is new has to be given one here."""

from __future__ import annotations

from typing import Any

import pytest

from placet import errors
from placet.http_api.outcomes import effect_id_of, headers_of, operation_key_of, status_of
from placet.http_api.problems import problem_of, problem_response
from placet.http_api.problems import status_of as status_of_error
from placet.model.outcome import Refused, Unknown
from scripts.generated_docs import outcomes

STATUSES = {
    **dict.fromkeys(("succeeded", "performed_result_unavailable", "replayed"), 200),
    **dict.fromkeys(("approval_required", "in_progress"), 202),
    **dict.fromkeys(("denied", "approval_denied", "approval_suspect", "operation_of_another", "not_your_run"), 403),
    **dict.fromkeys(("budget_exhausted", "attempts_exhausted", "tool_closed", "stopped"), 403),
    **dict.fromkeys(("operation_conflict", "not_run"), 409),
    **dict.fromkeys(("invalid_arguments", "protocol_rejected", "unknown_tool", "unknown_tool_version"), 422),
    "tool_rejected": 422,
    "effect_unknown": 424,
    **dict.fromkeys(("capacity", "circuit_open", "too_many_running"), 429),
    **dict.fromkeys(("not_sent", "result_broken", "rolled_back", "schema_drift", "tool_failed"), 502),
    **dict.fromkeys(("boundary_unavailable", "draining", "precondition_unavailable"), 503),
    **dict.fromkeys(("remote_busy", "upstream_unavailable"), 503),
    "timed_out": 504,
}
NOT_REPEATED_BY_LIBRARIES = frozenset(range(200, 600)) - {408, 409, 425, 429, *range(500, 600)}


def test_every_code_of_every_outcome_has_its_status() -> None:
    found = {outcome.code: status_of(outcome) for outcome in outcomes()}
    decided = found.keys() - STATUSES.keys()

    assert {code: found[code] for code in STATUSES} == STATUSES
    assert {found[code] for code in decided} <= {403}, "refusals that are new are final until somebody decides here"


def test_nothing_that_may_have_acted_and_is_open_has_a_status_that_is_repeated_or_passes_for_success() -> None:
    unknown = [outcome for outcome in outcomes() if isinstance(outcome, Unknown)]

    assert {status_of(outcome) for outcome in unknown} == {424}
    assert {424} <= NOT_REPEATED_BY_LIBRARIES
    assert [outcome.code for outcome in outcomes() if status_of(outcome) == 424] == ["effect_unknown"]


def test_what_may_be_asked_again_soon_says_when() -> None:
    common: dict[str, Any] = {"call_id": "c", "tool": "t", "message": "m"}
    assert headers_of(Refused(**common, code="capacity", retry_after_seconds=2.1))["Retry-After"] == "3"
    assert headers_of(Refused(**common, code="circuit_open"))["Retry-After"] == "1"
    assert headers_of(Refused(**common, code="draining", retry_after_seconds=0.0))["Retry-After"] == "1"
    assert "Retry-After" not in headers_of(Refused(**common, code="denied"))


@pytest.mark.parametrize("key", ["", "a", "a/b?c#d%", '["call","r1","c1"]', "ü\u202e", "x" * 200])
def test_any_operation_key_stands_in_an_address(key: str) -> None:
    assert operation_key_of(effect_id_of(key)) == key
    assert set(effect_id_of(key)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("text", ["a", "YQ=", "YR", "_w", "é", "a b", "YQ\n"])
def test_what_is_no_id_is_that_of_nothing(text: str) -> None:
    assert operation_key_of(text) == ""


ERRORS = [
    (errors.SignInRefused(), 401),
    (errors.NotFound(), 404),
    (errors.DecisionRefused(code="scope_missing"), 403),
    (errors.DecisionRefused(code="own_request"), 403),
    (errors.DecisionRefused(code="not_a_person"), 403),
    (errors.DecisionRefused(code="not_an_approver"), 403),
    (errors.DecisionRefused(code="stopped_with_more_leave"), 403),
    (errors.DecisionRefused(code="reason_missing"), 422),
    (errors.DecisionRefused(code="already_decided"), 409),
    (errors.DecisionRefused(code="a code that is new"), 409),
    (errors.CursorRefused(), 422),
    (errors.MisuseError(), 422),
    (errors.InvalidArguments("too_deep"), 422),
    (errors.AuditBroken(), 409),
    (errors.AuditBusy(), 429),
    (errors.StoreUnavailable(), 503),
    (errors.StoreInDoubt(), 503),
    (errors.KeyMaterialError(), 503),
    (errors.BoundaryUnavailable(), 503),
    (errors.PlacetError(), 500),
]


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda value: getattr(value, "code", value))
def test_every_error_has_its_status_and_is_a_problem(error: errors.PlacetError, status: int) -> None:
    problem = problem_of(error, request_id="r")
    response = problem_response(error, request_id="r")

    assert status_of_error(error) == status == problem["status"] == response.status_code
    assert (problem["code"], problem["type"]) == (error.code, f"urn:placet:problem:{error.code}")
    assert problem["may_have_acted"] is error.may_have_acted
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert ("www-authenticate" in response.headers) == (status == 401)
