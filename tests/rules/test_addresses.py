"""Which words are the URL of a database, and that a password in any form of them is never shown."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.bootstrap.addresses import address_here, shown_store
from placet.errors import ConfigurationError
from placet.rules.addresses import (
    DatabaseAddress,
    Host,
    database_address,
    is_other_url,
    may_be_address,
    names_database,
    refuse_other_url,
    shown_word,
)

CANARY = "hunter2canary"


def shown(where: str) -> str:
    return database_address(where).shown


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("postgresql://mara:pw@db.acme:5433/ledger", "postgresql://db.acme:5433/ledger"),
        ("postgres://db/ledger", "postgresql://db/ledger"),
        ("postgresql:///ledger", "postgresql://localhost/ledger"),
        ("postgresql://", "postgresql://localhost"),
        ("postgresql://mara@/ledger?host=/run/postgresql", "postgresql:///run/postgresql/ledger"),
        ("postgresql://m:p%2Fw@%2Frun%2Fpg/ledger", "postgresql://%2Frun%2Fpg/ledger"),
        ("postgresql://m:p@[::1]:5432/ledger", "postgresql://[::1]:5432/ledger"),
        ("postgresql://m:p@one:5432,two:5433/ledger?target_session_attrs=primary", "postgresql://one:5432,two:5433/ledger"),
        ("postgresql://db/ledger?password=pw&placet_schema=other", "postgresql://db/ledger"),
    ],
)  # fmt: skip
def test_hosts_ports_and_database_are_shown_and_nothing_else(where: str, expected: str) -> None:
    assert shown(where) == expected
    assert shown_store(where) == expected


def test_the_schema_is_ours_and_the_rest_goes_to_the_driver_as_it_was_said() -> None:
    read = database_address("postgresql://m:p%2Fw@db/l?placet_schema=second&sslmode=require&application_name=a%20b")

    assert read == DatabaseAddress(
        url="postgresql://m:p%2Fw@db/l?sslmode=require&application_name=a%20b",
        shown="postgresql://db/l",
        hosts=(Host(name="db", port=None),),
        schema="second",
    )
    assert "p%2Fw" not in repr(read)
    assert database_address("postgresql://db/l").schema == "placet"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("postgresql:///ledger", []),
        ("postgresql://db:5433/ledger", [("db", 5433)]),
        ("postgresql://m:p@one:5432,two/ledger?target_session_attrs=read-write", [("one", 5432), ("two", None)]),
        ("postgresql:///ledger?host=one,two:5434&port=5433", [("one", 5433), ("two", 5434)]),
        ("postgresql:///ledger?host=one,two&port=5433,5434", [("one", 5433), ("two", 5434)]),
        ("postgresql://one,two/ledger?port=5433,5434", [("one", 5433), ("two", 5434)]),
        ("postgresql://%2Frun%2Fpg,[::1]:5432/ledger", [("/run/pg", None), ("::1", 5432)]),
        ("postgresql://[::1]/ledger", [("::1", None)]),
        (
            "postgresql://[::ffff:192.0.2.7],[fe80::1%25eth0]:1/ledger",
            [("::ffff:192.0.2.7", None), ("fe80::1%eth0", 1)],
        ),
        ("postgresql://2130706433,[::]:2,[FE80:0::A]/ledger", [("2130706433", None), ("::", 2), ("FE80:0::A", None)]),
        ("postgresql://XEROX:65535,XX/ledger", [("XEROX", 65_535), ("XX", None)]),
    ],
)
def test_the_hosts_are_those_that_the_driver_would_take(where: str, expected: list[tuple[str, int | None]]) -> None:
    assert [(host.name, host.port) for host in database_address(where).hosts] == expected


NOT_TAKEN = [
    "channel_binding", "client_encoding", "connect_timeout", "fallback_application_name", "gssencmode", "hostaddr",
    "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts", "replication",
    "require_auth", "requirepeer", "sslcertmode", "sslcompression", "sslsni", "tcp_user_timeout",
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "told", "next_step"),
    [
        ("sslmode=requir", "sslmode", "verify-full"),
        ("sslmode=", "sslmode", "verify-full"),
        *((f"{name}=3", name, "Leave it out") for name in NOT_TAKEN),
        ("placet_schema=My-Schema", "placet_schema", "placet_schema=my_ledger"),
        ("placet_schema=pg_x", "placet_schema", "pg_"),
        ("placet_schema=a&placet_schema=b", "placet_schema", "once"),
    ],
)
def test_an_option_that_is_not_taken_is_named_with_a_next_step(options: str, told: str, next_step: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        database_address(f"postgresql://db/ledger?{options}")

    assert told in str(refused.value) and next_step in refused.value.hint


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("postgresql://db/ledger?host=/run/pg", "host"),
        ("postgresql://db,other/ledger?host=db", "host"),
        ("postgresql:///ledger?host=a&host=b", "host"),
        ("postgresql://db/ledger?dbname=other", "database"),
        ("postgresql://db/?database=a&dbname=b", "database"),
    ],
)
def test_what_is_said_in_two_places_is_refused(where: str, told: str) -> None:
    """The driver takes one of them, and a person reads the other."""
    with pytest.raises(ConfigurationError, match=told) as refused:
        database_address(where)

    assert "one place" in refused.value.hint


@pytest.mark.parametrize(
    ("where", "shown_as", "hosts"),
    [
        ("postgresql:///ledger", "postgresql://db-7:6000/ledger", [("db-7", 6000)]),
        ("postgresql://mara@/ledger", "postgresql://db-7:6000/ledger", [("db-7", 6000)]),
        ("postgresql://db/ledger", "postgresql://db/ledger", [("db", None)]),
        ("postgresql:///ledger?host=/run/pg", "postgresql:///run/pg/ledger", [("/run/pg", None)]),
    ],
)
def test_the_host_of_the_environment_is_shown_where_it_is_dialled(
    monkeypatch: pytest.MonkeyPatch, where: str, shown_as: str, hosts: list[tuple[str, int | None]]
) -> None:
    monkeypatch.setenv("PGHOST", "db-7:6000")

    read = address_here(where)

    assert shown_store(where) == read.shown
    assert (read.shown, [(host.name, host.port) for host in read.hosts]) == (shown_as, hosts)


def test_a_database_that_is_named_in_the_options_is_shown() -> None:
    assert shown("postgresql://db?dbname=ledger") == "postgresql://db/ledger"
    assert shown("postgresql://db/?database=ledger") == "postgresql://db/ledger"


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://u@,/db", "postgresql://a,,b/db", "postgresql://a,/db", "postgresql:///db?host=,a",
        "postgresql://h%00/db", "postgresql://u%00@h/db", "postgresql://h/d%00b", "postgresql:///db?host=%00",
        "postgresql://h/db?password=%00", "postgresql://h/db?port=\u00b2", "postgresql://h/db?port=\u0661",
        "postgresql://a,b/db?port=\u00b2", "postgresql://h/db?port=99999999", "postgresql://a,b/db?port=99999999",
        "postgresql://h/db?port=0", "postgresql://h/db?port=", "postgresql://h/db?port=1,x", "postgresql://h/db?port=1,2",
        "postgresql://a,b,c/db?port=1,2", "postgresql:///db?host=a:99999", "postgresql://h:\u0661/db",
        "postgresql://[::1/db", "postgresql://[h]x/db", "postgresql://[1.2:3]/db", "postgresql://[fe80:]/db", "postgresql://h:000080/db",
        "postgresql://h/db?port=000080", "postgresql://h/db?port=65536",
        *(f"postgresql://x{quote(each, safe='')}y/db" for each in "\t\x1f \\@:?#=&;%[],"),
        *(f"postgresql://h/a{quote(each, safe='')}b" for each in "\\/@:?#=&;%"),
    ],
)  # fmt: skip
def test_what_no_driver_can_dial_is_refused_as_an_address(where: str) -> None:
    with pytest.raises(ConfigurationError):
        database_address(where)
    assert shown_store(where) == "postgresql://..."


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"])
def test_every_sslmode_of_libpq_goes_to_the_driver(mode: str) -> None:
    assert database_address(f"postgresql://db/ledger?sslmode={mode}").url == f"postgresql://db/ledger?sslmode={mode}"


ODD = [
    f"postgresql://mara:{CANARY}/x@db/ledger",
    f"postgresql://mara:x/{CANARY}@db/ledger",
    f"postgresql://mara:{CANARY}?x@db/ledger",
    f"postgresql://mara:{CANARY}#x@db/ledger",
    f"postgresql://mara:x@{CANARY}@db/ledger",
    f"postgresql://mara:x@{CANARY}/x@db/ledger",
    f"postgresql://mara:{CANARY}/db/ledger",
    f"postgresql://mara:{CANARY}",
    f"postgresql://mara:{CANARY}\\@db/ledger",
    f"postgresql://mara:{CANARY} x@db/ledger",
    f"postgresql://mara:{CANARY}\n@db/ledger",
    f"postgresql://db/ledger;password={CANARY}",
    f"postgresql://db/ledger&password={CANARY}",
    f"postgresql://db/mara:{CANARY}@db/ledger",
    f"postgresql://db/ledger?{CANARY}",
    f"postgresql://db/ledger?password={CANARY}#x",
    f"postgresql://db/ledger?password=x@{CANARY}",
    f"postgresql://db/ledger?password=x?{CANARY}",
    f"postgresql://db:99999/ledger?password={CANARY}",
    f"postgresql://db/ledger?placet_shema={CANARY}",
    f"postgresql://db/ledger?placet_schema={CANARY}'",
    f"postgresql://db/ledger?password={CANARY}&placet_schema=",
    f"postgresql://mara%3A{CANARY}%40db/ledger",
    f"postgresql://mara%253A{CANARY}%2540db/ledger",
    f"postgresql://db/ledger?host=mara%3A{CANARY}%40x",
    f"postgresql:///ledger?host=mara%3A{CANARY}%40x",
    f"postgresql:///ledger?host=/run/mara%3A{CANARY}%40x",
    f"postgresql://db/ledger%3Fpassword%3D{CANARY}",
    f"postgresql://db/ledger%253Fpassword%253D{CANARY}",
    f"postgresql://db%3Fpassword%3D{CANARY}/ledger",
    f"postgresql://db?dbname=mara%3A{CANARY}%40x",
]  # fmt: skip
OTHER = [
    f"postgresql:/mara:{CANARY}@db/ledger",
    f"postgresql:mara:{CANARY}@db/ledger",
    f" postgresql://mara:{CANARY}@db/ledger",
    f"POSTGRESQL://mara:{CANARY}@db/ledger",
    f"postgresql+asyncpg://mara:{CANARY}@db/ledger",
    f"jdbc:postgresql://db/ledger?user=mara&password={CANARY}",
    f"mysql://mara:{CANARY}@db/ledger",
    f"mysql:/mara:{CANARY}@db/ledger",
    f"host=db user=mara password={CANARY}",
    f"dbname=ledger password = {CANARY}",
    f"PASSWORD={CANARY} host=db",
    f"\tpostgres://mara:{CANARY}@db",
    f"//mara:{CANARY}@db/ledger",
    f"mara:{CANARY}@db:5432/ledger",
    f"./mara:{CANARY}@db",
    f"postgresql//mara:{CANARY}@db/ledger",
    f"PGPASSWORD={CANARY}",
    f"dbname=x PGPASSWORD={CANARY}",
    f"pgpassword = {CANARY}",
    f"db/ledger?password={CANARY}",
    f"db:5432/ledger?user=mara&sslpassword={CANARY}",
    f"mara%3A{CANARY}%40db/ledger",
    f"mara%253A{CANARY}%2540db/ledger",
    f"db/ledger%3Fpassword%3D{CANARY}",
    f"passfile={CANARY}",
    f"db/ledger?pwd={CANARY}",
    *(f"{scheme}:/mara/{CANARY}" for scheme in ("s3", "S3x", "a.b", "a-b", "a+b", "jdbc:h2", "jdbc:s3")),
    *(f"{name}={CANARY}" for name in ("host", "hostaddr", "port", "dbname", "user", "service")),
    *(f"x=1 {name} = {CANARY}" for name in ("host", "hostaddr", "port", "dbname", "user", "service")),
]


@pytest.mark.parametrize("where", ODD)
def test_what_cannot_be_read_without_doubt_is_refused_and_not_repeated(where: str) -> None:
    assert names_database(where)
    with pytest.raises(ConfigurationError) as refused:
        database_address(where)

    told = str(refused.value) + refused.value.hint + repr(refused.value.__context__)
    assert CANARY not in told + shown_store(where)


@pytest.mark.parametrize("where", OTHER)
def test_other_urls_and_connection_strings_are_no_paths_and_are_not_repeated(where: str) -> None:
    assert is_other_url(where) and is_other_url(Path(where))
    assert not names_database(where)
    assert CANARY not in shown_store(where) + shown_store(Path(where))


def test_where_a_path_is_needed_a_url_or_a_connection_string_is_refused_and_not_repeated() -> None:
    for where in OTHER:
        with pytest.raises(ConfigurationError, match=r"^The store is a URL that is not known here\.$") as refused:
            refuse_other_url(where)
        assert "postgresql://USER@HOST:PORT/DATABASE" in refused.value.hint
        assert CANARY not in refused.value.hint and refused.value.__context__ is None
    refuse_other_url("placet.db")
    refuse_other_url(Path("placet.db"))
    refuse_other_url("postgresql://db/ledger")


def test_of_a_word_that_may_be_an_address_nothing_is_shown() -> None:
    for word in (*OTHER, *ODD, "postgresql://db/ledger"):
        assert may_be_address(word) and shown_word(word) == "..."
    assert may_be_address(Path(OTHER[0])) and not may_be_address(None)
    assert shown_word("placet.db.key") == "placet.db.key"
    assert shown_word("my.tools:TOOLS") == "my.tools:TOOLS"


@pytest.mark.parametrize(
    "where",
    ["memory:", "placet.db", "/var/lib/placet/a=b.db", "./host=1", "C:/placet.db", "postgres.db", "a:b", "x@y", "x@y:z",
     "100%.db", "a%20b.db", "postgres/a:b", "postgresql/a:b", "my_host=1", "a/user.db"],
)  # fmt: skip
def test_paths_stay_paths(where: str) -> None:
    assert not is_other_url(where) and not names_database(where)
    assert shown_store(where) == where


SAID = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=12)  # no server takes a NUL


@given(SAID, SAID)
def test_whoever_escapes_may_have_any_user_and_password(user: str, password: str) -> None:
    said = f"{quote(user, safe='', errors='replace')}:{quote(password, safe='', errors='replace')}"
    read = database_address(f"postgresql://{said}@db:5432/ledger")

    assert (read.shown, read.url) == ("postgresql://db:5432/ledger", f"postgresql://{said}@db:5432/ledger")


@given(st.text(max_size=20), st.text(max_size=10))
def test_no_password_is_shown_whatever_is_around_it(before: str, after: str) -> None:
    where = f"postgresql://mara:{before}{CANARY}{after}@db/ledger"

    assert CANARY not in json.dumps(shown_store(where))


@pytest.mark.parametrize("schema", ["_ledger", "ledger_2", "Ledger", "myLedger", "L", "a" * 63])
def test_a_schema_is_any_ascii_name_that_a_server_takes_whole(schema: str) -> None:
    assert database_address(f"postgresql://h/db?placet_schema={schema}").schema == schema


@pytest.mark.parametrize("schema", ["", "2ledger", "my-ledger", "a" * 64, "ledg\u00e9r", "a.b", "a b"])
def test_any_other_schema_is_refused(schema: str) -> None:
    with pytest.raises(ConfigurationError):
        database_address(f"postgresql://h/db?placet_schema={quote(schema)}")


@pytest.mark.parametrize(
    ("where", "expected"),
    [("postgresql://h:5/db", ("h", 5)), ("postgresql://[2001:db8::1]:54321/db", ("2001:db8::1", 54321))],
)
def test_a_port_has_one_to_five_digits_and_an_address_may_have_any(where: str, expected: tuple[str, int]) -> None:
    assert [(host.name, host.port) for host in database_address(where).hosts] == [expected]


def test_a_hash_ends_no_host() -> None:
    with pytest.raises(ConfigurationError):
        database_address("postgresql://u@ho#st/db")


def test_the_word_of_sqlite_for_a_store_in_memory_is_refused_with_ours() -> None:
    with pytest.raises(ConfigurationError, match="a word of SQLite's") as refused:
        refuse_other_url(":memory:")
    assert '"memory:"' in refused.value.hint
