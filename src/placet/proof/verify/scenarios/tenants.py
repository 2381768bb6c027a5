"""G12: what one tenant did does not exist for another."""

from __future__ import annotations

from typing import Any

from placet.engine.gate import Gate
from placet.engine.settling import Truth
from placet.errors import NotFound, PlacetError
from placet.model.contract import ApprovalMode
from placet.model.outcome import AwaitingApproval
from placet.model.principal import Principal, Role
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, PerTool, Scenario, require
from placet.proof.verify.stage import ALLOW, ASK, RUN, Hand, Stage, proposal
from placet.rules.contracts import Tool
from placet.rules.policy import DECIDE_SCOPE, READ_EFFECTS_SCOPE, RECONCILE_SCOPE

_ELSEWHERE = "verify-elsewhere"


async def effects_of_another(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    hand = stage.hand(tool)
    by = stage.agent(tool.contract, Role.ADMIN)
    stranger = Principal.agent(by.subject, tenant=_ELSEWHERE, roles=tuple(Role), scopes=tuple(by.scopes))
    person = _person()
    async with stage.gate(policy=ALLOW) as gate:
        mine = await stage.submitted(gate, tool, specimen, "c1", by=by)
        theirs = await gate.submit(proposal(tool, specimen, "c1"), principal=stranger, run=RUN)
        require(
            not theirs.is_success or _has_acted(hand, stranger),
            f"another tenant's operation was answered from the record ({theirs.status})",
            REPORT,
        )
        tenants = {context.tenant for _, context in hand.used}
        require(tenants <= {by.tenant, _ELSEWHERE}, "an attempt ran for a tenant that asked for nothing", REPORT)
        foreign = [effect for effect in await gate.reconciler.effects(by=person) if effect.tenant != _ELSEWHERE]
        require(not foreign, "effects of another tenant are listed", REPORT)
        if mine.operation_key is not None and tool.contract.effect_class.is_write and not _has_acted(hand, stranger):
            same = await _settling(stage, gate, mine.operation_key) == await _settling(stage, gate, "no such key")
            require(same, "an effect of another tenant can be told from one that does not exist", REPORT)
        seen = [event.body for event in [each async for each in gate.store.chained(tenant=_ELSEWHERE)]]
    require(
        not any(f'"tenant":"{by.tenant}"'.encode() in body for body in seen),
        "events of one tenant are among those of another",
        REPORT,
    )
    return "effects, answers and events of one tenant do not exist for another"


def _has_acted(hand: Hand, principal: Principal) -> bool:
    return any(context.tenant == principal.tenant for _, context in hand.used)


async def _settling(stage: Stage, gate: Gate, key: str) -> tuple[str, str]:
    return await _refusal(
        gate.reconciler.settle_by_person(
            key, Truth.COMMITTED, by=_person(), looked_at=stage.clock.now(), reason="verify"
        )
    )


async def approvals_of_another(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    by, person = stage.agent(tool.contract, Role.ADMIN), _person()
    async with stage.gate(policy=ASK) as gate:
        asked = await gate.submit(proposal(tool, specimen, "c1"), principal=by, run=RUN)
        if not isinstance(asked, AwaitingApproval):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        digest = (await gate.desk.show(asked.approval_id, by=stage.person(tool.contract))).digest
        for each in (asked.approval_id, "a-no-such-approval"):
            answers = [
                await _refusal(gate.desk.show(each, by=person)),
                await _refusal(gate.desk.approve(each, digest=digest, by=person)),
                await _refusal(gate.desk.withdraw(each, by=person)),
            ]
            require(
                answers == [(NotFound.__name__, "There is no such approval in your tenant.")] * 3,
                "an approval of another tenant can be told from one that does not exist",
                REPORT,
            )
        listed = await gate.desk.listed(by=person)
    require(not listed and not stage.uses, "approvals of another tenant are listed, or were used", REPORT)
    return "an approval of one tenant is for another like one that does not exist"


async def _refusal(asking: Any) -> tuple[str, str]:
    """What somebody is told: the kind of refusal and its words."""
    try:
        await asking
    except PlacetError as error:
        return type(error).__name__, str(error)
    return "answered", ""


def _person() -> Principal:
    return Principal.person(
        "verify-stranger",
        tenant=_ELSEWHERE,
        roles=tuple(Role),
        scopes=(DECIDE_SCOPE, RECONCILE_SCOPE, READ_EFFECTS_SCOPE),
    )


SCENARIOS: tuple[Scenario, ...] = (
    PerTool(guarantee=Guarantee.G12, id="effects_of_another", play=effects_of_another),
    PerTool(
        guarantee=Guarantee.G12,
        id="approvals_of_another",
        play=approvals_of_another,
        concerns=lambda contract: contract.approval is not ApprovalMode.NEVER,
    ),
)
