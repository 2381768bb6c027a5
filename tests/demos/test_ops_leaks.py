"""The search for planted secrets finds them in every disguise it promises, and nowhere else."""

import base64

import pytest

from placet.demos.stage.leaks import Leak, canaries, files_below, found_leaks

DISGUISES = {
    "text": lambda word: word.encode(),
    "upper case": lambda word: word.upper().encode(),
    "the first half": lambda word: word[: len(word) // 2].encode(),
    "the second half": lambda word: word[len(word) // 2 :].encode(),
    "UTF-16": lambda word: word.encode("utf-16-le"),
    "hexadecimal": lambda word: word.encode().hex().encode(),
    "base64": lambda word: base64.b64encode(word.encode()),
    "base64, shifted by one": lambda word: base64.b64encode(b"x" + word.encode() + b"yz"),
    "base64, shifted by two": lambda word: base64.urlsafe_b64encode(b"xx" + word.encode() + b"y"),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_canary_is_found_in_every_disguise(disguise):
    planted = canaries("here", "there")
    content = b"before " + DISGUISES[disguise](planted.words["there"]) + b" after"

    leaks = found_leaks(planted, [("a file", content), ("another", b"nothing")])

    assert leaks
    assert {(leak.canary, leak.place) for leak in leaks} == {("there", "a file")}


def test_clean_bytes_hold_no_leak():
    other = canaries("here").words["here"]

    assert found_leaks(canaries("here"), [("a file", other.encode() * 100)]) == []


def test_a_leak_is_told_once_for_each_place_and_spelling():
    planted = canaries("here")
    content = planted.words["here"].encode() * 3

    assert found_leaks(planted, [("a", content)]) == [Leak(canary="here", place="a", spelling="text")]


def test_only_what_really_passed_counts_as_seen():
    planted = canaries("here", "there")
    planted.notice(f"a text with {planted.words['here']} in it")

    assert planted.seen == {"here"}


def test_every_file_is_read_but_those_left_out(tmp_path):
    for name in ("gate/store.db", "gate/store.db-wal", "desk/desk.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    found = dict(files_below(tmp_path, without=tmp_path / "desk"))

    assert found == {"gate/store.db": b"gate/store.db", "gate/store.db-wal": b"gate/store.db-wal"}
