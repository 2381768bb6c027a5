"""The four reads of the on-call agent, over one incident directory and a folder of runbooks.

An incident has a fixed `now`: the moment somebody is called. Nothing later than that is ever answered, so the agent
sees what an engineer in the middle of it would see. Every answer is bounded; what was left out is counted.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from placet import ToolRejected
from placet.demos.ops.contracts import (
    Change,
    Contract,
    LogLineSample,
    LogMinute,
    LogPattern,
    LogsAnswer,
    LogsQuery,
    MetricPoint,
    MetricRecord,
    MetricsAnswer,
    MetricsQuery,
    NumberSummary,
    RunbookAnswer,
    RunbookHit,
    RunbookQuery,
    ServiceStatus,
    StatusQuery,
)
from placet.demos.ops.log_lines import LogLine, instant, parsed_lines, parsed_query
from placet.demos.ops.metric_series import Sample, Series, parsed_series
from placet.knowledge import Evidence, IndexState, KnowledgeBase, Library, Meaning

_MAX_STEPS = 60
_MAX_PATTERNS = 20
_MAX_LINES = 24
_MAX_RARE_LINES = 12
_MAX_LINE = 400
_MAX_SERIES = 40
_MAX_NUMBERS = 6
_MAX_CHANGES = 10
_MAX_SECTION = 1_500
# The parts of one answer add up to less than 60 KB.
_PATTERN_BYTES = 22_000
_LINE_BYTES = 22_000
_SERIES_BYTES = 52_000
Item = TypeVar("Item", bound=Contract)
_HERE, _RUNBOOKS = "demo", "runbooks"
_SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


class Incident:
    """A recorded incident; files are read when first asked for, and then kept.

    Attributes:
        now: the moment of looking, from `incident.json` unless given.
    """

    def __init__(self, directory: Traversable, *, now: datetime | None = None) -> None:
        self._directory = directory
        self._about: dict[str, Any] = json.loads(self._text("incident.json"))
        self.now = now or instant(self._about["now"])
        self._lines: dict[str, tuple[LogLine, ...]] = {}

    @cached_property
    def catalogue(self) -> Mapping[str, Mapping[str, Any]]:
        """The service catalogue, by name."""
        return {entry["name"]: entry for entry in json.loads(self._text("services.json"))}

    @property
    def services(self) -> tuple[str, ...]:
        """Names of all services, sorted."""
        return tuple(sorted(self.catalogue))

    @cached_property
    def changes(self) -> Mapping[str, Sequence[Change]]:
        """The change log by service, oldest first, up to now."""
        found: defaultdict[str, list[Change]] = defaultdict(list)
        for line in self._text("deploys.jsonl").splitlines():
            entry = json.loads(line)
            if instant(entry["ts"]) <= self.now:
                found[entry["service"]].append(_change(entry))
        return found

    @cached_property
    def series(self) -> Mapping[str, Sequence[Series]]:
        """The metric series by service."""
        found: defaultdict[str, list[Series]] = defaultdict(list)
        for series in parsed_series(self._text("metrics.csv")):
            found[series.service].append(series)
        return found

    def entry(self, service: str) -> Mapping[str, Any]:
        """The service's entry in the catalogue.

        Raises:
            ToolRejected: there is no such service.
        """
        try:
            return self.catalogue[service]
        except KeyError:
            raise ToolRejected("The catalogue holds no service of that name.") from None

    def log_sources(self, service: str) -> list[str]:
        """Names of the service's log files, without their ending."""
        return [_stem(name) for name in self._about["logs"].get(service, [])]

    def lines(self, service: str) -> tuple[LogLine, ...]:
        """All of a service's log lines up to now, in order of time."""
        if service not in self._lines:
            found = [
                line
                for name in self._about["logs"].get(service, [])
                for line in parsed_lines(_stem(name), self._text("logs", name))
                if line.at <= self.now
            ]
            self._lines[service] = tuple(sorted(found, key=lambda line: line.at))
        return self._lines[service]

    def add_line(self, source: str, raw: str) -> None:
        """Have one of the log files hold a line more; for this object alone, the recording stays as it is."""
        service = next(name for name in self.services if source in self.log_sources(name))
        added = [line for line in parsed_lines(source, raw) if line.at <= self.now]
        self._lines[service] = tuple(sorted((*self.lines(service), *added), key=lambda line: line.at))

    def _text(self, *names: str) -> str:
        return self._directory.joinpath(*names).read_text(encoding="utf-8")


