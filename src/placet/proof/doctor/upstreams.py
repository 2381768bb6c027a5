"""Whether what is declared of upstreams fits what was accepted of them. No server is started or asked."""

from __future__ import annotations

from collections.abc import Iterator

from placet.bootstrap.declared import accepted_under, lacking, manifest_of, unfit_in_document
from placet.errors import ManifestError, PlacetError
from placet.model.pins import PinFault, Pins
from placet.model.stopping import StopScope
from placet.model.upstreams import Manifest, OpenApiWay, Upstream
from placet.ports.examining import Examination
from placet.ports.keys import Keys, KeyState
from placet.proof.doctor.checks import Check, Patient, Saying, fail, ok, skipped, warn
from placet.rules.showing import escape_for_people
from placet.rules.upstream_names import contract_names
from placet.rules.upstream_tools import unfit

_MOST_NAMED = 5
_NONE = "no upstream is declared"


def _reached(patient: Patient) -> Saying:
    upstreams = patient.deployment.upstreams
    if not upstreams:
        return ok(_NONE)
    found = [f"{each.name}: {what}" for each in upstreams for what in lacking(each)]
    if found:
        return warn(f"upstreams lack what they need: {_some(found)}", "Until it is there, their calls are not sent.")
    return ok(f"{len(upstreams)} upstreams have what they need here")


def _manifests(patient: Patient) -> Saying:
    upstreams = patient.deployment.upstreams
    if not upstreams:
        return ok(_NONE)
    for each in upstreams:
        try:
            manifest_of(each)
        except ManifestError as error:
            return fail(str(error).rstrip("."), error.hint)
    return ok(f"{len(upstreams)} manifests can be read")


def _pins(patient: Patient) -> Saying:
    servers = _servers(patient)
    if not servers:
        return ok("no MCP upstream is declared")
    if isinstance(patient.keys, PlacetError):
        return skipped("without the key nothing that was accepted can be believed")
    pins = _read(patient, patient.keys)
    if pins.fault is not None:
        return fail(
            "the file of pins cannot be read, so no tool of an upstream is served",
            "Put the last good one back, or move it away and accept the tools anew: placet mcp accept NAME",
        )
    if altered := [each for each in pins.spoilt if each.fault is not PinFault.OTHER_KEY]:
        return fail(
            f"pins are not what was signed: {_some([f'{each.server} {each.tool}' for each in altered])}",
            "Find out who can write the file; then look, and accept anew: placet mcp diff NAME",
        )
    if foreign := [f"{each.server} {each.tool}" for each in pins.spoilt]:
        return warn(
            f"pins were signed with a key that is not here: {_some(foreign)}",
            "Look at what this deployment would serve, and accept it here: placet mcp accept NAME",
        )
    if unpinned := list(_unpinned(servers, pins)):
        return warn(f"hidden, since nobody has accepted them: {_some(unpinned)}", "placet mcp diff NAME, then accept")
    keys = patient.keys
    if old := [f"{s} {t}" for (s, t), pin in pins.pins.items() if keys.state_of(pin.key_id) is not KeyState.CURRENT]:
        return warn(
            f"pins were signed with an old key, and are worth nothing once it is retired: {_some(old)}",
            "Accept them anew before that: placet mcp accept NAME TOOL",
        )
    return ok(f"{len(pins.pins)} tools of upstreams are accepted")


def _terms(patient: Patient) -> Saying:
    if odd := list(_unfit(patient)):
        return warn(
            f"hidden, since their texts have what nobody sees: {_some(odd)}",
            "Whoever keeps the server, or the document, can describe them otherwise.",
        )
    servers = _servers(patient)
    if not servers or isinstance(patient.keys, PlacetError):
        return ok("no MCP upstream is declared") if not servers else skipped("what was accepted is not known")
    pins = _read(patient, patient.keys)
    if hidden := [
        f"{each.name} {tool}"
        for each in servers
        for tool in sorted(pins.of(each.name).keys() - _terms_of(each).terms.keys())
    ]:
        return warn(
            f"hidden, since the manifest says nothing of them: {_some(hidden)}",
            "Say on which terms: [tools.NAME] in the upstream's manifest.",
        )
    return ok("every tool that was accepted has terms")


def _quarantined(patient: Patient) -> Saying:
    servers = _servers(patient)
    if not servers:
        return ok("no MCP upstream is declared")
    if isinstance(patient.keys, PlacetError) or isinstance(patient.store, PlacetError):
        return skipped("what is quarantined is not known")
    found = list(_in_quarantine(servers, _read(patient, patient.keys), patient.store))
    if found:
        return warn(
            f"refused, since they were quarantined: {_some(found)}",
            "Look at what their servers say now: placet mcp diff NAME; placet mcp accept NAME TOOL ends it.",
        )
    return ok("no accepted tool is quarantined")


# ---------------------------------------------------------------- within


def _servers(patient: Patient) -> tuple[Upstream, ...]:
    """Those whose words have to be accepted."""
    return tuple(each for each in patient.deployment.upstreams if not isinstance(each.way, OpenApiWay))


def _read(patient: Patient, keys: Keys) -> Pins:
    file = patient.deployment.pins
    return Pins() if file is None else accepted_under(file, keys=keys)


def _terms_of(upstream: Upstream) -> Manifest:
    try:
        return manifest_of(upstream)
    except ManifestError:  # another line says so
        return Manifest(server=upstream.name, terms={})


def _unpinned(servers: tuple[Upstream, ...], pins: Pins) -> Iterator[str]:
    for each in servers:
        for tool in sorted(_terms_of(each).terms.keys() - pins.of(each.name).keys()):
            yield f"{each.name} {tool}"


def _unfit(patient: Patient) -> Iterator[str]:
    """Tools that were accepted, or stand in a document, and that nobody could accept as they are."""
    pins = Pins() if isinstance(patient.keys, PlacetError) else _read(patient, patient.keys)
    for each in patient.deployment.upstreams:
        manifest = _terms_of(each)
        for tool in unfit_in_document(each, manifest) or unfit(pins, manifest):
            yield f"{each.name} {tool}"


def _in_quarantine(servers: tuple[Upstream, ...], pins: Pins, store: Examination) -> Iterator[str]:
    stopped = frozenset(store.stops())
    for each in servers:
        accepted = pins.of(each.name)
        for tool, name in contract_names(each.name, accepted).items():
            if StopScope.quarantine(name, accepted[tool].digest).key in stopped:
                yield f"{each.name} {tool}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(escape_for_people(each) for each in names[:_MOST_NAMED]) + more


CHECKS = (
    Check(id="upstreams", about="what upstreams need of this machine", look=_reached),
    Check(id="upstream_manifests", about="the terms for their tools", look=_manifests),
    Check(id="upstream_pins", about="what was accepted of them", look=_pins),
    Check(id="upstream_terms", about="accepted tools that are hidden", look=_terms),
    Check(id="upstream_quarantine", about="tools that are refused", look=_quarantined),
)
