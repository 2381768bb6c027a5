"""Settling in a handler's own transaction: what the handler wrote and the ledger commit together, or neither does.

A store that no handler can write to beside the gate has no `Subject.database`; it covers no connection at all.
"""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import Digest, Token
from placet.model.ledger import Claimed, CoCommitAnswer, CoCommitted, NotCovered, NotMoved, NotSettled, Settlement
from placet.ports.store import Store
from placet.testing.conformance.samples import (
    LEASE_SECONDS,
    HandlersDatabase,
    MakeStore,
    Subject,
    a_claim,
    a_settlement,
    a_step,
    an_event,
    claimed,
    settled,
    taken_over,
)

MARKED = Token("co:token-1")


async def answered(store: Store, connection: object, settlement: Settlement) -> CoCommitAnswer:
    answer = store.co_commit(connection, settlement)
    return await answer if isawaitable(answer) else answer


async def begun(subject: Subject, key: str = "key-1", **changes: Any) -> Effect:
    return await claimed(subject, key, **({"token": MARKED} | changes))


async def row(subject: Subject, effect: Effect) -> Effect:
    found = await subject.store.effect(effect.tenant, effect.operation_key)
    assert found is not None
    return found


def a_completed(effect: Effect) -> AuditEvent:
    return an_event(EventKind.COMPLETED, call_id=effect.call_id, attempt=effect.attempt, fence=effect.fence)


class Left(Exception):
    """What a handler raises to have its transaction rolled back."""


async def co_committed(
    subject: Subject, database: HandlersDatabase, effect: Effect, word: str = "paid", **changes: Any
) -> None:
    said = a_settlement(effect, reason="co_committed", attempt_has_ended=False, late_events=(), **changes)
    async with database.transaction() as transaction:
        await transaction.write(word)
        answer = await answered(subject.store, transaction.connection, said)
        assert answer == CoCommitted(), answer


async def in_vain(
    subject: Subject, database: HandlersDatabase, settlement: Settlement, word: str = "paid in vain"
) -> CoCommitAnswer | None:
    """What a transaction is told that is committed all the same. Its end may say so, or not: the words will tell."""
    answer = None
    with suppress(Exception):
        async with database.transaction() as transaction:
            await transaction.write(word)
            answer = await answered(subject.store, transaction.connection, settlement)
    return answer


class CoCommitConformance:
    """The row is locked and compared first; the event is chained by whichever writer comes next."""

    async def test_what_is_no_transaction_of_the_store_settles_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await begun(subject)
        for connection in (None, object(), subject.store, "connection"):
            assert isinstance(await answered(subject.store, connection, a_settlement(effect)), NotCovered)
        assert await row(subject, effect) == effect

    async def test_a_handlers_writes_and_the_whole_settle_commit_together(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        subject.clock.advance(3.0)
        await co_committed(subject, database, effect)

        assert await database.words() == ["paid"]
        after = await row(subject, effect)
        assert after == replace(
            effect,
            state=EffectState.COMMITTED,
            reason="co_committed",
            ends_by_itself=False,
            sealed_result=b"sealed result",
            result_digest=Digest("d" * 64),
            external_reference="remote-7",
            updated_at=after.updated_at,
        )
        assert after.updated_at > effect.updated_at

    async def test_a_rollback_takes_the_settle_back_with_the_handlers_writes(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        left = False
        try:
            async with database.transaction() as transaction:
                await transaction.write("paid")
                answer = await answered(subject.store, transaction.connection, a_settlement(effect))
                assert answer == CoCommitted(), answer
                raise Left
        except Left:
            left = True

        assert left and await database.words() == []
        assert await row(subject, effect) == effect
        assert await subject.store.chain_waiting() == 0
        assert await subject.told() == ["started"]
        await settled(subject, effect, EffectState.FAILED)

    async def test_a_transaction_that_is_not_the_row_s_to_settle_commits_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        strange = [
            ({"fence": 2}, "taken_over"),
            ({"fence": 0}, "taken_over"),
            ({"token": Token("co:another")}, "taken_over"),
            ({"attempt": 2}, "other_attempt"),
        ]
        for changes, reason in strange:
            said = a_settlement(effect, **changes)  # type: ignore[arg-type]
            assert await in_vain(subject, database, said) == NotSettled(reason=reason)
        assert await database.words() == []
        assert await row(subject, effect) == effect
        assert await subject.told() == ["started"]

    async def test_an_effect_that_is_settled_is_not_settled_again(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        await co_committed(subject, database, effect)
        settled_row = await row(subject, effect)
        answer = await in_vain(subject, database, a_settlement(effect))
        assert answer == NotSettled(reason="already_settled")
        assert await database.words() == ["paid"]
        assert await row(subject, effect) == settled_row

    async def test_the_engine_s_own_settle_learns_that_it_was_done(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        await co_committed(subject, database, effect)
        answer = await subject.store.settle(a_settlement(effect, EffectState.FAILED))
        assert answer == NotMoved(effect=await row(subject, effect), reason="already_settled")
        await subject.store.chain_waiting()
        assert await subject.told() == ["started", "completed"]
        assert (await subject.verified()).unpaired == 0

    async def test_once_the_engine_has_settled_nothing_of_the_handler_commits(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effect = await begun(subject)
        await settled(subject, effect, EffectState.FAILED)
        answer = await in_vain(subject, database, a_settlement(effect))
        assert answer == NotSettled(reason="already_settled")
        assert await database.words() == []

    async def test_a_lost_owner_s_row_is_absent_at_once_and_stays_so(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await begun(subject)
        subject.clock.advance(LEASE_SECONDS)
        absent = await taken_over(subject, effect)
        assert (absent.state, absent.reason) == (EffectState.RECONCILED_ABSENT, "owner_lost")
        if (database := subject.database) is not None:
            answer = await in_vain(subject, database, a_settlement(effect))
            assert answer == NotSettled(reason="already_settled")
            assert await database.words() == []
        again = await subject.store.claim(a_claim(token="co:token-2", fence=1))
        assert isinstance(again, Claimed) and again.effect.fence == 2

    async def test_a_row_without_the_mark_of_a_co_commit_is_unknown_when_its_owner_is_lost(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        effect = await claimed(subject, token="token-co:1")
        subject.clock.advance(LEASE_SECONDS)
        assert (await taken_over(subject, effect)).state is EffectState.UNKNOWN

    async def test_a_waiting_event_is_chained_once_by_whoever_comes_next(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        effects = [await begun(subject, f"key-{n}", token=f"co:token-{n}", step=a_step(f"call-{n}")) for n in range(3)]
        for n, effect in enumerate(effects):
            await co_committed(subject, database, effect, f"paid {n}", events=(a_completed(effect),))
        assert await subject.told() == ["started"] * 3
        other = await subject.open_again() if subject.open_again is not None else subject.store
        assert await other.chain_waiting() == 3
        assert await other.chain_waiting() == await subject.store.chain_waiting() == 0
        assert sorted(await subject.told()) == ["completed"] * 3 + ["started"] * 3
        report = await subject.verified()
        assert report.holds and report.unpaired == 0

    async def test_what_waits_is_chained_before_what_comes_next(self, make_store: MakeStore) -> None:
        subject = await make_store()
        if (database := subject.database) is None:
            return
        await co_committed(subject, database, await begun(subject))
        await subject.store.chain_waiting()
        await subject.store.record((an_event(EventKind.STOPPED),))
        assert await subject.told() == ["started", "completed", "stopped"]
