"""One approval as a person sees it. It is made from the stored canonical arguments: what is shown is what is signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from placet.engine.entitling import Entitling, Listing
from placet.engine.registry import Registry
from placet.engine.verifying import sound_votes, stored_arguments, verify, verify_quorum
from placet.model.approval import Approval, ApprovalState, Difference, Question, SignedVote, VoteKind
from placet.model.contract import Contract
from placet.model.decision import RequirementKind
from placet.model.identifiers import ApprovalId, Digest
from placet.model.json import JsonObject
from placet.model.principal import Principal, subjects_of
from placet.model.reminders import ReminderStep, Told
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import one_turn
from placet.rules import approvals as rules
from placet.rules import operations
from placet.rules.approvals import Misfit
from placet.rules.asked_again import asked_before, differences
from placet.rules.decoding import decode_object
from placet.rules.documents import document_of
from placet.rules.preconditions import SHOWN_CHARACTERS
from placet.rules.reminding import escalates_at

REDACTED = "[REDACTED]"
CONTRACT_NOT_HERE = "contract_not_here"
"""The tool, or this version of its contract, is not registered where somebody looks: everything is redacted."""
UNREGISTERED = "unregistered"
"""Risk and class of effect of what is not registered there."""
_EVERYWHERE = frozenset(("*",) * depth for depth in range(1, 64))
"""Stored arguments are authenticated; every integer in them may be as wide as it is."""
_VIEWS_A_TURN = 25
"""Approvals of which a list takes care before whatever else is ready goes first: some milliseconds of work."""
_MOST_BEFORE = 100
"""Questions about one tool of a run, the newest, among which the one that was asked before is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteView:
    """Who has approved towards a quorum so far, and with what words."""

    voter: str
    voted_at: datetime
    words: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """One approval as a person sees it.

    Attributes:
        arguments: exactly what will run, except fields the contract redacts even here; in the contract's order.
        redacted: names of redacted fields; they are covered by the digest all the same.
        digest: what a decision must carry; it names these arguments and no others.
        decided_by, decided_at, words: the decision, if there is one.
        why_not: why this person may not decide it; None if it may.
        requirement: `confirm`, `review` or `quorum`.
        rule: the rule of the policy that said so; None where none did.
        votes_needed, votes: of a quorum; votes that were taken back are not among them.
        own_vote: what this person has said towards a quorum: `approve`, or `withdraw` once it took that back.
        who_may: everybody listed here who may decide it, and has not voted; only where one approval is shown.
        edited_by, edited_from: whoever made this question of another one, and of which; None of one that was asked.
        needs_reason: the decisions, `approve` or `deny`, that this person has to give a reason with.
        call_id: the proposer's name of the call within its run.
        operation_key: what the effect will be known by. Neither it nor the resource holds anything redacted.
        environment: where it would run, as whoever asked signed in.
        purpose: what the contract said, when it was asked, that such calls are for.
        reminded_at: when people were told again that it waits.
        escalates_at: when it is escalated if nobody decides it before; None where it never is.
        escalated_at: when that was announced; None where it was not, or not yet.
        escalate_to: whom the escalation is for, as `role:`, `scope:` or `subject:` and a name.
        escalation_widens: whether those may decide from `escalates_at` on, though the rule names others.
        differences: what is asked otherwise than when this very call was asked about under an earlier policy; only
            where one approval is shown.
        state_digest: the first characters of the keyed digest of the state of the world that it was asked about in,
            and that has to be the same when the call runs; None where it is bound to none. Never a value of it.
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
    requirement: str = RequirementKind.REVIEW.value
    rule: str | None = None
    votes_needed: int = 1
    votes: tuple[VoteView, ...] = ()
    own_vote: str | None = None
    who_may: tuple[str, ...] = ()
    needs_reason: tuple[str, ...] = ()
    edited_by: str | None = None
    edited_from: ApprovalId | None = None
    may_edit: bool = True
    call_id: str = ""
    operation_key: str = ""
    environment: str = ""
    purpose: str = ""
    reminded_at: tuple[datetime, ...] = ()
    escalates_at: datetime | None = None
    escalated_at: datetime | None = None
    escalate_to: tuple[str, ...] = ()
    escalation_widens: bool = False
    differences: tuple[Difference, ...] = ()
    state_digest: str | None = None


def standing_of(view: ApprovalView) -> JsonObject:
    """How an approval stands, for whoever was refused a decision about it: who decided, when, or since when it is over.

    `clock` says which time ran out: that to `decide`, or that to `use` what was approved. Source: UI 22.
    """
    expired_at = None
    if view.state is ApprovalState.EXPIRED:
        expired_at = view.expires_at if view.expires_at is not None else view.decide_by
    return {
        "state": view.state.value,
        "digest": view.digest,
        "decided_by": view.decided_by,
        "decided_at": document_of(view.decided_at),
        "expired_at": document_of(expired_at),
        "clock": None if expired_at is None else ("use" if view.expires_at is not None else "decide"),
    }


class ApprovalViews:
    """Makes the views of one store's approvals."""

    def __init__(self, *, store: Store, keys: Keys, registry: Registry, entitling: Entitling) -> None:
        self._store = store
        self._keys = keys
        self._registry = registry
        self._entitling = entitling

    async def votes(self, approval: Approval) -> tuple[SignedVote, ...] | Misfit:
        """The votes on an approval that `verify` has passed; or what of them does not hold."""
        question = approval.question
        if question.requirement is not RequirementKind.QUORUM:
            return ()
        found = await self._store.votes(question.tenant, question.approval_id)
        if approval.answer is not None and approval.answer.votes:
            return verify_quorum(approval, found, self._keys) or found
        return sound_votes(question, found, self._keys)

    async def listed(self, approvals: Sequence[Approval], by: Principal, now: datetime) -> tuple[ApprovalView, ...]:
        """Those of the person's tenant that hold, in their order."""
        found: list[ApprovalView] = []
        listing = self._entitling.look_up(by)
        for number, approval in enumerate(approvals, start=1):
            if number % _VIEWS_A_TURN == 0:
                await one_turn()
            if approval.question.tenant == by.tenant and verify(approval, self._keys) is None:
                votes = await self.votes(approval)
                if not isinstance(votes, Misfit):
                    found.append(await self._view(approval, votes, by, now, listing=listing))
        return tuple(found)

    async def shown(
        self, approval: Approval, votes: tuple[SignedVote, ...], by: Principal, now: datetime
    ) -> ApprovalView:
        """One, with everybody who may still decide it."""
        view = await self._view(approval, votes, by, now, who_may=await self._who_may(approval, votes, now))
        return replace(view, differences=await self._differences(approval.question))

    async def _differences(self, question: Question) -> tuple[Difference, ...]:
        found = await self._store.approvals_of_tool(question.tenant, question.run_id, question.tool, limit=_MOST_BEFORE)
        sound = [each for each in found if verify(each, self._keys) is None]
        earlier = asked_before(question, sound)
        return () if earlier is None else differences(earlier, question)

    async def _who_may(self, approval: Approval, votes: tuple[SignedVote, ...], now: datetime) -> tuple[str, ...]:
        if approval.state is not ApprovalState.PENDING:
            return ()
        voters = {each.vote.voter for each in votes}
        may = await self._entitling.who_may(approval.question, now=now)
        return tuple(name for name in may if name not in voters)

    async def _view(
        self,
        approval: Approval,
        votes: tuple[SignedVote, ...],
        by: Principal,
        now: datetime,
        *,
        who_may: tuple[str, ...] = (),
        listing: Listing | None = None,
    ) -> ApprovalView:
        question, answer = approval.question, approval.answer
        canonical = stored_arguments(question, self._keys)
        contract = self.contract_of(question)
        stored = decode_object(canonical, wide=_EVERYWHERE) if canonical is not None else {}
        arguments = stored if contract is None else _in_order(stored, contract)
        redacted = tuple(sorted(contract.redact & set(arguments) if contract is not None else arguments))
        state = ApprovalState.EXPIRED if rules.is_overdue(approval, now=now) else approval.state
        leave = await self._entitling.leave_to_decide(question, by, now=now, listing=listing)
        why_not = leave if isinstance(leave, str) else None
        told, reminders = await self._told(question), question.reminders
        return ApprovalView(
            approval_id=question.approval_id,
            state=state,
            tool=question.tool,
            tool_version=question.tool_version,
            risk=contract.risk.value if contract is not None else UNREGISTERED,
            effect_class=contract.effect_class.value if contract is not None else UNREGISTERED,
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
            why_not=why_not or (CONTRACT_NOT_HERE if contract is None else None),
            requirement=question.requirement.value,
            rule=question.terms.rule if question.terms is not None else None,
            votes_needed=question.votes_needed,
            votes=tuple(
                VoteView(voter=each.vote.voter, voted_at=each.vote.voted_at, words=each.vote.reason or None)
                for each in rules.standing_votes(votes)
            ),
            own_vote=own_vote(votes, by),
            who_may=who_may,
            needs_reason=rules.reasons_needed(question),
            edited_by=question.edited.by if question.edited is not None else None,
            edited_from=question.edited.from_id if question.edited is not None else None,
            may_edit=question.terms is None or question.terms.may_edit,
            call_id=question.call_id,
            operation_key=question.operation_key,
            environment=question.environment,
            purpose=question.purpose,
            reminded_at=tuple(each.at for each in told if each.step is ReminderStep.REMIND),
            escalates_at=escalates_at(question),
            escalated_at=next((each.at for each in told if each.step is ReminderStep.ESCALATE), None),
            escalate_to=() if reminders is None else reminders.escalate_to,
            escalation_widens=reminders is not None and reminders.widens,
            state_digest=None if question.precondition is None else question.precondition.value[:SHOWN_CHARACTERS],
        )

    async def _told(self, question: Question) -> tuple[Told, ...]:
        """What was told while it waited, as a row says: it is shown, and decides nothing."""
        if question.reminders is None:
            return ()
        return await self._store.told_reminders(question.tenant, question.approval_id)

    def contract_of(self, question: Question) -> Contract | None:
        """The very contract the question was asked under; without it nobody here knows what to redact."""
        tool = self._registry.tools.get(question.tool)
        is_same = tool is not None and tool.contract.digest == question.contract_digest
        return tool.contract if tool is not None and is_same else None


def _in_order(arguments: JsonObject, contract: Contract) -> JsonObject:
    """Canonical arguments stand in the order of their letters; people know them in the contract's."""
    known = {name: arguments[name] for name in contract.argument_names if name in arguments}
    return known | arguments


def own_vote(votes: tuple[SignedVote, ...], by: Principal) -> VoteKind | None:
    """What the person has said last: whoever took a vote back gave it before."""
    said = {each.vote.kind for each in votes if each.vote.voter == by.subject}
    return next((kind for kind in (VoteKind.WITHDRAW, VoteKind.APPROVE) if kind in said), None)
