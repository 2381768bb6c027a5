"""The enforced schema: the author's, with unknown members refused at every depth, unless opened on purpose.

A member is known if a subschema that holds declares it: by `properties`, `patternProperties`, or a mapping's
`additionalProperties` that names types or constants (`true`, `{}` and the like declare nothing, and words that let in
some value of every type are refused). Where one place of the schema speaks for one object
the standard words say it: `additionalProperties: false`, or `unevaluatedProperties: false` beside combinators. Where
several speak for one object, say two branches for a nested one, no word sees them all; there the annotations of a
whole validation are collected, and the schema carries `x-placet-closed: true` in place of the standard words.

    place in the schema      closed with
    no combinator            additionalProperties: false
    combinators beside it    unevaluatedProperties: false, outside of the branches, so that branches choose as before
    several for one object   x-placet-closed: true at the root, for the whole contract

What is closed accepts nothing that the author's schema does not: closing only adds, and never inside `not`, nor where
a branch's refusal could make another one count.

Source: DESIGN section 5; CASES A14, A15; JSON Schema 2020-12 Core section 11; ADR-0019.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Final

from placet.model.json import JsonObject, JsonValue
from placet.rules.contracts.names import fits_names_at_large
from placet.rules.contracts.schema_graph import (
    ASSERTIONS,
    SEVERAL,
    TYPES,
    Node,
    Refusal,
    kinds_of,
    reachable,
    shown_place,
)
from placet.rules.contracts.schema_patterns import fitting
from placet.rules.contracts.schema_voices import (
    Survey,
    beneath,
    covers_items,
    is_flat,
    is_mere_reference,
    mapping,
    may_be,
)
from placet.rules.decoding import Path, json_pointer

CLOSED_BY_ANNOTATION: Final = "x-placet-closed"
"""At the root of an enforced schema: members that no part of it declares are refused, at every depth."""

EXACT_TYPE: Final = "x-placet-exact-type"
EXACT_CONSTANTS: Final = "x-placet-exact-constants"
"""Beside `type`, and beside `const` and `enum`, where a value has floats: `1.0` is no integer and is not `1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """What is held against a value, in three writings of one rule.

    Attributes:
        schema: the whole rule, in standard words where they can say it; what is shown and digested.
        exact: the same with the words that tell `1.0` from `1`; read only for values that have such a float.
        members: if members have to be looked up among the annotations of a validation, what to collect them with.
        open_members: where unknown members are let in, as paths with `*` for any name or index.
    """

    schema: JsonObject
    exact: JsonObject
    members: JsonObject | None
    open_members: tuple[Path, ...]


def plain(root: Node) -> JsonObject:
    """The author's schema itself, with every reference led to `#/$defs/...`, and nothing added or taken away."""
    return _Writer(_as_written).document(root, frozenset(), _Manner.VERBATIM)


def closed(root: Node, refuse: Refusal, *, open_members: tuple[Path, ...] = ()) -> Enforced:
    """The author's schema, closed. Its cost has to be known to be bounded.

    Raises:
        ContractError: a place to open does not exist or is closed by its author, or the schema cannot be closed.
    """
    opens = frozenset(open_members)
    for node in reachable(root):
        _refuse_vague(node, refuse)
    survey = Survey(refuse)
    survey.visit(root, opens)
    for path in open_members:
        if path not in survey.opened:
            raise refuse(f"open_members names {json_pointer(path) or '/'}, where its schema has no object to open")
    if survey.is_intricate:
        if any(mapping(node, "unevaluatedProperties") for node in reachable(root)):
            raise refuse(
                "its unevaluatedProperties is a mapping among parts that speak for one object; write it as one"
            )
        return closed_by_annotation(root, open_members)
    schema, exact = (_Writer(how).document(root, opens, _Manner.CLOSED) for how in (_as_written, _exactly))
    return Enforced(schema=schema, exact=exact, members=None, open_members=open_members)


