"""placet stands between a model's tool calls and the real world.

A proposal is checked (contract, tenant, policy, approval), acts at most once (ledger), and can be proven (audit).
Names are resolved on first use, so that `import placet` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from placet.bootstrap import MEMORY, LogSink, Recovery, configure_logging
    from placet.bootstrap import open_gate as open
    from placet.engine.desk import ApprovalView, Desk
    from placet.engine.gate import Gate
    from placet.engine.reconciler import RecoveryReport, Truth
    from placet.engine.settings import GateSettings
    from placet.engine.sync import SyncGate
    from placet.errors import NotSent, PlacetError, RemoteStatus, ToolRejected
    from placet.model.approval import ApprovalState
    from placet.model.context import Absent, CallContext, CannotTell, Found, ProbeContext
    from placet.model.contract import (
        ApprovalMode,
        Contract,
        EffectClass,
        Isolation,
        Remote,
        RetryPolicy,
        Risk,
        TextRule,
    )
    from placet.model.decision import Allow, Ask, Deny, Requirement, RequirementKind
    from placet.model.effect import EffectState
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
    from placet.model.proposal import Proposal
    from placet.rules.contracts import Tool, WideInt, tool
    from placet.rules.policy import Matrix
    from placet.rules.redaction import escape_for_people

_HOMES = {
    "placet.bootstrap": ("MEMORY", "LogSink", "Recovery", "configure_logging"),
    "placet.engine.desk": ("ApprovalView", "Desk"),
    "placet.engine.gate": ("Gate",),
    "placet.engine.reconciler": ("RecoveryReport", "Truth"),
    "placet.engine.settings": ("GateSettings",),
    "placet.engine.sync": ("SyncGate",),
    "placet.errors": ("NotSent", "PlacetError", "RemoteStatus", "ToolRejected"),
    "placet.model.approval": ("ApprovalState",),
    "placet.model.context": ("Absent", "CallContext", "CannotTell", "Found", "ProbeContext"),
    "placet.model.contract": (
        "ApprovalMode",
        "Contract",
        "EffectClass",
        "Isolation",
        "Remote",
        "RetryPolicy",
        "Risk",
        "TextRule",
    ),
    "placet.model.decision": ("Allow", "Ask", "Deny", "Requirement", "RequirementKind"),
    "placet.model.effect": ("EffectState",),
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
    "placet.model.proposal": ("Proposal",),
    "placet.rules.contracts": ("Tool", "WideInt", "tool"),
    "placet.rules.policy": ("Matrix",),
    "placet.rules.redaction": ("escape_for_people",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MEMORY",
    "Absent",
    "Allow",
    "ApprovalMode",
    "ApprovalState",
    "ApprovalView",
    "Ask",
    "AwaitingApproval",
    "CallContext",
    "CannotTell",
    "Conflict",
    "Contract",
    "Deny",
    "Desk",
    "EffectClass",
    "EffectState",
    "Failed",
    "Found",
    "Gate",
    "GateSettings",
    "InProgress",
    "Invalid",
    "Isolation",
    "LogSink",
    "Matrix",
    "NotRun",
    "NotSent",
    "Outcome",
    "PlacetError",
    "Principal",
    "ProbeContext",
    "Proposal",
    "Recovery",
    "RecoveryReport",
    "Refused",
    "Remote",
    "RemoteStatus",
    "Replayed",
    "Requirement",
    "RequirementKind",
    "RetryPolicy",
    "Risk",
    "Role",
    "Standing",
    "Succeeded",
    "SyncGate",
    "TextRule",
    "TimedOut",
    "Tool",
    "ToolRejected",
    "Truth",
    "Unknown",
    "WideInt",
    "__version__",
    "configure_logging",
    "escape_for_people",
    "open",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        value: Any = import_module("placet.bootstrap").open_gate
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module 'placet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
