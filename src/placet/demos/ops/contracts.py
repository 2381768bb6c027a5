"""What the five ops tools accept and answer.

Every model is strict, frozen and refuses members it does not know. Instants are ISO 8601 texts in UTC, so that a result
is the same before and after its trip through JSON. `LogsQuery`, `MetricsQuery`, `StatusQuery` and `TicketDraft` fit any
incident; the classes ending in `Arguments` close the set of services over the incident that is shipped with the demo,
and `arguments_for` closes it over any other.

Source: REQUIREMENTS C001, C004, C022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

Severity = Literal["info", "warning", "error"]
Health = Literal["ok", "degraded", "down", "unknown"]
ChangeKind = Literal["deploy", "rollback", "config"]

ShippedService = Literal["checkout-api", "edge", "invoice-worker", "pgbouncer", "postgres", "sessions-redis"]
SHIPPED_SERVICES: tuple[str, ...] = get_args(ShippedService)

# What people call these services when they are in a hurry.
_SHORT_NAMES = {
    "checkout": "checkout-api",
    "nginx": "edge",
    "postgresql": "postgres",
    "redis": "sessions-redis",
}


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _full_name(value: object) -> object:
    lowered = _lower_case(value)
    return _SHORT_NAMES.get(lowered, lowered) if isinstance(lowered, str) else lowered


ServiceName = Annotated[
    str,
    BeforeValidator(_lower_case),
    Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=63, description="Service to look at."),
]
ShippedServiceName = Annotated[
    ShippedService, BeforeValidator(_full_name), Field(description="Service to look at, in any case.")
]
WindowMinutes = Annotated[int, Field(ge=1, le=1440, description="How many minutes to look back from now.")]
LogQueryText = Annotated[
    str,
    Field(
        max_length=500,
        description='Words that must all occur; "quoted phrases", source:NAME and level:error narrow it. Empty: all.',
    ),
]
MetricName = Annotated[
    str,
    Field(
        pattern=r"^([a-zA-Z_:][a-zA-Z0-9_:]*\*?|\*)$",
        max_length=120,
        description="Name of the metric; a trailing * asks for all that begin so.",
    ),
]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=40)]


class Contract(BaseModel):
    """Base of all arguments and results: strict, frozen, closed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


# Arguments


class LogsQuery(Contract):
    """A service, a query and a time window, and nothing else."""

    service: ServiceName
    query: LogQueryText = ""
    window_minutes: WindowMinutes = 15


class MetricsQuery(Contract):
    """A service, one of its metrics and a time window."""

    service: ServiceName
    metric: MetricName
    window_minutes: WindowMinutes = 15


class StatusQuery(Contract):
    """A service."""

    service: ServiceName


class RunbookQuery(Contract):
    """Words to look up in the runbooks."""

    query: Annotated[str, Field(min_length=1, max_length=500, description="Symptom words.")]
    limit: Annotated[int, Field(ge=1, le=5, description="How many sections to return.")] = 3


class TicketDraft(Contract):
    """A ticket as somebody would like it to be."""

    title: Annotated[str, Field(min_length=4, max_length=120)]
    service: ServiceName
    severity: Literal["sev1", "sev2", "sev3"]
    body: Annotated[str, Field(min_length=1, max_length=4000)]
    labels: Annotated[list[Label], Field(max_length=8)] = Field(default_factory=list)


class QueryLogsArguments(LogsQuery):
    """`LogsQuery` for the shipped incident."""

    service: ShippedServiceName


class QueryMetricsArguments(MetricsQuery):
    """`MetricsQuery` for the shipped incident."""

    service: ShippedServiceName


class GetServiceStatusArguments(StatusQuery):
    """`StatusQuery` for the shipped incident."""

    service: ShippedServiceName


class SearchRunbookArguments(RunbookQuery):
    """`RunbookQuery`; runbooks belong to no single service."""


class CreateTicketArguments(TicketDraft):
    """`TicketDraft` for a service of the shipped incident."""

    service: ShippedServiceName


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsArguments:
    """What each of the five tools accepts for one incident; no service outside its catalogue passes."""

    logs: type[LogsQuery] = QueryLogsArguments
    metrics: type[MetricsQuery] = QueryMetricsArguments
    status: type[StatusQuery] = GetServiceStatusArguments
    runbook: type[RunbookQuery] = SearchRunbookArguments
    ticket: type[TicketDraft] = CreateTicketArguments


