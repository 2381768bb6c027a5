"""What waits, for whoever looks all the time: in the order of its list, and with a word that changes as it does."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

from placet.model.approval import ApprovalState, VoteKind
from placet.testing.conformance.reminding import a_telling, the_event, waiting
from placet.testing.conformance.samples import MakeStore, Subject, decided, pending
from placet.testing.conformance.voting import a_vote, first_vote


async def marks(subject: Subject, limit: int = 9) -> list[str]:
    return [mark.approval_id for mark in await subject.store.waiting_marks("acme", limit=limit)]


class WatchingConformance:
    async def test_what_waits_of_a_tenant_is_marked_the_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        asked = [await pending(subject, f"apr-{n}", call_id=f"call-{n}", argument_digest=f"{n}" * 64) for n in range(4)]
        await subject.store.retire(asked[1], ApprovalState.WITHDRAWN, events=())
        await decided(subject, asked[2])
        subject.clock.advance(1)
        await pending(subject, "apr-0a", call_id="call-9", argument_digest="9" * 64)
        await pending(subject, "apr-9", tenant="other")

        assert await marks(subject) == ["apr-0a", "apr-3", "apr-0"]
        assert await marks(subject, limit=2) == ["apr-0a", "apr-3"]

    async def test_a_mark_is_another_one_after_every_vote_and_every_reminder_and_the_same_otherwise(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        await waiting(subject, "apr-2", tenant="other")
        seen = [await subject.store.waiting_marks("acme", limit=9)]
        vote = await first_vote(subject, approval)
        seen.append(await subject.store.waiting_marks("acme", limit=9))
        back = a_vote(subject, "mara", kind=VoteKind.WITHDRAW)
        await subject.store.vote(approval, back, among=(vote,), closing=None, events=())
        seen.append(await subject.store.waiting_marks("acme", limit=9))
        first = a_telling(subject, next_at=None)
        assert await subject.store.tell_reminder(approval, first, events=the_event(approval))
        seen.append(await subject.store.waiting_marks("acme", limit=9))
        second = a_telling(subject, first.now, next_at=None)
        assert await subject.store.tell_reminder(approval, second, events=the_event(approval))
        seen.append(await subject.store.waiting_marks("acme", limit=9))

        assert len(set(seen)) == 5
        assert await subject.store.waiting_marks("acme", limit=9) == seen[-1]
