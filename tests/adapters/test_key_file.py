"""The key file under rotation: whole or not at all, one changer at a time, and followed by whoever runs."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placet.adapters.keys import KeyFile, KeyRing, create_key_file, drafts, load_key_file
from placet.errors import KeyMaterialError
from placet.model.approval import Mac
from placet.ports.keys import KeyPurpose, KeyState

AT = datetime(2026, 3, 1, tzinfo=UTC)
PATIENCE_SECONDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_key_file(tmp_path / "k", at=AT)
    return tmp_path / "k"


def rotate(path: Path) -> str:
    shelf = KeyFile(path)
    with shelf.held():
        return shelf.add_current(at=AT)


def retire(path: Path, key_id: str) -> None:
    shelf = KeyFile(path)
    with shelf.held():
        shelf.retire(key_id, at=AT)


@pytest.mark.req("B137")
def test_a_rotation_adds_a_key_that_signs_and_keeps_the_old_one(path: Path) -> None:
    before = load_key_file(path)
    mac, sealed = before.mac(KeyPurpose.APPROVAL, b"m"), before.seal(b"text", bound_to=b"row")

    new = rotate(path)

    after = load_key_file(path)
    assert [(fact.key_id, fact.state, fact.created_at) for fact in after.facts()] == [
        (before.current, KeyState.OLD, AT),
        (new, KeyState.CURRENT, AT),
    ]
    assert after.mac(KeyPurpose.APPROVAL, b"m").key_id == new
    assert after.is_authentic(KeyPurpose.APPROVAL, b"m", mac)
    assert after.unseal(sealed, bound_to=b"row") == b"text"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["k"]


def test_of_a_retired_key_only_what_its_audit_needs_is_left(path: Path) -> None:
    old = load_key_file(path)
    macs = {purpose: old.mac(purpose, b"m") for purpose in KeyPurpose}
    sealed = old.seal(b"text", bound_to=b"row")
    master = json.loads(path.read_text())["keys"][old.current]
    rotate(path)
    retire(path, old.current)

    ring = load_key_file(path)

    assert ring.state_of(old.current) is KeyState.RETIRED
    assert {purpose for purpose in KeyPurpose if ring.is_authentic(purpose, b"m", macs[purpose])} == {
        KeyPurpose.AUDIT_CHAIN,
        KeyPurpose.AUDIT_FINGERPRINT,
    }
    with pytest.raises(KeyMaterialError):
        ring.unseal(sealed, bound_to=b"row")
    assert master not in path.read_text()
    assert macs[KeyPurpose.AUDIT_FINGERPRINT] in ring.macs(KeyPurpose.AUDIT_FINGERPRINT, b"m")
    assert macs[KeyPurpose.APPROVAL] not in ring.macs(KeyPurpose.APPROVAL, b"m")


def test_only_fingerprints_are_made_under_a_key_that_is_not_the_current_one(path: Path) -> None:
    old = load_key_file(path).current
    rotate(path)
    ring = load_key_file(path)

    assert ring.mac(KeyPurpose.AUDIT_FINGERPRINT, b"m", under=old).key_id == old
    for purpose in (KeyPurpose.APPROVAL, KeyPurpose.AUDIT_CHAIN, KeyPurpose.STORE):
        with pytest.raises(KeyMaterialError):
            ring.mac(purpose, b"m", under=old)


def test_neither_ring_nor_file_tells_its_keys_in_its_repr(path: Path) -> None:
    shelf = KeyFile(path)
    master = json.loads(path.read_text())["keys"][shelf.ring().current]
    keys = shelf._first

    for each in (shelf, shelf.ring(), keys):
        assert master not in repr(each)
        assert repr(keys.masters[keys.current]) not in repr(each)


# ---------------------------------------------------------------- whoever runs


@pytest.mark.case("E16")
def test_a_ring_that_was_loaded_before_carries_on_with_what_a_later_key_made(path: Path) -> None:
    running = load_key_file(path)
    rotate(path)
    rotate(path)
    newest = load_key_file(path)

    assert running.is_authentic(KeyPurpose.AUDIT_CHAIN, b"m", newest.mac(KeyPurpose.AUDIT_CHAIN, b"m"))
    assert load_key_file(path).current == running.current, "and it signs with the newest from then on"
    other = KeyFile(path).ring()
    rotate(path)
    assert other.unseal(load_key_file(path).seal(b"text", bound_to=b"row"), bound_to=b"row") == b"text"


def test_authority_ends_in_a_running_process_when_its_key_is_retired(path: Path) -> None:
    running = load_key_file(path)
    mac = running.mac(KeyPurpose.APPROVAL, b"m")
    assert running.is_authentic(KeyPurpose.APPROVAL, b"m", mac)

    rotate(path)
    retire(path, mac.key_id)

    assert not running.is_authentic(KeyPurpose.APPROVAL, b"m", mac)
    assert running.mac(KeyPurpose.APPROVAL, b"m").key_id != mac.key_id


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_look_that_fails_is_repeated_and_told_once(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running = load_key_file(path)
    mac = running.mac(KeyPurpose.APPROVAL, b"m")
    rotate(path)
    retire(path, mac.key_id)

    def failing(self: Path, *args: object, **kwargs: object) -> object:
        raise OSError(number, "SECRET-TEXT")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", failing)
        for _ in range(3):
            running.is_authentic(KeyPurpose.APPROVAL, b"m", mac)

    assert not running.is_authentic(KeyPurpose.APPROVAL, b"m", mac)
    assert running.mac(KeyPurpose.APPROVAL, b"m").key_id != mac.key_id
    assert [(record.levelname, record.name, record.__dict__["code"]) for record in caplog.records] == [
        ("WARNING", "placet.keys", "key_missing")
    ]
    assert "SECRET" not in caplog.text


def test_unknown_key_ids_make_a_file_that_did_not_change_be_read_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = load_key_file(path)
    opened: list[Path] = []
    real = Path.open

    def counting(self: Path, *args: object, **kwargs: object) -> object:
        opened.append(self)
        return real(self, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counting)
    for number in range(100):
        assert not ring.is_authentic(KeyPurpose.AUDIT_CHAIN, b"m", Mac(key_id=f"k-{number}", value="0" * 64))
    assert opened == []
    rotate(path)
    opened.clear()
    for number in range(100):
        assert not ring.is_authentic(KeyPurpose.AUDIT_CHAIN, b"m", Mac(key_id=f"k-{number}", value="0" * 64))
    assert opened == [path]


def _removed(path: Path) -> None:
    path.unlink()


def _broken(path: Path) -> None:
    path.write_text("{")


def _exposed(path: Path) -> None:
    rotate(path)
    path.chmod(0o644)


def _of_another_store(path: Path) -> None:
    path.unlink()
    create_key_file(path)
    rotate(path)


def _of_another_store_under_the_same_id(path: Path) -> None:
    data = json.loads(path.read_text())
    path.unlink()
    create_key_file(path)
    other = json.loads(path.read_text())
    master = other["keys"][other["current"]]
    path.write_text(json.dumps({**data, "keys": {data["current"]: master}}))


def _from_before(path: Path) -> None:
    data = json.loads(path.read_text())
    first = next(iter(data["keys"]))
    path.write_text(json.dumps({"placet_key_file": 1, "current": first, "keys": {first: data["keys"][first]}}))


@pytest.mark.parametrize(
    "change", [_removed, _broken, _exposed, _of_another_store, _of_another_store_under_the_same_id, _from_before]
)
def test_a_file_that_does_not_continue_the_ring_changes_nothing_in_a_running_process(
    path: Path, change: Callable[[Path], None]
) -> None:
    rotate(path)
    ring = load_key_file(path)
    mac, sealed = ring.mac(KeyPurpose.APPROVAL, b"m"), ring.seal(b"text", bound_to=b"row")

    change(path)

    assert ring.is_authentic(KeyPurpose.APPROVAL, b"m", mac)
    assert ring.unseal(sealed, bound_to=b"row") == b"text"
    assert ring.mac(KeyPurpose.APPROVAL, b"m") == mac


def test_what_was_retired_does_not_come_back(path: Path) -> None:
    copy = path.read_text()
    old = json.loads(copy)["current"]
    rotate(path)
    with_both = path.read_text()
    retire(path, old)
    ring = load_key_file(path)

    path.write_text(with_both)
    ring.refresh()

    assert ring.state_of(old) is KeyState.RETIRED


# ---------------------------------------------------------------- changing it

DIES = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from placet.adapters.keys import KeyFile, create_key_file

path, name, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
count = 0
real = getattr(os, name)

def dying(*args, **kwargs):
    global count
    count += 1
    if count == number and "before" == sys.argv[4]:
        os.kill(os.getpid(), signal.SIGKILL)
    if count == number and name == "write":
        real(args[0], bytes(args[1])[:20])
        os.kill(os.getpid(), signal.SIGKILL)
    answer = real(*args, **kwargs)
    if count == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

if sys.argv[5] == "create":
    setattr(os, name, dying)
    create_key_file(path)
shelf = KeyFile(path)
with shelf.held():
    setattr(os, name, dying)
    shelf.add_current(at=datetime(2026, 3, 1, tzinfo=UTC))
"""


