"""G4 and G5: what policy says, and what an approval is good for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from placet.model.approval import ApprovalState
from placet.model.contract import ApprovalMode, Contract
from placet.model.decision import Allow, Ask, Deny
from placet.model.identifiers import PolicyVersion
from placet.model.outcome import AwaitingApproval, Refused
from placet.model.principal import Principal, Role
from placet.proof.verify.findings import REPORT, Guarantee, NotPlayed, PerTool, Scenario, require
from placet.proof.verify.stage import ASK, RUN, STORE, Stage, proposal
from placet.rules.contracts import Tool
from placet.rules.policy import Matrix

_STRICTNESS: dict[type, int] = {Allow: 0, Ask: 1, Deny: 2}
_WORDS: dict[type, str] = {Allow: "allow", Ask: "ask", Deny: "deny"}


# ---------------------------------------------------------------- G4


async def as_policy_says(stage: Stage, tool: Tool) -> str:
    """Each role is answered as policy says, what is denied does not run, and nothing is milder than the matrix."""
    (specimen,) = stage.specimens(tool)
    said: list[str] = []
    for role in Role:
        by = stage.agent(tool.contract, role)
        before = stage.uses
        async with stage.gate(named=role.value) as gate:
            decision = await gate.explain(proposal(tool, specimen, "c1"), principal=by, run=RUN)
            outcome = await gate.submit(proposal(tool, specimen, "c1"), principal=by, run=RUN)
        word = type(decision)
        require(word in _STRICTNESS, f"the policy gave no decision for {role.value}", "Mend the policy.")
        ran = stage.uses > before
        require(word is Allow or not ran, f"it ran for {role.value}, although policy said {_WORDS.get(word)}", REPORT)
        if word is Deny:
            require(isinstance(outcome, Refused), f"{role.value} was denied, and told {outcome.status}", REPORT)
        floor = _floor(tool.contract, by)
        require(
            _STRICTNESS[word] >= _STRICTNESS[floor],
            f"the policy says {_WORDS[word]} to a {role.value}, where the built-in matrix says {_WORDS[floor]}",
            "Let the policy deny it to this role, or lower the risk of the contract if that is the truth.",
        )
        said.append(f"{role.value} {_WORDS[word]}")
    return ", ".join(said)


def _floor(contract: Contract, principal: Principal) -> type:
    return type(Matrix().word(contract, principal))


async def without_scope(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    async with stage.gate() as gate:
        for role in Role:
            by = stage.agent(tool.contract, role, scopes=())
            outcome = await gate.submit(proposal(tool, specimen, role.value), principal=by, run=f"{RUN}-{role.value}")
            require(
                isinstance(outcome, Refused) and not stage.uses,
                f"a {role.value} without the scope {tool.contract.permission} was told {outcome.status}",
                "Let the policy deny what the principal has no scope for.",
            )
    return f"nobody calls it without {tool.contract.permission}"


async def of_another_tenant(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    stranger = Principal.agent(
        "verify-stranger", tenant="verify-elsewhere", roles=tuple(Role), scopes=(tool.contract.permission or "verify",)
    )
    async with stage.gate() as gate:
        outcome = await gate.submit(proposal(tool, specimen, "c1"), principal=stranger, run=RUN)
    require(
        isinstance(outcome, Refused) and not stage.uses,
        f"a tenant that the contract does not name was told {outcome.status}",
        REPORT,
    )
    return "tenants that the contract does not name are denied"


async def broken_policy(stage: Stage, tool: Tool) -> str:
    """Every fault in deciding is a deny."""
    (specimen,) = stage.specimens(tool)
    by = stage.agent(tool.contract, Role.ADMIN)
    for index, fault in enumerate((_raises, _says_nothing, _says_yes, _never_answers)):
        async with stage.gate(policy=_Broken(fault)) as gate:
            outcome = await gate.submit(proposal(tool, specimen, f"c{index}"), principal=by, run=f"{RUN}-{index}")
        require(
            isinstance(outcome, Refused) and outcome.code == "denied" and not stage.uses,
            f"with a policy that {fault.__doc__} it was {outcome.status}",
            REPORT,
        )
    return "a policy that raises, is silent, hangs or says something else denies"


async def _raises() -> Any:
    """raises"""
    raise RuntimeError


async def _says_nothing() -> Any:
    """says nothing"""


async def _says_yes() -> Any:
    """says something else"""
    return True


async def _never_answers() -> Any:
    """never answers"""
    await asyncio.Event().wait()


class _Broken:
    timeout_seconds: float | None = 0.05
    version = PolicyVersion("verify")

    def __init__(self, fault: Any) -> None:
        self._fault = fault

    async def decide(self, call: object) -> Any:
        return await self._fault()

    def is_listed(self, contract: object, principal: object) -> bool:
        return True

    async def may_decide(self, question: object, person: object) -> Any:
        return await self._fault()


# ---------------------------------------------------------------- G5


async def one_member_changed(stage: Stage, tool: Tool) -> str:
    """An approval of one call runs no other, nor the same for somebody else."""
    approved, other = stage.specimens(tool, 2)
    by = stage.agent(tool.contract, Role.ADMIN)
    somebody = stage.agent(tool.contract, Role.OPERATOR)
    async with stage.gate(policy=ASK) as gate:
        asked = await gate.submit(proposal(tool, approved, "c1"), principal=by, run=RUN)
        if not isinstance(asked, AwaitingApproval):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        await stage.approve(gate, tool, asked)
        for what, specimen, who, run in (
            ("other arguments", other, by, RUN),
            ("another principal", approved, somebody, RUN),
            ("another run", approved, by, f"{RUN}-2"),
        ):
            outcome = await gate.submit(proposal(tool, specimen, "c1"), principal=who, run=run)
            require(
                not stage.uses and not outcome.is_success,
                f"an approval let {what} run ({outcome.status})",
                REPORT,
            )
        done = await gate.submit(proposal(tool, approved, "c1"), principal=by, run=RUN)
    used = stage.hand(tool).used
    require(
        len(used) >= 1 and {canonical for canonical, _ in used} == {approved.canonical},
        f"what was approved is not what ran ({done.status})",
        REPORT,
    )
    return "other arguments, another principal and another run are asked for anew"


async def spent_once(stage: Stage, tool: Tool) -> str:
    """Two gates on one store spend one approval once."""
    (specimen,) = stage.specimens(tool)
    by = stage.agent(tool.contract, Role.ADMIN)
    ask = proposal(tool, specimen, "c1")
    async with AsyncExitStack() as opened:
        gates = [await opened.enter_async_context(stage.gate(policy=ASK)) for _ in range(2)]
        asked = await gates[0].submit(ask, principal=by, run=RUN)
        if not isinstance(asked, AwaitingApproval):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        await stage.approve(gates[0], tool, asked)
        outcomes = await asyncio.gather(*(gate.submit(ask, principal=by, run=RUN) for gate in gates * 2))
        view = await gates[1].desk.show(asked.approval_id, by=stage.person(tool.contract))
        again = await gates[1].submit(proposal(tool, specimen, "c2"), principal=by, run=f"{RUN}-2")
    operations = {context.operation_key for _, context in stage.hand(tool).used}
    firsts = [context for _, context in stage.hand(tool).used if context.attempt == 1]
    told = ", ".join(sorted(outcome.status for outcome in outcomes))
    require(len(firsts) == 1 and len(operations) == 1, f"one approval let it run {len(firsts)} times ({told})", REPORT)
    require(view.state is ApprovalState.SPENT, f"the approval was used and is still {view.state.value}", REPORT)
    require(
        again.status in ("awaiting_approval", "replayed"),
        f"a spent approval was good once more ({again.status})",
        REPORT,
    )
    return "one approval, two gates, four asks: it ran once"


async def forged_row(stage: Stage, tool: Tool) -> str:
    """Whoever writes the database cannot approve, not even with the answer and signature of another approval."""
    (specimen,) = stage.specimens(tool)
    by = stage.agent(tool.contract, Role.ADMIN)
    ask = proposal(tool, specimen, "c1")
    async with stage.gate(policy=ASK) as gate:
        genuine = await gate.submit(ask, principal=by, run=f"{RUN}-genuine")
        asked = await gate.submit(ask, principal=by, run=RUN)
        if not (isinstance(asked, AwaitingApproval) and isinstance(genuine, AwaitingApproval)):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        await stage.approve(gate, tool, genuine)
    for forgery in (_GRAFTED, _BARE):
        await stage.scratch.changed(STORE, forgery)
        async with stage.gate(policy=ASK) as gate:
            outcome = await gate.submit(ask, principal=by, run=RUN)
        require(not stage.uses, f"a row that was changed by hand let it run ({outcome.status})", REPORT)
    return "a row changed by hand approves nothing, nor does the signature of another approval"


async def in_another_state(stage: Stage, tool: Tool) -> str:
    """What was approved in one state of the world does not run in another, nor where the state cannot be read."""
    (specimen,) = stage.specimens(tool)
    by = stage.agent(tool.contract, Role.ADMIN)
    ask, hand = proposal(tool, specimen, "c1"), stage.hand(tool)
    async with stage.gate(policy=ASK) as gate:
        asked = await gate.submit(ask, principal=by, run=RUN)
        if not isinstance(asked, AwaitingApproval):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        await stage.approve(gate, tool, asked)
        hand.state = None
        unread = await gate.submit(ask, principal=by, run=RUN)
        hand.state = 2
        anew = await gate.submit(ask, principal=by, run=RUN)
        require(
            not stage.uses and isinstance(unread, Refused),
            f"with a state that nobody could read it was {unread.status}",
            REPORT,
        )
        require(
            not stage.uses and isinstance(anew, AwaitingApproval) and anew.approval_id != asked.approval_id,
            f"an approval of another state was good ({anew.status})",
            REPORT,
        )
        hand.state = 1
        back = await gate.submit(ask, principal=by, run=RUN)
    require(not stage.uses, f"an approval that was void was good once more ({back.status})", REPORT)
    return "in another state a person is asked anew, and in one that cannot be read nothing runs"


_BARE = "UPDATE approvals SET state = 'approved' WHERE state = 'pending'"
_GRAFTED = """
UPDATE approvals SET (state, answer, signature_key_id, signature) =
    (SELECT state, answer, signature_key_id, signature FROM approvals WHERE state = 'approved')
WHERE state = 'pending'
"""


def _may_ask(contract: Contract) -> bool:
    return contract.approval is not ApprovalMode.NEVER


SCENARIOS: tuple[Scenario, ...] = (
    PerTool(guarantee=Guarantee.G4, id="as_policy_says", play=as_policy_says),
    PerTool(
        guarantee=Guarantee.G4, id="without_scope", play=without_scope, concerns=lambda c: c.permission is not None
    ),
    PerTool(
        guarantee=Guarantee.G4,
        id="of_another_tenant",
        play=of_another_tenant,
        concerns=lambda c: c.allowed_tenants is not None,
    ),
    PerTool(guarantee=Guarantee.G4, id="broken_policy", play=broken_policy),
    PerTool(guarantee=Guarantee.G5, id="one_member_changed", play=one_member_changed, concerns=_may_ask),
    PerTool(guarantee=Guarantee.G5, id="spent_once", play=spent_once, concerns=_may_ask),
    PerTool(guarantee=Guarantee.G5, id="forged_row", play=forged_row, concerns=_may_ask),
    PerTool(
        guarantee=Guarantee.G5, id="in_another_state", play=in_another_state, concerns=lambda c: c.has_precondition
    ),
)
