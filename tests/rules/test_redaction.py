"""Nothing foreign runs, nothing secret stays, nothing raises; what people see is what is there."""

import asyncio
import builtins
import json
import re
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import placet
from placet import errors
from placet.rules.redaction import (
    KeyRules,
    escape_for_people,
    plain_text,
    safe_exception_name,
    sanitise,
    scrub_text,
)

MARKER = "LEAKED-7f3a91"


class Thrown(BaseException):
    """Not an Exception: a guard that catches those alone lets it through."""


THROWN: list[Any] = [Thrown, RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


def throwing(kind: type[BaseException] = Thrown) -> Any:
    def throw(*_: object, **__: object) -> Any:
        raise kind(MARKER)

    return throw


class HostileType(type):
    """Raises whenever anything is asked of the class; its own text is the marker."""

    __hash__ = throwing()
    __eq__ = throwing()
    __instancecheck__ = throwing()
    __subclasscheck__ = throwing()
    __name__ = property(throwing())
    __module__ = property(throwing())
    __str__ = throwing()
    __repr__ = throwing()


class Hostile(metaclass=HostileType):
    """Raises for whatever a value can be asked."""

    __class__ = property(throwing())
    __str__ = throwing()
    __repr__ = throwing()
    __format__ = throwing()
    __hash__ = throwing()
    __eq__ = throwing()
    __lt__ = throwing()
    __bool__ = throwing()
    __len__ = throwing()
    __iter__ = throwing()
    __getattribute__ = throwing()


class Talkative:
    """Answers everything, with the marker."""

    def __str__(self) -> str:
        return MARKER

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return MARKER

    def __iter__(self) -> Iterator[str]:
        return iter([MARKER])

    def items(self) -> list[tuple[str, str]]:
        return [(MARKER, MARKER)]


def mapping_raising(kind: type[BaseException]) -> object:
    return type("M", (dict,), {"items": throwing(kind)})({"a": MARKER})


def collection_raising(kind: type[BaseException]) -> object:
    return type("C", (list,), {"__iter__": throwing(kind)})([MARKER])


def enum_raising(kind: type[BaseException]) -> object:
    class Bad(Enum):
        ONE = MARKER
        value = property(throwing(kind))

    return Bad.ONE


def as_strict_json(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def nested(depth: int, *, inside: object = "bottom") -> object:
    value = inside
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.req("B143")
def test_eight_containers_are_shown_and_the_ninth_is_a_placeholder() -> None:
    assert sanitise(nested(8)) == nested(8)
    assert sanitise(nested(9)) == nested(8, inside="[DEPTH_LIMIT]")
    assert sanitise([[[[[[[[[1]]]]]]]]]) == [[[[[[[["[DEPTH_LIMIT]"]]]]]]]]


@pytest.mark.req("B143")
def test_256_members_are_shown_and_then_a_placeholder() -> None:
    assert sanitise(list(range(256))) == list(range(256))
    assert sanitise(list(range(257))) == [*range(256), "[ITEM_LIMIT]"]
    wide = {f"k{n}": n for n in range(300)}
    assert sanitise(wide) == {**{f"k{n}": n for n in range(256)}, "[ITEM_LIMIT]": "[ITEM_LIMIT]"}


@pytest.mark.req("B143")
def test_2048_characters_are_shown_and_then_a_placeholder() -> None:
    assert sanitise("x" * 2048) == "x" * 2048
    assert sanitise("x" * 2049) == "x" * 2048 + "[TRUNCATED]"
    assert sanitise({"k" * 5000: 1}) == {"k" * 2048 + "[TRUNCATED]": "[REDACTED]"}


@pytest.mark.req("B143")
def test_members_that_are_each_small_enough_are_bounded_together() -> None:
    shared: object = "leaf"
    for _ in range(8):
        shared = [shared] * 256

    assert len(as_strict_json(sanitise(shared))) < 300_000
    assert len(as_strict_json(sanitise(["word " * 3000] * 256))) < 100_000


@pytest.mark.req("B143")
def test_a_secret_cut_by_the_limit_is_not_shown_in_part() -> None:
    password = "hunter2" * 40
    shown = sanitise("x" * 2030 + f" redis://:{password}@host")

    assert type(shown) is str and "hunter2" not in shown
    shown = sanitise("token=" + "a" * 16_000 + f" redis://:{password * 4}@host")
    assert shown == "token=[REDACTED][TRUNCATED]"


@pytest.mark.req("B144", "B147")
@pytest.mark.parametrize("kind", THROWN)
def test_an_unreadable_container_or_enum_is_a_placeholder(kind: type[BaseException]) -> None:
    assert sanitise(mapping_raising(kind)) == "[UNREADABLE_MAPPING]"
    assert sanitise(collection_raising(kind)) == "[UNREADABLE_COLLECTION]"
    assert sanitise(enum_raising(kind)) == "[UNREADABLE_ENUM]"


@pytest.mark.req("B144")
def test_a_mapping_whose_items_are_no_pairs_is_unreadable() -> None:
    for pairs in [[1], [("a",)], ["ab"], [("a", 1, 2)], [Hostile()], None]:
        kind = type("M", (dict,), {"items": lambda self, pairs=pairs: pairs})

        assert sanitise(kind()) == "[UNREADABLE_MAPPING]"


@pytest.mark.req("B144")
def test_containers_that_never_end_are_cut() -> None:
    class Endless(Sequence[int]):
        def __getitem__(self, index: Any) -> Any:
            return 7

        def __len__(self) -> int:
            return 1

    class Deeper(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            return Deeper()

        def __iter__(self) -> Iterator[str]:
            return iter(["in"])

        def __len__(self) -> int:
            return 1

    class Inward(Enum):
        ONE = 1

        @property
        def value(self) -> Any:
            return [self]

    assert sanitise(Endless()) == [7] * 256 + ["[ITEM_LIMIT]"]
    assert sanitise(Deeper()) == nested(8, inside="[DEPTH_LIMIT]")
    assert sanitise(Inward.ONE) == ["[CYCLE]"]


@pytest.mark.req("B145")
def test_cycles_are_placeholders() -> None:
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    members: list[object] = [1]
    members.append((members,))

    assert sanitise(mapping) == {"self": "[CYCLE]"}
    assert sanitise(members) == [1, ["[CYCLE]"]]


def test_a_value_that_appears_twice_is_no_cycle() -> None:
    shared = {"a": 1}

    assert sanitise([shared, shared]) == [{"a": 1}, {"a": 1}]


@pytest.mark.req("B146", "B167")
def test_what_is_not_understood_is_one_placeholder_and_nothing_of_it_runs() -> None:
    for value in [Hostile(), HostileType, Hostile, Talkative(), object(), b"bytes", print, (x for x in "ab"), ...]:
        assert sanitise([value]) == ["[UNSERIALIZABLE]"]


@pytest.mark.req("B167")
def test_a_foreign_time_zone_is_not_asked() -> None:
    asked = []

    class Zone(tzinfo):
        def utcoffset(self, _: object) -> timedelta:
            asked.append("utcoffset")
            return timedelta(0)

        dst = tzname = throwing()

    assert sanitise(datetime(2026, 1, 2, 3, 4, tzinfo=Zone())) == "[UNSERIALIZABLE]"
    assert asked == []
    assert sanitise(datetime(2026, 1, 2, 3, 4, tzinfo=UTC)) == "2026-01-02T03:04:00+00:00"


@pytest.mark.req("B167")
def test_a_false_class_does_not_change_what_a_value_is() -> None:
    class Pretender(Talkative):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return str

    assert sanitise(Pretender()) == "[UNSERIALIZABLE]"
    assert plain_text(Pretender()) is None


@pytest.mark.req("B167")
def test_a_class_that_lies_about_its_bases_is_not_understood() -> None:
    class Liar(type):
        def mro(cls) -> list[type]:
            return [cls, object]

    class Hidden(dict[str, str], metaclass=Liar):
        pass

    assert sanitise(Hidden(a=MARKER)) == "[UNSERIALIZABLE]"


def test_subclasses_of_plain_types_show_their_data_and_not_their_methods() -> None:
    class Text(str):
        __slots__ = ()
        __str__ = __repr__ = __hash__ = __eq__ = __len__ = __getitem__ = throwing()

    class Whole(int):
        __str__ = __repr__ = __int__ = __index__ = throwing()

    class Real(float):
        __str__ = __repr__ = __float__ = throwing()

    shown = sanitise([Text("plain"), Whole(7), Real(1.5)])

    assert shown == ["plain", 7, 1.5]
    assert type(shown) is list and [type(each) for each in shown] == [str, int, float]


def test_well_known_standard_values_are_shown() -> None:
    class Colour(Enum):
        RED = "red"

    class Level(IntEnum):
        LOW = 1

    class Word(StrEnum):
        YES = "yes"

    assert sanitise(
        [
            *(Colour.RED, Level.LOW, Word.YES, Decimal("1.50"), date(2026, 1, 2), UUID(int=1), ValueError(MARKER)),
            *((1,), {2}, frozenset({3}), deque([4]), {"a": 5}.keys(), MappingProxyType({"b": 6}), OrderedDict(c=7)),
            *(defaultdict(int, d=8), UserDict(e=9), True, None),
        ]
    ) == [
        *("red", 1, "yes", "1.50", "2026-01-02", "00000000-0000-0000-0000-000000000001", "ValueError"),
        *([1], [2], [3], [4], ["a"], {"b": 6}, {"c": 7}),
        *({"d": 8}, {"e": 9}, True, None),
    ]


@pytest.mark.req("B130")
def test_keys_that_are_not_text_are_placeholders_and_none_is_lost() -> None:
    class Key:
        __eq__ = throwing()

        def __hash__(self) -> int:
            return 2

    assert sanitise({1: "a", Key(): "b", "c": "d"}) == {
        "[UNSUPPORTED_KEY]": "a",
        "[UNSUPPORTED_KEY]#1": "b",
        "c": "d",
    }


@pytest.mark.req("B148")
@pytest.mark.parametrize(
    "key",
    [
        *("authorization", "api_key", "apikey", "password", "passwd", "secret", "token", "cookie", "credential"),
        *("private_key", "access_key", "X-Api-Key", "apiKey", "CLIENT_SECRET", "refreshTokenValue", "Set-Cookie"),
        *("db_pw", "otp", "ｐａｓｓｗｏｒｄ", "pass\u200bword", "登录密码", "Proxy-Authorization"),
    ],
)
def test_the_value_under_a_secret_key_is_redacted_wherever_it_is(key: str) -> None:
    assert sanitise({"a": [{key: {"b": MARKER}}]}) == {"a": [{sanitise(key): "[REDACTED]"}]}


@pytest.mark.req("B163", "B164")
@pytest.mark.parametrize("key", ["phone", "mobile", "Phone_Number", "userMobile", "手机号"])
def test_the_value_under_a_phone_key_is_redacted(key: str) -> None:
    assert sanitise({key: 13812345678}) == {key: "[REDACTED]"}


@pytest.mark.parametrize("key", ["shipping", "author", "opinion", "spinner", "order", "upward", "keyboard"])
def test_words_that_merely_look_similar_are_shown(key: str) -> None:
    assert sanitise({key: "shown"}) == {key: "shown"}


def test_a_deployment_can_add_secret_and_content_keys() -> None:
    keys = KeyRules(also_secret={"IBAN"}, also_content={"diagnosis"})

    assert sanitise({"customerIban": "DE89", "diagnosis": "flu", "token": "t"}, keys=keys) == {
        "customerIban": "[REDACTED]",
        "diagnosis": "[CONTENT:3 chars]",
        "token": "[REDACTED]",
    }


def test_a_header_given_as_a_pair_is_redacted() -> None:
    assert sanitise([("X-Api-Key", "k-1"), ("Accept", "json")]) == [["X-Api-Key", "[REDACTED]"], ["Accept", "json"]]


@pytest.mark.req("B149")
@pytest.mark.parametrize(
    "key", ["question", "answer", "document_text", "prompt", "arguments", "result", "Prompt", "ｐｒｏｍｐｔ"]
)
def test_content_is_replaced_by_its_length(key: str) -> None:
    assert sanitise({"a": {key: "four"}}) == {"a": {key: "[CONTENT:4 chars]"}}


def test_a_fault_of_our_own_is_a_placeholder_too() -> None:
    class Broken(KeyRules):
        def kind(self, key: str) -> Any:
            raise MemoryError

    assert sanitise({"a": 1}, keys=Broken()) == "[UNSERIALIZABLE]"


@pytest.mark.req("B149")
def test_content_that_is_not_text_says_its_size_or_nothing() -> None:
    value = {"result": {"a": 1, "b": 2}, "answer": [1], "systemPrompt": 7, "question": None, "prompt": Hostile()}

    assert sanitise(value) == {
        "result": "[CONTENT:2 items]",
        "answer": "[CONTENT:1 items]",
        "systemPrompt": "[CONTENT]",
        "question": None,
        "prompt": "[CONTENT]",
    }


@pytest.mark.req("B149")
def test_a_placeholder_for_content_is_kept_and_a_forged_one_is_not() -> None:
    assert sanitise({"prompt": "[CONTENT:12 chars]"}) == {"prompt": "[CONTENT:12 chars]"}
    assert sanitise({"prompt": f"[CONTENT:{MARKER} chars]"}) == {"prompt": "[CONTENT:29 chars]"}
    assert sanitise({"prompt": f"[CONTENT:1 chars] {MARKER}"}) == {"prompt": "[CONTENT:31 chars]"}


def test_counts_of_prompts_are_not_prompts() -> None:
    assert sanitise({"prompt_count": 12}) == {"prompt_count": 12}


@pytest.mark.req("B166")
def test_numbers_no_strict_reader_takes_are_placeholders() -> None:
    shown = sanitise([float("nan"), float("inf"), -float("inf"), 10**5000, 2**64 - 1, -(2**64), Decimal("NaN")])

    assert shown == [
        *["[NON_FINITE_FLOAT]"] * 3,
        "[GIANT_INTEGER]",
        2**64 - 1,
        "[GIANT_INTEGER]",
        "[NON_FINITE_FLOAT]",
    ]


@pytest.mark.req("B164")
def test_a_mobile_number_that_is_a_number_is_redacted() -> None:
    assert sanitise([13_000_000_000, 19_999_999_999, 13812345678.0, 1_700_000_000_000, 12_999_999_999]) == [
        *["[REDACTED]"] * 3,
        1_700_000_000_000,
        12_999_999_999,
    ]


def test_lone_surrogates_are_spelt_out() -> None:
    assert sanitise({"a\ud800": "b\udc00"}) == {"a\\ud800": "b\\udc00"}


SCRUBBED = [
    ("password=hunter2", "password=[REDACTED]"),
    ("password = hunter2 and more", "password = [REDACTED] and more"),
    ("DB_PASSWORD: hunter2", "DB_PASSWORD: [REDACTED]"),
    ("login failed for svc pw=hunter2", "login failed for svc pw=[REDACTED]"),
    ('{"api_key": "two words", "n": 1}', '{"api_key": [REDACTED], "n": 1}'),
    (r'{"token": "a\"b c", "n": 1}', '{"token": [REDACTED], "n": 1}'),
    (r'{"secret": "a\\", "n": 1}', '{"secret": [REDACTED], "n": 1}'),
    (r'{"body": "{\"token\": \"a b\", \"n\": 1}"}', r'{"body": "{\"token\": [REDACTED], \"n\": 1}"}'),
    (r"{\"token\": \"a \\\" b\", \"n\": 1}", r"{\"token\": [REDACTED], \"n\": 1}"),
    ("{'access_key': 'it\\'s', 'n': 1}", "{'access_key': [REDACTED], 'n': 1}"),
    ('password="never closed and more', "password=[REDACTED]"),
    ("secret={'a': 1, 'b': 2}x tail", "secret=[REDACTED] tail"),
    ("password=a,b;c)d tail", "password=[REDACTED] tail"),
    ("api-key=a api.key=b apiKey=c", "api-key=[REDACTED] api.key=[REDACTED] apiKey=[REDACTED]"),
    ("curl --token abc --retry 3", "curl --token [REDACTED] --retry 3"),
    ("Authorization: Basic dXNlcjpwdw== tail\nnext", "Authorization: [REDACTED]\nnext"),
    ("{'Authorization': 'Bearer abc', 'n': 1}", "{'Authorization': [REDACTED], 'n': 1}"),
    ("password=sk-abcdefghijkl,more tail", "password=[REDACTED] tail"),
    ("Cookie: sk-abcdefghijkl session=1\nnext", "Cookie: [REDACTED]\nnext"),
    ("Cookie: a=1; b=2\nnext", "Cookie: [REDACTED]\nnext"),
    ("x-auth: Token abc tail", "x-auth: [REDACTED] tail"),
    ("password=a&b&c tail", "password=[REDACTED] tail"),
    ("token=Bearer abc tail", "token=[REDACTED] tail"),
    ("sent bearer abc.def-ghi tail", "sent [REDACTED] tail"),
    ("sent BEARER abc", "sent [REDACTED]"),
    ("with Basic dXNlcjpwdw==", "with [REDACTED]"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [REDACTED] end"),
    ("key sk-abcdefghijkl and ghp_abcdefghijklmnop1234", "key [REDACTED] and [REDACTED]"),
    ("AKIAABCDEFGHIJKLMNOP", "[REDACTED]"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- tail", "[REDACTED] tail"),
    ("postgres://svc:pw@db/x", "postgres://svc:[REDACTED]@db/x"),
    ("redis://:pw@host:6379/0", "redis://:[REDACTED]@host:6379/0"),
    ("redis://:12345/6@host", "redis://:[REDACTED]@host"),
    ("amqp://u:p@q@host/b@c", "amqp://u:[REDACTED]@host/b@c"),
    ("mysql://u:pa/ss?w@host", "mysql://u:[REDACTED]@host"),
    ("redis://:p1@h1,redis://:p2@h2", "redis://:[REDACTED]@h1,redis://:[REDACTED]@h2"),
    ("https://abc123@github.com/x", "https://[REDACTED]@github.com/x"),
    ("https://h/p?key=k-1&page=2#f", "https://h/p?key=[REDACTED]&page=2#f"),
    ("https://h/p?a=1&access_token=t&page=2", "https://h/p?a=1&access_token=[REDACTED]&page=2"),
    ("call 13812345678 now", "call [REDACTED] now"),
    ("手机13812345678号", "手机[REDACTED]号"),
    ("tel13812345678", "tel[REDACTED]"),
    ("+86 138-1234-5678", "[REDACTED]"),
    ("8613812345678", "[REDACTED]"),
    ("call +14155550123 or +44 20 7946 0958 now", "call [REDACTED] or [REDACTED] now"),
    # A value that runs on over the name of the next secret takes that name away, and the next value stands alone.
    ("token=a,password: hunter2 tail", "token=[REDACTED]password: [REDACTED] tail"),
    ("token=a;password => hunter2 tail", "token=[REDACTED]password => [REDACTED] tail"),
    ('token=a,"password": "hunter2"', 'token=[REDACTED]password": [REDACTED]'),
    ('"token": "a"x,password: hunter2', '"token": [REDACTED],password: [REDACTED]'),
    ("token={a}password: hunter2", "token=[REDACTED]password: [REDACTED]"),
    ("--token a,password: hunter2", "--token [REDACTED]password: [REDACTED]"),
    ("token=a,--password hunter2", "token=[REDACTED]--password [REDACTED]"),
    ("token=a,Cookie: b=1; c=2\nnext", "token=[REDACTED]Cookie: [REDACTED]\nnext"),
    ("Bearer a|password: hunter2", "[REDACTED] [REDACTED]"),
    ("https://h/p?sig=a,password: hunter2", "https://h/p?sig=[REDACTED] [REDACTED]"),
    ("eyJhbGciOiJIUzI1NiJ9password: hunter2", "[REDACTED]: [REDACTED]"),
    ("https://u:-----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY-----@h", "https://u:[REDACTED]@h"),
]


@pytest.mark.req("B150", "B163", "B164", "B165")
@pytest.mark.parametrize(("text", "clean"), SCRUBBED)
def test_secrets_in_text_are_scrubbed(text: str, clean: str) -> None:
    assert scrub_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "tool call completed in 12 ms",
        "http://host:8080/path@x and http://[::1]/",
        "ssh://git@host:22/x",
        "GET https://h/p?page=2",
        "order 123456789012, at 1700000000000, 0.13812345678, id 613812345678",
        "2026-01-02T03:04:05+08:00",
        "digest 0a13812345678f0000000000000000000000000000000000000000000000beef",
        "550e8400-e29b-41d4-a716-13812345678f",
        "task-management of a basic kind: monkeys, keyJoins",
        "the token was refused",
        "shipping=1 spin: 2 authors=3 cpw=4",
        "curl --token --retry 3",
        "offset +0123456789 and 1+1234567890",
        "",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert scrub_text(text) == text


@pytest.mark.parametrize("text", [text for text, _ in SCRUBBED])
def test_what_was_scrubbed_is_scrubbed_to_itself(text: str) -> None:
    assert scrub_text(scrub_text(text)) == scrub_text(text)


def test_no_pattern_makes_a_group_possessive() -> None:
    """Until 3.11.5 CPython loses its place when such a group fails half-way, and runs on over what follows."""
    found = {
        f"{path.name}: {line.strip()}"
        for path in Path(placet.__file__).parent.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\)(?:[*+?]|\{\d*,?\d*\}|\{\{\d*,?\d*\}\})\+", line)
    }
    # Its group fails half-way at the very end of a text alone, where nothing follows.
    assert {line.partition(" = ")[0] for line in found} == {"decoding.py: _STRING: Final"}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit",
    [
        *("token", "token=", 'token="', "token=\\", 'token=\\"', "token='\\", "token ", "tokentoken-", "token=&a"),
        *("://", "://a:", "://:@", "a://b@c:", "http://a:b/", "eyJ", "eyJ-", "-eyJaaaaaaaaa", "eyJaaaaaaaa.", "sk-"),
        *("sk-aaaaaaaa", "bearer ", "Bearer a", "basic AAAAAAAA", "1", "13", "138-", "+1", "+1 ", "+86 ", "+1(2"),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----BEGIN A", "--a-", "--token ", "authorization:", "\\"),
        *("password=", "a,password", "token=a,--token ", "pin=", 'secret\\"', "token={token", "[REDACTED]", "=>"),
        *("cookie='", "?key=", "&sig=&", "a" * 31 + "-", "00000000-", " ", "\n", "api_", "api key key", "[", "{", "x"),
    ],
)
def test_a_hundred_kilobytes_of_near_misses_are_scrubbed_in_linear_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))

    scrub_text(text)
    scrub_text(text + "!")
    sanitise(text)
    escape_for_people(text)


@pytest.mark.req("B134", "B152")
def test_built_in_exceptions_and_ours_have_their_names() -> None:
    assert safe_exception_name(ValueError) == "ValueError"
    assert safe_exception_name(ValueError(MARKER)) == "ValueError"
    assert safe_exception_name(IOError) == "OSError"
    assert safe_exception_name(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert safe_exception_name(errors.ToolRejected(MARKER)) == "ToolRejected"
    names = {safe_exception_name(each) for each in vars(builtins).values() if isinstance(each, type)}
    assert {"ExceptionGroup", "TimeoutError", "untrusted_exception"} <= names


@pytest.mark.req("B134", "B152", "B153")
def test_every_other_exception_is_untrusted_whatever_it_calls_itself() -> None:
    pretender = type("ValueError", (ValueError,), {"__module__": "builtins"})

    class Renamed(errors.ToolRejected):
        pass

    Renamed.__name__, Renamed.__module__ = "ToolRejected", "placet.errors"

    class Worse(Exception, metaclass=HostileType):
        __class__ = property(throwing())

    for value in [pretender, pretender(), Renamed, Renamed(), Worse, Worse(), Hostile(), int, "ValueError", None]:
        assert safe_exception_name(value) == "untrusted_exception"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ordinary text, 50% <b>", "ordinary text, 50% <b>"),
        ("Grüße 中文 العربية עברית हिन्दी ไทย", "Grüße 中文 العربية עברית हिन्दी ไทย"),
        ("rm -rf /data\r\x1b[2K   ls", r"rm -rf /data\r\u{1b}[2K   ls"),
        ("pay\u200b", r"pay\u{200b}"),
        ("a\u202eb\u2066c", r"a\u{202e}b\u{2066}c"),
        ("x\U000e0100\ufe0f", r"x\u{e0100}\u{fe0f}"),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\u00a0b\u3000c\u2028d\u2029e\x85f", r"a\u{a0}b\u{3000}c\u{2028}d\u{2029}e\u{85}f"),
        ("\x00\x7f\ue000\ud800\u0378\u3164\u2800\u00ad", r"\u{0}\u{7f}\u{e000}\u{d800}\u{378}\u{3164}\u{2800}\u{ad}"),
        ("\u061c\u180e\u034f\u115f\U000e0041", r"\u{61c}\u{180e}\u{34f}\u{115f}\u{e0041}"),
        ("a" + " " * 8 + "b", "a" + " " * 8 + "b"),
        ("a" + " " * 9 + "b", "a[9 blanks]b"),
        ("a" + "\n" * 400 + "text", "a[400 blanks]text"),
        ("a" + "\r\n \u3000" * 10 + "b", "a[40 blanks]b"),
        ("[9 blanks]", r"\u{5b}9 blanks]"),
        (r"\[9 blanks]", r"\\\u{5b}9 blanks]"),
        (r"C:\data\new \u{202e}", r"C:\data\\new \\u{202e}"),
        ("\\\n", r"\\\n"),
        ("\\", "\\"),
    ],
)
@pytest.mark.case("F02")
def test_people_see_what_would_be_invisible(text: str, shown: str) -> None:
    assert escape_for_people(text) == shown


