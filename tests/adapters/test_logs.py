"""Every record becomes one strict JSON line, and nothing secret or foreign gets into it."""

import asyncio
import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import errors
from placet.adapters.telemetry import logs
from placet.adapters.telemetry.logs import JsonFormatter, bound, configure

MARKER = "LEAKED-7f3a91"
FORMATTER = JsonFormatter()


class Thrown(BaseException):
    """Not an Exception: a guard that catches those alone lets it through."""


def throw(*_: object, **__: object) -> Any:
    raise Thrown(MARKER)


class HostileType(type):
    __hash__ = __eq__ = __repr__ = throw
    __name__ = __module__ = property(throw)


class Hostile(metaclass=HostileType):
    __class__ = property(throw)
    __str__ = __repr__ = __format__ = __hash__ = __eq__ = __iter__ = __getattribute__ = throw


class HostileMapping(dict[str, object]):
    items = keys = __iter__ = __getitem__ = throw


class HostileText(str):
    __slots__ = ()
    __str__ = __repr__ = __mod__ = __hash__ = __eq__ = throw


class HostileError(Exception, metaclass=HostileType):
    __class__ = property(throw)
    __str__ = __repr__ = throw


class Talkative:
    def __str__(self) -> str:
        return MARKER

    __repr__ = __str__


