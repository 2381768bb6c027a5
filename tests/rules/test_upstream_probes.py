"""What another tool's answer says of an effect: found, absent, or nothing for certain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.errors import ContractError
from placet.model.context import Absent, CannotTell, Found, ProbeContext
from placet.model.contract import EffectClass
from placet.model.identifiers import OperationKey
from placet.model.pins import Definition
from placet.model.upstreams import Condition, ProbeTerms, ProbeValue, ToolTerms, ValueSource
from placet.rules.upstream_probes import (
    at,
    is_pointer,
    probe_answer,
    probe_arguments,
    reference_text,
    refuse_unfit_probe,
)
from tests.rules.definitions import a_definition, some_terms

EFFECT = ProbeContext(tenant="acme", operation_key=OperationKey("k1"), arguments={"queue": "it", "n": 1, "list": ["a"]})
KEY = ProbeValue(source=ValueSource.OPERATION_KEY)
LIST = ProbeTerms(
    tool="find",
    arguments={
        "key": KEY,
        "tenant": ProbeValue(source=ValueSource.TENANT),
        "queue": ProbeValue(source=ValueSource.ARGUMENT, at="/queue"),
        "limit": ProbeValue(source=ValueSource.FIXED, value=3),
    },
    items_at="/tickets",
    found_if=(Condition(at="/key", equals=KEY),),
    complete_below=3,
    result_at="/said",
    reference_at="/id",
)
ONE = replace(LIST, items_at=None, complete_below=None)


FIND = a_definition(
    "find",
    input_schema={
        "type": "object",
        "properties": {"key": {}, "tenant": {}, "queue": {}, "limit": {}, "more": {}},
        "required": ["key", "limit"],
    },
    annotations={"readOnlyHint": True},
)
READS = some_terms("find", effect=EffectClass.READ)


@pytest.mark.req("B184")
@pytest.mark.parametrize(
    ("asked", "terms"),
    [(FIND, READS), (FIND, None), (replace(FIND, annotations={}), READS),
     (replace(FIND, annotations={}), some_terms("find", effect=EffectClass.SENSITIVE_READ))],
    ids=["both say so", "its server says so", "the deployment says so", "sensitive"],
)  # fmt: skip
def test_a_tool_that_is_known_to_read_may_look(asked: Definition, terms: ToolTerms | None) -> None:
    refuse_unfit_probe("create", LIST, asked, terms)


@pytest.mark.req("B184")
@pytest.mark.parametrize(
    ("asked", "terms"),
    [
        (replace(FIND, annotations={}), None),
        (FIND, some_terms("find", effect=EffectClass.IDEMPOTENT_WRITE)),
        (replace(FIND, annotations={"readOnlyHint": False}), READS),
        (replace(FIND, annotations={"destructiveHint": True}), READS),
        (replace(FIND, input_schema={"type": "object"}), READS),
        (replace(FIND, input_schema={**FIND.input_schema, "required": ["more"]}), READS),
    ],
    ids=["nobody says that it reads", "terms of a write", "its server says that it writes", "destroys",
         "takes none of these", "needs another one"],
)  # fmt: skip
def test_a_probe_that_may_change_something_or_cannot_be_asked_is_refused(
    asked: Definition, terms: ToolTerms | None
) -> None:
    with pytest.raises(ContractError) as raised:
        refuse_unfit_probe("create", LIST, asked, terms)

    assert (raised.value.code, raised.value.may_have_acted) == ("terms_unfit", False)


def fixed(value: Any) -> ProbeValue:
    return ProbeValue(source=ValueSource.FIXED, value=value)


def test_the_probe_is_asked_with_what_the_effect_had() -> None:
    assert probe_arguments(LIST, EFFECT) == {"key": "k1", "tenant": "acme", "queue": "it", "limit": 3}


def test_a_probe_that_cannot_be_asked_is_not() -> None:
    lacking = replace(LIST, arguments={"x": ProbeValue(source=ValueSource.ARGUMENT, at="/nothing")})

    assert probe_arguments(lacking, EFFECT) is None
    assert probe_arguments(LIST, replace(EFFECT, arguments=None)) is None


def item(key: str = "k1", **more: Any) -> dict[str, Any]:
    return {"key": key, "id": 7, "said": {"id": "t-7"}} | more


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"tickets": [item()]}, Found(result={"id": "t-7"}, external_reference="7")),
        ({"tickets": [item("k2"), item()]}, Found(result={"id": "t-7"}, external_reference="7")),
        ({"tickets": [item(id=None)]}, Found(result={"id": "t-7"}, external_reference=None)),
        ({"tickets": [{"key": "k1"}]}, Found(result=None, external_reference=None)),
        ({"tickets": []}, Absent()),
        ({"tickets": [item("k2"), item("k3")]}, Absent()),
        ({"tickets": [item("k2"), item("k3"), item("k4")]}, CannotTell()),  # it may have been cut
        ({"tickets": [item(), item()]}, CannotTell()),
        ({"tickets": {}}, CannotTell()),
        ({"tickets": None}, CannotTell()),
        ({}, CannotTell()),
        ([], CannotTell()),
        (None, CannotTell()),
        ({"tickets": [None, "k1", ["k1"]]}, CannotTell()),
    ],
    ids=str,
)
def test_of_a_list_the_one_item_that_fits_is_the_effect_and_only_a_whole_list_says_that_it_is_absent(
    answer: Any, said: object
) -> None:
    assert probe_answer(LIST, answer, EFFECT) == said


def test_a_list_of_which_nobody_said_when_it_is_whole_never_says_that_it_is_absent() -> None:
    assert probe_answer(replace(LIST, complete_below=None), {"tickets": []}, EFFECT) == CannotTell()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (item(), Found(result={"id": "t-7"}, external_reference="7")),
        ({"exists": False}, Absent()),
        ({"exists": 0}, CannotTell()),
        ({"exists": True}, CannotTell()),
        ({}, CannotTell()),
        (None, CannotTell()),
        (item(exists=False), Found(result={"id": "t-7"}, external_reference="7")),
    ],
    ids=str,
)
def test_of_one_answer_only_what_it_says_in_so_many_words_is_believed(answer: Any, said: object) -> None:
    terms = replace(ONE, absent_if=(Condition(at="/exists", equals=fixed(False)),))

    assert probe_answer(terms, answer, EFFECT) == said


def test_without_words_for_it_no_answer_says_that_it_is_absent() -> None:
    assert probe_answer(ONE, {"exists": False}, EFFECT) == CannotTell()


def test_all_conditions_have_to_hold() -> None:
    both = replace(ONE, found_if=(Condition(at="/key", equals=KEY), Condition(at="/open", equals=fixed(True))))

    assert type(probe_answer(both, item(open=True), EFFECT)) is Found
    assert probe_answer(both, item(open=False), EFFECT) == CannotTell()


@pytest.mark.parametrize(("here", "wanted"), [(1, 1.0), (1, True), (1, "1"), (None, False), ([], {})])
def test_what_is_compared_is_equal_in_type_too(here: Any, wanted: Any) -> None:
    terms = replace(ONE, found_if=(Condition(at="/v", equals=fixed(wanted)),))

    assert probe_answer(terms, {"v": here}, EFFECT) == CannotTell()
    assert type(probe_answer(terms, {"v": wanted}, EFFECT)) is Found


def test_an_argument_that_the_effect_did_not_have_equals_nothing() -> None:
    nothing = Condition(at="/v", equals=ProbeValue(source=ValueSource.ARGUMENT, at="/nothing"))

    assert probe_answer(replace(ONE, found_if=(nothing,)), {"v": None}, EFFECT) == CannotTell()
    assert probe_answer(replace(ONE, found_if=(nothing,)), {}, EFFECT) == CannotTell()


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a": [1, {"b/c~d": 2}], "": 3}),
        ("/a/1/b~1c~0d", 2),
        ("/a/0", 1),
        ("/", 3),
    ],
)
def test_a_pointer_leads_to_what_stands_there(pointer: str, found: object) -> None:
    assert at({"a": [1, {"b/c~d": 2}], "": 3}, pointer) == found


@pytest.mark.parametrize(
    "pointer", ["/x", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/٠", "/a/99999999999999999999", "/a/0/x"]
)
def test_a_pointer_to_nothing_leads_nowhere(pointer: str) -> None:
    found = at({"a": [1, 2]}, pointer)

    assert found not in (None, 1, 2, {}, [])


@pytest.mark.parametrize(
    ("text", "is_one"), [("", True), ("/", True), ("/a~0~1", True), ("a", False), ("/~", False), ("/~2", False)]
)
def test_what_a_pointer_is(text: str, is_one: bool) -> None:
    assert is_pointer(text) is is_one


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), ("t-7", "t-7"), (True, None), (1.5, None), ("", None), ("x" * 201, None), ("a\nb", None), (None, None)],
)
def test_a_short_text_or_an_integer_names_an_effect(value: object, text: str | None) -> None:
    assert reference_text(value) == text
