"""What an on-call engineer concludes from what was read. Pure functions.

No name of any service or metric is known here. An answer of a tool goes in; a fact with its numbers comes out, or None
where the reading does not say.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from placet.demos.ops.contracts import Change, LogPattern, LogsAnswer, MetricRecord, MetricsAnswer, ServiceStatus
from placet.demos.ops.log_lines import instant

_BAD_SHARE = 0.05
_BAD_COUNT = 3
_STRONG_FOLD = 2.0
_FLAT_FOLD = 0.5
_SUDDEN_RATIO = 3.0
_SMALLEST_PART = 0.02
_PLAIN_WORDS = frozenset({
    "with", "from", "this", "that", "were", "while", "have", "been", "will", "error", "errors", "warning", "warn",
    "failed", "message", "request", "requests", "service", "version", "route", "closed", "info", "level", "true",
    "false", "address", "query", "string",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Errors among all; `of` is never negative."""

    errors: int
    of: int

    @property
    def ratio(self) -> float:
        """From 0 to 1; 0 of nothing."""
        return self.errors / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Since when, and how much, a service answers with errors.

    Attributes:
        onset: the first minute with errors that belong to this fault.
        before: the healthy minutes before the onset.
        since: the minutes after the onset's own.
    """

    service: str
    onset: datetime
    before: Share
    since: Share
    window_minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Warnings and errors of one service that began with the fault."""

    service: str
    patterns: Sequence[LogPattern]

    @property
    def count(self) -> int:
        """How many lines."""
        return sum(pattern.count for pattern in self.patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How one series differs between before the onset and since.

    Attributes:
        fold: how often it doubled (negative: halved); parts below 2 % of its greatest value do not count.
    """

    service: str
    metric: str
    labels: Mapping[str, str]
    kind: str
    before: float
    since: float
    peak: float
    fold: float

    @property
    def is_strong(self) -> bool:
        """At least four times as much, or as little."""
        return abs(self.fold) >= _STRONG_FOLD

    @property
    def is_flat(self) -> bool:
        """Within about 40 % of what it was."""
        return abs(self.fold) < _FLAT_FOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a service does its ordinary work otherwise than before a change.

    Attributes:
        flags: name, value before, value since.
        numbers: name, mean before, mean since.
    """

    message: str
    flags: Sequence[tuple[str, str, str]] = ()
    numbers: Sequence[tuple[str, float, float]] = ()

    @property
    def weight(self) -> float:
        """Two for every flag that turned, and the doublings of every number, ten at most."""
        return 2.0 * len(self.flags) + sum(
            min(10.0, abs(math.log2(since / before))) for _, before, since in self.numbers
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A change shortly before the fault, in a service that can have caused it."""

    service: str
    change: Change
    differences: Sequence[Difference] = field(default_factory=tuple)

    @property
    def weight(self) -> float:
        """The more its work differs, the likelier."""
        return sum(difference.weight for difference in self.differences)

    @property
    def name(self) -> str:
        """The service with what it changed to, as in `mailer 3.1 (CHG-7)`."""
        version = f" {self.change.version}" if self.change.version else ""
        number = f" ({self.change.change})" if self.change.change else ""
        return f"{self.service}{version}{number}"


# The graph of services


def reachable(front: str, statuses: Mapping[str, ServiceStatus]) -> tuple[str, ...]:
    """The service and all it depends on, nearest first."""
    found = [front]
    for service in found:
        status = statuses.get(service)
        found += [name for name in (status.depends_on if status else ()) if name not in found]
    return tuple(found)


def neighbours(chain: Sequence[str], statuses: Mapping[str, ServiceStatus]) -> tuple[str, ...]:
    """Services outside a chain that use something the chain uses too."""
    shared = set(chain[1:])
    return tuple(
        name for name, status in statuses.items() if name not in chain and not shared.isdisjoint(status.depends_on)
    )


def front_door(report: str, statuses: Mapping[str, ServiceStatus]) -> str | None:
    """The service nobody depends on through which the reported ones are reached; a degraded one comes first."""
    used = {name for status in statuses.values() for name in status.depends_on}
    words = set(re.findall(r"[a-z]{3,}", report.lower()))
    named = {name for name in statuses if not words.isdisjoint(name.split("-"))}

    def rank(name: str) -> tuple[bool, int, str]:
        return statuses[name].status == "ok", -len(named.intersection(reachable(name, statuses))), name

    roots = sorted((name for name in statuses if name not in used), key=rank)
    return roots[0] if roots else None


# Logs


def symptom(answer: LogsAnswer) -> Symptom | None:
    """Find the onset: the first bad minute, or the one before if that has thrice the usual share already."""
    steps = [(instant(step.minute), Share(errors=step.errors, of=step.matched)) for step in answer.minutes]
    bad = [index for index, (_, share) in enumerate(steps) if share.ratio >= _BAD_SHARE and share.errors >= _BAD_COUNT]
    if not bad:
        return None
    first = bad[0]
    if first > 0:
        usual = _total(share for _, share in steps[: first - 1]).ratio
        if steps[first - 1][1].ratio > 3 * usual:
            first -= 1
    later = [share for _, share in steps[first + 1 :]] or [steps[first][1]]
    return Symptom(
        service=answer.service,
        onset=steps[first][0],
        before=_total(share for _, share in steps[:first]),
        since=_total(later),
        window_minutes=answer.window,
    )


def first_error(answer: LogsAnswer) -> datetime | None:
    """When the first error of an answer was written."""
    return min(
        (instant(pattern.first_seen) for pattern in answer.patterns if pattern.severity == "error"), default=None
    )


def trouble(answer: LogsAnswer, onset: datetime) -> Trouble | None:
    """The warnings and errors that were not seen before the minute ahead of the onset."""
    since = onset - timedelta(minutes=1)
    fresh = [
        pattern for pattern in answer.patterns if pattern.severity != "info" and instant(pattern.first_seen) >= since
    ]
    return Trouble(service=answer.service, patterns=fresh) if fresh else None


def symptom_words(troubles: Iterable[Trouble]) -> list[str]:
    """Words that several services complain in, those in most services first; a technical name before plain words."""
    held_by: defaultdict[str, set[str]] = defaultdict(set)
    lines: Counter[str] = Counter()
    for found in troubles:
        for pattern in found.patterns:
            for word in set(re.findall(r"[a-z][a-z_]{3,}", _words_of(pattern))):
                held_by[word].add(found.service)
                lines[word] += pattern.count
    words = [word for word in held_by if word not in _PLAIN_WORDS]
    return sorted(words, key=lambda word: (-len(held_by[word]), "_" not in word, -lines[word], word))


def _words_of(pattern: LogPattern) -> str:
    texts = [pattern.message, *(value for name, value in pattern.fields.items() if name not in ("route", "user_agent"))]
    return re.sub(r"<\w+>", " ", " ".join(texts).lower())


def _total(shares: Iterable[Share]) -> Share:
    counted = list(shares)
    return Share(errors=sum(share.errors for share in counted), of=sum(share.of for share in counted))


# Metrics


def shifts(answer: MetricsAnswer, onset: datetime) -> list[Shift]:
    """How each series changed with the onset, the greatest change first; the onset's own minute counts for neither."""
    found = [shift for record in answer.records if (shift := _shift(record, onset)) is not None]
    return sorted(found, key=lambda shift: (-abs(shift.fold), shift.metric))


def _shift(record: MetricRecord, onset: datetime) -> Shift | None:
    before = [point.value for point in record.points if instant(point.minute) < onset]
    since = [point.value for point in record.points if instant(point.minute) > onset]
    if not before and not since:
        return None
    # A series that is absent for a while counts as nought: exporters leave out what there is none of.
    mean_before, mean_since = _mean(before), _mean(since)
    floor = _SMALLEST_PART * max(map(abs, (*before, *since))) or 1.0
    return Shift(
        service=record.service,
        metric=record.metric,
        labels=record.labels,
        kind=record.kind,
        before=mean_before,
        since=mean_since,
        peak=max(since, default=0.0),
        fold=math.log2((abs(mean_since) + floor) / (abs(mean_before) + floor)),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# Changes


def suspects(
    statuses: Mapping[str, ServiceStatus], related: Collection[str], first_error_at: datetime, *, within_minutes: int
) -> list[Suspect]:
    """Changes of related services shortly before the first error, the nearest first.

    An entry with neither a number nor a previous version only states what was running.
    """
    earliest = first_error_at - timedelta(minutes=within_minutes)
    found = [
        Suspect(service=name, change=change)
        for name in related
        if name in statuses
        for change in statuses[name].changes
        if (change.change or change.previous) and earliest <= instant(change.at) <= first_error_at
    ]
    return sorted(found, key=lambda suspect: instant(suspect.change.at), reverse=True)


def differences(whole: LogsAnswer, since_change: LogsAnswer, changed_at: datetime) -> list[Difference]:
    """Compare a service's ordinary lines before a change with those after it.

    Two kinds are seen: a line that now says something else in a flag or text (a new pattern of an old message), and a
    line that says the same with very different numbers. Errors do not count: those who suffer write errors too.
    """
    old = [pattern for pattern in whole.patterns if instant(pattern.first_seen) < changed_at]
    new = [pattern for pattern in whole.patterns if instant(pattern.first_seen) >= changed_at]
    replaced = [
        _difference(before, after.fields, _means(after))
        for after in new
        if after.severity == "info" and (before := _counterpart(after, old)) is not None
    ]
    later = {_identity(pattern): pattern for pattern in since_change.patterns}
    shifted = [
        _difference(_without(pattern, later[_identity(pattern)]), pattern.fields, _means(later[_identity(pattern)]))
        for pattern in old
        if pattern.severity == "info"
        and _identity(pattern) in later
        and later[_identity(pattern)].count < pattern.count
    ]
    return [found for found in (*replaced, *shifted) if found.flags or found.numbers]


def _counterpart(after: LogPattern, old: Iterable[LogPattern]) -> LogPattern | None:
    same = [pattern for pattern in old if (pattern.source, pattern.message) == (after.source, after.message)]
    return max(same, key=lambda pattern: pattern.count, default=None)


def _difference(before: LogPattern, fields: Mapping[str, str], means: Mapping[str, float]) -> Difference:
    return Difference(
        message=before.message,
        flags=[
            (name, value, fields[name])
            for name, value in before.fields.items()
            if name != "version" and fields.get(name, value) != value
        ],
        numbers=[
            (name, summary.mean, means[name])
            for name, summary in before.numbers.items()
            if name in means and _is_sudden(summary.mean, means[name])
        ],
    )


def _without(whole: LogPattern, later: LogPattern) -> LogPattern:
    """The part of a pattern that is not in the later one: means are taken apart by their counts."""
    numbers = {}
    for name, summary in whole.numbers.items():
        tail = later.numbers.get(name)
        count = summary.count - (tail.count if tail else 0)
        if tail is not None and count > 0:
            mean = (summary.mean * summary.count - tail.mean * tail.count) / count
            numbers[name] = summary.model_copy(update={"count": count, "mean": mean})
    return whole.model_copy(update={"numbers": numbers})


def _identity(pattern: LogPattern) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    return pattern.source, pattern.severity, pattern.message, tuple(pattern.fields.items())


def _means(pattern: LogPattern) -> dict[str, float]:
    return {name: summary.mean for name, summary in pattern.numbers.items()}


def _is_sudden(before: float, since: float) -> bool:
    return before > 0 and since > 0 and not 1 / _SUDDEN_RATIO < since / before < _SUDDEN_RATIO
