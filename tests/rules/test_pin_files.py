"""The file of pins: each entry is believed by itself, or not at all."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ContractError
from placet.model.approval import Mac
from placet.model.identifiers import Digest
from placet.model.pins import Definition, Pin, PinFault, Pins, SpoiltPin
from placet.rules.pin_files import read_pins, with_pins
from placet.rules.pins import form_of, refuse_unfit
from tests.rules.definitions import a_definition, a_pin


def mac_of(form: bytes) -> str:
    return hmac.digest(b"key", form, "sha256").hex()


def signed(definition: Definition | None = None, **changes: Any) -> Pin:
    pin = a_pin(definition, **changes)
    return replace(pin, mac=mac_of(form_of(pin)))


def read(text: bytes) -> Pins:
    return read_pins(text, is_known=lambda key: key == "k-1", is_signed=lambda form, mac: mac.value == mac_of(form))


ONE, TWO = signed(), signed(a_definition("wipe", server="files", binding={"minimum": [1, 1.0, 2**70, 0.1, 1e-300]}))
FILE = with_pins(None, (ONE, TWO))
assert FILE is not None


def changed(change: Any) -> bytes:
    document = json.loads(FILE or b"")
    change(document)
    return json.dumps(document).encode()


def test_what_was_written_is_read_again_whole() -> None:
    assert read(FILE or b"") == Pins(pins={("desk", "create"): ONE, ("files", "wipe"): TWO})


def test_the_file_is_written_so_that_a_review_shows_what_changed() -> None:
    text = (FILE or b"").decode()
    again = with_pins(FILE, (ONE,))

    assert again == FILE
    assert text.endswith("}\n") and '\n        "accepted_by": "mara",\n' in text
    assert list(json.loads(text)["pins"]["desk"]["create"]) == sorted(json.loads(text)["pins"]["desk"]["create"])


def test_an_entry_takes_the_place_of_the_one_of_before_and_others_stay_as_they_are() -> None:
    other = signed(a_definition(description="Another one."))
    broken = changed(lambda d: d["pins"]["files"]["wipe"].update(mac="f" * 64, extra="kept"))

    after = with_pins(broken, (other,))

    assert read(after or b"") == Pins(
        pins={("desk", "create"): other},
        spoilt=(SpoiltPin(server="files", tool="wipe", fault=PinFault.UNREADABLE),),
    )
    assert json.loads(after or b"")["pins"]["files"]["wipe"]["extra"] == "kept"


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"digest": "0" * 64}, PinFault.ALTERED),
        ({"accepted_by": "eve"}, PinFault.ALTERED),
        ({"accepted_at": "2027-07-01T12:00:00.000000+00:00"}, PinFault.ALTERED),
        ({"mac": "0" * 64}, PinFault.ALTERED),
        ({"mac": ""}, PinFault.ALTERED),
        ({"key": "k-2"}, PinFault.OTHER_KEY),
        ({"key": ""}, PinFault.OTHER_KEY),
        ({"accepted_at": "2026-07-01T12:00:00+00:00"}, PinFault.UNREADABLE),
        ({"accepted_at": "2026-07-01T12:00:00.000000"}, PinFault.UNREADABLE),
        ({"accepted_at": 7}, PinFault.UNREADABLE),
        ({"accepted_by": ""}, PinFault.UNREADABLE),
        ({"accepted_by": None}, PinFault.UNREADABLE),
        ({"digest": None}, PinFault.UNREADABLE),
        ({"mac": None}, PinFault.UNREADABLE),
        ({"key": 1}, PinFault.UNREADABLE),
        ({"definition": {}}, PinFault.UNREADABLE),
        ({"definition": None}, PinFault.UNREADABLE),
        ({"more": 1}, PinFault.UNREADABLE),
    ],
    ids=str,
)
def test_an_entry_that_is_not_what_was_signed_is_not_believed_and_the_others_are(
    change: dict[str, Any], fault: PinFault
) -> None:
    found = read(changed(lambda d: d["pins"]["desk"]["create"].update(change)))

    assert found == Pins(pins={("files", "wipe"): TWO}, spoilt=(SpoiltPin(server="desk", tool="create", fault=fault),))


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another"},
        {"title": None},
        {"description": "Another."},
        {"input": {}},
        {"output": None},
        {"annotations": {}},
        {"binding": {"x": 1}},
    ],
    ids=str,
)
def test_a_definition_that_is_not_the_one_that_was_signed_is_not_believed(change: dict[str, Any]) -> None:
    found = read(changed(lambda d: d["pins"]["desk"]["create"]["definition"].update(change)))

    assert found.spoilt == (SpoiltPin(server="desk", tool="create", fault=PinFault.ALTERED),)


@pytest.mark.parametrize(
    "change",
    [
        {"title": 7}, {"description": []}, {"input": None}, {"input": []}, {"output": []}, {"annotations": None},
        {"binding": "x"}, {"more": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_definition_of_another_shape_is_none(change: dict[str, Any]) -> None:
    found = read(changed(lambda d: d["pins"]["desk"]["create"]["definition"].update(change)))

    assert found.spoilt == (SpoiltPin(server="desk", tool="create", fault=PinFault.UNREADABLE),)


def test_an_entry_is_good_for_no_other_tool_and_no_other_server() -> None:
    def moved(document: Any) -> None:
        desk = document["pins"]["desk"]
        desk["other"] = desk["create"]
        document["pins"]["desk2"] = {"create": desk["create"]}

    found = read(changed(moved))

    assert set(found.pins) == {("desk", "create"), ("files", "wipe")}
    assert {(each.server, each.tool, each.fault) for each in found.spoilt} == {
        ("desk", "other", PinFault.ALTERED),
        ("desk2", "create", PinFault.ALTERED),
    }


def test_a_signed_digest_does_not_make_another_definition_good() -> None:
    """Whoever could sign any digest could not make the file say something else under it."""
    wrong = replace(ONE, digest=Digest("1" * 64))
    wrong = replace(wrong, mac=mac_of(form_of(wrong)))

    found = read(with_pins(None, (wrong,)) or b"")

    assert found.spoilt == (SpoiltPin(server="desk", tool="create", fault=PinFault.ALTERED),)


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        (FILE or b"")[:-20],
        (FILE or b"").replace(b"pins/1", b"pins/2"),
        (FILE or b"").replace(b'"placet"', b'"other"'),
        b'{"placet": "pins/1", "pins": {}, "more": 1}',
        b'{"placet": "pins/1", "pins": []}',
        b'{"placet": "pins/1", "pins": {"desk": []}}',
        b'{"placet": "pins/1", "pins": {"Desk": {}}}',
        b'{"placet": "pins/1", "pins": {}, "pins": {}}',
        b'{"placet": "pins/1", "pins": {"desk": {"a": NaN}}}',
        b'{"placet": "pins/1", "pins": ' + b'{"desk":' * 70 + b"1" + b"}" * 70 + b"}",
    ],
    ids=range(14),
)
def test_of_a_file_that_is_no_such_document_nothing_is_believed_and_it_is_never_written_over(text: bytes) -> None:
    assert read(text) == Pins(fault=PinFault.UNREADABLE)
    assert with_pins(text, (ONE,)) is None


@given(st.integers(0, len(FILE) - 1), st.integers(0, 7))
def test_whatever_bit_turns_over_no_other_definition_is_believed(place: int, bit: int) -> None:
    text = bytearray(FILE or b"")
    text[place] ^= 1 << bit

    found = read(bytes(text))

    assert {each for each in found.pins.values()} <= {ONE, TWO} or found.pins == {}
    for key, pin in found.pins.items():
        assert pin in (ONE, TWO) and key == (pin.definition.server, pin.definition.tool)


def test_a_mac_is_asked_for_with_the_key_it_names() -> None:
    asked: list[Mac] = []

    def remembered(form: bytes, mac: Mac) -> bool:
        asked.append(mac)
        return form == form_of(ONE)

    found = read_pins(FILE or b"", is_known=lambda key: True, is_signed=remembered)

    assert set(found.pins) == {("desk", "create")}
    assert asked == [Mac(key_id="k-1", value=ONE.mac), Mac(key_id="k-1", value=TWO.mac)]


_TEXTS = st.text(max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=3)


@given(
    definition=st.builds(
        a_definition,
        title=st.none() | _TEXTS,
        description=st.none() | _TEXTS,
        input_schema=_OBJECTS,
        output_schema=st.none() | _OBJECTS,
        annotations=_OBJECTS,
        binding=_OBJECTS,
    )
)
def test_whatever_may_be_pinned_is_read_again_as_it_was_and_spoils_no_other(definition: Definition) -> None:
    try:
        refuse_unfit(definition)
    except ContractError:
        return
    pin = signed(definition)

    found = read(with_pins(FILE, (pin,)) or b"")

    assert found == Pins(pins={("desk", "create"): pin, ("files", "wipe"): TWO})
