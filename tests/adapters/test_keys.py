"""Keys: one per purpose, old ones verify, files are private, and seals open only where they were made."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.keys import KeyRing, create_key_file, load_key_file
from placet.adapters.keys.ring import derived
from placet.errors import KeyMaterialError
from placet.model.approval import Mac
from placet.ports.keys import KeyPurpose

ONE, TWO = b"1" * 32, b"2" * 32
RING = KeyRing({"k-1": ONE}, current="k-1")


@pytest.mark.req("B067", "B082")
def test_a_mac_made_for_one_purpose_is_worthless_for_every_other() -> None:
    for made_for in KeyPurpose:
        mac = RING.mac(made_for, b"message")
        assert len(mac.value) == 64
        assert mac.key_id == "k-1"
        for purpose in KeyPurpose:
            assert RING.is_authentic(purpose, b"message", mac) is (purpose is made_for)
            assert not RING.is_authentic(purpose, b"message.", mac)


@pytest.mark.req("B117")
def test_a_mac_is_keyed_and_is_no_plain_hash() -> None:
    mac = RING.mac(KeyPurpose.AUDIT_FINGERPRINT, b"message")

    assert mac.value != hashlib.sha256(b"message").hexdigest()
    assert mac.value != hmac.digest(ONE, b"message", "sha256").hex(), "the master itself signs nothing"
    assert mac != KeyRing({"k-1": TWO}, current="k-1").mac(KeyPurpose.AUDIT_FINGERPRINT, b"message")
    assert mac == KeyRing({"k-1": ONE}, current="k-1").mac(KeyPurpose.AUDIT_FINGERPRINT, b"message")


@pytest.mark.req("B137")
def test_rotation_keeps_old_keys_for_verifying_and_opening() -> None:
    mac, sealed = RING.mac(KeyPurpose.APPROVAL, b"m"), RING.seal(b"text", bound_to=b"row")
    rotated = KeyRing({"k-1": ONE, "k-2": TWO}, current="k-2")

    assert rotated.is_authentic(KeyPurpose.APPROVAL, b"m", mac)
    assert rotated.unseal(sealed, bound_to=b"row") == b"text"
    assert rotated.mac(KeyPurpose.APPROVAL, b"m").key_id == "k-2"
    assert not RING.is_authentic(KeyPurpose.APPROVAL, b"m", rotated.mac(KeyPurpose.APPROVAL, b"m"))
    with pytest.raises(KeyMaterialError):
        RING.unseal(rotated.seal(b"text", bound_to=b"row"), bound_to=b"row")


@pytest.mark.req("B117", "B137")
def test_macs_are_hmac_sha256_under_keys_derived_per_purpose_however_often_and_long() -> None:
    ring = KeyRing({"k-1": ONE, "k-2": TWO}, current="k-2")
    messages = [b"", b"m", b"m" * 64, b"m" * 100_000]
    for purpose in KeyPurpose:
        for message in (*messages, *reversed(messages)):
            expected = hmac.digest(derived(TWO, purpose.value), message, "sha256").hex()
            assert ring.mac(purpose, message) == Mac(key_id="k-2", value=expected)
            old = hmac.digest(derived(ONE, purpose.value), message, "sha256").hex()
            assert ring.macs(purpose, message) == (Mac(key_id="k-1", value=old), Mac(key_id="k-2", value=expected))
            assert ring.is_authentic(purpose, message, Mac(key_id="k-1", value=old))
            assert not ring.is_authentic(purpose, message, Mac(key_id="k-1", value=expected))


class Agreeing(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


GOOD = RING.mac(KeyPurpose.APPROVAL, b"m")


@pytest.mark.req("B056", "B057", "B058")
@pytest.mark.parametrize(
    "mac",
    [
        None,
        "x",
        ("k-1", GOOD.value),
        Mac(key_id="k-1", value=GOOD.value.upper()),
        Mac(key_id="k-1", value=GOOD.value[:63]),
        Mac(key_id="k-1", value=GOOD.value + "0"),
        Mac(key_id="k-1", value=""),
        Mac(key_id="k-1", value="é" * 64),
        Mac(key_id="k-1", value="\ud800"),
        Mac(key_id="k-1", value=GOOD.value.encode()),  # type: ignore[arg-type]
        Mac(key_id="k-1", value=[1]),  # type: ignore[arg-type]
        Mac(key_id="k-1", value=Agreeing("x")),
        Mac(key_id="k-2", value=GOOD.value),
        Mac(key_id=["k-1"], value=GOOD.value),  # type: ignore[arg-type]
        Mac(key_id=Agreeing("k-9"), value=GOOD.value),
    ],
)
def test_a_mac_of_any_other_form_is_a_denial_and_no_error(mac: Any) -> None:
    assert RING.is_authentic(KeyPurpose.APPROVAL, b"m", mac) is False
    assert RING.is_authentic(KeyPurpose.APPROVAL, b"m", GOOD) is True


@pytest.mark.req("B057")
def test_macs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def spying(one: Any, two: Any) -> bool:
        compared.append((one, two))
        return real(one, two)

    monkeypatch.setattr(hmac, "compare_digest", spying)
    RING.is_authentic(KeyPurpose.APPROVAL, b"m", GOOD)

    assert compared == [(GOOD.value, GOOD.value)]


def test_a_seal_opens_only_unchanged_and_only_where_it_was_made() -> None:
    sealed = RING.seal(b"s3cr3t", bound_to=b"row 1")

    assert b"s3cr3t" not in sealed
    assert RING.unseal(sealed, bound_to=b"row 1") == b"s3cr3t"
    assert RING.seal(b"s3cr3t", bound_to=b"row 1") != sealed
    for broken in (
        b"",
        b"\x01",
        sealed[:-1],
        sealed + b"x",
        *(_flipped(sealed, index) for index in range(len(sealed))),
    ):
        with pytest.raises(KeyMaterialError) as caught:
            RING.unseal(broken, bound_to=b"row 1")
        assert caught.value.code == "seal_broken"
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    with pytest.raises(KeyMaterialError):
        RING.unseal(sealed, bound_to=b"row 2")


def _flipped(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


@pytest.mark.parametrize("value", [None, "text", 7, [1]])
def test_what_is_no_seal_at_all_is_refused_as_one(value: Any) -> None:
    with pytest.raises(KeyMaterialError):
        RING.unseal(value, bound_to=b"row")


@pytest.mark.parametrize(
    ("masters", "current"), [({}, "k"), ({"k": b"short"}, "k"), ({"k": ONE}, "other"), ({"k": ONE, "l": b""}, "k")]
)
def test_a_ring_needs_masters_of_32_bytes_and_its_current_one(masters: dict[str, bytes], current: str) -> None:
    with pytest.raises(KeyMaterialError):
        KeyRing(masters, current=current)


def test_two_ephemeral_rings_share_nothing() -> None:
    one, two = KeyRing.ephemeral(), KeyRing.ephemeral()

    assert one.current != two.current
    assert one.mac(KeyPurpose.STORE, b"") != two.mac(KeyPurpose.STORE, b"")


# ---------------------------------------------------------------- files


def test_a_new_key_file_is_private_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "placet.db.key"
    ring = create_key_file(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key_file(path).mac(KeyPurpose.STORE, b"m") == ring.mac(KeyPurpose.STORE, b"m")
    assert [each.name for each in tmp_path.iterdir()] == ["placet.db.key"], "no draft is left behind"
    data = json.loads(path.read_text())
    assert [len(base64.b64decode(master)) for master in data["keys"].values()] == [32]


def test_of_several_makers_one_key_wins_and_all_have_it(tmp_path: Path) -> None:
    path = tmp_path / "k"
    rings: list[KeyRing] = []
    threads = [threading.Thread(target=lambda: rings.append(create_key_file(path))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({ring.mac(KeyPurpose.STORE, b"m").value for ring in rings}) == 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k"
    create_key_file(path)
    for mode in (0o640, 0o604, 0o660, 0o610):
        os.chmod(path, mode)
        with pytest.raises(KeyMaterialError) as caught:
            load_key_file(path)
        assert caught.value.code == "key_exposed"
        assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        "{}",
        '{"placet_key_file": 2, "current": "k", "keys": {}}',
        '{"placet_key_file": 1, "current": "k", "keys": {"k": "not base64!"}}',
        '{"placet_key_file": 1, "current": "k", "keys": {"k": "AAAA"}}',
        '{"placet_key_file": 1, "current": "k", "keys": []}',
        '{"placet_key_file": 1, "current": ["k"], "keys": {}}',
        '{"placet_key_file": 1, "keys": {}}',
    ],
)
def test_what_is_no_key_file_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(KeyMaterialError) as caught:
        load_key_file(path)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert "base64" not in str(caught.value)


def test_an_absent_key_is_refused_and_an_unwritable_folder_too(tmp_path: Path) -> None:
    with pytest.raises(KeyMaterialError) as absent:
        load_key_file(tmp_path / "none")
    with pytest.raises(KeyMaterialError) as unwritable:
        create_key_file(tmp_path / "no" / "k")

    assert (absent.value.code, unwritable.value.code) == ("key_missing", "key_not_writable")
