"""Makes what a person says about a question, signed: over the whole question and everything the person said."""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.model.approval import (
    Answer,
    ApprovalDecision,
    Leave,
    Mac,
    Question,
    SignedAnswer,
    SignedVote,
    Vote,
    VoteKind,
)
from placet.model.principal import Principal
from placet.ports.keys import KeyPurpose, Keys
from placet.rules import approvals as rules


class Signing:
    """Signs with the approvals' key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def question(self, question: Question) -> Mac:
        return self._keys.mac(KeyPurpose.APPROVAL, rules.question_form(question))

    def answer(
        self,
        question: Question,
        decision: ApprovalDecision,
        *,
        by: Principal,
        leave: Leave,
        now: datetime,
        reason: str,
        votes: tuple[SignedVote, ...] = (),
    ) -> SignedAnswer:
        """Whoever decides, alone or with the last of the votes that make it."""
        answer = Answer(
            decision=decision,
            decided_by=by.subject,
            decided_at=now,
            expires_at=now + timedelta(seconds=question.lifetime_seconds),
            digest_seen=question.argument_digest,
            reason=reason,
            leave=leave,
            votes=tuple(each.signature.value for each in votes),
        )
        return SignedAnswer(
            answer=answer, signature=self._keys.mac(KeyPurpose.APPROVAL, rules.signed_form(question, answer))
        )

    def vote(
        self, question: Question, kind: VoteKind, *, by: Principal, leave: Leave, now: datetime, reason: str
    ) -> SignedVote:
        """One vote, or its withdrawal."""
        vote = Vote(
            kind=kind,
            voter=by.subject,
            voted_at=now,
            digest_seen=question.argument_digest,
            reason=reason,
            leave=leave,
        )
        return SignedVote(vote=vote, signature=self._keys.mac(KeyPurpose.APPROVAL, rules.vote_form(question, vote)))
