"""What of an upstream's tool is pinned, what may be pinned at all, and what its server's hints may do to it.

    definition ── canonical form, placet-c14n-1 ── digest ── signed with who accepted it and when ── Pin

The order of an object's members is no part of the canonical form; every other change of a definition is another digest.

Source: CASES L01, L03, L04; DESIGN section 17; ADR-0045.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placet.errors import ContractError, InvalidArguments, NotPinnable
from placet.model.contract import EffectClass, Risk
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue
from placet.model.pins import Definition, Drift, Pin
from placet.rules.approvals import instant_text
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.showing import escape_for_people, has_invisible
from placet.rules.styled_symbols import unstyled
from placet.rules.upstream_names import contract_name, require_upstream_name

MAX_TITLE_CHARACTERS: Final = 256
MAX_TEXT_CHARACTERS: Final = 4_096
"""Of a description, and of any other text in a definition."""
MAX_DEFINITION_BYTES: Final = 131_072
"""Of the canonical form."""
MAX_DEFINITION_DEPTH: Final = 48
_READ_AGAIN: Final = DecodingLimits(
    max_bytes=MAX_DEFINITION_BYTES,
    max_depth=MAX_DEFINITION_DEPTH,
    max_members=50_000,
    max_string_characters=MAX_TEXT_CHARACTERS,
)
"""What is pinned is read again from the file of pins, whose own limits are wider."""
_ANYWHERE: Final = frozenset(("*",) * depth for depth in range(1, MAX_DEFINITION_DEPTH + 1))

_UNDESCRIBABLE: Final = Digest(sha256_hex("placet/undescribable/1"))
"""Stands for whatever has no digest of its own; no pin has it."""
_LINE_BREAKS: Final = re.compile(r"[\n\r\t]")
_ORDINARY_SPACES: Final = frozenset(" \u00a0\u3000")
"""What people write between words; all but the first are shown as escapes to whoever accepts."""
_EFFECTS: Final = tuple(EffectClass)
_RISKS: Final = tuple(Risk)


# ---------------------------------------------------------------- identity


def definition_form(definition: Definition) -> JsonObject:
    """Everything of a definition that is pinned."""
    return {
        "server": definition.server,
        "tool": definition.tool,
        "title": definition.title,
        "description": definition.description,
        "input": definition.input_schema,
        "output": definition.output_schema,
        "annotations": definition.annotations,
        "binding": definition.binding,
    }


def definition_digest(definition: Definition) -> Digest:
    """Identity of all that is pinned.

    Raises:
        NotPinnable: it has no canonical form, so it can neither be pinned nor equal anything that is.
    """
    try:
        return Digest(sha256_hex("placet/definition/1", canonical_bytes(definition_form(definition))))
    except InvalidArguments as refusal:
        reason = refusal.reason.replace("_", " ")
    raise _unfit(definition, f"has no canonical form ({reason})")


def pin_form(*, digest: Digest, server: str, tool: str, accepted_by: str, accepted_at: datetime) -> bytes:
    """The bytes a pin's MAC covers, in canonical form; the definition through its digest."""
    return canonical_bytes(
        {
            "v": "pin/1",
            "server": server,
            "tool": tool,
            "digest": digest,
            "accepted_by": accepted_by,
            "accepted_at": instant_text(accepted_at),
        }
    )


def form_of(pin: Pin) -> bytes:
    """The same of a pin that is there."""
    definition = pin.definition
    return pin_form(
        digest=pin.digest,
        server=definition.server,
        tool=definition.tool,
        accepted_by=pin.accepted_by,
        accepted_at=pin.accepted_at,
    )


# ---------------------------------------------------------------- what a server says now


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a server says of its tools, beside what was accepted of it.

    Attributes:
        same: described as accepted; by the server's own names, as everywhere here.
        changed: described otherwise, or more than once.
        gone: accepted, and not described any more.
        added: described, and not accepted: nobody sees or calls them.
    """

    same: frozenset[str]
    changed: tuple[Drift, ...]
    gone: frozenset[str]
    added: frozenset[str]


def compared(
    server: str, pins: Mapping[str, Pin], live: Iterable[Definition], *, malformed: Collection[str] = ()
) -> Comparison:
    """Hold what a server describes against what was accepted of it, each tool by itself.

    Args:
        malformed: names that it describes in a way that is no definition; that is another description too.
    """
    seen = tuple(live)
    count = Counter(definition.tool for definition in seen)
    saying = {definition.tool: definition for definition in seen}
    described = {tool: _seen_digest(saying[tool], count[tool]) for tool in pins if tool in saying}
    described |= dict.fromkeys((tool for tool in malformed if tool in pins), _UNDESCRIBABLE)
    changed = tuple(
        Drift(
            server=server,
            tool=tool,
            name=contract_name(server, tool),
            pin=pin.digest,
            seen=described[tool],
            described=saying.get(tool),
        )
        for tool, pin in sorted(pins.items())
        if tool in described and described[tool] != pin.digest
    )
    return Comparison(
        same=frozenset(tool for tool, pin in pins.items() if described.get(tool) == pin.digest),
        changed=changed,
        gone=frozenset(pins.keys() - described.keys()),
        added=frozenset(saying.keys() | set(malformed)) - pins.keys(),
    )


def _seen_digest(definition: Definition, count: int) -> Digest:
    """Of what is described twice, or has no canonical form, a digest that equals no pin's."""
    try:
        return definition_digest(definition) if count == 1 else Digest(sha256_hex("placet/described-twice/1"))
    except ContractError:
        return _UNDESCRIBABLE


