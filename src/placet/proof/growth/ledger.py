"""Rows of the ledger after years, as the engine would have written them.

Keys, digests, seals and signatures are made with the rules and keys that made those of the specimens: an operation that
is asked for again is replayed, and an approval verifies. Tokens and nonces are chance, as they always are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from placet.engine.results import result_digest, row_binding
from placet.engine.verifying import question_binding
from placet.model.approval import Answer, Question
from placet.model.identifiers import ApprovalId, CallId, Digest, OperationKey, RequestId, RunId
from placet.ports.keys import KeyPurpose, Keys
from placet.proof.growth.specimens import (
    MOST_STEPS,
    Specimen,
    Specimens,
    agent_of,
    arguments_of,
    close_ticket,
    instant,
    microseconds,
    open_ticket,
    result_of,
)
from placet.proof.growth.years import (
    Years,
    approval_name,
    call_name,
    is_approved,
    read_name,
    request_name,
    run_name,
    tenant_name,
    ticket_number,
)
from placet.rules import operations
from placet.rules.approvals import instant_text, question_form, signed_form
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts import Tool

Row = tuple[Any, ...]

STEP_COLUMNS = ("tenant", "run_id", "call_id", "fingerprint")
RUN_COLUMNS = ("tenant", "run_id", "subject", "policy_version", "max_steps", "steps", "opened_at", "stepped_at")
_EFFECT_INSTANTS = ("lease_until", "send_by", "attempt_ended_at", "created_at", "updated_at")
_QUESTION_COLUMNS = ("approval_id", "tenant", "run_id", "argument_digest", "operation_key", "sealed_arguments")


def operation_key_of(operation: int) -> OperationKey:
    contract = tool_of(operation).contract
    arguments: dict[str, Any] = arguments_of(contract.name, ticket_number(operation))
    run, call = RunId(""), CallId("")  # these operations are named by their contracts
    agent = agent_of(tenant_name(operation))
    return operations.operation_key(contract, arguments, agent, run_id=run, call_id=call, caller_key=None)


def argument_digest_of(operation: int) -> Digest:
    name = tool_of(operation).contract.name
    return operations.argument_digest(name, _canonical(name, operation))


def tool_of(operation: int) -> Tool:
    return close_ticket if is_approved(operation) else open_ticket


class Ledger:
    """All rows of the ledger's tables, tenant by tenant and in the order of their keys."""

    def __init__(self, years: Years, specimens: Specimens, keys: Keys) -> None:
        self._years = years
        self._specimens = specimens
        self._keys = keys

    def effects(self) -> Iterator[Row]:
        """In the order of that table's columns."""
        return map(self._effect, self._years.by_tenant())

    def approvals(self) -> Iterator[Row]:
        """Spent ones, in the order of that table's columns."""
        return map(self._approval, filter(is_approved, self._years.by_tenant()))

    def steps(self) -> Iterator[Row]:
        for operation in self._years.by_tenant():
            tenant, run, name = tenant_name(operation), run_name(operation), self._of(operation).tool.contract.name
            yield tenant, run, call_name(operation), operations.fingerprint(name, _canonical(name, operation))
            for read in range(self._years.reads(operation)):
                yield tenant, run, read_name(operation, read), os.urandom(32).hex()

    def runs(self) -> Iterator[Row]:
        years, subject, policy = self._years, agent_of("any").subject, self._specimens.policy_version
        for operation in years.by_tenant():
            whole = years.run_of(operation)
            if whole[0] == operation:
                steps = len(whole) + sum(map(years.reads, whole))
                times = years.at(operation), years.at(whole[-1])
                yield tenant_name(operation), run_name(operation), subject, policy, MOST_STEPS, steps, *times

    # ------------------------------------------------------------ one row

    def _of(self, operation: int) -> Specimen:
        return self._specimens.approved if is_approved(operation) else self._specimens.write

    def _effect(self, operation: int) -> Row:
        specimen, tenant = self._of(operation), tenant_name(operation)
        name, key = specimen.tool.contract.name, operation_key_of(operation)
        canonical = _canonical(name, operation)
        result = canonical_bytes({**result_of(name, ticket_number(operation))})
        row = dict(specimen.effect)
        row["tenant"] = tenant
        row["operation_key"] = key
        row["fingerprint"] = operations.fingerprint(name, canonical)
        row["argument_digest"] = argument_digest_of(operation)
        row["run_id"] = run_name(operation)
        row["call_id"] = call_name(operation)
        row["approval_id"] = approval_name(operation) if is_approved(operation) else None
        row["token"] = "t-" + os.urandom(12).hex()
        row["sealed_arguments"] = self._keys.seal(canonical, bound_to=row_binding(tenant, key, "arguments"))
        row["sealed_result"] = self._keys.seal(result, bound_to=row_binding(tenant, key, "result"))
        row["result_digest"] = result_digest(result)
        later = self._years.at(operation) - specimen.began
        for column in _EFFECT_INSTANTS:
            row[column] += later
        return tuple(row.values())

    def _approval(self, operation: int) -> Row:
        question, answer = self._question(operation), self._answer(operation)
        mac = self._keys.mac(KeyPurpose.APPROVAL, question_form(question))
        signature = self._keys.mac(KeyPurpose.APPROVAL, signed_form(question, answer))
        asked = json.loads(self._specimens.approval["question"])
        asked |= {name: getattr(question, name) for name in ("call_id", "request_id", "nonce")}
        asked |= {name: instant_text(getattr(question, name)) for name in ("asked_at", "decide_by")}
        answered = json.loads(self._specimens.approval["answer"])
        answered |= {name: instant_text(getattr(answer, name)) for name in ("decided_at", "expires_at")}
        answered["digest_seen"] = answer.digest_seen
        row = dict(self._specimens.approval)
        row |= {name: getattr(question, name) for name in _QUESTION_COLUMNS}
        row["question"], row["question_mac"] = json.dumps(asked, sort_keys=True), mac.value
        row["answer"], row["signature"] = json.dumps(answered, sort_keys=True), signature.value
        row["asked_at"] = microseconds(question.asked_at)
        row["spent_at"] += self._years.at(operation) - self._specimens.approved.began
        return tuple(row.values())

    def _question(self, operation: int) -> Question:
        asked, tenant, approval_id = self._specimens.question, tenant_name(operation), approval_name(operation)
        canonical = _canonical(asked.tool, operation)
        later = instant(self._years.at(operation)) - instant(self._specimens.approved.began)
        return replace(
            asked,
            approval_id=ApprovalId(approval_id),
            tenant=tenant,
            request_id=RequestId(request_name(operation)),
            run_id=RunId(run_name(operation)),
            call_id=CallId(call_name(operation)),
            argument_digest=argument_digest_of(operation),
            operation_key=operation_key_of(operation),
            asked_at=asked.asked_at + later,
            decide_by=asked.decide_by + later,
            nonce="n-" + os.urandom(12).hex(),
            sealed_arguments=self._keys.seal(canonical, bound_to=question_binding(tenant, approval_id)),
        )

    def _answer(self, operation: int) -> Answer:
        given, later = self._specimens.answer, self._years.at(operation) - self._specimens.approved.began
        return replace(
            given,
            decided_at=instant(microseconds(given.decided_at) + later),
            expires_at=instant(microseconds(given.expires_at) + later),
            digest_seen=argument_digest_of(operation),
        )


def _canonical(name: str, operation: int) -> bytes:
    arguments: dict[str, Any] = arguments_of(name, ticket_number(operation))
    return canonical_bytes(arguments)