def killed(path: Path, *told: object) -> None:
    command = [sys.executable, "-c", DIES, str(path), *map(str, told)]
    child = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "number"),
    [("open", 1), ("open", 2), ("fchmod", 1), ("write", 1), ("fsync", 1), ("link", 1), ("unlink", 1), ("fsync", 2)],
)
def test_a_maker_that_is_killed_leaves_no_file_or_a_whole_one_and_the_next_one_no_trace(
    tmp_path: Path, name: str, number: int, when: str
) -> None:
    path = tmp_path / "k"

    killed(path, name, number, when, "create")

    is_made = path.exists()
    assert is_made == (
        (name, when) in {("link", "after"), ("unlink", "before"), ("unlink", "after")}
        or (number == 2 and name == "fsync")
    )
    before = load_key_file(path).current if is_made else create_key_file(path).current
    rotate(path)  # also beside a draft that is another name of the file
    assert before in {fact.key_id for fact in load_key_file(path).facts()}
    assert [each.name for each in tmp_path.iterdir()] == ["k"], "no copy of a master is left behind"


def test_a_maker_and_a_changer_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A maker that was overtaken still has its draft when others are swept."""
    path, real = tmp_path / "k", os.link
    found: list[str] = []

    def overtaken(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", real)
        with pytest.raises(KeyMaterialError) as caught:
            create_key_file(path)
        found.append(caught.value.code)
        real(source, target)

    monkeypatch.setattr(drafts, "_LOCK_TRIES", 2)
    monkeypatch.setattr(os, "link", overtaken)
    create_key_file(path)

    assert (found, [each.name for each in tmp_path.iterdir()]) == (["key_busy"], ["k"])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", ["open", "fchmod", "write", "fsync", "rename"])
def test_a_changer_that_is_killed_leaves_the_old_file_or_the_new_one(
    path: Path, name: str, number: int, when: str
) -> None:
    before = load_key_file(path)

    killed(path, name, number, when, "change")

    found = load_key_file(path)
    assert found.is_authentic(KeyPurpose.APPROVAL, b"m", before.mac(KeyPurpose.APPROVAL, b"m"))
    assert found.current == before.current or name in ("fsync", "rename"), "a key is known before it signs"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rotate(path)  # nobody holds it any more, and the next changer removes what was left
    assert [each.name for each in path.parent.iterdir()] == ["k"]


def test_a_new_key_is_durable_before_it_signs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever meets the file half-way, or finds it after a power cut, knows every key that anybody signed with."""
    seen: list[tuple[int, bool]] = []
    real = os.rename

    def looking(source: Path, target: Path) -> None:
        data = json.loads(Path(source).read_text())
        seen.append((len(data["keys"]), data["current"] == next(iter(data["keys"]))))
        real(source, target)

    monkeypatch.setattr(os, "rename", looking)
    rotate(path)

    assert seen == [(2, True), (2, False)]