def _refuse_vague(node: Node, refuse: Refusal) -> None:
    """Refuse members of any name of which nothing is said but in words that every type passes: `{"minLength": 3}`.

    They declare nothing, and cannot be left out as `true` is: under `oneOf` less would be refused.
    """
    vague = [
        child
        for keyword in ("additionalProperties", "unevaluatedProperties")
        if (child := node.one.get(keyword)) is not None and not child.is_anything() and _is_of_any_type(child)
    ]
    for pattern, child in node.named.get("patternProperties", {}).items():
        fits = fitting(pattern) if _is_of_any_type(child) else None
        if fits is not None and fits_names_at_large(fits):
            vague.append(child)
    if vague:
        raise refuse(
            f"at {shown_place(vague[0].pointer)} its schema lets in members of any name and of any type; name their "
            "types or constants, or leave it out and open the place with open_members"
        )


def _is_of_any_type(node: Node) -> bool:
    return kinds_of(node) == frozenset(TYPES)


def closed_by_annotation(root: Node, open_members: tuple[Path, ...]) -> Enforced:
    """The author's schema, closed without the standard words: dearer, and right for every schema but those whose
    `unevaluatedProperties` is a mapping, of which the validator leaves no annotation."""
    opens = frozenset(open_members)
    schema, exact = (_Writer(how).document(root, opens, _Manner.UNPERMITTED) for how in (_as_written, _exactly))
    members = _Writer(_assertions_only, _apart).document(root, opens, _Manner.UNPERMITTED)
    schema[CLOSED_BY_ANNOTATION] = True
    return Enforced(schema=schema, exact=exact, members=members, open_members=open_members)


# ---------------------------------------------------------------- a node's own words


def _as_written(node: Node) -> JsonObject:
    return dict(node.keywords)


def _assertions_only(node: Node) -> JsonObject:
    return {keyword: given for keyword, given in node.keywords.items() if keyword in ASSERTIONS}


def _apart(words: JsonObject) -> JsonObject:
    """The same rule, written so that the validator leaves every annotation.

    It leaves none of named members and patterns beside `additionalProperties`, and none of an `if` that stands alone.
    """
    if "if" in words and not {"then", "else"} & words.keys():
        words = {**words, "then": True}
    named: JsonObject = {key: words[key] for key in ("properties", "patternProperties") if key in words}
    if "additionalProperties" not in words or not named:
        return words
    others = words.get("allOf", [])
    names: JsonObject = {key: dict.fromkeys(given, True) for key, given in named.items() if isinstance(given, dict)}
    return {**words, **names, "allOf": [named, *(others if isinstance(others, list) else ())]}


def _exactly(node: Node) -> JsonObject:
    words = _assertions_only(node)
    kinds = node.types()
    if kinds is not None and "integer" in kinds and "number" not in kinds:
        words[EXACT_TYPE] = True
    constants = node.keywords.get("enum", [node.keywords["const"]] if "const" in node.keywords else None)
    if isinstance(constants, list):
        words[EXACT_CONSTANTS] = constants
    return words


# ---------------------------------------------------------------- writing


class _Manner(Enum):
    """How a node is written.

    `verbatim`: as its author did. `unpermitted`: but that permissions of unknown members, which declare none, are
    left out. `closed`: and the standard words refuse unknown members wherever a value may stand.
    """

    VERBATIM = auto()
    UNPERMITTED = auto()
    CLOSED = auto()


_Definition = tuple[Node, frozenset[Path], _Manner, bool]
_VERBATIM_INSIDE: Final = ("not", "propertyNames")
_SAME_VALUE: Final = ("if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas")
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_ANYTHING: Final = Node(pointer="/anything")


