"""Turns values we did not make into values and text that are safe to write down or to show.

Four questions, each with one answer for the whole product:

    sanitise(value)             what of this value may be logged?
    scrub_text(text)            what of this text may be logged?
    safe_exception_name(kind)   what is this exception called?
    escape_for_people(text)     what does a person see of this text?

Invariants:
- Nothing here raises because of the data. Foreign code is reached only through `items()`, iteration and an enum's
  `value`; whatever comes out of it, `BaseException` included, is a failure of the data and becomes a placeholder.
- A class is recognised by identity in its real method resolution order. `isinstance` would ask the object's own
  `__class__`, and a lookup by class would ask its metaclass for `__hash__` and `__eq__`.
- Text is taken only from values that really are text, never from `__str__`, `__repr__` or `__format__`.
- Work is bounded for each collection and in total, and every pattern is linear in its input.

Source: REQUIREMENTS B143-B154, B163-B167; CASES F02, M01, N07.
"""

from __future__ import annotations

import builtins
import math
import re
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from placet import errors

JsonSafe: TypeAlias = bool | int | float | str | list["JsonSafe"] | dict[str, "JsonSafe"] | None

DEPTH_LIMIT: Final = "[DEPTH_LIMIT]"
ITEM_LIMIT: Final = "[ITEM_LIMIT]"
TRUNCATED: Final = "[TRUNCATED]"
CYCLE: Final = "[CYCLE]"
REDACTED: Final = "[REDACTED]"
UNREADABLE_MAPPING: Final = "[UNREADABLE_MAPPING]"
UNREADABLE_COLLECTION: Final = "[UNREADABLE_COLLECTION]"
UNREADABLE_ENUM: Final = "[UNREADABLE_ENUM]"
UNSERIALIZABLE: Final = "[UNSERIALIZABLE]"
UNSUPPORTED_KEY: Final = "[UNSUPPORTED_KEY]"
NON_FINITE_FLOAT: Final = "[NON_FINITE_FLOAT]"
GIANT_INTEGER: Final = "[GIANT_INTEGER]"
UNTRUSTED_EXCEPTION: Final = "untrusted_exception"

MAX_DEPTH: Final = 8
"""Containers inside one another that are still shown; the next one is `[DEPTH_LIMIT]`."""
MAX_ITEMS: Final = 256
"""Members shown of one container."""
MAX_TEXT: Final = 2048
"""Characters shown of one text, after scrubbing."""
MAX_INTEGER_BITS: Final = 64

# The limits above multiply: 256 members, eight deep, is more than memory. These bound one value as a whole.
MAX_NODES: Final = 4096
_MAX_SCANNED: Final = 8 * MAX_TEXT
_MAX_SCANNED_IN_ALL: Final = MAX_ITEMS * MAX_TEXT

SECRET_WORDS: Final = frozenset(
    [
        *("authorization", "api_key", "apikey", "access_key", "private_key", "credential", "cookie", "secret", "token"),
        *(
            "password",
            "passwd",
            "passphrase",
            "pwd",
            "phone",
            "mobile",
            "msisdn",
            "密码",
            "密钥",
            "令牌",
            "手机",
            "电话",
        ),
    ]
)
"""A key that contains one of these, in any case and with any separators, holds a secret."""
SECRET_PARTS: Final = frozenset(("auth", "bearer", "cvc", "cvv", "jwt", "otp", "pin", "pw", "ssn"))
"""Too short to look for inside other words: secret only as a whole part of a key, as in `db_pw`."""
CONTENT_KEYS: Final = frozenset(
    [
        *(
            "question",
            "answer",
            "prompt",
            "completion",
            "query",
            "transcript",
            "messages",
            "message_text",
            "document_text",
            "text",
        ),
        *("arguments", "args", "kwargs", "input", "result", "results", "output", "content", "contents", "body"),
        *("reason", "comment", "note", "justification"),
    ]
)
"""A key that is one of these, or ends in one as in `system_prompt`, holds what people or models said."""
IDENTIFIER_PARTS: Final = frozenset(("id", "ids", "uuid", "guid", "no", "number", "ref"))
"""A key whose last part is one of these names a thing."""


