"""Our values as JSON documents and back, and the schema that both keep."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, Literal, NewType

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.engine.desk import ApprovalView
from placet.engine.effect_views import EffectView
from placet.engine.questions import QuestionView
from placet.engine.switch import StopReport, StopView
from placet.model.json import JsonObject, JsonValue
from placet.rules.documents import NotADocument, document_of, schema_of, value_of

Name = NewType("Name", str)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    word: str
    count: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    name: Name
    colour: Colour
    at: datetime
    perhaps: datetime | None
    number: float
    is_so: bool
    inner: Inner
    many: tuple[Inner, ...]
    names: frozenset[str]
    data: JsonObject
    anything: JsonValue
    kind: Literal["a", "b"]
    later: tuple[str, ...] = ()
    made: list[int] = field(default_factory=list)


INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
INNERS = st.builds(Inner, word=st.text(max_size=5), count=st.integers())
DATA: Any = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=3)
WHOLES = st.builds(
    Whole,
    name=st.text(max_size=5).map(Name),
    colour=st.sampled_from(Colour),
    at=INSTANTS,
    perhaps=st.none() | INSTANTS,
    number=st.floats(allow_nan=False, allow_infinity=False),
    is_so=st.booleans(),
    inner=INNERS,
    many=st.lists(INNERS, max_size=2).map(tuple),
    names=st.frozensets(st.text(max_size=3), max_size=3),
    data=DATA,
    anything=st.none() | st.text(max_size=3) | DATA,
    kind=st.sampled_from(["a", "b"]),
    later=st.lists(st.text(max_size=2), max_size=2).map(tuple),
    made=st.lists(st.integers(), max_size=2),
)


@given(WHOLES)
def test_what_is_written_is_read_again_as_it_was_and_keeps_the_schema(whole: Whole) -> None:
    document = json.loads(json.dumps(document_of(whole)))

    assert value_of(Whole, document) == whole
    assert jsonschema_rs.validator_for(schema_of(Whole)).is_valid(document)


@pytest.mark.parametrize("kind", [ApprovalView, EffectView, QuestionView, StopView, StopReport])
def test_every_view_has_a_schema_with_each_of_its_members(kind: Any) -> None:
    schema = schema_of(kind)

    jsonschema_rs.meta.validate(schema)
    assert list(schema["properties"]) == list(kind.__dataclass_fields__)  # type: ignore[call-overload]
    assert schema["required"] == list(kind.__dataclass_fields__)


def test_an_instant_is_written_in_utc_and_read_whatever_its_zone() -> None:
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))

    assert document_of(there) == "2026-01-01T00:00:00Z"
    assert value_of(datetime, "2026-01-01T02:00:00+02:00") == there


def test_a_number_that_is_whole_is_read_where_a_fraction_may_stand() -> None:
    assert value_of(float, 1) == 1.0
    with pytest.raises(NotADocument):
        value_of(int, 1.0)


DOCUMENT: dict[str, Any] = {
    "name": "n",
    "colour": "red",
    "at": "2026-01-01T00:00:00Z",
    "perhaps": None,
    "number": 1.5,
    "is_so": True,
    "inner": {"word": "w"},
    "many": [],
    "names": [],
    "data": {},
    "anything": None,
    "kind": "a",
}


def test_what_is_missing_takes_its_default_and_what_is_unknown_is_passed_over() -> None:
    read = value_of(Whole, DOCUMENT | {"of_a_later_age": 1})

    assert (read.inner, read.later, read.made) == (Inner(word="w", count=7), (), [])


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", 7),
        ("colour", "green"),
        ("colour", 7),
        ("at", "2026-01-01T00:00:00"),
        ("at", "yesterday"),
        ("at", 7),
        ("perhaps", 7),
        ("number", "1"),
        ("number", True),
        ("is_so", 1),
        ("inner", []),
        ("inner", {}),
        ("inner", {"word": "w", "count": "7"}),
        ("many", {}),
        ("many", [7]),
        ("names", "ab"),
    ],
)
def test_what_is_of_another_kind_is_refused_without_a_word_of_it(member: str, value: Any) -> None:
    with pytest.raises(NotADocument) as refused:
        value_of(Whole, DOCUMENT | {member: value})

    assert refused.value.__cause__ is refused.value.__context__ is None
    assert refused.value.code == "document_unreadable"


@pytest.mark.parametrize("member", [name for name in DOCUMENT])
def test_what_has_no_default_has_to_be_there(member: str) -> None:
    with pytest.raises(NotADocument):
        value_of(Whole, {name: value for name, value in DOCUMENT.items() if name != member})


def test_what_is_no_value_of_ours_has_no_document() -> None:
    for value in (object(), {1}, b"a", type("S", (str,), {})("a")):
        with pytest.raises(TypeError):
            document_of(value)
