"""Nothing foreign runs, and nothing raises: what is not understood is a placeholder."""

from __future__ import annotations

import builtins
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from placet import errors
from placet.errors import PlacetError
from placet.rules.foreign import (
    UNTRUSTED_EXCEPTION,
    Items,
    Members,
    Reading,
    Scalar,
    Unreadable,
    Wrapped,
    known_exception_name,
    plain_text,
    read,
    safe_exception_name,
)
from placet.rules.redaction import sanitise
from tests.rules.calls import calls
from tests.rules.hostile_values import (
    MARKER,
    THROWN,
    Hostile,
    HostileType,
    Talkative,
    Thrown,
    collection_raising,
    enum_raising,
    mapping_raising,
    nested,
    throwing,
)


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


class Colour(Enum):
    RED = "red"
    SEVEN = 7


class Word(StrEnum):
    YES = "yes"


class Pairs(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter("abcd")

    def __len__(self) -> int:
        return 4


FOUR = {"a": 1, "b": 2, "c": 3, "d": 4}
THREE = [("a", 1), ("b", 2), ("c", 3)]
READINGS: list[tuple[str, Any, Reading]] = [
    *(("leaf", value, Scalar(value)) for value in (None, True, 7, -7, 1.5, "x", 2**64 - 1, 1 - 2**64)),
    *(("giant", value, Unreadable("[GIANT_INTEGER]")) for value in (2**64, -(2**64), type("I", (int,), {})(2**64))),
    *(("no number", value, Unreadable("[NON_FINITE_FLOAT]")) for value in (float("inf"), Decimal("-Infinity"))),
    ("dict", FOUR, Members(THREE)),
    ("short dict", {"a": 1, "b": 2}, Members(THREE[:2])),
    ("exact dict", {"a": 1, "b": 2, "c": 3}, Members(THREE)),
    ("ordered dict", OrderedDict(FOUR), Members(THREE)),
    ("proxy", MappingProxyType(FOUR), Members(THREE)),
    ("mapping", Pairs(), Members([("a", 1), ("b", 1), ("c", 1)])),
    ("list", [1, 2, 3, 4], Items([1, 2, 3], True)),
    ("short list", [1], Items([1], True)),
    ("tuple", (1, 2, 3, 4), Items([1, 2, 3], True)),
    ("deque", deque([1, 2, 3, 4]), Items([1, 2, 3], True)),
    ("keys", FOUR.keys(), Items(["a", "b", "c"], True)),
    ("values", FOUR.values(), Items([1, 2, 3], True)),
    ("items", FOUR.items(), Items(THREE, True)),
    ("set", {1}, Items([1], False)),
    ("frozen set", frozenset([1]), Items([1], False)),
    ("own list", type("L", (list,), {})([1, 2, 3, 4]), Items([1, 2, 3], True)),
    ("own set", type("S", (set,), {})([1]), Items([1], False)),
    ("enum", Colour.RED, Wrapped("red")),
    ("enum of a number", Colour.SEVEN, Wrapped(7)),
    ("enum of texts", Word.YES, Wrapped("yes")),
    ("date", date(2026, 1, 2), Scalar("2026-01-02")),
    ("instant", datetime(2026, 1, 2, 3, 4, 5), Scalar("2026-01-02T03:04:05")),
    (
        "instant of a zone",
        datetime(2026, 7, 2, 3, tzinfo=ZoneInfo("Europe/Berlin")),
        Scalar("2026-07-02T03:00:00+02:00"),
    ),
    ("time", time(3, 4, tzinfo=UTC), Scalar("03:04:00+00:00")),
    ("decimal", Decimal("1E+2"), Scalar("1E+2")),
    ("first uuid", UUID(int=0), Scalar("00000000-0000-0000-0000-000000000000")),
    ("last uuid", UUID(int=2**128 - 1), Scalar("ffffffff-ffff-ffff-ffff-ffffffffffff")),
    ("exception", KeyError(MARKER), Scalar("KeyError")),
    ("foreign exception", type("Odd", (KeyError,), {})(MARKER), Scalar("untrusted_exception")),
    *(("not read", value, Unreadable("[UNSERIALIZABLE]")) for value in (b"x", bytearray(b"x"), 1j, KeyError, range(3))),
]


@pytest.mark.req("B143", "B144", "B146", "B147", "B166")
@pytest.mark.parametrize(("value", "reading"), [row[1:] for row in READINGS], ids=[row[0] for row in READINGS])
def test_a_value_is_read_one_level_deep_with_one_member_more_than_was_asked_for(
    value: object, reading: Reading
) -> None:
    found = read(value, limit=2)

    assert (type(found), found) == (type(reading), reading)
    if type(found) is Scalar:
        assert type(found.value) is type(reading[0])


def test_without_a_limit_256_members_are_read_and_one_more() -> None:
    many = range(300)

    assert read(list(many)) == read(tuple(many)) == Items([*range(257)], True)
    assert read(dict.fromkeys(many)) == Members([(number, None) for number in range(257)])


@pytest.mark.req("B167")
def test_a_uuid_that_was_tampered_with_is_not_shown() -> None:
    for inside in (-1, 2**128, Talkative(), True):
        forged = UUID(int=0)
        object.__setattr__(forged, "int", inside)
        assert read(forged) == Unreadable("[UNSERIALIZABLE]")
    assert read(UUID.__new__(UUID)) == Unreadable("[UNSERIALIZABLE]")


def test_a_plain_value_is_read_without_a_look_at_its_class() -> None:
    values = (None, True, 7, 1.5, "x", [1, 2], {"a": 1}, dict.fromkeys(range(300)))

    assert {calls(read, value) for value in values} == {calls(read, None)}
    assert calls(read, (1, 2)) > calls(read, None)
    assert calls(plain_text, "x") == 1 < calls(plain_text, Word.YES)


def test_plain_text_is_taken_from_text_alone() -> None:
    text = type("Text", (str,), {"__str__": throwing()})("x")

    assert [plain_text(each) for each in ("x", text, Colour.RED, Word.YES)] == ["x", "x", "red", "yes"]
    assert [type(plain_text(each)) for each in (text, Word.YES)] == [str, str]
    for other in (
        None,
        7,
        b"x",
        ["x"],
        {"x": 1},
        Colour.SEVEN,
        enum_raising(Thrown),
        Hostile(),
        KeyError("x"),
        date.min,
    ):
        assert plain_text(other) is None


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


def test_only_names_of_built_in_exceptions_and_of_ours_are_told() -> None:
    for kind_ in (ValueError, KeyboardInterrupt, PlacetError):
        assert known_exception_name(kind_.__name__) == kind_.__name__
        assert safe_exception_name(kind_) == safe_exception_name(kind_("x")) == kind_.__name__
    for other in ("Stranger", "", "valueerror", "placet.errors.PlacetError"):
        assert known_exception_name(other) == UNTRUSTED_EXCEPTION == "untrusted_exception"
