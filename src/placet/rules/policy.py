"""Who may do what: the matrix of roles and risks, and the strictest of several answers.

                 low      medium   high     critical
    viewer       allow*   deny     deny     deny        * reads only; a low write or a sensitive read counts as medium
    operator     allow    allow    deny     deny
    admin        allow    allow    ask      ask

Source: REQUIREMENTS C016 to C023, H009; DESIGN section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from placet.model.call import Call
from placet.model.contract import ApprovalMode, Contract, EffectClass, Risk
from placet.model.decision import Allow, Ask, Decision, Deny, Requirement
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal, Role
from placet.rules.canonical import canonical_bytes, sha256_hex

ALLOW, ASK, DENY = "allow", "ask", "deny"

MATRIX: dict[Role, dict[Risk, str]] = {
    Role.VIEWER: {Risk.LOW: ALLOW, Risk.MEDIUM: DENY, Risk.HIGH: DENY, Risk.CRITICAL: DENY},
    Role.OPERATOR: {Risk.LOW: ALLOW, Risk.MEDIUM: ALLOW, Risk.HIGH: DENY, Risk.CRITICAL: DENY},
    Role.ADMIN: {Risk.LOW: ALLOW, Risk.MEDIUM: ALLOW, Risk.HIGH: ASK, Risk.CRITICAL: ASK},
}

DECIDE_SCOPE = "approvals.decide"
"""Needed to decide approvals of others."""
RECONCILE_SCOPE = "effects.reconcile"
"""Needed to say what became of an unknown effect."""
READ_EFFECTS_SCOPE = "effects.read"
"""Lets a principal learn about operations of others in its tenant."""

_MILDEST_FIRST = (ALLOW, ASK, DENY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The built-in policy engine: a table, so it never waits.

    Attributes:
        requirement: what an approval must look like wherever the table, or a contract, asks.
    """

    requirement: Requirement = field(default_factory=Requirement)

    @property
    def timeout_seconds(self) -> float | None:
        return None

    @property
    def version(self) -> PolicyVersion:
        return _version(self.requirement)

    async def decide(self, call: Call) -> Decision:
        return self.word(call.contract, call.principal)

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return not isinstance(self.word(contract, principal), Deny)

    def word(self, contract: Contract, principal: Principal) -> Decision:
        """The table's answer for the principal and everybody it acts for: delegation only narrows."""
        links: list[Decision] = []
        link: Principal | None = principal
        while link is not None:
            links.append(_cell(contract, link, requirement=self.requirement, version=self.version))
            link = link.on_behalf_of
        return strictest(*links)


def effective(decision: Decision, call: Call) -> Decision:
    """The strictest of the engine's answer and the contract's own word."""
    requirement = decision.requirement if isinstance(decision, Ask) else Requirement()
    word = contract_word(call.contract, call.principal, requirement=requirement, version=decision.policy_version)
    combined = strictest(decision, word)
    if isinstance(combined, Ask) and call.contract.approval is ApprovalMode.NEVER:
        return Deny(reasons=(*combined.reasons, "contract_never_asks"), policy_version=combined.policy_version)
    return combined


def contract_word(
    contract: Contract, principal: Principal, *, requirement: Requirement, version: PolicyVersion
) -> Decision:
    """What the contract itself says, whoever asks."""
    if contract.allowed_tenants is not None and principal.tenant not in contract.allowed_tenants:
        return Deny(reasons=("tenant_not_allowed",), policy_version=version)
    if contract.approval is ApprovalMode.ALWAYS:
        return Ask(reasons=("contract_always_asks",), policy_version=version, requirement=requirement)
    return Allow(reasons=(), policy_version=version)


def strictest(*decisions: Decision) -> Decision:
    """Deny over ask over allow, with the reasons of all that are as strict as the winner. None given: deny."""
    winner: Decision | None = None
    for decision in decisions:
        if winner is None or _strictness(decision) > _strictness(winner):
            winner = decision
        elif _strictness(decision) == _strictness(winner):
            winner = replace(winner, reasons=(*winner.reasons, *decision.reasons))
    if winner is None:
        return Deny(reasons=("no_policy",), policy_version=PolicyVersion("none"))
    return winner


def risk_for(role: Role, contract: Contract) -> Risk:
    """The risk as it counts for a role: low writes and sensitive reads are medium for viewers."""
    is_plain_read = contract.effect_class is EffectClass.READ
    if role is Role.VIEWER and contract.risk is Risk.LOW and not is_plain_read:
        return Risk.MEDIUM
    return contract.risk


def _cell(contract: Contract, principal: Principal, *, requirement: Requirement, version: PolicyVersion) -> Decision:
    if contract.permission is not None and contract.permission not in principal.scopes:
        return Deny(reasons=("scope_missing",), policy_version=version)
    cells = [(MATRIX[role][risk_for(role, contract)], role) for role in principal.roles]
    if not cells:
        return Deny(reasons=("no_role",), policy_version=version)
    word, role = min(cells, key=lambda cell: (_MILDEST_FIRST.index(cell[0]), cell[1]))
    reasons = (f"matrix_{role.value}_{risk_for(role, contract).value}",)
    if word == ALLOW:
        return Allow(reasons=reasons, policy_version=version)
    if word == ASK:
        return Ask(reasons=reasons, policy_version=version, requirement=requirement)
    return Deny(reasons=reasons, policy_version=version)


def _strictness(decision: Decision) -> int:
    match decision:
        case Allow():
            return 0
        case Ask():
            return 1
        case Deny():
            return 2


_versions: dict[Requirement, PolicyVersion] = {}


def _version(requirement: Requirement) -> PolicyVersion:
    if requirement not in _versions:
        table: dict[str, dict[str, str]] = {
            role.value: {risk.value: word for risk, word in row.items()} for role, row in MATRIX.items()
        }
        form = canonical_bytes(
            {
                "matrix": {role: dict(row) for role, row in table.items()},
                "requirement": [
                    requirement.kind.value,
                    float(requirement.lifetime_seconds),
                    float(requirement.decide_within_seconds),
                ],
            }
        )
        _versions[requirement] = PolicyVersion(sha256_hex("placet/policy/1", form))
    return _versions[requirement]