class KeyKind(Enum):
    """What a key says about its value; a key is of the first kind that fits."""

    SECRET = "secret"  # noqa: S105 - names a kind of key
    CONTENT = "content"
    IDENTIFIER = "identifier"
    PLAIN = "plain"


class KeyRules:
    """Which keys hold secrets and which hold content: ours, and those a deployment adds.

    Attributes:
        known: kinds already worked out, at most 4,096; read it first where speed matters.
    """

    __slots__ = ("_content", "_secret", "known")

    def __init__(self, *, also_secret: Iterable[str] = (), also_content: Iterable[str] = ()) -> None:
        self._secret = tuple(sorted({_squeezed(word) for word in SECRET_WORDS | frozenset(also_secret)} - {""}))
        self._content = tuple(sorted("_" + _in_parts(word) for word in CONTENT_KEYS | frozenset(also_content)))
        self.known: dict[str, KeyKind] = {}

    def kind(self, key: str) -> KeyKind:
        """Say what `key`, an exact `str`, tells of its value."""
        kind = self.known.get(key)
        if kind is None:
            kind = self._judge(key)
            if len(key) <= 128:
                if len(self.known) >= 4096:
                    self.known.clear()
                self.known[key] = kind
        return kind

    def _judge(self, key: str) -> KeyKind:
        if len(key) > MAX_TEXT:
            return KeyKind.SECRET  # nobody names a field like that, and a word could hide anywhere in it
        squeezed, in_parts = _squeezed(key), _in_parts(key)
        parts = in_parts.split("_")
        if any(word in squeezed for word in self._secret) or not SECRET_PARTS.isdisjoint(parts):
            return KeyKind.SECRET
        if ("_" + in_parts).endswith(self._content):
            return KeyKind.CONTENT
        return KeyKind.IDENTIFIER if parts[-1] in IDENTIFIER_PARTS else KeyKind.PLAIN


def _squeezed(key: str) -> str:
    """`X-Api_Key`, in full-width letters or with invisible characters inside, is `xapikey`."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", key).casefold()))


def _in_parts(key: str) -> str:
    """`systemPrompt` and `System-Prompt` are `system_prompt`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", key))
    return re.sub(r"[\W_]+", "_", spaced).strip("_").casefold()


STANDARD_KEYS: Final = KeyRules()


# Reading values that may be hostile


class Scalar(NamedTuple):
    """A leaf of an exact built-in type; numbers are finite and of at most 64 bits."""

    value: bool | int | float | str | None


class Members(NamedTuple):
    """A mapping's pairs: the first ones, and one more than was asked for if there are more."""

    pairs: list[tuple[object, object]]


class Items(NamedTuple):
    """A collection's members, likewise; a set has no order."""

    values: list[object]
    ordered: bool


class Wrapped(NamedTuple):
    """What an enum member stands for."""

    value: object


class Unreadable(NamedTuple):
    """A value we cannot or will not read, and the placeholder that says so."""

    placeholder: str


Reading: TypeAlias = Scalar | Members | Items | Wrapped | Unreadable

_mro_of = type.__dict__["__mro__"].__get__
_MAPPINGS: Final = frozenset(map(id, (dict, Mapping, MappingProxyType)))
_EMPTY: Final[dict[str, str]] = {}
_VIEWS: Final = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_SETS: Final = frozenset(map(id, (set, frozenset)))
_COLLECTIONS: Final = _SETS | frozenset(map(id, (list, tuple, deque, Collection, *_VIEWS)))