class _Writer:
    """Writes one graph as one document; what is referred to stands under `$defs`, once for each manner."""

    def __init__(
        self,
        own_words: Callable[[Node], JsonObject],
        arrange: Callable[[JsonObject], JsonObject] = lambda words: words,
    ) -> None:
        self._own_words = own_words
        self._arrange = arrange
        self._names: dict[_Definition, str] = {}
        self._waiting: list[_Definition] = []

    def document(self, root: Node, opens: frozenset[Path], manner: _Manner) -> JsonObject:
        written = self._value(root, opens, manner)
        document: JsonObject = written if isinstance(written, dict) else ({} if written else {"not": {}})
        definitions: JsonObject = {}
        while self._waiting:
            definition = self._waiting.pop()
            node, inside, how, is_value = definition
            write = self._value if is_value else self._words
            definitions[self._names[definition]] = write(node, inside, how)
        if definitions:
            document["$defs"] = dict(sorted(definitions.items()))
        return document

    def _value(self, node: Node, opens: frozenset[Path], manner: _Manner) -> JsonValue:
        """A node where a value, or a part of one, stands."""
        if manner is not _Manner.CLOSED or is_flat(node):
            return self._words(node, opens, manner)
        if is_mere_reference(node) and node.reference is not None:
            return {**self._own_words(node), "$ref": self._reference((node.reference, opens, manner, True))}
        written = self._words(node, opens, manner)
        words: JsonObject = written if isinstance(written, dict) else {}
        if () not in opens and may_be(node, "object"):
            self._close_members(node, words)
        if () not in opens and not covers_items(node):
            keyword = "items" if _is_alone(node) else "unevaluatedItems"
            words[keyword] = {"$ref": self._reference((_ANYTHING, beneath(opens, "*"), manner, True))}
        return words

    def _close_members(self, node: Node, words: JsonObject) -> None:
        if any(mapping(node, keyword) for keyword in ("additionalProperties", "unevaluatedProperties")):
            return  # it says itself what else there may be
        words["additionalProperties" if _is_alone(node) else "unevaluatedProperties"] = False

    def _words(self, node: Node, opens: frozenset[Path], manner: _Manner) -> JsonValue:
        """What a node says, itself not closed."""
        if node.boolean is not None:
            return node.boolean
        words = self._own_words(node)
        if node.reference is not None:
            words["$ref"] = self._reference((node.reference, opens, manner, False))
        for keyword, child in node.one.items():
            if keyword in _VERBATIM_INSIDE:
                words[keyword] = self._words(child, frozenset(), _Manner.VERBATIM)
            elif manner is _Manner.VERBATIM or not _is_permission(keyword, child):
                words[keyword] = self._inside(keyword, child, opens, manner)
        for keyword in SEVERAL:
            if keyword in node.several:
                words[keyword] = [self._inside(keyword, child, opens, manner) for child in node.several[keyword]]
        for keyword, children in node.named.items():
            words[keyword] = {
                name: self._value(child, beneath(opens, name), manner)
                if keyword == "properties"
                else self._inside(keyword, child, opens, manner)
                for name, child in children.items()
            }
        return self._arrange(words)

    def _inside(self, keyword: str, child: Node, opens: frozenset[Path], manner: _Manner) -> JsonValue:
        if keyword in _SAME_VALUE:
            return self._words(child, opens, manner)
        return self._value(child, beneath(opens, "*"), manner)

    def _reference(self, definition: _Definition) -> str:
        name = self._names.get(definition)
        if name is None:
            node = definition[0]
            wish = _UNNAMED.sub("_", node.pointer.rpartition("/")[2])[:64] or "root"
            taken = set(self._names.values())
            name = next(each for each in _numbered(wish) if each not in taken)
            self._names[definition] = name
            self._waiting.append(definition)
        return f"#/$defs/{name}"


def _is_permission(keyword: str, child: Node) -> bool:
    return keyword in ("additionalProperties", "unevaluatedProperties") and child.is_anything()


def _is_alone(node: Node) -> bool:
    """Whether no other part that declares is held against the same value."""
    return all(keyword == "not" for keyword, _ in node.in_place())


def _numbered(wish: str) -> Iterator[str]:
    yield wish
    for number in count(2):
        yield f"{wish}-{number}"
