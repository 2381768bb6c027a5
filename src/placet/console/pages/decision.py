"""One call, exactly as it would run, and a person's answer.

What is drawn is what is signed: the answer carries the digest that was on the page, and one of another call is a
conflict and never a decision. Approving runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime

from markupsafe import Markup, escape
from starlette.responses import Response

from placet.console import refusals
from placet.console.doors import text_of
from placet.console.pages.standing import seconds_left, what_became
from placet.console.reach import reach_of
from placet.console.reasons import held_risk, reasons_of
from placet.console.values import Difference, differences, drawn_arguments
from placet.console.visit import Visit
from placet.console.words import EFFECT_CLASS_WORDS, NOTHING_DECIDED
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.errors import DecisionRefused, InvalidArguments, NotFound
from placet.model.approval import ApprovalState
from placet.model.contract import EffectClass, Risk

_MOST_COMPARED = 500
_MOST_TRIES = 100


async def show(visit: Visit) -> Response:
    view = await visit.gate.desk.show(_id(visit), by=visit.by)
    return await _page(visit, view)


async def decide(visit: Visit) -> Response:
    """Approve or deny what was on the page, if it is still what waits."""
    approval_id = _id(visit)
    form = visit.form
    reason = text_of(dict(form), "reason", most=MAX_REASON_CHARACTERS)
    wanted, digest = form.get("decision", ""), form.get("digest", "")
    view = await visit.gate.desk.show(approval_id, by=visit.by)
    if (code := _not_decided(visit, view, wanted, reason)) is not None:
        return await _page(visit, view, conflict=NOTHING_DECIDED[code], status=422)
    desk = visit.gate.desk
    answer = desk.approve if wanted == "approve" else desk.deny
    change = answer(approval_id, digest=digest, by=visit.by, reason=reason)
    return await _changed(visit, change, done=lambda decided: _done(decided, wanted))


async def edit(visit: Visit) -> Response:
    """Ask for other arguments instead: another question, of the editor's, in the place of this one."""
    digest, arguments = visit.form.get("digest", ""), visit.form.get("arguments", "")
    change = visit.gate.desk.edit(_id(visit), digest=digest, arguments=arguments, by=visit.by)
    return await _changed(visit, change, done=lambda _: "edited")


async def withdraw(visit: Visit) -> Response:
    return await _changed(visit, visit.gate.desk.withdraw(_id(visit), by=visit.by), done=lambda _: "withdrawn")


async def withdraw_vote(visit: Visit) -> Response:
    change = visit.gate.desk.withdraw_vote(_id(visit), by=visit.by)
    return await _changed(visit, change, done=lambda _: "vote_withdrawn")


async def _changed(visit: Visit, change: Awaitable[ApprovalView], *, done: Callable[[ApprovalView], str]) -> Response:
    """Off to look at what the change made of it; or the page as it stands, with why nothing was changed."""
    try:
        view = await change
    except InvalidArguments as invalid:
        problems = ", ".join(f"{path or 'all of it'}: {problem}" for path, problem in invalid.problems)
        conflict, status = f"{invalid} {problems} Nothing was changed.", 422
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go(f"/approvals/{view.approval_id}", done=done(view))
    return await _page(visit, await visit.gate.desk.show(_id(visit), by=visit.by), conflict=conflict, status=status)


def name_to_type(view: ApprovalView) -> str | None:
    """What has to be typed before something irreversible is approved: its target, or the tool where it names none."""
    if view.effect_class != EffectClass.IRREVERSIBLE.value:
        return None
    return view.resource or view.tool


# ---------------------------------------------------------------- within


def _done(view: ApprovalView, wanted: str) -> str:
    if wanted == "deny":
        return "denied"
    return "voted" if view.state is ApprovalState.PENDING else "approved"


def _not_decided(visit: Visit, view: ApprovalView, wanted: str, reason: str) -> str | None:
    """What the page asks for beside the desk; the code of what is missing."""
    if wanted not in ("approve", "deny"):
        return "not_a_decision"
    if not reason and (wanted == "deny" or wanted in view.needs_reason):
        return "reason_missing"
    typed = name_to_type(view)
    if wanted == "approve" and typed is not None and visit.form.get("typed", "") != typed:
        return "not_typed"
    return None


