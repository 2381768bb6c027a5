"""The trace that a request to an upstream is part of, if the program takes part in one.

Only what names the trace goes out; `tracestate` and baggage, which are others' words, do not.
"""

from __future__ import annotations

import sys
from typing import Any


def named_trace() -> dict[str, str]:
    """The member of `_meta`, or the header, that names the span that is open; nothing where there is none."""
    propagate: Any = sys.modules.get("opentelemetry.propagate")
    if propagate is None:  # nobody in this process can have opened one
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {"traceparent": carrier["traceparent"]} if "traceparent" in carrier else {}
