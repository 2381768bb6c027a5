"""Which trace a request is part of, in a program that has imported nothing but what opens a span."""

import os
import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import sys
from placet.adapters.transports.traces import named_trace
assert named_trace() == {}
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span
assert named_trace() == {} and "opentelemetry.propagate" not in sys.modules
with use_span(NonRecordingSpan(SpanContext(int("a1" * 16, 16), int("b2" * 8, 16), is_remote=False))):
    print(named_trace())
"""
NAMED: Final = {"traceparent": f"00-{'a1' * 16}-{'b2' * 8}-00"}


@pytest.mark.parametrize(
    ("propagators", "said"),
    [("tracecontext", NAMED), ("none", {}), ("not-installed", {})],
    ids=["the usual", "none", "one that is not there"],
)
def test_whoever_opens_a_span_has_it_named_and_need_import_nothing_else(propagators: str, said: object) -> None:
    environment = {**os.environ, "OTEL_PROPAGATORS": propagators}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert ran.stdout.strip() == repr(said)
