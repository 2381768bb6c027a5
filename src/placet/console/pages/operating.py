"""The stop switch, and who is signed in."""

from __future__ import annotations

from starlette.responses import Response

from placet.console import refusals
from placet.console.doors import text_of
from placet.console.visit import Visit
from placet.engine.person_sessions import MANAGE_SESSIONS_SCOPE
from placet.engine.switch import MAX_REASON_CHARACTERS
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.stopping import StopKind, StopScope
from placet.rules.access import READ_AUDIT_SCOPE
from placet.rules.policy import DECIDE_SCOPE, READ_EFFECTS_SCOPE, RECONCILE_SCOPE
from placet.rules.stopping import STOP_ALL_SCOPE, STOP_SCOPE

_WORD = "stop"
"""What has to be typed before everything, or a whole tenant, is stopped."""


async def me(visit: Visit) -> Response:
    known = {
        DECIDE_SCOPE: "decide approvals of others",
        RECONCILE_SCOPE: "say what became of unknown effects",
        READ_EFFECTS_SCOPE: "see effects of everybody in the tenant",
        READ_AUDIT_SCOPE: "read the audit, and runs in it",
        STOP_SCOPE: "stop and resume in this tenant",
        STOP_ALL_SCOPE: "stop and resume everything",
        MANAGE_SESSIONS_SCOPE: "see and end the sessions of everybody in the tenant (placet sessions)",
    }
    return visit.page("me.html.jinja", known=known, sessions=await visit.sessions.listed(visit.by))


async def stops(visit: Visit) -> Response:
    return await _page(visit)


async def stop(visit: Visit) -> Response:
    form = visit.form
    kind, name = form.get("kind", ""), form.get("name", "").strip()
    if kind in (StopKind.ALL, StopKind.TENANT) and form.get("typed", "") != _WORD:
        return await _page(visit, conflict=f"Type the word {_WORD} to stop so much. Nothing was stopped.", status=422)
    if kind in (StopKind.TOOL, StopKind.UPSTREAM, StopKind.RUN) and not name:
        return await _page(visit, conflict=f"Name the {kind} to stop. Nothing was stopped.", status=422)
    if kind == StopKind.TOOL and not visit.gate.knows(name) and form.get("unknown") != "yes":
        said = f"No tool here is named {name!r}, so nothing was stopped. If other processes have it, say so below."
        return await _page(visit, conflict=said, status=422)
    if kind == StopKind.UPSTREAM and not visit.gate.knows_upstream(name) and form.get("unknown") != "yes":
        said = f"No upstream here is named {name!r}, so nothing was stopped. If other processes have it, say so below."
        return await _page(visit, conflict=said, status=422)
    reason = text_of(dict(form), "reason", most=MAX_REASON_CHARACTERS)
    try:
        report = await visit.gate.switch.stop(_scope(visit, kind, name), by=visit.by, reason=reason)
    except MisuseError as misuse:
        conflict, status = str(misuse), 422
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go("/stops", done="stopped", running=str(report.running_count))
    return await _page(visit, conflict=conflict, status=status)


async def resume(visit: Visit) -> Response:
    wanted = visit.form.get("scope", "")
    found = [view for view in await visit.gate.switch.stops(by=visit.by) if view.scope.key == wanted]
    try:
        if not found:
            raise NotFound("This scope is not stopped.")
        await visit.gate.switch.resume(found[0].scope, by=visit.by)
    except NotFound as absent:
        conflict, status = str(absent), 409
    except DecisionRefused as refusal:
        conflict, status = refusals.words_of(refusal), refusals.status_of(refusal)
    else:
        return visit.go("/stops", done="resumed")
    return await _page(visit, conflict=conflict, status=status)


# ---------------------------------------------------------------- within


async def _page(visit: Visit, *, conflict: str = "", status: int = 200) -> Response:
    gate, by = visit.gate, visit.by
    return visit.page(
        "stops.html.jinja",
        status=status,
        stops=await gate.switch.stops(by=by),
        tools=[contract.name for contract in gate.tools_for(by)],
        conflict=conflict,
        may_stop=STOP_SCOPE in by.scopes or STOP_ALL_SCOPE in by.scopes,
        may_stop_all=STOP_ALL_SCOPE in by.scopes,
        running=visit.asked("running") if visit.asked("running").isdigit() else "",
        word=_WORD,
    )


def _scope(visit: Visit, kind: str, name: str) -> StopScope:
    """A scope of the person's own tenant, or everything."""
    tenant = visit.by.tenant
    match kind:
        case StopKind.ALL:
            return StopScope.everything()
        case StopKind.TENANT:
            return StopScope.of_tenant(tenant)
        case StopKind.TOOL:
            return StopScope.of_tool(name, tenant=tenant)
        case StopKind.UPSTREAM:
            return StopScope.of_upstream(name, tenant=tenant)
        case StopKind.RUN:
            return StopScope.of_run(name, tenant=tenant)
        case _:
            raise MisuseError("Say what to stop: a tool, an upstream, a run, the tenant, or everything.")
