"""Secrets that are known by their own form: at its shortest and its longest, and just not one."""

from __future__ import annotations

import pytest

from placet.rules.scrubbing import scrub_text

GONE = "[REDACTED]"


def kept(text: str) -> tuple[str, str]:
    return text, text


def gone(text: str) -> tuple[str, str]:
    return text, GONE


TOKEN_CHARACTERS = "aZ09_-xy"

KEYS = [
    *(gone(f"{kind}{mark}{TOKEN_CHARACTERS}") for kind in ("sk", "rk", "pk") for mark in "-_"),
    *(kept(f"{kind}-abcdef0") for kind in ("sk", "rk", "pk")),
    *(kept(f"{kind}-abcdefghi") for kind in ("tk", "xsk", "9sk", "Zpk")),
    kept("sk=abcdefghi"),
    *(gone(f"gh{kind}_aZ09_bcdefghijkl") for kind in "pousr"),
    *(kept(f"gh{kind}_aZ09_bcdefghijk") for kind in "pousr"),
    kept("gha_abcdefghijklmnopqrstuv"),
    gone("github_pat_aZ09_bcdefghijkl"),
    kept("github_pat_aZ09_bcdefghijk"),
    gone("glpat-aZ09_-cdefghijkl"),
    kept("glpat-aZ09_-cdefghijk"),
    *(gone(f"xox{kind}-aZ09_-xy") for kind in "abz"),
    kept("xoxb-aZ09_-x"),
    kept("xoxB-aZ09_-xy"),
    kept("xox1-aZ09_-xy"),
    gone("placet_" + "09af" * 6 + "_" + "09af" * 2),
    gone("placet_" + "09af" * 6 + "_" + "09af" * 16),
    kept("placet_" + "09af" * 6 + "_" + ("09af" * 2)[1:]),
    kept("placet_" + "09af" * 6 + "0_" + "09af" * 2),
    kept("placet_" + ("09af" * 6)[1:] + "_" + "09af" * 2),
    kept("placet_" + "09ag" * 6 + "_" + "09af" * 2),
    kept("xplacet_" + "09af" * 6 + "_" + "09af" * 2),
    gone("AKIA" + "A0Z9" * 4),
    kept("AKIA" + "A0Z9" * 3 + "A0Z"),
    kept("AKIA" + "a0z9" * 4),
    ("AKIA" + "A0Z9" * 4 + "B", GONE + "B"),
    gone("eyJ" + TOKEN_CHARACTERS),
    kept("eyJ" + TOKEN_CHARACTERS[:-1]),
    gone("eyJ" + TOKEN_CHARACTERS + ".a_-9.b.c.d"),
    ("eyJ" + TOKEN_CHARACTERS + ".a.b.c.d.e", GONE + ".e"),
    gone("eyJ" + TOKEN_CHARACTERS + "...."),
    kept("eYJ" + TOKEN_CHARACTERS),
    kept("keyJ" + TOKEN_CHARACTERS),
    ("=eyJ" + TOKEN_CHARACTERS, "=" + GONE),
]


@pytest.mark.parametrize(("text", "clean"), KEYS)
def test_a_key_is_known_by_its_beginning_and_its_length(text: str, clean: str) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(f"({text})") == f"({clean})"


SCHEMES = [
    *((f"{word} x", GONE) for word in ("bearer", "Bearer", "BEARER", "bEaReR")),
    ("bearer" + " " * 8 + "abc", GONE),
    kept("bearer" + " " * 9 + "abc"),
    ("bearer\tabc", GONE),
    *((f"bearer abc{end}tail", f"{GONE}{end}tail") for end in "\"',; \n"),
    ("bearer a|b", GONE),
    kept("bearer ,"),
    kept("bearerabc"),
    kept("forbearer abc"),
    *((f"{word} aZ09+/xy", GONE) for word in ("basic", "Basic")),
    kept("BASIC aZ09+/xy"),
    kept("basic aZ09+/x"),
    kept("abasic aZ09+/xy"),
    kept("basicaZ09+/xy"),
    ("basic" + " " * 8 + "aZ09+/xy", GONE),
    kept("basic" + " " * 9 + "aZ09+/xy"),
    *(("basic aZ09+/xy" + "=" * count, GONE) for count in (1, 2)),
    ("basic aZ09+/xy===", GONE + "="),
]


@pytest.mark.parametrize(("text", "clean"), SCHEMES)
def test_a_scheme_takes_its_credentials_with_it(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "A" * 39 + " "])
@pytest.mark.parametrize("inside", ["", "\n", "\nMIIE\nabc\n", "x-----END "])
def test_a_private_key_goes_with_all_between_its_lines(kind: str, inside: str) -> None:
    key = f"-----BEGIN {kind}PRIVATE KEY-----{inside}-----END {kind}PRIVATE KEY-----"

    assert scrub_text(f"a {key} b") == f"a {GONE} b"
    assert scrub_text(f"{key}x{key}") == f"{GONE}x{GONE}"
    assert scrub_text(f"a -----BEGIN {kind}PRIVATE KEY-----{inside} b") == f"a {GONE}"


@pytest.mark.parametrize("kind", ["PUBLIC KEY", "CERTIFICATE", "rsa PRIVATE KEY", "A" * 40 + " PRIVATE KEY"])
def test_what_is_no_private_key_stays(kind: str) -> None:
    text = f"-----BEGIN {kind}-----\nMIIE\n-----END {kind}-----"

    assert scrub_text(text) == text


