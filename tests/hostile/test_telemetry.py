"""Hostile values in log records, their context, the stream and metric labels: one line of JSON, one closed label."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from prometheus_client import generate_latest

import placet
from placet.adapters.telemetry.logs import JsonFormatter, bound
from placet.adapters.telemetry.metrics import PrometheusMeter
from placet.errors import MisuseError
from placet.testing.hostile import KINDS
from tests.hostile.conftest import SECRET, Watch

PARTS = (
    "msg",
    "args",
    "arg",
    "exc_info",
    "exception",
    "extra",
    "extra in a dict",
    "levelname",
    "name",
    "created",
    "bound",
)
SHOWN = (
    *("text", "long text", "bytes", "wide", "set of texts", "lying", "raising"),
    *("tuple", "list", "dict", "exception", "mapping"),
)
"""A field that is text is what a log is for; scrubbing by key and pattern has its own tests."""


def record_with(part: str, value: Any) -> logging.LogRecord:
    record = logging.LogRecord("placet.x", logging.INFO, "file.py", 1, "said %s", ("a",), None)
    match part:
        case "arg":
            record.args = (value,)
        case "exception":
            record.exc_info = (RuntimeError, value, None)
        case "extra":
            record.__dict__["more"] = value
        case "extra in a dict":
            record.__dict__["more"] = {"a": [value]}
        case "bound":
            pass
        case _:
            record.__dict__[part] = value
    return record


@pytest.mark.req("B151", "B152", "B153", "B155", "B167")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_hostile_part_of_a_record_is_one_line_of_json(watch: Watch, part: str, kind: type[BaseException]) -> None:
    for name, value in watch.each((kind,)):
        record = record_with(part, value)
        if part == "bound":
            with bound(more=value):
                line = watch.ended_at_once(lambda: JsonFormatter().format(record))
        else:
            line = watch.ended_at_once(lambda: JsonFormatter().format(record))
        assert type(json.loads(line)) is dict, name
        assert "\n" not in line, name
        if not name.startswith(SHOWN):
            assert SECRET not in line, name


@pytest.mark.req("B182", "B176")
@pytest.mark.parametrize("label", ["tool", "outcome", "seconds", "sink", "decision", "state", "count"])
def test_a_hostile_label_or_number_makes_no_series(watch: Watch, label: str) -> None:
    meter = PrometheusMeter(watch.registry, tools=("look",), sinks=("log",))
    before = generate_latest(watch.registry).count(b"\n")
    for name, value in watch.each():
        given: dict[str, Any] = {"tool": "look", "outcome": "success", "seconds": 0.1}
        calls: dict[str, Any] = {
            "sink": lambda: meter.sink_failed(sink=value),
            "decision": lambda: meter.decided(decision=value),
            "state": lambda: meter.effect_settled(state=value),
            "count": lambda: meter.approvals_pending(value),
        }
        try:
            calls.get(label, lambda: meter.attempt_completed(**(given | {label: value})))()
        except ValueError as error:
            assert SECRET not in str(error), name
            assert error.__cause__ is None

    assert watch.ran == []
    assert SECRET.encode() not in generate_latest(watch.registry)
    assert generate_latest(watch.registry).count(b"\n") - before < 60


def test_a_stream_that_raises_is_told_of_once_and_without_its_words(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    from placet.adapters.telemetry.logs import configure

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(SECRET)

    logger = logging.getLogger("placet-hostile-stream")
    configure(Stream(), logging.DEBUG, logger=logger)
    logger.info("said %s", SECRET)

    told = capsys.readouterr()
    assert told.err.splitlines() == ["placet: a log line could not be written"]


@pytest.mark.req("B157")
@pytest.mark.parametrize("argument", ["stream", "level", "logger", "keys"])
def test_a_hostile_argument_of_configure_logging_changes_nothing(watch: Watch, argument: str) -> None:
    logger = logging.getLogger("placet-hostile-configuration")
    before = (list(logger.handlers), logger.level, logger.propagate)
    for name, value in watch.each():
        given: dict[str, Any] = {"stream": io.StringIO(), "level": "INFO", "logger": logger, argument: value}
        made = watch.ended_at_once(lambda: placet.configure_logging(**given))
        if argument == "stream" and name.startswith("object that answers everything"):
            logger.removeHandler(logger.handlers[-1])
            logger.setLevel(before[1])
            logger.propagate = before[2]
            continue  # it has what a stream has; what it makes of a line is its own
        assert type(made) is MisuseError, name
        assert (logger.handlers, logger.level, logger.propagate) == before, name

    assert {name.partition(".")[0] for name in watch.ran} <= ({"obliging"} if argument == "stream" else set())
    watch.assert_nothing_leaked()


@pytest.mark.req("B155")
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_raises_anything_leaves_whoever_logs_alone(watch: Watch, kind: type[BaseException]) -> None:
    """But for an interruption or an exit, which may be a person's: those go on, as from every write."""

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            raise watch.values(kind).error()

    logger = logging.getLogger(f"placet-hostile-{kind.__name__}")
    placet.configure_logging(Stream(), logging.DEBUG, logger=logger)
    if issubclass(kind, Exception):
        logger.info("said")
    else:
        with pytest.raises(kind):
            logger.info("said")
    logger.handlers.clear()
    watch.assert_nothing_leaked()
