"""The scripted investigator: it asks for one call at a time and computes the next from what came back.

    plan = investigate("Customers say ...", services)
    step = next(plan)                 the first proposal
    step = plan.send(answer)          a result as a plain dict, or a Failure; the next proposal
    StopIteration.value               the Findings

`followed` does this loop. A plan holds no connection and no clock: the same answers give the same proposals. A read
that fails leaves a gap, named in the ticket, and the investigation goes on.

    report -> status of all services -> errors at the front door over time: the onset -> what they say there
           -> logs down the chain of dependencies -> metrics along it, before and since -> who else uses what is stuck
           -> what was changed shortly before -> does the changed service work otherwise since -> runbook -> ticket
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from placet.demos.ops.contracts import Contract, LogsAnswer, MetricsAnswer, RunbookAnswer, RunbookHit, ServiceStatus
from placet.demos.ops.deductions import (
    Shift,
    Suspect,
    Symptom,
    Trouble,
    differences,
    first_error,
    front_door,
    neighbours,
    reachable,
    shifts,
    suspects,
    symptom,
    symptom_words,
    trouble,
)
from placet.demos.ops.evidence import Evidence
from placet.demos.ops.log_lines import instant

_WINDOWS = (15, 60, 240)
_ENOUGH_BEFORE = 2
_CHANGE_WINDOW_MINUTES = 60
_MAX_SUSPECTS = 4
_MAX_BODY = 4_000
_MAX_TITLE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One proposal.

    Attributes:
        reason: why it is asked, for whoever watches.
        origin: whether the plan wants it, or a line found in a log talked the planner into it.
    """

    tool: str
    arguments: Mapping[str, Any]
    reason: str
    origin: Literal["plan", "log line"] = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that brought no result; `code` is the outcome's."""

    code: str
    message: str = ""


Answer = Mapping[str, Any] | Failure
Result = TypeVar("Result", bound=Contract)


@dataclass(slots=True, kw_only=True)
class Findings:
    """What is known so far, filled in from top to bottom.

    Attributes:
        chain: the front door and all it depends on, nearest first.
        locus: the deepest service of the chain that is in trouble itself.
        ruled_out: short sentences about what did not change.
        cause: the change that explains it, if one does.
        gaps: reads that brought no result.
        ticket: the arguments of the proposed ticket; None when there is nothing to report.
        ticket_answer: what became of that proposal.
    """

    report: str
    statuses: dict[str, ServiceStatus] = field(default_factory=dict)
    symptom: Symptom | None = None
    first_error_at: datetime | None = None
    chain: tuple[str, ...] = ()
    troubles: list[Trouble] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    locus: str | None = None
    ruled_out: list[str] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    cause: Suspect | None = None
    runbook_hits: list[RunbookHit] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    ticket: Mapping[str, Any] | None = None
    ticket_answer: Answer | None = None


Plan = Generator[Step, Answer, Findings]
Reading = Generator[Step, Answer, Result | None]
Part = Generator[Step, Answer, None]


async def followed(plan: Plan, ask: Callable[[Step], Awaitable[Answer]]) -> Findings:
    """Ask every step of a plan, one after the other, and return what it found."""
    try:
        step = next(plan)
        while True:
            step = plan.send(await ask(step))
    except StopIteration as end:
        findings: Findings = end.value
        return findings


def investigate(report: str, services: Sequence[str]) -> Plan:
    """Look into what somebody reports.

    Args:
        report: their words.
        services: the services the tools accept, as their contract lists them.
    """
    found = Findings(report=report)
    yield from _survey(found, services)
    front = front_door(report, found.statuses)
    if front is None:
        return found
    found.chain = reachable(front, found.statuses)
    yield from _find_onset(found, front)
    if found.symptom is None:
        return found
    yield from _read_front_door(found, found.symptom)
    yield from _read_logs_down(found, found.symptom)
    yield from _compare_metrics(found, found.symptom)
    yield from _confirm_saturation(found, found.symptom)
    yield from _find_change(found, found.symptom)
    yield from _look_up_runbook(found)
    found.ticket = ticket(found, found.symptom)
    found.ticket_answer = yield Step(tool="create_ticket", arguments=found.ticket, reason="report what was found")
    return found


