"""A JSON Schema read into its graph, from JSON text or from built-in values.

Read are draft 2020-12, and draft-07 in the words of 2020-12. A reference is followed here, once, by this module; what
is handed to the validator has no `$id`, no anchor and only `#/$defs/...`, so there is nothing left to look up.

Source: JSON Schema draft 2020-12, Core sections 8 to 11 and Validation section 6; ADR-0019.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from placet.errors import ContractError, InvalidArguments
from placet.model.json import JsonObject, JsonValue
from placet.rules.contracts.schema_graph import (
    ANNOTATIONS,
    ANY_TYPE,
    ASSERTIONS,
    NAMED,
    ONE,
    SEVERAL,
    TYPES,
    Node,
    Refusal,
    shown_place,
)
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.encoding import encode_foreign

MAX_SCHEMA_BYTES: Final = 262_144
MAX_SCHEMA_DEPTH: Final = 64
MAX_SCHEMA_NODES: Final = 5_000

_DEFINITIONS: Final = ("$defs", "definitions")
_IDENTITY: Final = frozenset(
    {"$id", "$schema", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$comment", "$vocabulary"}
)
_OLDER: Final = frozenset({"additionalItems", "dependencies", "contentSchema"})
_UNSUPPORTED: Final = frozenset({"$recursiveRef", "$recursiveAnchor"})
_NOT_YET_IN_DRAFT_07: Final = frozenset(
    {
        "dependentRequired", "dependentSchemas", "prefixItems", "unevaluatedItems", "unevaluatedProperties",
        "minContains", "maxContains", "$anchor", "$dynamicAnchor", "$dynamicRef",
    }
)  # fmt: skip
_KNOWN: Final = (
    ASSERTIONS | ANNOTATIONS | frozenset((*ONE, *SEVERAL, *NAMED, *_DEFINITIONS)) | _IDENTITY | _OLDER | _UNSUPPORTED
)


def _folded(keyword: str) -> str:
    return re.sub(r"[\W_]+", "", keyword).casefold()


_BY_FOLDED: Final = {_folded(keyword): keyword for keyword in _KNOWN}
_DRAFT_2020: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_07: Final = ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema")
_LIMITS: Final = DecodingLimits(
    max_bytes=MAX_SCHEMA_BYTES,
    max_depth=MAX_SCHEMA_DEPTH,
    max_members=50_000,
    max_string_characters=65_536,
    max_number_digits=400,
)
_ANYWHERE: Final = frozenset(("*",) * depth for depth in range(1, MAX_SCHEMA_DEPTH + 1))


def read_schema(given: object, refuse: Refusal, what: str) -> JsonObject:
    """A schema as plain JSON, from JSON text or from built-in types only; no method of a foreign object runs.

    Raises:
        ContractError: it is not one JSON object within the limits; members repeated in text, NaN, lone surrogates.
    """
    try:
        text = given if type(given) is str or type(given) is bytes else encode_foreign(given, limits=_LIMITS)
        return decode_object(text, limits=_LIMITS, wide=_ANYWHERE)
    except InvalidArguments as refusal:
        reason = f"{refusal.reason.replace('_', ' ')} at {refusal.problems[0][0] or '/'}"
    raise refuse(f"its {what} schema cannot be read ({reason})")


def read_graph(schema: JsonObject, refuse: Refusal, *, type_names: dict[str, str] | None = None) -> Node:
    """The root of a schema's graph, every reference inside it followed.

    Args:
        type_names: what type names that JSON Schema does not know mean, e.g. `{"dict": "object"}`.

    Raises:
        ContractError: it is not a schema, is in a dialect we do not read, or refers to what is not in it.
    """
    reader = _Reader(refuse, _is_draft_07(schema, refuse), type_names or {})
    root = reader.read(schema, ((("", ""),)), "", "")
    reader.follow()
    return root


def _is_draft_07(schema: JsonObject, refuse: Refusal) -> bool:
    dialect = schema.get("$schema", _DRAFT_2020)
    bare = dialect.removesuffix("#") if isinstance(dialect, str) else ""
    if bare != _DRAFT_2020 and bare not in _DRAFT_07:
        raise refuse("its $schema names a dialect that placet does not read; it reads draft 2020-12 and draft-07")
    return bare in _DRAFT_07


class _Reader:
    """Reads one document and remembers what can be referred to."""

    def __init__(self, refuse: Refusal, is_draft_07: bool, type_names: dict[str, str]) -> None:
        self._refuse = refuse
        self._is_draft_07 = is_draft_07
        self._type_names = type_names
        self._count = 0
        self._resources: set[str] = {""}
        self._places: dict[tuple[str, str], Node] = {}
        self._anchors: dict[tuple[str, str], Node] = {}
        self._dynamic: dict[str, list[Node]] = {}
        self._referring: set[Node] = set()
        self._waiting: list[tuple[Node, str, str, str]] = []

    def read(self, value: JsonValue, places: tuple[tuple[str, str], ...], base: str, pointer: str) -> Node:
        """Read one subschema; `places` are its addresses, one for each resource that holds it."""
        self._count += 1
        if self._count > MAX_SCHEMA_NODES:
            raise self._refuse(f"its schema has more than {MAX_SCHEMA_NODES} subschemas")
        node = Node(pointer=pointer)
        if isinstance(value, bool):
            node.boolean = value
        elif isinstance(value, dict):
            base, places = self._identify(node, value, base, places)
            self._fill(node, value, places, base)
        else:
            raise self._refuse_at(pointer, "there is no schema")
        for place in places:
            self._places[place] = node
        return node

    def follow(self) -> None:
        """Lead every reference to its node."""
        for node, keyword, reference, base in self._waiting:
            node.reference = self._target(node, keyword, reference, base)

    def _refuse_at(self, pointer: str, why: str) -> ContractError:
        return self._refuse(f"at {shown_place(pointer)} of its schema {why}")

    # ------------------------------------------------------------ names

    def _identify(
        self, node: Node, value: JsonObject, base: str, places: tuple[tuple[str, str], ...]
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        if "$schema" in value and _is_draft_07(value, self._refuse) is not self._is_draft_07:
            raise self._refuse("parts of its schema are in different dialects")
        own = value.get("$id")
        if own is not None:
            if not isinstance(own, str):
                raise self._refuse_at(node.pointer, "$id is not text")
            address, fragment = urldefrag(_joined(base, own))
            if fragment and not self._is_draft_07:
                raise self._refuse_at(node.pointer, "$id has a fragment")
            if fragment:  # an anchor, as draft-07 writes it
                self._name(node, base, fragment)
            elif address != base:
                if address in self._resources:
                    raise self._refuse(f"two parts of its schema have the $id {_shown(own)}")
                self._resources.add(address)
                base, places = address, (*places, (address, ""))
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = value.get(keyword)
            if name is not None:
                if not isinstance(name, str):
                    raise self._refuse_at(node.pointer, f"{keyword} is not text")
                self._name(node, base, name)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(node)
        return base, places

    def _name(self, node: Node, base: str, name: str) -> None:
        if self._anchors.setdefault((base, name), node) is not node:
            raise self._refuse(f"two parts of its schema have the anchor {_shown(name)}")

    def _target(self, node: Node, keyword: str, reference: str, base: str) -> Node:
        address, fragment = urldefrag(_joined(base, reference))
        if address not in self._resources:
            raise self._refuse(
                f"its schema refers to {_shown(reference)}, which is not in it; placet fetches nothing, so put it "
                "under $defs"
            )
        name = unquote(fragment)
        known = self._places if not name or name.startswith("/") else self._anchors
        found = known.get((address, name))
        if found is None:
            raise self._refuse(f"its schema refers to {_shown(reference)}, where it has no schema")
        among = self._dynamic.get(name, [])
        if keyword == "$dynamicRef" and found in among and len(among) > 1:
            raise self._refuse(f"its $dynamicRef {_shown(reference)} could mean {len(among)} of its parts; use $ref")
        return found

    # ------------------------------------------------------------ keywords

    def _fill(self, node: Node, value: JsonObject, places: tuple[tuple[str, str], ...], base: str) -> None:
        for keyword, given in self._translated(node, value):
            where = tuple((address, f"{path}/{_token(keyword)}") for address, path in places)
            pointer = f"{node.pointer}/{_token(keyword)}"
            if keyword in _DEFINITIONS:
                self._read_named(keyword, given, where, base, pointer)
            elif keyword in NAMED:
                node.named[keyword] = self._read_named(keyword, given, where, base, pointer)
            elif keyword in SEVERAL:
                node.several[keyword] = self._read_several(keyword, given, where, base, pointer)
            elif keyword in ONE:
                node.one[keyword] = self.read(given, where, base, pointer)
            elif keyword in ("$ref", "$dynamicRef"):
                if not isinstance(given, str):
                    raise self._refuse_at(pointer, "there is no text")
                if node in self._referring:
                    raise self._refuse_at(node.pointer, "there are two references")
                self._referring.add(node)
                self._waiting.append((node, keyword, given, base))
            elif keyword in ASSERTIONS:
                node.keywords[keyword] = self._types(given, pointer) if keyword == "type" else given
            elif keyword in ANNOTATIONS:
                node.keywords[keyword] = given
            else:
                self._refuse_meant(keyword, pointer)
        if node.keywords.get("type") == []:
            del node.keywords["type"]  # it was translated to "any"
        if "if" not in node.one:
            node.one.pop("then", None)
            node.one.pop("else", None)
        self._declare_constants(node)

    def _translated(self, node: Node, value: JsonObject) -> Iterator[tuple[str, JsonValue]]:
        """Members in the words of 2020-12; what draft-07 says of lists and dependencies keeps its meaning.

        Under `not` or `oneOf` a word that counts too much would accept more, so none counts that its dialect lacks.
        """
        items = value.get("items")
        if self._is_draft_07:
            self._refuse_newer(node, value)
        elif "dependencies" in value:
            raise self._refuse_at(
                node.pointer,
                "dependencies says nothing in draft 2020-12: write "
                "dependentRequired or dependentSchemas, or name draft-07 in $schema",
            )
        for keyword, given in value.items():
            if keyword == "items" and isinstance(items, list):
                if not self._is_draft_07:
                    raise self._refuse_at(
                        node.pointer, "items is a list: write prefixItems, or name draft-07 in $schema"
                    )
                yield "prefixItems", given
            elif keyword == "additionalItems":
                if isinstance(items, list):
                    yield "items", given
            elif keyword == "dependencies":
                if not isinstance(given, dict):
                    raise self._refuse_at(node.pointer, "dependencies is not an object")
                lists: JsonObject = {name: each for name, each in given.items() if isinstance(each, list)}
                schemas: JsonObject = {name: each for name, each in given.items() if name not in lists}
                yield "dependentRequired", lists
                yield "dependentSchemas", schemas
            else:
                yield keyword, given

    def _refuse_newer(self, node: Node, value: JsonObject) -> None:
        if newer := _NOT_YET_IN_DRAFT_07.intersection(value):
            raise self._refuse_at(node.pointer, f"{min(newer)} is not of draft-07, which its $schema names")
        if "$ref" in value and (ASSERTIONS | {*ONE, *SEVERAL, *NAMED, "dependencies"}).intersection(value):
            raise self._refuse_at(
                node.pointer, "something stands beside $ref, where draft-07 says nothing counts: write both under allOf"
            )

    def _read_named(
        self, keyword: str, given: JsonValue, places: tuple[tuple[str, str], ...], base: str, pointer: str
    ) -> dict[str, Node]:
        if not isinstance(given, dict):
            raise self._refuse_at(pointer, f"{keyword} is not an object")
        return {
            name: self.read(
                each,
                tuple((address, f"{path}/{_token(name)}") for address, path in places),
                base,
                f"{pointer}/{_token(name)}",
            )
            for name, each in given.items()
        }

    def _read_several(
        self, keyword: str, given: JsonValue, places: tuple[tuple[str, str], ...], base: str, pointer: str
    ) -> tuple[Node, ...]:
        if not isinstance(given, list) or not given:
            raise self._refuse_at(pointer, f"{keyword} is not a list of schemas")
        return tuple(
            self.read(each, tuple((address, f"{path}/{index}") for address, path in places), base, f"{pointer}/{index}")
            for index, each in enumerate(given)
        )

    def _types(self, given: JsonValue, pointer: str) -> JsonValue:
        names = given if isinstance(given, list) else [given]
        if not names:
            raise self._refuse_at(pointer, "no type is named")
        meant: list[JsonValue] = []
        for name in names:
            known = self._type_names.get(name, name) if isinstance(name, str) else None
            if known == ANY_TYPE and name in self._type_names:
                return []
            if known not in TYPES:
                raise self._refuse_at(
                    pointer,
                    f"{_shown(name)} is not a type of JSON Schema; say what it "
                    f'means with type_names={{{_shown(name)}: "object"}}',
                )
            if known not in meant:
                meant.append(known)
        return meant if isinstance(given, list) else meant[0]

    def _refuse_meant(self, keyword: str, pointer: str) -> None:
        """Unknown keywords say nothing, and are left out; one that was meant to say something is not."""
        if keyword in _UNSUPPORTED:
            raise self._refuse_at(pointer, f"{keyword} is of draft 2019-09, which is not read")
        meant = _BY_FOLDED.get(_folded(keyword))
        if meant is not None and keyword not in _KNOWN:
            raise self._refuse_at(pointer, f"{_shown(keyword)} says nothing; write {meant!r}")

    def _declare_constants(self, node: Node) -> None:
        """The members of a constant are known members: it is told so in words that closing understands."""
        constants = [node.keywords["const"]] if "const" in node.keywords else []
        listed = node.keywords.get("enum")
        constants += listed if isinstance(listed, list) else []
        if any(isinstance(each, dict | list) for each in constants):
            node.several["allOf"] = (*node.several.get("allOf", ()), _declaring(constants, node.pointer))


def _declaring(constants: list[JsonValue], pointer: str) -> Node:
    """A schema that accepts everything, and declares the members of these values at every depth."""
    node = Node(pointer=pointer)
    members: dict[str, list[JsonValue]] = {}
    items: list[JsonValue] = []
    for each in constants:
        if isinstance(each, dict):
            for name, child in each.items():
                members.setdefault(name, []).append(child)
        elif isinstance(each, list):
            items += each
    if members:
        node.named["properties"] = {name: _declaring(each, pointer) for name, each in members.items()}
    if any(isinstance(each, dict | list) for each in items):
        node.one["items"] = _declaring(items, pointer)
    return node


def _joined(base: str, reference: str) -> str:
    if reference.startswith("#"):  # urljoin knows no fragment of a urn:
        return urldefrag(base)[0] + reference
    return urljoin(base, reference)


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    return ascii(value)[:80]
