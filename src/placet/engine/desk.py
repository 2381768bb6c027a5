"""Where people see what is waiting and decide it. Approving never executes anything.

What is shown is what is signed: the view is made from the stored canonical arguments, and a decision carries the
digest that was on the screen. Another tenant's approval looks exactly like one that does not exist.
"""

from __future__ import annotations

from datetime import datetime

from placet.engine.approval_views import CONTRACT_NOT_HERE, ApprovalView, ApprovalViews, own_vote
from placet.engine.approving import expire
from placet.engine.chronicle import Chronicle
from placet.engine.desk_words import asked_already, expired, stands
from placet.engine.editing import Editor, NoEdit, same_as
from placet.engine.entitling import Entitling, detail_of_leave, refusal_of
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.engine.registry import Registry
from placet.engine.several import Several
from placet.engine.signing import Signing
from placet.engine.triage import Triage
from placet.engine.verifying import verify
from placet.engine.watching import Watching
from placet.errors import DecisionRefused, MisuseError, NotFound, StoreUnavailable
from placet.model.approval import (
    Answer,
    Approval,
    ApprovalDecision,
    ApprovalState,
    Leave,
    Question,
    SignedAnswer,
    SignedVote,
    VoteKind,
)
from placet.model.audit import AuditEvent, EventKind
from placet.model.decision import RequirementKind
from placet.model.exact import MOST_LISTED, is_limit, members_of
from placet.model.identifiers import ApprovalId
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, Standing, is_identity, is_principal, subjects_of
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import approvals as rules
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.listing import mark_of_approval
from placet.rules.policy import DECIDE_SCOPE

__all__ = ["MAX_REASON_CHARACTERS", "ApprovalView", "Desk"]

_MOST_TRIES = 32
"""Votes at once that one person gives way to; each of those that were faster stands."""
MAX_REASON_CHARACTERS = 500
_STANDING = {
    ApprovalDecision.APPROVE: frozenset({ApprovalState.APPROVED, ApprovalState.SPENT}),
    ApprovalDecision.DENY: frozenset({ApprovalState.DENIED}),
}
"""Where an approval stands as long as the decision does. A spent one was used as it was decided."""