def severity(error_share: float) -> Literal["sev1", "sev2", "sev3"]:
    """Half of the requests and more: sev1. A tenth and more: sev2. Else sev3."""
    if error_share >= 0.5:
        return "sev1"
    return "sev2" if error_share >= 0.1 else "sev3"


# The parts of the investigation


def _survey(found: Findings, services: Sequence[str]) -> Part:
    for service in services:
        status = yield from _read(
            found, ServiceStatus, "get_service_status", {"service": service}, f"how is {service}?"
        )
        if status is not None:
            found.statuses[service] = status


def _find_onset(found: Findings, front: str) -> Part:
    """Widen the window until the trouble begins inside it."""
    logs = found.statuses[front].logs
    access = next((name for name in logs if "access" in name), None)
    query = f"source:{access}" if access else ""
    for window in _WINDOWS:
        answer = yield from _logs(found, front, query, window, f"errors at the front door, last {window} minutes")
        if answer is not None:
            found.symptom = symptom(answer)
            if found.symptom is None or len(_healthy(answer, found.symptom)) >= _ENOUGH_BEFORE:
                return


def _healthy(answer: LogsAnswer, seen: Symptom) -> list[str]:
    return [step.minute for step in answer.minutes if instant(step.minute) < seen.onset]


def _read_front_door(found: Findings, seen: Symptom) -> Part:
    reason = f"what do the errors say since {seen.onset:%H:%M}?"
    answer = yield from _logs(found, seen.service, "level:error", seen.window_minutes, reason)
    found.first_error_at = (first_error(answer) if answer else None) or seen.onset
    _note_trouble(found, answer, seen)


def _read_logs_down(found: Findings, seen: Symptom) -> Part:
    for service in found.chain[1:]:
        needed_by = next(name for name in found.chain if service in _depends_on(found, name))
        answer = yield from _logs(found, service, "", seen.window_minutes, f"{needed_by} depends on it")
        _note_trouble(found, answer, seen)
    # The chain is ordered from near to far, so the last one in trouble is the deepest.
    deepest = [name for name in found.chain if any(entry.service == name for entry in found.troubles)]
    found.locus = deepest[-1] if deepest else seen.service


def _note_trouble(found: Findings, answer: LogsAnswer | None, seen: Symptom) -> None:
    entry = trouble(answer, seen.onset) if answer is not None else None
    if answer is None or entry is None:
        return
    found.troubles.append(entry)
    worst = entry.patterns[0]
    line = next(
        (line for line in answer.lines if line.source == worst.source and line.severity == worst.severity), None
    )
    if line is not None:
        found.evidence.append(
            Evidence(citation=f"{answer.service}@{line.at}", source=f"logs of {answer.service}", content=line.text)
        )


def _compare_metrics(found: Findings, seen: Symptom) -> Part:
    for service in (*found.chain, *neighbours(found.chain, found.statuses)):
        if service not in found.statuses or not found.statuses[service].metrics:
            continue
        reason = f"what of {service} changed with the onset, and what did not?"
        answer = yield from _metrics(found, service, "*", seen.window_minutes, reason)
        changes = shifts(answer, seen.onset) if answer is not None else []
        found.shifts += [change for change in changes if change.is_strong]
        if changes and all(change.is_flat for change in changes) and _is_calm(found, service):
            found.ruled_out.append(f"{_in_words(changes[0])}, and no errors")
        if service == seen.service:
            found.ruled_out += [
                f"load: {_in_words(change)}" for change in changes if change.kind == "counter" and change.is_flat
            ]


def _is_calm(found: Findings, service: str) -> bool:
    return found.statuses[service].status == "ok" and all(entry.service != service for entry in found.troubles)