def read(value: object, *, limit: int = MAX_ITEMS) -> Reading:
    """Look at one value, one level deep, without trusting it; never raises on account of the data."""
    if type(value) is dict:
        return Members(list(value.items() if len(value) <= limit else islice(value.items(), limit + 1)))
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return Scalar(value)  # type: ignore[arg-type]  # mypy does not narrow by identity of a stored type
    if type(value) is int:
        return Scalar(value) if value.bit_length() <= MAX_INTEGER_BITS else Unreadable(GIANT_INTEGER)
    if type(value) is float:
        return Scalar(value) if math.isfinite(value) else Unreadable(NON_FINITE_FLOAT)
    if type(value) is list:
        return Items(value[: limit + 1], True)
    try:
        return _read_foreign(value, limit)
    except Exception:  # no foreign code runs there, yet a class may lie about what it is
        return Unreadable(UNSERIALIZABLE)


def _read_foreign(value: Any, limit: int) -> Reading:
    bases = {id(base) for base in _mro_of(type(value))}
    if id(Enum) in bases:
        return _enum(value)
    if id(str) in bases:
        return Scalar(str.__str__(value))
    if id(int) in bases:
        return read(int.__int__(value))
    if id(float) in bases:
        return read(float.__float__(value))
    if not _MAPPINGS.isdisjoint(bases):
        return _members(value, limit)
    if not _COLLECTIONS.isdisjoint(bases):
        return _items(value, limit, ordered=_SETS.isdisjoint(bases))
    if id(BaseException) in bases:
        return Scalar(safe_exception_name(value))
    return _known_leaf(value)


def _enum(value: Any) -> Reading:
    try:
        return Wrapped(value.value)
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_ENUM)


def _members(value: Any, limit: int) -> Reading:
    try:
        pairs = list(islice(iter(value.items()), limit + 1))
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_MAPPING)
    if all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
        return Members(pairs)
    return Unreadable(UNREADABLE_MAPPING)


def _items(value: Any, limit: int, *, ordered: bool) -> Reading:
    try:
        return Items(list(islice(iter(value), limit + 1)), ordered)
    except BaseException:  # a foreign object raises what it likes
        return Unreadable(UNREADABLE_COLLECTION)


def _known_leaf(value: object) -> Reading:
    """Render the few standard classes whose text is made by C code, or by us, from exact parts."""
    if type(value) is datetime or type(value) is time:
        zone = value.tzinfo  # a foreign zone would be asked for its offset while rendering
        if zone is None or type(zone) is timezone or type(zone) is ZoneInfo:
            return Scalar(value.isoformat())
    if type(value) is date:
        return Scalar(value.isoformat())
    if type(value) is Decimal:
        return Scalar(str(value)) if value.is_finite() else Unreadable(NON_FINITE_FLOAT)
    if type(value) is UUID and type(value.int) is int and 0 <= value.int < 1 << 128:
        return Scalar(str(value))
    return Unreadable(UNSERIALIZABLE)


def plain_text(value: object) -> str | None:
    """Return the characters of a `str` of any class, or of an enum's text, as an exact `str`; None for the rest."""
    if type(value) is str:
        return value
    try:
        bases = {id(base) for base in _mro_of(type(value))}
        reading = _read_foreign(value, 0) if id(Enum) in bases or id(str) in bases else None
    except Exception:  # as in `read`
        return None
    text = reading.value if type(reading) is Scalar or type(reading) is Wrapped else None
    return text if type(text) is str else None


# Sanitising


def sanitise(value: object, *, keys: KeyRules = STANDARD_KEYS) -> JsonSafe:
    """Copy `value` into plain JSON that may be logged; what may not, or cannot, be shown becomes a placeholder.

    At most eight containers deep, 256 members each and 4,096 values in all, 2,048 characters a text. Content becomes
    its size, secrets vanish by key and by pattern. The result is finite, shares nothing with `value`, and holds only
    exact built-in types and well-formed text. Placeholders in `value` stay as they are.

    Source: REQUIREMENTS B143-B150, B163-B167.
    """
    try:
        return _Sanitiser(keys).value(value, 0)
    except Exception:  # memory or stack at an end in our own code; foreign code never gets this far
        return UNSERIALIZABLE


