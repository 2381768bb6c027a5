"""A key's text has one spelling and checks itself; a row's MAC covers all that it says."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.model.approval import Mac
from placet.model.credentials import ApiKey, CredentialKind, PersonSession, StoredCredential
from placet.model.principal import Principal, Role
from placet.rules.credentials import (
    API_KEY_PATTERN,
    api_key_body,
    api_key_of,
    api_key_text,
    mac_form,
    secret_digest,
    session_body,
    session_of,
    shown_api_key,
)
from placet.rules.scrubbing import scrub_text

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
BOT = Principal.agent("bot", tenant="acme", scopes=["a"])
KEY = ApiKey(
    api_key_id="0" * 24,
    principal=BOT,
    secret_digest="d" * 64,
    created_by="mara",
    created_at=BEGINNING,
    expires_at=BEGINNING + timedelta(days=1),
)
SESSION = PersonSession(
    kind=CredentialKind.SESSION,
    name="n" * 64,
    principal=Principal.person("mara", tenant="acme"),
    began_at=BEGINNING,
    ends_at=BEGINNING + timedelta(hours=12),
)
MAC = Mac(key_id="k", value="0" * 64)


def row_of_key(key: ApiKey) -> StoredCredential:
    return StoredCredential(
        kind=CredentialKind.API_KEY, name=key.api_key_id, tenant=key.principal.tenant, subject=key.principal.subject,
        body=api_key_body(key), mac=MAC, made_at=key.created_at, ends_at=key.revoked_at or key.expires_at,
    )  # fmt: skip


def row_of_session(session: PersonSession) -> StoredCredential:
    return StoredCredential(
        kind=session.kind, name=session.name, tenant=session.principal.tenant, subject=session.principal.subject,
        body=session_body(session), mac=MAC, made_at=session.began_at, ends_at=session.ends_at,
    )  # fmt: skip


@given(st.binary(min_size=32, max_size=32), st.from_regex(r"[0-9a-f]{24}", fullmatch=True))
def test_a_text_says_what_it_was_made_of_and_is_found_in_any_text(secret: bytes, name: str) -> None:
    text = api_key_text(name, secret)

    shown = shown_api_key(text)

    assert shown is not None and (shown.api_key_id, shown.secret) == (name, secret)
    found = API_KEY_PATTERN.search(f"key={text};")
    assert found is not None and found[0] == text
    assert secret.hex() not in repr(shown)


@given(st.integers(0, 103), st.sampled_from("0123456789abcdefgF_ \n"))
def test_no_other_text_says_the_same(place: int, character: str) -> None:
    text = api_key_text("0123456789abcdef01234567", bytes(range(32)))
    other = text[:place] + character + text[place + 1 :]

    assert (shown_api_key(other) is not None) == (other == text)


def test_a_form_that_was_given_out_is_never_changed() -> None:
    """Keys that people hold today open the door tomorrow."""
    text = api_key_text("0123456789abcdef01234567", bytes(range(32)))

    assert text == (
        "placet_0123456789abcdef01234567_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fc2c732dd"
    )
    assert secret_digest(CredentialKind.API_KEY, bytes(range(32))) == (
        "f6964aa87dfb7daef004b544d73d9153996009c54ccc39796650ef059b497e07"
    )


def test_what_is_signed_is_this_form() -> None:
    """Rows that stand in stores today verify tomorrow."""
    assert api_key_body(KEY).decode() == (
        '{"created_at":"2026-01-01T00:00:00.000000+00:00","created_by":"mara","expires_at":"2026-01-02T00'
        ':00:00.000000+00:00","principal":{"environment":"production","roles":["viewer"],"scopes":["a"],"'
        'standing":"agent","subject":"bot","tenant":"acme"},"revoked_at":null,"revoked_by":null,"rotated_'
        'by":null,"rotated_from":null,"rotated_to":null,"secret_digest":"dddddddddddddddddddddddddddddddd'
        'dddddddddddddddddddddddddddddddd"}'
    )
    assert session_body(SESSION).decode() == (
        '{"began_at":"2026-01-01T00:00:00.000000+00:00","ends_at":"2026-01-01T12:00:00.000000+00:00","pri'
        'ncipal":{"environment":"production","roles":["viewer"],"scopes":[],"standing":"person","subject"'
        ':"mara","tenant":"acme"}}'
    )
    assert mac_form(CredentialKind.SESSION, "n", b"{}").decode() == (
        '{"body":"8811315e3a036215c5781f33f6dee3d3898300a1381619d9d1fb2d76505e3d1d","kind":"session","name":"n","v":1}'
    )


def test_secrets_of_one_kind_are_none_of_another() -> None:
    assert len({secret_digest(kind, bytes(32)) for kind in CredentialKind}) == len(CredentialKind)


@pytest.mark.parametrize("end", ["", " tail", '"', ",x", "."])
def test_a_key_is_no_key_any_more_in_a_log(end: str) -> None:
    text = api_key_text("0123456789abcdef01234567", bytes(range(32)))
    for said in (text, text[:-20]):
        assert scrub_text(f"got {said}{end}") == f"got [REDACTED]{end}"


# ---------------------------------------------------------------- rows

OTHERS: dict[str, Any] = {
    "api_key_id": "1" * 24,
    "principal": replace(BOT, scopes=frozenset()),
    "secret_digest": "e" * 64,
    "created_by": "olga",
    "created_at": BEGINNING - timedelta(seconds=1),
    "expires_at": BEGINNING + timedelta(days=2),
    "rotated_from": "2" * 24,
    "rotated_to": "2" * 24,
    "rotated_by": "olga",
    "revoked_by": "olga",
    "revoked_at": BEGINNING,
}


def covered(key: ApiKey) -> bytes:
    return mac_form(CredentialKind.API_KEY, key.api_key_id, api_key_body(key))


@pytest.mark.parametrize("field", [field.name for field in fields(ApiKey)])
def test_every_field_of_a_key_is_covered_by_its_mac(field: str) -> None:
    assert covered(replace(KEY, **{field: OTHERS[field]})) != covered(KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "x"},
        {"tenant": "x"},
        {"environment": "x"},
        {"roles": frozenset({Role.ADMIN})},
        {"scopes": frozenset("x")},
    ],
)
def test_every_field_of_its_principal_is_covered_too(changes: dict[str, Any]) -> None:
    assert covered(replace(KEY, principal=replace(BOT, **changes))) != covered(KEY)
    assert session_body(replace(SESSION, principal=replace(SESSION.principal, **changes))) != session_body(SESSION)


def test_a_row_of_another_kind_or_name_has_another_mac() -> None:
    body = session_body(SESSION)
    assert len({mac_form(kind, name, body) for kind in CredentialKind for name in ("a", "b")}) == 6


def test_a_row_says_what_it_was_made_of() -> None:
    for key in (KEY, replace(KEY, **{k: v for k, v in OTHERS.items() if k.startswith(("rotated", "revoked"))})):
        assert api_key_of(row_of_key(key)) == key
    assert session_of(row_of_session(SESSION)) == SESSION


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "other"},
        {"subject": "other"},
        {"made_at": BEGINNING + timedelta(microseconds=1)},
        {"ends_at": BEGINNING},
        {"kind": CredentialKind.SESSION},
        {"body": b""},
        {"body": b"[]"},
        {"body": b"\xff"},
        {"body": b"{}"},
        {"body": api_key_body(KEY).replace(b'"agent"', b'"person"')},
        {"body": api_key_body(KEY).replace(b'"viewer"', b'"king"')},
        {"body": api_key_body(KEY).replace(b'["a"]', b'[""]')},
        {"body": api_key_body(KEY).replace(b'["a"]', b'[1]')},
        {"body": api_key_body(KEY).replace(b'"bot"', b'""')},
        {"body": api_key_body(KEY).replace(b'"production"', b"null")},
        {"body": api_key_body(KEY).replace(b"2026-01-02T", b"soon")},
        {"body": api_key_body(KEY)[:-1] + b',"principal":1}'},
        {"body": session_body(SESSION)},
    ],
)  # fmt: skip
def test_a_row_that_contradicts_itself_says_nothing(changes: dict[str, Any]) -> None:
    assert api_key_of(replace(row_of_key(KEY), **changes)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "other"},
        {"subject": "other"},
        {"made_at": BEGINNING + timedelta(microseconds=1)},
        {"ends_at": BEGINNING},
        {"body": b"{}"},
        {"body": session_body(SESSION).replace(b'"person"', b'"agent"')},
        {"body": session_body(SESSION).replace(b'"began_at"', b'"x"')},
        {"body": api_key_body(KEY)},
    ],
)
def test_a_session_that_contradicts_itself_says_nothing(changes: dict[str, Any]) -> None:
    assert session_of(replace(row_of_session(SESSION), **changes)) is None
