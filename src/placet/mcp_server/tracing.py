"""A call's part in its caller's trace: the trace a client names in `_meta`, on record and as the span's parent.

Nothing of a message is in a span but its method, and the name of a tool that its caller may see: text that a client
made up, arguments, results and what an exception says are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, StatusCode, get_tracer

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
_tracer = get_tracer("placet.mcp")


def trace_of(meta: Mapping[str, Any]) -> str | None:
    """The caller's trace and span as a request id, so that the audit and the trace can be found from each other."""
    said = meta.get("traceparent")
    found = _TRACEPARENT.fullmatch(said) if type(said) is str else None
    return None if found is None else f"trace-{found[1]}-{found[2]}"


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
