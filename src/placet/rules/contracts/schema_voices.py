"""Who speaks for what: which parts of a schema are held against one value, and against each of its parts.

Source: JSON Schema 2020-12 Core sections 10 and 11; ADR-0019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placet.rules.contracts.schema_graph import ASSERTIONS, Node, Refusal
from placet.rules.decoding import Path, json_pointer

_CONTAINERS = frozenset({"object", "array"})
_MAX_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Voice:
    """A part of the schema held against a value; `adds_only` if its refusal can never make the whole accept more."""

    node: Node
    adds_only: bool


def voices_of(node: Node, *, adds_only: bool = True) -> Iterator[Voice]:
    """All parts held against the same value whose declarations count; what is under `not` declares nothing."""
    yield Voice(node, adds_only)
    for keyword, child in node.in_place():
        if keyword != "not":
            yield from voices_of(child, adds_only=adds_only and keyword not in ("oneOf", "if"))


def is_flat(node: Node) -> bool:
    """Whether nothing it accepts can hold members: scalars, and lists of scalars. False if it is not plain to see."""
    if _is_scalar(node):
        return True
    items = node.one.get("items")
    is_list = node.types() == frozenset({"array"}) and not any(True for _ in node.in_place())
    return is_list and items is not None and _is_scalar(items) and _says_only_items(node)


def _says_only_items(node: Node) -> bool:
    return "prefixItems" not in node.several and {"contains", "unevaluatedItems"}.isdisjoint(node.one)


def _is_scalar(node: Node) -> bool:
    if node.boolean is not None:
        return not node.boolean
    kinds = node.types()
    if kinds is not None and kinds.isdisjoint(_CONTAINERS):
        return True
    constants = node.keywords.get("enum", [node.keywords["const"]] if "const" in node.keywords else None)
    if isinstance(constants, list) and not any(isinstance(each, dict | list) for each in constants):
        return True
    if node.reference is not None and _is_scalar(node.reference):
        return True
    branches = (node.several[keyword] for keyword in ("anyOf", "oneOf") if keyword in node.several)
    return any(map(_is_scalar, node.several.get("allOf", ()))) or any(all(map(_is_scalar, each)) for each in branches)


def may_be(node: Node, kind: str) -> bool:
    """Whether a value of this type may be accepted. True if it is not plain to see."""
    if node.boolean is not None:
        return node.boolean
    kinds = node.types()
    if kinds is not None and kind not in kinds:
        return False
    if node.reference is not None and not may_be(node.reference, kind):
        return False
    branches = (node.several[keyword] for keyword in ("anyOf", "oneOf") if keyword in node.several)
    return all(may_be(each, kind) for each in node.several.get("allOf", ())) and all(
        any(may_be(each, kind) for each in alternatives) for alternatives in branches
    )


def covers_items(node: Node) -> bool:
    """Whether every list it accepts is told what all its items are."""
    if not may_be(node, "array") or not {"items", "unevaluatedItems"}.isdisjoint(node.one):
        return True
    if node.reference is not None and covers_items(node.reference):
        return True
    branches = (node.several[keyword] for keyword in ("anyOf", "oneOf") if keyword in node.several)
    return any(map(covers_items, node.several.get("allOf", ()))) or any(
        all(map(covers_items, each)) for each in branches
    )


def bare(node: Node) -> Node:
    """The node that a mere reference means."""
    while node.reference is not None and is_mere_reference(node):
        node = node.reference
    return node


def is_mere_reference(node: Node) -> bool:
    says_more = node.one or node.several or node.named
    return node.reference is not None and not says_more and ASSERTIONS.isdisjoint(node.keywords)


def mapping(node: Node, keyword: str) -> Node | None:
    """What a node says of members not named one by one, if that declares any."""
    child = node.one.get(keyword)
    return None if child is None or child.boolean is False or child.is_anything() else child


def beneath(opens: frozenset[Path], name: str) -> frozenset[Path]:
    """What remains to be opened inside a member or item."""
    return frozenset(path[1:] for path in opens if path and path[0] in (name, "*"))


_Opening = frozenset[tuple[Path, int]]
"""Places to open that a walk is on the way to, and how many names of each it has gone."""


def _inside(opening: _Opening, name: str) -> _Opening:
    return frozenset(
        (path, position + 1) for path, position in opening if position < len(path) and path[position] in (name, "*")
    )


class Survey:
    """Visits every place where a value may stand, and asks who speaks for each of its parts.

    Attributes:
        opened: the places to open that were found.
        is_intricate: whether somewhere several speak for one part, so that no standard word sees them all.
    """

    def __init__(self, refuse: Refusal) -> None:
        self._refuse = refuse
        self._steps = 0
        self._seen: set[tuple[Voice, _Opening]] = set()
        self.opened: set[Path] = set()
        self.is_intricate = False

    def visit(self, root: Node, open_members: frozenset[Path]) -> None:
        """
        Raises:
            ContractError: a place to open is closed by its author, or it cannot be told who speaks for what.
        """
        waiting: list[tuple[Voice, _Opening]] = [(Voice(root, True), frozenset((path, 0) for path in open_members))]
        while waiting:
            place, opening = waiting.pop()
            if (place, opening) in self._seen:
                continue
            self._seen.add((place, opening))
            voices = list(voices_of(place.node, adds_only=place.adds_only))
            self._refuse_unsure(voices)
            self._open([path for path, position in opening if position == len(path)], place.node, voices)
            parts = _parts(voices)
            self._count(sum(map(len, parts.values())) + len(voices))
            for (kind, name), speakers in parts.items():
                loud = [each for each in speakers if not is_flat(each.node)]
                if len({bare(each.node) for each in loud}) > 1 or not all(each.adds_only for each in loud):
                    self.is_intricate = True
                inside = _inside(opening, name if kind == "member" else "*")
                waiting.extend((each, inside) for each in speakers)

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise self._refuse("its schema is too intricate to tell which members are known")

    def _open(self, paths: list[Path], node: Node, voices: list[Voice]) -> None:
        said = [voice.node.one["additionalProperties"] for voice in voices if "additionalProperties" in voice.node.one]
        if paths and any(child.boolean is False for child in said):
            raise self._refuse(f"open_members names {json_pointer(min(paths)) or '/'}, which its author closed")
        if may_be(node, "object") or not covers_items(node):
            self.opened.update(paths)

    def _refuse_unsure(self, voices: list[Voice]) -> None:
        """Permissions are taken back, and where a branch then evaluates less, another could count instead."""
        asks = any("unevaluatedProperties" in voice.node.one and not voice.adds_only for voice in voices)
        permits = any(
            voice.node.one[keyword].is_anything()
            for voice in voices
            for keyword in ("additionalProperties", "unevaluatedProperties")
            if keyword in voice.node.one
        )
        if asks and permits:
            raise self._refuse(
                "its schema decides by what it leaves unevaluated inside oneOf or if, and cannot be closed"
            )


def _parts(voices: list[Voice]) -> dict[tuple[str, str], list[Voice]]:
    """Who speaks for each part of a value: members by name, members by rule, items."""
    parts: dict[tuple[str, str], list[Voice]] = {}
    for voice in voices:
        for name, child in voice.node.named.get("properties", {}).items():
            parts.setdefault(("member", name), []).append(Voice(child, voice.adds_only))
    ruling = [voice for voice in voices if _patterns(voice) or _mappings(voice)]
    for (_, name), speakers in parts.items():
        for voice in ruling:  # a pattern may fit the name, and a mapping speaks for names that its own part does not
            speakers.extend(_patterns(voice))
            speakers.extend([] if name in voice.node.named.get("properties", {}) else _mappings(voice))
    if ruling:
        parts["rule", ""] = [each for voice in ruling for each in (*_patterns(voice), *_mappings(voice))]
    _add_items(parts, voices)
    return parts


def _patterns(voice: Voice) -> list[Voice]:
    return [Voice(child, voice.adds_only) for child in voice.node.named.get("patternProperties", {}).values()]


def _mappings(voice: Voice) -> list[Voice]:
    children = (mapping(voice.node, keyword) for keyword in ("additionalProperties", "unevaluatedProperties"))
    return [Voice(child, voice.adds_only) for child in children if child is not None]


def _add_items(parts: dict[tuple[str, str], list[Voice]], voices: list[Voice]) -> None:
    speaking = [voice for voice in voices if _item_voices(voice)]
    if len(speaking) == 1 and {"contains", "unevaluatedItems"}.isdisjoint(speaking[0].node.one):
        for index, each in enumerate(_item_voices(speaking[0])):  # each speaks for items of its own
            parts["item", str(index)] = [each]
    elif speaking:
        parts["item", ""] = [each for voice in speaking for each in _item_voices(voice)]


def _item_voices(voice: Voice) -> list[Voice]:
    node = voice.node
    keywords = ("items", "unevaluatedItems")
    found = [Voice(child, voice.adds_only) for child in node.several.get("prefixItems", ())]
    found += [Voice(node.one[keyword], voice.adds_only) for keyword in keywords if keyword in node.one]
    if "contains" in node.one:  # how many are like it counts, so it is never closed in place
        found.append(Voice(node.one["contains"], False))
    return found
