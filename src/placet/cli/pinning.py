"""What the project's upstreams say now, beside what was accepted of them; the servers are asked all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placet.cli.extras import require_mcp
from placet.cli.failing import UsageProblem
from placet.cli.project import open_project
from placet.cli.screen import shown
from placet.cli.settings import Settings
from placet.errors import ManifestError, PlacetError
from placet.model.pins import Definition, Pin, Pins, PinState
from placet.model.stopping import StopScope
from placet.model.upstreams import Manifest, OpenApiWay, Upstream
from placet.rules.standings import ToolStanding, standings
from placet.rules.upstream_names import contract_names

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
        fault: why it could not be asked what it says now; None where it was, or was not to be.
        quarantined_by: who put a tool into quarantine by hand; of another one its server said otherwise.
    """

    upstream: Upstream
    standings: tuple[ToolStanding, ...]
    problems: tuple[str, ...]
    fault: PlacetError | None
    quarantined_by: Mapping[str, str]


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
        ConfigurationError: a server is to be asked, and the library for it is not installed.
    """
    if ask:
        require_askable(upstreams)
    async with open_project(settings, ()) as gate:
        return await looks(gate, upstreams, ask=ask, tenant=tenant)


async def looks(gate: Gate, upstreams: Sequence[Upstream], *, ask: bool, tenant: str | None = None) -> tuple[Look, ...]:
    """The same, through a gate that is open."""
    for each in upstreams:
        if tenant is not None and each.tenants is not None and tenant not in each.tenants:
            raise UsageProblem(f"{each.name!r} is not for the tenant {tenant!r}.")
    pins, people = gate.pins.pins(), await _who_quarantined(gate)
    told = [] if pins.fault is None else [f"the file of pins is not believed: {pins.fault.value}"]
    found = await asyncio.gather(*(_described(each, tenant) if ask else _unasked(each) for each in upstreams))
    return tuple(
        _look(each, pins, people, live, told, fault) for each, (live, fault) in zip(upstreams, found, strict=True)
    )


def _look(
    upstream: Upstream,
    pins: Pins,
    people: Mapping[str, str | None],
    live: tuple[Definition, ...] | None,
    told: Sequence[str],
    fault: PlacetError | None,
) -> Look:
    manifest, lacking = _manifest_of(upstream)
    if isinstance(upstream.way, OpenApiWay):
        pins = _of_document(live or ())
    found = standings(upstream.name, pins=pins, manifest=manifest, live=live, quarantined=people.keys())
    problems = (*told, *([] if fault is None else [str(fault)]), *lacking)
    by = {each.tool: person for each in found if (person := _who(each, people)) is not None}
    return Look(upstream=upstream, standings=found, problems=problems, fault=fault, quarantined_by=by)


async def _who_quarantined(gate: Gate) -> dict[str, str | None]:
    """The quarantines in force, by their keys: who began each by hand; None of what was seen described otherwise."""
    records, keys = await gate.store.stop_records(), await gate.pins.quarantined()
    who = {each.scope: None if each.note is None else each.note.subject for each in records}
    return {key: who.get(key) for key in keys}


def _who(standing: ToolStanding, people: Mapping[str, str | None]) -> str | None:
    if standing.state is not PinState.QUARANTINED or standing.pin is None or standing.name is None:
        return None
    return people.get(StopScope.quarantine(standing.name, standing.pin.digest).key)


def require_askable(upstreams: Sequence[Upstream]) -> None:
    """
    Raises:
        ConfigurationError: one of them is an MCP server, and the library that asks such is not installed.
    """
    if not all(isinstance(each.way, OpenApiWay) for each in upstreams):
        require_mcp("Asking MCP servers")


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


async def _described(
    upstream: Upstream, tenant: str | None
) -> tuple[tuple[Definition, ...] | None, PlacetError | None]:
    from placet.bootstrap.declared import described

    try:
        return await described(upstream, tenant=tenant), None
    except PlacetError as error:
        return None, error


async def _unasked(upstream: Upstream) -> tuple[tuple[Definition, ...] | None, PlacetError | None]:
    """A document is a file of the project: it is read all the same."""
    return await _described(upstream, None) if isinstance(upstream.way, OpenApiWay) else (None, None)


def hidden_tools(settings: Settings, served: Collection[str]) -> int:
    """How many tools that a manifest has terms for are not among those served. No server is asked."""
    manifests = [(each.name, _manifest_of(each)[0]) for each in settings.upstreams]
    names = [contract_names(server, manifest.terms) for server, manifest in manifests if manifest is not None]
    return sum(name not in served for each in names for name in each.values())


def pin_text(pin: Pin | None) -> str:
    """Enough of a digest to name it by."""
    return "-" if pin is None else pin.digest[:12]


def state_text(standing: ToolStanding, *, quarantined_by: str | None) -> str:
    match standing.state:
        case PinState.QUARANTINED if quarantined_by is not None:
            return f"quarantined by {shown(quarantined_by)}"
        case PinState.QUARANTINED:
            return "quarantined: described otherwise"
        case PinState.NO_TERMS:
            return "no manifest entry"
        case PinState.NEW if standing.effect is None:
            return "new, no terms"
        case state:
            return state.value.replace("_", " ")
