"""What is told of questions that wait: each step once, and nothing of what was decided or is out of time."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from placet.model.approval import Approval, ApprovalState, Leave
from placet.model.audit import AuditEvent, EventKind
from placet.model.identifiers import ApprovalId, Digest
from placet.model.reminders import Reminders, ReminderStep, Telling, Told
from placet.model.retention import OldApproval, Purge
from placet.testing.conformance.samples import (
    A_MAC,
    MakeStore,
    Subject,
    a_forbidden_event,
    an_answer,
    an_event,
    decided,
    everything,
    fault_of,
    pending,
)

_REMINDERS = Reminders(
    remind_after_seconds=(10.0, 20.0), escalate_after_seconds=30.0, escalate_to=("role:admin",), widens=True
)
_LONG = timedelta(seconds=100)


async def waiting(subject: Subject, approval_id: str = "apr-1", **changes: Any) -> Approval:
    """A question that reminds, unlike the others of its tenant."""
    digest = Digest(approval_id.encode().hex().ljust(64, "0"))
    told = {"argument_digest": digest, "reminders": _REMINDERS, "decide_by": subject.clock.now() + _LONG}
    return await pending(subject, approval_id, **(told | changes))


async def due(subject: Subject, limit: int = 9) -> list[tuple[str, int]]:
    found = await subject.store.due_reminders(limit=limit)
    return [(each.approval.question.approval_id, len(each.told)) for each in found]


def a_telling(subject: Subject, *before: Told, next_at: datetime | None) -> Telling:
    return Telling(told=before, now=Told(step=ReminderStep.REMIND, at=subject.clock.now()), next_at=next_at)


def the_event(approval: Approval) -> tuple[AuditEvent, ...]:
    return (an_event(EventKind.APPROVAL_REMINDED, tenant=approval.question.tenant),)


async def told_of(subject: Subject, approval: Approval) -> tuple[Told, ...]:
    return await subject.store.told_reminders(approval.question.tenant, approval.question.approval_id)


class ReminderConformance:
    """A step is told by comparing with what was told before, in the transaction of its event."""

    async def test_a_question_keeps_its_reminders(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        leave = Leave(roles=(), scopes=("a",), is_listed=False, by_escalation=True)
        answer = replace(an_answer(approval.question, at=subject.clock.now()), leave=leave)

        assert approval.question.reminders == _REMINDERS
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == approval
        answered = await subject.store.answer(approval, answer, A_MAC, events=())
        assert await subject.store.approval("acme", ApprovalId("apr-1")) == answered
        assert answered.answer is not None and answered.answer.leave == leave

    async def test_a_step_is_due_at_its_instant_over_all_tenants_the_oldest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await waiting(subject, "apr-1")
        subject.clock.advance(1)
        await waiting(subject, "apr-2", tenant="other")
        await waiting(subject, "apr-3", reminders=None)
        only_late = Reminders(escalate_after_seconds=200.0)
        await waiting(subject, "apr-4", reminders=only_late)
        await decided(subject, await waiting(subject, "apr-5"))
        withdrawn = await waiting(subject, "apr-6")
        await subject.store.retire(withdrawn, ApprovalState.WITHDRAWN, events=())

        subject.clock.advance(8.999999)
        assert await due(subject) == []
        subject.clock.advance(0.000001)
        assert await due(subject) == [("apr-1", 0)]
        subject.clock.advance(1)
        assert (await due(subject), await due(subject, 1)) == ([("apr-1", 0), ("apr-2", 0)], [("apr-1", 0)])
        subject.clock.advance(88.999999)
        assert await due(subject) == [("apr-1", 0), ("apr-2", 0)]
        subject.clock.advance(0.000001)
        assert await due(subject) == [("apr-2", 0)], "the other is out of time"
        subject.clock.advance(200)
        assert await due(subject) == []

    async def test_what_was_told_is_kept_with_its_event_and_the_next_step_waits(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        start = subject.clock.now()
        assert await told_of(subject, approval) == ()
        subject.clock.advance(10)
        first = a_telling(subject, next_at=start + timedelta(seconds=20))
        assert await subject.store.tell_reminder(approval, first, events=the_event(approval))

        assert await told_of(subject, approval) == (first.now,)
        assert await subject.told() == ["approval_asked", "approval_reminded"]
        assert await due(subject) == []
        subject.clock.advance(9.999999)
        assert await due(subject) == []
        subject.clock.advance(0.000001)
        assert await due(subject) == [("apr-1", 1)]
        last = a_telling(subject, first.now, next_at=None)
        assert await subject.store.tell_reminder(approval, last, events=the_event(approval))
        subject.clock.advance(50)
        assert (await due(subject), await told_of(subject, approval)) == ([], (first.now, last.now))
        assert await subject.store.told_reminders("other", ApprovalId("apr-1")) == ()

    async def test_a_step_that_somebody_else_told_is_told_by_nobody(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        subject.clock.advance(10)
        telling = a_telling(subject, next_at=None)
        again = await subject.open_again() if subject.open_again is not None else subject.store

        answers = await asyncio.gather(
            *(
                store.tell_reminder(approval, telling, events=the_event(approval))
                for store in (subject.store, again) * 3
            )
        )

        assert sorted(answers) == [False] * 5 + [True]
        assert await told_of(subject, approval) == (telling.now,)
        kinds = [each.body for each in [event async for event in subject.store.chained()]]
        assert sum(b'"approval_reminded"' in body for body in kinds) == 1
        if again is not subject.store:
            await again.close()

    async def test_nothing_is_told_of_what_is_decided_or_out_of_time(self, make_store: MakeStore) -> None:
        subject = await make_store()
        answered, late = await waiting(subject, "apr-1"), await waiting(subject, "apr-2")
        telling = a_telling(subject, next_at=None)
        await decided(subject, answered)
        before = await everything(subject)

        assert not await subject.store.tell_reminder(answered, telling, events=the_event(answered))
        subject.clock.advance(_LONG.total_seconds())
        assert not await subject.store.tell_reminder(late, telling, events=the_event(late))
        elsewhere = replace(late, question=replace(late.question, tenant="other"))
        assert not await subject.store.tell_reminder(elsewhere, telling, events=the_event(elsewhere))
        assert await everything(subject) == before
        assert [await told_of(subject, each) for each in (answered, late)] == [(), ()]

    async def test_a_step_whose_event_cannot_be_written_is_not_told(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        before = await everything(subject)

        telling = a_telling(subject, next_at=None)
        fault = await fault_of(subject.store.tell_reminder(approval, telling, events=(a_forbidden_event(),)))

        assert fault is not None
        assert (await everything(subject), await told_of(subject, approval)) == (before, ())

    async def test_what_was_told_goes_with_its_question(self, make_store: MakeStore) -> None:
        subject = await make_store()
        approval = await waiting(subject)
        await subject.store.tell_reminder(approval, a_telling(subject, next_at=None), events=the_event(approval))
        await subject.store.retire(approval, ApprovalState.WITHDRAWN, events=())
        subject.clock.advance(timedelta(days=2).total_seconds())
        assert len(await told_of(subject, approval)) == 1
        purge = Purge(
            holds=frozenset(),
            idle_before=subject.clock.now(),
            approvals=(OldApproval(tenant="acme", approval_id=ApprovalId("apr-1")),),
            events=(an_event(EventKind.RECORDS_PURGED),),
        )

        assert await subject.store.purge(purge)

        assert await told_of(subject, approval) == ()