MOBILE = [
    *(gone(f"1{second}812345678") for second in "3456789"),
    *(kept(f"1{second}812345678") for second in "012"),
    kept("23812345678"),
    *(gone(f"138{first}1234{second}5678") for first in ("", " ", "-") for second in ("", " ", "-")),
    kept("138.1234.5678"),
    kept("138  1234 5678"),
    *(gone(f"{code}{gap}13812345678") for code in ("86", "+86", "0086") for gap in ("", " ", "-")),
    ("086 13812345678", "086 " + GONE),
    ("87 13812345678", "87 " + GONE),
    kept("1381234567"),
    kept("138123456789"),
    kept("0.13812345678"),
    kept("913812345678"),
    ("a.13812345678", "a." + GONE),
    ("x13812345678x", f"x{GONE}x"),
    ("a+8613812345678", f"a{GONE}"),
]


@pytest.mark.parametrize(("text", "clean"), MOBILE)
def test_a_mobile_number_is_known_in_its_spellings(text: str, clean: str) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(f"call {text} now") == f"call {clean} now"


INTERNATIONAL = [
    gone("+1234567"),
    kept("+123456"),
    gone("+" + "1" * 15),
    kept("+" + "1" * 16),
    kept("+0234567"),
    *(gone(f"+1{gap}234567") for gap in (" ", "(", ")", ".", "-", ") ", " (")),
    kept("+1   234567"),
    kept("+1/234567"),
    gone("+9 8 7 6 5 4 3"),
    kept("a+1234567"),
    kept("++1234567"),
    kept("_+1234567"),
    ("(+1234567)", f"({GONE})"),
]


@pytest.mark.parametrize(("text", "clean"), INTERNATIONAL)
def test_an_international_number_has_seven_to_fifteen_digits(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "13812345678abcdef013812345678abc",  # 32 digits of a digest
        "13812345678ABCDEF013812345678ABC" * 2,
        "13812345-1381-1381-1381-138123456789",
        "ABCDEF12-1381-1381-1381-13812345678F",
        "abcdef12-ABCD-ABCD-ABCD-13812345678f",
    ],
)
def test_digests_and_uuids_are_kept_whole(text: str) -> None:
    assert scrub_text(f"{text} +1234567") == f"{text} {GONE}"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("13812345678abcdefa13812345678ab", f"{GONE}abcdefa{GONE}ab"),  # 31 digits
        ("abcdef1-1381-1381-1381-13812345678a", f"abcdef1-1381-1381-1381-{GONE}a"),
        ("abcdef12-1381-1381-1381-13812345678", f"abcdef12-1381-1381-1381-{GONE}"),
        ("13812345678-1381-1381-1381", f"{GONE}-1381-1381-1381"),
    ],
)
def test_what_is_no_digest_is_looked_into(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


QUERY_NAMES = ["key", "sig", "signature", "code", "auth", "pass", "session", "sessionid", "sid", "x-amz-signature"]


@pytest.mark.parametrize("name", [*QUERY_NAMES, "KEY", "X-Amz-Signature"])
@pytest.mark.parametrize("mark", "?&;")
def test_a_value_of_a_query_is_redacted_by_its_name(name: str, mark: str) -> None:
    assert scrub_text(f"/p{mark}{name}=v+1/2%20x&n=1") == f"/p{mark}{name}={GONE}&n=1"
    if name != "auth":  # a secret name in any text, whose value ends with a blank only
        assert scrub_text(f"/p{mark}{name}=v#f") == f"/p{mark}{name}={GONE}#f"
    assert scrub_text(f"/p{mark}{name}=v w") == f"/p{mark}{name}={GONE} w"
    assert scrub_text(f"/p{mark}{name}=&n=1") == f"/p{mark}{name}=&n=1"


@pytest.mark.parametrize("name", ["k", "keys", "mykey", "page", "signatures"])
def test_another_value_of_a_query_stays(name: str) -> None:
    assert scrub_text(f"/p?{name}=v&n=1") == f"/p?{name}=v&n=1"


ADDRESSES = [
    ("ftp://u:p@h", f"ftp://u:{GONE}@h"),
    ("x://u:@h", f"x://u:{GONE}@h"),
    ("x://:p@h", f"x://:{GONE}@h"),
    ("http://t@h/x", f"http://{GONE}@h/x"),
    ("HTTPS://t@h", f"HTTPS://{GONE}@h"),
    ("git+https://t@h", f"git+https://{GONE}@h"),
    kept("ssh://git@h"),
    kept("xhttp:/t@h"),
    kept("http://h/a@b"),
    kept("http://h?a@b"),
    kept("http://h#a@b"),
    kept("file:///a:b@c"),
    ("http://@h", f"http://{GONE}@h"),
    kept("http://h:80/a@b"),
    kept("http://h:/a@b"),
    kept("http://h:65535/a@b"),
    ("http://h:655350/a@b", f"http://h:{GONE}@b"),
    ("http://h:80x/a@b", f"http://h:{GONE}@b"),
    ("http://u:p/w@h", f"http://u:{GONE}@h"),
    ("http://u:p?w@h", f"http://u:{GONE}@h"),
    ("http://u:p#w@h", f"http://u:{GONE}@h"),
    ("http://u:p@w@h", f"http://u:{GONE}@h"),
    ("http://u:p q@h", "http://u:p q@h"),
    kept("http://h/?a:b"),
    ("http://a@b:c", f"http://{GONE}@b:c"),
]


@pytest.mark.parametrize(("text", "clean"), ADDRESSES)
def test_an_address_keeps_all_but_its_password(text: str, clean: str) -> None:
    assert scrub_text(text) == clean
    assert scrub_text(f"see {text} there") == f"see {clean} there"
