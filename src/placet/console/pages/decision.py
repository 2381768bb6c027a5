"""One call, exactly as it would run, and a person's answer.

What is drawn is what is signed: the answer carries the digest that was on the page, and one of another call is a
conflict and never a decision. Approving runs nothing.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Protocol

from starlette.responses import Response

from placet.console.doors import text_of
from placet.console.pages.inbox import seconds_left
from placet.console.values import Difference, differences, drawn_arguments
from placet.console.visit import Visit
from placet.console.words import EFFECT_CLASS_WORDS, NOTHING_DECIDED
from placet.engine.desk import MAX_REASON_CHARACTERS, ApprovalView
from placet.errors import DecisionRefused, InvalidArguments
from placet.model.approval import ApprovalState
from placet.model.contract import EffectClass, Risk
from placet.model.principal import Principal

_FORBIDDEN = frozenset({"not_a_person", "other_environment", "not_the_requesting_user", "own_request", "scope_missing"})
_MOST_COMPARED = 500


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
    try:
        if wanted == "approve":
            view = await visit.gate.desk.approve(approval_id, digest=digest, by=visit.by, reason=reason)
        else:
            view = await visit.gate.desk.deny(approval_id, digest=digest, by=visit.by, reason=reason)
    except DecisionRefused as refusal:
        conflict, status = _words(refusal), 403 if refusal.code in _FORBIDDEN else 409
    else:
        return visit.go(f"/approvals/{approval_id}", done=_done(view, wanted))
    return await _page(visit, await visit.gate.desk.show(approval_id, by=visit.by), conflict=conflict, status=status)


async def edit(visit: Visit) -> Response:
    """Ask for other arguments instead: another question, of the editor's, in the place of this one."""
    approval_id, form = _id(visit), visit.form
    try:
        view = await visit.gate.desk.edit(
            approval_id, digest=form.get("digest", ""), arguments=form.get("arguments", ""), by=visit.by
        )
    except InvalidArguments as invalid:
        problems = ", ".join(f"{path or 'all of it'}: {problem}" for path, problem in invalid.problems)
        conflict, status = f"{invalid} {problems} Nothing was changed.", 422
    except DecisionRefused as refusal:
        conflict, status = _words(refusal), 403 if refusal.code in _FORBIDDEN else 409
    else:
        return visit.go(f"/approvals/{view.approval_id}", done="edited")
    return await _page(visit, await visit.gate.desk.show(approval_id, by=visit.by), conflict=conflict, status=status)


async def withdraw(visit: Visit) -> Response:
    return await _taken_back(visit, visit.gate.desk.withdraw, done="withdrawn")


async def withdraw_vote(visit: Visit) -> Response:
    return await _taken_back(visit, visit.gate.desk.withdraw_vote, done="vote_withdrawn")


async def _taken_back(visit: Visit, take_back: TakeBack, *, done: str) -> Response:
    approval_id = _id(visit)
    try:
        await take_back(approval_id, by=visit.by)
    except DecisionRefused as refusal:
        conflict, status = _words(refusal), 403 if refusal.code in _FORBIDDEN else 409
    else:
        return visit.go(f"/approvals/{approval_id}", done=done)
    return await _page(visit, await visit.gate.desk.show(approval_id, by=visit.by), conflict=conflict, status=status)


class TakeBack(Protocol):
    async def __call__(self, approval_id: str, /, *, by: Principal) -> ApprovalView: ...


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
    original = await visit.gate.desk.show(view.edited_from, by=visit.by) if view.edited_from is not None else None
    template = "decision_card.html.jinja" if visit.is_part else "decision.html.jinja"
    return visit.page(
        template,
        status=status,
        view=view,
        now=now,
        arguments=drawn_arguments(view.arguments, redacted=view.redacted),
        left=seconds_left(view, now),
        is_open=view.state is ApprovalState.PENDING and view.why_not is None and view.own_vote != "approve",
        is_grave=view.effect_class == EffectClass.IRREVERSIBLE.value or view.risk in (Risk.HIGH, Risk.CRITICAL),
        typed=name_to_type(view),
        before=before,
        changes=_changes(before, view),
        original=original,
        edits=_changes(original, view),
        may_edit=view.may_edit and view.state is ApprovalState.PENDING and view.why_not is None,
        raw=json.dumps(view.arguments, ensure_ascii=True, indent=2),
        conflict=conflict,
        effect_words=_effect_words(view),
        contract_is_known=view.risk in tuple(Risk),
        may_withdraw=_may_withdraw(visit, view),
    )


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


def _words(refusal: DecisionRefused) -> str:
    return f"{refusal} {refusal.hint}".strip()


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["approval_id"])
