"""Takes what looks like a secret out of text that may be logged.

Every pattern is linear in its input, whoever wrote it.

Source: REQUIREMENTS B150, B163-B165; CASES N07.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from placet.rules.field_names import SECRET_PARTS, SECRET_WORDS
from placet.rules.placeholders import REDACTED


def scrub_text(text: str) -> str:
    """Replace what looks like a secret by `[REDACTED]`, and leave the rest.

    Covers `name=value` and `name: value` with secret names (bare, quoted, with escaped quotes, as a `--flag value`),
    Authorization and Cookie lines, bearer tokens, JWTs, well-known API keys, PEM private keys, passwords in URLs and
    query strings, passwords in SQL and in lines of a PostgreSQL password file, Chinese mobile numbers and E.164
    numbers. When in doubt it removes too much: the whole of a text in which each secret taken away shows another one,
    again and again. Linear in the text. What was scrubbed is scrubbed to itself.

    Source: REQUIREMENTS B150, B163-B165; CASES N07.
    """
    # Without one secret, what is left may read as another; mostly the second round is the last.
    for _ in range(_MAX_ROUNDS):
        clean = _scrubbed_once(text)
        if clean == text:
            return text
        text = clean
    return REDACTED  # each secret taken away still shows another one: nothing in it is to be trusted


_MAX_ROUNDS: Final = 8


def _scrubbed_once(text: str) -> str:
    lowered = text.lower()
    if "begin " in lowered:
        text = _PRIVATE_KEY.sub(REDACTED, text)
    if "://" in lowered:
        text = _URL.sub(_without_password, text)
    if any(word in lowered for word in _STATEMENT_WORDS):
        text = _pattern_of_statements().sub(rf"\g<name>{REDACTED}", text)
    if lowered.count(":") >= _COLONS_OF_A_PASSWORD_FILE:
        for pattern in _patterns_of_password_files():
            text = pattern.sub(rf"\g<name>{REDACTED}", text)
    # Names before all that has none: a bearer token or a query value would run on over the name of the next secret.
    if any(word in lowered for word in _WORDS_IN_TEXT):
        for pattern in _patterns_of_names():
            text = pattern.sub(rf"\g<name>{REDACTED}", text)
    if "=" in lowered:
        text = _pattern_of_query().sub(rf"\g<1>{REDACTED}", text)
    if any(mark in lowered for mark in _KEY_MARKS):
        text = _pattern_of_keys().sub(REDACTED, text)
    if _ELEVEN_DIGITS.search(lowered) or "+" in lowered:
        text = _pattern_of_numbers().sub(lambda match: match["keep"] or REDACTED, text)
    return text


# Every quantifier below is possessive, bounded, or followed only by what cannot fail. A pattern that could fail after a
# long run would start again one character later, and that is quadratic. Of a group only what follows may be used: until
# 3.11.5 CPython loses its place when a possessive group fails half-way (github.com/python/cpython/issues/106052).
_URL: Final = re.compile(r"://(?:(?!://)\S)*")
_PORT: Final = re.compile(r":\d{0,5}(?!\w)")
_ELEVEN_DIGITS: Final = re.compile(r"1[3-9]\d[ -]?\d{4}[ -]?\d{4}")
_WORDS_IN_TEXT: Final = tuple(sorted({part for word in SECRET_WORDS for part in word.split("_")[-1:]} | SECRET_PARTS))
_STATEMENT_WORDS: Final = ("password", "passwd", "identified")
_COLONS_OF_A_PASSWORD_FILE: Final = 4
_KEY_MARKS: Final = (
    "bearer",
    "basic",
    "eyj",
    "sk",
    "rk",
    "pk",
    "placet_",
    "gh",
    "github_pat_",
    "glpat-",
    "xox",
    "akia",
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.)*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
_HEADERS: Final = frozenset(("authorization", "cookie"))  # their values have blanks and end with the line
_QUERY_NAMES: Final = "key|sig|signature|code|auth|pass|session|sessionid|sid|x-amz-signature"


def _without_password(match: re.Match[str]) -> str:
    """Redact the user information of one URL, given from `://` to the next blank.

    People write passwords with raw `/`, `?` and `@`, so the authority is not simply what precedes the first slash.
    """
    rest = match[0][3:]
    authority = re.match(r"[^/?#]*", rest)[0]  # type: ignore[index]  # an empty match is a match
    colon = authority.find(":")
    at = authority.rfind("@")
    if at < 0 and (colon == 0 or (colon > 0 and not _PORT.match(authority, colon))):
        at = rest.rfind("@")
    if at < 0:
        return match[0]
    if 0 <= colon < at:
        return f"://{rest[:colon]}:{REDACTED}{rest[at:]}"
    scheme = match.string[max(0, match.start() - 5) : match.start()].lower()
    return f"://{REDACTED}{rest[at:]}" if scheme.endswith(("http", "https")) else match[0]


@cache
def _pattern_of_statements() -> re.Pattern[str]:
    """`PASSWORD '...'` and `IDENTIFIED BY '...'` with what SQL knows as quotes, up to sixteen blanks before them."""
    return re.compile(
        r"(?i)(?P<name>\b(?:passwd|password|identified\s{1,8}+by(?:\s{1,8}+password)?)\s{1,16}+)(?:[en]|u&)?(?:"
        r"(?P<quote>\\{1,16}+[\"'])(?s:.)*?(?:(?<!\\)(?P=quote)|\Z)"
        r"|'[^'\\]*+(?:(?:''|\\(?s:.|\Z))[^'\\]*+)*(?:'|\Z)"
        r"|\"[^\"\\]*+(?:\\(?s:.|\Z)[^\"\\]*+)*(?:\"|\Z)"
        r"|\$(?P<tag>(?:[a-z_]\w{0,62}+)?)\$(?s:.)*?(?:\$(?P=tag)\$|\Z))"
    )


@cache
def _patterns_of_password_files() -> tuple[re.Pattern[str], ...]:
    """`host:port:database:user:password`: to the end of a line of its own, and else to the next blank.

    A database's name is not all digits and a password has no bare colon, or times and hardware addresses would do.
    """
    field = r"(?=[^\s:])[^\s:\\\"']*+(?:\\\S[^\s:\\\"']*+)*:"
    entry = rf"{field}(?:\d{{1,5}}|\*):(?!\d+:){field}{field}"
    return (
        re.compile(rf"(?m)^(?P<name>{entry})(?=\S)[^:\\\r\n]*+(?:\\[^\r\n][^:\\\r\n]*+)*\\?(?=[\r\n]|\Z)"),
        re.compile(rf"(?<![^\s\"'])(?P<name>{entry})(?=\S)[^\s:\\]*+(?:\\\S[^\s:\\]*+)*\\?(?=\s|\Z)"),
    )


@cache
def _pattern_of_query() -> re.Pattern[str]:
    return re.compile(rf"(?i)([?&;](?:{_QUERY_NAMES})=)[^\s&#]++")


@cache
def _patterns_of_names() -> tuple[re.Pattern[str], ...]:
    words = "|".join(
        re.escape(word).replace("_", r"[_\-. ]?") for word in sorted(SECRET_WORDS - _HEADERS, reverse=True)
    )
    parts = "|".join(sorted(SECRET_PARTS))
    name = rf"(?:(?:{words})[\w.\-]{{0,64}}+|(?<![a-z0-9])(?:{parts}))"  # a gap or blanks follow
    header = rf"(?:{'|'.join(sorted(_HEADERS))})[\w.\-]{{0,64}}+"
    gap = r"""(?:\\{0,16}+["'])?[\])]?\s{0,16}+(?:=>|:=|[:=])\s{0,16}+"""
    flag = rf"--(?:[a-z0-9]{{1,24}}-){{0,3}}{name}\s{{1,8}}+"
    # A value ends where the next secret has its name: that name taken away, its value would be left standing.
    inside = rf"(?!{name}{gap}|{header}{gap}|{flag})"
    # A quoted name of a secret is no value where another value follows it, which would be left standing.
    quoted_name = rf"""\\{{0,16}}+["'](?:{name}|{header})\\{{0,16}}+["'][\])]?\s{{0,16}}+(?:=>|:=|[:=])"""
    quoted = (
        rf"""(?!{quoted_name})"""
        r"""(?:(?P<quote>\\{1,16}+["'])(?s:.)*?(?:(?<!\\)(?P=quote)|\Z)"""
        r"""|"[^"\\]*+(?:\\(?s:.|\Z)[^"\\]*+)*(?:"|\Z)"""
        r"""|'[^'\\]*+(?:\\(?s:.|\Z)[^'\\]*+)*(?:'|\Z))"""
        rf"""(?:{inside}[^\s&,;)\]}}"'\\])*"""
    )
    placed = rf"{re.escape(REDACTED)}(?=[\s&,;)\]}}\"'\\]|\Z|{name}{gap}|{header}{gap}|{flag})"
    group = rf"[{{\[](?:{inside}[^}}\]\r\n])*(?:{inside}[^\s&])*"
    scheme = r"(?:(?:bearer|basic|token|digest|negotiate)\s{1,8}+)?"
    bare = (
        rf"{scheme}"
        rf"(?:{inside}(?:\\\s|[^\s&]|&(?![\w.%~\[\]\-]{{1,64}}+=)))+"
    )
    return (
        re.compile(rf"(?i)(?P<name>{name}{gap})(?:{placed}|{quoted}|{group}|{bare})"),
        re.compile(rf"(?i)(?P<name>{flag})(?:{placed}|{quoted}|(?!-){scheme}(?:{inside}\S)+)"),
        re.compile(
            rf"(?i)(?P<name>{header}{gap})(?:{re.escape(REDACTED)}(?=[,;)\]}}\"'\\\r\n]|\Z)|{quoted}|[^\r\n]++)"
        ),
    )


@cache
def _pattern_of_keys() -> re.Pattern[str]:
    return re.compile(
        r"\b(?i:bearer)\s{1,8}+(?:(?i:bearer)\s{1,8}+){0,8}[^\s\"',;]++"
        r"|\b[Bb]asic\s{1,8}+[A-Za-z0-9+/]{8,}+={0,2}+(?:\[REDACTED\])?"
        r"|(?<![A-Za-z0-9])(?:"
        r"eyJ[\w\-]{8,}+(?:\.[\w\-]*+){0,4}"
        r"|[srp]k[-_][\w\-]{8,}+"
        r"|placet_[0-9a-f]{24}_[0-9a-f]{8,}+"
        r"|gh[pousr]_\w{16,}+|github_pat_\w{16,}+|glpat-[\w\-]{16,}+|xox[a-z]-[\w\-]{8,}+|(?:AKIA[0-9A-Z]{16})+"
        r")"
    )


@cache
def _pattern_of_numbers() -> re.Pattern[str]:
    # Digests and UUIDs are kept whole: eleven fitting digits turn up in them by chance.
    return re.compile(
        r"(?P<keep>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32,}+)"
        r"|(?<!\d)(?<!\d\.)(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)"
        r"|(?<![\w+])(?:\+[1-9](?:[ ().\-]{0,2}\d){6,14}(?!\d))+"
    )
