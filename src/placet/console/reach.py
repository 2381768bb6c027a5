"""How far a call reaches, as far as its contract and its arguments say: no more is known, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placet.model.contract import EffectClass
from placet.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """
    Attributes:
        is_final: whether what it does cannot be taken back, as the contract says.
        target: the one thing that the contract names; None where it names none.
        counts: lists in the arguments, by path, with how many members each has.
    """

    is_final: bool
    target: str | None
    counts: tuple[tuple[str, int], ...]


def reach_of(*, effect_class: str, resource: str | None, arguments: JsonObject, redacted: tuple[str, ...]) -> Reach:
    """The reach of a call; of redacted arguments nothing is counted."""
    counted = {name: value for name, value in arguments.items() if name not in redacted}
    return Reach(
        is_final=effect_class == EffectClass.IRREVERSIBLE.value, target=resource, counts=tuple(_counts("", counted))
    )


def _counts(path: str, value: JsonValue) -> Iterator[tuple[str, int]]:
    match value:
        case list():
            yield path, len(value)
            for index, member in enumerate(value):
                yield from _counts(f"{path}[{index}]", member)
        case dict():
            for name, member in value.items():
                yield from _counts(f"{path}.{name}" if path else name, member)
        case _:
            pass
