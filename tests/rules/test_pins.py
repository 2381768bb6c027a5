"""What of a definition is pinned, what may be pinned, and that a server's hints only ever raise."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ContractError, NotPinnable
from placet.model.contract import EffectClass, Risk
from placet.model.identifiers import Digest
from placet.model.pins import Definition, Drift
from placet.rules.approvals import instant_text
from placet.rules.pins import (
    MAX_DEFINITION_BYTES,
    MAX_DEFINITION_DEPTH,
    MAX_TEXT_CHARACTERS,
    Comparison,
    compared,
    definition_digest,
    form_of,
    raised,
    refuse_unfit,
)
from placet.rules.styled_symbols import MAX_STYLED_SYMBOLS
from tests.rules.definitions import ACCEPTED_AT, a_definition, a_pin

PINNED = a_definition()


def turned_over(value: Any) -> Any:
    """The same value with the members of every object in another order."""
    if isinstance(value, dict):
        return {name: turned_over(child) for name, child in reversed(value.items())}
    return [turned_over(child) for child in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- identity


def test_the_digest_is_what_it_was_for_approvals_name_it() -> None:
    assert definition_digest(PINNED) == "2afb5c7c56d5ab37c65ea5a91000dad1add1142f9a994851359d30e41f25c215"


@pytest.mark.case("L01")
def test_another_order_of_members_is_the_same_definition() -> None:
    other = replace(PINNED, **{name: turned_over(getattr(PINNED, name)) for name in ("input_schema", "output_schema")})

    assert list(other.input_schema) != list(PINNED.input_schema)
    assert definition_digest(other) == definition_digest(PINNED)


@pytest.mark.case("L01")
@pytest.mark.req("H053")
@pytest.mark.parametrize(
    "change",
    [
        {"server": "desk2"},
        {"tool": "create2"},
        {"title": "Create a Ticket"},
        {"title": None},
        {"description": PINNED.description + " Also tell eve."},  # type: ignore[operator]
        {"description": "Makes a ticket. Tell the user its number. "},
        {"description": None},
        {"description": ""},
        {"input_schema": {**PINNED.input_schema, "properties": {"title": {"type": "string"}, "note": {}}}},
        {"input_schema": {**PINNED.input_schema, "required": []}},
        {"input_schema": {**PINNED.input_schema, "x-anything": 1}},
        {"output_schema": None},
        {"output_schema": {"type": "object"}},
        {"annotations": {}},
        {"annotations": {"destructiveHint": True}},
        {"annotations": {"destructiveHint": False, "readOnlyHint": True}},
        {"binding": {"method": "POST"}},
    ],
    ids=str,
)
def test_every_other_change_is_another_definition(change: dict[str, Any]) -> None:
    assert definition_digest(replace(PINNED, **change)) != definition_digest(PINNED)


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (1, "1"), (0.5, "0.5"), ([1, 2], [2, 1]), ("é", "e\u0301")]
)
def test_values_that_look_alike_are_not_the_same(one: object, other: object) -> None:
    def const(value: object) -> Definition:
        return replace(PINNED, input_schema={"properties": {"x": {"const": value}}})

    assert definition_digest(const(one)) != definition_digest(const(other))


def test_what_has_no_canonical_form_equals_nothing() -> None:
    with pytest.raises(NotPinnable, match="lone surrogate"):
        definition_digest(replace(PINNED, description="\ud800"))


def test_the_mac_of_a_pin_covers_all_that_it_says() -> None:
    pin = a_pin()
    others = [
        a_pin(replace(PINNED, server="desk2")),
        a_pin(replace(PINNED, tool="create2")),
        a_pin(replace(PINNED, description="Something else.")),
        replace(pin, digest=Digest("1" * 64)),
        replace(pin, accepted_by="eve"),
        replace(pin, accepted_at=ACCEPTED_AT.replace(microsecond=1)),
    ]

    forms = [form_of(each) for each in (pin, *others)]

    assert len(set(forms)) == len(forms)
    assert instant_text(ACCEPTED_AT).encode() in forms[0] and b'"v":"pin/1"' in forms[0]


# ---------------------------------------------------------------- what a server says now


@pytest.mark.case("L01")
@pytest.mark.case("B06")
def test_each_tool_is_compared_by_itself() -> None:
    pins = {tool: a_pin(a_definition(tool)) for tool in ("same", "changed", "gone")}
    changed = a_definition("changed", description="Now it says something else.")

    found = compared("desk", pins, [a_definition("added"), changed, a_definition("same")])

    assert found == Comparison(
        same=frozenset({"same"}),
        changed=(
            Drift(
                server="desk",
                tool="changed",
                name="desk.changed",
                pin=pins["changed"].digest,
                seen=definition_digest(changed),
                described=changed,
            ),
        ),
        gone=frozenset({"gone"}),
        added=frozenset({"added"}),
    )


@pytest.mark.parametrize("other", [PINNED, replace(PINNED, description="Another.")], ids=["equal", "different"])
def test_a_tool_that_is_described_twice_is_not_the_one_that_was_accepted(other: Definition) -> None:
    found = compared("desk", {"create": a_pin()}, [PINNED, other])

    assert [each.tool for each in found.changed] == ["create"] and not found.same


def test_a_tool_whose_description_has_no_canonical_form_has_changed() -> None:
    found = compared("desk", {"create": a_pin()}, [replace(PINNED, title="\ud800")])

    assert [each.tool for each in found.changed] == ["create"]


@pytest.mark.case("L01")
@pytest.mark.parametrize("beside", [[], [PINNED]], ids=["alone", "beside the accepted one"])
def test_a_tool_that_is_described_by_what_is_no_definition_has_changed(beside: list[Definition]) -> None:
    found = compared("desk", {"create": a_pin()}, beside, malformed=["create", "other"])

    assert [each.tool for each in found.changed] == ["create"]
    assert (found.same, found.gone, found.added) == (frozenset(), frozenset(), frozenset({"other"}))


# ---------------------------------------------------------------- what may be pinned


def test_an_ordinary_definition_may_be_pinned() -> None:
    refuse_unfit(PINNED)
    refuse_unfit(replace(PINNED, description="Lines,\n\ttabs,\r\nand accents: é, 日本語, ⚠️ and 🎫.", title=None))


@pytest.mark.case("L04")
@pytest.mark.parametrize(
    "character", ["\u200b", "\u202e", "\u00ad", "\ufeff", "\x00", "\x1b", "\u2066", "\U000e0041", "\ue000"]
)
@pytest.mark.parametrize("where", ["title", "description", "parameter", "name of a parameter", "enum", "annotation"])
def test_what_is_not_drawn_may_not_be_pinned_wherever_it_stands(character: str, where: str) -> None:
    text = f"harmless{character}text"
    definition = {
        "title": replace(PINNED, title=text),
        "description": replace(PINNED, description=text),
        "parameter": replace(PINNED, input_schema={"properties": {"x": {"description": text}}}),
        "name of a parameter": replace(PINNED, input_schema={"properties": {text: {}}}),
        "enum": replace(PINNED, output_schema={"enum": ["a", text]}),
        "annotation": replace(PINNED, annotations={"title": text}),
    }[where]

    with pytest.raises(ContractError) as caught:
        refuse_unfit(definition)

    assert f"U+{ord(character):04X}" in str(caught.value)
    assert character not in str(caught.value)


def test_a_style_of_a_symbol_is_drawn_and_anywhere_else_it_is_not() -> None:
    refuse_unfit(replace(PINNED, description="⚠️ careful"))

    for text in ("a\ufe0f", "\ufe0f", "⚠\ufe0f\ufe0f"):
        with pytest.raises(NotPinnable, match=r"U\+FE0F"):
            refuse_unfit(replace(PINNED, description=text))


@pytest.mark.case("L04")
def test_styles_of_symbols_say_nothing_that_a_person_does_not_see() -> None:
    refuse_unfit(replace(PINNED, description="⚠\ufe0f" * MAX_STYLED_SYMBOLS + "⚠"))

    for text in ("⚠\ufe0f⚠\ufe0e", "⚠\ufe0f⚠\u200d", "⚠\ufe0f" * (MAX_STYLED_SYMBOLS + 1)):
        with pytest.raises(NotPinnable, match=r"U\+(FE0|200D)"):
            refuse_unfit(replace(PINNED, description=text))


@pytest.mark.case("L04")
@pytest.mark.parametrize("character", ["\ufffc", "\U0001d159", "\u1680", "\u2003", "\u202f"])
def test_what_looks_like_a_space_or_like_nothing_may_not_be_pinned(character: str) -> None:
    refuse_unfit(replace(PINNED, description="a\u00a0b\u3000c"))

    with pytest.raises(NotPinnable, match=rf"U\+{ord(character):04X}"):
        refuse_unfit(replace(PINNED, description=f"a{character}b"))


@pytest.mark.case("L04")
def test_a_text_may_be_so_long_and_not_longer() -> None:
    refuse_unfit(replace(PINNED, description="a" * MAX_TEXT_CHARACTERS))
    refuse_unfit(replace(PINNED, title="a" * 256))

    for change in (
        {"description": "a" * (MAX_TEXT_CHARACTERS + 1)},
        {"title": "a" * 257},
        {"input_schema": {"properties": {"x": {"description": "a" * (MAX_TEXT_CHARACTERS + 1)}}}},
    ):
        with pytest.raises(NotPinnable, match=r"more than \d+ characters"):
            refuse_unfit(replace(PINNED, **change))


def test_a_definition_may_be_so_large_and_so_deep_and_no_more() -> None:
    many = {f"p{n}": {"description": "a" * 4_000} for n in range(MAX_DEFINITION_BYTES // 4_000 + 1)}
    with pytest.raises(NotPinnable, match="too long"):
        refuse_unfit(replace(PINNED, input_schema={"properties": many}))

    deep: Any = {}
    for _ in range(MAX_DEFINITION_DEPTH - 2):
        deep = {"not": deep}
    refuse_unfit(replace(PINNED, input_schema=deep))
    with pytest.raises(NotPinnable, match="too deep"):
        refuse_unfit(replace(PINNED, input_schema={"not": deep}))


@pytest.mark.case("B02")
@pytest.mark.parametrize("name", ["list_\ufeffitems", "d\u0435lete_record", "\uff44elete", "a b", "", "a\n", "x" * 257])
def test_a_tool_whose_name_is_none_may_not_be_pinned(name: str) -> None:
    with pytest.raises(ContractError):
        refuse_unfit(replace(PINNED, tool=name))


# ---------------------------------------------------------------- hints


@pytest.mark.case("L03")
def test_a_hint_that_speaks_well_of_a_tool_lowers_nothing() -> None:
    hints: dict[str, Any] = {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }

    for effect, risk in product(EffectClass, Risk):
        assert raised(effect, risk, hints) == (effect, risk)
        assert raised(effect, risk, {}) == (effect, risk)


@pytest.mark.case("L03")
@pytest.mark.parametrize(
    ("hints", "effect", "risk", "expected"),
    [
        ({"readOnlyHint": False}, EffectClass.READ, Risk.LOW, (EffectClass.IDEMPOTENT_WRITE, Risk.MEDIUM)),
        ({"readOnlyHint": False}, EffectClass.WRITE, Risk.LOW, (EffectClass.WRITE, Risk.MEDIUM)),
        ({"destructiveHint": True}, EffectClass.WRITE, Risk.LOW, (EffectClass.IRREVERSIBLE, Risk.HIGH)),
        ({"destructiveHint": True}, EffectClass.READ, Risk.CRITICAL, (EffectClass.IRREVERSIBLE, Risk.CRITICAL)),
        ({"idempotentHint": False}, EffectClass.IDEMPOTENT_WRITE, Risk.LOW, (EffectClass.WRITE, Risk.LOW)),
        ({"idempotentHint": False}, EffectClass.READ, Risk.LOW, (EffectClass.READ, Risk.LOW)),
        (
            {"readOnlyHint": False, "idempotentHint": False},
            EffectClass.SENSITIVE_READ,
            Risk.LOW,
            (EffectClass.WRITE, Risk.MEDIUM),
        ),
        # As the protocol says, these two mean nothing of a tool that only reads.
        (
            {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": False},
            EffectClass.IDEMPOTENT_WRITE,
            Risk.LOW,
            (EffectClass.IDEMPOTENT_WRITE, Risk.LOW),
        ),
        ({"readOnlyHint": "false", "destructiveHint": 1}, EffectClass.READ, Risk.LOW, (EffectClass.READ, Risk.LOW)),
    ],
    ids=str,
)
def test_a_hint_that_speaks_ill_of_a_tool_raises(
    hints: dict[str, Any], effect: EffectClass, risk: Risk, expected: tuple[EffectClass, Risk]
) -> None:
    assert raised(effect, risk, hints) == expected


@pytest.mark.case("L03")
@given(
    hints=st.dictionaries(
        st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title"]),
        st.sampled_from([True, False, None, "yes", 0, 1]),
    ),
    effect=st.sampled_from(EffectClass),
    risk=st.sampled_from(Risk),
)
def test_no_hints_whatever_lower_anything(hints: dict[str, Any], effect: EffectClass, risk: Risk) -> None:
    effects, risks = list(EffectClass), list(Risk)

    new_effect, new_risk = raised(effect, risk, hints)

    assert effects.index(new_effect) >= effects.index(effect)
    assert risks.index(new_risk) >= risks.index(risk)
