"""What a process has around its gates: a clock, its log, and the sink that writes there."""

from __future__ import annotations

from placet.adapters.clock import SystemClock
from placet.adapters.sinks.log import LogSink
from placet.adapters.telemetry.logs import configure as configure_logging
from placet.ports.clock import Clock

__all__ = ["LogSink", "configure_logging", "system_clock"]


def system_clock() -> Clock:
    """This machine's clock, for front doors that wait."""
    return SystemClock()
