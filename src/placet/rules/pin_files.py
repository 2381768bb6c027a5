"""placet.pins.json: what was accepted of the upstreams, in a form that is reviewed like any other file of the project.

    { "placet": "pins/1",
      "pins": { "desk": { "create": { "definition": {…}, "digest": "…", "accepted_by": "mara", "accepted_at": "…",
                                      "key": "k-…", "mac": "…" } } } }

Each entry stands for itself: one that is not what was signed is not believed, and the others are. Of a file that is no
such document nothing is believed.

Source: DESIGN section 17; CASES L01; ADR-0045.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from placet.errors import ContractError, InvalidArguments
from placet.model.approval import Mac
from placet.model.contract import SERVER_ID
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue
from placet.model.pins import Definition, Pin, PinFault, Pins, SpoiltPin
from placet.model.principal import is_identity
from placet.rules.approvals import instant_text
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.pins import MAX_TEXT_CHARACTERS, definition_digest, definition_form, form_of

FORMAT: Final = "pins/1"
LARGEST_FILE: Final = 16_777_216
_LIMITS: Final = DecodingLimits(
    max_bytes=LARGEST_FILE,
    max_depth=64,
    max_members=1_000_000,
    max_string_characters=max(65_536, MAX_TEXT_CHARACTERS),
)
_ANYWHERE: Final = frozenset(("*",) * depth for depth in range(1, 65))
_ENTRY: Final = frozenset(("definition", "digest", "accepted_by", "accepted_at", "key", "mac"))
_DEFINITION: Final = frozenset(("title", "description", "input", "output", "annotations", "binding"))


def read_pins(text: bytes, *, is_known: Callable[[str], bool], is_signed: Callable[[bytes, Mac], bool]) -> Pins:
    """What is believed of a file, and what is not.

    Args:
        is_known: whether there is a key of this id that verifies.
        is_signed: whether a MAC was made over these bytes by such a key.
    """
    document = _document(text)
    if document is None:
        return Pins(fault=PinFault.UNREADABLE)
    pins: dict[tuple[str, str], Pin] = {}
    spoilt: list[SpoiltPin] = []
    for server, tools in document.items():
        for tool, entry in tools.items():
            found = _believed(server, tool, entry, is_known, is_signed)
            if isinstance(found, Pin):
                pins[server, tool] = found
            else:
                spoilt.append(SpoiltPin(server=server, tool=tool, fault=found))
    return Pins(pins=pins, spoilt=tuple(spoilt))


def with_pins(text: bytes | None, pins: Iterable[Pin]) -> bytes | None:
    """The file with these entries in the place of older ones, all others as they are; None if it is no such file."""
    document: dict[str, JsonObject] | None = {} if text is None else _document(text)
    if document is None:
        return None
    for pin in pins:
        _tools(document, pin.definition.server)[pin.definition.tool] = _entry(pin)
    return _written(document)


# ---------------------------------------------------------------- reading


def _document(text: bytes) -> dict[str, JsonObject] | None:
    """The servers in the file with their tools; None if it is no file of pins."""
    try:
        found = decode_object(text, limits=_LIMITS, wide=_ANYWHERE)
    except InvalidArguments:
        return None
    servers = found.get("pins")
    if found.keys() != {"placet", "pins"} or found["placet"] != FORMAT or not isinstance(servers, dict):
        return None
    tables = {name: tools for name, tools in servers.items() if SERVER_ID.fullmatch(name) and isinstance(tools, dict)}
    return tables if tables.keys() == servers.keys() else None


def _believed(
    server: str,
    tool: str,
    entry: JsonValue,
    is_known: Callable[[str], bool],
    is_signed: Callable[[bytes, Mac], bool],
) -> Pin | PinFault:
    pin = _pin(server, tool, entry)
    if pin is None:
        return PinFault.UNREADABLE
    if not is_known(pin.key_id):
        return PinFault.OTHER_KEY
    if not is_signed(form_of(pin), Mac(key_id=pin.key_id, value=pin.mac)):
        return PinFault.ALTERED
    try:
        is_same = definition_digest(pin.definition) == pin.digest
    except ContractError:
        is_same = False
    return pin if is_same else PinFault.ALTERED


def _pin(server: str, tool: str, entry: JsonValue) -> Pin | None:
    if not isinstance(entry, dict) or entry.keys() != _ENTRY:
        return None
    definition = _definition(server, tool, entry["definition"])
    digest, by, at, key, mac = (entry[name] for name in ("digest", "accepted_by", "accepted_at", "key", "mac"))
    instant = _instant(at)
    if definition is None or instant is None or not is_identity(by):
        return None
    if not (isinstance(digest, str) and isinstance(key, str) and isinstance(mac, str) and isinstance(by, str)):
        return None
    return Pin(definition=definition, digest=Digest(digest), accepted_by=by, accepted_at=instant, mac=mac, key_id=key)


def _definition(server: str, tool: str, given: JsonValue) -> Definition | None:
    if not isinstance(given, dict) or given.keys() != _DEFINITION:
        return None
    title, description, output = given["title"], given["description"], given["output"]
    inputs, annotations, binding = given["input"], given["annotations"], given["binding"]
    if not (isinstance(inputs, dict) and isinstance(annotations, dict) and isinstance(binding, dict)):
        return None
    if not (title is None or isinstance(title, str)) or not (description is None or isinstance(description, str)):
        return None
    if not (output is None or isinstance(output, dict)):
        return None
    return Definition(
        server=server,
        tool=tool,
        title=title,
        description=description,
        input_schema=inputs,
        output_schema=output,
        annotations=annotations,
        binding=binding,
    )


def _instant(text: JsonValue) -> datetime | None:
    """One spelling only, as `instant_text` writes it."""
    try:
        instant = datetime.fromisoformat(text) if isinstance(text, str) else None
        return instant if instant is not None and instant_text(instant) == text else None
    except ValueError:
        return None


# ---------------------------------------------------------------- writing


def _tools(document: dict[str, JsonObject], server: str) -> JsonObject:
    return document.setdefault(server, {})


def _entry(pin: Pin) -> JsonObject:
    form = definition_form(pin.definition)
    return {
        "definition": {name: value for name, value in form.items() if name in _DEFINITION},
        "digest": pin.digest,
        "accepted_by": pin.accepted_by,
        "accepted_at": instant_text(pin.accepted_at),
        "key": pin.key_id,
        "mac": pin.mac,
    }


def _written(servers: dict[str, JsonObject]) -> bytes:
    """Sorted and indented, so that a review shows what changed and nothing else."""
    document = {"placet": FORMAT, "pins": servers}
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