# ---------------------------------------------------------------- what may be pinned


def refuse_unfit(definition: Definition) -> None:
    """Refuse what nobody can accept knowingly, since what a person reads of it would not be what a model reads.

    Raises:
        ContractError: a name is none; or, as NotPinnable, a text is too long or has characters that are not drawn, or
            all of it is too much. Nothing is claimed about what the texts say.
    """
    require_upstream_name(definition.tool)
    contract_name(definition.server, definition.tool)
    definition_digest(definition)
    if definition.title is not None and len(definition.title) > MAX_TITLE_CHARACTERS:
        raise _unfit(definition, f"has a title of more than {MAX_TITLE_CHARACTERS} characters")
    for place, text in texts_of(definition):
        if len(text) > MAX_TEXT_CHARACTERS:
            raise _unfit(definition, f"has a text of more than {MAX_TEXT_CHARACTERS} characters at {place}")
        if (found := _undrawn(text)) is not None:
            raise _unfit(definition, f"has the character {found} at {place}, which nobody sees")
    _refuse_unreadable(definition)


def is_fit(definition: Definition) -> bool:
    """Whether it may be pinned; what was pinned under rules that allowed more is hidden."""
    try:
        refuse_unfit(definition)
        return True
    except ContractError:
        return False


def _refuse_unreadable(definition: Definition) -> None:
    """One entry that the file of pins cannot be read with would take all the others with it."""
    try:
        decode_object(canonical_bytes(definition_form(definition)), limits=_READ_AGAIN, wide=_ANYWHERE)
        return
    except InvalidArguments as refusal:
        reason = refusal.reason.replace("_", " ")
    raise _unfit(definition, f"could not be read again ({reason})")


def texts_of(definition: Definition) -> Iterator[tuple[str, str]]:
    """Every text in a definition, names of members too, with its place."""
    for field, value in definition_form(definition).items():
        yield from _texts(value, field)


def _texts(value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, child in value.items():
            inner = f"{place}/{escape_for_people(name[:80])}"
            yield inner, name
            yield from _texts(child, inner)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _texts(child, f"{place}/{index}")


def _undrawn(text: str) -> str | None:
    """The first character that is not drawn, as an escape. Line breaks, tabs and styles of a few symbols are drawn."""
    if text.isascii() and text.isprintable():
        return None
    for character in unstyled(text):
        if not _LINE_BREAKS.match(character) and (has_invisible(character) or _is_odd(character)):
            return f"U+{ord(character):04X}"
    return None


def _is_odd(character: str) -> bool:
    """Whether not everybody sees the same: it is nobody's character, or a space that is no ordinary one."""
    category = unicodedata.category(character)
    return category in ("Co", "Cn", "Cs") or (category == "Zs" and character not in _ORDINARY_SPACES)


def _unfit(definition: Definition, why: str) -> NotPinnable:
    tool = escape_for_people(definition.tool[:80])
    return NotPinnable(f"The tool '{tool}' of {definition.server} cannot be accepted: it {why}.")


# ---------------------------------------------------------------- hints


def raised(effect: EffectClass, risk: Risk, annotations: Mapping[str, JsonValue]) -> tuple[EffectClass, Risk]:
    """Effect and risk as the deployment says them, or higher where the server itself says so. Never lower.

    A hint that is absent says nothing beyond what the deployment says; one that speaks well of the tool neither.
    """
    reads = annotations.get("readOnlyHint") is True
    if annotations.get("readOnlyHint") is False:
        effect, risk = _higher(effect, EffectClass.IDEMPOTENT_WRITE), _riskier(risk, Risk.MEDIUM)
    if annotations.get("idempotentHint") is False and not reads and effect.is_write:
        effect = _higher(effect, EffectClass.WRITE)
    if annotations.get("destructiveHint") is True and not reads:
        effect, risk = _higher(effect, EffectClass.IRREVERSIBLE), _riskier(risk, Risk.HIGH)
    return effect, risk


def _higher(one: EffectClass, other: EffectClass) -> EffectClass:
    return max(one, other, key=_EFFECTS.index)


def _riskier(one: Risk, other: Risk) -> Risk:
    return max(one, other, key=_RISKS.index)
