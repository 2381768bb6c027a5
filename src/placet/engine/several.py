"""Several questions, one answer: each is decided by itself, on its own digest, and has a record of its own.

Denying needs no likeness. Approving needs it of all of them, and that is looked at before anything is decided: one tool
and version of its contract, one rule of one version of the policy, no high risk, and of each exactly what was seen.
What stands otherwise by now (decided, expired, not this person's) is each one's own refusal and keeps no other back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from placet.engine.approval_views import CONTRACT_NOT_HERE, ApprovalView, ApprovalViews
from placet.engine.entitling import UNCERTAIN
from placet.errors import DecisionRefused, MisuseError, NotFound, PlacetError, StoreInDoubt
from placet.model.approval import Approval, ApprovalState, Chosen
from placet.model.exact import is_whole, ordered
from placet.model.identifiers import ApprovalId
from placet.model.principal import Principal, is_identity
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import alike

MOST_AT_ONCE: Final = 100
NOT_TRIED: Final = "not_tried"
_DOES_NOT_HOLD: Final = frozenset({"approval_suspect", "key_retired"})
REFUSALS: Final = {
    alike.NOT_ALIKE: "What is approved with one answer has to be of one tool and version of its contract, asked about "
    "by one rule of one version of the policy, and for one environment; the message says what is not.",
    alike.TOO_GRAVE_TOGETHER: "Calls of high or critical risk, calls that cannot be taken back, and calls that may "
    "have been done already are approved one by one.",
    NOT_TRIED: "At one before it the store, the policy or the list of people did not answer, so this one was not "
    "decided.",
}
"""What is refused only where several are decided with one answer, by its code."""
_AGAIN: Final = "Ask again, unchanged: what was decided is answered the same, and the rest is decided."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAnswer:
    """What became of one of several.

    Attributes:
        approval: as it stands now; None where that cannot be shown.
        code: why it was refused; None if the decision, or the vote, stands. Of `store_in_doubt` alone nobody heard
            whether it stands; asking again says so.
        message, hint: the same in words, and what to do next; empty if it stands.
        retryable: whether asking again, unchanged, may help.
    """

    approval_id: str
    approval: ApprovalView | None
    code: str | None = None
    message: str = ""
    hint: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Several questions as a person sees them before deciding.

    Attributes:
        views: those of them that wait and hold, in the order asked for.
        why_not: the code of why these cannot be approved with one answer, None if they can.
        words: the same in words.
    """

    views: tuple[ApprovalView, ...]
    why_not: str | None
    words: str


class DecideOne(Protocol):
    """`Desk.approve` or `Desk.deny`."""

    async def __call__(self, approval_id: str, *, digest: str, by: Principal, reason: str = "") -> ApprovalView: ...


class OneByOne(Protocol):
    """What is asked of the desk, for one question at a time."""

    async def approve(self, approval_id: str, *, digest: str, by: Principal, reason: str = "") -> ApprovalView: ...

    async def deny(self, approval_id: str, *, digest: str, by: Principal, reason: str = "") -> ApprovalView: ...

    async def show(self, approval_id: str, *, by: Principal) -> ApprovalView: ...


