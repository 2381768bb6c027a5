"""Names of tools and their members: which only the server may say, and which mark a generic executor.

A name is compared however it is written: `tenant-id`, `X-Tenant-ID` and `tenantId` are one name, and `runShell` has the
parts of `run_shell`. A pattern is there for a name if it fits it and fits no name that means nothing; one that fits
those too speaks of names at large, as a mapping does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

_SERVER_WORDS: Final = (
    ("tenant",), ("tenant", "id"), ("operation", "key"), ("idempotency", "key"), ("approval", "id"), ("principal",),
    ("call", "context"),
)  # fmt: skip
SERVER_NAMES: Final = frozenset(map("".join, _SERVER_WORDS))
"""What only the server may say, in small letters without separators. An argument of such a name would let a model say
it (B028, B037, H007)."""

GENERIC_NAME_PARTS: Final = frozenset(
    {"shell", "bash", "exec", "execute", "eval", "sql", "psql", "subprocess", "powershell", "cmd", "curl", "wget"}
)
"""Parts of a tool's name that mark a generic executor: the model would choose what runs, not only with what (B035)."""

GENERIC_FIELDS: Final = frozenset(
    {
        "command",
        "cmd",
        "shell",
        "script",
        "sql",
        "sql_query",
        "sqlquery",
        "statement",
        "code",
        "url",
        "uri",
        "endpoint",
        "argv",
    }
)
"""Members that mark one by their whole name: a country has a code, too."""

GENERIC_FIELD_PARTS: Final = frozenset(
    {"command", "cmd", "shell", "bash", "powershell", "script", "sql", "psql", "subprocess", "argv"}
)
"""Members that mark one by any part of their name."""

_SEPARATORS: Final = re.compile(r"[\W_]+")
_HUMPS: Final = re.compile(
    r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
)
_MEANINGLESS: Final = (
    "zqxj", "Zqxj", "ZQXJ", "zqxj_wvk", "zqxj-wvk", "zqxjWvk", "ZQXJ_WVK", "Zqxj-Wvk", "x-zqxj", "X-Zqxj-Wvk",
    "q", "q7",
)  # fmt: skip
_ADDRESSES: Final = ("https://zqxj.example/wvk", "http://wvk.test/zqxj?q=1", "ftp://zqxj.example/wvk")
_NO_ADDRESSES: Final = ("zqxj", "zqxj wvk", "/zqxj/wvk", "zqxj.wvk", "7")

_LONGEST_REMEMBERED: Final = 64

Fits = Callable[[str], bool]


def is_server_name(name: str) -> bool:
    """Whether only the server may say it, however it is written."""
    return _is_known_server_name(name) if len(name) <= _LONGEST_REMEMBERED else _is_server_name(name)


def _is_server_name(name: str) -> bool:
    return _bare(name).removeprefix("x") in SERVER_NAMES


_is_known_server_name = lru_cache(maxsize=1024)(_is_server_name)  # a contract's names come with every call


def is_generic_tool(name: str) -> bool:
    """Whether a tool of this name lets the model choose what runs."""
    return not GENERIC_NAME_PARTS.isdisjoint(_parts(name))


def is_generic_member(name: str) -> bool:
    """Whether a member of this name lets the model choose what runs."""
    parts = _parts(name)
    single = parts | {part.removesuffix("s") for part in parts}
    whole = _SEPARATORS.sub("_", unicodedata.normalize("NFKC", name).casefold()).strip("_")
    return whole in GENERIC_FIELDS or not GENERIC_FIELD_PARTS.isdisjoint(single)


def names_server_name(fits: Fits) -> bool:
    """Whether a pattern of names is there for one that only the server may say."""
    return _is_there_for(fits, (each for words in _SERVER_WORDS for each in _spellings(words)))


def names_generic_member(fits: Fits) -> bool:
    """Whether a pattern of names is there for one that marks a generic executor."""
    words = (name.split("_") for name in (*GENERIC_FIELDS, *GENERIC_FIELD_PARTS))
    return _is_there_for(fits, (each for several in words for each in _spellings(several)))


def fits_names_at_large(fits: Fits) -> bool:
    """Whether a pattern fits names that mean nothing, of every usual spelling."""
    return all(map(fits, _MEANINGLESS))


def fits_any_address(fits: Fits) -> bool:
    """Whether a pattern of texts lets in addresses of any host, and asks for an address."""
    return any(map(fits, _ADDRESSES)) and not any(map(fits, _NO_ADDRESSES))


def _is_there_for(fits: Fits, names: Iterable[str]) -> bool:
    if any(map(fits, _MEANINGLESS)):
        return False
    return any(fits(name) and not any(map(fits, _alike(name))) for name in names)


def _alike(name: str) -> Iterator[str]:
    """Names that mean nothing and begin or end as it does: `^a` and `_id$` are there for no single name."""
    short = len(name) - 2
    yield from (name[:length] + _MEANINGLESS[0] for length in range(1, min(short, 3) + 1))
    yield from (_MEANINGLESS[0] + name[-length:] for length in range(1, min(short, 4) + 1))


def _spellings(words: Sequence[str]) -> Iterator[str]:
    for several in (words, ("x", *words)):
        for joiner in ("", "_", "-"):
            joined = joiner.join(several)
            yield from (joined, joined.upper(), joiner.join(map(str.capitalize, several)))
        yield several[0] + "".join(map(str.capitalize, several[1:]))
    yield "X-" + "-".join(word.upper() if word == "id" else word.capitalize() for word in words)
    yield words[0] + "".join(word.upper() if word == "id" else word.capitalize() for word in words[1:])


def _bare(name: str) -> str:
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", name).casefold())


def _parts(name: str) -> frozenset[str]:
    spaced = _HUMPS.sub(" ", unicodedata.normalize("NFKC", name))
    return frozenset(_SEPARATORS.split(spaced.casefold()))
