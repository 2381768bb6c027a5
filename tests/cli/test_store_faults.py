"""A store that is missing, keyless, foreign or not to be written: a code, a next step, and never a traceback."""

import os

import pytest

LOOKS = [
    ["approvals", "list"],
    ["approvals", "show", "x"],
    ["approvals", "approve", "x", "--digest", "0" * 8],
    ["approvals", "deny", "x", "--reason", "r"],
    ["effects", "list"],
    ["effects", "show", "x"],
    ["effects", "reconcile"],
    ["audit", "tail"],
    ["audit", "verify"],
    ["call", "--tool", "look"],
]


def told(ran) -> tuple[int, str, str]:
    assert "Traceback" not in ran.err
    return ran.code, ran.data["code"], ran.data["hint"]


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_missing_store_is_told_and_not_made(project, words: list[str]) -> None:
    ran = project.run(*words, "--store", "missing.db", "--json")

    assert told(ran) == (
        1,
        "store_missing",
        "Create one with: placet init --store-only, with the same --store, if that is the one you mean",
    )
    assert not list(project.folder.glob("missing*"))


def test_what_is_said_of_a_missing_store_makes_the_one_that_was_meant(project, bare) -> None:
    for place in (project, bare):
        assert place.run("audit", "verify", "--store", "missing.db").code == 1
        assert place.run("init", "--store-only", "--store", "missing.db").code == 0
        assert place.run("audit", "verify", "--store", "missing.db").code != 1


def test_what_is_said_of_a_store_that_the_environment_names_makes_that_one(bare) -> None:
    there = {"PLACET_STORE": str(bare.folder / "missing.db")}

    assert told(bare.run("audit", "verify", "--json", **there))[2] == "Create one with: placet init --store-only"
    assert bare.run("init", "--store-only", **there).code == 0
    assert (bare.folder / "missing.db").exists()


def test_a_missing_store_of_the_project_is_made_without_a_word_more(project) -> None:
    project.rewrite('store = "placet.db"', 'store = "elsewhere.db"')

    ran = project.run("audit", "verify", "--json")

    assert told(ran) == (1, "store_missing", "Create one with: placet init --store-only")


@pytest.mark.parametrize("words", LOOKS[:9:4], ids=" ".join)
def test_outside_of_a_project_the_hint_is_init(bare, words: list[str]) -> None:
    assert told(bare.run(*words, "--json")) == (1, "store_missing", "Create one with: placet init")


@pytest.mark.parametrize("words", [*LOOKS[:7:3], *LOOKS[7:]], ids=" ".join)
def test_a_store_without_its_key_stays_closed_and_gets_no_new_one(project, words: list[str]) -> None:
    (project.folder / "placet.db.key").unlink()
    code, name, hint = told(project.run(*words, "--json"))

    assert (code, name) == (2, "key_missing")
    assert "--key" in hint
    assert not (project.folder / "placet.db.key").exists()


def test_a_key_that_others_can_read_or_that_is_another_stores_is_refused(project) -> None:
    key = project.folder / "placet.db.key"
    key.chmod(0o644)
    assert told(project.run("audit", "verify", "--json"))[:2] == (2, "key_exposed")
    key.unlink()
    assert project.run("init", "--store-only", "--store", "other.db").code == 0
    (project.folder / "other.db.key").rename(key)
    assert told(project.run("audit", "verify", "--json"))[:2] == (2, "key_mismatch")


def test_a_file_that_is_no_store_is_told(project) -> None:
    for path in project.folder.glob("placet.db-*"):
        path.unlink()
    (project.folder / "placet.db").write_text("this is no store, whatever its name may say" * 100)

    assert told(project.run("audit", "verify", "--json"))[:2] == (1, "store_corrupt")


def test_a_file_in_place_of_the_folder_is_a_missing_store(project) -> None:
    (project.folder / "file").write_text("")

    assert told(project.run("audit", "verify", "--store", "file/placet.db", "--json"))[:2] == (1, "store_missing")


def test_memory_is_no_store_for_a_command(project) -> None:
    assert told(project.run("call", "--tool", "look", "--store", "memory:", "--json"))[:2] == (1, "store_missing")


def test_a_folder_that_cannot_be_written_is_told(as_nobody) -> None:
    """As another user, because permission bits do not bind root. The key is that user's own; the rest is root's."""
    as_nobody.rewrite("[people.root]", "[people.nobody]")
    os.chown(as_nobody.folder / "placet.db.key", 65534, 65534)

    for words in (["approvals", "list"], ["audit", "verify"], ["call", "--tool", "look"], ["effects", "reconcile"]):
        code, name, hint = told(as_nobody.run(*words, "--json"))
        assert (code, name) == (1, "store_not_writable")
        assert "permission" in hint
    assert told(as_nobody.run("init", "new", "--json"))[:2] == (1, "store_not_writable")


def test_a_folder_that_cannot_be_looked_into_is_told(as_nobody) -> None:
    as_nobody.rewrite("[people.root]", "[people.nobody]")
    locked = as_nobody.folder / "locked"
    locked.mkdir(mode=0o700)

    store = as_nobody.run("audit", "verify", "--store", "locked/placet.db", "--json")
    assert told(store)[:2] == (1, "store_not_writable")
    key = as_nobody.run("audit", "verify", "--key", "locked/placet.key", "--json")
    assert told(key)[:2] == (2, "key_missing")
    assert "permission to read it" in told(key)[2]


def test_a_key_of_another_user_is_told_as_a_lack_of_permission(as_nobody) -> None:
    as_nobody.rewrite("[people.root]", "[people.nobody]")
    code, name, hint = told(as_nobody.run("approvals", "list", "--json"))

    assert code == (1 if name == "store_not_writable" else 2)
    assert name in ("key_missing", "store_not_writable")
    assert "permission" in hint
