"""Votes as rows."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from placet.adapters.stores.rows.approvals import leave_data, leave_from
from placet.adapters.stores.rows.instants import EPOCH, microseconds, sure
from placet.model.approval import Leave, Mac, SignedVote, Vote, VoteKind
from placet.model.identifiers import Digest


def vote_row(tenant: str, approval_id: str, signed: SignedVote) -> tuple[Any, ...]:
    """All columns of `approval_votes`, in order."""
    vote = signed.vote
    data = {"digest_seen": vote.digest_seen, "reason": vote.reason, "leave": leave_data(vote.leave)}
    return (
        tenant,
        approval_id,
        vote.voter,
        vote.kind.value,
        json.dumps(data, sort_keys=True),
        signed.signature.key_id,
        signed.signature.value,
        microseconds(vote.voted_at),
    )


def vote_from(row: tuple[Any, ...]) -> SignedVote:
    """Whatever a row says. One that was altered by hand, or moved, has a signature that does not hold."""
    signature = Mac(key_id=row[5], value=row[6])
    with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        data = json.loads(row[4])
        vote = Vote(
            kind=VoteKind(row[3]),
            voter=row[2],
            voted_at=sure(row[7]),
            digest_seen=data["digest_seen"],
            reason=data["reason"],
            leave=leave_from(data["leave"]),
        )
        return SignedVote(vote=vote, signature=signature)
    return SignedVote(vote=_unreadable_vote(row), signature=Mac(key_id="unreadable", value=row[6]))


def _unreadable_vote(row: tuple[Any, ...]) -> Vote:
    nothing = Leave(roles=(), scopes=(), is_listed=False)
    return Vote(kind=VoteKind.APPROVE, voter=row[2], voted_at=EPOCH, digest_seen=Digest(""), reason="", leave=nothing)