class Runbooks:
    """A folder of Markdown runbooks, and an index of it in a temporary folder, made when somebody asks first."""

    def __init__(self, directory: Path) -> None:
        self._indexes = tempfile.mkdtemp(prefix="placet-runbooks-")
        weakref.finalize(self, shutil.rmtree, self._indexes, ignore_errors=True)
        self._lock = threading.Lock()
        self.point_at(directory)

    def point_at(self, directory: Path) -> None:
        """Read from another folder from now on."""
        self._directory = directory
        base = KnowledgeBase(tenant=_HERE, id=_RUNBOOKS, documents=directory)
        self._library = Library(self._indexes, [base], meaning=Meaning.NEVER)

    def names(self) -> list[str]:
        """The files in the folder."""
        return sorted(file.name for file in self._directory.iterdir())

    def found(self, query: str, *, limit: int) -> Sequence[Evidence]:
        """The sections that fit best."""
        self.names()  # a folder that is gone is a fault, also where an index of it is left
        with self._lock:
            if self._library.status_now(_HERE, _RUNBOOKS).state is not IndexState.READY:
                self._library.build_now(_HERE, _RUNBOOKS)
        return self._library.search_now(_HERE, _RUNBOOKS, query, limit=limit)


def shipped_incident() -> Incident:
    """The incident that comes with the package."""
    return Incident(files("placet.demos.ops") / "incident")


def shipped_runbooks() -> Runbooks:
    """The runbooks that come with the package."""
    return Runbooks(shipped_runbooks_folder())


def shipped_runbooks_folder() -> Path:
    """Where they lie."""
    return Path(str(files("placet.demos.ops") / "runbooks"))


def query_logs(incident: Incident, query: LogsQuery) -> LogsAnswer:
    """Count, group and sample the lines that match, in the window that ends now."""
    incident.entry(query.service)
    wanted = parsed_query(query.query)
    in_window = [line for line in incident.lines(query.service) if line.at > _start(incident, query.window_minutes)]
    matched = [line for line in in_window if wanted.matches(line)]
    patterns = _patterns(matched)
    shown_patterns = _within(patterns[:_MAX_PATTERNS], _PATTERN_BYTES)
    lines = _within(_sample(matched), _LINE_BYTES)
    step = _step(query.window_minutes)
    return LogsAnswer(
        service=query.service,
        query=query.query,
        window=query.window_minutes,
        now=_text(incident.now),
        matched=len(matched),
        errors=sum(line.severity == "error" for line in matched),
        bucket_minutes=step,
        minutes=_minutes(matched, step),
        patterns=shown_patterns,
        patterns_left_out=len(patterns) - len(shown_patterns),
        lines=lines,
        lines_left_out=len(matched) - len(lines),
    )


def query_metrics(incident: Incident, query: MetricsQuery) -> MetricsAnswer:
    """Read one metric, or all whose names begin alike, in the window that ends now.

    A name nothing was recorded for is answered by one record without a value.
    """
    incident.entry(query.service)
    wanted = [series for series in incident.series.get(query.service, ()) if _is_named(series.metric, query.metric)]
    records = [_record(incident, series, query.window_minutes) for series in wanted]
    if not records and not query.metric.endswith("*"):
        records = [MetricRecord(service=query.service, metric=query.metric, value=None, window=query.window_minutes)]
    shown = _within(records[:_MAX_SERIES], _SERIES_BYTES)
    return MetricsAnswer(
        service=query.service,
        metric=query.metric,
        window=query.window_minutes,
        now=_text(incident.now),
        bucket_minutes=_step(query.window_minutes),
        records=shown,
        records_left_out=len(records) - len(shown),
    )


def get_service_status(incident: Incident, query: StatusQuery) -> ServiceStatus:
    """Say what a service is, what it depends on, how its health check answers, and what was changed lately."""
    entry = incident.entry(query.service)
    health = [check for check in entry.get("health", ()) if instant(check["at"]) <= incident.now]
    changes = list(incident.changes.get(query.service, ()))
    versions = [change.version for change in changes if change.version is not None]
    return ServiceStatus(
        service=query.service,
        kind=entry["kind"],
        owner=entry["owner"],
        status=health[-1]["status"] if health else "unknown",
        since=health[-1]["at"] if health else None,
        version=versions[-1] if versions else entry.get("version"),
        depends_on=list(entry.get("depends_on", ())),
        logs=incident.log_sources(query.service),
        metrics=sorted({series.metric for series in incident.series.get(query.service, ())}),
        changes=changes[-_MAX_CHANGES:],
        now=_text(incident.now),
    )


def search_runbook(runbooks: Runbooks, query: RunbookQuery) -> RunbookAnswer:
    """Find the sections that fit best."""
    hits = [
        RunbookHit(
            citation=item.citation,
            source=item.source,
            title=item.title,
            score=round(item.coverage, 3),
            content=item.content[:_MAX_SECTION],
        )
        for item in runbooks.found(query.query, limit=query.limit)
    ]
    return RunbookAnswer(query=query.query, hits=hits)