def _confirm_saturation(found: Findings, seen: Symptom) -> Part:
    """Read again, over twice the time, what grew most where the chain is stuck and right below: who holds it?"""
    for service in _stuck(found):
        grown = [change for change in found.shifts if change.service == service and change.fold > 0]
        if not grown:
            continue
        top = max(grown, key=lambda change: change.fold)
        reason = f"{top.metric} went from {_number(top.before)} to {_number(top.since)}: was it ever so before?"
        answer = yield from _metrics(found, service, top.metric, min(1440, 2 * seen.window_minutes), reason)
        if answer is not None:
            again = [change for change in shifts(answer, seen.onset) if change.is_strong]
            others = [change for change in found.shifts if (change.service, change.metric) != (service, top.metric)]
            found.shifts = [*others, *again]


def _stuck(found: Findings) -> list[str]:
    """The locus, and the services it depends on itself."""
    return [found.locus, *_depends_on(found, found.locus)] if found.locus is not None else []


def _depends_on(found: Findings, service: str) -> Sequence[str]:
    return found.statuses[service].depends_on if service in found.statuses else ()


def _find_change(found: Findings, seen: Symptom) -> Part:
    """Of the changes shortly before the first error, take the one since which a service does its own work otherwise."""
    related = (*found.chain, *neighbours(found.chain, found.statuses))
    at = found.first_error_at or seen.onset
    for suspect in suspects(found.statuses, related, at, within_minutes=_CHANGE_WINDOW_MINUTES)[:_MAX_SUSPECTS]:
        checked = yield from _compare_work(found, suspect, seen)
        found.suspects.append(checked)
    telling = [suspect for suspect in found.suspects if suspect.weight > 0]
    found.cause = max(telling, key=lambda suspect: suspect.weight, default=None)


