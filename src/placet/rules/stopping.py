"""Who may stop what, who may lift it, and how a scope is said in words.

A stop of one's own tenant, or of a tool, an upstream or a run in it, needs `ops.stop`; all else reaches other
tenants and needs `ops.stop.all`. A stop is lifted with no less than it was given with, so that a tenant cannot undo
what those who run the deployment have stopped for it. Source: ADR-0029.
"""

from __future__ import annotations

from placet.errors import MisuseError
from placet.model.principal import Principal
from placet.model.stopping import StopKind, StopLeave, StopScope

STOP_SCOPE = "ops.stop"
"""Lets a person stop its own tenant, a tool, an upstream or a run in it, and lift such stops."""
STOP_ALL_SCOPE = "ops.stop.all"
"""Lets a person stop everything, any tenant, and a tool or an upstream for every tenant, and lift any stop."""

_HOW_TO_SAY = "A scope is all, tenant, tool:NAME, upstream:NAME, run:ID, or tenant:NAME for another tenant."
_OF_QUARANTINE = "placet mcp quarantine SERVER TOOL begins one; placet mcp accept SERVER TOOL ends it."


def require_liftable(scope: StopScope) -> StopScope:
    """A scope that people stop and resume.

    Raises:
        MisuseError: it is a quarantine, which begins and ends with what is accepted of the tool.
    """
    if scope.kind is StopKind.QUARANTINE:
        raise MisuseError("A quarantine is no stop that is given or lifted this way.", hint=_OF_QUARANTINE)
    return scope


def leave_to_stop(person: Principal, scope: StopScope) -> StopLeave | None:
    """The least leave that the person has for it, so that colleagues can lift the stop; None if it has none."""
    if scope.tenant == person.tenant and not person.scopes.isdisjoint((STOP_SCOPE, STOP_ALL_SCOPE)):
        return StopLeave.TENANT
    return StopLeave.DEPLOYMENT if STOP_ALL_SCOPE in person.scopes else None


def leave_to_resume(person: Principal, scope: StopScope) -> StopLeave | None:
    """The most leave that the person has for it; None if it has none."""
    if STOP_ALL_SCOPE in person.scopes:
        return StopLeave.DEPLOYMENT
    return StopLeave.TENANT if scope.tenant == person.tenant and STOP_SCOPE in person.scopes else None


def may_lift(person: Principal, scope: StopScope, given_with: StopLeave) -> bool:
    """Whether the person may lift a stop that was given with this leave. Nobody lifts a quarantine by lifting it."""
    if scope.kind is StopKind.QUARANTINE:
        return False
    return leave_to_resume(person, scope) in (StopLeave.DEPLOYMENT, given_with)


def may_see(person: Principal, scope: StopScope) -> bool:
    """What halts a person's own tenant is for it to see; another tenant's stops do not exist for it."""
    return scope.tenant in (None, person.tenant) or STOP_ALL_SCOPE in person.scopes


def scope_of_words(words: object, person: Principal) -> StopScope:
    """What a person says: `all`, `tenant`, `tool:NAME`, `upstream:NAME`, `run:ID`; of its own tenant, unless
    `tenant:NAME` says another.

    Raises:
        MisuseError: it means nothing.
    """
    if type(words) is not str:
        raise MisuseError(_HOW_TO_SAY)
    kind, colon, name = words.partition(":")
    match kind, colon:
        case "all", "":
            return StopScope.everything()
        case "tenant", "":
            return StopScope.of_tenant(person.tenant)
        case "tenant", ":":
            return StopScope.of_tenant(name)
        case "tool", ":":
            return StopScope.of_tool(name, tenant=person.tenant)
        case "run", ":":
            return StopScope.of_run(name, tenant=person.tenant)
        case "upstream", ":":
            return StopScope.of_upstream(name, tenant=person.tenant)
        case "quarantine", ":":
            return require_liftable(StopScope(kind=StopKind.QUARANTINE, name=name))
        case _:
            raise MisuseError(_HOW_TO_SAY)
