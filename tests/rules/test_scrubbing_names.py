"""Secrets that are known by the name before them: in each spelling, up to where their value ends."""

from __future__ import annotations

import pytest

from placet.rules.scrubbing import scrub_text
from tests.rules.test_scrubbing_kinds import ADDRESSES, GONE, INTERNATIONAL, KEYS, MOBILE, SCHEMES, kept

WORDS = [
    *("authorization", "api_key", "apikey", "access_key", "private_key", "credential", "cookie", "secret", "token"),
    *("password", "passwd", "passphrase", "pwd", "phone", "mobile", "msisdn", "密码", "密钥", "令牌", "手机", "电话"),
]

PARTS = ["auth", "bearer", "cvc", "cvv", "jwt", "otp", "pin", "pw", "ssn"]


@pytest.mark.parametrize("word", WORDS)
def test_a_secret_word_anywhere_in_a_name_takes_the_value(word: str) -> None:
    for name in (word, word.upper(), f"my{word}", f"db-{word}", f"{word}s", f"{word}_a.b-C9"):
        assert scrub_text(f"{name}=hunter2") == f"{name}={GONE}"
        assert scrub_text(f"a {name}: hunter2\nb") == f"a {name}: {GONE}\nb"


@pytest.mark.parametrize("word", [word for word in WORDS if "_" in word])
@pytest.mark.parametrize("gap", ["", "_", "-", ".", " "])
def test_the_parts_of_a_secret_word_are_put_together_in_any_usual_way(word: str, gap: str) -> None:
    name = word.replace("_", gap)

    assert scrub_text(f"{name}=hunter2") == f"{name}={GONE}"
    assert scrub_text(f"{word.replace('_', '/')}=hunter2") == f"{word.replace('_', '/')}=hunter2"


@pytest.mark.parametrize("part", PARTS)
def test_a_short_secret_word_counts_only_by_itself(part: str) -> None:
    for name in (part, part.upper(), f"my_{part}", f"my-{part}"):
        assert scrub_text(f"{name}=hunter2") == f"{name}={GONE}"
    for name in (f"a{part}", f"Z{part}", f"0{part}", f"{part}a", f"{part}Z", f"{part}0"):
        assert scrub_text(f"{name}=hunter2") == f"{name}=hunter2"


GAPS = [
    "=",
    ":",
    "=>",
    ":=",
    " = ",
    "\t:\n",
    '" : ',
    "': ",
    '\\": ',
    "\\\\': ",
    "]=",
    ")=",
    '"]=',
    " " * 16 + "=" + " " * 16,
]


@pytest.mark.parametrize("name", ["token", "pw", "cookie"])
@pytest.mark.parametrize("gap", GAPS)
def test_between_name_and_value_stands_what_people_and_programs_put_there(name: str, gap: str) -> None:
    assert scrub_text(f"{name}{gap}hunter2\nnext") == f"{name}{gap}{GONE}\nnext"


@pytest.mark.parametrize("gap", [" ", "-", "|", "((=", " " * 17 + "=", "=" + " " * 17, "\\" * 17 + '": '])
def test_a_word_without_a_value_is_only_a_word(gap: str) -> None:
    assert scrub_text(f"token{gap}hunter2") == f"token{gap}hunter2"
    assert scrub_text("token" + "\\" * 16 + '": hunter2') == "token" + "\\" * 16 + f'": {GONE}'


@pytest.mark.parametrize("name", ["token", "cookie"])
def test_a_name_goes_on_for_64_characters(name: str) -> None:
    assert scrub_text(f"{name}{'x' * 64}=hunter2") == f"{name}{'x' * 64}={GONE}"
    assert scrub_text(f"{name}{'x' * 65}=hunter2") == f"{name}{'x' * 65}=hunter2"


