"""Writes what happened as audit events: who, what, when, and of the data only its shape and a keyed fingerprint."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from placet.errors import BoundaryUnavailable
from placet.model.approval import Approval, Question
from placet.model.audit import AuditEvent, AuditOutcome, EventKind, Summary
from placet.model.call import Call
from placet.model.contract import UNKNOWN_TOOL_LABEL, Contract
from placet.model.decision import Decision
from placet.model.effect import Effect
from placet.model.grant import Grant
from placet.model.json import JsonValue
from placet.model.principal import Principal, Role, subjects_of
from placet.ports.clock import Clock
from placet.ports.keys import KeyPurpose, Keys
from placet.rules.approvals import on_behalf_of
from placet.rules.policy import word_of
from placet.rules.summaries import fingerprint_text, summary

_CLOCKLESS = datetime(1970, 1, 1, tzinfo=UTC)
"""What events carry while the clock fails: the pair still closes, and says so."""
NOBODY = "unknown"
_KEPT = (
    "tenant",
    "subject",
    "on_behalf_of",
    "environment",
    "request_id",
    "run_id",
    "call_id",
    "tool",
    "tool_version",
    "permission",
    "risk",
    "effect_class",
    "attempt",
    "fence",
    "decision",
    "policy_version",
    "purpose",
    "operation",
    "repaired",
)


class Chronicle:
    """Builds events; stores write them."""

    def __init__(self, *, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._contracts: dict[str, tuple[Contract, dict[str, Any]]] = {}

    def now(self) -> datetime:
        """The clock's instant in UTC.

        Raises:
            BoundaryUnavailable: the clock raised, or does not know its zone; a decision without time is none (B054).
        """
        instant = self._read_clock()
        if instant is None:
            raise BoundaryUnavailable("The clock cannot be read.", code="clock_failed")
        return instant

    def _read_clock(self) -> datetime | None:
        try:
            instant = self._clock.now()
            if type(instant) is datetime and type(instant.tzinfo) is type(UTC):
                return instant if instant.tzinfo is UTC else instant.astimezone(UTC)
        except BaseException:
            return None
        return None

    # ------------------------------------------------------------ facts

    def of_call(
        self,
        call: Call,
        decision: Decision | None,
        approval: Approval | None = None,
        grant: Grant | None = None,
    ) -> dict[str, Any]:
        """The fields that all events of one call share. A grant that let it through is named among the reasons."""
        facts = self._of_sound(call.principal)
        facts |= self._of_tool(call.contract)
        facts["purpose"] = call.contract.purpose
        facts["request_id"] = call.request_id
        facts["run_id"] = call.run_id
        facts["call_id"] = call.call_id
        facts["operation"] = self._fingerprint(facts, call.operation_key)
        facts["arguments"] = _summary(call.arguments)
        facts["arguments_fingerprint"] = self._value_fingerprint(facts, call.arguments)
        facts["repaired"] = call.is_repaired
        if decision is not None:
            facts["decision"] = word_of(decision) if approval is None else "allow_after_approval"
            facts["reasons"] = decision.reasons
            facts["policy_version"] = decision.policy_version
            if decision.shadow is not None:
                facts["shadow"] = decision.shadow
        if decision is not None and grant is not None:
            facts["decision"] = "allow_by_grant"
            facts["reasons"] = (*decision.reasons, _named(grant))
            facts.update(decided_by=grant.given_by, decided_at=grant.given_at, expires_at=grant.expires_at)
        if approval is not None and approval.answer is not None:
            facts.update(
                approval_id=approval.question.approval_id,
                decided_by=approval.answer.decided_by,
                decided_at=approval.answer.decided_at,
                expires_at=approval.answer.expires_at,
            )
        return facts

    def of_effect(self, effect: Effect) -> dict[str, Any]:
        """The fields of an event about a ledger row whose call is long gone."""
        facts = {"tenant": effect.tenant, "key_id": self._keys.current}
        return {
            **facts,
            "subject": subjects_of(effect.subject)[0],
            "run_id": effect.run_id,
            "call_id": effect.call_id,
            "tool": effect.tool,
            "tool_version": effect.tool_version or None,  # a purged row has none of these any more
            "policy_version": effect.policy_version or None,
            "decision": effect.decision or None,
            "approval_id": effect.approval_id,
            "operation": self._fingerprint(facts, effect.operation_key),
            "attempt": effect.attempt,
            "fence": effect.fence,
        }

    def of_question(self, question: Question) -> dict[str, Any]:
        """The fields of an event about an approval. The subject is the requester."""
        facts = {"tenant": question.tenant, "key_id": self._keys.current}
        return {
            **facts,
            "subject": subjects_of(question.subject)[0],
            "on_behalf_of": question.on_behalf_of,
            "environment": question.environment,
            "request_id": question.request_id,
            "run_id": question.run_id,
            "call_id": question.call_id,
            "tool": question.tool,
            "tool_version": question.tool_version,
            "policy_version": question.policy_version,
            "approval_id": question.approval_id,
            "reasons": question.reasons,
            "purpose": question.purpose,
            "operation": self._fingerprint(facts, question.operation_key),
        }

    def of_grant(self, grant: Grant) -> dict[str, Any]:
        """The fields of an event about a standing grant. The subject is whose calls it is for; of its limits, which are
        argument values, only a keyed fingerprint.
        """
        facts = {"tenant": grant.tenant, "key_id": self._keys.current}
        subjects = subjects_of(grant.subject)
        return {
            **facts,
            "subject": subjects[0],
            "on_behalf_of": subjects[-1] if len(subjects) > 1 else None,
            "environment": grant.environment,
            "run_id": grant.run_id,
            "tool": grant.tool,
            "tool_version": grant.tool_version,
            "policy_version": grant.policy_version,
            "reasons": (_named(grant), f"rule:{grant.terms.rule}", f"uses:{grant.max_uses}"),
            "arguments_fingerprint": self._fingerprint(facts, grant.limits_digest),
        }

    def of_contract(self, contract: Contract) -> dict[str, Any]:
        """The fields of an event about a tool itself; it concerns every tenant."""
        return {"tenant": NOBODY, "subject": NOBODY, "key_id": self._keys.current, **self._of_tool(contract)}

    def of_store(self, subject: str) -> dict[str, Any]:
        """The fields of an event about the store itself; it concerns every tenant."""
        return {"tenant": NOBODY, "subject": subject, "key_id": self._keys.current}

    def of_principal(self, principal: Principal) -> dict[str, Any]:
        if type(principal) is not Principal or not principal.is_well_formed():
            return {"tenant": NOBODY, "subject": NOBODY, "key_id": self._keys.current}
        return self._of_sound(principal)

    def _of_sound(self, principal: Principal) -> dict[str, Any]:
        return {
            "tenant": principal.tenant,
            "subject": principal.subject,
            "key_id": self._keys.current,
            "roles": _names_of(principal.roles),
            "on_behalf_of": on_behalf_of(principal),
            "environment": principal.environment,
        }

    def of_rejected(
        self,
        principal: Principal,
        *,
        request_id: str,
        run_id: str,
        call_id: str,
        name: str | None,
        contract: Contract | None,
    ) -> dict[str, Any]:
        """The fields of an event about something that never became a call; only substitutes for what was wrong."""
        facts = self.of_principal(principal)
        facts.update(request_id=request_id, run_id=run_id, call_id=call_id, arguments=Summary())
        if contract is not None:
            facts |= self._of_tool(contract)
        else:
            facts["tool"] = UNKNOWN_TOOL_LABEL
            if name is not None:
                facts["rejected_name"] = self._fingerprint(facts, name)
        return facts

    def _of_tool(self, contract: Contract) -> dict[str, Any]:
        """What is the same in every event about one contract; made once, and never changed."""
        known = self._contracts.get(contract.name)
        if known is None or known[0] is not contract:
            known = self._contracts[contract.name] = contract, _contract_facts(contract)
        return known[1]

    # ------------------------------------------------------------ events

    def event(self, kind: EventKind, facts: dict[str, Any], **more: Any) -> AuditEvent:
        instant = self._read_clock()
        if instant is None:
            more.setdefault("detail", "clock_failed")
        return AuditEvent(kind=kind, at=instant or _CLOCKLESS, **(facts | more))

    def started(self, facts: dict[str, Any], *, attempt: int, fence: int = 0) -> AuditEvent:
        return self.event(EventKind.STARTED, facts, attempt=attempt, fence=fence)

    def completed(
        self,
        facts: dict[str, Any],
        outcome: AuditOutcome,
        *,
        attempt: int,
        fence: int = 0,
        seconds: float = 0.0,
        detail: str | None = None,
        error_type: str | None = None,
        effect_state: str | None = None,
        result: JsonValue = None,
        has_result: bool = False,
    ) -> AuditEvent:
        more: dict[str, Any] = {}
        if has_result:
            more["result"] = _summary(result)
            more["result_fingerprint"] = self._value_fingerprint(facts, result)
        return self.event(
            EventKind.COMPLETED,
            facts,
            outcome=outcome,
            attempt=attempt,
            fence=fence,
            duration_ms=round(max(0.0, seconds) * 1000.0, 3),
            detail=detail,
            error_type=error_type,
            effect_state=effect_state,
            **more,
        )

    def pair(
        self,
        facts: dict[str, Any],
        outcome: AuditOutcome,
        *,
        attempt: int,
        detail: str | None = None,
        error_type: str | None = None,
    ) -> tuple[AuditEvent, AuditEvent]:
        """Started and completed of a proposal that was answered without an attempt."""
        return (
            self.started(facts, attempt=attempt),
            self.completed(facts, outcome, attempt=attempt, detail=detail, error_type=error_type),
        )

    def completing(self, started: bytes) -> AuditEvent | None:
        """The completed event of a read whose own process was lost, from the body of its started event."""
        try:
            body = json.loads(started)
        except ValueError:
            return None
        if type(body) is not dict:
            return None
        facts = {name: body[name] for name in _KEPT if name in body}
        return self.event(
            EventKind.COMPLETED,
            facts,
            key_id=self._keys.current,
            outcome=AuditOutcome.ERROR,
            error_type="OwnerLost",
            detail="owner_lost",
        )

    def fingerprints(self, tenant: str, text: str) -> frozenset[str]:
        """What events may call this text by, one for every key there is: a rotation hides nothing that was written."""
        message = _fingerprint_message(tenant, text)
        return frozenset(mac.value for mac in self._keys.macs(KeyPurpose.AUDIT_FINGERPRINT, message))

    def _fingerprint(self, facts: dict[str, Any], text: str) -> str:
        """Keyed per tenant, so that equal texts of two tenants differ; under the key that the event names."""
        message = _fingerprint_message(facts["tenant"], text)
        return self._keys.mac(KeyPurpose.AUDIT_FINGERPRINT, message, under=facts["key_id"]).value

    def _value_fingerprint(self, facts: dict[str, Any], value: object) -> str:
        message = facts["tenant"].encode() + b"\x00" + fingerprint_text(value)
        return self._keys.mac(KeyPurpose.AUDIT_FINGERPRINT, message, under=facts["key_id"]).value


@lru_cache(maxsize=16)
def _names_of(roles: frozenset[Role]) -> tuple[str, ...]:
    return tuple(sorted(role.value for role in roles))


def _fingerprint_message(tenant: str, text: str) -> bytes:
    return b"%s\x00%s" % (tenant.encode(), text.encode("utf-8", "surrogatepass"))


def _contract_facts(contract: Contract) -> dict[str, Any]:
    return {
        "tool": contract.name,
        "tool_version": contract.version,
        "permission": contract.permission,
        "risk": contract.risk.value,
        "effect_class": contract.effect_class.value,
    }


def _summary(value: object) -> Summary:
    return Summary(**summary(value))


def _named(grant: Grant) -> str:
    return f"grant:{grant.grant_id}"
