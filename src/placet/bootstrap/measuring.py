"""Who counts: nobody, or a registry that the program passes in."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from pathlib import Path
from typing import TYPE_CHECKING

from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap.addresses import MEMORY, is_address
from placet.bootstrap.joined import Joined
from placet.errors import MisuseError
from placet.ports.meter import Meter, UpstreamMeter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def meter_of(
    metrics: CollectorRegistry | None, *, tools: Collection[str], sinks: Collection[str], store: str | Path
) -> Meter:
    """
    Raises:
        MisuseError: it is no registry.
    """
    if metrics is None:
        return QuietMeter()
    from prometheus_client import CollectorRegistry

    from placet.adapters.telemetry.metrics import PrometheusMeter

    if not issubclass(type(metrics), CollectorRegistry):
        raise MisuseError("metrics= is a prometheus_client.CollectorRegistry.")
    return PrometheusMeter(metrics, tools=tools, sinks=sinks, store=_name_of_store(store))


def upstream_meter_of(metrics: CollectorRegistry | None, upstreams: Collection[Joined]) -> UpstreamMeter:
    from placet.adapters.telemetry.upstream_metrics import PrometheusUpstreamMeter, QuietUpstreamMeter

    if metrics is None or not upstreams:
        return QuietUpstreamMeter()
    return PrometheusUpstreamMeter(metrics, servers=[each.name for each in upstreams])


def _name_of_store(where: str | Path) -> Hashable:
    """Equal for gates of one store, and for no others; a store in memory is its gate's own."""
    if str(where) == MEMORY:
        return object()
    return str(where) if is_address(where) else str(Path(where).resolve())
