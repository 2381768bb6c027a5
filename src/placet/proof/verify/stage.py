"""A scratch gate over the user's own contracts and policy, with hands of our own in the place of every handler.

A contract stays as it is, but for two members: attempts run as coroutines here, whatever their isolation, and a
deadline that is longer than a few seconds is cut to them, or to a moment where it is waited for. No handler and no
probe of the user's is ever called; their functions are not even kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from placet.bootstrap.opening import Recovery, open_gate
from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.model.approval import Question
from placet.model.call import Call
from placet.model.context import Absent, CallContext, CannotTell, Found, ProbeAnswer, ProbeContext
from placet.model.contract import Contract, Isolation
from placet.model.decision import Allow, Ask, Decision, Entitled, Entitlement, Requirement
from placet.model.identifiers import PolicyVersion
from placet.model.json import JsonValue
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import Principal, Role
from placet.ports.policy import PolicyEngine
from placet.proof.verify.clock import StageClock
from placet.proof.verify.findings import CannotApply, NotPlayed
from placet.proof.verify.scratch import Scratch
from placet.proof.verify.specimens import NoSpecimen, Specimen, result_for, specimens
from placet.rules.contracts import Tool
from placet.rules.policy import DECIDE_SCOPE, READ_EFFECTS_SCOPE, RECONCILE_SCOPE

PATIENCE_SECONDS = 5.0
"""How long an attempt may take at most here: a busy machine breaks no guarantee."""
MOMENT_SECONDS = 0.1
"""The same where a deadline is waited for."""
RUN = "verify"
STORE = "scratch"
"""The name of the store that a scenario plays in unless it says another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where another process finds the tools: the module is looked for in the folder first."""

    folder: Path
    module: str
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What is verified.

    Attributes:
        agent: who proposes in production, if the configuration says so.
        origin: None if the tools live in this process alone; scenarios with several processes are not played then.
        database: the URL of a PostgreSQL database in which scratch schemas are made; None for SQLite files.
    """

    tools: tuple[Tool, ...]
    policy: PolicyEngine
    agent: Principal | None = None
    origin: Origin | None = None
    database: str | None = field(default=None, repr=False)


class Hand:
    """Stands in for one tool's handler and probe: remembers each use, and does what its scenario says.

    Attributes:
        result: what the contract accepts; None where nothing could be made up.
        used: the canonical arguments and the context of every attempt, in order.
        does: what an attempt does; it may return, raise or wait.
        sees: what a probe answers.
        state: what a precondition answers.
    """

    def __init__(self, result: JsonValue) -> None:
        self.used: list[tuple[bytes, CallContext]] = []
        self.result = result
        self.does: Callable[[CallContext], Any] = lambda context: result
        self.sees: ProbeAnswer = CannotTell()
        self.state: JsonValue = 1

    def in_place_of(self, tool: Tool, contract: Contract) -> Tool:
        """The tool under this contract, with nothing of its own code behind it."""
        return tool.with_stand_in(
            contract,
            self.run,
            self.look if contract.has_probe else None,
            self.read if contract.has_precondition else None,
        )

    async def run(self, canonical: bytes, context: CallContext) -> Any:
        self.used.append((canonical, context))
        answer = self.does(context)
        return await answer if hasattr(answer, "__await__") else answer

    async def look(self, context: ProbeContext) -> Found | Absent | CannotTell:
        return self.sees

    async def read(self, context: ProbeContext) -> JsonValue:
        return self.state


def in_our_hands(tool: Tool, hand: Hand) -> Tool:
    """The tool with everything of its contract, and nothing of its code behind it."""
    contract = replace(
        tool.contract,
        isolation=Isolation.ASYNC,
        timeout_seconds=min(tool.contract.timeout_seconds, PATIENCE_SECONDS),
    )
    return hand.in_place_of(tool, contract)


class Everyone:
    """A policy of our own, for scenarios that are not about policy: everybody may, or everybody is asked about."""

    timeout_seconds: float | None = None
    version = PolicyVersion("verify")

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    async def decide(self, call: Call) -> Decision:
        return self._decision

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return True

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        return Entitled()


ALLOW = Everyone(Allow(reasons=("verify",), policy_version=Everyone.version))
ASK = Everyone(Ask(reasons=("verify",), policy_version=Everyone.version, requirement=Requirement()))