def read_back(shown: str) -> str:
    """Undo `escape_for_people`, which is possible where no run of blanks was marked."""
    names = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
    return re.sub(
        r"\\u\{([0-9a-f]+)\}|\\([nrt\\])", lambda found: chr(int(found[1], 16)) if found[1] else names[found[2]], shown
    )


@pytest.mark.case("F02")
@given(st.text(st.one_of(st.sampled_from("\\nrtu{}[0123 blanks]\n\r\u200b\u202e中"), st.characters()), max_size=40))
def test_different_texts_are_shown_differently_and_printably(text: str) -> None:
    shown = escape_for_people(text)

    assert shown.isprintable()
    if not re.search(r"\[\d+ blanks\]", shown):
        assert read_back(shown) == text


# One value of every kind that goes wrong, with the marker in every place it must not come out of.
MAKERS: list[Callable[[], object]] = [
    Hostile,
    lambda: Hostile,
    Talkative,
    lambda: mapping_raising(Thrown),
    lambda: collection_raising(asyncio.CancelledError),
    lambda: enum_raising(KeyboardInterrupt),
    lambda: ValueError(MARKER),
    MARKER.encode,
    lambda: float("nan"),
    lambda: 10**5000,
    lambda: f"token={MARKER}",
    lambda: f"redis://:{MARKER}@host",
    lambda: f"Bearer {MARKER}",
    lambda: {"X-Token": MARKER, "prompt": MARKER},
    lambda: UserDict({"password": MARKER}),
]


@dataclass(frozen=True)
class Made:
    """Stands for a hostile value while hypothesis, which asks values for hash and repr, has it in hand."""

    number: int


def made(value: object) -> object:
    """Put the hostile values in their places."""
    match value:
        case Made(number):
            return MAKERS[number]()
        case dict():
            return {key: made(member) for key, member in value.items()}
        case list():
            return [made(member) for member in value]
        case tuple():
            return tuple(made(member) for member in value)
        case _:
            return value


KEYS = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.sampled_from(["order", "note_2"]))
HOSTILE = st.integers(0, len(MAKERS) - 1).map(Made)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), HOSTILE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.mark.req("B143", "B146", "B166", "B167")
@given(VALUES)
def test_whatever_is_sanitised_is_strict_json_without_secrets(plan: object) -> None:
    shown = sanitise(made(plan))
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False)

    assert MARKER not in text
    assert json.loads(text.encode("utf-8")) == shown
