"""The trace that a request to an upstream is part of, if the program takes part in one.

Only what names the trace goes out; `tracestate` and baggage, which are others' words, do not.
"""

from __future__ import annotations

import sys
from typing import Any


def named_trace() -> dict[str, str]:
    """The member of `_meta`, or the header, that names the span that is open; nothing where there is none."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:  # nobody in this process can have opened one
        return {}
    if not trace.get_current_span().get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    try:
        from opentelemetry import propagate  # whoever opens a span need not have imported it

        propagate.inject(carrier)
    except Exception:  # the environment names a propagator that is not installed: no reason to keep a call
        return {}
    return {"traceparent": carrier["traceparent"]} if "traceparent" in carrier else {}
