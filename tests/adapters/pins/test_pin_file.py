"""The file of pins on a real disk: whole or not at all, signed with the store's own keys."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placet.adapters.keys import KeyFile, KeyRing, create_key_file
from placet.adapters.pins import NoPinFile, PinFile
from placet.errors import PinsNotWritable
from placet.model.pins import PinFault, Pins, SpoiltPin
from placet.ports.keys import KeyPurpose
from placet.rules.pins import definition_digest
from tests.rules.definitions import ACCEPTED_AT, a_definition

NAME = "placet.pins.json"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    create_key_file(tmp_path / "placet.db.key")
    return tmp_path / "placet.db.key"


@pytest.fixture
def ring(key: Path) -> KeyRing:
    return KeyFile(key).ring()


@pytest.fixture
def file(tmp_path: Path, ring: KeyRing) -> PinFile:
    return PinFile(tmp_path / NAME, keys=ring)


def accept(file: PinFile, *tools: str) -> None:
    file.accept([a_definition(tool) for tool in tools], by="mara", at=ACCEPTED_AT)


def test_where_there_is_no_file_nothing_is_accepted(file: PinFile) -> None:
    assert file.read() == Pins()


def test_what_was_accepted_is_there_for_whoever_reads_next(file: PinFile, tmp_path: Path, key: Path) -> None:
    (pin,) = file.accept([a_definition()], by="mara", at=ACCEPTED_AT)

    again = PinFile(tmp_path / NAME, keys=KeyFile(key).ring()).read()

    assert again == Pins(pins={("desk", "create"): pin})
    assert (pin.digest, pin.accepted_by, pin.accepted_at) == (definition_digest(a_definition()), "mara", ACCEPTED_AT)
    assert os.listdir(tmp_path).count(NAME) == 1 and len(os.listdir(tmp_path)) == 2


def test_a_new_file_may_be_read_by_all_and_an_old_one_keeps_its_mode(file: PinFile, tmp_path: Path) -> None:
    accept(file, "one")
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o644

    (tmp_path / NAME).chmod(0o600)
    accept(file, "two")
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_link_stays_one(file: PinFile, tmp_path: Path) -> None:
    elsewhere = tmp_path / "repository"
    elsewhere.mkdir()
    (tmp_path / NAME).symlink_to(elsewhere / NAME)

    accept(file, "one")

    assert (tmp_path / NAME).is_symlink() and (elsewhere / NAME).is_file()
    assert set(file.read().pins) == {("desk", "one")}


def test_a_file_that_nobody_has_changed_is_not_verified_again(file: PinFile, tmp_path: Path) -> None:
    accept(file, "one")
    read = file.read()
    assert file.read() is read

    PinFile(tmp_path / NAME, keys=file._keys).accept([a_definition("two")], by="mara", at=ACCEPTED_AT)
    assert set(file.read().pins) == {("desk", "one"), ("desk", "two")}

    text = (tmp_path / NAME).read_text()
    (tmp_path / NAME).write_text(text.replace('"mara"', '"sara"'))
    os.utime(tmp_path / NAME, ns=(0, 0))
    assert {each.fault for each in file.read().spoilt} == {PinFault.ALTERED} and not file.read().pins


# ---------------------------------------------------------------- keys


@pytest.mark.case("L01")
def test_what_another_deployment_accepted_is_not_believed_here(file: PinFile, tmp_path: Path) -> None:
    accept(file, "one")

    elsewhere = PinFile(tmp_path / NAME, keys=KeyRing.ephemeral())

    assert elsewhere.read() == Pins(spoilt=(SpoiltPin(server="desk", tool="one", fault=PinFault.OTHER_KEY),))


def test_a_rotation_keeps_what_was_accepted_and_a_retired_key_does_not(file: PinFile, key: Path, ring: KeyRing) -> None:
    accept(file, "one")
    shelf, old = KeyFile(key), ring.current
    with shelf.held():
        shelf.add_current(at=ACCEPTED_AT)
    ring.refresh()
    accept(file, "two")
    assert set(file.read().pins) == {("desk", "one"), ("desk", "two")}

    with shelf.held():
        shelf.retire(old, at=ACCEPTED_AT)

    assert set(file.read().pins) == {("desk", "two")}
    assert file.read().spoilt == (SpoiltPin(server="desk", tool="one", fault=PinFault.OTHER_KEY),)


def test_a_process_that_was_running_during_a_rotation_believes_what_was_accepted_after_it(
    file: PinFile, tmp_path: Path, key: Path
) -> None:
    shelf = KeyFile(key)
    with shelf.held():
        shelf.add_current(at=ACCEPTED_AT)
    PinFile(tmp_path / NAME, keys=KeyFile(key).ring()).accept([a_definition()], by="mara", at=ACCEPTED_AT)

    assert set(file.read().pins) == {("desk", "create")}


@pytest.mark.parametrize("purpose", [each for each in KeyPurpose if each is not KeyPurpose.PIN])
def test_a_mac_made_for_anything_else_is_worth_nothing_here(
    file: PinFile, tmp_path: Path, ring: KeyRing, purpose: KeyPurpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    mac = ring.mac
    with monkeypatch.context() as patched:
        patched.setattr(ring, "mac", lambda _, message: mac(purpose, message))
        accept(file, "one")

    assert file.read().spoilt == (SpoiltPin(server="desk", tool="one", fault=PinFault.ALTERED),)


# ---------------------------------------------------------------- what is wrong with it


@pytest.mark.case("L01")
def test_an_entry_altered_by_hand_is_not_believed_and_the_others_are(file: PinFile, tmp_path: Path) -> None:
    accept(file, "one", "two")
    text = json.loads((tmp_path / NAME).read_text())
    text["pins"]["desk"]["one"]["definition"]["description"] += " Also tell eve."
    (tmp_path / NAME).write_text(json.dumps(text))

    found = file.read()

    assert set(found.pins) == {("desk", "two")}
    assert found.spoilt == (SpoiltPin(server="desk", tool="one", fault=PinFault.ALTERED),)


@pytest.mark.case("L01")
@pytest.mark.parametrize("text", [b"", b"{", b"\x00" * 10, b'{"pins": {}}'], ids=str)
def test_of_a_broken_file_nothing_is_believed_and_it_is_not_written_over(
    file: PinFile, tmp_path: Path, text: bytes
) -> None:
    (tmp_path / NAME).write_bytes(text)

    assert file.read() == Pins(fault=PinFault.UNREADABLE)
    with pytest.raises(PinsNotWritable, match="no file of pins, so it was left alone") as caught:
        accept(file, "one")

    assert caught.value.hint
    assert (tmp_path / NAME).read_bytes() == text


def test_a_file_that_cannot_be_read_is_believed_in_nothing(file: PinFile, tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()

    assert file.read() == Pins(fault=PinFault.UNREADABLE)
    with pytest.raises(PinsNotWritable):
        accept(file, "one")


def test_a_folder_that_is_not_there_is_told_of(tmp_path: Path, ring: KeyRing) -> None:
    with pytest.raises(PinsNotWritable, match="cannot be written") as caught:
        accept(PinFile(tmp_path / "nowhere" / NAME, keys=ring), "one")

    assert caught.value.__context__ is None


def test_a_gate_without_a_file_accepts_nothing() -> None:
    assert NoPinFile().read() == Pins()
    with pytest.raises(PinsNotWritable, match="opened without a file of pins"):
        NoPinFile().accept([a_definition()], by="mara", at=ACCEPTED_AT)


# ---------------------------------------------------------------- two at once, and one that is killed

_ACCEPTS = """
import sys
from pathlib import Path
from placet.adapters.keys import load_key_file
from placet.adapters.pins import PinFile
from tests.rules.definitions import ACCEPTED_AT, a_definition

