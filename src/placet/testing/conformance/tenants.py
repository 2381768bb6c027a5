"""Tenants that use the same names for everything, and callers of many tenants whose orders are committed together."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio

from placet.errors import NotFound
from placet.model.approval import ApprovalState
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import ApprovalId, OperationKey, RunId
from placet.model.ledger import Claimed, Held, Recorded
from placet.testing.conformance.samples import (
    MakeStore,
    Subject,
    a_claim,
    a_settlement,
    a_step,
    a_turn,
    an_event,
    fault_of,
    pending,
)

TENANTS = tuple(f"tenant-{number}" for number in range(24))


async def claimed_by_all(subject: Subject) -> list[Effect]:
    """One operation of one name for each tenant, claimed at the same time."""
    claims = [
        subject.store.claim(a_claim("key-1", token=f"t-{tenant}", tenant=tenant, step=a_step("call-1", tenant=tenant)))
        for tenant in TENANTS
    ]
    answers = await asyncio.gather(*claims)
    return [answer.effect for answer in answers if isinstance(answer, Claimed)]


class TenantConformance:
    async def test_what_is_committed_together_is_answered_and_kept_apart(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effects = await claimed_by_all(subject)
        assert [effect.tenant for effect in effects] == list(TENANTS)

        words = [a_settlement(effect, sealed_result=effect.tenant.encode()) for effect in effects]
        moved = await asyncio.gather(*(subject.store.settle(word) for word in words))

        assert [each.effect.sealed_result for each in moved] == [tenant.encode() for tenant in TENANTS]
        for tenant in TENANTS:
            row = await subject.store.effect(tenant, OperationKey("key-1"))
            assert row is not None and (row.tenant, row.sealed_result) == (tenant, tenant.encode())
            found = await subject.store.effects(tenant=tenant, states=(EffectState.COMMITTED,), limit=99)
            assert found == (row,)
            assert await subject.told(tenant) == ["started", "completed"]

    async def test_a_mix_of_verbs_of_many_tenants_touches_nobody_elses_rows(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effects = await claimed_by_all(subject)
        thirds = effects[::3], effects[1::3], effects[2::3]

        await asyncio.gather(
            *(subject.store.settle(a_settlement(effect, EffectState.FAILED)) for effect in thirds[0]),
            *(subject.store.turn(a_turn(effect)) for effect in thirds[1]),
            *(subject.store.claim(a_claim("key-1", token="again", tenant=effect.tenant)) for effect in thirds[2]),
        )

        states = [
            [await subject.store.effect(effect.tenant, effect.operation_key) for effect in third] for third in thirds
        ]
        assert {(row.state, row.attempt) for row in states[0] if row} == {(EffectState.FAILED, 1)}
        assert {(row.state, row.attempt) for row in states[1] if row} == {(EffectState.DISPATCHED, 2)}
        assert [row.token for row in states[2] if row] == [effect.token for effect in thirds[2]]

    async def test_another_tenants_rows_do_not_exist(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = (await claimed_by_all(subject))[0]
        approval = await pending(subject, tenant="tenant-1")
        strangers = a_settlement(effect, tenant="nobody")

        assert type(await fault_of(subject.store.settle(strangers))) is NotFound
        assert await subject.store.effect("nobody", OperationKey("key-1")) is None
        assert await subject.store.approval("tenant-2", ApprovalId(approval.question.approval_id)) is None
        assert await subject.store.approvals("tenant-2", states=tuple(ApprovalState), limit=9) == ()
        mine = await subject.store.claim(
            a_claim("key-1", token="mine", tenant="nobody", step=a_step("call-1", tenant="nobody"))
        )
        assert isinstance(mine, Claimed)
        assert isinstance(await subject.store.claim(a_claim("key-1", token="other", tenant="nobody")), Held)

    async def test_a_run_of_one_name_is_another_in_each_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        steps = [
            a_step(f"call-{number}", tenant=tenant, run_id=RunId("run-1"), max_steps=2)
            for tenant in TENANTS
            for number in range(2)
        ]
        answers = await asyncio.gather(
            *(subject.store.record((an_event(tenant=step.tenant),), step=step) for step in steps)
        )

        assert all(isinstance(answer, Recorded) for answer in answers)
