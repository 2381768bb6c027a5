"""One JSON object per log line, whatever was attached to the record.

    {"level": "warning", "logger": "placet.engine", "message": "sink failed", "sink": "webhook", "time": "2026-…Z"}

Invariants:
- Every field passes `redaction.sanitise`, however the record came about. No foreign `__str__`, `__repr__` or
  `__format__` runs, and formatting never raises.
- Exceptions appear as safe type names and places. Their texts, locals and source lines never do.
- A line is pure ASCII without NaN, so it stays one line for every reader and can be parsed by every strict one.

Source: REQUIREMENTS B151-B158, B166; CASES N07.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any, Final, TextIO

from placet.errors import MisuseError
from placet.model.exact import has_methods
from placet.rules.field_names import STANDARD_KEYS, KeyRules
from placet.rules.foreign import plain_text, safe_exception_name
from placet.rules.redaction import JsonSafe, sanitise

UNREADABLE_LOG_MESSAGE: Final = "[UNREADABLE_LOG_MESSAGE]"
UNREADABLE_EXCEPTION: Final = "[UNREADABLE_EXCEPTION]"

_HIGHEST_LEVEL: Final = 1_000
_HANDLER_NAME: Final = "placet-json"
_MAX_FRAMES: Final = 32
_MAX_CAUSES: Final = 4
_OURS: Final = frozenset(("exception", "level", "logger", "message", "time"))
_STANDARD: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, None, None, None))) | {
    "asctime",
    "message",
    "taskName",
}
# A width or precision of four digits, or one taken from the arguments, could ask for gigabytes of blanks.
_WIDE_FIELD: Final = re.compile(r"%(?:\([^)]{0,128}\))?[-+ #0]{0,8}+(?:\*|\d{4}|\d{0,3}\.(?:\*|\d{4}))")

_context: ContextVar[Mapping[str, object]] = ContextVar("placet_log_context", default=MappingProxyType({}))
_configuring = threading.Lock()


@contextmanager
def bound(**context: object) -> Iterator[None]:
    """Put these fields on every line formatted inside the block, by this task and those it starts.

    Blocks nest: the inner value of a field wins and the outer one returns. A field given with the log call itself
    wins over both.

    Source: REQUIREMENTS B158.
    """
    # Exact names only: a foreign one would be asked for its hash while a line is formatted.
    token = _context.set({**_context.get(), **{name: value for name, value in context.items() if type(name) is str}})
    try:
        yield
    finally:
        _context.reset(token)


def configure(
    stream: TextIO,
    level: int | str = logging.INFO,
    *,
    logger: logging.Logger | None = None,
    keys: KeyRules = STANDARD_KEYS,
) -> None:
    """Send `logger` (by default placet's own) and what is below it to `stream`, as JSON lines, and no further up.

    A second call changes stream and level and adds nothing. Other handlers of the logger stay.

    Raises:
        MisuseError: the level is no level, or another argument is not of its kind; nothing was changed.

    Source: REQUIREMENTS B157.
    """
    target = logging.getLogger("placet") if logger is None else logger
    if not (_is_level(level) and issubclass(type(target), logging.Logger) and type(keys) is KeyRules):
        raise MisuseError(
            "configure_logging takes a level such as logging.INFO or 'INFO', a logger of logging, and KeyRules."
        )
    if not has_methods(stream, "write"):
        raise MisuseError("configure_logging writes to a stream of text, such as sys.stderr.")
    with _configuring:
        for handler in target.handlers:
            # By name, not by class: after a reload of this module the class is another one.
            if handler.get_name() == _HANDLER_NAME and isinstance(handler, logging.StreamHandler):
                handler.stream = stream  # `setStream` would flush the old one, which may be closed by now
                break
        else:
            handler = _JsonHandler(stream)
            handler.set_name(_HANDLER_NAME)
            target.addHandler(handler)
        handler.setFormatter(JsonFormatter(keys=keys))
        target.setLevel(level)
        target.propagate = False  # a handler further up would print the record as it is


def _is_level(level: object) -> bool:
    if type(level) is str:
        return level in logging.getLevelNamesMapping()
    return type(level) is int and 0 <= level <= _HIGHEST_LEVEL


class _JsonHandler(logging.StreamHandler[TextIO]):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except RecursionError:  # the standard one lets it out, and with it whatever a stream says
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # the standard one prints message and arguments
        try:
            sys.stderr.write("placet: a log line could not be written\n")
        except (OSError, ValueError, AttributeError):
            return  # no place is left to say so


class JsonFormatter(logging.Formatter):
    """Renders any record as one JSON object with sorted keys: time, level, logger, message, fields, exception.

    Fields are the record's extras and the `bound` context; one that has the name of ours becomes `extra_<name>`.
    The record is not changed.
    """

    def __init__(self, *, keys: KeyRules = STANDARD_KEYS) -> None:
        super().__init__()
        self._keys = keys

    def format(self, record: logging.LogRecord) -> str:
        try:
            line = self._line(_attributes(record))
            return json.dumps(line, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        except Exception:  # memory or stack at an end in our own code
            return f'{{"level":"error","message":"{UNREADABLE_LOG_MESSAGE}"}}'

    def _line(self, attributes: dict[str, object]) -> dict[str, JsonSafe]:
        line = self._fields(attributes)
        line["time"] = _instant(attributes.get("created"))
        line["level"] = _word(attributes.get("levelname")).lower()
        line["logger"] = _word(attributes.get("name"))
        line["message"] = sanitise(self._message(attributes.get("msg", ...), attributes.get("args")), keys=self._keys)
        exception = _exception(attributes.get("exc_info"))
        if exception is not None:
            line["exception"] = exception
        return line

    def _fields(self, attributes: dict[str, object]) -> dict[str, JsonSafe]:
        extras = {name: value for name, value in attributes.items() if name not in _STANDARD}
        fields = sanitise({**_context.get(), **extras}, keys=self._keys)
        if type(fields) is not dict:
            return {"fields": fields}
        return {f"extra_{name}" if name in _OURS else name: value for name, value in fields.items()}

    def _message(self, message: object, arguments: object) -> str:
        """Render as `logging` would, from exact built-in parts only.

        Source: REQUIREMENTS B155.
        """
        if not _is_exact_scalar(message):
            return UNREADABLE_LOG_MESSAGE
        try:
            text = str(message)
            if arguments is None or (type(arguments) is tuple and not arguments):
                return text
            if not _are_exact(arguments) or _WIDE_FIELD.search(text):
                return UNREADABLE_LOG_MESSAGE
            if type(arguments) is dict:  # a secret must not lose its name on the way into the text
                arguments = sanitise(arguments, keys=self._keys)
            return text % arguments
        except Exception:  # a format that does not fit its arguments, an integer too long to be written
            return UNREADABLE_LOG_MESSAGE


def _attributes(record: logging.LogRecord) -> dict[str, object]:
    """Take the record's own attributes, those with real names, without asking a subclass for them."""
    try:
        attributes: object = object.__getattribute__(record, "__dict__")
    except BaseException:  # a foreign record raises what it likes
        return {}
    if type(attributes) is not dict:
        return {}
    return {name: value for name, value in list(attributes.items()) if type(name) is str}


def _instant(created: object) -> str | None:
    if type(created) is not float:
        return None
    try:
        instant = datetime.fromtimestamp(created, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _word(value: object) -> str:
    word = sanitise(value)
    return word if type(word) is str else UNREADABLE_LOG_MESSAGE


def _are_exact(arguments: object) -> bool:
    if type(arguments) is dict:
        return all(type(name) is str and _is_exact_scalar(value) for name, value in arguments.items())
    return type(arguments) is tuple and all(_is_exact_scalar(value) for value in arguments)


def _is_exact_scalar(value: object) -> bool:
    kind = type(value)
    return value is None or kind is str or kind is int or kind is float or kind is bool


def _exception(info: object) -> JsonSafe:
    """Name the exception, where it was raised, and the same of what caused it.

    Source: REQUIREMENTS B152-B154.
    """
    if info is None or info is False:
        return None
    if type(info) is not tuple or len(info) != 3:
        return UNREADABLE_EXCEPTION
    kind, error, trace = info
    if kind is None and error is None:
        return None
    told = _told(kind if error is None else error, trace)
    causes: list[JsonSafe] = []
    while len(causes) < _MAX_CAUSES:
        error = _cause(error)
        if error is None:
            break
        causes.append(_told(error, _slot("__traceback__", error)))
    if causes:
        told["causes"] = causes
    return told


def _told(error: object, trace: object) -> dict[str, JsonSafe]:
    return {"type": safe_exception_name(error), "at": _places(trace)}


def _slot(name: str, error: object) -> Any:
    """Read a field of an exception from where the interpreter keeps it, past whatever its class defines."""
    try:
        return BaseException.__dict__[name].__get__(error)
    except TypeError:  # not an exception
        return None


def _cause(error: object) -> object:
    cause = _slot("__cause__", error)
    if cause is None and _slot("__suppress_context__", error) is False:
        return _slot("__context__", error)
    return cause


def _places(trace: object) -> list[JsonSafe]:
    """List the last frames, outermost first, as `file.py:12 in function`."""
    last: deque[TracebackType] = deque(maxlen=_MAX_FRAMES)
    while type(trace) is TracebackType:
        last.append(trace)
        trace = trace.tb_next
    return [_place(each) for each in last]


def _place(trace: TracebackType) -> JsonSafe:
    code = trace.tb_frame.f_code
    file = (plain_text(code.co_filename) or "").replace("\\", "/").rpartition("/")[2]
    return sanitise(f"{file}:{trace.tb_lineno} in {plain_text(code.co_name)}")
