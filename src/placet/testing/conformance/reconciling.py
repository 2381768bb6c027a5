"""Unknown effects: when a look is believed, and how effects are listed."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from placet.model.effect import Effect, EffectState, UnknownEffects, UnknownGroup
from placet.model.identifiers import (
    Digest,
    OperationKey,
    OwnerId,
)
from placet.model.ledger import (
    Moved,
    NotMoved,
)
from placet.testing.conformance.samples import (
    EVERY_STATE,
    LEASE_SECONDS,
    PAUSE_SECONDS,
    MakeStore,
    a_reconciliation,
    claimed,
    everything,
    settled,
    taken_over,
    unknown,
)


class ReconcileConformance:
    """Absence is believed late, presence at once."""

    # ------------------------------------------------------------ reconcile

    async def test_absence_needs_a_look_that_began_strictly_after_the_quiet_end(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        quiet_end = effect.send_by + timedelta(seconds=PAUSE_SECONDS + effect.arrival_bound_seconds)
        before = await everything(subject)

        early = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=quiet_end)
        assert await subject.store.reconcile(early) == NotMoved(effect=effect, reason="too_early_for_absent")
        assert await everything(subject) == before

        late = replace(early, looked_at=quiet_end + timedelta(microseconds=1))
        answer = await subject.store.reconcile(late)
        assert isinstance(answer, Moved) and answer.effect.state is EffectState.RECONCILED_ABSENT
        assert (await subject.told())[-1] == "effect_reconciled"

    async def test_absence_of_what_cannot_be_stopped_needs_its_end_on_record(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        subject.clock.advance(10_000)
        absent = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=subject.clock.now())
        assert await subject.store.reconcile(absent) == NotMoved(effect=effect, reason="too_early_for_absent")

        await subject.store.owner_died(effect)

        noted = replace(effect, attempt_ended_at=subject.clock.now())
        assert await subject.store.effect("acme", OperationKey("key-1")) == noted
        assert await subject.store.reconcile(absent) == NotMoved(effect=noted, reason="too_early_for_absent")
        subject.clock.advance(PAUSE_SECONDS + 2.001)
        later = replace(absent, looked_at=subject.clock.now())
        assert isinstance(await subject.store.reconcile(later), Moved)

    async def test_a_death_is_noted_of_the_owner_it_was_seen_of(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        before = await everything(subject)

        await subject.store.owner_died(replace(effect, owner=OwnerId("owner-2")))
        await subject.store.owner_died(replace(effect, fence=7))

        assert await everything(subject) == before

    async def test_presence_is_believed_at_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject, ends_by_itself=False)
        truth = a_reconciliation(
            effect,
            looked_at=subject.clock.now(),
            sealed_result=b"found",
            result_digest=Digest("e" * 64),
            external_reference="remote-8",
        )

        answer = await subject.store.reconcile(truth)

        assert answer == Moved(
            effect=replace(
                effect,
                state=EffectState.RECONCILED_COMMITTED,
                reason="probe",
                sealed_result=b"found",
                result_digest=Digest("e" * 64),
                external_reference="remote-8",
                updated_at=subject.clock.now(),
            )
        )
        assert await subject.store.effect("acme", OperationKey("key-1")) == answer.effect

    async def test_a_reconciliation_repeated_changes_nothing_and_another_is_refused(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        truth = a_reconciliation(effect, looked_at=subject.clock.now())
        first = await subject.store.reconcile(truth)
        before = await everything(subject)

        assert await subject.store.reconcile(truth) == Moved(effect=first.effect, is_news=False)
        other = a_reconciliation(effect, EffectState.RECONCILED_ABSENT, looked_at=subject.clock.now())
        assert await subject.store.reconcile(other) == NotMoved(effect=first.effect, reason="moved_on")
        assert await everything(subject) == before

    async def test_a_look_at_an_earlier_dispatch_or_from_the_future_settles_nothing(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        await settled(subject, await claimed(subject), EffectState.FAILED)
        effect = await unknown(subject, token="token-2", fence=1)
        now = subject.clock.now()

        stale = a_reconciliation(effect, looked_at=now, fence=1)
        assert await subject.store.reconcile(stale) == NotMoved(effect=effect, reason="moved_on")
        future = a_reconciliation(effect, looked_at=now + timedelta(seconds=1))
        assert await subject.store.reconcile(future) == NotMoved(effect=effect, reason="looked_in_the_future")

    async def test_what_is_running_or_finished_is_not_reconciled(self, make_store: MakeStore) -> None:
        subject = await make_store()
        running = await claimed(subject, "running")
        failed = await settled(subject, await claimed(subject, "failed", token="token-2"), EffectState.FAILED)
        done = await settled(subject, await claimed(subject, "done", token="token-3"))
        before = await everything(subject)

        for effect in (running, failed, done):
            for state in (EffectState.RECONCILED_COMMITTED, EffectState.RECONCILED_ABSENT):
                truth = a_reconciliation(effect, state, looked_at=subject.clock.now())
                assert await subject.store.reconcile(truth) == NotMoved(effect=effect, reason="moved_on")
        assert await everything(subject) == before

    async def test_a_look_in_vain_is_counted_and_the_next_one_waits(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        assert await subject.store.due_for_probe(limit=9) == (effect,)

        await subject.store.probed_in_vain(effect, next_probe_seconds=60)

        assert await subject.store.due_for_probe(limit=9) == ()
        subject.clock.advance(60)
        [due] = await subject.store.due_for_probe(limit=9)
        assert isinstance(due, Effect)
        assert (due.probes, due.state, due.updated_at) == (1, EffectState.UNKNOWN, effect.updated_at)
        assert await subject.told() == ["started", "completed"]

    # ------------------------------------------------------------ looking

    async def test_effects_are_listed_by_tenant_and_state_newest_change_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n in range(3):
            await claimed(subject, f"key-{n}", token=f"token-{n}")
            subject.clock.advance(1)
        effect = await subject.store.effect("acme", OperationKey("key-0"))
        assert effect is not None
        await settled(subject, effect)
        await claimed(subject, "key-9", token="token-9", tenant="other")

        async def keys(tenant: str | None, *states: EffectState, limit: int = 9) -> list[str]:
            found = await subject.store.effects(tenant=tenant, states=states or EVERY_STATE, limit=limit)
            return [each.operation_key for each in found]

        assert await keys("acme") == ["key-0", "key-2", "key-1"]
        assert await keys("acme", limit=2) == ["key-0", "key-2"]
        assert await keys("acme", EffectState.DISPATCHED) == ["key-2", "key-1"]
        assert sorted(await keys(None)) == ["key-0", "key-1", "key-2", "key-9"]
        assert await keys("nobody") == []

    async def test_effects_of_one_subject_are_those_it_has_a_part_in_however_many_others_there_are(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        parts = {
            "own": "bob",
            "for": '["production","agent","bob"]',
            "staging": '["staging","bob"]',
            "far": '["production","agent","other","bob"]',
            "named": '["production","[bob"]',
        }
        for name, identity in parts.items():
            await claimed(subject, name, token=name, subject=identity)
            subject.clock.advance(1)
        others = ("alice", '["bob","alice"]', "bobby", '["production","alice","carol"]')
        for n, identity in enumerate(others * 2):
            await claimed(subject, f"key-{n}", token=f"token-{n}", subject=identity)

        async def keys(who: str, limit: int) -> list[str]:
            found = await subject.store.effects(tenant="acme", states=EVERY_STATE, limit=limit, subject=who)
            return [each.operation_key for each in found]

        assert await keys("bob", 9) == ["far", "staging", "for", "own"]
        assert await keys("bob", 2) == ["far", "staging"]
        assert await keys("[bob", 9) == ["named"]
        assert await keys("production", 9) == []
        assert await subject.store.effects(tenant="other", states=EVERY_STATE, limit=9, subject="bob") == ()

    async def test_unknown_effects_are_counted_over_all_and_the_oldest_is_told(self, make_store: MakeStore) -> None:
        subject = await make_store()
        nothing = await subject.store.unknown_effects()
        for n in range(3):
            await unknown(subject, f"key-{n}", token=f"token-{n}", tenant=f"tenant-{n}")
            subject.clock.advance(1)
        first = await subject.store.effect("tenant-0", OperationKey("key-0"))
        await claimed(subject, "key-9", token="token-9")

        assert first is not None
        assert nothing == UnknownEffects(count=0, oldest_at=None, groups=())
        groups = (UnknownGroup(tool="pay", probes=0, count=3),)
        assert await subject.store.unknown_effects() == UnknownEffects(
            count=3, oldest_at=first.updated_at, groups=groups
        )

    async def test_unknown_effects_are_grouped_by_tool_and_by_looks_in_vain(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n, tool in enumerate(("pay", "pay", "pay", "mail")):
            effect = await unknown(subject, f"key-{n}", token=f"token-{n}", tool=tool)
            for _ in range(n % 2):
                await subject.store.probed_in_vain(effect, next_probe_seconds=1.0)

        found = await subject.store.unknown_effects()

        assert found.count == 4
        assert found.groups == (
            UnknownGroup(tool="mail", probes=1, count=1),
            UnknownGroup(tool="pay", probes=0, count=2),
            UnknownGroup(tool="pay", probes=1, count=1),
        )

    async def test_the_queue_begins_with_what_has_been_unknown_longest(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for n, who in enumerate(("ann", "bob", "ann", "ann")):
            await unknown(subject, f"key-{n}", token=f"token-{n}", subject=who)
            subject.clock.advance(1)
        await unknown(subject, "key-0", token="token-o", tenant="other", subject="ann")
        await claimed(subject, "key-9", token="token-9", subject="ann")

        async def keys(who: str | None, limit: int, skip: int = 0) -> list[str]:
            found = await subject.store.longest_unknown(tenant="acme", subject=who, limit=limit, skip=skip)
            return [each.operation_key for each in found]

        assert await keys(None, 9) == ["key-0", "key-1", "key-2", "key-3"]
        assert await keys(None, 2) == ["key-0", "key-1"]
        assert await keys("ann", 2) == ["key-0", "key-2"]
        assert await keys("ann", 2, skip=1) == ["key-2", "key-3"]
        assert await keys(None, 9, skip=4) == []
        assert await keys("eve", 9) == []

    async def test_the_queue_is_in_the_order_of_keys_within_one_instant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effects = [await claimed(subject, f"key-{n}", token=f"token-{n}") for n in (3, 0, 2, 1)]
        subject.clock.advance(LEASE_SECONDS)
        assert len({(await taken_over(subject, effect)).updated_at for effect in effects}) == 1

        pages = [
            await subject.store.longest_unknown(tenant="acme", subject=None, limit=1, skip=skip) for skip in range(5)
        ]

        assert [[each.operation_key for each in page] for page in pages] == [
            ["key-0"], ["key-1"], ["key-2"], ["key-3"], []
        ]  # fmt: skip

    async def test_of_many_that_begin_to_look_at_one_row_one_has_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)

        begun = await asyncio.gather(*(subject.store.begin_probe(effect, seconds=9.0) for _ in range(8)))

        assert sorted(begun) == [False] * 7 + [True]
        assert await subject.store.due_for_probe(limit=9) == ()
        subject.clock.advance(9)
        (again,) = await subject.store.due_for_probe(limit=9)
        assert isinstance(again, Effect)
        assert again.probes == effect.probes
        assert await subject.store.begin_probe(again, seconds=9.0)

    async def test_a_look_begins_at_the_row_as_it_was_seen_and_at_no_other(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await unknown(subject)
        await subject.store.probed_in_vain(effect, next_probe_seconds=0.0)
        looked_at = await subject.store.effect("acme", OperationKey("key-1"))
        assert looked_at is not None
        before = await everything(subject)

        assert not await subject.store.begin_probe(effect, seconds=9.0)
        assert not await subject.store.begin_probe(replace(looked_at, fence=looked_at.fence + 1), seconds=9.0)
        assert await everything(subject) == before
        found = a_reconciliation(effect, EffectState.RECONCILED_COMMITTED, looked_at=subject.clock.now())
        assert isinstance(await subject.store.reconcile(found), Moved)
        assert not await subject.store.begin_probe(looked_at, seconds=9.0)

    async def test_rows_that_can_be_read_are_not_broken(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await unknown(subject)

        assert await subject.store.broken_effects(tenant=None, subject=None, limit=9) == ()

    async def test_one_key_in_two_tenants_is_two_operations(self, make_store: MakeStore) -> None:
        subject = await make_store()

        mine = await claimed(subject)
        theirs = await claimed(subject, token="token-2", tenant="other", subject="agent-9")
        await settled(subject, mine)

        assert await subject.store.effect("other", OperationKey("key-1")) == theirs
        assert await subject.store.effect("nobody", OperationKey("key-1")) is None
        assert await subject.told("other") == ["started"]
        assert await subject.told("nobody") == []
