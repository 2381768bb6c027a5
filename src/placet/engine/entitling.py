"""Whether a person may decide a question: when it decides, and again before what it approved is spent.

Three words count, and each of them may only narrow: separate duties and `approvals.decide`, which hold whatever anybody
configured; the policy's own word; and the list of people, if one is kept. Policy and list are foreign code: whatever
they raise, however they wait, and any silence, is a no.

What is known of a person is signed with its decision: its roles and scopes then, and whether the list had it. When the
approval is spent, somebody whom the list had is what the list says now, and nobody once it has left the list. Of
everybody else, and where no list is kept, the signed roles and scopes are all that anybody knows: a program that keeps
none spends what people of `placet.toml` approved on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from placet.engine.deciding import Decider
from placet.errors import MisuseError
from placet.model.approval import Leave, Question
from placet.model.principal import Principal, is_principal
from placet.ports.people import NobodyListed, People
from placet.ports.waiting import foreign
from placet.rules import approvals as rules
from placet.rules.policy import POLICY_FAILED

LISTING_SECONDS = 5.0
NOT_LISTED = "not_listed_any_more"
PEOPLE_FAILED = "people_failed"
UNCERTAIN = frozenset({PEOPLE_FAILED, POLICY_FAILED})
"""Codes that say no because nobody could tell; what was decided is not void for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Somebody who gave an approval, or a part of one, with what was signed about it.

    Attributes:
        leave: None of an answer from before leaves were noted.
    """

    subject: str
    leave: Leave | None


class Entitling:
    """The question whether a person may decide, for desk and gate."""

    def __init__(self, *, decider: Decider, people: People) -> None:
        self._decider = decider
        self._people = people
        self._keeps_list = not isinstance(people, NobodyListed)

    async def leave_to_decide(self, question: Question, person: Principal) -> Leave | str:
        """With what leave the person, who is signed in, decides the question; or why it may not, in a fixed word."""
        if (why_not := await self._why_not(question, person)) is not None:
            return why_not
        listed = await self._listed(question.tenant, person.subject)
        if listed == PEOPLE_FAILED:
            return PEOPLE_FAILED
        if isinstance(listed, Principal) and (why_not := await self._why_not(question, listed)) is not None:
            return why_not
        return rules.leave_of(person, is_listed=isinstance(listed, Principal))

    async def why_not_any_more(self, question: Question, decided: Decided, *, deadline: float) -> str | None:
        """Why somebody who decided may not do so as things stand now; None if it may.

        Args:
            deadline: when whoever asks stops waiting, on the monotonic clock.
        """
        if decided.leave is None:  # nothing is known of it but its name, which the question was held against
            return None if question.terms is None else "leave_not_known"
        person = _signed(question, decided.subject, decided.leave)
        if decided.leave.is_listed and self._keeps_list:
            listed = await self._listed(question.tenant, decided.subject)
            if not isinstance(listed, Principal):
                return listed
            person = listed
        return "not_a_person" if person is None else await self._why_not(question, person, deadline=deadline)

    async def who_may(self, question: Question) -> tuple[str, ...]:
        """Everybody listed who may decide the question, by name."""
        found = await foreign(_everybody(self._people, question.tenant), timeout_seconds=LISTING_SECONDS)
        if type(found) is not tuple:
            return ()
        listed = [person for person in found if is_principal(person) and person.tenant == question.tenant]
        return tuple(sorted({each.subject for each in listed if await self._why_not(question, each) is None}))

    async def _why_not(self, question: Question, person: Principal, *, deadline: float = inf) -> str | None:
        hard = rules.why_not_entitled(question, person)
        if hard is not None:
            return hard
        return await self._decider.why_not_entitled(question, person, deadline=deadline)

    async def _listed(self, tenant: str, subject: str) -> Principal | str:
        """The person as the list has it now, or why that is not known."""
        found = await foreign(_asked(self._people, tenant, subject), timeout_seconds=LISTING_SECONDS)
        match found:
            case (None,):
                return NOT_LISTED
            case (person,) if is_principal(person) and (person.tenant, person.subject) == (tenant, subject):
                return person
            case _:
                return PEOPLE_FAILED


async def _asked(people: People, tenant: str, subject: str) -> tuple[Principal | None]:
    """What the list says, told apart from what it raises."""
    return (await people.person(tenant, subject),)


async def _everybody(people: People, tenant: str) -> object:
    return await people.people(tenant)


def _signed(question: Question, subject: str, leave: Leave) -> Principal | None:
    try:
        return rules.decider_of(question, subject, leave)
    except MisuseError:
        return None
