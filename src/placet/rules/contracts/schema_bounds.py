"""What a schema may cost: how often its parts can be held against one value, and which patterns it may have.

Validation visits a value once for every way that leads to it. Combinators that share a definition, or recursive ones,
multiply the ways by each level: forty levels of `anyOf` with two branches are a schema of two kilobytes and a trillion
visits. The number of ways is counted here, before anything is validated, and bounded. A visit counts for more if its
part of the schema lists much to compare with or to tell of, and patterns are weighed by their size once compiled.

Source: CASES A16; ADR-0020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from placet.model.json import JsonValue
from placet.rules.contracts.schema_graph import Node, Refusal, constants_of, reachable, shown_place
from placet.rules.contracts.schema_patterns import PATTERN_BYTES, compiled_bytes, fitting, is_common

MAX_VISITS: Final = 2_000
"""How often a schema's parts may be held against one value and what is around it, at most."""

MAX_MATCHING: Final = 402_653_184
"""Bytes of compiled patterns that may be held against one text and what is around it, times the bytes of a value: at
worst, some tenths of a second."""

MAX_IN_PLACE_DEPTH: Final = 48
MAX_PATTERNS: Final = 64
MAX_PATTERN_CHARACTERS: Final = 1_000
_MAX_STEPS: Final = 3_000_000
_LONG_TEXT: Final = 64
_SCALARS: Final = 32
"""Scalar constants are looked up, and only listed in a refusal: so many count as a visit."""
_MATCHED: Final = 256
"""Bytes of a compiled pattern that count as a visit, so that a text is not matched at length once more to explain."""
_COMPARED: Final = 4
"""Each value inside of constants that are no scalars counts for so many visits."""


