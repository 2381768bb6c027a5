"""Log lines as records: when, how bad, what kind of line, and the numbers in it.

Five formats are known, which is what the programs of an ordinary web stack write: JSON with `ts`, an nginx access line,
and lines that begin with a time the way nginx errors, PostgreSQL and PgBouncer, and Redis write it. A line of no known
format belongs to the moment of the line before it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from placet.demos.ops.contracts import Severity

_ACCESS = re.compile(
    r'^\S+ \S+ \S+ \[(?P<at>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+)[^"]*" (?P<status>\d{3}) \S+ "(?P<agent>[^"]*)"'
    r"(?P<rest>.*)$"
)
_TIMED = (
    (re.compile(r"^(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) (?P<text>.*)$"), "%Y/%m/%d %H:%M:%S"),
    (re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) UTC (?P<text>.*)$"), "%Y-%m-%d %H:%M:%S.%f"),
    (re.compile(r"^\d+:[A-Z] (\d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d+) (?P<text>.*)$"), "%d %b %Y %H:%M:%S.%f"),
)
_ERROR_WORD = re.compile(r"\b(?:ERROR|FATAL|PANIC|CRITICAL)\b|\[(?:error|crit|alert|emerg)\]")
_WARNING_WORD = re.compile(r"\b(?:WARN|WARNING)\b|\[warn\]|^# ")
_LEVELS: Mapping[str, Severity] = {
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "fatal": "error",
}

# What differs between two lines of the same kind, most specific first.
_MASKS = (
    (re.compile(r"\?[^\s\"]*"), "?<query>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"(?<![A-Za-z\d])\d+(?:\.\d+)*"), "<n>"),
)
_MAX_MESSAGE = 200
_MAX_FIELD = 160
_MAX_FIELDS = 6
_FIELDS_OF_EVERY_LINE = frozenset({"ts", "level", "msg", "service"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line; `message` and `fields` are masked, so that lines of one kind are equal in them."""

    at: datetime
    source: str
    severity: Severity
    message: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def pattern_key(self) -> tuple[str, Severity, str, tuple[tuple[str, str], ...]]:
        """Equal for lines that differ only in numbers, ids and addresses."""
        return self.source, self.severity, self.message, tuple(self.fields.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What a line must have: all words, and the level and source if one was named."""

    words: tuple[str, ...] = ()
    level: str | None = None
    source: str | None = None

    def matches(self, line: LogLine) -> bool:
        """Compares without regard to case."""
        if self.level is not None and line.severity != self.level:
            return False
        if self.source is not None and line.source != self.source:
            return False
        lowered = line.text.lower()
        return all(word in lowered for word in self.words)


def parsed_query(text: str) -> LogQuery:
    """Read the small query language; quotes that do not pair are ordinary characters."""
    try:
        parts = shlex.split(text.lower())
    except ValueError:
        parts = text.lower().split()
    words: list[str] = []
    level = source = None
    for part in parts:
        if part.startswith("level:"):
            level = part.removeprefix("level:")
        elif part.startswith("source:"):
            source = part.removeprefix("source:")
        else:
            words.append(part)
    return LogQuery(words=tuple(words), level=level, source=source)


def parsed_lines(source: str, text: str) -> Iterator[LogLine]:
    """Read a whole file; lines before the first one with a time are left out."""
    last_at: datetime | None = None
    for raw in text.splitlines():
        line = _structured(source, raw) or _access(source, raw) or _timed(source, raw)
        if line is None and last_at is not None and raw.strip():
            line = LogLine(at=last_at, source=source, severity=_severity(raw), message=_masked(raw), text=raw)
        if line is not None:
            last_at = line.at
            yield line


def instant(text: str) -> datetime:
    """Read an ISO 8601 instant; one without a zone is UTC."""
    parsed = datetime.fromisoformat(text)
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _structured(source: str, raw: str) -> LogLine | None:
    if not raw.startswith("{"):
        return None
    try:
        record = json.loads(raw)
        at = instant(record["ts"])
    except (ValueError, KeyError, TypeError):
        return None
    rest = {name: value for name, value in record.items() if name not in _FIELDS_OF_EVERY_LINE}
    return LogLine(
        at=at,
        source=source,
        severity=_LEVELS.get(str(record.get("level", "")).lower(), "info"),
        message=_masked(str(record.get("msg", ""))),
        text=raw,
        fields=_fields(rest),
        numbers={
            name: float(value)
            for name, value in rest.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and not _is_id(name)
        },
    )


def _fields(record: Mapping[str, object]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in sorted(record.items()):
        if _is_id(name) or len(kept) == _MAX_FIELDS:
            continue
        if isinstance(value, bool):
            kept[name] = str(value).lower()
        elif isinstance(value, str):
            # A version says which program spoke, so its digits are not masked.
            kept[name] = (value if name == "version" else _masked(value))[:_MAX_FIELD]
    return kept


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")


def _access(source: str, raw: str) -> LogLine | None:
    found = _ACCESS.match(raw)
    if found is None:
        return None
    try:
        at = instant(found["at"])
    except ValueError:
        return None
    status = int(found["status"])
    return LogLine(
        at=at,
        source=source,
        severity="error" if status >= 500 else "info",
        message=f"{found['method']} {_masked(found['path'])} {status}",
        text=raw,
        fields={"user_agent": _masked(found["agent"])[:_MAX_FIELD]},
        numbers={name: float(value) for name, value in re.findall(r"\b(u?rt)=(\d+(?:\.\d+)?)\b", found["rest"])},
    )


def _timed(source: str, raw: str) -> LogLine | None:
    for pattern, layout in _TIMED:
        if found := pattern.match(raw):
            try:
                at = datetime.strptime(found[1], layout).replace(tzinfo=UTC)
            except ValueError:
                return None
            text = found["text"]
            return LogLine(at=at, source=source, severity=_severity(text), message=_masked(text), text=raw)
    return None


def _severity(text: str) -> Severity:
    if _ERROR_WORD.search(text):
        return "error"
    return "warning" if _WARNING_WORD.search(text) else "info"


def _masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text[:_MAX_MESSAGE]
