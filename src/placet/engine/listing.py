"""The list of people, asked with patience. It is foreign code: whatever it raises, however it waits, is no answer.

A list that does not answer keeps everybody who is on it from deciding, so whoever runs this process reads of it in the
log: once when it stops answering, and once when it answers again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from placet.model.principal import Principal, is_principal
from placet.ports.people import People
from placet.ports.waiting import foreign, owes_cancellation
from placet.rules.foreign import safe_exception_name

NOT_LISTED: Final = "not_listed_any_more"
PEOPLE_FAILED: Final = "people_failed"
PEOPLE_HINT: Final = (
    "Try again. If it stays so, whoever runs this placet mends the list of people: its log says since when it does not "
    "answer, and where placet.toml is the list, placet doctor says what is wrong with it."
)
_LISTING_SECONDS: Final = 5.0
_log = logging.getLogger("placet.people")


class AskedPeople:
    """One list, as whoever relies on it asks."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._fault = ""
        self._silent: set[str] = set()

    async def person(self, tenant: str, subject: str) -> Principal | str:
        """The person as the list has it now, or why that is not known."""
        match await self._said(lambda: self._people.person(tenant, subject)):
            case (None,):
                self._has_answered("person")
                return NOT_LISTED
            case (person,) if is_principal(person) and (person.tenant, person.subject) == (tenant, subject):
                self._has_answered("person")
                return person
            case _:
                self._has_failed("person")
                return PEOPLE_FAILED

    async def everybody(self, tenant: str) -> tuple[Principal, ...]:
        """All of a tenant whom the list has; nobody where it does not answer."""
        match await self._said(lambda: self._people.people(tenant)):
            case (tuple() as found,):
                self._has_answered("people")
                return tuple(person for person in found if is_principal(person) and person.tenant == tenant)
            case _:
                self._has_failed("people")
                return ()

    async def _said(self, question: Callable[[], Awaitable[object]]) -> object:
        self._fault = ""
        return await foreign(self._answer(question), timeout_seconds=_LISTING_SECONDS)

    async def _answer(self, question: Callable[[], Awaitable[object]]) -> tuple[object]:
        """What the list says, told apart from what it raises."""
        try:
            return (await question(),)
        except BaseException as fault:
            self._fault = safe_exception_name(fault)
            raise

    def _has_answered(self, question: str) -> None:
        """Of two questions, one of which fails on, the other one's answer is no return."""
        was_silent = question in self._silent
        self._silent.discard(question)
        if was_silent and not self._silent:
            _log.warning("the list of people answers again", extra={"code": PEOPLE_FAILED})

    def _has_failed(self, question: str) -> None:
        if owes_cancellation():
            return  # whoever breaks off asking says nothing about the list
        is_news = not self._silent
        self._silent.add(question)
        if is_news:
            known = {"code": PEOPLE_FAILED, "error_type": self._fault, "hint": PEOPLE_HINT}
            _log.error("the list of people does not answer: nobody who is on it decides", extra=known)
