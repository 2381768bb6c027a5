"""Stops: what they halt, who may lift them, and that nothing of their scope is dispatched after them."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

import asyncio
from dataclasses import replace

from placet.model.audit import EventKind
from placet.model.identifiers import Digest
from placet.model.ledger import (
    Claimed,
    Moved,
    NotMoved,
    Recorded,
    Stopped,
    quarantine_scope,
    tool_scope,
    upstream_scope,
)
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.testing.conformance.samples import (
    MakeStore,
    a_claim,
    a_step,
    a_turn,
    an_event,
    claimed,
    everything,
)

OF_TENANT = StopNote(subject="olga", tenant="acme", leave=StopLeave.TENANT, sealed_reason=b"sealed")
OF_DEPLOYMENT = StopNote(subject="root", tenant="operators", leave=StopLeave.DEPLOYMENT, sealed_reason=None)


class StopConformance:
    """After a stop nothing of its scope begins; with less leave than it was given with, nobody lifts it."""

    async def test_a_tool_can_be_stopped_for_one_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        scope = tool_scope("acme", "pay")

        running = await subject.store.stop(scope, ())

        assert running == 1
        assert await subject.store.claim(a_claim("key-2", token="token-2")) == Stopped(scope=scope)
        assert await subject.store.turn(a_turn(effect)) == NotMoved(effect=effect, reason=f"stopped:{scope}")
        started = await subject.store.record((an_event(),), step=a_step("call-9"), starts_tool="pay")
        assert started == Stopped(scope=scope)
        elsewhere = a_claim("key-3", token="token-3", tenant="other", step=a_step(tenant="other", run_id="run-2"))
        assert isinstance(await subject.store.claim(elsewhere), Claimed)
        assert isinstance(await subject.store.claim(a_claim("key-4", token="token-4", tool="refund")), Claimed)

    async def test_a_tool_of_an_upstream_is_halted_with_its_upstream(self, make_store: MakeStore) -> None:
        """Its name begins with the upstream's id and a dot; a name without a dot is of no upstream."""
        subject = await make_store()
        effect = await claimed(subject, tool="desk.create.now")
        await claimed(subject, "key-2", token="token-2", tool="desk", step=a_step("call-2"))
        step = a_step("call-9")
        for scope, elsewhere in (
            ("upstream:desk", ("desk", "desk2.create", "xdesk.create")),
            (upstream_scope("acme", "desk"), ("desk", "desk2.create", "xdesk.create")),
        ):
            running = await subject.store.stop(scope, ())

            assert running == 1
            claim = a_claim("key-3", token="token-3", tool="desk.create.now", step=a_step("call-3"))
            assert await subject.store.claim(claim) == Stopped(scope=scope)
            assert await subject.store.turn(a_turn(effect)) == NotMoved(effect=effect, reason=f"stopped:{scope}")
            started = await subject.store.record((an_event(),), step=step, starts_tool="desk.create.now")
            assert started == Stopped(scope=scope)
            for tool in elsewhere:
                assert isinstance(await subject.store.record((an_event(),), step=step, starts_tool=tool), Recorded)
            assert await subject.store.resume(scope, ())

    async def test_a_quarantine_halts_a_tool_as_it_was_accepted_once_and_not_as_it_was_later(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        old, new = Digest("0" * 64), Digest("0" * 31 + "1" * 33)
        effect = await claimed(subject, tool="desk.create", step=a_step(pin=old))
        scope = quarantine_scope("desk.create", old)

        await subject.store.stop(scope, ())

        claims = [
            a_claim(f"key-{n}", token=f"token-{n}", tool="desk.create", step=a_step(f"call-{n}", pin=pin))
            for n, pin in enumerate((old, new, None))
        ]
        assert await subject.store.claim(claims[0]) == Stopped(scope=scope)
        assert isinstance(await subject.store.claim(claims[1]), Claimed)
        assert isinstance(await subject.store.claim(claims[2]), Claimed)
        started = [
            await subject.store.record((an_event(),), step=a_step("call-9", pin=old), starts_tool=tool)
            for tool in ("desk.create", "desk.create2", "desk")
        ]
        assert [type(each) for each in started] == [Stopped, Recorded, Recorded]
        halted = await subject.store.turn(a_turn(effect, pin=old))
        assert halted == NotMoved(effect=effect, reason=f"stopped:{scope}")
        assert isinstance(await subject.store.turn(a_turn(effect, pin=new)), Moved)

    async def test_an_upstream_can_be_stopped_for_one_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await claimed(subject, tool="desk.create")
        theirs = a_step(tenant="other", run_id="run-2")

        running = [await subject.store.stop(upstream_scope(tenant, "desk"), ()) for tenant in ("acme", "other")]
        assert await subject.store.resume(upstream_scope("other", "desk"), ())

        assert running == [1, 0]
        halted = await subject.store.record((an_event(),), step=a_step("call-9"), starts_tool="desk.create")
        assert halted == Stopped(scope=upstream_scope("acme", "desk"))
        elsewhere = a_claim("key-3", token="token-3", tenant="other", tool="desk.create", step=theirs)
        assert isinstance(await subject.store.claim(elsewhere), Claimed)

    async def test_a_stop_is_on_record_with_its_note_until_it_is_lifted(self, make_store: MakeStore) -> None:
        subject = await make_store()
        began = subject.clock.now()

        await subject.store.stop("tenant:acme", (an_event(EventKind.STOPPED),), note=OF_TENANT)
        subject.clock.advance(1)
        await subject.store.stop("all", (), note=None)
        both = await subject.store.stop_records()
        lifted = await subject.store.resume("tenant:acme", (an_event(EventKind.RESUMED),), leave=StopLeave.TENANT)

        assert both == (
            StopRecord(scope="tenant:acme", stopped_at=began, note=OF_TENANT),
            StopRecord(scope="all", stopped_at=subject.clock.now(), note=None),
        )
        assert lifted
        assert await subject.store.stop_records() == both[1:]
        assert await subject.told() == ["stopped", "resumed"]

    async def test_of_two_stops_of_one_scope_the_first_instant_and_the_stronger_leave_stand(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        began = subject.clock.now()

        for note in (OF_TENANT, replace(OF_TENANT, subject="nobody"), OF_DEPLOYMENT, OF_TENANT):
            await subject.store.stop("tenant:acme", (), note=note)
            subject.clock.advance(1)

        (record,) = await subject.store.stop_records()
        assert record == StopRecord(scope="tenant:acme", stopped_at=began, note=OF_DEPLOYMENT)

    async def test_a_stop_is_not_lifted_with_less_leave_than_it_was_given_with(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.stop("tenant:acme", (), note=OF_DEPLOYMENT)
        await subject.store.stop("tool:pay", ())
        before = await everything(subject)

        event = (an_event(EventKind.RESUMED),)
        refused = [
            await subject.store.resume(scope, event, leave=StopLeave.TENANT)
            for scope in ("tenant:acme", "tool:pay", "tool:never")
        ]

        assert refused == [False, False, False]
        assert await everything(subject) == before
        assert await subject.store.resume("tenant:acme", event)
        assert await subject.store.resume("tool:pay", event)
        assert not await subject.store.resume("tool:never", event)
        assert await subject.store.stop_records() == ()

    async def test_a_weaker_note_never_makes_an_older_stop_easier_to_lift(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.stop("tenant:acme", ())

        await subject.store.stop("tenant:acme", (), note=OF_TENANT)

        assert not await subject.store.resume("tenant:acme", (), leave=StopLeave.TENANT)

    async def test_of_claims_and_a_stop_together_none_is_dispatched_after_the_stop(self, make_store: MakeStore) -> None:
        """Each claim either was there before the stop, which counts it, or is told of the stop."""
        subject = await make_store()
        claims = [a_claim(f"key-{n}", token=f"token-{n}", step=a_step(f"call-{n}")) for n in range(40)]

        work = [subject.store.claim(claim) for claim in claims]
        first = [asyncio.ensure_future(each) for each in work[:20]]
        stopping = asyncio.ensure_future(subject.store.stop("all", (an_event(EventKind.STOPPED),)))
        later = [asyncio.ensure_future(each) for each in work[20:]]
        running = await stopping
        answers = await asyncio.gather(*first, *later)

        assert sum(isinstance(answer, Claimed) for answer in answers) == running
        assert all(isinstance(answer, Claimed) or answer == Stopped(scope="all") for answer in answers)
        told = await subject.told()
        assert told[-1] == "stopped" and told.count("started") == running

    async def test_what_changes_nothing_goes_on_while_everything_is_stopped(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.stop("all", ())

        answer = await subject.store.record((an_event(),), step=a_step("call-2"))

        assert isinstance(answer, Recorded)
