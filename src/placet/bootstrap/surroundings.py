"""What a process has around its gates: a clock, its log, the sink that writes there, and numbers of its front doors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from placet.adapters.clock import RandomIds, SystemClock
from placet.adapters.sinks.log import LogSink
from placet.adapters.telemetry.logs import configure as configure_logging
from placet.adapters.telemetry.quiet import QuietHttpMeter, QuietMcpMeter
from placet.ports.clock import Clock, IdSource
from placet.ports.meter import HttpMeter, McpMeter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.adapters.telemetry.knowledge_metrics import PrometheusKnowledgeMeter

__all__ = [
    "LogSink",
    "configure_logging",
    "http_meter",
    "knowledge_meter",
    "mcp_meter",
    "metrics_page",
    "random_ids",
    "system_clock",
]


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


def mcp_meter(registry: CollectorRegistry | None, *, methods: Collection[str], outcomes: Collection[str]) -> McpMeter:
    """What counts the messages of the MCP front door; nothing without a registry."""
    if registry is None:
        return QuietMcpMeter()
    from placet.adapters.telemetry.mcp_metrics import PrometheusMcpMeter

    return PrometheusMcpMeter(registry, methods=methods, outcomes=outcomes)


def knowledge_meter(registry: CollectorRegistry) -> PrometheusKnowledgeMeter:
    """What counts building and searching of knowledge bases, and the models that are asked, into a registry.

    Give it to `Library(meter=)` and `OpenAICompatible(meter=)`. That evidence was not enough is known to whoever asked
    `placet.knowledge.lacking`, and is said by `meter.refused(reason=...)`.
    """
    from placet.adapters.telemetry.knowledge_metrics import PrometheusKnowledgeMeter

    return PrometheusKnowledgeMeter(registry, clock=SystemClock())


def metrics_page(registry: CollectorRegistry) -> Callable[[], bytes]:
    """What writes the numbers of a registry as Prometheus reads them."""
    from prometheus_client import generate_latest

    return lambda: generate_latest(registry)