VALUES = [
    ('"a b"', ""),
    ('"a b" c', " c"),
    ("'a b' c", " c"),
    ('"a\\"b c" d', " d"),
    ("'a\\'b c' d", " d"),
    ('"a\\\\" d', " d"),
    ('"a b', ""),
    ("'a b", ""),
    ('"a b\\', ""),
    ('\\"a b\\" c', " c"),
    ('\\\\"a b\\\\" c', " c"),
    ('\\"a b', ""),
    ('"a"b, c', ", c"),
    ("{a: 1, b} c", " c"),
    ("[1, 2]x c", " c"),
    ("{a\n c", "\n c"),
    ("a,b;c) d", " d"),
    ("a&b d", " d"),
    ("a&b=c d", "&b=c d"),
    ("a&b.c-d[]%~=e f", "&b.c-d[]%~=e f"),
    ("a&" + "b" * 64 + "=c d", "&" + "b" * 64 + "=c d"),
    ("a&" + "b" * 65 + "=c d", " d"),
    *((f"{word} a b", " b") for word in ("bearer", "basic", "token", "digest", "negotiate", "Bearer", "TOKEN")),
    ("bearer" + " " * 8 + "a b", " b"),
    ("hawk a b", " a b"),
    ("bearer" + " " * 9 + "a b", " " * 9 + "a b"),
    ("a&=b c", " c"),
    ("[REDACTED]hunter2 c", " c"),  # a placeholder in the text is no leave for what follows it
    ("\\" * 16 + '"a b' + "\\" * 16 + '" c', " c"),
    ("\\" * 17 + '"a b', " b"),  # nobody escapes five times
    ('"", x', ", x"),
    ("'', x", ", x"),
    ('"" c', " c"),
    ("'' c", " c"),
    ('\\"\\" c', " c"),
    ("\\'a b\\' c", " c"),
    ('"a\\"b\\"c" d', " d"),
    ("'a\\'b\\'c' d", " d"),
    ("'a b\\", ""),
    ("{} c", " c"),
    ("{a\r c", "\r c"),
    ("[1]&b=c d", "&b=c d"),
    *((f'"a"{end}b', f"{end}b") for end in "&,;)]}\"'\\"),
]


@pytest.mark.parametrize(("value", "rest"), VALUES)
def test_a_value_ends_where_its_quotes_brackets_or_blanks_say(value: str, rest: str) -> None:
    assert scrub_text(f"password={value}") == f"password={GONE}{rest}"


@pytest.mark.parametrize(
    "header",
    ["Authorization", "Cookie", "Proxy-Authorization", "Set-Cookie", "Cookie2", "Cookie-Jar.x", "AUTHORIZATION"],
)
def test_a_header_takes_the_rest_of_its_line(header: str) -> None:
    assert scrub_text(f"{header}: a=1; b c, d\r\nnext") == f"{header}: {GONE}\r\nnext"
    assert scrub_text(f"'{header}': 'a b', 'n': 1") == f"'{header}': {GONE}, 'n': 1"


FLAGS = [
    ("--token abc --retry 3", f"--token {GONE} --retry 3"),
    ("--db-password hunter2 x", f"--db-password {GONE} x"),
    ("--a-b-c-pw hunter2", f"--a-b-c-pw {GONE}"),
    ("--" + "a" * 24 + "-pw hunter2", "--" + "a" * 24 + f"-pw {GONE}"),
    ("--PW hunter2", f"--PW {GONE}"),
    ("--pw" + " " * 8 + "hunter2", "--pw" + " " * 8 + GONE),
    ("--pw\nhunter2", f"--pw\n{GONE}"),
    ('--pw "a b" c', f"--pw {GONE} c"),
    ("--a1-pw hunter2", f"--a1-pw {GONE}"),
    ("--pw [REDACTED]hunter2 x", f"--pw {GONE} x"),
    ("Cookie: [REDACTED] a=1\nnext", f"Cookie: {GONE}\nnext"),
    kept("--pw [REDACTED], x"),
    ("---pw hunter2", f"---pw {GONE}"),
    kept("--token/abc"),
    kept("Cookie:"),
    kept("--pw -v"),
    kept("--pw --retry 3"),
    kept("-pw hunter2"),
    kept("--pw" + " " * 9 + "hunter2"),
    kept("--a-b-c-d-pw hunter2"),
    kept("--" + "a" * 25 + "-pw hunter2"),
]


@pytest.mark.parametrize(("text", "clean"), FLAGS)
def test_a_flag_takes_the_word_after_it(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


EVERY_CLEAN_TEXT = sorted(
    {clean for _, clean in (*KEYS, *SCHEMES, *MOBILE, *INTERNATIONAL, *ADDRESSES, *FLAGS)}
    | {f"{name}{GONE}{rest}" for _, rest in VALUES for name in ("password=", "x token: ")}
    | {f"Cookie: {GONE}{end}next" for end in (",", ";", ")", "]", "}", '"', "'", "\\", "\r", "\n")}
)


@pytest.mark.parametrize("clean", EVERY_CLEAN_TEXT)
def test_what_is_clean_stays_as_it_is(clean: str) -> None:
    assert scrub_text(clean) == clean
