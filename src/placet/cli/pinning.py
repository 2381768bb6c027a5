"""What the project's upstreams say now, beside what was accepted of them; the servers are asked all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placet.cli.failing import UsageProblem
from placet.cli.project import open_project
from placet.cli.settings import Settings
from placet.errors import ManifestError, PlacetError
from placet.model.pins import Definition, Pin, Pins, PinState
from placet.model.upstreams import Manifest, OpenApiWay, Upstream
from placet.rules.standings import ToolStanding, standings

if TYPE_CHECKING:
    from placet.engine.gate import Gate

BY_DOCUMENT = "document"
"""Who accepted the operations of an OpenAPI document: it is a file of the project, and reviewed with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One upstream, as it was found.

    Attributes:
        standings: of each of its tools.
        problems: what keeps something of it from being known, each in one line.
    """

    upstream: Upstream
    standings: tuple[ToolStanding, ...]
    problems: tuple[str, ...]


def upstream_named(settings: Settings, name: str) -> Upstream:
    """
    Raises:
        UsageProblem: no upstream of this name is declared.
    """
    from difflib import get_close_matches

    names = [each.name for each in settings.upstreams]
    found = next((each for each in settings.upstreams if each.name == name), None)
    if found is not None:
        return found
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageProblem(
        f"No upstream is named {name!r} in placet.toml.{meant}",
        hint=f"Declared: {', '.join(names)}" if names else "placet mcp add NAME -- COMMAND",
    )


async def looked_at(
    settings: Settings, upstreams: Sequence[Upstream], *, ask: bool, tenant: str | None = None
) -> tuple[Look, ...]:
    """Each upstream as it stands; without `ask`, from the files and the store alone.

    Args:
        tenant: as whose servers are asked; None: as nobody's, or the first one's that has a way in of its own.

    Raises:
        UsageProblem: an upstream is not for this tenant.
    """
    async with open_project(settings, ()) as gate:
        return await looks(gate, upstreams, ask=ask, tenant=tenant)


async def looks(gate: Gate, upstreams: Sequence[Upstream], *, ask: bool, tenant: str | None = None) -> tuple[Look, ...]:
    """The same, through a gate that is open."""
    for each in upstreams:
        if tenant is not None and each.tenants is not None and tenant not in each.tenants:
            raise UsageProblem(f"{each.name!r} is not for the tenant {tenant!r}.")
    pins, quarantined = gate.pins.pins(), await gate.pins.quarantined()
    told = [] if pins.fault is None else [f"the file of pins is not believed: {pins.fault.value}"]
    found = await asyncio.gather(*(_described(each, tenant) if ask else _unasked(each) for each in upstreams))
    return tuple(
        _look(each, pins, quarantined, live, [*told, *problems])
        for each, (live, problems) in zip(upstreams, found, strict=True)
    )


def _look(
    upstream: Upstream,
    pins: Pins,
    quarantined: frozenset[str],
    live: tuple[Definition, ...] | None,
    problems: list[str],
) -> Look:
    manifest, lacking = _manifest_of(upstream)
    if isinstance(upstream.way, OpenApiWay):
        pins = _of_document(live or ())
    found = standings(upstream.name, pins=pins, manifest=manifest, live=live, quarantined=quarantined)
    return Look(upstream=upstream, standings=found, problems=tuple(problems + lacking))


def _of_document(definitions: Sequence[Definition]) -> Pins:
    """What a document says is what was accepted, with it."""
    from placet.bootstrap.declared import pins_of_document

    return pins_of_document(definitions)


def _manifest_of(upstream: Upstream) -> tuple[Manifest | None, list[str]]:
    from placet.bootstrap.declared import manifest_of

    try:
        return manifest_of(upstream), []
    except ManifestError as error:
        return None, [str(error)]


async def _described(upstream: Upstream, tenant: str | None) -> tuple[tuple[Definition, ...] | None, list[str]]:
    from placet.bootstrap.declared import described

    try:
        return await described(upstream, tenant=tenant), []
    except PlacetError as error:
        return None, [str(error)]


async def _unasked(upstream: Upstream) -> tuple[tuple[Definition, ...] | None, list[str]]:
    """A document is a file of the project: it is read all the same."""
    return await _described(upstream, None) if isinstance(upstream.way, OpenApiWay) else (None, [])


def pin_text(pin: Pin | None) -> str:
    """Enough of a digest to name it by."""
    return "-" if pin is None else pin.digest[:12]


def state_text(standing: ToolStanding) -> str:
    match standing.state:
        case PinState.NO_TERMS:
            return "no manifest entry"
        case PinState.NEW if standing.effect is None:
            return "new, no terms"
        case state:
            return state.value.replace("_", " ")