_PLACED = re.compile(r"\[CONTENT(?::\d{1,20} (?:chars|items))?\]")


class _Sanitiser:
    """One walk over one value: what is open above us, and what may still be spent."""

    def __init__(self, keys: KeyRules) -> None:
        self._keys = keys
        self._open: list[int] = []
        self._nodes = MAX_NODES
        self._characters = _MAX_SCANNED_IN_ALL

    def value(self, value: object, depth: int) -> JsonSafe:
        if self._nodes <= 0:
            return ITEM_LIMIT
        self._nodes -= 1
        reading = read(value)
        if type(reading) is Scalar:
            return self._scalar(reading.value)
        if type(reading) is Unreadable:
            return reading.placeholder
        if id(value) in self._open:
            return CYCLE
        if depth >= MAX_DEPTH:
            return DEPTH_LIMIT
        self._open.append(id(value))
        try:
            return self._inside(reading, depth + 1)
        finally:
            self._open.pop()

    def _inside(self, reading: Reading, depth: int) -> JsonSafe:
        match reading:
            case Members(pairs):
                return self._mapping(pairs, depth)
            case Items(values):
                return self._collection(values, depth)
            case Wrapped(inner):
                return self.value(inner, depth)
            case Scalar(plain):
                return self._scalar(plain)
            case Unreadable(placeholder):
                return placeholder

    def _mapping(self, pairs: list[tuple[object, object]], depth: int) -> JsonSafe:
        shown: dict[str, JsonSafe] = {}
        for key, member in pairs[:MAX_ITEMS]:
            text = plain_text(key)
            name = UNSUPPORTED_KEY if text is None else self._text(text)
            if name in shown:
                name = f"{name}#{len(shown)}"
            shown[name] = self.value(member, depth) if text is None else self._member(text, member, depth)
        if len(pairs) > MAX_ITEMS:
            shown[ITEM_LIMIT] = ITEM_LIMIT
        return shown

    def _member(self, key: str, member: object, depth: int) -> JsonSafe:
        match self._keys.kind(key):
            case KeyKind.SECRET:
                return REDACTED
            case KeyKind.CONTENT:
                return _size_of_content(member)
            case _:
                return self.value(member, depth)

    def _collection(self, values: list[object], depth: int) -> JsonSafe:
        shown = [self.value(member, depth) for member in values[:MAX_ITEMS]]
        # A header or form field is often a pair, and then its key is a value to us.
        if len(shown) == 2 and type(shown[0]) is str and self._keys.kind(shown[0]) is KeyKind.SECRET:
            shown[1] = REDACTED
        return [*shown, ITEM_LIMIT] if len(values) > MAX_ITEMS else shown

    def _scalar(self, plain: bool | int | float | str | None) -> JsonSafe:
        if type(plain) is str:
            return self._text(plain)
        if (type(plain) is int or type(plain) is float) and 13_000_000_000 <= plain < 20_000_000_000:
            return REDACTED  # a mobile number that lost its quotes
        return plain

    def _text(self, text: str) -> str:
        if self._characters <= 0:
            return TRUNCATED
        scanned = text[:_MAX_SCANNED]
        self._characters -= len(scanned)
        if len(text) > _MAX_SCANNED:
            scanned = scanned.rpartition(" ")[0] or scanned  # half a secret may not look like one
        clean = scrub_text(well_formed(scanned))
        return clean[:MAX_TEXT] + TRUNCATED if len(text) > _MAX_SCANNED or len(clean) > MAX_TEXT else clean


def _size_of_content(value: object) -> JsonSafe:
    if value is None:
        return None
    text = plain_text(value)
    if text is not None:
        return text if _PLACED.fullmatch(text) else f"[CONTENT:{len(text)} chars]"
    if type(value) is dict or type(value) is list or type(value) is tuple:
        return f"[CONTENT:{len(value)} items]"
    return "[CONTENT]"


