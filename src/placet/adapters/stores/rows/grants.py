"""Standing grants as rows: JSON beside what they are looked up by. Their MACs cover the values, not this form."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any

from placet.adapters.stores.rows.approvals import leave_data, leave_from
from placet.adapters.stores.rows.instants import EPOCH, instant, microseconds, sure
from placet.errors import PlacetError
from placet.model.approval import Leave, Mac
from placet.model.decision import Terms
from placet.model.grant import Grant, GrantId, StoredGrant
from placet.model.identifiers import Digest, PolicyVersion
from placet.rules.asking import terms_form
from placet.rules.grants import grant_form

_PLAIN = (
    *("environment", "tool_version", "contract_digest", "limits_digest", "policy_version"),
    *("given_by", "reason", "nonce", "revoked_by"),
)
"""Members of the body that are texts. What a row is found or counted by is in its columns and in no other place."""


def grant_row(stored: StoredGrant) -> tuple[Any, ...]:
    """All columns of `grants`, in order."""
    grant = stored.grant
    return (
        grant.tenant,
        grant.grant_id,
        grant.subject,
        grant.run_id,
        grant.tool,
        _body(grant),
        grant.sealed_limits,
        stored.mac.key_id,
        stored.mac.value,
        grant.max_uses,
        stored.uses,
        microseconds(stored.used_at),
        microseconds(grant.given_at),
        microseconds(grant.expires_at),
        microseconds(grant.revoked_at),
    )


def grant_revocation(revoked: Grant, mac: Mac, *, was: StoredGrant) -> tuple[Any, ...]:
    """The bindings of `revoke_grant`."""
    seen = (was.grant.tenant, was.grant.grant_id, was.mac.value)
    return (_body(revoked), mac.key_id, mac.value, microseconds(revoked.revoked_at), *seen)


def _body(grant: Grant) -> str:
    data: dict[str, Any] = {name: getattr(grant, name) for name in _PLAIN}
    data["terms"] = terms_form(grant.terms)
    data["leave"] = leave_data(grant.leave)
    return json.dumps(data, sort_keys=True)


def grant_from(row: tuple[Any, ...]) -> StoredGrant:
    """Whatever a row says. One that was altered by hand, or moved, has a MAC that does not hold."""
    errors = (PlacetError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
    with suppress(*errors):
        stored = _grant(row)
        grant_form(stored.grant)
        return stored
    return _unreadable(row)


def _grant(row: tuple[Any, ...]) -> StoredGrant:
    data = json.loads(row[5])
    return StoredGrant(
        grant=Grant(
            tenant=row[0],
            grant_id=row[1],
            subject=row[2],
            run_id=row[3],
            tool=row[4],
            **{name: data[name] for name in _PLAIN},
            terms=Terms(**data["terms"]),
            leave=leave_from(data["leave"]),
            sealed_limits=row[6],
            max_uses=row[9],
            given_at=sure(row[12]),
            expires_at=sure(row[13]),
            revoked_at=instant(row[14]),
        ),
        mac=Mac(key_id=row[7], value=row[8]),
        uses=row[10],
        used_at=_told_at(row[11]),
    )


def _told_at(value: Any) -> datetime | None:
    """None also for what is beyond any clock, or no instant: nothing rests on it."""
    with suppress(OverflowError, TypeError):
        return instant(value)
    return None


def _unreadable(row: tuple[Any, ...]) -> StoredGrant:
    """Stands for a row of which not even the form is left: a grant nobody gave, whose MAC cannot hold."""
    nothing = "unreadable"
    return StoredGrant(
        grant=Grant(
            tenant=row[0],
            grant_id=GrantId(row[1]),
            environment=nothing,
            subject=row[2],
            run_id=row[3],
            tool=row[4],
            tool_version=nothing,
            contract_digest=Digest(nothing),
            limits_digest=Digest(nothing),
            policy_version=PolicyVersion(nothing),
            terms=Terms(rule=nothing),
            max_uses=1,
            given_by=nothing,
            given_at=_told_at(row[12]) or EPOCH,
            expires_at=EPOCH,
            leave=Leave(roles=(), scopes=(), is_listed=False),
            reason="",
            nonce=nothing,
            sealed_limits=b"",
            revoked_at=None if row[14] is None else _told_at(row[14]) or EPOCH,
        ),
        mac=Mac(key_id=nothing, value=row[8] if type(row[8]) is str else ""),
    )
