"""What is shown at the door: kept as it was put, changed only by whoever has seen it as it is, and used up once."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from placet.model.approval import Mac
from placet.model.audit import EventKind
from placet.model.credentials import CredentialChange, CredentialKind, StoredCredential
from placet.testing.conformance.samples import _BEGINNING, A_MAC, ANOTHER_MAC, MakeStore, a_forbidden_event, an_event

_LONG = timedelta(days=30)


def a_credential(name: str = "k1", **changes: Any) -> StoredCredential:
    row = StoredCredential(
        kind=CredentialKind.API_KEY,
        name=name,
        tenant="acme",
        subject="büro",
        body='{"of":"büro"}'.encode(),
        mac=A_MAC,
        made_at=_BEGINNING,
        ends_at=_BEGINNING + _LONG,
    )
    return replace(row, **changes)


_EVENT = (an_event(EventKind.API_KEY_CREATED),)


class CredentialConformance:
    """Rows go in whole, with their events, and are changed by compare and set."""

    async def test_a_credential_is_found_as_it_was_put_with_the_clock_of_the_store(self, make_store: MakeStore) -> None:
        subject = await make_store()
        row = a_credential()

        assert await subject.store.put_credentials(CredentialChange(added=(row,)), events=_EVENT)

        seen = await subject.store.credential(CredentialKind.API_KEY, "k1")
        assert seen is not None
        assert (seen.row, seen.at) == (row, await subject.store.now())
        assert await subject.store.credential(CredentialKind.SESSION, "k1") is None
        assert await subject.store.credential(CredentialKind.API_KEY, "k2") is None
        assert await subject.told() == ["api_key_created"]
        assert (await subject.verified()).holds

    async def test_a_change_is_written_whole_or_not_at_all(self, make_store: MakeStore) -> None:
        subject = await make_store()
        row, other = a_credential(), a_credential("k2")
        await subject.store.put_credentials(CredentialChange(added=(row, other)), events=())
        new, third = replace(row, body=b"{}", mac=ANOTHER_MAC, tenant="b", subject="c"), a_credential("k3")
        stale, gone = replace(other, mac=ANOTHER_MAC), a_credential("never")

        for change in (
            CredentialChange(added=(third, other)),
            CredentialChange(added=(third,), changed=((new, ANOTHER_MAC),)),
            CredentialChange(added=(third,), changed=((gone, A_MAC),)),
            CredentialChange(added=(third,), changed=((new, A_MAC),), dropped=(stale,)),
            CredentialChange(added=(third,), changed=((new, A_MAC),), dropped=(gone,)),
        ):
            assert not await subject.store.put_credentials(change, events=_EVENT)
        fault: Exception | None = None
        try:
            await subject.store.put_credentials(CredentialChange(added=(third,)), events=(a_forbidden_event(),))
        except Exception as raised:
            fault = raised

        assert fault is not None
        listed = await subject.store.credentials(CredentialKind.API_KEY, tenant="acme", limit=10)
        assert (listed, await subject.told()) == ((row, other), [])
        whole = CredentialChange(added=(third,), changed=((new, A_MAC),), dropped=(other,))
        assert await subject.store.put_credentials(whole, events=_EVENT)
        assert await subject.store.credentials(CredentialKind.API_KEY, tenant="acme", limit=10) == (third,)
        assert await subject.store.credentials(CredentialKind.API_KEY, tenant="b", limit=10) == (new,)

    async def test_of_many_who_use_up_one_credential_at_once_one_does(self, make_store: MakeStore) -> None:
        subject = await make_store()
        link = a_credential("link", kind=CredentialKind.SIGN_IN_LINK)
        await subject.store.put_credentials(CredentialChange(added=(link,)), events=())

        async def redeem(number: int) -> bool:
            session = a_credential(f"s{number}", kind=CredentialKind.SESSION)
            return await subject.store.put_credentials(CredentialChange(added=(session,), dropped=(link,)), events=())

        assert sum(await asyncio.gather(*map(redeem, range(12)))) == 1

        assert len(await subject.store.credentials(CredentialKind.SESSION, tenant="acme", limit=20)) == 1
        assert await subject.store.credential(CredentialKind.SIGN_IN_LINK, "link") is None

    async def test_of_many_who_change_one_credential_at_once_one_does(self, make_store: MakeStore) -> None:
        subject = await make_store()
        row = a_credential()
        await subject.store.put_credentials(CredentialChange(added=(row,)), events=())

        async def change(number: int) -> bool:
            mac = Mac(key_id="k-1", value=f"{number:064x}")
            change = CredentialChange(changed=((replace(row, mac=mac), A_MAC),))
            return await subject.store.put_credentials(change, events=_EVENT)

        assert sum(await asyncio.gather(*map(change, range(12)))) == 1

        assert await subject.told() == ["api_key_created"]

    async def test_use_is_noted_now_and_then_and_changes_nothing_else(self, make_store: MakeStore) -> None:
        subject = await make_store()
        row = a_credential()
        await subject.store.put_credentials(CredentialChange(added=(row,)), events=())

        async def used() -> Any:
            await subject.store.credential_used(CredentialKind.API_KEY, "k1", every_seconds=60)
            seen = await subject.store.credential(CredentialKind.API_KEY, "k1")
            assert seen is not None and replace(seen.row, used_at=None) == row
            return seen.row.used_at

        first = await used()
        subject.clock.advance(59)
        assert await used() == first is not None
        subject.clock.advance(1)
        later = await used()
        assert timedelta(seconds=60) <= later - first < timedelta(seconds=600)
        await subject.store.credential_used(CredentialKind.API_KEY, "never", every_seconds=60)
        new = CredentialChange(changed=((replace(row, mac=ANOTHER_MAC), A_MAC),))
        assert await subject.store.put_credentials(new, events=()), "use is no change that anybody has to have seen"

    async def test_credentials_of_one_person_or_tenant_are_listed_the_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        rows = tuple(
            a_credential(
                f"s{n}", kind=CredentialKind.SESSION, subject="mara" if n % 2 else "olga",
                made_at=_BEGINNING + timedelta(seconds=n // 2),
            )
            for n in range(6)
        )  # fmt: skip
        elsewhere = a_credential("s9", kind=CredentialKind.SESSION, tenant="other", subject="mara")
        await subject.store.put_credentials(CredentialChange(added=(*rows, elsewhere, a_credential())), events=())

        async def named(**which: Any) -> list[str]:
            listed = await subject.store.credentials(CredentialKind.SESSION, tenant="acme", **which)
            return [row.name for row in listed]

        assert await named(limit=10) == ["s4", "s5", "s2", "s3", "s0", "s1"]
        assert await named(limit=3) == ["s4", "s5", "s2"]
        assert await named(subject="mara", limit=2) == ["s5", "s3"]

    async def test_what_has_ended_is_listed_of_every_tenant(self, make_store: MakeStore) -> None:
        subject = await make_store()
        now = await subject.store.now()
        rows = tuple(
            a_credential(f"s{n}", kind=CredentialKind.SESSION, tenant=f"t{n}", ends_at=now + timedelta(seconds=n))
            for n in (-60, 0, -90, 3600)
        )
        await subject.store.put_credentials(CredentialChange(added=rows), events=())
        ended = await subject.store.ended_credentials(CredentialKind.SESSION, limit=10)
        assert [row.name for row in ended] == ["s-90", "s-60", "s0"]
        assert len(await subject.store.ended_credentials(CredentialKind.SESSION, limit=1)) == 1
        assert await subject.store.ended_credentials(CredentialKind.API_KEY, limit=1) == ()

    async def test_api_keys_that_still_open_something_are_counted_by_the_keys_they_name(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        now = await subject.store.now()
        rows = (
            a_credential("k1", ends_at=now + _LONG, mac=Mac(key_id="k-9", value="0" * 64)),
            a_credential("k2", ends_at=now, mac=Mac(key_id="k-9", value="0" * 64)),
            a_credential("s1", ends_at=now + _LONG, kind=CredentialKind.SESSION),
        )
        await subject.store.put_credentials(CredentialChange(added=rows), events=())
        assert {use.key_id: use.api_keys for use in await subject.store.key_uses()} == {"k-9": 1}
