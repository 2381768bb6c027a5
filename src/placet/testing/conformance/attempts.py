"""Turns, settlements and leases: a dispatch from its claim to its end."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from placet.errors import NotFound
from placet.model.effect import EffectState
from placet.model.identifiers import (
    Digest,
    OperationKey,
    OwnerId,
    Token,
)
from placet.model.ledger import (
    Moved,
    NotMoved,
)
from placet.testing.conformance.samples import (
    LEASE_SECONDS,
    WINDOW_SECONDS,
    MakeStore,
    a_forbidden_event,
    a_reconciliation,
    a_settlement,
    a_turn,
    an_event,
    claimed,
    everything,
    fault_of,
    settled,
    taken_over,
    unknown,
)


class AttemptConformance:
    """Only the holder of a dispatch moves it, until its lease is over."""

    # ------------------------------------------------------------ turn

    async def test_a_turn_closes_one_attempt_and_opens_the_next(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(7)
        now = subject.clock.now()

        answer = await subject.store.turn(a_turn(effect))

        expected = replace(
            effect,
            attempt=2,
            attempts=2,
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            send_by=now + timedelta(seconds=WINDOW_SECONDS),
            updated_at=now,
        )
        assert answer == Moved(effect=expected)
        assert await subject.store.effect("acme", OperationKey("key-1")) == expected
        assert await subject.told() == ["started", "completed", "started"]

    async def test_a_turn_repeated_after_a_lost_answer_changes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        turn = a_turn(await claimed(subject))
        first = await subject.store.turn(turn)
        before = await everything(subject)

        assert await subject.store.turn(turn) == Moved(effect=first.effect, is_news=False)
        assert await everything(subject) == before

    async def test_a_turn_of_another_dispatch_or_attempt_or_end_is_refused(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        for turn, reason in (
            (a_turn(effect, fence=2), "taken_over"),
            (a_turn(effect, attempt=2), "other_attempt"),
            (a_turn(effect, max_attempts=1), "attempts_used_up"),
        ):
            assert await subject.store.turn(turn) == NotMoved(effect=effect, reason=reason)
        assert await everything(subject) == before

        done = await settled(subject, effect)
        assert await subject.store.turn(a_turn(effect)) == NotMoved(effect=done, reason="taken_over")

    # ------------------------------------------------------------ settle

    async def test_a_settlement_stores_state_result_and_completed_event_together(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(3)

        answer = await subject.store.settle(a_settlement(effect))

        expected = replace(
            effect,
            state=EffectState.COMMITTED,
            reason="returned",
            attempt_ended_at=subject.clock.now(),
            sealed_result=b"sealed result",
            result_digest=Digest("d" * 64),
            external_reference="remote-7",
            updated_at=subject.clock.now(),
        )
        assert answer == Moved(effect=expected)
        assert await subject.store.effect("acme", OperationKey("key-1")) == expected
        assert await subject.told() == ["started", "completed"]

    async def test_a_settlement_repeated_by_its_token_changes_nothing_and_answers_the_same(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n, state in enumerate((EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN)):
            settlement = a_settlement(await claimed(subject, f"key-{n}", token=f"token-{n}"), state)
            first = await subject.store.settle(settlement)
            subject.clock.advance(1)
            before = await everything(subject)

            assert await subject.store.settle(settlement) == Moved(effect=first.effect, is_news=False)
            assert await everything(subject) == before

    async def test_a_settlement_by_a_stale_fence_or_a_strange_token_changes_nothing(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        for settlement in (
            a_settlement(effect, fence=2),
            a_settlement(effect, fence=0),
            a_settlement(effect, token=Token("token-2")),
        ):
            assert await subject.store.settle(settlement) == NotMoved(effect=effect, reason="taken_over")
        assert await everything(subject) == before

    async def test_a_settlement_closes_the_attempt_that_is_open_and_no_other(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await claimed(subject)
        turned = (await subject.store.turn(a_turn(first))).effect
        before = await everything(subject)

        for attempt in (1, 3):
            answer = await subject.store.settle(a_settlement(turned, attempt=attempt))
            assert answer == NotMoved(effect=turned, reason="other_attempt")
        assert await everything(subject) == before
        assert (await settled(subject, turned)).state is EffectState.COMMITTED

    async def test_what_was_settled_is_not_settled_otherwise(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n, state in enumerate((EffectState.COMMITTED, EffectState.FAILED)):
            effect = await claimed(subject, f"key-{n}", token=f"token-{n}")
            done = await settled(subject, effect, state)
            before = await everything(subject)
            for other in {EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN} - {state}:
                answer = await subject.store.settle(a_settlement(effect, other))
                assert answer == NotMoved(effect=done, reason="already_settled")
            assert await everything(subject) == before

    async def test_a_late_success_of_the_same_dispatch_settles_what_was_taken_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)

        answer = await subject.store.settle(a_settlement(effect))

        assert isinstance(answer, Moved) and answer.is_news
        assert answer.effect.state is EffectState.RECONCILED_COMMITTED
        assert answer.effect.sealed_result == b"sealed result"
        assert await subject.told() == ["started", "completed", "effect_reconciled"]

    async def test_a_late_success_repeated_changes_nothing_and_answers_the_same(self, make_store: MakeStore) -> None:
        subject = await make_store()
        settlement = a_settlement(await unknown(subject))
        first = await subject.store.settle(settlement)
        before = await everything(subject)

        assert await subject.store.settle(settlement) == Moved(effect=first.effect, is_news=False)
        assert await everything(subject) == before

    async def test_a_late_failure_proves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        before = await everything(subject)

        answer = await subject.store.settle(a_settlement(effect, EffectState.FAILED))

        assert answer == NotMoved(effect=effect, reason="already_settled")
        assert await everything(subject) == before

    async def test_a_late_word_of_an_earlier_dispatch_proves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await settled(subject, await claimed(subject), EffectState.FAILED)
        second = await unknown(subject, token="token-2", fence=1)

        answer = await subject.store.settle(a_settlement(replace(first, state=EffectState.DISPATCHED)))

        assert answer == NotMoved(effect=second, reason="taken_over")

    async def test_a_late_word_that_an_attempt_has_ended_is_kept_without_an_event(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject, ends_by_itself=False)
        open_end = a_settlement(effect, EffectState.UNKNOWN, attempt_has_ended=False)
        first = await subject.store.settle(open_end)
        assert first.effect.attempt_ended_at is None
        subject.clock.advance(3)
        told = await subject.told()

        ended = await subject.store.settle(a_settlement(effect, EffectState.UNKNOWN))

        assert ended == Moved(effect=replace(first.effect, attempt_ended_at=subject.clock.now()), is_news=False)
        assert await subject.store.effect("acme", OperationKey("key-1")) == ended.effect
        assert await subject.told() == told

    async def test_an_attempt_that_outlived_its_end_does_not_end_by_itself_any_more(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        before_take_over = await claimed(subject, "key-1")
        word = a_settlement(before_take_over, EffectState.UNKNOWN, attempt_has_ended=False)
        assert not (await subject.store.settle(word)).effect.ends_by_itself

        after_take_over = await unknown(subject, "key-2", token="token-2")
        word = a_settlement(after_take_over, EffectState.UNKNOWN, attempt_has_ended=False)
        assert not (await subject.store.settle(word)).effect.ends_by_itself

    async def test_what_is_not_known_cannot_be_moved(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        elsewhere = replace(effect, tenant="other")

        for work in (
            subject.store.settle(a_settlement(elsewhere)),
            subject.store.turn(a_turn(elsewhere)),
            subject.store.take_over(elsewhere, ()),
            subject.store.reconcile(a_reconciliation(elsewhere, looked_at=subject.clock.now())),
        ):
            assert type(await fault_of(work)) is NotFound

    async def test_a_settlement_whose_event_may_not_be_written_leaves_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        before = await everything(subject)

        assert await fault_of(subject.store.settle(a_settlement(effect, events=(a_forbidden_event(),)))) is not None

        assert await everything(subject) == before
        await settled(subject, effect)
        assert (await subject.verified()).holds

    # ------------------------------------------------------------ leases

    async def test_a_row_is_taken_over_at_the_end_of_its_lease_and_not_before(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(LEASE_SECONDS - 0.001)
        assert await subject.store.stranded(limit=9) == ()
        assert await subject.store.take_over(effect, (an_event(),)) == NotMoved(effect=effect, reason="lease_renewed")
        assert await subject.told() == ["started"]

        subject.clock.advance(0.001)
        assert await subject.store.stranded(limit=9) == (effect,)
        lost = await taken_over(subject, effect)

        assert (lost.state, lost.reason, lost.fence) == (EffectState.UNKNOWN, "owner_lost", 1)
        assert await subject.told() == ["started", "completed"]
        assert await subject.store.stranded(limit=9) == ()

    async def test_a_row_is_taken_over_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        subject.clock.advance(LEASE_SECONDS)

        answers = await asyncio.gather(*(subject.store.take_over(effect, (an_event(),)) for _ in range(8)))

        assert sum(isinstance(answer, Moved) for answer in answers) == 1
        assert await subject.told() == ["started", "started"]

    async def test_a_row_that_had_a_turn_since_it_was_seen_is_not_taken_over(self, make_store: MakeStore) -> None:
        subject = await make_store()
        seen = await claimed(subject)
        turned = (await subject.store.turn(a_turn(seen))).effect
        subject.clock.advance(LEASE_SECONDS)

        assert await subject.store.take_over(seen, ()) == NotMoved(effect=turned, reason="taken_over")

    async def test_a_heartbeat_renews_the_lease_and_never_the_send_window(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        await claimed(subject, "key-2", token="token-2", owner=OwnerId("owner-2"))
        subject.clock.advance(20)

        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=LEASE_SECONDS) == 1

        renewed = replace(effect, lease_until=subject.clock.now() + timedelta(seconds=LEASE_SECONDS))
        assert await subject.store.effect("acme", OperationKey("key-1")) == renewed
        subject.clock.advance(LEASE_SECONDS - 1)
        assert [lost.operation_key for lost in await subject.store.stranded(limit=9)] == ["key-2"]

    async def test_a_heartbeat_never_shortens_a_lease_and_never_revives_a_row(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)

        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=1.0) == 1
        assert await subject.store.effect("acme", OperationKey("key-1")) == effect

        subject.clock.advance(LEASE_SECONDS)
        lost = await taken_over(subject, effect)
        assert await subject.store.heartbeat(OwnerId("owner-1"), lease_seconds=LEASE_SECONDS) == 0
        assert await subject.store.effect("acme", OperationKey("key-1")) == lost
