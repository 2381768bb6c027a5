"""A call's part in its caller's trace: the trace a client names in `_meta`, on record and as the span's parent.

A call that waits for a person has no span meanwhile. Its context goes with whoever asks again, sealed in the state or
in `io.placet/trace`; what then runs is a new span in the same trace, linked to the one that ended (CASES N09):

    trace A   tools/call pay ── ended: a person has to approve
                     └──────── tools/call pay, resumed: linked to it, and to the message that came back (trace B)

Nothing of a message is in a span but its method, and the name of a tool that its caller may see: text that a client
made up, arguments, results and what an exception says are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, get_current_span, get_tracer

from placet.model.serving import ResumedTraces

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
_tracer = get_tracer("placet.mcp")


def trace_of(meta: Mapping[str, Any]) -> str | None:
    """The caller's trace and span as a request id, so that the audit and the trace can be found from each other."""
    said = meta.get("traceparent")
    found = _TRACEPARENT.fullmatch(said) if type(said) is str else None
    return None if found is None else f"trace-{found[1]}-{found[2]}"


def is_traceparent(value: object) -> bool:
    """Whether it names a span, as `traceparent` does."""
    return type(value) is str and _TRACEPARENT.fullmatch(value) is not None


def here() -> str | None:
    """The span that is open now, as `traceparent` names it; its client's own, where nobody records spans here."""
    carrier: dict[str, str] = {}
    inject(carrier)
    named = carrier.get("traceparent")
    return named if is_traceparent(named) else None


@contextmanager
def resumed(paused: str | None, *, tool: str, run: str | None, how: ResumedTraces) -> Iterator[None]:
    """What goes on of a call that was paused, in a span that is linked to the one it was paused in.

    Args:
        paused: the span in which it was asked for first; None: it was not paused.
        tool: whose caller may see it.
        run: None if its client named it.
    """
    if paused is None:
        yield
        return
    before = extract({"traceparent": paused}, context=Context())
    link, message = Link(get_current_span(before).get_span_context()), get_current_span()
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    if run is not None:
        said["placet.run_id"] = run
    is_elsewhere = message.get_span_context().trace_id != link.context.trace_id
    links = [link]
    if is_elsewhere and message.get_span_context().is_valid:
        links.append(Link(message.get_span_context()))
    with _tracer.start_as_current_span(
        f"resumed {tool}",
        context=before if is_elsewhere and how is ResumedTraces.SAME_TRACE else None,
        kind=SpanKind.INTERNAL,
        attributes=said,
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ):
        yield


@contextmanager
def span_of(method: str, tool: str | None, meta: Mapping[str, Any], *, version: str) -> Iterator[Span]:
    """The span of one message. What is raised inside leaves it without its text.

    Args:
        method: one of the protocol's; anything else is named by a fixed word.
    """
    attributes = {"mcp.method.name": method, "mcp.protocol.version": version}
    if tool is not None:
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    parent = {"traceparent": meta["traceparent"]} if trace_of(meta) is not None else {}
    with _tracer.start_as_current_span(
        method if tool is None else f"{method} {tool}",
        context=extract(parent) if parent else None,
        kind=SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def mark_failed(span: Span, kind: str) -> None:
    """Say in a span that it came to nothing; `kind`: one of a few fixed words."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