class Stage:
    """A fresh scratch store, and hands of our own for every tool.

    Attributes:
        hands: by the tool's name.
    """

    def __init__(self, configuration: Configuration, scratch: Scratch, clock: StageClock) -> None:
        self.configuration = configuration
        self.clock = clock
        self.scratch = scratch
        self.hands: dict[str, Hand] = {}
        self.tools: dict[str, Tool] = {}
        for tool in configuration.tools:
            name = tool.contract.name
            self.hands[name] = Hand(_result(tool))
            self.tools[name] = in_our_hands(tool, self.hands[name])

    async def later(self, seconds: float) -> None:
        """Move the clocks of gates and stores."""
        self.clock.advance(seconds)
        await self.scratch.later(seconds)

    @asynccontextmanager
    async def gate(
        self,
        *,
        policy: PolicyEngine | None = None,
        settings: GateSettings | None = None,
        named: str = STORE,
        **more: Any,
    ) -> AsyncIterator[Gate]:
        """A gate over the scratch store, or another one by its name, which recovers nothing by itself."""
        opening = open_gate(
            tools=tuple(self.tools.values()),
            store=await self.scratch.place(named),
            key=self.scratch.key(named),
            policy=policy or self.configuration.policy,
            settings=settings or GateSettings(lease_seconds=3600.0, call_seconds=15.0, grace_seconds=0.2),
            recovery=Recovery.MANUAL,
            clock=more.pop("clock", self.clock),
            **more,
        )
        async with opening as gate:
            yield gate

    @property
    def uses(self) -> int:
        """How often any handler would have run."""
        return sum(len(hand.used) for hand in self.hands.values())

    def hurried(self, tool: Tool) -> Tool:
        """The same tool with a deadline of a moment, in every gate from now on."""
        name = tool.contract.name
        seconds = min(tool.contract.timeout_seconds, MOMENT_SECONDS)
        hand, contract = self.hands[name], replace(tool.contract, timeout_seconds=seconds)
        self.tools[name] = hand.in_place_of(tool, contract)
        return self.tools[name]

    def hand(self, tool: Tool) -> Hand:
        return self.hands[tool.contract.name]

    def specimens(self, tool: Tool, count: int = 1) -> tuple[Specimen, ...]:
        """
        Raises:
            NotPlayed: no such arguments can be made up.
        """
        try:
            return specimens(tool, count)
        except NoSpecimen as why:
            told = str(why)
        if count > 1 and not self.specimens(tool)[0].proposed:
            raise CannotApply("it has no arguments")
        raise NotPlayed(told)

    def operations(self, tool: Tool, count: int) -> tuple[Specimen, ...]:
        """Arguments that each name another operation.

        Raises:
            NotPlayed: not so many can be made up.
        """
        template = tool.contract.operation_key
        if template is None:
            return self.specimens(tool, 1) * count  # the call id names the operation
        if not template.fields:
            raise CannotApply("all of its calls are one operation")
        found: dict[tuple[object, ...], Specimen] = {}
        for each in self.specimens(tool, count):
            found.setdefault(tuple(repr(each.accepted.get(name)) for name in template.fields), each)
        if len(found) < count:
            raise NotPlayed("arguments that name different operations could not be made up")
        return tuple(found.values())

    # ------------------------------------------------------------ who acts

    def tenant(self, contract: Contract) -> str:
        agent = self.configuration.agent
        preferred = agent.tenant if agent is not None else "verify"
        if contract.allowed_tenants is None or preferred in contract.allowed_tenants:
            return preferred
        return min(contract.allowed_tenants, default=preferred)

    def person(self, contract: Contract, name: str = "verify-approver") -> Principal:
        agent = self.configuration.agent
        environment = {} if agent is None else {"environment": agent.environment}
        return Principal.person(
            name,
            tenant=self.tenant(contract),
            roles=tuple(Role),
            scopes=(DECIDE_SCOPE, RECONCILE_SCOPE, READ_EFFECTS_SCOPE),
            **environment,
        )

    def agents(self, contract: Contract) -> tuple[Principal, ...]:
        """Who might be let: the configured agent, then one of our own in each role, with the scope and for a person."""
        configured = self.configuration.agent
        tenant = self.tenant(contract)
        given = () if configured is None or configured.tenant != tenant else (configured,)
        return (*given, *(self.agent(contract, role) for role in (Role.OPERATOR, Role.ADMIN, Role.VIEWER)))

    def agent(self, contract: Contract, role: Role, *, scopes: Collection[str] | None = None) -> Principal:
        granted = (contract.permission,) if contract.permission is not None else ()
        return Principal.agent(
            f"verify-{role.value}",
            tenant=self.tenant(contract),
            roles=(role,),
            scopes=granted if scopes is None else scopes,
        )

    async def let(self, gate: Gate, tool: Tool, specimen: Specimen) -> Principal:
        """Somebody whom the policy lets call the tool, asking or not.

        Raises:
            NotPlayed: the policy lets nobody that is tried.
        """
        ask = proposal(tool, specimen, "let")
        for principal in self.agents(tool.contract):
            if isinstance(await gate.explain(ask, principal=principal, run=RUN), Allow | Ask):
                return principal
        raise NotPlayed("the policy lets none of the agents that were tried call it")

    async def submitted(
        self, gate: Gate, tool: Tool, specimen: Specimen, call_id: str, *, by: Principal, run: str = RUN
    ) -> Outcome:
        """The outcome of a call, approved by somebody of ours where a person is asked."""
        ask = proposal(tool, specimen, call_id)
        outcome = await gate.submit(ask, principal=by, run=run)
        if isinstance(outcome, AwaitingApproval):
            await self.approve(gate, tool, outcome)
            outcome = await gate.submit(ask, principal=by, run=run)
        return outcome

    async def approve(self, gate: Gate, tool: Tool, asked: AwaitingApproval) -> None:
        """
        Raises:
            NotPlayed: nobody of ours may decide it.
        """
        person = self.person(tool.contract)
        view = await gate.desk.show(asked.approval_id, by=person)
        if view.why_not is not None and view.on_behalf_of is not None:
            person = self.person(tool.contract, view.on_behalf_of)
        elif view.why_not is not None:
            raise NotPlayed(f"an approval of it could not be given here: {view.why_not}")
        await gate.desk.approve(asked.approval_id, digest=view.digest, by=person)


def proposal(tool: Tool, specimen: Specimen, call_id: str) -> dict[str, Any]:
    return {"call_id": call_id, "tool": tool.contract.name, "arguments": specimen.proposed}


def _result(tool: Tool) -> JsonValue:
    try:
        return result_for(tool)
    except NoSpecimen:
        return None
