"""Where people see what is waiting and decide it. Approving never executes anything.

What is shown is what is signed: the view is made from the stored canonical arguments, and a decision carries the
digest that was on the screen. Another tenant's approval looks exactly like one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from placet.engine.approving import expire, stored_arguments, verify
from placet.engine.chronicle import Chronicle
from placet.engine.registry import Registry
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.approval import Answer, Approval, ApprovalDecision, ApprovalState, Question
from placet.model.audit import AuditEvent, EventKind
from placet.model.contract import Contract
from placet.model.exact import MOST_LISTED, is_limit, members_of
from placet.model.identifiers import ApprovalId, Digest
from placet.model.json import JsonObject
from placet.model.principal import Principal, Standing, is_identity, is_principal, subjects_of
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import approvals as rules
from placet.rules import operations
from placet.rules.decoding import LONE_SURROGATE, decode_object
from placet.rules.policy import DECIDE_SCOPE

REDACTED = "[REDACTED]"
CONTRACT_NOT_HERE = "contract_not_here"
"""The tool, or this version of its contract, is not registered where somebody looks: everything is redacted."""
_EVERYWHERE = frozenset(("*",) * depth for depth in range(1, 64))
"""Stored arguments are authenticated; every integer in them may be as wide as it is."""
MAX_REASON_CHARACTERS = 500
_STANDING = {
    ApprovalDecision.APPROVE: frozenset({ApprovalState.APPROVED, ApprovalState.SPENT}),
    ApprovalDecision.DENY: frozenset({ApprovalState.DENIED}),
}
"""Where an approval stands as long as the decision does. A spent one was used as it was decided."""
_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.SPENT, ApprovalState.DENIED})
"""States whose words may name who decided; whoever took it back is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """One approval as a person sees it.

    Attributes:
        arguments: exactly what will run, except fields the contract redacts even here.
        redacted: names of redacted fields; they are covered by the digest all the same.
        digest: what a decision must carry; it names these arguments and no others.
        decided_by, decided_at, words: the decision, if there is one.
        why_not: why this person may not decide it; None if it may.
    """

    approval_id: ApprovalId
    state: ApprovalState
    tool: str
    tool_version: str
    risk: str
    effect_class: str
    description: str
    arguments: JsonObject
    redacted: tuple[str, ...]
    digest: Digest
    resource: str | None
    requested_by: str
    on_behalf_of: str | None
    run_id: str
    reasons: tuple[str, ...]
    policy_version: str
    asked_at: datetime
    decide_by: datetime
    decided_by: str | None
    decided_at: datetime | None
    expires_at: datetime | None
    words: str | None
    why_not: str | None


