"""What became of a call that somebody was asked about, for a page that stays open.

An open page asks by itself, which keeps no session from ending, and is answered only when something has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from placet.console.visit import Visit
from placet.engine.desk import ApprovalView
from placet.errors import DecisionRefused, NotFound
from placet.model.approval import ApprovalState
from placet.model.effect import Effect, EffectState

_MOVING = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.SPENT})
_GOING_ON = frozenset({EffectState.PREPARED, EffectState.DISPATCHED, EffectState.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """
    Attributes:
        effect: what the approval was used for; None where it was not, or where this person may not see it.
        is_final: whether nothing more becomes of it, as far as this person can see.
        tag: names how it stands; another tag says that the page is old.
    """

    effect: Effect | None
    is_final: bool
    tag: str


async def standing(visit: Visit) -> Response:
    """How it stands, if that is not what the page that asks knows; otherwise nothing.

    Of a row that does not hold this is the last word: every look at it is an alarm, and an open page would go on.
    """
    try:
        view = await visit.gate.desk.show(str(visit.request.path_params["approval_id"]), by=visit.by)
    except DecisionRefused as refused:
        return visit.page("altered.html.jinja", said=str(refused), code=refused.code)
    became = await what_became(visit, view)
    if became.tag == visit.asked("seen"):
        return Response(status_code=204)
    now = await visit.gate.store.now()
    return visit.page("standing.html.jinja", view=view, became=became, left=seconds_left(view, now))


async def what_became(visit: Visit, view: ApprovalView) -> Became:
    effect = await _effect(visit, view) if view.state is ApprovalState.SPENT else None
    goes_on = effect is not None and effect.state in _GOING_ON
    words = (view.state.value, str(len(view.votes)), "" if effect is None else f"{effect.state.value}-{effect.fence}")
    return Became(
        effect=effect,
        is_final=not (goes_on or (view.state in _MOVING and view.state is not ApprovalState.SPENT)),
        tag=".".join(words),
    )


async def _effect(visit: Visit, view: ApprovalView) -> Effect | None:
    """The effect, as long as it is the one that this approval was used for."""
    try:
        effect = await visit.gate.reconciler.visible(view.operation_key, by=visit.by)
    except NotFound:
        return None
    return effect if effect.approval_id == view.approval_id else None


def seconds_left(view: ApprovalView, now: datetime) -> float | None:
    """Until nobody can decide it any more, or until its approval cannot be used any more."""
    match view.state:
        case ApprovalState.PENDING:
            return (view.decide_by - now).total_seconds()
        case ApprovalState.APPROVED if view.expires_at is not None:
            return (view.expires_at - now).total_seconds()
        case _:
            return None
