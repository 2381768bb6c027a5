"""Whether the scopes that a deployment hands out are asked for by anything, so that a misspelt one is seen."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

from placet.bootstrap.declared import manifest_of
from placet.engine.api_keys import MANAGE_SCOPE
from placet.engine.person_sessions import MANAGE_SESSIONS_SCOPE
from placet.engine.pinning import ACCEPT_SCOPE
from placet.errors import ManifestError, PlacetError
from placet.model.principal import Principal
from placet.model.upstreams import Upstream
from placet.ports.policy import PolicyEngine
from placet.proof.doctor.checks import Patient, Saying, ok, skipped, warn
from placet.rules.access import READ_AUDIT_SCOPE, READ_METRICS_SCOPE
from placet.rules.addresses import shown_word
from placet.rules.policy import DECIDE_SCOPE, READ_EFFECTS_SCOPE, RECONCILE_SCOPE, Matrix
from placet.rules.retention import HOLD_SCOPE, PURGE_SCOPE
from placet.rules.stopping import STOP_ALL_SCOPE, STOP_SCOPE

OWN_SCOPES: Final = frozenset(
    {
        ACCEPT_SCOPE,
        DECIDE_SCOPE,
        HOLD_SCOPE,
        MANAGE_SCOPE,
        MANAGE_SESSIONS_SCOPE,
        PURGE_SCOPE,
        READ_AUDIT_SCOPE,
        READ_EFFECTS_SCOPE,
        READ_METRICS_SCOPE,
        RECONCILE_SCOPE,
        STOP_ALL_SCOPE,
        STOP_SCOPE,
    }
)
"""What placet itself asks for, whatever the tools are."""
_MOST_NAMED: Final = 5


def scopes(patient: Patient) -> Saying:
    deployment = patient.deployment
    if isinstance(deployment.tools, PlacetError) or isinstance(deployment.policy, PlacetError):
        return skipped("tools or policy cannot be loaded")
    known = OWN_SCOPES | {tool.contract.permission for tool in deployment.tools if tool.contract.permission is not None}
    known |= _of_policy(deployment.policy) | _of_manifests(deployment.upstreams)
    holders = [*deployment.people, *([deployment.agent] if deployment.agent is not None else [])]
    strange = list(_strange(holders, known, is_all_known=type(deployment.policy) is Matrix))
    if not strange:
        return ok("every scope that is handed out is asked for by something")
    told = "; ".join(strange[:_MOST_NAMED]) + (
        f"; and {len(strange) - _MOST_NAMED} more" if strange[_MOST_NAMED:] else ""
    )
    return warn(
        f"no tool, no rule and nothing of placet asks for {told}", "Correct it, or take it out: placet tools list"
    )


def _of_manifests(upstreams: Iterable[Upstream]) -> frozenset[str]:
    """Of tools, too, that nobody has accepted yet: whoever declares a server hands the scopes out before that."""
    found: set[str] = set()
    for each in upstreams:
        with suppress(ManifestError):  # said by the check of manifests
            found |= {terms.permission for terms in manifest_of(each).terms.values() if terms.permission is not None}
    return frozenset(found)


def _of_policy(engine: PolicyEngine) -> frozenset[str]:
    if type(engine) is not Matrix or engine.asks is None:
        return frozenset()
    return frozenset[str]().union(*(rule.approvers.scopes for rule in engine.asks.rules))


def _strange(holders: Iterable[Principal], known: frozenset[str], *, is_all_known: bool) -> Iterable[str]:
    """Of an engine that is somebody's own nobody here knows what it asks for; there only what looks misspelt."""
    for holder in holders:
        for scope in sorted(holder.scopes - known):
            meant = get_close_matches(scope, sorted(known), n=1, cutoff=0.8)
            if meant or is_all_known:
                question = f" (did you mean {meant[0]}?)" if meant else ""
                yield f"{shown_word(scope)} of {shown_word(holder.subject)}{question}"