def refuse_costly(root: Node, refuse: Refusal, *, max_depth: int, max_bytes: int) -> int:
    """Refuse what could explode; of the rest, the number of visits one value may cost.

    Args:
        max_bytes: how large the text of a value may be.

    Raises:
        ContractError: a reference that never reaches a value, too many ways to one value, or a pattern that is too
            long, too large, needs look-around or back-references, or that ECMA-262 does not read alike.
    """
    nodes = _innermost_first(root, refuse)
    sizes = _patterns(nodes, refuse)
    weights = {node: _weight(node) + _matched(node, sizes) // _MATCHED for node in nodes}
    visits, depth = _along(root, nodes, weights, MAX_VISITS, refuse, max_depth)
    if visits > MAX_VISITS and depth is None:
        raise refuse(
            f"its schema could be held against one value in more than {MAX_VISITS} ways ({visits}), "
            "each constant that is no scalar and each required name counted"
        )
    if visits > MAX_VISITS:
        raise refuse(
            f"its schema could be held against one value in more than {MAX_VISITS} ways at depth {depth}; give its "
            "alternatives one place, or lower max_depth="
        )
    if sizes:
        most = MAX_MATCHING // max_bytes
        matching, _ = _along(root, nodes, {node: _matched(node, sizes) for node in nodes}, most, refuse, max_depth)
        if matching > most:
            raise refuse(
                f"the patterns that its schema holds against one text are more than {most} bytes once compiled, for "
                f"values of {max_bytes} bytes; repeat less, or lower the bytes of a value"
            )
    return visits


def extent(value: JsonValue) -> int:
    """How many values there are in a value. A long text counts for several, and so does what is under a long name."""
    if isinstance(value, dict):
        return 1 + sum(_length(name) * extent(child) for name, child in value.items())
    if isinstance(value, list):
        return 1 + sum(map(extent, value))
    return _length(value) if isinstance(value, str) else 1


def _length(text: str) -> int:
    return 1 + len(text) // _LONG_TEXT


def _weight(node: Node) -> int:
    """For how many visits one counts: of constants that are no scalars each is compared, and what a refusal would
    list is made anew each time."""
    needed = [node.keywords.get("required")]
    dependent = node.keywords.get("dependentRequired")
    needed += list(dependent.values()) if isinstance(dependent, dict) else []
    listed = sum(extent(each) for each in needed if isinstance(each, list) and each)
    constants = constants_of(node) or []
    size = sum(map(extent, constants))
    is_plain = not any(isinstance(each, dict | list) for each in constants)
    return 1 + listed + (size // _SCALARS if is_plain else size * _COMPARED)


# ---------------------------------------------------------------- in place


def _innermost_first(root: Node, refuse: Refusal) -> list[Node]:
    """All nodes, each after those it holds against the same value.

    Raises:
        ContractError: one of them holds itself against the same value, or too many stand in a row.
    """
    ordered: list[Node] = []
    heights: dict[Node, int] = {}
    open_nodes: set[Node] = set()
    for start in reachable(root):
        stack: list[tuple[Node, Iterator[Node]]] = [(start, _neighbours(start))] if start not in heights else []
        open_nodes.update(node for node, _ in stack)
        while stack:
            node, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                stack.pop()
                open_nodes.discard(node)
                heights[node] = 1 + max((heights[each] for _, each in node.in_place()), default=0)
                ordered.append(node)
                if heights[node] > MAX_IN_PLACE_DEPTH:
                    raise refuse(
                        f"its schema holds more than {MAX_IN_PLACE_DEPTH} parts inside each other against one value"
                    )
            elif child in open_nodes:
                raise refuse(
                    f"at {shown_place(child.pointer)} its schema refers to itself without reaching a part of the value"
                )
            elif child not in heights:
                open_nodes.add(child)
                stack.append((child, _neighbours(child)))
    return ordered


def _neighbours(node: Node) -> Iterator[Node]:
    return (child for _, child in node.in_place())


# ---------------------------------------------------------------- visits


@dataclass(slots=True)
class _Ways:
    """Visits to what is inside a value, by where: a member of that name, any other member, an item, a name itself."""

    members: dict[str, int]
    other: int
    items: int
    names: int

    def add(self, more: _Ways) -> int:
        for name in more.members.keys() | self.members.keys():
            self.members[name] = self.members.get(name, self.other) + more.members.get(name, more.other)
        self.other += more.other
        self.items += more.items
        self.names += more.names
        return len(self.members) + 1

    def most(self) -> int:
        return max(self.other, self.items, self.names, *self.members.values(), 0)


def _along(
    root: Node, nodes: list[Node], weights: Mapping[Node, int], most: int, refuse: Refusal, max_depth: int
) -> tuple[int, int | None]:
    """The most weight along one path of members and items, of a value as deep as the contract allows.

    Beyond `most`, not all of it, and the depth where it was passed; None: at one value alone.
    """
    below: dict[Node, int] = dict.fromkeys(nodes, 0)
    steps = 0
    for depth in range(max_depth + 1):
        sizes: dict[Node, int] = {}
        ways: dict[Node, _Ways] = {}
        for node in nodes:
            ways[node] = _own_ways(node, below)
            sizes[node] = weights[node]
            steps += 1 + len(ways[node].members)
            for _, child in node.in_place():
                sizes[node] += sizes[child]
                steps += ways[node].add(ways[child])
                if steps > _MAX_STEPS:
                    raise refuse("its schema is too intricate to bound what validating would cost")
        if (largest := max(sizes.values())) > most:
            return largest, None
        now = {node: min(sizes[node] + ways[node].most(), most + 1) for node in nodes}
        if now[root] > most:
            return now[root], depth
        if now == below:
            break
        below = now
    return below[root], None


def _own_ways(node: Node, below: dict[Node, int]) -> _Ways:
    patterns = sum(below[child] for child in node.named.get("patternProperties", {}).values())
    rest = sum(below[node.one[key]] for key in ("additionalProperties", "unevaluatedProperties") if key in node.one)
    listed = max((below[child] for child in node.several.get("prefixItems", ())), default=0)
    items = sum(below[node.one[key]] for key in ("items", "contains", "unevaluatedItems") if key in node.one)
    return _Ways(
        members={name: below[child] + patterns + rest for name, child in node.named.get("properties", {}).items()},
        other=patterns + rest,
        items=listed + items,
        names=below[node.one["propertyNames"]] if "propertyNames" in node.one else 0,
    )


# ---------------------------------------------------------------- patterns


def _patterns(nodes: list[Node], refuse: Refusal) -> dict[str, int]:
    """Every pattern, and how large it is once compiled."""
    patterns = {pattern for node in nodes for pattern in _patterns_of(node)}
    if len(patterns) > MAX_PATTERNS:
        raise refuse(f"its schema has more than {MAX_PATTERNS} different patterns")
    for pattern in sorted(patterns):
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise refuse(f"a pattern of its schema has more than {MAX_PATTERN_CHARACTERS} characters")
        if fitting(pattern) is None:
            raise refuse(
                f"its pattern {ascii(pattern)[:80]} cannot be matched in linear time within {PATTERN_BYTES} bytes; "
                "leave out look-around and back-references, and repeat less"
            )
        if not is_common(pattern):
            raise refuse(
                f"its pattern {ascii(pattern)[:80]} is read otherwise by ECMA-262, whose patterns JSON Schema has; "
                "leave out inline flags, word boundaries and set operations, and escape [ inside of a class"
            )
    return {pattern: compiled_bytes(pattern) for pattern in patterns}


def _patterns_of(node: Node) -> Iterator[str]:
    pattern = node.keywords.get("pattern")
    if isinstance(pattern, str):
        yield pattern
    yield from node.named.get("patternProperties", {})


def _matched(node: Node, sizes: Mapping[str, int]) -> int:
    return sum(sizes[pattern] for pattern in _patterns_of(node))