class Desk:
    """Shows and decides the approvals of one store."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle, registry: Registry) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._registry = registry

    @paying
    async def pending(self, *, by: Principal, limit: int = 100) -> tuple[ApprovalView, ...]:
        """What waits in the person's tenant, newest first. Rows that do not hold are left out here; `show` says why."""
        return await self.listed(by=by, states=(ApprovalState.PENDING,), limit=limit)

    @paying
    async def listed(
        self, *, by: Principal, states: tuple[ApprovalState, ...] = tuple(ApprovalState), limit: int = 100
    ) -> tuple[ApprovalView, ...]:
        """Approvals of the person's tenant in these states, newest first; at most 10,000."""
        wanted = members_of(ApprovalState, states)
        if wanted is None:
            raise MisuseError("states= is a tuple of ApprovalState.")
        if not is_limit(limit):
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_LISTED}.")
        await self._may_look(by)
        found = await self._store.approvals(by.tenant, states=wanted, limit=limit)
        now = await self._store.now()
        return tuple(
            self._view(approval, by, now)
            for approval in found
            if approval.question.tenant == by.tenant and verify(approval, self._keys) is None
        )

    @paying
    async def show(self, approval_id: str, *, by: Principal) -> ApprovalView:
        """One approval.

        Raises:
            NotFound: there is none in this person's tenant.
            DecisionRefused: the stored row was altered; an alarm is recorded.
        """
        await self._may_look(by)
        return self._view(await self._verified(approval_id, by), by, await self._store.now())

    @paying
    async def approve(self, approval_id: str, *, digest: str, by: Principal, reason: str = "") -> ApprovalView:
        """Sign that exactly the call with this digest may run, once, until it expires. Nothing runs now.

        The same decision again by the same person changes nothing and answers the same, as long as it stands: the
        view's `state` says whether it was used since.

        Args:
            digest: the `digest` of the view that was read.
            by: a person's own sign-in.

        Raises:
            NotFound: no such approval in this tenant.
            DecisionRefused: not entitled, too late, decided already, taken back since, or another digest; `code`
                says which.
        """
        return await self._decide(approval_id, ApprovalDecision.APPROVE, digest=digest, by=by, reason=reason)

    @paying
    async def deny(self, approval_id: str, *, digest: str, by: Principal, reason: str = "") -> ApprovalView:
        """Refuse the call. The reason goes back to the proposer as data. Raises what `approve` raises."""
        return await self._decide(approval_id, ApprovalDecision.DENY, digest=digest, by=by, reason=reason)

    async def _decide(
        self, approval_id: str, decision: ApprovalDecision, *, digest: str, by: Principal, reason: str
    ) -> ApprovalView:
        if type(reason) is not str or len(reason) > MAX_REASON_CHARACTERS or LONE_SURROGATE.search(reason):
            raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")
        await self._may_look(by)
        approval = await self._verified(approval_id, by)
        now = await self._store.now()
        question = approval.question
        if (why_not := rules.why_not_entitled(question, by)) is not None:
            raise await self._refusal(approval, by, why_not, "This person may not decide this approval.")
        if type(digest) is not str or digest != question.argument_digest:
            raise await self._refusal(approval, by, "other_digest", "The decision is about other arguments.")
        if decision is ApprovalDecision.APPROVE and self._contract_of(question) is None:
            raise await self._refusal(
                approval, by, CONTRACT_NOT_HERE, "This process does not know the contract, so it cannot show the call."
            )
        if approval.state is not ApprovalState.PENDING:
            return await self._as_decided(approval, decision, by, now)
        if rules.is_overdue(approval, now=now):
            await expire(approval, self._store, self._chronicle)
            raise await self._refusal(
                approval, by, "approval_expired", "Nobody decided in time; it has to be asked anew."
            )
        answer = Answer(
            decision=decision,
            decided_by=by.subject,
            decided_at=now,
            expires_at=now + timedelta(seconds=question.lifetime_seconds),
            digest_seen=question.argument_digest,
            reason=reason,
        )
        signature = self._keys.mac(KeyPurpose.APPROVAL, rules.signed_form(question, answer))
        kind = EventKind.APPROVAL_APPROVED if decision is ApprovalDecision.APPROVE else EventKind.APPROVAL_DENIED
        event = self._event(
            kind, approval, decided_by=by.subject, decided_at=answer.decided_at, expires_at=answer.expires_at
        )
        decided = await self._store.answer(approval, answer, signature, events=(event,))
        return await self._as_decided(decided, decision, by, now)

    @paying
    async def withdraw(self, approval_id: str, *, by: Principal) -> ApprovalView:
        """Take a question, or an approval nobody has used, back. For its requester, its decider, or the entitled."""
        await self._may_look(by)
        approval = await self._verified(approval_id, by)
        answer = approval.answer
        own = by.subject in subjects_of(approval.question.subject)
        if not own and DECIDE_SCOPE not in by.scopes and (answer is None or answer.decided_by != by.subject):
            raise await self._refusal(approval, by, "scope_missing", "This principal may not withdraw this approval.")
        state = ApprovalState.WITHDRAWN if approval.state is ApprovalState.PENDING else ApprovalState.REVOKED
        event = self._event(EventKind.APPROVAL_WITHDRAWN, approval, decided_by=by.subject)
        closed = await self._store.retire(approval, state, events=(event,))
        if closed.state is not state:
            raise await self._refusal(closed, by, "already_decided", f"It is {closed.state.value} already.")
        return self._view(closed, by, await self._store.now())

    async def expire_overdue(self, *, limit: int = 1_000) -> int:
        """Put on record what nobody decided in time, of every tenant; how many. For the worker.

        Rows that do not hold are left alone: whoever looks at them is told, and nobody learns it sooner from this.
        """
        while True:
            found = await self._store.overdue_approvals(limit=limit)
            sound = [approval for approval in found if verify(approval, self._keys) is None]
            if sound or len(found) < limit:
                break
            limit *= 4  # past those that do not hold, which stay in the list
        now = await self._store.now()
        overdue = [approval for approval in sound if rules.is_overdue(approval, now=now)]
        closed = [await expire(approval, self._store, self._chronicle) for approval in overdue]
        return sum(approval.state is ApprovalState.EXPIRED for approval in closed)

    # ------------------------------------------------------------ within

    async def _verified(self, approval_id: str, by: Principal) -> Approval:
        found = await self._store.approval(by.tenant, ApprovalId(approval_id)) if is_identity(approval_id) else None
        if found is None:
            raise NotFound("There is no such approval in your tenant.")
        altered = verify(found, self._keys)
        if altered is rules.Misfit.KEY_RETIRED:
            facts = self._chronicle.of_principal(by)
            event = self._chronicle.event(
                EventKind.DECISION_REFUSED, facts, detail=altered.value, approval_id=approval_id, model_suggested=False
            )
            await self._store.record((event,))
            raise DecisionRefused(
                "It was asked or decided under a key that is retired, so it is worth nothing any more.",
                code="key_retired",
                hint="The proposer has to ask again.",
            )
        if found.question.tenant != by.tenant or found.question.approval_id != approval_id or altered is not None:
            detail = altered.value if altered is not None else "row_moved"
            facts = self._chronicle.of_principal(by)
            alarm = self._chronicle.event(EventKind.APPROVAL_SUSPECT, facts, detail=detail, approval_id=approval_id)
            await self._store.record((alarm,))
            raise DecisionRefused("The stored approval was altered; it cannot be used.", code="approval_suspect")
        return found

    async def _as_decided(
        self, approval: Approval, decision: ApprovalDecision, by: Principal, now: datetime
    ) -> ApprovalView:
        """The decision as it stands. An identical repeat is no change; what was decided otherwise, taken back or
        expired since is refused, so that nobody hears "approved" of what is worth nothing.
        """
        answer = approval.answer
        is_own = answer is not None and answer.decision is decision and answer.decided_by == by.subject
        if is_own and rules.is_overdue(approval, now=now):
            raise await self._refusal(
                approval,
                by,
                "approval_expired",
                "It was approved, and nobody used it in time; it has to be asked anew.",
            )
        if is_own and approval.state in _STANDING[decision]:
            return self._view(approval, by, now)
        who = ""
        if answer is not None and approval.state in _DECIDED:
            who = f" by {answer.decided_by} at {rules.instant_text(answer.decided_at)}"
        raise await self._refusal(approval, by, "already_decided", f"It is {approval.state.value} already{who}.")

    async def _refusal(self, approval: Approval, by: Principal, code: str, message: str) -> DecisionRefused:
        """Every refused decision is on record."""
        event = self._event(EventKind.DECISION_REFUSED, approval, detail=code, decided_by=by.subject)
        await self._store.record((event,))
        return DecisionRefused(message, code=code)

    def _event(self, kind: EventKind, approval: Approval, **more: object) -> AuditEvent:
        return self._chronicle.event(
            kind, self._chronicle.of_question(approval.question), model_suggested=False, **more
        )

    async def _may_look(self, by: Principal) -> None:
        if not is_principal(by):
            raise MisuseError("by= is the signed-in Principal.")
        if by.standing is not Standing.PERSON:
            facts = self._chronicle.of_principal(by)
            event = self._chronicle.event(EventKind.DECISION_REFUSED, facts, detail="not_a_person")
            await self._store.record((event,))
            raise DecisionRefused(
                "Approvals are for people; a credential that proposes never decides.", code="not_a_person"
            )

    def _view(self, approval: Approval, by: Principal, now: datetime) -> ApprovalView:
        question, answer = approval.question, approval.answer
        canonical = stored_arguments(question, self._keys)
        contract = self._contract_of(question)
        arguments = decode_object(canonical, wide=_EVERYWHERE) if canonical is not None else {}
        redacted = tuple(sorted(contract.redact & set(arguments) if contract is not None else arguments))
        state = approval.state
        if rules.is_overdue(approval, now=now):
            state = ApprovalState.EXPIRED
        return ApprovalView(
            approval_id=question.approval_id,
            state=state,
            tool=question.tool,
            tool_version=question.tool_version,
            risk=contract.risk.value if contract is not None else "unregistered",
            effect_class=contract.effect_class.value if contract is not None else "unregistered",
            description=contract.description if contract is not None else "",
            arguments={name: REDACTED if name in redacted else value for name, value in arguments.items()},
            redacted=redacted,
            digest=question.argument_digest,
            resource=operations.readable(question.resource) if question.resource is not None else None,
            requested_by=subjects_of(question.subject)[0],
            on_behalf_of=question.on_behalf_of,
            run_id=question.run_id,
            reasons=question.reasons,
            policy_version=question.policy_version,
            asked_at=question.asked_at,
            decide_by=question.decide_by,
            decided_by=answer.decided_by if answer is not None else None,
            decided_at=answer.decided_at if answer is not None else None,
            expires_at=answer.expires_at if answer is not None else None,
            words=answer.reason or None if answer is not None else None,
            why_not=rules.why_not_entitled(question, by) or (CONTRACT_NOT_HERE if contract is None else None),
        )

    def _contract_of(self, question: Question) -> Contract | None:
        """The very contract the question was asked under; without it nobody here knows what to redact."""
        tool = self._registry.tools.get(question.tool)
        is_same = tool is not None and tool.contract.digest == question.contract_digest
        return tool.contract if tool is not None and is_same else None
