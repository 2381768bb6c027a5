"""Lists that are read a page at a time: every row once, whatever happens between two pages."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

from dataclasses import replace

import orjson

from placet.model.approval import Approval, ApprovalState
from placet.model.audit import ChainedEvent
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import OperationKey
from placet.model.listing import Mark
from placet.rules.listing import mark_of_approval, mark_of_effect, mark_of_event
from placet.testing.conformance.samples import (
    EVERY_STATE,
    MakeStore,
    Subject,
    an_event,
    claimed,
    pending,
    settled,
    unknown,
)


async def effects_of(
    subject: Subject, mark: Mark | None = None, *states: EffectState, who: str | None = None, limit: int = 9
) -> list[Effect]:
    found = await subject.store.effects_after("acme", mark, states=states or EVERY_STATE, limit=limit, subject=who)
    return [effect for effect in found if isinstance(effect, Effect)]


class PagingConformance:
    async def test_effects_are_given_once_each_page_after_page_also_those_of_one_instant(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n in range(6):
            await claimed(subject, f"key-{n}", token=f"token-{n}")
            if n % 3 == 2:
                subject.clock.advance(1)
        await claimed(subject, "key-9", token="token-9", tenant="other")  # noqa: S106

        pages: list[list[str]] = []
        mark: Mark | None = None
        while page := await effects_of(subject, mark, limit=2):
            pages.append([effect.operation_key for effect in page])
            mark = mark_of_effect(page[-1])

        assert pages == [["key-5", "key-4"], ["key-3", "key-2"], ["key-1", "key-0"]]

    async def test_an_effect_that_changes_between_two_pages_moves_to_the_front_and_hides_no_other(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n in range(4):
            await claimed(subject, f"key-{n}", token=f"token-{n}")
            subject.clock.advance(1)
        first = await effects_of(subject, limit=2)
        changing = await subject.store.effect("acme", OperationKey("key-0"))
        assert changing is not None
        await settled(subject, changing)

        rest = await effects_of(subject, mark_of_effect(first[-1]), limit=9)

        assert [effect.operation_key for effect in first] == ["key-3", "key-2"]
        assert [effect.operation_key for effect in rest] == ["key-1"]

    async def test_effects_of_a_page_are_picked_by_state_and_subject(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await unknown(subject, "key-0", token="token-0")  # noqa: S106
        await claimed(subject, "key-1", token="token-1", subject="bob")  # noqa: S106
        subject.clock.advance(1)
        done = await claimed(subject, "key-2", token="token-2", subject='["production","agent","bob"]')  # noqa: S106
        await settled(subject, done)

        async def keys(*states: EffectState, who: str | None = None) -> list[str]:
            return [effect.operation_key for effect in await effects_of(subject, None, *states, who=who)]

        assert await keys(who="bob") == ["key-2", "key-1"]
        assert await keys(EffectState.UNKNOWN) == ["key-0"]
        assert await keys(EffectState.UNKNOWN, EffectState.DISPATCHED) == ["key-1", "key-0"]
        assert await keys(EffectState.DISPATCHED, who="bob") == ["key-1"]
        assert await keys(EffectState.UNKNOWN, EffectState.COMMITTED) == ["key-2", "key-0"]

    async def test_approvals_are_given_once_each_page_after_page_also_those_of_one_instant(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        asked = [await pending(subject, f"apr-{n}", call_id=f"call-{n}", argument_digest=f"{n}" * 64) for n in range(3)]
        await subject.store.retire(asked[1], ApprovalState.WITHDRAWN, events=())
        subject.clock.advance(1)
        await pending(subject, "apr-3", call_id="call-3", argument_digest="3" * 64)
        await pending(subject, "apr-9", tenant="other")

        async def ids(mark: Mark | None, *states: ApprovalState, limit: int = 9) -> tuple[list[str], Mark | None]:
            found: tuple[Approval, ...] = await subject.store.approvals_after(
                "acme", mark, states=states or tuple(ApprovalState), limit=limit
            )
            last = mark_of_approval(found[-1]) if found else None
            return [each.question.approval_id for each in found], last

        first, mark = await ids(None, limit=2)
        second, end = await ids(mark, limit=2)

        assert (first, second) == (["apr-3", "apr-2"], ["apr-1", "apr-0"])
        assert await ids(end) == ([], None)
        assert (await ids(None, ApprovalState.PENDING))[0] == ["apr-3", "apr-2", "apr-0"]
        assert (await ids(mark, ApprovalState.PENDING))[0] == ["apr-0"]

    async def test_events_are_given_once_each_the_newest_first_and_of_one_tenant_alone(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n in range(5):
            now = subject.clock.now()
            await subject.store.record((replace(an_event(call_id=f"call-{n}"), at=now),))
            await subject.store.record((replace(an_event(tenant="other"), at=now),))
            if n % 2:
                subject.clock.advance(1)

        calls: list[str] = []
        mark: Mark | None = None
        while page := await subject.store.events_after("acme", mark, limit=2):
            calls += [orjson.loads(event.body)["call_id"] for event in page]
            last: ChainedEvent = page[-1]
            mark = mark_of_event(last)

        assert calls == ["call-4", "call-3", "call-2", "call-1", "call-0"]
