"""placet stands between a model's tool calls and the real world.

A proposal is checked (contract, tenant, policy, approval), acts at most once (ledger), and can be proven (audit).
Names are resolved on first use, so that `import placet` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from placet.bootstrap.addresses import MEMORY
    from placet.bootstrap.opening import Recovery
    from placet.bootstrap.opening import open_gate as open
    from placet.bootstrap.surroundings import LogSink, configure_logging, knowledge_meter
    from placet.cli.embedding import upstreams_from
    from placet.engine.desk import ApprovalView, Desk
    from placet.engine.drain import DrainReport
    from placet.engine.gate import Gate
    from placet.engine.grant_views import GrantView
    from placet.engine.inline import InlineDriver
    from placet.engine.reconciler import RecoveryReport
    from placet.engine.settings import GateSettings
    from placet.engine.settling import Truth
    from placet.engine.several import ChosenAnswer
    from placet.engine.switch import StopReport, StopView
    from placet.engine.sync import SyncGate
    from placet.engine.workflow import Workflows
    from placet.errors import NotSent, PlacetError, RemoteStatus, ToolRejected
    from placet.model.approval import ApprovalState, Chosen
    from placet.model.asking import NotAsked
    from placet.model.call_progress import CallProgress
    from placet.model.context import Absent, CallContext, CannotTell, Found, ProbeContext
    from placet.model.contract import (
        ApprovalMode,
        Breaker,
        Contract,
        EffectClass,
        Isolation,
        Remote,
        Repair,
        RetryPolicy,
        Risk,
        TextRule,
    )
    from placet.model.decision import Allow, Ask, Deny, GrantTerms, Requirement, RequirementKind, Terms
    from placet.model.effect import EffectState
    from placet.model.grant import GrantState, GrantWish
    from placet.model.outcome import (
        AwaitingApproval,
        Conflict,
        Failed,
        InProgress,
        Invalid,
        NotRun,
        Outcome,
        Refused,
        Replayed,
        Succeeded,
        TimedOut,
        Unknown,
    )
    from placet.model.principal import Principal, Role, Standing
    from placet.model.progress import Busy, Ended, Progress, Ready, Unserved, Waiting
    from placet.model.projection import Gap, Loose, NoProjection, Strict
    from placet.model.proposal import Proposal
    from placet.model.retention import Retention
    from placet.model.run import RunLimits, RunStatus
    from placet.model.stopping import StopScope
    from placet.model.workflow import (
        End,
        Fail,
        Failure,
        Move,
        Next,
        Settled,
        State,
        StepContext,
        Wait,
        Workflow,
    )
    from placet.rules.asking import Approvers, AskReminders, AskRule, AskRules
    from placet.rules.contracts import Tool, WideInt, tool, tool_from_schema
    from placet.rules.policy import Matrix
    from placet.rules.projections import (
        anthropic_tool,
        anthropic_tools,
        mcp_tool,
        openai_responses_tool,
        openai_tool,
    )
    from placet.rules.showing import escape_for_people
    from placet.rules.turns import Turn, anthropic_turn, openai_responses_turn, openai_turn

_HOMES = {
    "placet.bootstrap.addresses": ("MEMORY",),
    "placet.bootstrap.opening": ("Recovery",),
    "placet.bootstrap.surroundings": ("LogSink", "configure_logging", "knowledge_meter"),
    "placet.cli.embedding": ("upstreams_from",),
    "placet.engine.desk": ("ApprovalView", "Desk"),
    "placet.engine.drain": ("DrainReport",),
    "placet.engine.gate": ("Gate",),
    "placet.engine.grant_views": ("GrantView",),
    "placet.engine.inline": ("InlineDriver",),
    "placet.engine.reconciler": ("RecoveryReport",),
    "placet.engine.settling": ("Truth",),
    "placet.engine.settings": ("GateSettings",),
    "placet.engine.several": ("ChosenAnswer",),
    "placet.engine.switch": ("StopReport", "StopView"),
    "placet.engine.sync": ("SyncGate",),
    "placet.engine.workflow": ("Workflows",),
    "placet.errors": ("NotSent", "PlacetError", "RemoteStatus", "ToolRejected"),
    "placet.model.approval": ("ApprovalState", "Chosen"),
    "placet.model.asking": ("NotAsked",),
    "placet.model.call_progress": ("CallProgress",),
    "placet.model.context": ("Absent", "CallContext", "CannotTell", "Found", "ProbeContext"),
    "placet.model.contract": (
        "ApprovalMode",
        "Breaker",
        "Contract",
        "EffectClass",
        "Isolation",
        "Remote",
        "Repair",
        "RetryPolicy",
        "Risk",
        "TextRule",
    ),
    "placet.model.decision": ("Allow", "Ask", "Deny", "GrantTerms", "Requirement", "RequirementKind", "Terms"),
    "placet.model.effect": ("EffectState",),
    "placet.model.grant": ("GrantState", "GrantWish"),
    "placet.model.outcome": (
        "AwaitingApproval",
        "Conflict",
        "Failed",
        "InProgress",
        "Invalid",
        "NotRun",
        "Outcome",
        "Refused",
        "Replayed",
        "Succeeded",
        "TimedOut",
        "Unknown",
    ),
    "placet.model.principal": ("Principal", "Role", "Standing"),
    "placet.model.progress": ("Busy", "Ended", "Progress", "Ready", "Unserved", "Waiting"),
    "placet.model.projection": ("Gap", "Loose", "NoProjection", "Strict"),
    "placet.model.proposal": ("Proposal",),
    "placet.model.retention": ("Retention",),
    "placet.model.run": ("RunLimits", "RunStatus"),
    "placet.model.stopping": ("StopScope",),
    "placet.model.workflow": (
        "End",
        "Fail",
        "Failure",
        "Move",
        "Next",
        "Settled",
        "State",
        "StepContext",
        "Wait",
        "Workflow",
    ),
    "placet.rules.asking": ("Approvers", "AskReminders", "AskRule", "AskRules"),
    "placet.rules.contracts": ("Tool", "WideInt", "tool", "tool_from_schema"),
    "placet.rules.policy": ("Matrix",),
    "placet.rules.projections": (
        "anthropic_tool",
        "anthropic_tools",
        "mcp_tool",
        "openai_responses_tool",
        "openai_tool",
    ),
    "placet.rules.showing": ("escape_for_people",),
    "placet.rules.turns": ("Turn", "anthropic_turn", "openai_responses_turn", "openai_turn"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MEMORY",
    "Absent",
    "Allow",
    "ApprovalMode",
    "ApprovalState",
    "ApprovalView",
    "Approvers",
    "Ask",
    "AskReminders",
    "AskRule",
    "AskRules",
    "AwaitingApproval",
    "Breaker",
    "Busy",
    "CallContext",
    "CallProgress",
    "CannotTell",
    "Chosen",
    "ChosenAnswer",
    "Conflict",
    "Contract",
    "Deny",
    "Desk",
    "DrainReport",
    "EffectClass",
    "EffectState",
    "End",
    "Ended",
    "Fail",
    "Failed",
    "Failure",
    "Found",
    "Gap",
    "Gate",
    "GateSettings",
    "GrantState",
    "GrantTerms",
    "GrantView",
    "GrantWish",
    "InProgress",
    "InlineDriver",
    "Invalid",
    "Isolation",
    "LogSink",
    "Loose",
    "Matrix",
    "Move",
    "Next",
    "NoProjection",
    "NotAsked",
    "NotRun",
    "NotSent",
    "Outcome",
    "PlacetError",
    "Principal",
    "ProbeContext",
    "Progress",
    "Proposal",
    "Ready",
    "Recovery",
    "RecoveryReport",
    "Refused",
    "Remote",
    "RemoteStatus",
    "Repair",
    "Replayed",
    "Requirement",
    "RequirementKind",
    "Retention",
    "RetryPolicy",
    "Risk",
    "Role",
    "RunLimits",
    "RunStatus",
    "Settled",
    "Standing",
    "State",
    "StepContext",
    "StopReport",
    "StopScope",
    "StopView",
    "Strict",
    "Succeeded",
    "SyncGate",
    "Terms",
    "TextRule",
    "TimedOut",
    "Tool",
    "ToolRejected",
    "Truth",
    "Turn",
    "Unknown",
    "Unserved",
    "Wait",
    "Waiting",
    "WideInt",
    "Workflow",
    "Workflows",
    "__version__",
    "anthropic_tool",
    "anthropic_tools",
    "anthropic_turn",
    "configure_logging",
    "escape_for_people",
    "knowledge_meter",
    "mcp_tool",
    "open",
    "openai_responses_tool",
    "openai_responses_turn",
    "openai_tool",
    "openai_turn",
    "tool",
    "tool_from_schema",
    "upstreams_from",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        value: Any = import_module("placet.bootstrap.opening").open_gate
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module 'placet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
