"""What is handed to an engine to keep: names, fixed words and numbers; and what is made of what it hands back."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from placet.errors import MisuseError, StoreUnavailable
from placet.integrations.driving import AGAIN, Fault, Over, Rest, engine_id, fault_of, next_after, said
from placet.integrations.temporal.payloads import names_only
from placet.integrations.wire import packed, unpacked
from placet.model.progress import Busy, Ended, Progress, Ready, Unserved, Waiting

WHERE: dict[str, Any] = {
    "tenant": "acme",
    "run_id": "run-1",
    "workflow": "refund",
    "version": "1",
    "state": "ASK",
    "visit": 1,
    "state_version": 4,
}
ALL: list[Progress | Fault] = [
    Ready(**WHERE),
    Waiting(**WHERE, code="approval_required", approvals=("apr-1", "apr-2"), check_after_seconds=60.0),
    Ended(**WHERE, status="done"),
    Busy(**WHERE, retry_after_seconds=0.5),
    Unserved(**WHERE, code="workflow_version"),
    Fault(code="store_unavailable"),
]
CANARY = "canary-4711"


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: type(answer).__name__)
def test_whatever_a_step_comes_to_is_kept_and_read_again(answer: Progress | Fault) -> None:
    assert said(unpacked(packed(answer.as_data()))) == answer


@pytest.mark.parametrize(
    "value",
    [
        {"arguments": CANARY},
        {"tenant": {"question": CANARY}},
        {"tenant": CANARY * 100},
        [{"tenant": CANARY}],
        [1, 2],
        {1: "tenant"},
        object(),
        b"bytes",
        float("nan"),
        type("Text", (str,), {})(CANARY),
    ],
    ids=["member", "below", "long", "list", "numbers", "key", "object", "bytes", "nan", "subclass"],
)
def test_whatever_is_no_name_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(MisuseError) as refused:
        packed(value)
    assert CANARY not in str(refused.value)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "{", '{"arguments":"x"}', "[" * 20_000, '"' + "x" * 301 + '"', "NaN", '{"tenant":1e999}', "é".encode()]
)
def test_what_somebody_else_has_written_is_nothing_and_is_not_shown(text: str | bytes) -> None:
    with pytest.raises(MisuseError) as refused:
        unpacked(text)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


# ---------------------------------------------------------------- what an engine does with it


def test_an_engine_goes_on_rests_or_stops() -> None:
    ready, waiting, ended, busy, unserved, fault = ALL
    assert next_after(ready, in_vain=3) is AGAIN
    assert next_after(waiting, in_vain=0) == Rest(60.0, ("apr-1", "apr-2"))
    assert next_after(ended, in_vain=0) == Over()
    assert next_after(busy, in_vain=0) == Rest(0.5)
    assert [next_after(each, in_vain=n) for each in (unserved, fault) for n in (0, 3, 99)] == [
        Rest(1.0), Rest(8.0), Rest(300.0), Rest(1.0), Rest(8.0), Rest(300.0),
    ]  # fmt: skip


def test_a_rest_is_never_none_at_all() -> None:
    over = Waiting(**WHERE, code="approval_required", approvals=(), check_after_seconds=-1.0)
    assert next_after(over, in_vain=0) == Rest(0.05)
    assert next_after(Busy(**WHERE, retry_after_seconds=0.0), in_vain=0) == Rest(0.05)


def test_of_an_error_only_its_code_is_told() -> None:
    assert fault_of(StoreUnavailable("x")) == Fault(code="store_unavailable")
    assert fault_of(ValueError(CANARY)) == Fault(code="engine_fault")


def test_no_two_runs_have_one_name_to_an_engine() -> None:
    names = {engine_id(*names) for names in [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a", "b%2Fc"), ("A", "b/c")]}
    assert len(names) == 5
    assert engine_id("acme", "run-1") == "placet/acme/run-1"
    assert engine_id("a/b", "c d") == "placet/a%2Fb/c%20d"


# ---------------------------------------------------------------- Temporal


def test_temporal_is_given_no_other_payload_and_reads_no_other() -> None:
    converter = names_only(DataConverter.default).payload_converter
    [payload] = converter.to_payloads([ALL[1].as_data()])
    assert payload.metadata == {"encoding": b"json/placet"}
    assert converter.from_payloads([payload]) == [ALL[1].as_data()]
    with pytest.raises(MisuseError):
        converter.to_payloads([{"question": CANARY}])
    with pytest.raises(MisuseError):
        converter.from_payloads([Payload(metadata={"encoding": b"json/plain"}, data=f'"{CANARY * 99}"'.encode())])


def test_a_failure_that_temporal_keeps_has_no_words() -> None:
    def fails() -> None:
        try:
            raise ValueError(CANARY)
        except ValueError as cause:
            raise ApplicationError(CANARY, CANARY, type="step_failed") from cause

    converter, failure = names_only(DataConverter.default), Failure()
    with pytest.raises(ApplicationError) as raised:
        fails()
    converter.failure_converter.to_failure(raised.value, converter.payload_converter, failure)

    assert CANARY.encode() not in failure.SerializeToString()
    assert failure.application_failure_info.type == "step_failed"
    assert not failure.stack_trace and not failure.cause.stack_trace