def record(message: Any = "done", *arguments: Any, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("placet.engine", level, "/srv/placet/gate.py", 7, message, None, None)
    made.args = arguments
    made.__dict__.update(extra)
    return made


def refuse(constant: str) -> None:
    raise AssertionError(f"not strict JSON: {constant}")


def line_of(made: logging.LogRecord) -> dict[str, Any]:
    text = FORMATTER.format(made)
    assert text.isascii() and text.isprintable()  # so it is one line to every reader
    read = json.loads(text, parse_constant=refuse)
    assert isinstance(read, dict)
    return read


def message_of(message: Any, *arguments: Any) -> Any:
    return line_of(record(message, *arguments))["message"]


def caught(raising: Callable[[], object]) -> Any:
    try:
        raising()
    except BaseException:
        return sys.exc_info()
    raise AssertionError("nothing was raised")


def raises(error: BaseException) -> Callable[[], object]:
    def raising() -> object:
        raise error

    return raising


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.Logger("placet.test")
    yield logger
    logger.handlers.clear()


@pytest.mark.req("B156")
def test_a_record_is_one_object_with_sorted_keys_and_lower_case_level() -> None:
    made = record("call %s took %d ms", "refund", 12, level=logging.WARNING, created=1767323045.6789, tool="refund")

    assert FORMATTER.format(made) == (
        '{"level":"warning","logger":"placet.engine","message":"call refund took 12 ms",'
        '"time":"2026-01-02T03:04:05.678Z","tool":"refund"}'
    )


@pytest.mark.req("B156")
def test_a_line_stays_one_line_whatever_the_text_holds() -> None:
    made = record("a\nb\r\u2028c\x85d\u202e中\ud800", extra_text="x\ny")

    assert line_of(made)["message"] == "a\nb\r\u2028c\x85d\u202e中\\ud800"


def test_the_record_is_not_changed() -> None:
    made = record("call %s", "refund", token="t")
    before = dict(made.__dict__)

    FORMATTER.format(made)

    assert made.__dict__ == before


@pytest.mark.req("B151", "B146", "B167")
def test_hostile_values_attached_to_a_record_are_placeholders() -> None:
    made = record(one=HostileMapping(a=MARKER), two=Hostile(), three=[HostileText("plain")], four=Talkative())

    line = line_of(made)

    assert {name: line[name] for name in ("one", "two", "three", "four")} == {
        "one": "[UNREADABLE_MAPPING]",
        "two": "[UNSERIALIZABLE]",
        "three": ["plain"],
        "four": "[UNSERIALIZABLE]",
    }


@pytest.mark.req("B151", "B163", "B164")
def test_fields_are_sanitised_like_everything_else() -> None:
    line = line_of(
        record(phone="13812345678", api_key="k", prompt="hello", url="https://h/?key=k-1", call="13812345678")
    )

    assert {name: line[name] for name in ("phone", "api_key", "prompt", "url", "call")} == {
        "phone": "[REDACTED]",
        "api_key": "[REDACTED]",
        "prompt": "[CONTENT:5 chars]",
        "url": "https://h/?key=[REDACTED]",
        "call": "[REDACTED]",
    }


def test_a_field_cannot_take_the_place_of_ours() -> None:
    made = record("true words", level="info")  # type: ignore[arg-type]
    made.levelname = "ERROR"
    made.__dict__.update(time="never", logger="other", exception="none", message="forged")

    line = line_of(made)

    assert (line["level"], line["logger"], line["message"]) == ("error", "placet.engine", "true words")
    assert (line["extra_time"], line["extra_logger"], line["extra_exception"]) == ("never", "other", "none")


@pytest.mark.req("B166")
def test_numbers_no_strict_reader_takes_do_not_break_the_line() -> None:
    line = line_of(record(nan=float("nan"), infinite=float("inf"), giant=10**5000, created=float("nan")))

    assert (line["nan"], line["infinite"], line["giant"]) == (*["[NON_FINITE_FLOAT]"] * 2, "[GIANT_INTEGER]")
    assert line["time"] is None
    assert line_of(record(created=1e300))["time"] is None
    assert line_of(record(created="soon"))["time"] is None
    assert message_of("%d", 10**5000) == "[UNREADABLE_LOG_MESSAGE]"
    assert message_of(10**5000) == "[UNREADABLE_LOG_MESSAGE]"


@pytest.mark.req("B155")
def test_ordinary_messages_are_rendered() -> None:
    assert message_of("%s %d %.1f %r %s", "a", 1, 2.0, True, None) == "a 1 2.0 True None"
    assert message_of("100%") == "100%"
    assert message_of("%%", "x") == "[UNREADABLE_LOG_MESSAGE]"  # as `logging` would, it finds an argument too many
    assert message_of(12) == "12"
    made = record("%(x)s of %(y)d")
    made.args = {"x": "one", "y": 2}
    assert line_of(made)["message"] == "one of 2"


@pytest.mark.req("B155")
def test_messages_and_arguments_of_other_kinds_are_not_rendered() -> None:
    for message, arguments in [
        (Hostile(), ()),
        (HostileText("%s"), ("a",)),
        (Talkative(), ()),
        (ValueError(MARKER), ()),
        (b"bytes", ()),
        ("%s", (Talkative(),)),
        ("%s", (HostileText("a"),)),
        ("%s", (["a"],)),
        ("%s", (ValueError(MARKER),)),
        ("%d", ("a",)),
        ("%s %s", ("a",)),
        ("%q", ("a",)),
    ]:
        assert line_of(record(message, *arguments))["message"] == "[UNREADABLE_LOG_MESSAGE]"
    odd: list[Any] = [HostileMapping(x="a"), {"x": Talkative()}, {"x": "b", 1: "a"}, Hostile(), ["a"]]
    for argument in odd:
        made = record("%(x)s")
        made.args = argument
        assert line_of(made)["message"] == "[UNREADABLE_LOG_MESSAGE]"


@pytest.mark.parametrize("message", ["%999999999d", "%(x)99999d", "%-099999d", "%.99999f", "%*d", "%1.*f"])
def test_a_message_cannot_ask_for_gigabytes_of_blanks(message: str) -> None:
    made = record(message, 1)
    if "(x)" in message:
        made.args = {"x": 1}

    assert line_of(made)["message"] == "[UNREADABLE_LOG_MESSAGE]"


@pytest.mark.req("B150", "B163")
def test_secrets_in_the_rendered_message_are_scrubbed() -> None:
    assert (
        message_of("password=%s for %s", "hunter2", "redis://:pw@h") == "password=[REDACTED] for redis://:[REDACTED]@h"
    )
    made = record("signing in %(user)s with %(password)s")
    made.args = {"user": "svc", "password": "hunter2"}
    assert line_of(made)["message"] == "signing in svc with [REDACTED]"


@pytest.mark.req("B152", "B153")
def test_an_exception_has_a_safe_name_and_no_text() -> None:
    pretender = type("ValueError", (ValueError,), {"__module__": "builtins"})
    for error, name in [
        (RuntimeError(MARKER), "RuntimeError"),
        (errors.ToolRejected(MARKER), "ToolRejected"),
        (pretender(MARKER), "untrusted_exception"),
        (HostileError(MARKER), "untrusted_exception"),
        (Thrown(MARKER), "untrusted_exception"),
    ]:
        text = FORMATTER.format(record(exc_info=caught(raises(error)), exc_text=MARKER, stack_info=MARKER))

        assert json.loads(text)["exception"]["type"] == name
        assert MARKER not in text


@pytest.mark.req("B154")
@pytest.mark.case("N07")
def test_a_traceback_has_places_without_source_lines_locals_or_paths() -> None:
    def tool() -> object:
        password = "pw-1"
        raise RuntimeError(f"login failed {password} https://h/?key=k-1") and ValueError("LEAKED-on-the-source-line")

    info = caught(tool)
    line = line_of(record("tool failed", exc_info=info))

    assert [place.partition(":")[0] for place in line["exception"]["at"]] == ["test_logs.py"] * 2
    assert [place.rpartition(" in ")[2] for place in line["exception"]["at"]] == ["caught", "tool"]
    assert line["exception"]["at"][-1] == f"test_logs.py:{info[2].tb_next.tb_lineno} in tool"
    text = json.dumps(line)
    assert not any(word in text for word in ("pw-1", "k-1", "LEAKED", "/"))


def test_causes_are_named_with_their_places_and_an_endless_chain_is_cut() -> None:
    def tool() -> object:
        try:
            raise KeyError(MARKER)
        except KeyError as error:
            raise ToolError(MARKER) from error

    class ToolError(Exception):
        __cause__ = property(throw)

    exception = line_of(record(exc_info=caught(tool)))["exception"]
    assert [cause["type"] for cause in exception["causes"]] == ["KeyError"]
    assert exception["causes"][0]["at"][0].endswith(" in tool")

    looping = ValueError(MARKER)
    looping.__cause__ = other = TypeError(MARKER)
    other.__cause__ = looping
    causes = line_of(record(exc_info=(ValueError, looping, None)))["exception"]["causes"]
    assert [cause["type"] for cause in causes] == ["TypeError", "ValueError"] * 2


def test_a_suppressed_context_is_not_named() -> None:
    def tool() -> object:
        try:
            raise KeyError(MARKER)
        except KeyError:
            raise ValueError(MARKER) from None

    assert "causes" not in line_of(record(exc_info=caught(tool)))["exception"]


def test_a_deep_traceback_shows_its_last_frames() -> None:
    def deeper(depth: int) -> object:
        return deeper(depth - 1) if depth else 1 / 0

    exception = line_of(record(exc_info=caught(lambda: deeper(200))))["exception"]

    assert exception["type"] == "ZeroDivisionError"
    assert len(exception["at"]) == 32


def test_names_of_files_and_functions_are_scrubbed() -> None:
    code = compile("def token():\n    1 / 0\n", f"/srv/password={MARKER}", "exec")
    space: dict[str, Any] = {}
    exec(code, space)

    exception = line_of(record(exc_info=caught(space["token"])))["exception"]

    assert exception["at"][-1] == "password=[REDACTED] in token"


@pytest.mark.req("B152")
def test_exception_information_that_is_none_is_a_placeholder() -> None:
    for info in [True, Hostile(), (1, 2), [1, 2, 3], HostileMapping()]:
        assert line_of(record(exc_info=info))["exception"] == "[UNREADABLE_EXCEPTION]"
    for nothing in [None, False, (None, None, None)]:
        assert "exception" not in line_of(record(exc_info=nothing))
    odd = line_of(record(exc_info=(Hostile, Hostile(), Hostile())))["exception"]
    assert odd == {"type": "untrusted_exception", "at": []}


def test_a_record_that_hides_its_attributes_still_makes_a_line() -> None:
    class Hidden(logging.LogRecord):
        __getattribute__ = throw

    class Worse(logging.LogRecord):
        __dict__ = property(throw)

    hidden, worse = record("hello"), record("hello")
    hidden.__class__, worse.__class__ = Hidden, Worse

    assert json.loads(FORMATTER.format(hidden))["message"] == "hello"
    assert json.loads(FORMATTER.format(worse))["message"] == "[UNREADABLE_LOG_MESSAGE]"


@pytest.mark.req("B157")
def test_configuring_twice_adds_one_handler_and_moves_it(logger: logging.Logger, tmp_path: Path) -> None:
    first, second = (tmp_path / "log").open("w"), io.StringIO()
    configure(first, "DEBUG", logger=logger)
    first.close()
    configure(second, logging.WARNING, logger=logger)
    logger.info("not this")
    logger.warning("this %s", "once")

    assert len(logger.handlers) == 1
    assert [json.loads(line)["message"] for line in second.getvalue().splitlines()] == ["this once"]


@pytest.mark.req("B157")
def test_configuring_again_after_a_reload_adds_no_handler(logger: logging.Logger, monkeypatch: Any) -> None:
    configure(io.StringIO(), logger=logger)
    monkeypatch.setattr(logs, "_JsonHandler", type("_JsonHandler", (logging.StreamHandler,), {}))
    configure(io.StringIO(), logger=logger)

    assert len(logger.handlers) == 1


def test_the_default_logger_is_ours_and_sends_nothing_further_up() -> None:
    ours = logging.getLogger("placet")
    before = (ours.handlers[:], ours.level, ours.propagate)
    stream = io.StringIO()
    try:
        configure(stream)
        logging.getLogger("placet.engine").info("hello")
        assert json.loads(stream.getvalue())["logger"] == "placet.engine"
        assert ours.propagate is False
    finally:
        ours.handlers[:], ours.level, ours.propagate = before


def test_other_handlers_stay(logger: logging.Logger) -> None:
    other = logging.NullHandler()
    logger.addHandler(other)
    configure(io.StringIO(), logger=logger)

    assert other in logger.handlers


def test_a_line_that_cannot_be_written_is_not_printed_elsewhere(logger: logging.Logger, capsys: Any) -> None:
    stream = io.StringIO()
    configure(stream, logger=logger)
    stream.close()
    logger.warning("%s", MARKER)

    assert capsys.readouterr().err == "placet: a log line could not be written\n"


@pytest.mark.req("B158")
def test_context_is_on_every_line_inside_and_restored_outside() -> None:
    seen = []
    with bound(request_id="r-1", tenant="a"):
        seen.append(line_of(record()))
        with bound(request_id="r-2"):
            seen.append(line_of(record()))
            seen.append(line_of(record(tenant="given")))
        seen.append(line_of(record()))
    with pytest.raises(RuntimeError), bound(request_id="r-3"):
        raise RuntimeError
    seen.append(line_of(record()))

    assert [(line.get("request_id"), line.get("tenant")) for line in seen] == [
        ("r-1", "a"),
        ("r-2", "a"),
        ("r-2", "given"),
        ("r-1", "a"),
        (None, None),
    ]


@pytest.mark.req("B158")
def test_context_belongs_to_its_task_and_not_to_other_threads() -> None:
    seen: dict[str, object] = {}

    async def task(name: str, started: asyncio.Event, other: asyncio.Event) -> None:
        with bound(request_id=name):
            started.set()
            await other.wait()
            seen[name] = line_of(record())["request_id"]

    async def both() -> None:
        one, two = asyncio.Event(), asyncio.Event()
        await asyncio.gather(task("r-1", one, two), task("r-2", two, one))

    with bound(request_id="outer"):
        asyncio.run(both())
        thread = threading.Thread(target=lambda: seen.update(thread=line_of(record()).get("request_id")))
        thread.start()
        thread.join()

    assert seen == {"r-1": "r-1", "r-2": "r-2", "thread": None}


@pytest.mark.req("B158", "B151")
def test_context_is_sanitised_and_a_foreign_name_is_left_out() -> None:
    class Name(str):
        __slots__ = ()

    with bound(token="t", note=Talkative(), **{Name("odd"): 1}):
        line = line_of(record())

    assert (line["token"], line["note"], "odd" in line) == ("[REDACTED]", "[CONTENT]", False)


@dataclass(frozen=True)
class Made:
    """Stands for a hostile value while hypothesis, which asks values for hash and repr, has it in hand."""

    number: int


MAKERS: list[Callable[[], Any]] = [
    Hostile,
    lambda: Hostile,
    Talkative,
    lambda: HostileMapping(a=MARKER),
    lambda: HostileText("plain"),
    lambda: ValueError(MARKER),
    lambda: caught(raises(HostileError(MARKER))),
    lambda: float("nan"),
    lambda: 10**5000,
    lambda: {"password": MARKER, "question": MARKER},
    lambda: f"token={MARKER}",
]
ANYTHING = st.one_of(
    st.integers(0, len(MAKERS) - 1).map(Made),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(["%s", "%d", "%(x)s", "%"]),
)
ATTRIBUTES = [
    "msg",
    "args",
    "levelname",
    "name",
    "created",
    "exc_info",
    "exc_text",
    "stack_info",
    "time",
    "field",
    "a b",
]


@pytest.mark.req("B151", "B155", "B166")
@given(st.dictionaries(st.sampled_from(ATTRIBUTES), ANYTHING), st.lists(ANYTHING, max_size=2))
def test_whatever_a_record_holds_its_line_parses_strictly_and_leaks_nothing(
    attributes: dict[str, Any], arguments: list[Any]
) -> None:
    def made(value: Any) -> Any:
        return MAKERS[value.number]() if isinstance(value, Made) else value

    item = record("%s", *map(made, arguments))
    item.__dict__.update({name: made(value) for name, value in attributes.items()})

    assert MARKER not in json.dumps(line_of(item))