class Desk:
    """Shows and decides the approvals of one store."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        chronicle: Chronicle,
        registry: Registry,
        entitling: Entitling,
        editor: Editor,
    ) -> None:
        self._editor = editor
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._entitling = entitling
        self._signing = Signing(keys)
        self._views = ApprovalViews(store=store, keys=keys, registry=registry, entitling=entitling)
        self.watching = Watching(store=store, views=self._views, may_look=self._may_look)
        self.triage = Triage(store=store, keys=keys, views=self._views, may_look=self._may_look)
        self.several = Several(
            self,
            store=store,
            views=self._views,
            may_look=self._may_look,
            verified=self._verified,
            refusal=self._refusal,
        )

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
        return await self._views.listed(found, by, await self._store.now())

    @paying
    async def page(
        self,
        *,
        by: Principal,
        states: tuple[ApprovalState, ...] = tuple(ApprovalState),
        limit: int = 100,
        after: Mark | None = None,
    ) -> Page[ApprovalView]:
        """What `listed` lists, a page of at most 1,000 at a time. Raises what `listed` raises."""
        wanted = members_of(ApprovalState, states)
        if wanted is None or not is_limit(limit) or limit > MOST_IN_A_PAGE:
            raise MisuseError(f"states= is a tuple of ApprovalState, limit= a whole number from 1 to {MOST_IN_A_PAGE}.")
        await self._may_look(by)

        async def fetch(mark: Mark | None, count: int) -> tuple[Approval, ...]:
            return await self._store.approvals_after(by.tenant, mark, states=wanted, limit=count)

        def sound(approval: Approval) -> Approval | None:
            is_sound = approval.question.tenant == by.tenant and verify(approval, self._keys) is None
            return approval if is_sound else None

        found = await read_page(fetch, mark_of=mark_of_approval, shown=sound, after=after, limit=limit)
        return Page(rows=await self._views.listed(found.rows, by, await self._store.now()), after=found.after)

    @paying
    async def show(self, approval_id: str, *, by: Principal) -> ApprovalView:
        """One approval.

        Raises:
            NotFound: there is none in this person's tenant.
            DecisionRefused: the stored row was altered; an alarm is recorded.
        """
        await self._may_look(by)
        approval, votes = await self._verified(approval_id, by)
        return await self._views.shown(approval, votes, by, await self._store.now())

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
        is_text = type(reason) is str and LONE_SURROGATE.search(reason) is None and "\x00" not in reason
        if not is_text or len(reason) > MAX_REASON_CHARACTERS:
            raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")
        await self._may_look(by)
        approval, votes = await self._verified(approval_id, by)
        question = approval.question
        leave = await self._entitled(approval, by, digest)
        if decision is ApprovalDecision.APPROVE:
            await self._require_contract(approval, by)
        now = await self._store.now()  # after policy and list, which may have taken their time
        if approval.state is not ApprovalState.PENDING:
            return await self._as_decided(approval, votes, decision, by, now)
        await self._require_in_time(approval, by, now)
        if rules.lacks_reason(question, decision, reason):
            raise await self._refusal(
                approval, by, "reason_missing", "The rule that asked wants your reason with this decision."
            )
        if decision is ApprovalDecision.APPROVE and question.requirement is RequirementKind.QUORUM:
            return await self._vote(approval, votes, by=by, leave=leave, reason=reason)
        answer = self._signing.answer(question, decision, by=by, leave=leave, now=now, reason=reason)
        kind = EventKind.APPROVAL_APPROVED if decision is ApprovalDecision.APPROVE else EventKind.APPROVAL_DENIED
        decided = await self._store.answer(
            approval, answer.answer, answer.signature, events=(self._decision_event(kind, approval, answer.answer),)
        )
        return await self._as_decided(decided, votes, decision, by, now)

    async def _entitled(self, approval: Approval, by: Principal, digest: object) -> Leave:
        """With what leave the person decides about the arguments that it saw.

        Raises:
            DecisionRefused: it may not, or saw others.
        """
        now = await self._store.now()
        leave = await self._entitling.leave_to_decide(approval.question, by, now=now)
        if isinstance(leave, str):
            raise await self._refusal(approval, by, leave, "This person may not decide this approval.")
        if type(digest) is not str or digest != approval.question.argument_digest:
            raise await self._refusal(approval, by, "other_digest", "The decision is about other arguments.")
        return leave

    async def _require_contract(self, approval: Approval, by: Principal) -> None:
        if self._views.contract_of(approval.question) is None:
            raise await self._refusal(
                approval, by, CONTRACT_NOT_HERE, "This process does not know the contract, so it cannot show the call."
            )

    async def _require_in_time(self, approval: Approval, by: Principal, now: datetime) -> None:
        """The row of one that nobody decided in time says so from now on."""
        if rules.is_overdue(approval, now=now):
            await expire(approval, self._store, self._chronicle)
            raise await self._refusal(approval, by, "approval_expired", expired(approval.question))

    @paying
    async def edit(self, approval_id: str, *, digest: str, arguments: object, by: Principal) -> ApprovalView:
        """Make another question of one that waits, with other arguments, and close the first. Nothing runs.

        The answer is the new question. It is the editor's: its own approval counts for no review and no quorum. The
        proposer is told, with the arguments, when it asks for the old call; it has to ask for the new one itself, and
        needs leave for it. Fields that the contract redacts keep what they hold.

        Args:
            digest: the `digest` of the view that was read.
            arguments: all of them, as JSON text or as plain values.

        Raises:
            NotFound: no such approval in this tenant.
            DecisionRefused: not entitled to decide it, too late, decided already, or policy does not allow the new call
                to the editor; `code` says which.
            InvalidArguments: they break the contract.
        """
        await self._may_look(by)
        approval, _ = await self._verified(approval_id, by)
        await self._entitled(approval, by, digest)
        await self._require_contract(approval, by)
        if approval.state is not ApprovalState.PENDING:
            raise await self._refusal(approval, by, "already_decided", stands(approval))
        await self._require_in_time(approval, by, await self._store.now())
        question = await self._editor.edited(approval.question, arguments, by=by)
        if isinstance(question, NoEdit):
            raise await self._refusal(approval, by, question.code, question.message)
        found = await self._replaced(approval, question, by)
        return await self._views.shown(found, (), by, await self._store.now())

    async def _replaced(self, approval: Approval, question: Question, by: Principal) -> Approval:
        """The new question as stored, in place of the old one.

        Raises:
            DecisionRefused: the old one was decided meanwhile, or somebody asks for the new call already.
        """
        mac = self._signing.question(question)
        closed = self._event(EventKind.APPROVAL_WITHDRAWN, approval, detail="edited", decided_by=by.subject)
        facts = self._chronicle.of_question(question)
        events = (
            closed,
            self._chronicle.event(EventKind.APPROVAL_EDITED, facts, decided_by=by.subject, model_suggested=False),
            self._chronicle.event(
                EventKind.APPROVAL_ASKED, facts, expires_at=question.decide_by, model_suggested=False
            ),
        )
        found = await self._store.edit(approval, question, mac, same_as(question), events=events)
        if found.question.approval_id == question.approval_id:
            return found
        if found.question.approval_id == approval.question.approval_id:
            raise await self._refusal(found, by, "already_decided", stands(found))
        raise await self._refusal(approval, by, "asked_already", asked_already(found))

    def _decision_event(self, kind: EventKind, approval: Approval, answer: Answer) -> AuditEvent:
        return self._event(
            kind,
            approval,
            decided_by=answer.decided_by,
            decided_at=answer.decided_at,
            expires_at=answer.expires_at,
            detail=detail_of_leave(answer.leave),
        )

    async def _vote(
        self, approval: Approval, votes: tuple[SignedVote, ...], *, by: Principal, leave: Leave, reason: str
    ) -> ApprovalView:
        """Add the person's vote; with the last one that is needed the question is approved, in the same transaction."""
        question = approval.question
        for _ in range(_MOST_TRIES):
            now = await self._store.now()
            await self._require_in_time(approval, by, now)
            match own_vote(votes, by):
                case VoteKind.APPROVE:
                    return await self._views.shown(approval, votes, by, now)
                case VoteKind.WITHDRAW:
                    raise await self._refusal(
                        approval, by, "vote_withdrawn", "You took your vote back, and it is not given twice."
                    )
                case None:
                    pass
            cast = self._signing.vote(question, VoteKind.APPROVE, by=by, leave=leave, now=now, reason=reason)
            standing = rules.standing_votes((*votes, cast))
            closing: SignedAnswer | None = None
            voted = self._event(
                EventKind.APPROVAL_VOTED,
                approval,
                decided_by=by.subject,
                decided_at=now,
                detail=detail_of_leave(leave),
            )
            events = [voted]
            if len(standing) >= question.votes_needed:
                approve = ApprovalDecision.APPROVE
                closing = self._signing.answer(
                    question, approve, by=by, leave=leave, now=now, reason=reason, votes=standing
                )
                events.append(self._decision_event(EventKind.APPROVAL_APPROVED, approval, closing.answer))
            found = await self._store.vote(approval, cast, among=votes, closing=closing, events=tuple(events))
            if isinstance(found, Approval):
                is_counted = found.state is ApprovalState.PENDING or found.answer == (closing and closing.answer)
                if is_counted:
                    return await self._views.shown(found, (*votes, cast), by, now)
                return await self._as_decided(found, votes, ApprovalDecision.APPROVE, by, now)
            approval, votes = await self._verified(question.approval_id, by)
            if approval.state is not ApprovalState.PENDING:
                return await self._as_decided(approval, votes, ApprovalDecision.APPROVE, by, now)
        raise StoreUnavailable("Other votes were faster every time.")

    @paying
    async def withdraw_vote(self, approval_id: str, *, by: Principal) -> ApprovalView:
        """Take one's own vote towards a quorum back, while others are waited for. It cannot be given again.

        Raises:
            NotFound: no such approval in this tenant.
            DecisionRefused: this person has no vote there, or the question is closed.
        """
        await self._may_look(by)
        for _ in range(_MOST_TRIES):
            approval, votes = await self._verified(approval_id, by)
            now = await self._store.now()
            if approval.state is not ApprovalState.PENDING:
                raise await self._refusal(approval, by, "already_decided", stands(approval))
            match own_vote(votes, by):
                case VoteKind.WITHDRAW:
                    return await self._views.shown(approval, votes, by, now)
                case None:
                    raise await self._refusal(approval, by, "no_vote", "This person has not voted.")
                case VoteKind.APPROVE:
                    pass
            leave = rules.leave_of(by, is_listed=False)
            cast = self._signing.vote(approval.question, VoteKind.WITHDRAW, by=by, leave=leave, now=now, reason="")
            event = self._event(EventKind.VOTE_WITHDRAWN, approval, decided_by=by.subject, decided_at=now)
            found = await self._store.vote(approval, cast, among=votes, closing=None, events=(event,))
            if isinstance(found, Approval) and found.state is ApprovalState.PENDING:
                return await self._views.shown(found, (*votes, cast), by, now)
        raise StoreUnavailable("Other votes were faster every time.")

    @paying
    async def withdraw(self, approval_id: str, *, by: Principal) -> ApprovalView:
        """Take a question, or an approval nobody has used, back.

        For its requester, whoever approved it alone or with others, or the entitled.
        """
        await self._may_look(by)
        approval, votes = await self._verified(approval_id, by)
        if by.environment != approval.question.environment:
            raise await self._refusal(approval, by, "other_environment", "It would run in another environment.")
        answer = approval.answer
        deciders = {each.vote.voter for each in votes} | ({answer.decided_by} if answer is not None else set())
        own = by.subject in subjects_of(approval.question.subject) or by.subject in deciders
        if not own and DECIDE_SCOPE not in by.scopes:
            raise await self._refusal(approval, by, "scope_missing", "This principal may not withdraw this approval.")
        state = ApprovalState.WITHDRAWN if approval.state is ApprovalState.PENDING else ApprovalState.REVOKED
        event = self._event(EventKind.APPROVAL_WITHDRAWN, approval, decided_by=by.subject)
        closed = await self._store.retire(approval, state, events=(event,))
        if closed.state is not state:
            raise await self._refusal(closed, by, "already_decided", stands(closed))
        return await self._views.shown(closed, votes, by, await self._store.now())

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

    async def _verified(self, approval_id: str, by: Principal) -> tuple[Approval, tuple[SignedVote, ...]]:
        """The approval and its votes, all of which hold.

        Raises:
            NotFound: there is none in this person's tenant.
            DecisionRefused: the stored row, or a vote, was altered, or is of a retired key; that is on record.
        """
        found = await self._store.approval(by.tenant, ApprovalId(approval_id)) if is_identity(approval_id) else None
        if found is None:
            raise NotFound("There is no such approval in your tenant.")
        altered = verify(found, self._keys)
        votes = await self._views.votes(found) if altered is None else ()
        if isinstance(votes, rules.Misfit):
            altered, votes = votes, ()
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
        return found, votes

    async def _as_decided(
        self,
        approval: Approval,
        votes: tuple[SignedVote, ...],
        decision: ApprovalDecision,
        by: Principal,
        now: datetime,
    ) -> ApprovalView:
        """The decision as it stands. An identical repeat is no change; what was decided otherwise, taken back or
        expired since is refused, so that nobody hears "approved" of what is worth nothing.
        """
        answer = approval.answer
        is_own = answer is not None and answer.decision is decision and _has_a_part(approval, votes, by)
        if is_own and rules.is_overdue(approval, now=now):
            raise await self._refusal(
                approval,
                by,
                "approval_expired",
                "It was approved, and nobody used it in time; it has to be asked anew.",
            )
        if is_own and approval.state in _STANDING[decision]:
            return await self._views.shown(approval, votes, by, now)
        raise await self._refusal(approval, by, "already_decided", stands(approval))

    async def _refusal(self, approval: Approval, by: Principal, code: str, message: str) -> DecisionRefused:
        """Every refused decision is on record."""
        event = self._event(EventKind.DECISION_REFUSED, approval, detail=code, decided_by=by.subject)
        await self._store.record((event,))
        return refusal_of(code, message)

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


def _has_a_part(approval: Approval, votes: tuple[SignedVote, ...], by: Principal) -> bool:
    """Whether the decision on record is the person's, alone or with others."""
    answer = approval.answer
    counted = rules.standing_votes(votes) if answer is not None and answer.votes else ()
    voters = {each.vote.voter for each in counted}
    return answer is not None and (answer.decided_by == by.subject or by.subject in voters)
