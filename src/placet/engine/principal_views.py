"""Who somebody is here, as it is told to that very somebody."""

from __future__ import annotations

from dataclasses import dataclass

from placet.model.principal import Principal, Standing, subjects_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalView:
    """A principal as its own credential made it.

    Attributes:
        roles, scopes: in the order of the alphabet.
        on_behalf_of: all it acts for, the far end last; empty of whoever acts for itself.
    """

    subject: str
    tenant: str
    standing: Standing
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    environment: str
    on_behalf_of: tuple[str, ...]


def principal_view(principal: Principal) -> PrincipalView:
    return PrincipalView(
        subject=principal.subject,
        tenant=principal.tenant,
        standing=principal.standing,
        roles=tuple(sorted(role.value for role in principal.roles)),
        scopes=tuple(sorted(principal.scopes)),
        environment=principal.environment,
        on_behalf_of=subjects_of(principal.identity)[1:],
    )