def test_changers_queue_and_no_key_is_lost(path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(rotate(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    ring = load_key_file(path)
    assert {fact.key_id for fact in ring.facts()} >= set(made)
    assert (len(set(made)), len(ring.facts())) == (8, 9)
    assert ring.current in made


def test_a_changer_that_waits_in_vain_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "_LOCK_TRIES", 2)
    with KeyFile(path).held(), pytest.raises(KeyMaterialError) as caught:
        rotate(path)
    assert caught.value.code == "key_busy"


def test_nothing_is_changed_without_holding_the_file(path: Path) -> None:
    content = path.read_bytes()
    with pytest.raises(KeyMaterialError):
        KeyFile(path).add_current(at=AT)
    assert path.read_bytes() == content


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    create_key_file(tmp_path / "real" / "k")
    link = tmp_path / "k"
    link.symlink_to(tmp_path / "real" / "k")

    new = rotate(link)

    assert link.is_symlink()
    assert load_key_file(tmp_path / "real" / "k").current == new


def test_a_file_with_another_name_is_left_alone(path: Path) -> None:
    os.link(path, path.with_name("other"))
    content = path.read_bytes()

    with pytest.raises(KeyMaterialError) as caught:
        rotate(path)

    assert (caught.value.code, path.read_bytes()) == ("key_has_other_names", content)


def test_a_read_only_file_is_left_alone(path: Path) -> None:
    path.chmod(0o400)
    content = path.read_bytes()

    with pytest.raises(KeyMaterialError) as caught:
        rotate(path)

    assert (caught.value.code, path.read_bytes()) == ("key_not_writable", content)
    assert load_key_file(path).current


def test_another_stores_file_in_its_place_is_left_alone(path: Path) -> None:
    shelf = KeyFile(path)
    path.unlink()
    create_key_file(path)
    content = path.read_bytes()

    with shelf.held(), pytest.raises(KeyMaterialError) as caught:
        shelf.add_current(at=AT)

    assert (caught.value.code, path.read_bytes()) == ("key_replaced", content)


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = path.read_bytes()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "SECRET-TEXT")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(KeyMaterialError) as caught:
        rotate(path)

    assert (caught.value.code, path.read_bytes()) == ("key_not_writable", content)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert [each.name for each in path.parent.iterdir()] == ["k"]


@pytest.mark.parametrize(
    ("call", "number", "word"),
    [
        ("write", errno.ENOSPC, "free space"),
        ("write", errno.EDQUOT, "free space"),
        ("fsync", errno.EIO, "disk"),
        ("fchmod", errno.EPERM, "owns the file"),
        ("rename", errno.EACCES, "write permission"),
        ("rename", errno.EROFS, "read-only"),
        ("rename", errno.EXDEV, "EXDEV"),
    ],
)
def test_each_fault_of_the_operating_system_has_its_own_next_step(
    path: Path, call: str, number: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = path.read_bytes()

    def failing(*args: object) -> None:
        raise OSError(number, "SECRET-TEXT")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(KeyMaterialError) as caught:
        rotate(path)

    fault = caught.value
    assert (fault.code, word in fault.hint, path.read_bytes()) == ("key_not_writable", True, content), fault.hint
    assert ("write permission" in fault.hint) == (number == errno.EACCES)
    assert "SECRET" not in f"{fault}{fault.hint}"
    assert (fault.__cause__, fault.__context__) == (None, None)


@pytest.mark.parametrize("makes", [True, False])
def test_a_file_in_its_place_that_the_disk_did_not_confirm_is_no_failed_change(
    tmp_path: Path, makes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "k", os.fsync
    before = None if makes else create_key_file(path).current

    def of_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "SECRET-TEXT")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", of_folders)
    with pytest.raises(KeyMaterialError) as caught:
        create_key_file(path) if makes else rotate(path)

    assert caught.value.code == "key_in_doubt"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(load_key_file(path).facts()) == (1 if makes else 2), "it is there, and so it is said"
    assert before in (None, load_key_file(path).current)
    assert [each.name for each in tmp_path.iterdir()] == ["k"]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_the_owner_of_the_file_stays_its_owner(path: Path) -> None:
    os.chown(path, 65534, 65534)
    rotate(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65534, 0o600)


@pytest.mark.parametrize(
    "change",
    [
        {"retired": {"k-old": {"at": "2026-03-01T00:00:00+00:00", "audit-chain": "AAAA", "audit-fingerprint": "AAAA"}}},
        {"retired": {"k-old": {"at": "2026-03-01T00:00:00+00:00"}}},
        {"retired": {"k-old": []}},
        {"retired": []},
        {"created_at": {"k": "yesterday"}},
        {"created_at": []},
        {"keys": {"": "A" * 43 + "="}},
    ],
)
def test_a_file_with_broken_notes_is_refused(path: Path, change: dict[str, object]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(KeyMaterialError) as caught:
        load_key_file(path)
    assert caught.value.code == "key_unreadable"


def test_a_file_without_end_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" " * 2_000_000)
    with pytest.raises(KeyMaterialError) as caught:
        load_key_file(path)
    assert caught.value.code == "key_unreadable"


def test_an_ephemeral_ring_has_nothing_to_look_at() -> None:
    ring = KeyRing.ephemeral()
    ring.refresh()
    assert not ring.is_authentic(KeyPurpose.APPROVAL, b"m", Mac(key_id="k-1", value="0" * 64))
