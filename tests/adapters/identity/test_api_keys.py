"""Who shows a key is its agent, or nobody: unknown, revoked, altered and mistyped keys open nothing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.adapters.identity.api_keys import ApiKeySignIn
from placet.adapters.keys import KeyRing
from placet.errors import SignInRefused, StoreUnavailable
from placet.model.credentials import ApiKey, CredentialChange, CredentialKind, StoredCredential
from placet.model.principal import Principal, Role, Standing
from placet.rules import credentials as rules
from tests.adapters.identity.conftest import MARA, House

DAY = 86_400.0


async def refusal(house: House, text: str) -> SignInRefused:
    with pytest.raises(SignInRefused) as refused:
        await house.door.principal_of(text)
    fault = refused.value
    assert fault.__cause__ is None and fault.__context__ is None
    assert text not in f"{fault} {fault.hint} {fault.code}"
    return fault


async def row_of(house: House, api_key_id: str) -> StoredCredential:
    seen = await house.store.credential(CredentialKind.API_KEY, api_key_id)
    assert seen is not None
    return seen.row


async def put_by_hand(house: House, row: StoredCredential) -> None:
    """As somebody does who can write the database, and has no key of the store."""
    house.store._tables.credentials[row.kind, row.name] = row


async def test_a_key_opens_the_door_for_its_agent_as_it_was_made(house: House) -> None:
    made = await house.key("bot", roles=["operator"], scopes=["ops.ticket.create"], environment="staging")

    principal = await house.door.principal_of(made.text)

    assert principal == Principal(
        subject="bot",
        tenant="acme",
        roles=frozenset({Role.OPERATOR}),
        scopes=frozenset({"ops.ticket.create"}),
        environment="staging",
        standing=Standing.AGENT,
    )


async def test_whatever_its_scopes_a_key_is_never_a_person(house: House) -> None:
    made = await house.key(roles=["admin"], scopes=["approvals.decide", "ops.stop.all", "api_keys.manage"])

    principal = await house.door.principal_of(made.text)

    assert principal.standing is Standing.AGENT
    person = replace(made.key, principal=replace(principal, standing=Standing.PERSON))
    await put_by_hand(house, house.rows.of_api_key(person))  # signed, and still no key says so
    await refusal(house, made.text)


async def test_neither_the_store_nor_its_audit_has_the_text_or_its_secret(house: House) -> None:
    made = await house.key()
    await house.door.principal_of(made.text)
    shown = rules.shown_api_key(made.text)
    assert shown is not None

    kept = repr(house.store._tables.credentials) + repr(await house.told()) + repr(made) + repr(shown)

    assert made.text not in kept and shown.secret.hex() not in kept and repr(shown.secret) not in kept


@pytest.mark.parametrize("place", [0, 6, 7, 20, 31, 40, 95, 96, 103])
async def test_one_wrong_character_is_known_before_anything_is_looked_up(house: House, place: int) -> None:
    made = await house.key()
    wrong = made.text[:place] + ("0" if made.text[place] != "0" else "1") + made.text[place + 1 :]
    house.store = None
    door = ApiKeySignIn(store=None, rows=house.rows, secrets=house.secrets)  # type: ignore[arg-type]

    for text in (wrong, made.text[:-1], made.text + "0", made.text.upper(), f" {made.text}", made.text + "\n", ""):
        with pytest.raises(SignInRefused):
            await door.principal_of(text)


async def test_another_secret_for_a_key_that_is_there_opens_nothing(house: House) -> None:
    made, other = await house.key(), await house.key("other")
    stranger = rules.shown_api_key(other.text)
    assert stranger is not None

    mixed = rules.api_key_text(made.key.api_key_id, stranger.secret)

    assert (await refusal(house, mixed)).code == "sign_in_refused"


async def test_unknown_and_revoked_and_wrong_are_refused_in_the_same_words(house: House) -> None:
    made = await house.key()
    unknown = rules.api_key_text("0" * 24, bytes(32))
    wrong = rules.api_key_text(made.key.api_key_id, bytes(32))
    faults = [await refusal(house, unknown), await refusal(house, wrong)]
    await house.api_keys.revoke(made.key.api_key_id, by=MARA)

    faults.append(await refusal(house, made.text))

    assert len({(str(fault), fault.code, fault.hint) for fault in faults}) == 1
    assert [event["kind"] for event in await house.told()] == ["api_key_created", "api_key_revoked"]


async def test_what_is_revoked_is_revoked_at_the_next_look_wherever_that_is(house: House) -> None:
    made = await house.key()
    elsewhere = ApiKeySignIn(store=house.store, rows=house.rows, secrets=house.secrets)
    await elsewhere.principal_of(made.text)

    await house.api_keys.revoke(made.key.api_key_id, by=MARA)

    with pytest.raises(SignInRefused):
        await elsewhere.principal_of(made.text)


async def test_a_key_is_over_at_its_instant_and_only_its_holder_is_told(house: House) -> None:
    made = await house.key(lifetime_seconds=DAY)
    house.clock.advance(DAY - 0.001)
    await house.door.principal_of(made.text)
    house.clock.advance(0.001)

    assert (await refusal(house, made.text)).code == "sign_in_expired"
    wrong = rules.api_key_text(made.key.api_key_id, bytes(32))
    assert (await refusal(house, wrong)).code == "sign_in_refused"


async def test_a_rotated_key_opens_until_the_overlap_is_over_and_the_new_one_goes_on(house: House) -> None:
    old = await house.key(lifetime_seconds=30 * DAY)
    new = await house.api_keys.rotate(old.key.api_key_id, by=MARA, overlap_seconds=60)
    assert await house.door.principal_of(old.text) == await house.door.principal_of(new.text)

    house.clock.advance(60)

    assert (await refusal(house, old.text)).code == "sign_in_expired"
    assert (await house.door.principal_of(new.text)).subject == "bot"


async def test_a_rotation_never_makes_the_old_key_live_longer(house: House) -> None:
    old = await house.key(lifetime_seconds=60)

    await house.api_keys.rotate(old.key.api_key_id, by=MARA, overlap_seconds=DAY)

    house.clock.advance(60)
    assert (await refusal(house, old.text)).code == "sign_in_expired"


# ---------------------------------------------------------------- a writer of the database


def _body(row: StoredCredential, was: str, now: str) -> StoredCredential:
    assert was.encode() in row.body
    return replace(row, body=row.body.replace(was.encode(), now.encode()))


ALTERATIONS: dict[str, Any] = {
    "role": lambda row: _body(row, '"viewer"', '"admin"'),
    "scope": lambda row: _body(row, '"scopes":[]', '"scopes":["x"]'),
    "tenant in the body": lambda row: _body(row, '"tenant":"acme"', '"tenant":"other"'),
    "subject": lambda row: _body(row, '"subject":"bot"', '"subject":"mara"'),
    "standing": lambda row: _body(row, '"standing":"agent"', '"standing":"person"'),
    "expiry": lambda row: _body(row, '"expires_at":"2026', '"expires_at":"2036'),
    "tenant beside it": lambda row: replace(row, tenant="other"),
    "subject beside it": lambda row: replace(row, subject="mara"),
    "end beside it": lambda row: replace(row, ends_at=row.ends_at + timedelta(days=1)),
    "beginning beside it": lambda row: replace(row, made_at=row.made_at - timedelta(days=1)),
    "mac": lambda row: replace(row, mac=replace(row.mac, value="0" * 64)),
    "key": lambda row: replace(row, mac=replace(row.mac, key_id="other")),
    "no body": lambda row: replace(row, body=b""),
    "no object": lambda row: replace(row, body=b"[]"),
}


@pytest.mark.parametrize("how", ALTERATIONS)
async def test_an_altered_row_opens_nothing_and_alarms_once(house: House, how: str) -> None:
    made = await house.key()
    await put_by_hand(house, ALTERATIONS[how](await row_of(house, made.key.api_key_id)))

    for _ in range(3):
        assert (await refusal(house, made.text)).code == "sign_in_refused"

    told = await house.told()
    assert [event["kind"] for event in told] == ["api_key_created", "credential_suspect"]
    assert told[1]["reasons"] == [f"api_key:{made.key.api_key_id}"]


async def test_an_inserted_row_opens_nothing(house: House) -> None:
    """Of somebody who knows the form, and signs with a key of its own."""
    stranger = House()
    forged = await stranger.key("root", roles=["admin"])
    await put_by_hand(house, await row_of(stranger, forged.key.api_key_id))

    await refusal(house, forged.text)

    assert [event["kind"] for event in await house.told()] == ["credential_suspect"]


async def test_a_row_moved_to_another_name_opens_nothing(house: House) -> None:
    made, other = await house.key(), await house.key("other", roles=["admin"])
    moved = replace(await row_of(house, other.key.api_key_id), name=made.key.api_key_id)
    await put_by_hand(house, moved)
    secret = rules.shown_api_key(other.text)
    assert secret is not None

    await refusal(house, rules.api_key_text(made.key.api_key_id, secret.secret))


async def test_no_later_hand_revives_a_revoked_key(house: House) -> None:
    made = await house.key()
    await house.api_keys.revoke(made.key.api_key_id, by=MARA)
    row = await row_of(house, made.key.api_key_id)
    assert made.key.secret_digest.encode() not in row.body

    for empty in ("", made.key.secret_digest):
        revived = ApiKey(**{**_fields(made.key), "secret_digest": empty})
        await put_by_hand(house, replace(house.rows.of_api_key(revived), mac=row.mac))
        await refusal(house, made.text)


async def test_a_row_that_says_revoked_opens_nothing_whatever_else_it_says(house: House) -> None:
    made = await house.key()
    revoked = replace(made.key, revoked_by="mara", revoked_at=made.key.created_at + timedelta(days=1))
    await put_by_hand(house, house.rows.of_api_key(revoked))  # as nobody of ours writes it: with its digest

    assert (await refusal(house, made.text)).code == "sign_in_refused"


async def test_a_key_without_a_digest_is_no_key_even_if_it_is_signed(house: House) -> None:
    made = await house.key()
    await put_by_hand(house, house.rows.of_api_key(replace(made.key, secret_digest="")))

    await refusal(house, made.text)


async def test_a_key_whose_signing_key_is_retired_opens_nothing_and_is_no_alarm(house: House) -> None:
    made = await house.key()
    keys = house.keys._set
    retired = type(keys)(
        masters={"new": bytes(32)},
        current="new",
        retired={keys.current: _retired(keys, keys.current)},
    )
    house.keys._set = retired

    await refusal(house, made.text)

    assert [event["kind"] for event in await house.told()] == ["api_key_created"]


async def test_a_running_process_hears_at_once_that_a_signing_key_was_retired(house: House) -> None:
    """Authority ends with its key, without a restart."""
    first = house.keys._set
    newer: list[Any] = []
    house = House(keys=KeyRing.of(first, newer=lambda: newer[-1] if newer else None))
    made = await house.key()
    await house.door.principal_of(made.text)

    newer.append(
        type(first)(masters={"new": bytes(32)}, current="new", retired={first.current: _retired(first, first.current)})
    )

    await refusal(house, made.text)


# ---------------------------------------------------------------- use and faults


async def test_use_is_noted_coarsely_and_costs_no_write_in_between(house: House) -> None:
    made = await house.key()
    before = house.store.commits

    for _ in range(5):
        await house.door.principal_of(made.text)
        house.clock.advance(100)

    assert house.store.commits == before + 1
    (view,) = await house.api_keys.listed(by=MARA)
    assert view.used_at is not None
    house.clock.advance(200)
    await house.door.principal_of(made.text)
    assert house.store.commits == before + 2


async def test_a_store_that_cannot_note_the_use_keeps_nobody_out_and_one_that_cannot_look_lets_nobody_in(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await house.key()

    async def down(*_: object, **__: object) -> None:
        raise StoreUnavailable("no")

    monkeypatch.setattr(house.store, "credential_used", down)
    assert (await house.door.principal_of(made.text)).subject == "bot"
    monkeypatch.setattr(house.store, "credential", down)
    with pytest.raises(StoreUnavailable):
        await house.door.principal_of(made.text)


async def test_an_alarm_that_could_not_be_recorded_is_told_at_the_next_look(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await house.key()
    row = await row_of(house, made.key.api_key_id)
    await put_by_hand(house, replace(row, mac=replace(row.mac, value="0" * 64)))

    async def down(*_: object, **__: object) -> None:
        raise StoreUnavailable("no")

    with monkeypatch.context() as patched:
        patched.setattr(house.store, "record", down)
        await refusal(house, made.text)
    await refusal(house, made.text)

    assert [event["kind"] for event in await house.told()] == ["api_key_created", "credential_suspect"]


async def test_a_change_of_rows_that_nobody_has_seen_is_refused(house: House) -> None:
    made = await house.key()
    row = await row_of(house, made.key.api_key_id)
    stale = replace(row.mac, value="1" * 64)

    assert not await house.store.put_credentials(CredentialChange(changed=((row, stale),)), events=())


def _fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in ApiKey.__dataclass_fields__}


def _retired(keys: Any, key_id: str) -> Any:
    from placet.adapters.keys.ring import KEPT_OF_RETIRED, RetiredKey

    derived = {purpose: keys.derive(key_id, purpose) for purpose in KEPT_OF_RETIRED}
    return RetiredKey(at=FIRST, derived=derived)


FIRST = House().clock.now()