class Several:
    """Decides several questions of one desk for one person.

    Args:
        verified: a question that holds, or why not; whoever looks at it has been found to be a person.
        refusal: puts a refused decision on record.
    """

    def __init__(
        self,
        desk: OneByOne,
        *,
        store: Store,
        views: ApprovalViews,
        may_look: Callable[[Principal], Awaitable[None]],
        verified: Callable[[str, Principal], Awaitable[tuple[Approval, object]]],
        refusal: Callable[[Approval, Principal, str, str], Awaitable[DecisionRefused]],
    ) -> None:
        self._desk = desk
        self._store = store
        self._views = views
        self._may_look = may_look
        self._verified = verified
        self._refusal = refusal

    @paying
    async def look(self, approval_ids: Sequence[str], *, by: Principal) -> Together:
        """What they are, and whether they may be approved together. Nothing is decided by looking.

        Raises:
            MisuseError: none, more than 100, or one twice.
            DecisionRefused: not a person.
        """
        names = _names(approval_ids)
        await self._may_look(by)
        found = [await self._store.approval(by.tenant, ApprovalId(name)) for name in names if is_identity(name)]
        there = [each for each in found if each is not None]
        listed = await self._views.listed(there, by, await self._store.now())
        views = tuple(view for view in listed if view.state is ApprovalState.PENDING)
        shown = {view.approval_id for view in views}
        code, words = self._why_not([each for each in there if each.question.approval_id in shown])
        return Together(views=views, why_not=code, words=words)

    @paying
    async def deny(self, chosen: Sequence[Chosen], *, by: Principal, reason: str) -> tuple[ChosenAnswer, ...]:
        """Refuse each of them for one reason, which goes back to each proposer as data. At most 100, in their order.

        Asking again, unchanged, answers the same of those that were decided.

        Raises:
            MisuseError: none, more than 100, or one twice; or the reason is none.
            DecisionRefused: not a person. Nothing was decided.
        """
        return await self._each(_whole(chosen), self._desk.deny, by=by, reason=reason)

    @paying
    async def approve(self, chosen: Sequence[Chosen], *, by: Principal, reason: str = "") -> tuple[ChosenAnswer, ...]:
        """Sign of each that exactly this call may run, once. Nothing runs now. Otherwise as `deny`.

        Raises:
            NotFound: one of them is not there. Nothing was decided.
            DecisionRefused: they are not alike (`not_alike`), each has to be approved by itself (`too_grave_together`),
                their contract is not known here, or one is not what was seen (`other_digest`). Nothing was decided.
        """
        wanted = _whole(chosen)
        await self._may_look(by)
        found = [await self._there(each.approval_id, by) for each in wanted]
        code, message = self._why_not(found)
        for each, approval in zip(wanted, found, strict=True):
            if each.digest != approval.question.argument_digest:
                code, message = "other_digest", f"{approval.question.approval_id} is about other arguments."
        if code is not None:
            refusals = [await self._refusal(each, by, code, f"{message} Nothing was decided.") for each in found]
            raise refusals[0]
        return await self._each(wanted, self._desk.approve, by=by, reason=reason)

    # ------------------------------------------------------------ within

    async def _there(self, approval_id: str, by: Principal) -> Approval:
        """One that holds; whoever named many is told which does not."""
        try:
            return (await self._verified(approval_id, by))[0]
        except NotFound as absent:
            raise NotFound(f"{approval_id!r}: {absent} Nothing was decided.") from absent
        except DecisionRefused as refusal:
            message = f"{approval_id!r}: {refusal} Nothing was decided."
            raise DecisionRefused(message, code=refusal.code, hint=refusal.hint) from refusal

    def _why_not(self, approvals: Sequence[Approval]) -> tuple[str | None, str]:
        questions = [each.question for each in approvals]
        contracts = [self._views.contract_of(each) for each in questions]
        if any(each is None for each in contracts):
            return CONTRACT_NOT_HERE, "This process does not know the contract of all of them, so it cannot show them."
        difference = alike.unlike(questions)
        if difference is not None:
            return alike.NOT_ALIKE, alike.WHY_NOT_ALIKE[difference]
        pairs = zip(questions, contracts, strict=True)
        if any(contract is not None and alike.is_too_grave(question, contract) for question, contract in pairs):
            return alike.TOO_GRAVE_TOGETHER, REFUSALS[alike.TOO_GRAVE_TOGETHER]
        return None, ""

    async def _each(
        self, chosen: Sequence[Chosen], decide: DecideOne, *, by: Principal, reason: str
    ) -> tuple[ChosenAnswer, ...]:
        await self._may_look(by)
        answers: list[ChosenAnswer] = []
        for each in chosen:
            try:
                view = await decide(each.approval_id, digest=each.digest, by=by, reason=reason)
            except MisuseError:
                raise
            except PlacetError as failed:
                fault = failed
            else:
                answers.append(ChosenAnswer(approval_id=each.approval_id, approval=view))
                continue
            answers.append(_refused(each.approval_id, await self._standing(each.approval_id, fault, by), fault))
            if not isinstance(fault, DecisionRefused | NotFound) or fault.code in UNCERTAIN:
                break  # what does not answer is waited for once, and not at each of a hundred
        rest = chosen[len(answers) :]
        return (*answers, *(_not_tried(each.approval_id) for each in rest))

    async def _standing(self, approval_id: str, why: PlacetError, by: Principal) -> ApprovalView | None:
        """How what was refused stands now; a row that does not hold was told and recorded once, which is enough, and
        where nobody can tell who may decide, looking would wait as long once more.
        """
        if not isinstance(why, DecisionRefused) or why.code in _DOES_NOT_HOLD | UNCERTAIN:
            return None
        try:
            return await self._desk.show(approval_id, by=by)
        except PlacetError:
            return None


def _whole(chosen: object) -> tuple[Chosen, ...]:
    """The chosen ones, if they mean something.

    Raises:
        MisuseError: they do not.
    """
    found = ordered(chosen)
    if found is None or not all(is_whole(each, Chosen) for each in found):
        raise MisuseError("chosen= is a tuple or list of Chosen.")
    _names([each.approval_id for each in found])
    return found


def _names(approval_ids: object) -> tuple[str, ...]:
    found = ordered(approval_ids)
    if found is None or not all(type(each) is str for each in found):
        raise MisuseError("Approvals are named by a tuple or list of their ids.")
    if not 1 <= len(found) <= MOST_AT_ONCE:
        raise MisuseError(f"1 to {MOST_AT_ONCE} approvals are decided at once.")
    if len(set(found)) != len(found):
        raise MisuseError("The same approval is named twice.")
    return found


def _refused(approval_id: str, approval: ApprovalView | None, why: PlacetError) -> ChosenAnswer:
    return ChosenAnswer(
        approval_id=approval_id,
        approval=approval,
        code=why.code,
        message=str(why),
        hint=why.hint,
        retryable=why.retryable or isinstance(why, StoreInDoubt),
    )


def _not_tried(approval_id: str) -> ChosenAnswer:
    return ChosenAnswer(
        approval_id=approval_id,
        approval=None,
        code=NOT_TRIED,
        message=REFUSALS[NOT_TRIED],
        hint=_AGAIN,
        retryable=True,
    )