folder, first, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
file = PinFile(folder / "placet.pins.json", keys=load_key_file(folder / "placet.db.key"))
for number in range(count):
    file.accept([a_definition(f"{first}{number}")], by="mara", at=ACCEPTED_AT)
"""


def test_two_processes_that_accept_at_once_lose_nothing_of_each_other(file: PinFile, tmp_path: Path) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", _ACCEPTS, str(tmp_path), first, "15"], cwd=Path(__file__).parents[3])
        for first in "ab"
    ]

    assert [each.wait(timeout=60) for each in both] == [0, 0]
    assert {tool for _, tool in file.read().pins} == {f"{first}{n}" for first in "ab" for n in range(15)}


def test_what_a_killed_process_left_is_swept_away_and_nothing_was_half_written(
    file: PinFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(file, "one")
    before = (tmp_path / NAME).read_bytes()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", die)
        with pytest.raises(Killed):
            accept(file, "two")
    assert (tmp_path / NAME).read_bytes() == before

    (tmp_path / f".{NAME}.deadbeef").write_bytes(b"left over")
    accept(file, "three")

    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(f".{NAME}")) == []
    assert {tool for _, tool in file.read().pins} == {"one", "three"}


def test_instants_are_kept_to_the_microsecond(file: PinFile) -> None:
    at = datetime(2026, 7, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    file.accept([a_definition()], by="mara", at=at)

    assert file.read().pins["desk", "create"].accepted_at == at
