"""Several calls, all of them exactly as they would run, and one answer to them. Each is decided and recorded by itself.

Looking decides nothing. The form carries of each the digest that was drawn; one of another call approves none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from placet.console import refusals
from placet.console.doors import text_of
from placet.console.pages.standing import seconds_left
from placet.console.reasons import reasons_of
from placet.console.values import DrawnArguments, drawn_arguments
from placet.console.visit import Visit
from placet.console.words import EFFECT_CLASS_WORDS, NOTHING_DECIDED
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.engine.several import MOST_AT_ONCE, ChosenAnswer, Together
from placet.errors import DecisionRefused, MisuseError, StoreInDoubt
from placet.model.approval import ApprovalState, Chosen
from placet.model.contract import EffectClass

_CHOSEN = re.compile(r"([A-Za-z0-9._-]{1,128}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One of the calls, with all that would run."""

    view: ApprovalView
    arguments: DrawnArguments
    effect_words: str
    seconds_left: float | None

    @property
    def is_last_vote(self) -> bool:
        """Whether it takes the votes of several people, and only one more."""
        return 1 < self.view.votes_needed <= len(self.view.votes) + 1


async def look(visit: Visit) -> Response:
    """What was chosen on the list, before anything is decided."""
    return await _page(visit, list(dict.fromkeys(visit.request.query_params.getlist("chosen"))))


async def decide(visit: Visit) -> Response:
    """One answer to all that were on the page, each by its own digest."""
    chosen = _chosen(visit.form.get("chosen", ""))
    names = [each.approval_id for each in chosen]
    reason = text_of(dict(visit.form), "reason", most=MAX_REASON_CHARACTERS)
    wanted, several = visit.form.get("decision", ""), visit.gate.desk.several
    if wanted not in ("approve", "deny") or (wanted == "deny" and not reason):
        code = "not_a_decision" if wanted not in ("approve", "deny") else "reason_missing"
        return await _page(visit, names, conflict=NOTHING_DECIDED[code], status=422)
    try:
        if wanted == "approve":
            answers = await several.approve(chosen, by=visit.by, reason=reason)
        else:
            answers = await several.deny(chosen, by=visit.by, reason=reason)
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return _told(visit, answers, wanted)
    return await _page(visit, names, conflict=conflict, status=status)


def weight(form: Mapping[str, str]) -> int:
    """As how many requests such a form counts: each decision as one, as if it had been sent by itself."""
    return min(len(form.get("chosen", "").split()), MOST_AT_ONCE)


# ---------------------------------------------------------------- within


def _chosen(said: str) -> tuple[Chosen, ...]:
    """What the form carries: an id and a digest of each.

    Raises:
        MisuseError: it is no form of ours.
    """
    found = [_CHOSEN.fullmatch(word) for word in said.split()[: MOST_AT_ONCE + 1]]
    if not all(found):
        raise MisuseError("The form does not say what was chosen. Nothing was decided.")
    return tuple(Chosen(approval_id=each[1], digest=each[2]) for each in found if each is not None)


async def _page(visit: Visit, names: Sequence[str], *, conflict: str = "", status: int = 200) -> Response:
    if not 1 <= len(names) <= MOST_AT_ONCE:
        raise MisuseError(f"Choose 1 to {MOST_AT_ONCE} calls on the list. Nothing was decided.")
    several = visit.gate.desk.several
    together = await several.look(tuple(names), by=visit.by)
    mine = [view for view in together.views if view.why_not is None and view.own_vote != "approve"]
    if len(mine) < len(together.views):  # whether those are alike that are left
        together = await _of(visit, mine)
        mine = [view for view in together.views if view.why_not is None and view.own_vote != "approve"]
    now = await visit.gate.store.now()
    rows = [
        Row(
            view=view,
            arguments=drawn_arguments(view.arguments, redacted=view.redacted),
            effect_words=EFFECT_CLASS_WORDS[EffectClass(view.effect_class)],
            seconds_left=seconds_left(view, now),
        )
        for view in mine
    ]
    shared = mine[0] if mine and together.why_not is None else None
    return visit.page(
        "several.html.jinja",
        status=status,
        rows=rows,
        shared=shared,
        reasons=reasons_of(shared.reasons) if shared is not None else (),
        policy_is_in_force=shared is not None and shared.policy_version == visit.gate.policy_version,
        last_votes=sum(row.is_last_vote for row in rows),
        left_out=len(names) - len(rows),
        chosen=" ".join(f"{view.approval_id}:{view.digest}" for view in mine),
        why_not=together.words if together.why_not is not None else "",
        needs_reason=any("approve" in view.needs_reason for view in mine),
        votes_needed=max((view.votes_needed for view in mine), default=1),
        conflict=conflict,
    )


async def _of(visit: Visit, views: Sequence[ApprovalView]) -> Together:
    if not views:
        return Together(views=(), why_not=None, words="")
    return await visit.gate.desk.several.look(tuple(view.approval_id for view in views), by=visit.by)


def _told(visit: Visit, answers: Sequence[ChosenAnswer], wanted: str) -> Response:
    """Off to the list if each was decided; else what became of each."""
    stand = [each.approval for each in answers if each.code is None and each.approval is not None]
    still_waits = {view.state is ApprovalState.PENDING for view in stand}
    if len(stand) < len(answers):
        return visit.page(
            "several_told.html.jinja",
            status=409,
            answers=answers,
            wanted=wanted,
            is_vote=True in still_waits,
            unheard=StoreInDoubt.code,
        )
    if wanted == "deny":
        return visit.go("/", done="several_denied")
    if still_waits == {True, False}:
        return visit.go("/", done="several_partly")
    return visit.go("/", done="several_voted" if True in still_waits else "several_approved")