async def _page(visit: Visit, view: ApprovalView, *, conflict: str = "", status: int = 200) -> Response:
    now = await visit.gate.store.now()
    before = await _last_approved(visit, view)
    tried = await _tried_before(visit, view)
    original = await _original(visit, view)
    template = "decision_card.html.jinja" if visit.is_part else "decision.html.jinja"
    return visit.page(
        template,
        status=status,
        view=view,
        now=now,
        became=await what_became(visit, view),
        reach=reach_of(
            effect_class=view.effect_class, resource=view.resource, arguments=view.arguments, redacted=view.redacted
        ),
        reasons=reasons_of(view.reasons),
        held=held_risk(view.reasons),
        policy_is_in_force=view.policy_version == visit.gate.policy_version,
        arguments=drawn_arguments(view.arguments, redacted=view.redacted),
        left=seconds_left(view, now),
        is_open=view.state is ApprovalState.PENDING and view.why_not is None and view.own_vote != "approve",
        typed=name_to_type(view),
        before=before,
        changes=_changes(before, view),
        tried=tried,
        other_try=_changes(tried, view),
        original=original,
        edits=_changes(original, view),
        may_edit=view.may_edit and view.state is ApprovalState.PENDING and view.why_not is None,
        raw=_raw(view),
        conflict=conflict,
        effect_words=_effect_words(view),
        contract_is_known=view.risk in tuple(Risk),
        may_withdraw=_may_withdraw(visit, view),
        **_still_done(visit, view),
    )


def _raw(view: ApprovalView) -> Markup:
    """The arguments as JSON that can be read back. It is printable ASCII and line ends, so nothing in it is invisible;
    escaped for people as well, it would be JSON no more.
    """
    return escape(json.dumps(view.arguments, ensure_ascii=True, indent=2))


def _still_done(visit: Visit, view: ApprovalView) -> dict[str, str]:
    """Nothing where the address says that something was done which is no longer all that is true."""
    is_over = visit.asked("done") == "approved" and view.state is not ApprovalState.APPROVED
    return {"done": ""} if is_over else {}


async def _last_approved(visit: Visit, view: ApprovalView) -> ApprovalView | None:
    """The last call of this tool that was approved before, of the same target where there is one."""
    states = (ApprovalState.APPROVED, ApprovalState.SPENT)
    found = await visit.gate.desk.listed(by=visit.by, states=states, limit=_MOST_COMPARED)
    earlier = [
        each
        for each in found
        if each.tool == view.tool and each.approval_id != view.approval_id and _decided(each) < view.asked_at
    ]
    same_target = [each for each in earlier if each.resource == view.resource]
    return max(same_target or earlier, key=_decided, default=None)


async def _original(visit: Visit, view: ApprovalView) -> ApprovalView | None:
    """What a person made this question of; None where it is gone or does not hold: this one stands by itself."""
    if view.edited_from is None:
        return None
    try:
        return await visit.gate.desk.show(view.edited_from, by=visit.by)
    except (NotFound, DecisionRefused):
        return None


async def _tried_before(visit: Visit, view: ApprovalView) -> ApprovalView | None:
    """What the same proposer asked of this tool before, in the same run, that is not what it asks now."""
    found = await visit.gate.desk.listed(by=visit.by, limit=_MOST_TRIES)
    earlier = [
        each
        for each in found
        if (each.run_id, each.tool, each.requested_by) == (view.run_id, view.tool, view.requested_by)
        and each.approval_id not in (view.approval_id, view.edited_from)
        and each.asked_at < view.asked_at
    ]
    return max(earlier, key=lambda each: each.asked_at, default=None)


def _decided(view: ApprovalView) -> datetime:
    return view.decided_at or view.asked_at


def _changes(before: ApprovalView | None, view: ApprovalView) -> tuple[Difference, ...]:
    return () if before is None else differences(before.arguments, view.arguments)


def _effect_words(view: ApprovalView) -> str:
    is_known = view.effect_class in tuple(EffectClass)
    return EFFECT_CLASS_WORDS[EffectClass(view.effect_class)] if is_known else "effect not known here"


def _may_withdraw(visit: Visit, view: ApprovalView) -> bool:
    """Whether a button for it makes sense; whether it may be done is the desk's word."""
    is_part = visit.by.subject in (view.requested_by, view.on_behalf_of, view.decided_by)
    has_leave = view.why_not in (None, "own_request") or is_part
    return view.state in (ApprovalState.PENDING, ApprovalState.APPROVED) and has_leave


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["approval_id"])
