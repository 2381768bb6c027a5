"""A principal as JSON: where it is kept in what is sealed, and where it crosses to a process of our own."""

from __future__ import annotations

from typing import Any

from placet.model.principal import Principal, Role, Standing


def written(principal: Principal) -> dict[str, Any]:
    """All of it, and of everybody it acts for."""
    giver = principal.on_behalf_of
    return {
        "subject": principal.subject,
        "tenant": principal.tenant,
        "roles": sorted(role.value for role in principal.roles),
        "scopes": sorted(principal.scopes),
        "environment": principal.environment,
        "standing": principal.standing.value,
        "on_behalf_of": None if giver is None else written(giver),
    }


def read_principal(form: dict[str, Any]) -> Principal:
    """What `written` wrote, of one whose seal or process is trusted.

    Raises:
        KeyError, TypeError, ValueError, MisuseError: it is none.
    """
    giver = form["on_behalf_of"]
    return Principal(
        subject=form["subject"],
        tenant=form["tenant"],
        roles=frozenset(Role(role) for role in form["roles"]),
        scopes=frozenset(form["scopes"]),
        environment=form["environment"],
        standing=Standing(form["standing"]),
        on_behalf_of=None if giver is None else read_principal(giver),
    )
