"""Finds, verifies or asks for the approval of one exact call. Deciding is the desk's, spending is the claim's.

A row of the database is believed only as far as its MACs carry it: the question as asked, the answer as signed, the
sealed arguments as digested. Whatever does not hold is an alarm and a refusal, never an approval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from placet.engine.chronicle import Chronicle
from placet.engine.editing import arguments_of
from placet.engine.entitling import UNCERTAIN, Decided, Entitling
from placet.engine.preconditions import NotSeen, Preconditions
from placet.engine.standing import Granted, StandingGrants, SuspectGrant
from placet.engine.verifying import question_binding, verify, verify_quorum
from placet.model.approval import Approval, ApprovalState, Edited, Question
from placet.model.audit import AuditOutcome, EventKind
from placet.model.call import Call
from placet.model.decision import Ask, RequirementKind
from placet.model.grant import GrantId
from placet.model.identifiers import ApprovalId
from placet.model.json import JsonObject
from placet.model.ledger import (
    NotYourRun,
    OutsideRun,
    OverBudget,
    Recorded,
    SameAsk,
    Step,
    Stopped,
    ToolClosed,
    Withdrawal,
)
from placet.ports.clock import IdSource
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.rules import approvals as rules
from placet.rules import lifecycle, operations
from placet.rules.approvals import Misfit
from placet.rules.preconditions import STATE_CHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The question has been asked; nobody has answered yet. `is_new`: asked just now, and recorded with the asking."""

    approval: Approval
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBefore:
    """A person has refused exactly this; the refusal stands for the rest of the run."""

    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What is on record does not hold."""

    approval: Approval
    misfit: Misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedByPerson:
    """A person made another question of exactly this; `arguments` are what that one is about."""

    approval: Approval
    arguments: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Another process has begun the operation since the ledger was read: the record answers, and nobody is asked."""


Finding = (
    EditedByPerson
    | Moved
    | NotSeen
    | Approval
    | Waiting
    | RefusedBefore
    | Suspect
    | Granted
    | SuspectGrant
    | OverBudget
    | OutsideRun
    | NotYourRun
    | Stopped
    | ToolClosed
)


_STANDING = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.SPENT})
_MOST_BEFORE = 1_000
"""Questions about one tool in a run, the newest, among which it is looked for who made this very call before."""
_MOST_EDITS = 8
"""Edits of edits that are followed; whoever asks after more is asked about anew."""