def _compare_work(found: Findings, suspect: Suspect, seen: Symptom) -> Generator[Step, Answer, Suspect]:
    changed_at = instant(suspect.change.at)
    now = instant(found.statuses[suspect.service].now)
    # A minute too many rather than too few: what is left for "before" then holds nothing of the time since.
    since_minutes = int((now - changed_at).total_seconds() // 60) + 1
    window = min(1440, max(seen.window_minutes, 2 * since_minutes))
    reason = f"{suspect.name} came at {changed_at:%H:%M}: its work before"
    whole = yield from _logs(found, suspect.service, "", window, reason)
    later = yield from _logs(found, suspect.service, "", min(1440, since_minutes), "and its work since")
    if whole is None or later is None:
        return suspect
    if all(entry.service != suspect.service for entry in found.troubles):
        _note_trouble(found, whole, seen)
    return Suspect(service=suspect.service, change=suspect.change, differences=differences(whole, later, changed_at))


def _look_up_runbook(found: Findings) -> Part:
    words = symptom_words(found.troubles)[:4]
    labels = [value for change in _telling_shifts(found)[:3] for value in change.labels.values()]
    query = " ".join(dict.fromkeys([*words, *([found.locus] if found.locus else []), *labels]))[:500]
    if not query:
        return
    answer = yield from _read(found, RunbookAnswer, "search_runbook", {"query": query}, "what do we do about that?")
    if answer is not None:
        found.runbook_hits = answer.hits
        found.evidence += [
            Evidence(citation=hit.citation, source=hit.source, content=hit.content) for hit in answer.hits
        ]


# Asking


def _logs(found: Findings, service: str, query: str, window: int, reason: str) -> Reading[LogsAnswer]:
    arguments = {"service": service, "query": query, "window_minutes": window}
    return (yield from _read(found, LogsAnswer, "query_logs", arguments, reason))


def _metrics(found: Findings, service: str, metric: str, window: int, reason: str) -> Reading[MetricsAnswer]:
    arguments = {"service": service, "metric": metric, "window_minutes": window}
    return (yield from _read(found, MetricsAnswer, "query_metrics", arguments, reason))


def _read(
    found: Findings, result: type[Result], tool: str, arguments: Mapping[str, Any], reason: str
) -> Reading[Result]:
    answer = yield Step(tool=tool, arguments=arguments, reason=reason)
    if isinstance(answer, Failure):
        found.gaps.append(f"{tool} of {arguments.get('service', 'the runbooks')}: {answer.code}")
        return None
    return result.model_validate(dict(answer))


# The ticket


def ticket(found: Findings, seen: Symptom) -> dict[str, Any]:
    """Write the ticket: what is seen, where it is stuck, what was ruled out, what changed, what to do."""
    service = found.cause.service if found.cause else found.locus or seen.service
    about = f"after {found.cause.name}" if found.cause else f"stuck at {service}"
    title = f"{seen.service}: {seen.since.ratio:.0%} of requests fail since {seen.onset:%H:%M}, {about}"
    labels = ["incident", seen.service, found.locus, service, found.cause.change.change if found.cause else None]
    return {
        "title": title[:_MAX_TITLE],
        "service": service,
        "severity": severity(seen.since.ratio),
        "body": "\n".join(_body(found, seen))[:_MAX_BODY],
        "labels": list(dict.fromkeys(label[:40] for label in labels if label)),
    }


def _body(found: Findings, seen: Symptom) -> Iterable[str]:
    yield f"Symptom: {seen.since.errors} of {seen.since.of} requests at {seen.service} fail ({seen.since.ratio:.1%});"
    yield f"  before {seen.onset:%H:%M} UTC it was {seen.before.errors} of {seen.before.of}. Severity by that share."
    if found.first_error_at is not None:
        yield f"First error: {found.first_error_at:%H:%M:%S} UTC. On the path: {', '.join(found.chain)}."
    yield from _section("Errors that began then", (_trouble_in_words(entry) for entry in found.troubles))
    yield from _section("Changed with the onset", (_in_words(change) for change in _telling_shifts(found)[:8]))
    yield from _section("Ruled out", found.ruled_out)
    yield from _cause_in_words(found)
    yield from _section("Runbook", (f"{hit.citation} ({hit.source}): {hit.title}" for hit in found.runbook_hits))
    yield from _section("Could not be read", found.gaps)


def _section(heading: str, lines: Iterable[str]) -> Iterable[str]:
    listed = [f"- {line}" for line in lines]
    if listed:
        yield f"{heading}:"
        yield from listed


def _trouble_in_words(entry: Trouble) -> str:
    worst = entry.patterns[0]
    text = worst.fields.get("error", worst.message)
    return f"{entry.service}: {entry.count} lines, first {instant(worst.first_seen):%H:%M:%S}, such as: {text[:160]}"


def _telling_shifts(found: Findings) -> list[Shift]:
    """The strongest first, but those at the place where it is stuck, and right below, before all others."""
    stuck = _stuck(found)
    return sorted(found.shifts, key=lambda change: (change.service not in stuck, change.fold < 0, -abs(change.fold)))


def _in_words(change: Shift) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(change.labels.items()))
    unit = "/min" if change.kind == "counter" else ""
    moved = f"{_number(change.before)}{unit} -> {_number(change.since)}{unit}"
    return f"{change.service} {change.metric}{f' [{labels}]' if labels else ''}: {moved}, peak {_number(change.peak)}"


def _cause_in_words(found: Findings) -> Iterable[str]:
    cause = found.cause
    if cause is None:
        yield "Cause: not found. No change of a related service shows a difference in its work."
        return
    at, first = instant(cause.change.at), found.first_error_at
    ahead = f", {(first - at).total_seconds():.0f} s before the first error" if first else ""
    said = f' "{cause.change.note}"' if cause.change.note else ""
    yield f"Probable cause: {cause.name}, {cause.change.kind} at {at:%H:%M:%S} UTC{ahead}:{said}"
    for entry in cause.differences:
        flags = [f"{name}={before} -> {name}={since}" for name, before, since in entry.flags]
        numbers = [f"mean {name} {_number(before)} -> {_number(since)}" for name, before, since in entry.numbers]
        yield f'- since then "{entry.message}" with {", ".join([*flags, *numbers])}'
    yield from (f"- not {suspect.name}: it works as before" for suspect in found.suspects if suspect.weight == 0)
    back = f"to {cause.change.previous}" if cause.change.previous else "to what it was before"
    yield f"Proposed: take {cause.service} back {back}, and watch {found.locus}. Owner: {_owner(found, cause.service)}."


def _owner(found: Findings, service: str) -> str:
    return found.statuses[service].owner if service in found.statuses else "unknown"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