def _change(entry: Mapping[str, Any]) -> Change:
    return Change(
        at=entry["ts"],
        kind=entry["event"],
        **{name: entry.get(name) for name in ("version", "previous", "change", "by", "note")},
    )


def _minutes(lines: Sequence[LogLine], step: int) -> list[LogMinute]:
    if not lines:
        return []
    matched = Counter(_bucket(line.at, step) for line in lines)
    errors = Counter(_bucket(line.at, step) for line in lines if line.severity == "error")
    first, last, width = min(matched), max(matched), timedelta(minutes=step)
    buckets = [first + index * width for index in range((last - first) // width + 1)]
    return [LogMinute(minute=_minute(at), matched=matched[at], errors=errors[at]) for at in buckets]


def _patterns(lines: Sequence[LogLine]) -> list[LogPattern]:
    groups: dict[object, list[LogLine]] = {}
    for line in lines:
        groups.setdefault(line.pattern_key, []).append(line)
    found = [_pattern(group) for group in groups.values()]
    return sorted(found, key=lambda pattern: (_SEVERITY_ORDER[pattern.severity], -pattern.count, pattern.message))


def _pattern(lines: Sequence[LogLine]) -> LogPattern:
    numbers: defaultdict[str, list[float]] = defaultdict(list)
    for line in lines:
        for name, value in line.numbers.items():
            if math.isfinite(value):
                numbers[name].append(value)
    first = lines[0]
    return LogPattern(
        source=first.source,
        severity=first.severity,
        message=first.message,
        fields=dict(first.fields),
        numbers={name: _summary(values) for name, values in sorted(numbers.items())[:_MAX_NUMBERS]},
        count=len(lines),
        first_seen=_text(first.at),
        last_seen=_text(lines[-1].at),
    )


def _summary(values: Sequence[float]) -> NumberSummary:
    return NumberSummary(
        count=len(values), mean=round(sum(values) / len(values), 3), minimum=min(values), maximum=max(values)
    )


def _sample(lines: Sequence[LogLine]) -> list[LogLineSample]:
    """An example of each of the rarest patterns, then lines evenly spread; unusual lines are what people look for."""
    counts = Counter(line.pattern_key for line in lines)
    examples = {line.pattern_key: index for index, line in reversed(list(enumerate(lines)))}
    rarest = sorted(examples, key=lambda key: (counts[key], examples[key]))[:_MAX_RARE_LINES]
    chosen = {examples[key] for key in rarest}
    stride = max(1, len(lines) // (_MAX_LINES - len(chosen)))
    for index in range(0, len(lines), stride):
        if len(chosen) == _MAX_LINES:
            break
        chosen.add(index)
    return [
        LogLineSample(at=_text(line.at), source=line.source, severity=line.severity, text=line.text[:_MAX_LINE])
        for line in (lines[index] for index in sorted(chosen))
    ]


def _record(incident: Incident, series: Series, window_minutes: int) -> MetricRecord:
    start = _start(incident, window_minutes)
    readings = [sample for sample in series.readings() if start < sample.at <= incident.now]
    values = [sample.value for sample in readings]
    latest = values[-1] if values else None
    mean = sum(values) / len(values) if values else None
    value = latest if series.kind == "gauge" else mean
    return MetricRecord(
        service=series.service,
        metric=series.metric,
        value=None if value is None else round(value, 3),
        window=window_minutes,
        kind=series.kind,
        labels=dict(series.labels),
        minimum=min(values, default=None),
        maximum=max(values, default=None),
        points=_points(readings, _step(window_minutes)),
    )


def _points(readings: Sequence[Sample], step: int) -> list[MetricPoint]:
    buckets: defaultdict[datetime, list[float]] = defaultdict(list)
    for reading in readings:
        buckets[_bucket(reading.at, step)].append(reading.value)
    return [
        MetricPoint(minute=_minute(at), value=round(sum(values) / len(values), 3))
        for at, values in sorted(buckets.items())
    ]


def _is_named(metric: str, wanted: str) -> bool:
    return metric.startswith(wanted[:-1]) if wanted.endswith("*") else metric == wanted


def _within(items: Sequence[Item], max_bytes: int) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        max_bytes -= len(json.dumps(item.model_dump(mode="json"))) + 2
        if max_bytes < 0:
            break
        kept.append(item)
    return kept


def _start(incident: Incident, window_minutes: int) -> datetime:
    return incident.now - timedelta(minutes=window_minutes)


def _step(window_minutes: int) -> int:
    return math.ceil(window_minutes / _MAX_STEPS)


def _bucket(at: datetime, step: int) -> datetime:
    minutes = int(at.timestamp()) // 60
    return datetime.fromtimestamp(minutes // step * step * 60, UTC)


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%MZ")


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stem(name: str) -> str:
    return name.rpartition(".")[0]
