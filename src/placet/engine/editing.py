"""A person changes the arguments of a question: another question is made of it, and the first is closed.

Never a mutation. The new call is validated as any, has a digest of its own, says who made it of what, and needs the
leave of both: the editor's is asked here, the requester's when it asks for the new call itself, which it is told about
as data. What the editor thinks of it counts for no review and no quorum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from placet.engine.deciding import LONGEST_DECIDING_SECONDS, Decider
from placet.engine.preconditions import NotSeen, Preconditions
from placet.engine.registry import Registry
from placet.engine.session import Session
from placet.engine.verifying import question_binding, stored_arguments
from placet.errors import InvalidArguments
from placet.model.approval import Edited, Question
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Allow, Ask, Deny
from placet.model.exact import is_plain_json
from placet.model.identifiers import ApprovalId, Digest
from placet.model.json import JsonObject
from placet.model.ledger import SameAsk
from placet.model.principal import Principal
from placet.ports.clock import Clock, IdSource
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.rules import lifecycle, operations
from placet.rules.contracts.tools import ReadArguments
from placet.rules.decoding import decode_object

REASON = "edited_by_a_person"
"""Among the reasons of a question that a person made of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEdit:
    """Why no question is made of it, in a fixed word and a sentence."""

    code: str
    message: str


class Editor:
    """Makes the questions that people make of others."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        registry: Registry,
        decider: Decider,
        ids: IdSource,
        clock: Clock,
        preconditions: Preconditions,
    ) -> None:
        self._preconditions = preconditions
        self._clock = clock
        self._store = store
        self._keys = keys
        self._registry = registry
        self._decider = decider
        self._ids = ids

    async def edited(self, question: Question, arguments: object, *, by: Principal) -> Question | NoEdit:
        """The question that the person makes of this one, whose contract is known here and which `by` may decide.

        Raises:
            InvalidArguments: the arguments break the contract; nothing was changed.
        """
        if question.terms is not None and not question.terms.may_edit:
            return NoEdit(code="edit_forbidden", message="The rule that asked allows no edit; approve or deny it.")
        contract = self._registry.require(question.tool, None).contract
        read = self._read(question, contract, arguments)
        digest = operations.argument_digest(question.tool, read.canonical)
        if digest == question.argument_digest:
            return NoEdit(code="nothing_changed", message="These are the arguments that were asked about.")
        call = self._call(question, contract, read, digest, by)
        deadline = self._clock.monotonic() + LONGEST_DECIDING_SECONDS
        decision = await self._decider.said_of(call, _session(call, deadline=deadline))
        if isinstance(decision, Deny):
            return NoEdit(
                code="editor_denied", message="Policy does not allow this call to you, so you cannot make it."
            )
        known = await self._store.effect(question.tenant, call.operation_key)
        if isinstance(lifecycle.ledger_answer(call, known), lifecycle.OtherOperation):
            return NoEdit(
                code="operation_conflict",
                message="This operation was tried with other arguments already; nobody could do what you make of it.",
            )
        question = replace(question, dispatch_number=0 if known is None else known.fence)
        bound = await self._preconditions.captured(call, deadline=deadline)
        if isinstance(bound, NotSeen):
            return NoEdit(
                code="precondition_unavailable",
                message="The state that an approval of this call is bound to could not be read; try again later.",
            )
        return replace(await self._question(question, call, decision), precondition=bound)

    def _read(self, question: Question, contract: Contract, given: object) -> ReadArguments:
        """What was given, with what the contract redacts taken from what was asked: nobody here has seen that."""
        text = given if type(given) is str or type(given) is bytes else None
        arguments = decode_object(text, wide=contract.wide_fields) if text is not None else given
        if type(arguments) is not dict or not is_plain_json(arguments):
            raise InvalidArguments("not_an_object")
        canonical = stored_arguments(question, self._keys) or b"{}"
        asked = decode_object(canonical, wide=contract.wide_fields)
        unseen = {name: asked[name] for name in contract.redact if name in asked}
        return self._registry.require(question.tool, None).read_arguments({**arguments, **unseen})

    def _call(self, question: Question, contract: Contract, read: ReadArguments, digest: Digest, by: Principal) -> Call:
        """The new call as the editor's own; an operation that the arguments do not name keeps the name it has."""
        key = question.operation_key
        if operations.is_business_key(contract):
            key = operations.operation_key(
                contract, read.arguments, by, run_id=question.run_id, call_id=question.call_id, caller_key=None
            )
        return Call(
            contract=contract,
            principal=by,
            request_id=question.request_id,
            run_id=question.run_id,
            call_id=question.call_id,
            reply_to=question.call_id,
            first_attempt=1,
            arguments=read.arguments,
            canonical_arguments=read.canonical,
            argument_digest=digest,
            fingerprint=operations.fingerprint(question.tool, read.canonical),
            operation_key=key,
            resource=operations.resource(contract, read.arguments),
            is_recorded=True,
        )

    async def _question(self, question: Question, call: Call, decision: Allow | Ask) -> Question:
        """It needs what policy wants of the new call, if it asks at all; otherwise what was wanted of the old."""
        now = await self._store.now()
        approval_id = ApprovalId(self._ids.new_id("apr"))
        reasons, decide_within = question.reasons, question.decide_by - question.asked_at
        if isinstance(decision, Ask):
            needs = decision.requirement
            reasons, decide_within = decision.reasons, timedelta(seconds=needs.decide_within_seconds)
            question = replace(
                question,
                policy_version=decision.policy_version,
                requirement=needs.kind,
                terms=needs.terms,
                reminders=needs.reminders,
                lifetime_seconds=needs.lifetime_seconds,
            )
        return replace(
            question,
            approval_id=approval_id,
            argument_digest=call.argument_digest,
            resource=call.resource,
            operation_key=call.operation_key,
            reasons=reasons if REASON in reasons else (*reasons, REASON),
            asked_at=now,
            decide_by=now + decide_within,
            nonce=self._ids.new_id("n"),
            sealed_arguments=self._keys.seal(
                call.canonical_arguments, bound_to=question_binding(question.tenant, approval_id)
            ),
            edited=Edited(
                by=call.principal.subject, from_id=question.approval_id, from_digest=question.argument_digest
            ),
        )


def same_as(question: Question) -> SameAsk:
    """What makes another question the same as this one."""
    return SameAsk(
        tenant=question.tenant,
        subject=question.subject,
        run_id=question.run_id,
        tool=question.tool,
        argument_digest=question.argument_digest,
        policy_version=question.policy_version,
        operation_key=None,
    )


def arguments_of(question: Question, keys: Keys, contract: Contract) -> JsonObject | None:
    """The arguments of a question, for whoever asked it; None if they do not hold."""
    canonical = stored_arguments(question, keys)
    return None if canonical is None else decode_object(canonical, wide=contract.wide_fields)


def _session(call: Call, *, deadline: float) -> Session:
    """For asking policy; nobody submits anything."""
    return Session(
        principal=call.principal, run_id=call.run_id, request_id=call.request_id, caller_key=None, deadline=deadline
    )
