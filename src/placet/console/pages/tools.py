"""The tools that a person may see: what each may do, and of those of upstreams what was accepted, by whom, and how it
stands."""

from __future__ import annotations

from starlette.responses import Response

from placet.console.visit import Visit
from placet.model.pins import PinState

PIN_WORDS = {
    PinState.ACCEPTED: "accepted",
    PinState.QUARANTINED: "quarantined: refused until it is accepted anew",
    PinState.CHANGED: "accepted otherwise since; served once this process is started anew",
    PinState.NEW: "not accepted any more",
}


async def tools(visit: Visit) -> Response:
    contracts = visit.gate.tools_for(visit.by)
    return visit.page(
        "tools.html.jinja",
        tools=contracts,
        pins=await visit.gate.pins.views(contracts),
        pin_words=PIN_WORDS,
    )
