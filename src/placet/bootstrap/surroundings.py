"""What a process has around its gates: a clock, its log, the sink that writes there, and numbers of its front doors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from placet.adapters.clock import RandomIds, SystemClock
from placet.adapters.sinks.log import LogSink
from placet.adapters.telemetry.logs import configure as configure_logging
from placet.adapters.telemetry.quiet import QuietHttpMeter
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import HttpMeter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["LogSink", "configure_logging", "http_meter", "metrics_page", "random_ids", "system_clock"]


def system_clock() -> Clock:
    """This machine's clock, for front doors that wait."""
    return SystemClock()


def random_ids() -> IdSource:
    """Fresh names from the operating system's randomness."""
    return RandomIds()


def http_meter(registry: CollectorRegistry | None, *, routes: Collection[str]) -> HttpMeter:
    """What counts the requests of a front door with these addresses; nothing without a registry."""
    if registry is None:
        return QuietHttpMeter()
    from placet.adapters.telemetry.http_metrics import PrometheusHttpMeter

    return PrometheusHttpMeter(registry, routes=routes)


def metrics_page(registry: CollectorRegistry) -> Callable[[], bytes]:
    """What writes the numbers of a registry as Prometheus reads them."""
    from prometheus_client import generate_latest

    return lambda: generate_latest(registry)
