"""Passwords as databases are given them: in a statement, in a password file, in a connection string."""

from __future__ import annotations

import pytest

from placet.rules.scrubbing import scrub_text
from tests.rules.test_scrubbing_kinds import GONE, kept

STATEMENTS = [
    ("ALTER ROLE mara PASSWORD 'hunter2'", f"ALTER ROLE mara PASSWORD {GONE}"),
    ("ALTER ROLE mara WITH PASSWORD 'a b' VALID UNTIL 'x'", f"ALTER ROLE mara WITH PASSWORD {GONE} VALID UNTIL 'x'"),
    (
        "create user mara encrypted password 'it''s mine'; SELECT 1",
        f"create user mara encrypted password {GONE}; SELECT 1",
    ),
    ("ALTER ROLE mara PASSWORD '''' b", f"ALTER ROLE mara PASSWORD {GONE} b"),
    kept("ALTER ROLE mara PASSWORD'a'"),
    ("ALTER ROLE mara PASSWORD '', b", f"ALTER ROLE mara PASSWORD {GONE}, b"),
    ("ALTER ROLE mara PASSWORD E'it\\'s mine' b", f"ALTER ROLE mara PASSWORD {GONE} b"),
    ("ALTER ROLE mara PASSWORD U&'a b' c", f"ALTER ROLE mara PASSWORD {GONE} c"),
    ("ALTER LOGIN mara WITH PASSWORD N'a b' c", f"ALTER LOGIN mara WITH PASSWORD {GONE} c"),
    ("ALTER ROLE mara PASSWORD $$it's $1 mine$$ b", f"ALTER ROLE mara PASSWORD {GONE} b"),
    ("ALTER ROLE mara PASSWORD $t_1$a $$ b$t_1$ c", f"ALTER ROLE mara PASSWORD {GONE} c"),
    ("ALTER ROLE mara PASSWORD 'never closed", f"ALTER ROLE mara PASSWORD {GONE}"),
    ("ALTER ROLE mara PASSWORD 'a\\", f"ALTER ROLE mara PASSWORD {GONE}"),
    ("ALTER ROLE mara PASSWORD $x$never closed", f"ALTER ROLE mara PASSWORD {GONE}"),
    ("ALTER ROLE mara PASSWORD\n\t'a\nb' c", f"ALTER ROLE mara PASSWORD\n\t{GONE} c"),
    ("ALTER ROLE mara PASSWORD" + " " * 16 + "'a b'", "ALTER ROLE mara PASSWORD" + " " * 16 + GONE),
    ("ALTER ROLE mara PASSWORD \\'a b\\' c", f"ALTER ROLE mara PASSWORD {GONE} c"),
    ('{"q": "ALTER ROLE mara PASSWORD \\\\\'a b\\\\\' c"}', f'{{"q": "ALTER ROLE mara PASSWORD {GONE} c"}}'),
    ("CREATE USER mara IDENTIFIED BY 'a b' c", f"CREATE USER mara IDENTIFIED BY {GONE} c"),
    ("CREATE USER mara identified\tby password 'a b' c", f"CREATE USER mara identified\tby password {GONE} c"),
    ('IDENTIFIED  BY "a b" c', f"IDENTIFIED  BY {GONE} c"),
    ("SET PASSWD 'a b' c", f"SET PASSWD {GONE} c"),
    ("PASSWORD \\'\\' b \\'c\\'", f"PASSWORD {GONE} b \\'c\\'"),
    ("PASSWORD $_t$a$$b$_t$ c", f"PASSWORD {GONE} c"),
    ("PASSWORD $$$$ b $$c$$", f"PASSWORD {GONE} b $$c$$"),
    ("PASSWORD 'a b' PASSWORD 'c d' e", f"PASSWORD {GONE} PASSWORD {GONE} e"),
    kept("ALTER ROLE mara PASSWORD NULL"),
    kept("ALTER ROLE mara PASSWORD $1"),
    kept("ALTER ROLE mara PASSWORD" + " " * 17 + "'a b'"),
    kept("SELECT 'password' 'a'"),
    kept("its PASSWORDS 'a'"),
    kept("identified by mara"),
]


@pytest.mark.req("B163")
@pytest.mark.parametrize(("text", "clean"), STATEMENTS)
def test_a_password_in_a_statement_is_scrubbed_as_far_as_its_quotes_go(text: str, clean: str) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(clean) == clean


