"""The members of one table of placet.toml, each read once and by its kind.

Closed as the rest of the file: a member that is not known is refused with the nearest one that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from placet.cli.failing import ConfigProblem
from placet.errors import ConfigurationError
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import ClaimPath
from placet.rules.addresses import shown_word

Word = TypeVar("Word", bound=StrEnum)
Usual = TypeVar("Usual")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def checked(place: str, file: Path | None, check: Callable[[], object], *, hint: str | None = None) -> None:
    """A rule's own refusal, with the place in the file that it is about; `hint` where the rule has none."""
    try:
        check()
        return
    except ConfigurationError as refused:
        problem = ConfigProblem(f"{place} of {file}: {refused}", hint=refused.hint or hint)
    raise problem


class Members:
    """The members of one table, each read once and by its kind.

    Args:
        hint: what a table of this kind looks like.
    """

    def __init__(self, table: object, place: str, file: Path | None, *, hint: str | None = None) -> None:
        self.place, self.file, self.hint = place, file, hint
        if type(table) is not dict:
            raise ConfigProblem(f"{place} in {file} is a table", hint=hint)
        self.table: dict[str, Any] = table

    def fail(self, name: str, kind: str) -> NoReturn:
        raise ConfigProblem(f"{name!r} in {self.place} of {self.file} is {kind}", hint=self.hint)

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        for name in self.table:
            if name not in known:
                nearest = get_close_matches(name, known, n=1, cutoff=0.5)
                meant = f"Did you mean {nearest[0]!r}?" if nearest else f"Known there: {', '.join(known)}."
                raise ConfigProblem(
                    f"{self.file} has an unknown member {shown_word(name)!r} at {self.place}", hint=meant
                )

    def text(self, name: str) -> str | None:
        value = self.table.get(name)
        if value is None or (type(value) is str and value):
            return value
        self.fail(name, "a text that is not empty")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.table.get(name, [])
        if _are_texts(value):
            return tuple(value)
        self.fail(name, "a list of texts")

    def claim(self, name: str) -> ClaimPath:
        value = self.table.get(name, [])
        if type(value) is str and value:
            return (value,)
        if _are_texts(value):
            return tuple(value)
        self.fail(name, "the name of a claim, or the names on the way to it, as a list")

    def number(self, name: str, usual: float) -> float:
        value = self.table.get(name, usual)
        if type(value) in (int, float) and 0 < value < 1e6:
            return float(value)
        self.fail(name, "a number above 0")

    def word(self, name: str, kind: type[Word], usual: Usual) -> Word | Usual:
        value = self.table.get(name)
        return usual if value is None else self.as_word(name, kind, value)

    def words(self, name: str, kind: type[Word]) -> tuple[Word, ...]:
        return tuple(self.as_word(name, kind, value) for value in self.texts(name))

    def as_word(self, name: str, kind: type[Word], value: object) -> Word:
        for each in kind:
            if type(value) is str and each.value == value:
                return each
        self.fail(name, f"one of {', '.join(each.value for each in kind)}")

    def truth(self, name: str) -> bool:
        value = self.table.get(name, False)
        if type(value) is bool:
            return value
        self.fail(name, "true or false")

    def secret(self, name: str, text: str, folder: Path) -> SecretRef:
        """Where a secret is; the file never holds one."""
        place, separator, where = text.partition(":")
        if separator and place == SecretPlace.ENVIRONMENT.value and _VARIABLE.fullmatch(where):
            return SecretRef(place=SecretPlace.ENVIRONMENT, name=where)
        if separator and place == SecretPlace.FILE.value and where and "\0" not in where:
            return SecretRef(place=SecretPlace.FILE, name=str(folder / where))
        self.fail(name, 'a place of a secret, "env:NAME" or "file:PATH", and never the secret itself')

    def texts_by_name(self, name: str) -> dict[str, str]:
        value = self.table.get(name, {})
        if type(value) is dict and _are_texts(list(value.values())):
            return value
        self.fail(name, 'a table of texts, such as { "org-1" = "acme" }')

    def values_by_name(self, name: str) -> Mapping[str, frozenset[str]]:
        value = self.table.get(name, {})
        if type(value) is dict and all(type(each) is str or _are_texts(each) for each in value.values()):
            return {k: frozenset({each} if type(each) is str else each) for k, each in value.items()}
        self.fail(name, 'a table of claims and their values, such as { amr = ["mfa", "hwk"] }')


def _are_texts(value: object) -> bool:
    return type(value) is list and all(type(each) is str and each for each in value)
