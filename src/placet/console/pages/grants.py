"""Standing grants: what exactly each lets through, how often and until when, and an end to it."""

from __future__ import annotations

from starlette.responses import Response

from placet.console import refusals
from placet.console.visit import Visit
from placet.engine.grant_views import GrantView
from placet.errors import DecisionRefused
from placet.model.grant import GrantState
from placet.rules.policy import DECIDE_SCOPE

_MOST_SHOWN = 500
GRANT_WORDS = {
    GrantState.USABLE: "answers questions",
    GrantState.USED_UP: "used up",
    GrantState.EXPIRED: "expired",
    GrantState.REVOKED: "revoked",
    GrantState.VOID: "void",
    GrantState.ALTERED: "altered: it lets nothing through",
}
WHY_VOID = {
    "contract_changed": "the tool is not what it was when it was given",
    "policy_changed": "another policy is in force than the one it was given under",
    "key_changed": "the key that it was signed with is retired",
}


async def grants(visit: Visit) -> Response:
    return await _page(visit)


async def revoke(visit: Visit) -> Response:
    """Take one back. Claims that come afterwards do not use it, on any host."""
    try:
        await visit.gate.grants.revoke(visit.form.get("grant", ""), by=visit.by)
    except DecisionRefused as refusal:
        return await _page(visit, conflict=refusals.words_of(refusal), status=refusals.status_of(refusal))
    return visit.go("/grants", done="revoked")


# ---------------------------------------------------------------- within


async def _page(visit: Visit, *, conflict: str = "", status: int = 200) -> Response:
    standing = await visit.gate.grants.standing(by=visit.by, limit=_MOST_SHOWN)
    newest = await visit.gate.grants.listed(by=visit.by, limit=_MOST_SHOWN)
    shown = {view.grant_id for view in standing}
    found = (*standing, *(view for view in newest if view.grant_id not in shown))
    return visit.page(
        "grants.html.jinja",
        status=status,
        active=[view for view in found if view.state is GrantState.USABLE],
        ended=[view for view in found if view.state is not GrantState.USABLE],
        is_cut=_MOST_SHOWN in (len(standing), len(newest)),
        now=await visit.gate.store.now(),
        grant_words=GRANT_WORDS,
        why_void=WHY_VOID,
        may_revoke=lambda view: _may_revoke(visit, view),
        conflict=conflict,
    )


def _may_revoke(visit: Visit, view: GrantView) -> bool:
    """Whether a button for it makes sense; whether it may be done is the engine's word."""
    is_part = visit.by.subject in (view.given_by, view.granted_to, *view.on_behalf_of)
    is_over = view.state in (GrantState.REVOKED, GrantState.EXPIRED, GrantState.USED_UP) or view.revoked_at is not None
    return not is_over and (is_part or DECIDE_SCOPE in visit.by.scopes)
