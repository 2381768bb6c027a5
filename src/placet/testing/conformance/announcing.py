"""What is announced: every event once per destination, taken by one worker at a time, and ended by whoever has it."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from placet.model.audit import EventKind
from placet.model.identifiers import Token
from placet.model.ledger import Place
from placet.model.notices import (
    Announcing,
    CursorMove,
    Delivery,
    DeliveryState,
    Ended,
    KnownDestination,
    NewDelivery,
    NoticeKind,
    UnreadChain,
)
from placet.ports.store import Store
from placet.testing.conformance.archiving import a_cut, a_purge
from placet.testing.conformance.samples import MakeStore, Subject, an_event

_LEASE = 60.0
_EVERY_STATE = tuple(DeliveryState)


def a_move(store: Store, was: int | None, now: int) -> CursorMove:
    return CursorMove(writer=store.writer, was=was, now=now)


def found_at(store: Store, *sequences: int) -> tuple[NewDelivery, ...]:
    return tuple(
        NewDelivery(place=Place(writer=store.writer, sequence=each), kind=NoticeKind.APPROVAL_ASKED)
        for each in sequences
    )


async def told(subject: Subject, count: int) -> None:
    for _ in range(count):
        await subject.store.record((an_event(EventKind.APPROVAL_ASKED),))


async def begun(subject: Subject, name: str = "ops", *, events: int = 3) -> Store:
    """A store whose destination has begun before anything happened, and so many events since."""
    assert await subject.store.begin_destination(Announcing(destination=name, moves=()))
    await told(subject, events)
    return subject.store


async def announced(subject: Subject, name: str = "ops", *, events: int = 3) -> Store:
    """The same, with a delivery of each event."""
    store = await begun(subject, name, events=events)
    moves = (a_move(store, None, events),)
    found = found_at(store, *range(1, events + 1))
    assert await store.announce(Announcing(destination=name, moves=moves, found=found))
    return store


async def taken(store: Store, token: str = "t-1", *, limit: int = 9, most: int = 9) -> tuple[Delivery, ...]:  # noqa: S107
    return await store.take_deliveries("ops", Token(token), lease_seconds=_LEASE, most_attempts=most, limit=limit)


async def states(store: Store, destination: str | None = "ops") -> list[tuple[int, str, int, str | None]]:
    listed = await store.deliveries(destination=destination, states=_EVERY_STATE, limit=99)
    return sorted((each.place.sequence, each.state.value, each.attempts, each.code) for each in listed)


class AnnouncingConformance:
    """Cursors, deliveries, leases."""

    async def test_a_destination_begins_once_and_hears_of_nothing_that_was_before(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = subject.store
        await told(subject, 2)
        unread = await store.unread_chains("ops", limit=9)

        assert unread == (UnreadChain(writer=store.writer, read=None, first_kept=1, end=2),)
        command = Announcing(destination="ops", moves=(a_move(store, None, 2),))
        assert not await store.announce(command), "it has not begun"
        assert await store.begin_destination(command)
        assert not await store.begin_destination(Announcing(destination="ops", moves=(a_move(store, None, 1),)))
        assert await store.unread_chains("ops", limit=9) == ()
        assert await store.known_destinations() == (KnownDestination(name="ops", begun_at=await store.now()),)

        await told(subject, 1)
        assert await store.unread_chains("ops", limit=9) == (
            UnreadChain(writer=store.writer, read=2, first_kept=1, end=3),
        )
        assert [e.sequence for e in await store.events_of_chain(store.writer, after=2, limit=9)] == [3]
        assert [e.sequence for e in await store.events_of_chain(store.writer, after=0, limit=2)] == [1, 2]

    async def test_cursors_and_deliveries_are_written_together_and_only_where_they_were_seen(
        self, make_store: MakeStore
    ) -> None:
        store = await announced(await make_store())

        for was in (None, 2, 4):
            stale = Announcing(destination="ops", moves=(a_move(store, was, 4),), found=found_at(store, 4))
            assert not await store.announce(stale)
        assert await states(store) == [(n, "pending", 0, None) for n in (1, 2, 3)]

        again = Announcing(destination="ops", moves=(a_move(store, 3, 4),), found=found_at(store, 2, 4))
        await store.end_delivery((await taken(store))[1], Ended(state=DeliveryState.DELIVERED, code="ok"))
        assert await store.announce(again)
        assert await states(store) == [
            (1, "pending", 1, None),
            (2, "delivered", 1, "ok"),
            (3, "pending", 1, None),
            (4, "pending", 0, None),
        ]

    async def test_destinations_read_by_themselves(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject)
        assert await store.begin_destination(Announcing(destination="chat", moves=()))

        assert [(each.read, each.end) for each in await store.unread_chains("chat", limit=9)] == [(None, 3)]
        command = Announcing(destination="chat", moves=(a_move(store, None, 3),), found=found_at(store, 2))
        assert await store.announce(command)

        assert await states(store, "chat") == [(2, "pending", 0, None)]
        assert len(await states(store, None)) == 4
        assert len(await taken(store)) == 3
        assert [each.destination for each in await store.outbox_counts()] == ["chat", "ops"]

    async def test_a_delivery_is_taken_by_one_until_its_lease_is_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject)

        first = await taken(store, "t-1", limit=2)
        second = await taken(store, "t-2")
        assert [each.place.sequence for each in (*first, *second)] == [1, 2, 3]
        assert [(each.token, each.attempts) for each in first] == [("t-1", 1), ("t-1", 1)]
        assert await taken(store, "t-3") == ()

        subject.clock.advance(_LEASE)
        third = await taken(store, "t-3", limit=1)
        assert [(each.place.sequence, each.attempts) for each in third] == [(1, 2)]
        late = Ended(state=DeliveryState.DELIVERED, code="late")
        assert not await store.end_delivery(first[0], late), "somebody else has it now"
        assert await store.end_delivery(third[0], late)
        assert not await store.end_delivery(third[0], late), "it has ended"
        assert await states(store) == [
            (1, "delivered", 2, "late"),
            (2, "pending", 1, None),
            (3, "pending", 1, None),
        ]

    async def test_what_was_not_taken_is_not_ended(self, make_store: MakeStore) -> None:
        store = await announced(await make_store(), events=1)
        over = Ended(state=DeliveryState.DEAD, code="no")
        (seen,) = await store.deliveries(destination="ops", states=_EVERY_STATE, limit=9)

        assert not await store.end_delivery(seen, over)
        (mine,) = await taken(store)
        assert not await store.end_delivery(seen, over)
        assert await store.end_delivery(mine, over)
        (ended,) = await store.deliveries(destination="ops", states=_EVERY_STATE, limit=9)
        assert not await store.end_delivery(ended, replace(over, state=DeliveryState.PENDING))
        assert await states(store) == [(1, "dead", 1, "no")]

    async def test_of_many_workers_each_delivery_is_taken_by_one(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject, events=12)
        other = store if subject.open_again is None else await subject.open_again()
        both = (store, other)

        several = await asyncio.gather(*(taken(both[n % 2], f"t-{n}", limit=3) for n in range(8)))

        places = [each.place.sequence for some in several for each in some]
        assert len(places) == len(set(places))
        rest = [each.place.sequence for each in await taken(store, "rest", limit=99)]
        assert sorted([*places, *rest]) == list(range(1, 13))

    async def test_of_many_who_move_a_cursor_at_once_one_does(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await begun(subject)
        other = store if subject.open_again is None else await subject.open_again()
        command = Announcing(destination="ops", moves=(a_move(store, None, 3),), found=found_at(store, 1, 2, 3))

        moved = await asyncio.gather(*((store, other)[n % 2].announce(command) for n in range(6)))

        assert sorted(moved) == [False] * 5 + [True]
        assert len(await states(store)) == 3

    async def test_a_postponed_delivery_is_due_when_it_was_said(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject, events=1)
        (delivery,) = await taken(store)
        later = Ended(state=DeliveryState.PENDING, code="status_503", due_in_seconds=30.0)
        assert await store.end_delivery(delivery, later)

        subject.clock.advance(29)
        assert await taken(store) == ()
        subject.clock.advance(1)
        (again,) = await taken(store)
        assert (again.attempts, again.code) == (2, "status_503")

    async def test_one_that_was_taken_too_often_is_dead_and_comes_back_when_somebody_says_so(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        store = await announced(subject, events=2)
        for _ in range(2):
            assert len(await taken(store, most=2)) == 2
            subject.clock.advance(_LEASE)
        lost = await taken(store, most=2)
        assert [(each.place.sequence, each.state.value, each.code) for each in lost] == [
            (1, "dead", "sender_lost"),
            (2, "dead", "sender_lost"),
        ]
        assert await taken(store, most=2) == ()
        assert await states(store) == [(1, "dead", 2, "sender_lost"), (2, "dead", 2, "sender_lost")]
        (count,) = await store.outbox_counts()
        assert (count.pending, count.oldest_at, count.dead) == (0, None, 2)

        place = Place(writer=store.writer, sequence=2)
        assert await store.retry_deliveries("ops", place, limit=9) == 1
        assert await store.retry_deliveries("ops", place, limit=9) == 0, "it is not dead"
        assert await store.retry_deliveries("ops", replace(place, sequence=9), limit=9) == 0
        assert [(each.place.sequence, each.attempts) for each in await taken(store)] == [(2, 1)]
        assert await store.retry_deliveries("ops", None, limit=9) == 1
        assert await store.retry_deliveries("nobody", None, limit=9) == 0

    async def test_a_closed_destination_keeps_what_it_has_until_it_is_opened(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject)

        assert await store.close_destination("ops")
        assert not await store.close_destination("ops")
        assert not await store.close_destination("nobody")
        (known,) = await store.known_destinations()
        assert known.closed_at == await store.now()
        assert await taken(store) == ()
        assert not await store.announce(Announcing(destination="ops", moves=(a_move(store, 3, 4),)))

        assert await store.retry_deliveries("ops", None, limit=9) == 0
        (known,) = await store.known_destinations()
        assert known.closed_at is None
        assert len(await taken(store)) == 3

    async def test_what_ends_is_on_record_with_it_and_nothing_is_that_did_not(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await announced(subject, events=3)
        before = len(await subject.told())
        closed = (an_event(EventKind.DESTINATION_CLOSED),)
        opened = (an_event(EventKind.DESTINATION_OPENED),)
        dead, lost = (an_event(EventKind.DELIVERY_GIVEN_UP),), (an_event(EventKind.DELIVERY_GIVEN_UP),)

        for _ in range(2):
            await store.close_destination("ops", events=closed)
            await store.close_destination("nobody", events=closed)
        for _ in range(2):
            await store.retry_deliveries("ops", None, limit=9, opened=opened)
            await store.retry_deliveries("nobody", None, limit=9, opened=opened)
        first, *_ = await taken(store)
        over = Ended(state=DeliveryState.DEAD, code="no")
        for _ in range(2):
            await store.end_delivery(first, over, events=dead)
        subject.clock.advance(_LEASE)
        counts = []
        for _ in range(2):
            found = await store.take_deliveries(
                "ops", Token("t-2"), lease_seconds=_LEASE, most_attempts=1, limit=9, lost=lost
            )
            assert all(each.state is DeliveryState.DEAD for each in found)
            counts.append(len(found))
        assert counts == [2, 0]

        expected = ["destination_closed", "destination_opened", *["delivery_given_up"] * 3]
        assert (await subject.told())[before:] == expected, "the two that were left are given up, each on record"

    async def test_what_waits_is_counted_by_destination(self, make_store: MakeStore) -> None:
        subject = await make_store()
        assert await subject.store.outbox_counts() == ()
        store = await announced(subject)
        began = await store.now()
        subject.clock.advance(5)
        first, second, _ = await taken(store)
        await store.end_delivery(first, Ended(state=DeliveryState.DELIVERED, code="status_200"))
        await store.end_delivery(second, Ended(state=DeliveryState.DEAD, code="status_500"))

        (count,) = await store.outbox_counts()

        assert (count.destination, count.pending, count.dead) == ("ops", 1, 1)
        assert count.oldest_at is not None
        assert abs(count.oldest_at - began) < timedelta(seconds=5)

    async def test_deliveries_that_ended_are_forgotten_the_oldest_first_and_pending_ones_stay(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        store = await announced(subject, events=4)
        first, second, third, _ = await taken(store)
        await store.end_delivery(second, Ended(state=DeliveryState.DELIVERED, code="ok"))
        subject.clock.advance(1)
        await store.end_delivery(first, Ended(state=DeliveryState.DELIVERED, code="ok"))
        await store.end_delivery(third, Ended(state=DeliveryState.DEAD, code="no"))
        subject.clock.advance(10)
        now = await store.now()

        assert await store.forget_deliveries(DeliveryState.DELIVERED, before=now - timedelta(days=1), limit=9) == 0
        assert await store.forget_deliveries(DeliveryState.DELIVERED, before=now, limit=1) == 1
        assert [place for place, *_ in await states(store)] == [1, 3, 4]
        assert await store.forget_deliveries(DeliveryState.PENDING, before=now, limit=9) == 0
        assert await store.forget_deliveries(DeliveryState.DELIVERED, before=now, limit=9) == 1
        assert await store.forget_deliveries(DeliveryState.DEAD, before=now, limit=9) == 1
        assert [(place, state) for place, state, *_ in await states(store)] == [(4, "pending")]

    async def test_a_cut_of_the_audit_shows_in_what_is_unread(self, make_store: MakeStore) -> None:
        subject = await make_store()
        store = await begun(subject, events=4)
        (first, second, *_) = await subject.events()
        assert await store.purge(a_purge(subject, cut=a_cut(first.writer, 1, 2, second.link)))

        (unread,) = await store.unread_chains("ops", limit=9)

        assert (unread.read, unread.first_kept, unread.end) == (None, 3, 5)
        assert [e.sequence for e in await store.events_of_chain(first.writer, after=0, limit=2)] == [3, 4]