FILE_LINES = [
    ("db.acme:5432:ledger:mara:hunter2", f"db.acme:5432:ledger:mara:{GONE}"),
    ("*:*:*:mara:hunter2", f"*:*:*:mara:{GONE}"),
    ("/run/pg:5:my-db:mara@acme:a b c", f"/run/pg:5:my-db:mara@acme:{GONE}"),
    ("db:5432:ledger:mara:a\\:b\\\\c d\nnext", f"db:5432:ledger:mara:{GONE}\nnext"),
    ("one:1:a:b:c d\r\ntwo:2:a:b:e f", f"one:1:a:b:{GONE}\r\ntwo:2:a:b:{GONE}"),
    ("\\:\\:1:5432:l\\:x:m\\:y:pw", f"\\:\\:1:5432:l\\:x:m\\:y:{GONE}"),
    ("read db:5432:ledger:mara:a,b there", f"read db:5432:ledger:mara:{GONE} there"),
    ("read 'db:65535:ledger:mara:a' there", f"read 'db:65535:ledger:mara:{GONE} there"),
    ("db:5432:ledger:mara:a b: c", f"db:5432:ledger:mara:{GONE} b: c"),
    ("db:5432:ledger:mara:a\\", f"db:5432:ledger:mara:{GONE}"),
    ("db:5432:ledger:mara:a\\\nnext", f"db:5432:ledger:mara:{GONE}\nnext"),
    ("read db:5432:ledger:mara:a\\ there", f"read db:5432:ledger:mara:{GONE} there"),
    ("db:5432:ledger:mara:a\\:b c\\:d e", f"db:5432:ledger:mara:{GONE}"),
    ("db:5432:ledger:mara:\\:b c\\:d e", f"db:5432:ledger:mara:{GONE}"),
    ("db:5432:ledger:mara:a\\\r\nnext", f"db:5432:ledger:mara:{GONE}\r\nnext"),
    ("read db:5432:ledger:mara:a\\:bcd there", f"read db:5432:ledger:mara:{GONE} there"),
    ("read db:5432:ledger:mara:\\:\\\\b there", f"read db:5432:ledger:mara:{GONE} there"),
    ('read "db:65535:ledger:mara:a" there', f'read "db:65535:ledger:mara:{GONE} there'),
    ("db:5432:1a:mara:pw", f"db:5432:1a:mara:{GONE}"),
    kept("db:543210:ledger:mara:pw"),
    kept("db:port:ledger:mara:pw"),
    kept("db:5432:ledger:mara"),
    kept("db:5432:ledger:mara:"),
    kept("db:5432:ledger:mara: pw"),
    kept("db:5432:ledger:mara:a:b"),
    kept("db:5432:ledger:mara::b"),
    kept("db:5432:ledger:mara:a\\:b:c"),
    kept("read db:5432:ledger:mara:a\\:b:c"),
    kept('db:5432:led"ger:mara:a'),
    kept("db:5432:led'ger:mara:a"),
    kept("db:5432:l\\:ed'ger:mara:a"),
    kept('db:5432:l\\:ed"ger:mara:a'),
    kept(":5432:ledger:mara:pw"),
    kept("db:5432::mara:pw"),
    kept("db:5432:ledger::pw"),
    kept("at 12:30:45:ab:cd it was"),
    kept("from 2001:0:db8:0:0:1:2:3 and 00:11:aa:bb:cc:dd"),
    kept("2001:0:db8:0:0:1:2:3"),
    kept("src/app.py:12:5:error:unused"),
    kept("src/app.py:12:5: error: unused x: y"),
    kept("a:b:c:d:e"),
]


@pytest.mark.req("B163")
@pytest.mark.parametrize(("text", "clean"), FILE_LINES)
def test_a_password_in_a_line_of_a_password_file_is_scrubbed(text: str, clean: str) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(clean) == clean


@pytest.mark.req("B163")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("host=db user=mara password='a b' dbname=x", f"host=db user=mara password={GONE} dbname=x"),
        ("host=db password = 'it\\'s b' dbname=x", f"host=db password = {GONE} dbname=x"),
        ("host=db password=a\\ b\\\tc dbname=x", f"host=db password={GONE} dbname=x"),
        ("password=a\\", f"password={GONE}"),
    ],
)
def test_a_password_in_a_connection_string_is_scrubbed_with_its_quoted_and_escaped_blanks(
    text: str, clean: str
) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(clean) == clean
