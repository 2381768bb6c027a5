"""Standing grants: uses are counted in the claims that they pay for, never once too often, and revoked for good."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from placet.errors import StoreError
from placet.model.approval import Leave, Mac
from placet.model.audit import EventKind
from placet.model.decision import Terms
from placet.model.effect import EffectState
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.identifiers import Digest, PolicyVersion, Token
from placet.model.ledger import Claim, Claimed, GrantUse, Held, NotUsable
from placet.model.listing import Mark
from placet.rules.listing import mark_of_grant
from placet.testing.conformance.samples import (
    MakeStore,
    Subject,
    a_claim,
    a_forbidden_event,
    a_question,
    a_settlement,
    a_step,
    an_event,
    everything,
    fault_of,
    the_same_ask,
)

_SIGNED = Mac(key_id="k-1", value="5" * 64)
_REVOKED = Mac(key_id="k-1", value="6" * 64)


def a_grant(place: Subject, grant_id: str = "grt-1", *, tenant: str = "acme", **changes: Any) -> Grant:
    now = place.clock.now()
    grant = Grant(
        grant_id=GrantId(grant_id),
        tenant=tenant,
        environment="production",
        subject="agent-1",
        run_id=None,
        tool="pay",
        tool_version="1",
        contract_digest=Digest("c" * 64),
        limits_digest=Digest("d" * 64),
        policy_version=PolicyVersion("policy-1"),
        terms=Terms(rule="small", reason_to_approve=True, may_edit=False),
        max_uses=3,
        given_by="paula",
        given_at=now,
        expires_at=now + timedelta(seconds=600),
        leave=Leave(roles=("admin",), scopes=("approvals.decide",), is_listed=True),
        reason="it is payday",
        nonce="n-1",
        sealed_limits=b"\x01\x03k-1sealed",
    )
    return replace(grant, **changes)


def given(tenant: str = "acme") -> tuple[Any, ...]:
    return (an_event(EventKind.GRANT_GIVEN, tenant=tenant),)


async def stand(place: Subject, grant_id: str = "grt-1", **changes: Any) -> StoredGrant:
    """Give a grant."""
    grant = a_grant(place, grant_id, **changes)
    return await place.store.add_grant(grant, _SIGNED, events=given(grant.tenant))


def a_use(stored: StoredGrant, **changes: Any) -> GrantUse:
    use = GrantUse(
        grant_id=stored.grant.grant_id,
        mac=stored.mac.value,
        max_uses=stored.grant.max_uses,
        expires_at=stored.grant.expires_at,
        last_event=an_event(EventKind.GRANT_USED_UP, tenant=stored.grant.tenant),
        same=the_same_ask(a_question(tenant=stored.grant.tenant, asked_at=stored.grant.given_at)),
    )
    return replace(use, **changes)


def a_granted_claim(stored: StoredGrant, key: str = "key-1", **changes: Any) -> Claim:
    tenant = stored.grant.tenant
    claim = a_claim(key, tenant=tenant, token=f"token-{key}", step=a_step(key, tenant=tenant), grant=a_use(stored))
    return replace(claim, **changes)


class GrantConformance:
    """Leave that is given before the calls are made."""

    async def test_a_grant_is_read_back_as_it_was_given(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        bound = await stand(subject, "grt-2", run_id="run-7", subject='["production", "agent-1", "alice"]')

        assert await subject.store.grant("acme", GrantId("grt-1")) == stored
        assert await subject.store.grant("acme", GrantId("grt-2")) == bound
        assert await subject.store.grant("globex", GrantId("grt-1")) is None
        assert (stored.uses, stored.used_at, stored.mac) == (0, None, _SIGNED)
        assert await subject.told() == ["grant_given", "grant_given"]

    async def test_a_grant_and_its_event_are_durable_together_or_not_at_all(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await fault_of(subject.store.add_grant(a_grant(subject), _SIGNED, events=(a_forbidden_event(),)))
        assert await subject.store.grant("acme", GrantId("grt-1")) is None
        assert await subject.told() == []

    async def test_a_grant_is_not_given_twice(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        claimed = await subject.store.claim(a_granted_claim(stored))
        assert isinstance(claimed, Claimed)
        again = a_grant(subject, max_uses=99)
        try:
            await subject.store.add_grant(again, _SIGNED, events=given())
        except StoreError:
            pass
        else:
            raise AssertionError("a grant of the same id was taken")
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert (found.uses, found.grant.max_uses) == (1, 3)

    async def test_a_claim_counts_its_use_in_its_own_transaction(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        subject.clock.advance(5)

        answer = await subject.store.claim(a_granted_claim(stored))

        assert isinstance(answer, Claimed)
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found == replace(stored, uses=1, used_at=subject.clock.now())

    async def test_a_claim_that_is_refused_counts_no_use(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        await subject.store.stop("tool:pay", (an_event(EventKind.STOPPED),))
        before = await everything(subject)

        answer = await subject.store.claim(a_granted_claim(stored))

        assert not isinstance(answer, Claimed)
        assert await everything(subject) == before
        assert await subject.store.grant("acme", GrantId("grt-1")) == stored

    async def test_a_claim_whose_events_are_refused_counts_no_use(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        await fault_of(subject.store.claim(a_granted_claim(stored, events=(a_forbidden_event(),))))
        assert await subject.store.grant("acme", GrantId("grt-1")) == stored

    async def test_the_same_claim_again_counts_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        claim = a_granted_claim(stored)
        first, again = await subject.store.claim(claim), await subject.store.claim(claim)

        assert isinstance(first, Claimed)
        assert first == again
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert found.uses == 1

    async def test_another_claim_of_a_row_that_is_held_counts_no_use(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        await subject.store.claim(a_granted_claim(stored))
        answer = await subject.store.claim(a_granted_claim(stored, token=Token("token-other")))
        assert isinstance(answer, Held)
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert found.uses == 1

    async def test_no_use_is_given_back_when_the_dispatch_fails(self, make_store: MakeStore) -> None:
        """A dispatch that proves that nothing was sent has used it all the same; the next one takes another."""
        subject = await make_store()
        stored = await stand(subject)
        first = await subject.store.claim(a_granted_claim(stored))
        assert isinstance(first, Claimed)
        await subject.store.settle(a_settlement(first.effect, EffectState.FAILED))
        again = a_granted_claim(stored, expected_fence=1, token=Token("token-again"))
        second = await subject.store.claim(again)

        assert isinstance(second, Claimed)
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert found.uses == 2

    async def test_the_last_use_is_told_and_there_is_none_after_it(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject, max_uses=2)

        answers = [await subject.store.claim(a_granted_claim(stored, f"key-{number}")) for number in range(4)]

        assert [type(answer) for answer in answers] == [Claimed, Claimed, NotUsable, NotUsable]
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert found.uses == 2
        assert await subject.told() == ["grant_given", "started", "started", "grant_used_up"]

    async def test_how_often_is_what_was_verified_and_not_what_the_row_says(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject, max_uses=3)
        use = a_use(stored, max_uses=1)
        first = await subject.store.claim(a_granted_claim(stored, "key-1", grant=use))
        second = await subject.store.claim(a_granted_claim(stored, "key-2", grant=use))
        assert (type(first), type(second)) == (Claimed, NotUsable)

    async def test_many_claims_at_once_use_no_more_than_there_are(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject, max_uses=3)
        stores = [subject.store]
        if subject.open_again is not None:
            stores.append(await subject.open_again())

        answers = await asyncio.gather(
            *(stores[number % len(stores)].claim(a_granted_claim(stored, f"key-{number}")) for number in range(12))
        )

        assert sum(isinstance(answer, Claimed) for answer in answers) == 3
        assert {type(answer) for answer in answers} == {Claimed, NotUsable}
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert found.uses == 3

    async def test_a_grant_is_expired_at_its_instant_by_the_stores_clock(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        subject.clock.advance(599.999)
        assert await _standing(subject) == ["grt-1"]
        assert isinstance(await subject.store.claim(a_granted_claim(stored, "key-1")), Claimed)
        subject.clock.advance(0.001)
        assert await _standing(subject) == []
        assert isinstance(await subject.store.claim(a_granted_claim(stored, "key-2")), NotUsable)

    async def test_a_grant_that_is_not_the_one_that_was_verified_is_not_used(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        for use in (a_use(stored, mac="7" * 64), a_use(stored, grant_id=GrantId("grt-2"))):
            answer = await subject.store.claim(a_granted_claim(stored, grant=use))
            assert isinstance(answer, NotUsable)
        other = await stand(subject, "grt-3", tenant="globex")
        claim = a_granted_claim(stored, grant=a_use(other))
        assert isinstance(await subject.store.claim(claim), NotUsable)
        assert await subject.store.grant("acme", GrantId("grt-1")) == stored

    async def test_a_revoked_grant_is_used_no_more_and_keeps_its_count(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        await subject.store.claim(a_granted_claim(stored, "key-1"))
        revoked = replace(stored.grant, revoked_by="omar", revoked_at=subject.clock.now())

        after = await subject.store.revoke_grant(stored, revoked, _REVOKED, events=_revoked())

        assert after is not None
        assert (after.grant, after.mac, after.uses) == (revoked, _REVOKED, 1)
        assert await subject.store.grant("acme", GrantId("grt-1")) == after
        assert await _standing(subject) == []
        for mac in (_SIGNED.value, _REVOKED.value):
            claim = a_granted_claim(stored, "key-2", grant=a_use(stored, mac=mac))
            assert isinstance(await subject.store.claim(claim), NotUsable)
        assert await subject.told() == ["grant_given", "started", "grant_revoked"]

    async def test_a_grant_is_revoked_once(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        first = replace(stored.grant, revoked_by="omar", revoked_at=subject.clock.now())
        second = replace(first, revoked_by="paula")
        one = await subject.store.revoke_grant(stored, first, _REVOKED, events=_revoked())
        for seen in (stored, one):
            assert seen is not None
            other = await subject.store.revoke_grant(seen, second, Mac(key_id="k-1", value="8" * 64), events=_revoked())
            assert other == one
        gone = replace(stored, grant=replace(stored.grant, grant_id=GrantId("grt-9")))
        assert await subject.store.revoke_grant(gone, second, _REVOKED, events=_revoked()) is None
        assert await subject.told() == ["grant_given", "grant_revoked"]

    async def test_a_grant_that_is_not_the_one_that_was_seen_is_not_revoked(self, make_store: MakeStore) -> None:
        subject = await make_store()
        stored = await stand(subject)
        seen = replace(stored, mac=Mac(key_id="k-1", value="9" * 64))
        revoked = replace(stored.grant, revoked_by="omar", revoked_at=subject.clock.now())
        assert await subject.store.revoke_grant(seen, revoked, _REVOKED, events=_revoked()) == stored
        assert await subject.store.grant("acme", GrantId("grt-1")) == stored
        assert await subject.told() == ["grant_given"]

    async def test_standing_grants_are_of_one_subject_and_tool_the_soonest_to_expire_first(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        later = subject.clock.now() + timedelta(seconds=900)
        await stand(subject, "grt-c", expires_at=later)
        await stand(subject, "grt-b")
        await stand(subject, "grt-a")
        await stand(subject, "grt-d", subject="agent-2")
        await stand(subject, "grt-e", tool="refund")
        await stand(subject, "grt-f", tenant="globex")
        once = await stand(subject, "grt-g", max_uses=1)
        await subject.store.claim(a_granted_claim(once))

        assert await _standing(subject) == ["grt-a", "grt-b", "grt-c"]
        assert await _standing(subject, limit=2) == ["grt-a", "grt-b"]

    async def test_grants_are_listed_newest_first_with_those_that_have_ended(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for grant_id in ("grt-1", "grt-2", "grt-3"):
            await stand(subject, grant_id, max_uses=1)
            subject.clock.advance(1)
        await stand(subject, "grt-4", given_at=subject.clock.now() - timedelta(seconds=1))
        await stand(subject, "grt-5", tenant="globex")
        found = await subject.store.grant("acme", GrantId("grt-2"))
        assert found is not None
        await subject.store.claim(a_granted_claim(found))

        assert await _listed(subject, None, limit=10) == ["grt-4", "grt-3", "grt-2", "grt-1"]
        first = await subject.store.grants_after("acme", None, limit=2)
        assert await _listed(subject, mark_of_grant(first[-1]), limit=10) == ["grt-2", "grt-1"]

    async def test_those_that_stand_are_listed_by_themselves(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for grant_id in ("grt-1", "grt-2", "grt-3", "grt-4"):
            await stand(subject, grant_id, max_uses=1)
            subject.clock.advance(1)
        await stand(subject, "grt-5", expires_at=subject.clock.now() + timedelta(seconds=1))
        await stand(subject, "grt-6", tenant="globex")
        used, ended = [await subject.store.grant("acme", GrantId(name)) for name in ("grt-2", "grt-4")]
        assert used is not None
        assert ended is not None
        await subject.store.claim(a_granted_claim(used))
        await subject.store.end_grant(ended, events=_revoked())

        assert await _not_ended(subject, None, limit=10) == ["grt-5", "grt-3", "grt-1"]
        first = await subject.store.standing_grants_after("acme", None, limit=2)
        assert await _not_ended(subject, mark_of_grant(first[-1]), limit=10) == ["grt-1"]
        subject.clock.advance(1)
        assert await _not_ended(subject, None, limit=10) == ["grt-3", "grt-1"]

    async def test_a_row_that_is_ended_answers_no_more_and_stays_unless_it_has_changed(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        stored = await stand(subject)
        await subject.store.claim(a_granted_claim(stored))
        dropped = (an_event(EventKind.GRANT_REVOKED),)

        assert await subject.store.end_grant(stored, events=dropped) is False
        found = await subject.store.grant("acme", GrantId("grt-1"))
        assert found is not None
        assert await subject.store.end_grant(found, events=dropped) is True
        ended = await subject.store.grant("acme", GrantId("grt-1"))
        assert ended == replace(found, grant=replace(found.grant, revoked_at=subject.clock.now()))
        assert await _standing(subject) == []
        assert isinstance(await subject.store.claim(a_granted_claim(found, "key-2")), NotUsable)
        for seen in (found, ended):
            assert await subject.store.end_grant(seen, events=dropped) is False
        assert await subject.told() == ["grant_given", "started", "grant_revoked"]


def _revoked() -> tuple[Any, ...]:
    return (an_event(EventKind.GRANT_REVOKED),)


async def _standing(subject: Subject, *, limit: int = 32) -> list[str]:
    found = await subject.store.standing_grants(tenant="acme", subject="agent-1", tool="pay", limit=limit)
    return [each.grant.grant_id for each in found]


async def _not_ended(subject: Subject, mark: Mark | None, *, limit: int) -> list[str]:
    found = await subject.store.standing_grants_after("acme", mark, limit=limit)
    return [each.grant.grant_id for each in found]


async def _listed(subject: Subject, mark: Mark | None, *, limit: int) -> list[str]:
    return [each.grant.grant_id for each in await subject.store.grants_after("acme", mark, limit=limit)]
