"""Reads, audit and closing: what is on record, in which order, and whose it is."""

# ruff: noqa: S101 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson

from placet.errors import StoreUnavailable
from placet.model.audit import AuditOutcome, ChainedEvent, EventKind
from placet.model.identifiers import (
    OwnerId,
)
from placet.model.ledger import (
    OpenRead,
    Recorded,
    Stopped,
)
from placet.rules.chain_check import ChainReport
from placet.testing.conformance.samples import (
    LEASE_SECONDS,
    MakeStore,
    a_forbidden_event,
    a_step,
    a_turn,
    an_event,
    claimed,
    decided,
    everything,
    fault_of,
    opened,
    pending,
)


class JournalConformance:
    """Events are durable, chained and complete."""

    # ------------------------------------------------------------ journal

    async def test_a_read_is_held_up_by_a_stop_and_a_mere_record_is_not(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.stop("tool:look", ())

        started = await subject.store.record((an_event(),), step=a_step(), starts_tool="look")
        assert started == Stopped(scope="tool:look")
        assert await subject.told() == []
        assert isinstance(await subject.store.record((an_event(),), step=a_step()), Recorded)
        assert isinstance(
            await subject.store.record((an_event(),), step=a_step("call-2"), starts_tool="find"), Recorded
        )
        assert await subject.told() == ["started", "started"]

    async def test_an_audit_is_read_whole_or_ends_with_a_named_fault_while_its_store_closes(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        several = tuple(an_event(call_id=f"call-{number}") for number in range(100))
        for _ in range(12):
            await subject.store.record(several)

        async with subject.store.snapshot() as audit:
            read = [await anext(audit.events)]
            await subject.store.close()
            fault = await fault_of(_read_on(audit.events, read))

        assert (fault is None) == (len(read) == audit.count == 1200)
        assert fault is None or isinstance(fault, StoreUnavailable)

    async def test_a_read_whose_owner_is_lost_is_completed_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        place = await opened(subject)
        subject.clock.advance(LEASE_SECONDS - 0.001)
        assert await subject.store.lost_reads(limit=9) == ()
        subject.clock.advance(0.001)
        [lost] = await subject.store.lost_reads(limit=9)
        assert (lost.place, orjson.loads(lost.started)["kind"]) == (place, "started")

        completed = an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR)
        answers = await asyncio.gather(*(subject.store.close_lost_read(lost, completed) for _ in range(8)))

        assert sorted(answers) == [False] * 7 + [True]
        assert await subject.told() == ["started", "completed"]
        assert await subject.store.lost_reads(limit=9) == ()

    async def test_a_read_that_recovery_completed_is_not_completed_again_by_its_reader(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        place = await opened(subject)
        subject.clock.advance(LEASE_SECONDS)
        [lost] = await subject.store.lost_reads(limit=9)
        await subject.store.close_lost_read(lost, an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR))
        before = await everything(subject)

        late = subject.store.record((an_event(EventKind.COMPLETED),), closes=place)

        assert type(await fault_of(late)) is StoreUnavailable
        assert await everything(subject) == before

    async def test_a_read_that_ended_or_shows_signs_of_life_is_not_lost(self, make_store: MakeStore) -> None:
        subject = await make_store()
        ended = await opened(subject)
        await opened(subject, owner="owner-2")
        await subject.store.record((an_event(EventKind.COMPLETED),), closes=ended)
        subject.clock.advance(LEASE_SECONDS - 1)
        assert await subject.store.heartbeat(OwnerId("owner-2"), lease_seconds=LEASE_SECONDS) == 0
        subject.clock.advance(1)

        assert await subject.store.lost_reads(limit=9) == ()
        subject.clock.advance(LEASE_SECONDS - 1)
        assert len(await subject.store.lost_reads(limit=9)) == 1

    async def test_a_further_attempt_of_a_read_closes_the_one_before(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await opened(subject)
        closing, opening = an_event(EventKind.COMPLETED, outcome=AuditOutcome.ERROR), an_event(attempt=2)

        again = OpenRead(owner=OwnerId("owner-1"), lease_seconds=LEASE_SECONDS)
        answer = await subject.store.record((closing, opening), opens=again, closes=first)

        assert isinstance(answer, Recorded)
        subject.clock.advance(LEASE_SECONDS)
        assert [lost.place for lost in await subject.store.lost_reads(limit=9)] == [answer.place]

    async def test_waiting_questions_are_counted_over_all_tenants(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await pending(subject)
        await pending(subject, "apr-2", tenant="other")
        await decided(subject, await pending(subject, "apr-3", tool="refund"))

        assert await subject.store.pending_count() == 2

    async def test_events_stand_in_the_order_they_were_written_and_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await subject.store.turn(a_turn(effect))
        await subject.store.record((an_event(EventKind.OVERRIDE_DECLARED), an_event(EventKind.DECISION_REFUSED)))

        assert await subject.told() == ["started", "completed", "started", "override_declared", "decision_refused"]
        assert [event.sequence async for event in subject.store.chained()] == [1, 2, 3, 4, 5]
        [head] = await subject.store.heads()
        last = (await subject.events())[-1]
        assert (head.writer, head.sequence, head.link) == (subject.store.writer, 5, last.link)
        assert await subject.verified() == ChainReport(writers=1, events=5, breaks=(), unpaired=1)

    async def test_an_empty_store_has_no_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()

        assert (await subject.events(), await subject.store.heads()) == ([], ())
        assert (await subject.verified()).holds

    async def test_a_tenant_sees_its_own_events_whatever_its_name(self, make_store: MakeStore) -> None:
        subject = await make_store()
        names = ["acme", "acme2", 'a"b', "ümläut", 'x","tenant":"acme', "back\\slash", "line\nbreak"]
        for name in names:
            await subject.store.record((an_event(tenant=name), an_event(EventKind.COMPLETED, tenant=name)))

        for name in names:
            assert await subject.told(name) == ["started", "completed"], name
            newest = [orjson.loads(event.body) async for event in subject.store.chained(tenant=name, newest=1)]
            assert [(body["tenant"], body["kind"]) for body in newest] == [(name, "completed")]

    async def test_a_refused_event_leaves_no_hole_in_the_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((an_event(),))

        assert await fault_of(subject.store.record((an_event(), a_forbidden_event()))) is not None

        await subject.store.record((an_event(EventKind.COMPLETED),))
        assert await subject.told() == ["started", "completed"]
        assert await subject.verified() == ChainReport(writers=1, events=2, breaks=(), unpaired=0)

    async def test_two_openings_write_two_chains_and_the_later_remembers_the_earlier(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        await subject.store.record((an_event(),))
        second = await subject.open_again()
        await second.record((an_event(EventKind.COMPLETED),))
        await second.close()

        assert await subject.verified() == ChainReport(writers=2, events=2, breaks=(), unpaired=0)
        [later] = [head for head in await subject.store.heads() if head.writer != subject.store.writer]
        assert list(orjson.loads(later.opened_after)) == [subject.store.writer]

    async def test_many_callers_at_once_write_one_sound_chain(self, make_store: MakeStore) -> None:
        subject = await make_store()

        await asyncio.gather(
            *(subject.store.record((an_event(), an_event(EventKind.COMPLETED))) for _ in range(64)),
            *(fault_of(subject.store.record((a_forbidden_event(),))) for _ in range(64)),
        )

        assert await subject.verified() == ChainReport(writers=1, events=128, breaks=(), unpaired=0)

    async def test_what_is_closed_serves_no_more(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if subject.open_again is None:
            return
        await subject.store.close()
        await subject.store.close()

        assert await fault_of(subject.store.record((an_event(),))) is not None


async def _read_on(events: AsyncIterator[ChainedEvent], read: list[ChainedEvent]) -> None:
    async for event in events:
        read.append(event)
