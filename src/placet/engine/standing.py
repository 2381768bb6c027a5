"""The standing grant that answers an ask, for the gate: found, verified, held against the call, and asked about anew.

A grant whose row was altered stops the call by name: whoever changes rows must not choose which of them count.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.engine.chronicle import Chronicle
from placet.engine.entitling import UNCERTAIN, Decided, Entitling
from placet.engine.verifying import verify_grant
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent, EventKind
from placet.model.call import Call
from placet.model.decision import Ask
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.identifiers import ApprovalId
from placet.model.ledger import SameAsk
from placet.model.principal import Principal
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.rules import grants as rules
from placet.rules.audit import is_code
from placet.rules.grants import GrantMisfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A grant answers, as long as nobody says anything about this very ask before it is used.

    Attributes:
        same: the ask, under whatever key.
        waiting: the question that is taken back with the use; None if none waits.
        passed_over: what else there is about this ask, as it was seen, and why it does not matter was looked at.
    """

    stored: StoredGrant
    same: SameAsk
    waiting: Approval | None
    passed_over: frozenset[tuple[ApprovalId, ApprovalState]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectGrant:
    """What is on record does not hold. It is told of, and nothing of it but its name is repeated."""

    stored: StoredGrant
    misfit: GrantMisfit


class StandingGrants:
    """The grants of one store, as the gate needs them."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle, entitling: Entitling) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._entitling = entitling

    async def grant_for(
        self, call: Call, ask: Ask, *, without: frozenset[GrantId] | None
    ) -> StoredGrant | SuspectGrant | None:
        """The one that answers, the soonest to expire first; None where a person has to.

        Where policy lets nobody give one for this, or the tool is out of every grant's reach, nothing is looked up.

        Args:
            without: those that were found not to be usable after all; None where none may be used any more.
        """
        if without is None or not rules.may_be_answered(ask) or not rules.may_be_granted(call.contract):
            return None
        found = await self._store.standing_grants(
            tenant=call.principal.tenant,
            subject=call.principal.identity,
            tool=call.contract.name,
            limit=rules.MOST_UNENDED,
        )
        if not found:
            return None
        now = await self._store.now()
        for stored in found:
            limits = verify_grant(stored, self._keys)
            if isinstance(limits, GrantMisfit):
                if limits.is_alarm:
                    return SuspectGrant(stored=stored, misfit=limits)
                continue
            is_current = stored.mac.key_id == self._keys.current
            if stored.grant.grant_id in without or not is_current:
                continue
            if rules.misfit(stored, limits, call, ask, now=now) is None:
                return stored
        return None

    async def refusal_of_giver(self, stored: StoredGrant, *, deadline: float) -> str | None:
        """Why it is not used although it fits: its giver may not give it as things stand now; None if it may.

        It is revoked then, by nobody; where nobody could tell, which is one of `UNCERTAIN`, it stays as it is.
        """
        grant = stored.grant
        decided = Decided(subject=grant.given_by, leave=grant.leave)
        code = await self._entitling.why_not_any_more(rules.as_question(grant), decided, deadline=deadline)
        if code is None:
            return None
        refused = self._event(EventKind.GRANT_REFUSED, grant, detail=code)
        if code in UNCERTAIN:
            await self._store.record((refused,))
            return code
        revoked = rules.revoked(grant, by=None, at=await self._store.now())
        mac = self._keys.mac(KeyPurpose.GRANT, rules.grant_form(revoked))
        facts = self._chronicle.of_grant(grant)
        event = self._chronicle.event(EventKind.GRANT_REVOKED, facts, detail=code, model_suggested=False)
        await self._store.revoke_grant(stored, revoked, mac, events=(refused, event))
        return code

    async def alarm(self, suspect: SuspectGrant, call: Call, ask: Ask) -> None:
        """Put on record that a row was altered."""
        facts = self._chronicle.of_call(call, ask)
        await self._store.record((suspect_event(self._chronicle, facts, suspect.stored, suspect.misfit),))

    def _event(self, kind: EventKind, grant: Grant, *, detail: str) -> AuditEvent:
        facts = self._chronicle.of_grant(grant)
        return self._chronicle.event(kind, facts, detail=detail, decided_by=grant.given_by, model_suggested=False)


def suspect_of(chronicle: Chronicle, by: Principal, stored: StoredGrant, misfit: GrantMisfit) -> AuditEvent:
    """The alarm that somebody who looked at a grant found it altered."""
    return suspect_event(chronicle, chronicle.of_principal(by) | {"model_suggested": False}, stored, misfit)


def suspect_event(
    chronicle: Chronicle, facts: dict[str, object], stored: StoredGrant, misfit: GrantMisfit
) -> AuditEvent:
    return chronicle.event(EventKind.GRANT_SUSPECT, facts, detail=misfit.value, reasons=(named(stored),))


def named(stored: StoredGrant) -> str:
    """The name of a row as events have it, whatever somebody put there."""
    name = f"grant:{stored.grant.grant_id}"
    return name if is_code(name) else "grant:unreadable"