def arguments_for(services: Sequence[str]) -> OpsArguments:
    """The arguments, closed over these services."""
    if tuple(services) == SHIPPED_SERVICES:
        return OpsArguments()
    return OpsArguments(
        logs=_closed(LogsQuery, services),
        metrics=_closed(MetricsQuery, services),
        status=_closed(StatusQuery, services),
        ticket=_closed(TicketDraft, services),
    )


Arguments = TypeVar("Arguments", bound=Contract)


def _closed(arguments: type[Arguments], services: Sequence[str]) -> type[Arguments]:
    choice: Any = Annotated[Literal[tuple(services)], BeforeValidator(_lower_case), Field(description="The service.")]
    return create_model(f"{arguments.__name__}Arguments", __base__=arguments, service=(choice, ...))


# Results


class LogMinute(Contract):
    """What one step of the time axis holds."""

    minute: str
    matched: int
    errors: int


class NumberSummary(Contract):
    """One numeric member over the lines of one pattern."""

    count: int
    mean: float
    minimum: float
    maximum: float


class LogPattern(Contract):
    """Lines that differ only in numbers, ids and addresses.

    Attributes:
        fields: the named texts and flags all lines of the pattern share, such as a version.
        numbers: the named numbers, which may differ from line to line.
    """

    source: str
    severity: Severity
    message: str
    fields: dict[str, str]
    numbers: dict[str, NumberSummary]
    count: int
    first_seen: str
    last_seen: str


class LogLineSample(Contract):
    """One line as it was written, cut after 400 characters."""

    at: str
    source: str
    severity: Severity
    text: str


class LogsAnswer(Contract):
    """Counts over time, patterns, and a sample of lines; below 60 KB of JSON.

    Attributes:
        now: the end of the window.
        matched: how many lines the query found, sampled or not.
        errors: how many of them are errors: level error, or an HTTP status of 500 and above.
        patterns: worst severity first, then the most frequent.
        lines: an example of each of the rarest patterns, then lines evenly spread over the window; in order of time.
    """

    service: str
    query: str
    window: WindowMinutes
    now: str
    matched: int
    errors: int
    bucket_minutes: int
    minutes: list[LogMinute]
    patterns: list[LogPattern]
    patterns_left_out: int
    lines: list[LogLineSample]
    lines_left_out: int


class MetricPoint(Contract):
    """A gauge's mean, or a counter's increase per minute, in one step of the time axis."""

    minute: str
    value: float


class MetricRecord(Contract):
    """One series of one metric.

    Attributes:
        value: a gauge's last reading; a counter's increase per minute over the window; None if nothing was recorded.
        window: minutes looked back.
    """

    service: str
    metric: str
    value: float | int | None
    window: WindowMinutes
    kind: Literal["gauge", "counter"] = "gauge"
    labels: dict[str, str] = Field(default_factory=dict)
    minimum: float | None = None
    maximum: float | None = None
    points: list[MetricPoint] = Field(default_factory=list)


class MetricsAnswer(Contract):
    """The series a name stands for; below 60 KB of JSON."""

    service: str
    metric: str
    window: WindowMinutes
    now: str
    bucket_minutes: int
    records: list[MetricRecord]
    records_left_out: int


class Change(Contract):
    """Something that was altered on purpose.

    Attributes:
        change: the number it is filed under; None for an entry that only states what was running.
    """

    at: str
    kind: ChangeKind
    version: str | None = None
    previous: str | None = None
    change: str | None = None
    by: str | None = None
    note: str | None = None


class ServiceStatus(Contract):
    """A service as its catalogue and its health check describe it now."""

    service: str
    kind: str
    owner: str
    status: Health
    since: str | None
    version: str | None
    depends_on: list[str]
    logs: list[str]
    metrics: list[str]
    changes: list[Change]
    now: str


class RunbookHit(Contract):
    """One section of a runbook.

    Attributes:
        citation: names the section, as in `disk-full#first-five-minutes:2`.
        source: the file.
        score: the share of the question's words that it holds, rare ones weighing more.
    """

    citation: str
    source: str
    title: str
    score: float
    content: str


class RunbookAnswer(Contract):
    """The sections that fit best, best first."""

    query: str
    hits: list[RunbookHit]


class TicketReceipt(Contract):
    """What the desk says about a ticket.

    Attributes:
        created: False when the desk held this ticket already.
    """

    ticket_id: str
    url: str
    created: bool
    operation_key: str