class Approver:
    """The approvals of one store, as the gate needs them."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        chronicle: Chronicle,
        ids: IdSource,
        entitling: Entitling,
        standing: StandingGrants,
        preconditions: Preconditions,
    ) -> None:
        self._preconditions = preconditions
        self._entitling = entitling
        self._standing = standing
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._ids = ids

    async def adopted(self, call: Call, ask: Ask) -> Call:
        """The same wish under a new call id is the same proposal: take the id and key it was asked under.

        Where the contract or the caller named the operation itself, its name already says what is the same.
        """
        if call.operation_key != operations.call_key(call.run_id, call.call_id):
            return call
        for approval in await self._store.same_ask(self._same(call, ask)):
            is_open = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
            if is_open and verify(approval, self._keys) is None and not await self._retired(approval):
                return _as_asked(call, approval)
        return await self._adopted_before(call, ask)

    async def _adopted_before(self, call: Call, ask: Ask) -> Call:
        """A call that shared another one's question shares what came of it: asking again acts no second time."""
        closed = await self._store.closed_ask(
            self._same(call, ask), call_id=call.reply_to, fingerprint=call.fingerprint, own_key=call.operation_key
        )
        for approval in closed:
            known = await self._store.effect(call.principal.tenant, approval.question.operation_key)
            if known is not None and verify(approval, self._keys) is None:
                return _as_asked(call, approval)
        return call

    async def approval_for(
        self,
        call: Call,
        ask: Ask,
        step: Step,
        *,
        dispatch_number: int,
        deadline: float,
        without: frozenset[GrantId] | None = frozenset(),
        void: Approval | None = None,
    ) -> Finding:
        """The approval, or the standing grant, that authorises this dispatch, verified; or where the question stands.

        A denial answers the same arguments under every name: another key of the caller's own does not get around it,
        and no grant does. What a person said about this very call comes first; a question that nobody has answered yet
        is answered by a grant, and taken back by the claim that uses it: until then it waits, and may be answered.

        Args:
            deadline: when the caller stops waiting, on the monotonic clock.
            without: grants that were found not to be usable after all; None where none may be used any more.
            void: an approval that is bound to another state than there is by now; what is asked anew closes it.
        """
        denied: Approval | None = None
        edited: Edited | None = None
        passed_over: set[tuple[ApprovalId, ApprovalState]] = set()
        closing: list[Withdrawal] = []
        mine = self._same(call, ask)
        found = await self._store.same_ask(replace(mine, policy_version=None, operation_key=None))
        for approval in found:
            altered = await self._altered(approval)
            if altered is Misfit.KEY_RETIRED:
                passed_over.add((approval.question.approval_id, approval.state))
                closing.append(self._void(approval, call))
                continue
            if altered is not None:
                return Suspect(approval=approval, misfit=altered)
            if mine.operation_key not in (None, approval.question.operation_key):
                is_denied = approval.state is ApprovalState.DENIED
                denied = approval if is_denied and approval.question.policy_version == ask.policy_version else denied
                passed_over.add((approval.question.approval_id, approval.state))
                continue
            if await self._retired(approval):
                continue
            edited = edited or approval.question.edited  # what is asked anew stays the editor's, who may not approve it
            if approval.question.policy_version != ask.policy_version:
                closing.append(self._withdrawal(approval, "policy_changed"))  # an older policy's is asked again
                continue
            if void is not None and approval.question.approval_id == void.question.approval_id:
                closing.append(self._withdrawal(approval, STATE_CHANGED))
                continue
            match approval.state:
                case ApprovalState.PENDING if rules.asks_for(
                    approval.question, call, ask, dispatch_number=dispatch_number
                ):
                    await self._close(closing)
                    if any(each.state is ApprovalState.DENIED for each in found):
                        return Waiting(approval=approval, is_new=False)
                    others = {(each.question.approval_id, each.state) for each in found if each is not approval}
                    granted = await self._granted(call, ask, others, waiting=approval, without=without)
                    return granted or Waiting(approval=approval, is_new=False)
                case ApprovalState.DENIED:
                    await self._close(closing)
                    return RefusedBefore(approval=approval)
                case ApprovalState.APPROVED:
                    now = await self._store.now()
                    problem = rules.misfit(approval, call, ask, dispatch_number=dispatch_number, now=now)
                    if problem is None:
                        await self._close(closing)
                        return approval
                case _:
                    pass
            closing.append(self._withdrawal(approval, "no_longer_fits"))  # another contract or dispatch; ask anew
        instead: Finding | None = None if denied is None else RefusedBefore(approval=denied)
        instead = instead or await self._edited(call, ask)
        instead = instead or await self._granted(call, ask, passed_over, waiting=None, without=without)
        if instead is None and await self._has_moved(call, dispatch_number):
            return Moved()
        if instead is None:
            bound = await self._preconditions.captured(call, deadline=deadline)
            if isinstance(bound, NotSeen):
                return bound
            question = await self._question(call, ask, dispatch_number=dispatch_number)
            question = replace(question, precondition=bound, edited=edited or await self._made_before(call))
            return await self._ask(call, ask, step, question, closing=tuple(closing))
        await self._close(closing)
        return instead

    async def _has_moved(self, call: Call, dispatch_number: int) -> bool:
        """Whether the approval that is not there any more may have been spent on this dispatch: a claim spends it and
        moves the ledger in one transaction, so whoever saw it gone sees the ledger moved.
        """
        effect = await self._store.effect(call.principal.tenant, call.operation_key)
        answer = lifecycle.ledger_answer(call, effect)
        return not isinstance(answer, lifecycle.MayDispatch) or answer.expected_fence != dispatch_number

    async def refusal_of_givers(self, approval: Approval, *, deadline: float) -> str | None:
        """Why the approval is not spent although it fits: somebody who gave it may not any more. None if all may.

        It is revoked then, so that the next ask is a new question; where nobody could tell, it stays as it is.
        """
        givers = await self._givers(approval)
        if isinstance(givers, Misfit):  # somebody altered the votes since they were verified
            facts = self._chronicle.of_question(approval.question)
            alarm = self._chronicle.event(EventKind.APPROVAL_SUSPECT, facts, detail=givers.value, model_suggested=False)
            await self._store.record((alarm,))
            return givers.value
        for decided in givers:
            code = await self._entitling.why_not_any_more(approval.question, decided, deadline=deadline)
            if code is not None:
                await self._refuse_giver(approval, decided, code)
                return code
        return None

    async def who_may_approve(self, call: Call, ask: Ask) -> tuple[str, ...]:
        """Everybody listed who may answer the question that this call would be. Nothing is asked."""
        question = await self._question(call, ask, dispatch_number=0)
        return await self._entitling.who_may(question, now=question.asked_at)

    async def _givers(self, approval: Approval) -> list[Decided] | Misfit:
        """Everybody whose leave the approval rests on, with what was signed about it."""
        question, answer = approval.question, approval.answer
        if question.requirement is RequirementKind.QUORUM:
            votes = await self._store.votes(question.tenant, question.approval_id)
            counted = rules.standing_votes(votes)
            misfit = verify_quorum(approval, votes, self._keys)
            return misfit or [Decided(subject=each.vote.voter, leave=each.vote.leave) for each in counted]
        return [] if answer is None else [Decided(subject=answer.decided_by, leave=answer.leave)]

    async def _refuse_giver(self, approval: Approval, decided: Decided, code: str) -> None:
        facts = self._chronicle.of_question(approval.question)
        refused = self._chronicle.event(
            EventKind.DECISION_REFUSED, facts, detail=code, decided_by=decided.subject, model_suggested=False
        )
        if code in UNCERTAIN:
            await self._store.record((refused,))
            return
        revoked = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail=code, model_suggested=False)
        await self._store.retire(approval, ApprovalState.REVOKED, events=(refused, revoked))

    async def _altered(self, approval: Approval) -> Misfit | None:
        """What of the row, and of the votes that made it, does not hold."""
        question = approval.question
        altered = verify(approval, self._keys)
        is_quorum = question.requirement is RequirementKind.QUORUM and approval.state is ApprovalState.APPROVED
        if altered is not None or not is_quorum:
            return altered
        votes = await self._store.votes(question.tenant, question.approval_id)
        return verify_quorum(approval, votes, self._keys)

    async def _edited(self, call: Call, ask: Ask) -> EditedByPerson | None:
        """What people have made of this very call, if that waits, may be spent, or was; edits of edits are followed."""
        wish = self._same(call, ask)
        for _ in range(_MOST_EDITS):
            found = await self._sound_edit(wish)
            if found is None:
                return None
            question = found.question
            if found.state is not ApprovalState.WITHDRAWN:
                is_over = rules.is_overdue(found, now=await self._store.now())
                of_today = (ask.policy_version, call.contract.digest)
                is_of_today = (question.policy_version, question.contract_digest) == of_today
                is_of_today = is_of_today or found.state is ApprovalState.SPENT
                arguments = arguments_of(question, self._keys, call.contract)
                if found.state not in _STANDING or is_over or not is_of_today or arguments is None:
                    return None
                return EditedByPerson(approval=found, arguments=arguments)
            wish = replace(wish, argument_digest=question.argument_digest)
        return None

    async def _made_before(self, call: Call) -> Edited | None:
        """Who made this very call of another one in the run, whatever became of that question: who takes an edit of
        one's own back, or lets it run out, does not approve it when the proposer proposes it as it was told.
        """
        tenant, run_id, tool = call.principal.tenant, call.run_id, call.contract.name
        for approval in await self._store.approvals_of_tool(tenant, run_id, tool, limit=_MOST_BEFORE):
            question = approval.question
            is_this = (question.subject, question.argument_digest) == (call.principal.identity, call.argument_digest)
            if is_this and question.edited is not None and verify(approval, self._keys) is None:
                return question.edited
        return None

    async def _sound_edit(self, wish: SameAsk) -> Approval | None:
        """The newest question that was made of this one and says so under its MAC."""
        for approval in await self._store.edits(wish):
            question = approval.question
            is_of_wish = (question.tenant, question.subject, question.run_id, question.tool) == (
                wish.tenant,
                wish.subject,
                wish.run_id,
                wish.tool,
            )
            mark = question.edited
            is_of_it = is_of_wish and mark is not None and mark.from_digest == wish.argument_digest
            if is_of_it and verify(approval, self._keys) is None:
                return approval
        return None

    async def _ask(
        self, call: Call, ask: Ask, step: Step, question: Question, *, closing: tuple[Withdrawal, ...]
    ) -> Finding:
        """What it takes the place of is closed with it, or not at all: nobody took that back."""
        mac = self._keys.mac(KeyPurpose.APPROVAL, rules.question_form(question))
        facts = self._chronicle.of_call(call, ask)
        facts["approval_id"] = question.approval_id
        events = (
            *self._chronicle.pair(facts, AuditOutcome.APPROVAL_REQUIRED, attempt=call.first_attempt),
            self._chronicle.event(EventKind.APPROVAL_ASKED, facts, expires_at=question.decide_by),
        )
        same = self._same(call, ask)
        answer = await self._store.ask(question, mac, same, step=step, events=events, closing=closing)
        match answer:
            case Approval():
                return Waiting(approval=answer, is_new=answer.question.approval_id == question.approval_id)
            case Recorded():
                raise AssertionError("a store answers a question with its approval")
            case _:
                return answer

    async def _question(self, call: Call, ask: Ask, *, dispatch_number: int) -> Question:
        now = await self._store.now()
        approval_id = ApprovalId(self._ids.new_id("apr"))
        return Question(
            approval_id=approval_id,
            tenant=call.principal.tenant,
            environment=call.principal.environment,
            subject=call.principal.identity,
            on_behalf_of=rules.on_behalf_of(call.principal),
            request_id=call.request_id,
            run_id=call.run_id,
            call_id=call.call_id,
            tool=call.contract.name,
            tool_version=call.contract.version,
            contract_digest=call.contract.digest,
            argument_digest=call.argument_digest,
            resource=call.resource,
            operation_key=call.operation_key,
            dispatch_number=dispatch_number,
            purpose=call.contract.purpose,
            policy_version=ask.policy_version,
            reasons=ask.reasons,
            requirement=ask.requirement.kind,
            terms=ask.requirement.terms,
            reminders=ask.requirement.reminders,
            lifetime_seconds=ask.requirement.lifetime_seconds,
            asked_at=now,
            decide_by=now + timedelta(seconds=ask.requirement.decide_within_seconds),
            nonce=self._ids.new_id("n"),
            sealed_arguments=self._keys.seal(
                call.canonical_arguments, bound_to=question_binding(call.principal.tenant, approval_id)
            ),
        )

    async def _retired(self, approval: Approval) -> bool:
        """Whether its clock has run out; the row then says so from now on."""
        if not rules.is_overdue(approval, now=await self._store.now()):
            return False
        await expire(approval, self._store, self._chronicle)
        return True

    async def _granted(
        self,
        call: Call,
        ask: Ask,
        passed_over: set[tuple[ApprovalId, ApprovalState]],
        *,
        waiting: Approval | None,
        without: frozenset[GrantId] | None,
    ) -> Granted | SuspectGrant | None:
        found = await self._standing.grant_for(call, ask, without=without)
        if found is None or isinstance(found, SuspectGrant):
            return found
        if await self._sound_edit(self._same(call, ask)) is not None:
            return None  # whatever became of the edit, a person did not want this call as it is
        same = replace(self._same(call, ask), operation_key=None)
        return Granted(stored=found, same=same, waiting=waiting, passed_over=frozenset(passed_over))

    async def _close(self, closing: list[Withdrawal]) -> None:
        for each in closing:
            ends = rules.CLOSED_AS.get(each.approval.state)
            if ends is not None:
                await self._store.retire(each.approval, ends, events=(each.event,))

    def _void(self, approval: Approval, call: Call) -> Withdrawal:
        """Close what was signed under a key that is retired. The row is not verified, so the event repeats none of it.

        A denial stays as it is: it closed itself, and answers no more.
        """
        facts = self._chronicle.of_principal(call.principal)
        facts["approval_id"] = approval.question.approval_id
        event = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail=Misfit.KEY_RETIRED.value)
        return Withdrawal(approval=approval, event=event)

    def _withdrawal(self, approval: Approval, detail: str) -> Withdrawal:
        facts = self._chronicle.of_question(approval.question)
        event = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail=detail)
        return Withdrawal(approval=approval, event=event)

    def _same(self, call: Call, ask: Ask) -> SameAsk:
        is_named = call.operation_key != operations.call_key(call.run_id, call.call_id)
        return SameAsk(
            tenant=call.principal.tenant,
            subject=call.principal.identity,
            run_id=call.run_id,
            tool=call.contract.name,
            argument_digest=call.argument_digest,
            policy_version=ask.policy_version,
            operation_key=call.operation_key if is_named else None,
        )


def _as_asked(call: Call, approval: Approval) -> Call:
    return replace(call, call_id=approval.question.call_id, operation_key=approval.question.operation_key)


async def expire(approval: Approval, store: Store, chronicle: Chronicle) -> Approval:
    """Put on record that the clock of an approval has run out; the approval as it is then."""
    facts = chronicle.of_question(approval.question)
    event = chronicle.event(EventKind.APPROVAL_EXPIRED, facts, model_suggested=False)
    return await store.retire(approval, ApprovalState.EXPIRED, events=(event,))
