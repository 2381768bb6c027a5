"""Which handlers run in processes of their own, and what runs them; loaded only where a tool asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.adapters.transports.python import PythonTransport
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.model.contract import Isolation
from placet.ports.clock import Clock
from placet.ports.meter import Meter
from placet.ports.transport import Transport
from placet.rules.contracts import Tool

if TYPE_CHECKING:
    from placet.adapters.transports.process import ProcessTransport


def process_tools(registry: Registry) -> list[Tool]:
    """Those whose handlers run in processes of their own."""
    return [tool for tool in registry.tools.values() if tool.contract.isolation is Isolation.PROCESS]


def apart_of(registry: Registry, settings: GateSettings, *, clock: Clock, meter: Meter) -> ProcessTransport | None:
    """Whoever runs handlers in processes of their own, if any is to run so."""
    tools = process_tools(registry)
    if not tools:
        return None
    from placet.adapters.transports.process import ProcessTransport

    return ProcessTransport(
        tools,
        meter=meter,
        clock=clock,
        grace_seconds=settings.grace_seconds,
        spare_processes=settings.spare_processes,
    )


def by_isolation(here: PythonTransport, apart: ProcessTransport) -> Transport:
    from placet.adapters.transports.by_isolation import TransportByIsolation

    return TransportByIsolation(here=here, apart=apart)
