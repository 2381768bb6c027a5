"""Keys and the audit as a whole: what the store opens with, what needs which key, and everything from one moment."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

from placet.errors import PlacetError
from placet.model.approval import ApprovalDecision, ApprovalState, Mac
from placet.model.audit import EventKind
from placet.model.custody import KeyUse
from placet.model.identifiers import RunId
from placet.testing.conformance.samples import (
    A_MAC,
    MakeStore,
    a_forbidden_event,
    an_event,
    claimed,
    decided,
    pending,
    settled,
)

_SEALED_UNDER = "aled arguments"
"""The key that the samples' sealed bytes name, which are no real seal."""
_NEW = Mac(key_id="k-2", value="7" * 64)


class CustodyConformance:
    """A key is adopted together with its events; rows are counted by the keys they name."""

    async def test_a_key_is_adopted_together_with_its_events_or_not_at_all(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await subject.store.adopted_key()
        fault: PlacetError | None = None
        try:
            await subject.store.adopt_key(_NEW, events=(a_forbidden_event(),))
        except PlacetError as raised:
            fault = raised
        assert fault is not None
        assert (await subject.store.adopted_key(), await subject.told()) == (first, [])

        await subject.store.adopt_key(_NEW, events=(an_event(EventKind.KEY_ROTATED),))
        assert (await subject.store.adopted_key(), await subject.told()) == ("k-2", ["key_rotated"])
        await subject.store.adopt_key(A_MAC, events=(an_event(EventKind.KEY_RETIRED),))
        assert await subject.store.adopted_key() == "k-1"
        assert (await subject.verified()).holds

    async def test_rows_are_counted_by_the_keys_they_name(self, make_store: MakeStore) -> None:
        subject = await make_store()
        assert await subject.store.key_uses() == ()
        await pending(subject)
        uses = {use.key_id: use for use in await subject.store.key_uses()}
        assert uses["k-1"].approvals == uses[_SEALED_UNDER].approvals == 1
        assert uses[_SEALED_UNDER] == KeyUse(key_id=_SEALED_UNDER, approvals=1)

        effect = await claimed(subject)
        uses = {use.key_id: use for use in await subject.store.key_uses()}
        assert uses[_SEALED_UNDER] == KeyUse(key_id=_SEALED_UNDER, approvals=1, arguments=1)
        await settled(subject, effect)
        uses = {use.key_id: use for use in await subject.store.key_uses()}
        assert uses[_SEALED_UNDER].arguments == 0, "a settled effect needs its arguments no more"
        assert uses["aled result"] == KeyUse(key_id="aled result", results=1)
        assert sum(use.events for use in uses.values()) == len(await subject.events())

    async def test_a_denial_is_remembered_and_a_withdrawn_question_is_not(self, make_store: MakeStore) -> None:
        subject = await make_store()
        denied = await decided(subject, await pending(subject), ApprovalDecision.DENY)
        assert {use.key_id: use.approvals for use in await subject.store.key_uses()}[_SEALED_UNDER] == 1
        other = await pending(subject, "apr-2", run_id=RunId("run-2"))
        assert {use.key_id: use.approvals for use in await subject.store.key_uses()}[_SEALED_UNDER] == 2
        await subject.store.retire(other, ApprovalState.WITHDRAWN, events=(an_event(EventKind.APPROVAL_WITHDRAWN),))
        assert {use.key_id: use.approvals for use in await subject.store.key_uses()}[_SEALED_UNDER] == 1
        assert denied.answer is not None

    async def test_a_snapshot_is_of_one_moment(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((an_event(),))
        await subject.store.record((an_event(EventKind.COMPLETED, tenant="other"),))
        async with subject.store.snapshot(tenant="other") as audit:
            await subject.store.record((an_event(),))
            events = [event async for event in audit.events]
        assert (audit.count, len(events)) == (1, 2), "all events are given, the tenant's are counted"
        assert [(head.writer, head.sequence, head.link) for head in audit.heads] == [
            (events[-1].writer, events[-1].sequence, events[-1].link)
        ]
        async with subject.store.snapshot() as audit:
            assert (audit.count, len([event async for event in audit.events])) == (3, 3)
            assert audit.heads == await subject.store.heads()
