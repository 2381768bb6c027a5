"""The members of one table of a manifest, each read once and by its kind."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from placet.errors import ManifestError, MisuseError
from placet.model.exact import member_of
from placet.rules.showing import escape_for_people
from placet.rules.upstream_probes import is_pointer

Value = TypeVar("Value")


class ManifestMembers:
    """The members of one table, each read by its kind."""

    def __init__(self, table: object, place: str) -> None:
        if type(table) is not dict:
            refuse(f"{place} is a table")
        self.table: dict[str, Any] = table
        self.place = place

    def fail(self, name: str, kind: str) -> NoReturn:
        refuse(f"{name!r} in {self.place} is {kind}")

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        refuse_unknown_members(self.table, known, self.place)

    def text(self, name: str) -> str | None:
        value = self.table.get(name)
        if value is None or (type(value) is str and value):
            return value
        self.fail(name, "a text that is not empty")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.table.get(name, [])
        if type(value) is not list or not all(type(each) is str for each in value):
            self.fail(name, "a list of texts")
        return tuple(value)

    def word(self, name: str, kind: type[Any], usual: Value) -> Value:
        value = self.table.get(name, usual)
        found: Value | None = member_of(kind, value)
        if found is None:
            self.fail(name, f"one of {', '.join(each.value for each in kind)}")
        return found

    def seconds(self, name: str, usual: Value) -> float | Value:
        value = self.table.get(name)
        if value is None:
            return usual
        if type(value) in (int, float) and 0 < value < float("inf"):
            return float(value)
        self.fail(name, "a number of seconds above 0")

    def count(self, name: str, usual: Value) -> int | Value:
        value = self.table.get(name)
        if value is None:
            return usual
        if type(value) is int and value > 0:
            return value
        self.fail(name, "a whole number above 0")

    def truth(self, name: str) -> bool:
        value = self.table.get(name, False)
        if type(value) is not bool:
            self.fail(name, "true or false")
        return value

    def statuses(self, name: str) -> frozenset[int]:
        value = self.table.get(name, [])
        if type(value) is not list or not all(type(each) is int and 400 <= each <= 599 for each in value):
            self.fail(name, "a list of HTTP statuses from 400 to 599")
        return frozenset(value)

    def pointer(self, name: str) -> str | None:
        value = self.table.get(name)
        if value is None or is_json_pointer(value):
            return value
        self.fail(name, 'a JSON Pointer, such as "/id"')

    def pointers(self, name: str) -> tuple[str, ...]:
        value = self.texts(name)
        if not all(map(is_json_pointer, value)):
            self.fail(name, 'a list of JSON Pointers, such as "/metadata"')
        return value

    def inner(self, name: str, known: tuple[str, ...], read: Callable[[ManifestMembers], Value], usual: Value) -> Value:
        """What a table inside this one says; the usual where there is none."""
        given = self.table.get(name)
        if given is None:
            return usual
        said = ManifestMembers(given, f"{name!r} of {self.place}")
        said.refuse_unknown(known)
        try:
            return read(said)
        except MisuseError as error:
            problem = str(error)
        self.fail(name, problem)


def is_json_pointer(value: object) -> bool:
    return type(value) is str and is_pointer(value)


def refuse_unknown_members(table: dict[str, Any], known: tuple[str, ...], place: str) -> None:
    for name in table:
        if name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0.5)
            meant = f"Did you mean {nearest[0]!r}?" if nearest else f"Known there: {', '.join(known)}."
            refuse(f"it has an unknown member {shown_name(name)!r} at {place}", hint=meant)


def shown_name(name: str) -> str:
    return escape_for_people(name[:80])


def refuse(why: str, *, hint: str | None = None) -> NoReturn:
    raise ManifestError(f"The manifest cannot be used: {why}.", hint=hint)
