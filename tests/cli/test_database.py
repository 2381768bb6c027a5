"""The same commands where the store is a PostgreSQL database."""

import json

import pytest

from tests.postgres.fixtures import Database

SECRET = "hunter2-s3cret"


@pytest.fixture
def on_database(project, database: Database):
    """The project's store is in the database, and its key beside placet.toml."""
    config = project.folder / "placet.toml"
    config.write_text(
        config.read_text().replace('store = "placet.db"', f'store = "{database.url}"\nkey = "store.key"'), "utf-8"
    )
    return project


def test_a_store_in_a_database_is_made_once_and_then_used_like_any_other(on_database) -> None:
    missing = on_database.run("audit", "verify")
    assert (missing.code, "init --store-only" in missing.err) == (missing.code, True) and missing.code != 0

    made = on_database.run("init", "--store-only", "--json")
    assert made.code == 0
    assert [name.rpartition("/")[2] for name in made.data["made"]][1:] == ["store.key"]
    assert made.data["made"][0].startswith("postgresql://")
    again = on_database.run("init", "--store-only")
    assert again.code != 0 and "there is a store" in again.err

    called = on_database.run("call", "--tool", "look", "--args", "{}", "--run", "r1")
    verified = on_database.run("audit", "verify", "--json")
    assert called.code == 0, called.err
    assert (verified.code, verified.data["holds"], verified.data["events"]) == (0, True, 2)
    tail = on_database.run("audit", "tail", "--json")
    assert tail.code == 0
    listed = on_database.run("keys", "list", "--json")
    assert listed.code == 0
    exported = on_database.run("audit", "export", "--out", "export.jsonl")
    assert exported.code == 0
    checked = on_database.run("audit", "verify", "--export", "export.jsonl", "--json")
    assert (checked.code, checked.data["holds"]) == (0, True)


def test_a_database_needs_its_key_file_named(project, database: Database) -> None:
    ran = project.run("audit", "verify", "--store", database.url)

    assert ran.code != 0
    assert "PostgreSQL store needs its key file named" in ran.err and "--key" in ran.err


def test_nothing_shows_the_password_of_a_database(project) -> None:
    url = f"postgresql://mara:{SECRET}@127.0.0.1:1/ledger?application_name={SECRET}"
    for words in (("config", "show"), ("config", "show", "--json", "--origin"), ("audit", "verify"), ("keys", "list")):
        for store in (("--store", url), ()):
            project.environment["PLACET_STORE"] = url
            ran = project.run(*words, *store, "--key", "k")
            assert SECRET not in ran.out + ran.err and "mara:" not in ran.out + ran.err, words
    shown = json.loads(project.run("config", "show", "--json", "--key", "k").out)
    assert shown["settings"]["store"]["value"] == "postgresql://127.0.0.1:1/ledger?placet_schema=placet"


@pytest.mark.parametrize("scheme", ["postgresql+asyncpg", "POSTGRESQL", "mysql"])
def test_a_url_of_another_kind_is_no_path_and_its_password_is_not_shown(project, scheme: str) -> None:
    url = f"{scheme}://mara:{SECRET}@db/ledger"
    for words in (("config", "show"), ("effects", "list"), ("doctor",), ("init", "--store-only")):
        ran = project.run(*words, "--store", url, "--key", "k")
        assert ran.code != 0 and "postgresql://USER@HOST:PORT/DATABASE" in ran.err, words
        assert SECRET not in ran.out + ran.err and "mara:" not in ran.out + ran.err, words


def test_a_misspelt_schema_is_told_and_is_no_new_ledger(on_database, database: Database) -> None:
    assert on_database.run("init", "--store-only").code == 0
    elsewhere = f"{database.url}{'&' if '?' in database.url else '?'}placet_schema=misspelt"

    for words in (
        ("effects", "list"),
        ("call", "--tool", "look", "--args", "{}"),
        ("stop", "--list"),
        ("worker", "--once"),
    ):
        done = on_database.run(*words, "--store", elsewhere, "--json")
        assert (done.code, done.data["code"]) == (1, "store_lost"), (words, done)
        assert "'misspelt'" in done.data["message"] and "store.key" in done.data["message"]
        condition, advice, _ = done.data["hint"].partition("placet init --store-only --new-ledger")
        assert advice and "placet_schema" in condition and "nothing was ever done under this key" in condition

    doctor = on_database.run("doctor", "--store", elsewhere)
    assert doctor.code != 0 and "'misspelt'" in doctor.out and "nothing was ever done under this key" in doctor.out
    assert database.fetch("SELECT count(*) FROM pg_namespace WHERE nspname = 'misspelt'") == [(0,)]


def test_a_second_ledger_under_a_key_is_made_for_whoever_says_so_and_is_named(on_database, database: Database) -> None:
    assert on_database.run("init", "--store-only").code == 0
    key = (on_database.folder / "store.key").read_bytes()
    elsewhere = f"{database.url}{'&' if '?' in database.url else '?'}placet_schema=second"

    refused = on_database.run("init", "--store-only", "--store", elsewhere, "--json")
    assert (refused.code, refused.data["code"]) == (1, "store_lost")
    assert database.fetch("SELECT count(*) FROM pg_namespace WHERE nspname = 'second'") == [(0,)]

    made = on_database.run("init", "--store-only", "--new-ledger", "--store", elsewhere)
    assert made.code == 0 and "?placet_schema=second" in made.out, made
    assert (on_database.folder / "store.key").read_bytes() == key
    assert on_database.run("effects", "list", "--store", elsewhere).code == 0


def test_a_database_without_store_and_key_is_only_missing(on_database, database: Database) -> None:
    missing = on_database.run("effects", "list", "--json")

    assert (missing.code, missing.data["code"]) == (1, "store_missing")
    assert "'placet'" in missing.data["message"] and "placet init --store-only" in missing.data["hint"]
    assert "?placet_schema=placet" in on_database.run("init", "--store-only").out


def test_the_doctor_shows_no_password_of_a_database_whose_key_is_not_named(project) -> None:
    url = f"postgresql://shop:{SECRET}@127.0.0.1:1/db"
    for form in ((), ("--json",)):
        done = project.run("doctor", "--store", url, *form)
        assert done.code != 0
        assert SECRET not in done.out + done.err
        assert "--key" in done.out + done.err
