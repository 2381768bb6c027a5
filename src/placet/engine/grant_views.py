"""One standing grant as a person sees it. It is made from the sealed limits: what is shown is what is signed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from placet.engine.deciding import Decider
from placet.engine.registry import Registry
from placet.engine.verifying import verify_grant
from placet.model.approval import Mac
from placet.model.grant import GrantId, GrantState, Limit, StoredGrant
from placet.model.identifiers import PolicyVersion, RunId
from placet.model.json import JsonObject
from placet.model.principal import subjects_of
from placet.ports.keys import Keys
from placet.rules import grant_limits
from placet.rules import grants as rules
from placet.rules.grants import GrantMisfit

UNSIGNED: Final = Mac(key_id="", value="")
"""Of a draft."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantView:
    """One grant as a person sees it.

    Attributes:
        grant_id: empty of one that is not given yet.
        why_not: why it is void: `contract_changed`, `policy_changed` or `key_changed`; None if it is not.
        granted_to, on_behalf_of: whose calls it is for.
        limits: as people write them; None where they cannot be read any more, or of a contract that is not here.
        covers: the same in words, with whose calls, where, how many and until when.
        digest: what giving it must carry; it names all that was shown.
        words: what its giver said.
    """

    grant_id: GrantId
    state: GrantState
    why_not: str | None
    tool: str
    tool_version: str
    granted_to: str
    on_behalf_of: tuple[str, ...]
    run_id: RunId | None
    limits: JsonObject | None = field(repr=False)
    covers: tuple[str, ...] = field(repr=False)
    digest: str
    max_uses: int
    uses: int
    used_at: datetime | None
    given_by: str
    given_at: datetime
    expires_at: datetime
    words: str | None
    rule: str
    policy_version: PolicyVersion
    revoked_by: str | None
    revoked_at: datetime | None


class GrantViews:
    """Makes the views of one store's grants."""

    def __init__(self, *, keys: Keys, registry: Registry, decider: Decider) -> None:
        self._keys = keys
        self._registry = registry
        self._decider = decider

    def shown(self, stored: StoredGrant, now: datetime) -> GrantView:
        """As it stands now. Of a row that was altered nothing is repeated but its name."""
        limits = verify_grant(stored, self._keys)
        if isinstance(limits, GrantMisfit):
            if limits.is_alarm:
                return _altered(stored)
            is_over = stored.grant.revoked_at is not None
            return view_of(stored, None, GrantState.REVOKED if is_over else GrantState.VOID, limits.value)
        match rules.end(stored, now=now):
            case GrantMisfit.REVOKED:
                state, why_not = GrantState.REVOKED, None
            case GrantMisfit.EXPIRED:
                state, why_not = GrantState.EXPIRED, None
            case GrantMisfit.USED_UP:
                state, why_not = GrantState.USED_UP, None
            case _:
                why_not = self._why_void(stored)
                state = GrantState.USABLE if why_not is None else GrantState.VOID
        return view_of(stored, limits if self._is_contract_known(stored) else None, state, why_not)

    def _is_contract_known(self, stored: StoredGrant) -> bool:
        """Whether the very contract it was given under is here; without it nobody knows what is redacted."""
        tool = self._registry.tools.get(stored.grant.tool)
        return tool is not None and tool.contract.digest == stored.grant.contract_digest

    def _why_void(self, stored: StoredGrant) -> str | None:
        grant = stored.grant
        tool = self._registry.tools.get(grant.tool)
        if tool is None or rules.void(grant, tool.contract) is not None:
            return GrantMisfit.OTHER_CONTRACT.value
        if stored.mac.key_id != self._keys.current:
            return GrantMisfit.KEY_CHANGED.value
        return None if grant.policy_version == self._decider.policy_version else GrantMisfit.OTHER_POLICY.value


def view_of(
    stored: StoredGrant, limits: dict[str, Limit] | None, state: GrantState, why_not: str | None = None
) -> GrantView:
    """A grant whose limits are known, or cannot be read any more."""
    grant = stored.grant
    subjects = subjects_of(grant.subject)
    return GrantView(
        grant_id=grant.grant_id if stored.mac is not UNSIGNED else GrantId(""),
        state=state,
        why_not=why_not,
        tool=grant.tool,
        tool_version=grant.tool_version,
        granted_to=subjects[0],
        on_behalf_of=subjects[1:],
        run_id=grant.run_id,
        limits=None if limits is None else grant_limits.limits_form(limits),
        covers=() if limits is None else rules.in_words(grant, limits),
        digest=rules.wish_digest(grant),
        max_uses=grant.max_uses,
        uses=stored.uses,
        used_at=stored.used_at,
        given_by=grant.given_by,
        given_at=grant.given_at,
        expires_at=grant.expires_at,
        words=grant.reason or None,
        rule=grant.terms.rule,
        policy_version=grant.policy_version,
        revoked_by=grant.revoked_by,
        revoked_at=grant.revoked_at,
    )


def _altered(stored: StoredGrant) -> GrantView:
    """A row that somebody changed. What it says now, nobody signed."""
    return GrantView(
        grant_id=stored.grant.grant_id,
        state=GrantState.ALTERED,
        why_not=None,
        tool="",
        tool_version="",
        granted_to="",
        on_behalf_of=(),
        run_id=None,
        limits=None,
        covers=(),
        digest="",
        max_uses=0,
        uses=0,
        used_at=None,
        given_by="",
        given_at=_NEVER,
        expires_at=_NEVER,
        words=None,
        rule="",
        policy_version=PolicyVersion(""),
        revoked_by=None,
        revoked_at=stored.grant.revoked_at,
    )
