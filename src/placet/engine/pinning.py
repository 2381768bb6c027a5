"""People accept what a server says of its tools, and quarantine what they accepted.

accepted  on record ── signed into the file of pins ── the quarantine of this very definition, if there is one, ends
──────    a crash in between leaves less than was said: the record names a definition that nobody can call yet
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placet.engine.chronicle import Chronicle
from placet.engine.quarantine import BY_HAND, REPLACED, Quarantine, shown_digest
from placet.engine.results import row_binding
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.audit import AuditEvent, EventKind
from placet.model.contract import Contract, Origin
from placet.model.exact import is_whole, ordered
from placet.model.pins import Definition, Pin, PinFault, Pins, PinState, SpoiltPin
from placet.model.principal import Principal, Standing, is_principal
from placet.model.stopping import StopLeave, StopNote, StopScope
from placet.ports.keys import Keys
from placet.ports.pins import PinShelf
from placet.ports.store import Store
from placet.rules.pin_differences import Difference, differences
from placet.rules.pins import definition_digest, refuse_unfit
from placet.rules.upstream_names import contract_name

ACCEPT_SCOPE: Final = "upstreams.accept"
"""Lets a person accept what servers say of their tools, for every tenant, and quarantine what was accepted."""
MAX_REASON_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PinView:
    """How a tool of an upstream that is served here stands.

    Attributes:
        state: accepted; quarantined; changed: another definition was accepted since this process began; new: nothing
            is accepted of it any more, or not believed.
        accepted_by, accepted_at: of what is accepted now; None where nothing is.
        differences: of what its server said otherwise, where this process has seen it.
    """

    origin: Origin
    state: PinState
    accepted_by: str | None
    accepted_at: datetime | None
    differences: tuple[Difference, ...]


class PinDesk:
    """Accepts and quarantines. Needs a person's own sign-in; an agent never has a say in what its tools are."""

    def __init__(
        self, *, shelf: PinShelf, store: Store, keys: Keys, chronicle: Chronicle, quarantine: Quarantine
    ) -> None:
        self._shelf = shelf
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._quarantine = quarantine

    def pins(self) -> Pins:
        """What is accepted and believed."""
        return self._shelf.read()

    async def views(self, contracts: Iterable[Contract]) -> dict[str, PinView]:
        """How the tools of upstreams among these stand, by the names of their contracts."""
        pins, quarantined = self._shelf.read().pins, await self.quarantined()
        return {
            contract.name: self._view(contract.name, contract.origin, pins, quarantined)
            for contract in contracts
            if contract.origin is not None
        }

    def _view(
        self, name: str, origin: Origin, pins: Mapping[tuple[str, str], Pin], quarantined: frozenset[str]
    ) -> PinView:
        pin = pins.get((origin.server, origin.tool))
        is_same = pin is not None and pin.digest == origin.pin
        if pin is not None and not is_same:
            state = PinState.CHANGED
        elif StopScope.quarantine(name, origin.pin).key in quarantined:
            state = PinState.QUARANTINED
        else:
            state = PinState.NEW if pin is None else PinState.ACCEPTED
        described = self._quarantine.described(name, origin.pin)
        is_told = described is not None and pin is not None and is_same
        return PinView(
            origin=origin,
            state=state,
            accepted_by=None if pin is None else pin.accepted_by,
            accepted_at=None if pin is None else pin.accepted_at,
            differences=differences(pin.definition, described) if is_told and pin is not None else (),
        )

    async def check(self) -> None:
        """Put on record, once in this process, what of the file of pins is not what was signed. For whoever looks after
        the store; what another deployment signed is nothing to be alarmed about.

        Raises:
            StoreError: it may not be on record; the next look tries again.
        """
        pins = self._shelf.read()
        whole = () if pins.fault is None else (SpoiltPin(server="", tool="", fault=pins.fault),)
        spoilt = tuple(each for each in pins.spoilt if each.fault is not PinFault.OTHER_KEY)
        await self._quarantine.suspect(whole + spoilt)

    async def quarantined(self) -> frozenset[str]:
        """The scopes of all quarantines in force, as `StopScope.quarantine` makes their keys."""
        return frozenset(scope for scope in await self._store.stops() if scope.startswith("quarantine:"))

    async def require_leave(self, by: Principal) -> None:
        """Whether this principal may accept and quarantine at all, before anybody is shown or asked anything.

        Raises:
            MisuseError: an argument is not of its kind.
            DecisionRefused: not a person, or without the scope; it is on record.
            StoreError: it may not be on record.
        """
        await self._require_leave(by)

    async def accept(self, definitions: Sequence[Definition], *, by: Principal) -> tuple[Pin, ...]:
        """Accept exactly these definitions, as they were shown to the person; a gate that is opened then serves them.

        All of them, or none: one that may not be accepted keeps the others from it.

        Raises:
            MisuseError: an argument is not of its kind; nothing was accepted.
            ContractError: a definition may not be accepted by anybody; nothing was.
            DecisionRefused: not a person, or without the scope; it is on record.
            PinsNotWritable: nothing was accepted, although the record says that somebody wanted to; what was to be
                replaced is refused from now on.
            StoreError: nothing was accepted; or all of it was, and a quarantine goes on: accept it once more.
        """
        found = ordered(definitions)
        if not found or not all(is_whole(each, Definition) for each in found):
            raise MisuseError("definitions= is a sequence of at least one Definition.")
        await self._require_leave(by)
        for each in found:
            refuse_unfit(each)
        before = self._shelf.read()
        await self._store.record(tuple(self._event(each, before, by) for each in found))
        for each in found:
            await self._put_aside(before.pins.get((each.server, each.tool)), each, by)
        pins = self._shelf.accept(found, by=by.subject, at=await self._store.now())
        for pin in pins:
            name = contract_name(pin.definition.server, pin.definition.tool)
            await self._store.resume(StopScope.quarantine(name, pin.digest).key, (), leave=StopLeave.DEPLOYMENT)
        return pins

    async def quarantine(self, server: str, tool: str, *, by: Principal, reason: str = "") -> bool:
        """Refuse a tool as it is accepted now, everywhere, until it is accepted anew.

        Returns:
            Whether it was not refused before.

        Raises:
            MisuseError: an argument is not of its kind; nothing was done.
            NotFound: nothing of this name is accepted.
            DecisionRefused: not a person, or without the scope; it is on record.
            StoreError: it may not be refused yet.
        """
        if type(reason) is not str or len(reason) > MAX_REASON_CHARACTERS or not reason.isprintable():
            raise MisuseError(f"reason= is printable text of at most {MAX_REASON_CHARACTERS} characters.")
        await self._require_leave(by)
        pin = self._shelf.read().pins.get((server, tool))
        if pin is None:
            raise NotFound("Nothing of this name is accepted.", hint="placet mcp list")
        name = contract_name(server, tool)
        key = StopScope.quarantine(name, pin.digest).key
        sealed = self._keys.seal(reason.encode(), bound_to=row_binding("", key, "stop_reason")) if reason else None
        note = StopNote(subject=by.subject, tenant=by.tenant, leave=StopLeave.DEPLOYMENT, sealed_reason=sealed)
        return await self._quarantine.begin(name, pin.digest, server=server, why=BY_HAND, by=by.subject, note=note)

    # ------------------------------------------------------------ within

    async def _put_aside(self, was: Pin | None, now: Definition, by: Principal) -> None:
        """Refuse what is replaced, before it is: a process that still has it, and saw no change, goes on otherwise."""
        if was is None or was.digest == definition_digest(now):
            return
        name = contract_name(now.server, now.tool)
        await self._quarantine.begin(name, was.digest, server=now.server, why=REPLACED, by=by.subject)

    async def _require_leave(self, by: Principal) -> None:
        if not is_principal(by):
            raise MisuseError("by= is the signed-in Principal.")
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, "not_a_person")
        if ACCEPT_SCOPE not in by.scopes:
            raise await self._refusal(by, "scope_missing")

    async def _refusal(self, by: Principal, code: str) -> DecisionRefused:
        event = self._chronicle.event(
            EventKind.ACCEPTANCE_REFUSED,
            self._chronicle.of_principal(by),
            detail=code,
            decided_by=by.subject,
            model_suggested=False,
        )
        await self._store.record((event,))
        hint = "" if code == "not_a_person" else f"Somebody with the scope {ACCEPT_SCOPE} has to do it."
        return DecisionRefused(_REFUSALS[code], code=code, hint=hint)

    def _event(self, definition: Definition, before: Pins, by: Principal) -> AuditEvent:
        digest = definition_digest(definition)
        was = before.pins.get((definition.server, definition.tool))
        how = "new" if was is None else "again" if was.digest == digest else "changed"
        reasons = [f"upstream:{definition.server}", f"pin:{shown_digest(digest)}"]
        if was is not None and was.digest != digest:
            reasons.append(f"was:{shown_digest(was.digest)}")
        return self._chronicle.event(
            EventKind.TOOL_ACCEPTED,
            self._chronicle.of_store(by.subject) | {"tool": contract_name(definition.server, definition.tool)},
            detail=how,
            reasons=tuple(reasons),
            decided_by=by.subject,
            model_suggested=False,
        )


_REFUSALS = {
    "not_a_person": "Only a person's own sign-in accepts and quarantines.",
    "scope_missing": f"This needs the scope {ACCEPT_SCOPE}.",
}
