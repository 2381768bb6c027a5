"""How each tool of an upstream stands: what was accepted of it, what its server says now, and what is to be done.

Source: CASES B06, L01; DESIGN section 17.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from placet.errors import ContractError
from placet.model.contract import EffectClass, Risk
from placet.model.pins import Definition, Pin, PinFault, Pins, PinState, SpoiltPin
from placet.model.stopping import StopScope
from placet.model.upstreams import Manifest, ToolTerms
from placet.rules.pins import compared, is_fit, raised, refuse_unfit
from placet.rules.upstream_names import contract_names
from placet.rules.upstream_tools import refuse_unservable


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStanding:
    """One tool of an upstream.

    Attributes:
        tool: the server's own name of it.
        name: of its contract; None where it can have none.
        pin: what was accepted; None where nothing was, or it is not believed.
        seen: what the server says now; None where it says nothing of it, or was not asked.
        effect, risk: as the contract would have them; None without terms.
        is_raised: whether they are graver than the terms, by the server's own hints.
        problem: why it cannot be accepted, or served, as it is; None if nothing is in the way but what `state` says.
        fault: why what the file of pins has of it is not believed; None where it is, or has nothing.
    """

    server: str
    tool: str
    name: str | None
    state: PinState
    pin: Pin | None
    seen: Definition | None = field(default=None)
    effect: EffectClass | None = None
    risk: Risk | None = None
    is_raised: bool = False
    permission: str | None = None
    problem: str | None = None
    fault: PinFault | None = None

    @property
    def may_be_accepted(self) -> bool:
        """Whether there is something new to accept, and nothing in the way."""
        return self.seen is not None and self.problem is None and self.state in (PinState.NEW, PinState.CHANGED)


def standings(
    server: str,
    *,
    pins: Pins,
    manifest: Manifest | None,
    live: Collection[Definition] | None,
    quarantined: Collection[str],
) -> tuple[ToolStanding, ...]:
    """Every tool that was accepted, that has terms, or that the server describes, by name.

    Args:
        manifest: None where there is none.
        live: what the server says now; None where it was not asked.
        quarantined: the keys of the quarantines in force.
    """
    accepted = pins.of(server)
    seen = {each.tool: each for each in live or ()}
    spoilt = {each.tool: each for each in pins.spoilt if each.server == server}
    terms = {} if manifest is None else manifest.terms
    every = {*accepted, *seen, *spoilt, *terms}
    names = contract_names(server, every)
    changed = {} if live is None else {each.tool for each in compared(server, accepted, live).changed}
    return tuple(
        _standing(
            server,
            tool,
            names=names,
            pin=accepted.get(tool),
            terms=terms.get(tool),
            seen=seen.get(tool),
            spoilt=spoilt.get(tool),
            is_changed=tool in changed,
            is_asked=live is not None,
            quarantined=quarantined,
        )
        for tool in sorted(every)
    )


def _standing(
    server: str,
    tool: str,
    *,
    names: Mapping[str, str],
    pin: Pin | None,
    terms: ToolTerms | None,
    seen: Definition | None,
    spoilt: SpoiltPin | None,
    is_changed: bool,
    is_asked: bool,
    quarantined: Collection[str],
) -> ToolStanding:
    name = names.get(tool)
    definition = seen if seen is not None else None if pin is None else pin.definition
    hints = {} if definition is None else definition.annotations
    effect, risk = (None, None) if terms is None else raised(terms.effect, terms.risk, hints)
    return ToolStanding(
        server=server,
        tool=tool,
        name=name,
        state=_state(name, pin, terms, seen, is_changed=is_changed, is_asked=is_asked, quarantined=quarantined),
        pin=pin,
        seen=seen,
        effect=effect,
        risk=risk,
        is_raised=terms is not None and (effect, risk) != (terms.effect, terms.risk),
        permission=None if terms is None else terms.permission,
        problem=_problem(name, pin, terms, seen),
        fault=None if spoilt is None else spoilt.fault,
    )


def _state(
    name: str | None,
    pin: Pin | None,
    terms: ToolTerms | None,
    seen: Definition | None,
    *,
    is_changed: bool,
    is_asked: bool,
    quarantined: Collection[str],
) -> PinState:
    """The first of these that holds is what somebody has to do something about."""
    if pin is None:
        return PinState.NEW if seen is not None or not is_asked else PinState.GONE
    if is_changed:
        return PinState.CHANGED
    if name is not None and StopScope.quarantine(name, pin.digest).key in quarantined:
        return PinState.QUARANTINED
    if is_asked and seen is None:
        return PinState.GONE
    if not is_fit(pin.definition):
        return PinState.UNFIT
    return PinState.ACCEPTED if terms is not None else PinState.NO_TERMS


def _problem(name: str | None, pin: Pin | None, terms: ToolTerms | None, seen: Definition | None) -> str | None:
    """What keeps the tool from being accepted as the server describes it now, or served as it was accepted."""
    if name is None:
        return "no tool can have its name, or another one has the same"
    definition = seen if seen is not None else None if pin is None else pin.definition
    if definition is None:
        return None
    try:
        refuse_unfit(definition)
        if terms is not None:
            refuse_unservable(definition, terms, name=name)
    except ContractError as error:
        return str(error)
    return None