def well_formed(text: str) -> str:
    """Spell out lone surrogates, which no UTF-8 writer and no strict JSON reader accepts."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


# Scrubbing text


def scrub_text(text: str) -> str:
    """Replace what looks like a secret by `[REDACTED]`, and leave the rest.

    Covers `name=value` and `name: value` with secret names (bare, quoted, with escaped quotes, as a `--flag value`),
    Authorization and Cookie lines, bearer tokens, JWTs, well-known API keys, PEM private keys, passwords in URLs and
    query strings, Chinese mobile numbers and E.164 numbers. When in doubt it removes too much. Linear in the text.
    What was scrubbed is scrubbed to itself.

    Source: REQUIREMENTS B150, B163-B165; CASES N07.
    """
    for _ in range(
        _MAX_ROUNDS
    ):  # without one secret, what is left may read as another; mostly the second round is the last
        clean = _scrubbed_once(text)
        if clean == text:
            break
        text = clean
    return text


_MAX_ROUNDS: Final = 8


def _scrubbed_once(text: str) -> str:
    lowered = text.lower()
    if "begin " in lowered:
        text = _PRIVATE_KEY.sub(REDACTED, text)
    if "://" in lowered:
        text = _URL.sub(_without_password, text)
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
_KEY_MARKS: Final = ("bearer", "basic", "eyj", "sk", "rk", "pk", "gh", "github_pat_", "glpat-", "xox", "akia")
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
    quoted = (
        r"""(?:(?P<quote>\\{1,16}+["'])(?s:.)*?(?:(?<!\\)(?P=quote)|\Z)"""
        r"""|"[^"\\]*+(?:\\(?s:.|\Z)[^"\\]*+)*(?:"|\Z)"""
        r"""|'[^'\\]*+(?:\\(?s:.|\Z)[^'\\]*+)*(?:'|\Z))"""
        rf"""(?:{inside}[^\s&,;)\]}}"'\\])*"""
    )
    placed = rf"{re.escape(REDACTED)}(?=[\s&,;)\]}}\"'\\]|\Z|{name}{gap}|{header}{gap}|{flag})"
    group = rf"[{{\[](?:{inside}[^}}\]\r\n])*(?:{inside}[^\s&])*"
    bare = (
        r"(?:(?:bearer|basic|token|digest|negotiate)\s{1,8}+)?"
        rf"(?:{inside}(?:[^\s&]|&(?![\w.%~\[\]\-]{{1,64}}+=)))+"
    )
    return (
        re.compile(rf"(?i)(?P<name>{name}{gap})(?:{placed}|{quoted}|{group}|{bare})"),
        re.compile(rf"(?i)(?P<name>{flag})(?:{placed}|{quoted}|(?!-)(?:{inside}\S)+)"),
        re.compile(
            rf"(?i)(?P<name>{header}{gap})(?:{re.escape(REDACTED)}(?=[,;)\]}}\"'\\\r\n]|\Z)|{quoted}|[^\r\n]++)"
        ),
    )


@cache
def _pattern_of_keys() -> re.Pattern[str]:
    return re.compile(
        r"\b(?i:bearer)\s{1,8}+[^\s\"',;]++"
        r"|\b[Bb]asic\s{1,8}+[A-Za-z0-9+/]{8,}+={0,2}+(?:\[REDACTED\])?"
        r"|(?<![A-Za-z0-9])(?:"
        r"eyJ[\w\-]{8,}+(?:\.[\w\-]*+){0,4}"
        r"|[srp]k[-_][\w\-]{8,}+"
        r"|gh[pousr]_\w{16,}+|github_pat_\w{16,}+|glpat-[\w\-]{16,}+|xox[a-z]-[\w\-]{8,}+|AKIA[0-9A-Z]{16}"
        r")"
    )


@cache
def _pattern_of_numbers() -> re.Pattern[str]:
    # Digests and UUIDs are kept whole: eleven fitting digits turn up in them by chance.
    return re.compile(
        r"(?P<keep>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32,}+)"
        r"|(?<!\d)(?<!\d\.)(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)"
        r"|(?<![\w+])\+[1-9](?:[ ().\-]{0,2}\d){6,14}(?!\d)"
    )


# Names of exceptions


def _names_of_exceptions() -> dict[int, str]:
    ours = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    built_in = [kind for kind in vars(builtins).values() if isinstance(kind, type)]
    return {id(kind): kind.__name__ for kind in (*built_in, *ours) if issubclass(kind, BaseException)}


# By id: these classes live as long as the process, and asking a foreign class for its hash would run its metaclass.
_EXCEPTION_NAMES: Final = _names_of_exceptions()


def safe_exception_name(exc_type: object) -> str:
    """Name an exception, or its class, if the very class is a built-in one or ours; else `untrusted_exception`.

    Source: REQUIREMENTS B134, B152, B153; CASES M01.
    """
    return _EXCEPTION_NAMES.get(id(exc_type)) or _EXCEPTION_NAMES.get(id(type(exc_type)), UNTRUSTED_EXCEPTION)


def known_exception_name(name: str) -> str:
    """The name another process gave an exception, if `safe_exception_name` could have; else `untrusted_exception`."""
    return name if name in _EXCEPTION_NAMES.values() else UNTRUSTED_EXCEPTION


# Showing text to people

_NAMED_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Printable to Python, yet drawn as nothing: joiners, fillers, variation selectors, the empty braille cell.
_DRAWN_AS_NOTHING: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Zl", "Zp"))
_BLANKS: Final = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_NOT_PLAIN: Final = re.compile(
    rf"(?P<blanks>[{_BLANKS}]{{9,}}+)|(?P<slash>\\)|(?P<marker>\[)(?=\d{{1,9}} blanks\])|[^\x20-\x7e]"
)


def escape_for_people(text: str) -> str:
    r"""Show `text` so that nothing in it is invisible, moves the cursor, or changes the order of reading.

    Control, format, bidirectional, zero-width, private, unassigned, surrogate and ignorable characters, and every
    space but U+0020, appear as `\u{202e}`, or as `\n`, `\r`, `\t`. More than eight blanks in a row appear as
    `[42 blanks]`. A backslash or bracket that could be mistaken for one of these is escaped too, so no text can
    pretend to have been escaped. Letters of every script stay. For display only: what is signed and run is the text
    itself. Markup is not touched; a browser needs its own escaping on top.

    Raises:
        MisuseError: it is not text.

    Source: CASES F02; DESIGN section 9.
    """
    if not issubclass(type(text), str):
        raise errors.MisuseError("Only text can be shown to people as text.")
    return _NOT_PLAIN.sub(_shown, str.__str__(text))


def _shown(match: re.Match[str]) -> str:
    if match["blanks"]:
        return f"[{len(match[0])} blanks]"
    if match["marker"]:
        return r"\u{5b}"
    if not match["slash"]:
        return _shown_character(match[0])
    following = match.string[match.end() : match.end() + 1]
    mistakable = following and (following in "nrtu[\\" or _shown_character(following) != following)
    return r"\\" if mistakable else "\\"


def has_invisible(text: str) -> bool:
    """Whether a character of `text` is drawn as nothing or changes how others are drawn. Spaces are not counted."""
    return any(
        unicodedata.category(character) in _INVISIBLE or _DRAWN_AS_NOTHING.match(character) for character in text
    )


@lru_cache(maxsize=1024)
def _shown_character(character: str) -> str:
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    if character.isprintable() and not _DRAWN_AS_NOTHING.match(character):
        return character
    return f"\\u{{{ord(character):x}}}"
