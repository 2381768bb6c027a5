"""Whether a person may decide a question: when it decides, and again before what it approved is spent.

Three words count, and each of them may only narrow: separate duties and `approvals.decide`, which hold whatever anybody
configured; the policy's own word, which an escalation may widen where the rule that asked says so; and the list of
people, if one is kept. Policy and list are foreign code: whatever they raise, however they wait, and any silence, is
a no.

What is known of a person is signed with its decision: its roles and scopes then, and whether the list had it. When the
approval is spent, somebody whom the list had is what the list says now, and nobody once it has left the list. Of
everybody else, and where no list is kept, the signed roles and scopes are all that anybody knows: a program that keeps
none spends what people of `placet.toml` approved on the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf

from placet.engine.deciding import Decider
from placet.engine.listing import PEOPLE_FAILED, PEOPLE_HINT, AskedPeople
from placet.errors import DecisionRefused, MisuseError
from placet.model.approval import Leave, Question
from placet.model.principal import Principal
from placet.ports.people import NobodyListed, People
from placet.rules import approvals as rules
from placet.rules.policy import POLICY_FAILED
from placet.rules.reminding import is_widened

UNCERTAIN = frozenset({PEOPLE_FAILED, POLICY_FAILED})
"""Codes that say no because nobody could tell; what was decided is not void for that."""
_CANNOT_TELL = {
    PEOPLE_FAILED: ("The list of people does not answer, so nobody can tell now who may decide this.", PEOPLE_HINT),
    POLICY_FAILED: (
        "The policy does not answer, so nobody can tell now who may decide this.",
        "Try again. If it stays so, whoever runs this placet looks at the policy: placet policy check says what is "
        "wrong with its file.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Somebody who gave an approval, or a part of one, with what was signed about it.

    Attributes:
        leave: None of an answer from before leaves were noted.
    """

    subject: str
    leave: Leave | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """Why somebody may not decide, or that only an escalation lets it."""

    why_not: str | None
    is_widened: bool = False


class Listing:
    """What the list of people says of one person: asked when it is first needed, and no second time."""

    def __init__(self, ask: Callable[[], Awaitable[Principal | str]]) -> None:
        self._ask = ask
        self._answer: Principal | str | None = None

    async def said(self) -> Principal | str:
        if self._answer is None:
            self._answer = await self._ask()
        return self._answer


class Entitling:
    """The question whether a person may decide, for desk and gate."""

    def __init__(self, *, decider: Decider, people: People) -> None:
        self._decider = decider
        self._people = AskedPeople(people)
        self._keeps_list = not isinstance(people, NobodyListed)

    def look_up(self, person: Principal) -> Listing:
        """What the list says of somebody, for whoever asks about many questions of one tenant at once."""
        return Listing(lambda: self._people.person(person.tenant, person.subject))

    async def leave_to_decide(
        self, question: Question, person: Principal, *, now: datetime, listing: Listing | None = None
    ) -> Leave | str:
        """With what leave the person, who is signed in, decides the question; or why it may not, in a fixed word."""
        said = await self._word(question, person, now)
        if said.why_not is not None:
            return said.why_not
        listed = await (listing or self.look_up(person)).said()
        if listed == PEOPLE_FAILED:
            return PEOPLE_FAILED
        by_escalation = said.is_widened
        if isinstance(listed, Principal):
            said = await self._word(question, listed, now)
            if said.why_not is not None:
                return said.why_not
            by_escalation = by_escalation or said.is_widened
        return rules.leave_of(person, is_listed=isinstance(listed, Principal), by_escalation=by_escalation)

    async def why_not_any_more(self, question: Question, decided: Decided, *, deadline: float) -> str | None:
        """Why somebody who decided may not do so as things stand now; None if it may.

        Args:
            deadline: when whoever asks stops waiting, on the monotonic clock.
        """
        if decided.leave is None:  # nothing is known of it but its name, which the question was held against
            return None if question.terms is None else "leave_not_known"
        person = _signed(question, decided.subject, decided.leave)
        if decided.leave.is_listed and self._keeps_list:
            listed = await self._people.person(question.tenant, decided.subject)
            if not isinstance(listed, Principal):
                return listed
            person = listed
        if person is None:
            return "not_a_person"
        why_not = await self._why_not(question, person, deadline=deadline)
        if why_not is None or not decided.leave.by_escalation:
            return why_not
        return await self._why_not_widened(question, person, deadline=deadline)

    async def who_may(self, question: Question, *, now: datetime) -> tuple[str, ...]:
        """Everybody listed who may decide the question, by name."""
        listed = await self._people.everybody(question.tenant)
        words = [(each.subject, await self._word(question, each, now)) for each in listed]
        return tuple(sorted({subject for subject, said in words if said.why_not is None}))

    async def _word(self, question: Question, person: Principal, now: datetime) -> _Word:
        """What is said as things stand now: an escalation counts from the instant that the question itself names."""
        why_not = await self._why_not(question, person)
        if why_not is None or not is_widened(question, now=now):
            return _Word(why_not=why_not)
        if await self._why_not_widened(question, person) is None:
            return _Word(why_not=None, is_widened=True)
        return _Word(why_not=why_not)

    async def _why_not_widened(self, question: Question, person: Principal, *, deadline: float = inf) -> str | None:
        """An escalation widens the policy's word and no other."""
        hard = rules.why_not_entitled(question, person)
        if hard is not None:
            return hard
        return await self._decider.why_not_by_escalation(question, person, deadline=deadline)

    async def _why_not(self, question: Question, person: Principal, *, deadline: float = inf) -> str | None:
        hard = rules.why_not_entitled(question, person)
        if hard is not None:
            return hard
        return await self._decider.why_not_entitled(question, person, deadline=deadline)


def refusal_of(code: str, message: str) -> DecisionRefused:
    """Why somebody does not decide; of whom nobody can tell now whether it may, that, and that it may ask again."""
    if code not in _CANNOT_TELL:
        return DecisionRefused(message, code=code)
    said, hint = _CANNOT_TELL[code]
    refusal = DecisionRefused(said, code=code, hint=hint)
    refusal.retryable = True
    return refusal


def detail_of_leave(leave: Leave | None) -> str | None:
    """What the audit says of a decision that somebody could give only since the question was escalated."""
    return "by_escalation" if leave is not None and leave.by_escalation else None


def _signed(question: Question, subject: str, leave: Leave) -> Principal | None:
    try:
        return rules.decider_of(question, subject, leave)
    except MisuseError:
        return None
