"""A stop: an operator's halt of everything, of a tenant, a tool or a run."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeGuard

from placet.errors import MisuseError
from placet.model.exact import is_whole
from placet.model.ledger import run_scope, tool_scope
from placet.model.principal import is_identity

_TOOL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class StopKind(StrEnum):
    """What a stop halts. `upstream` is reserved: no upstream can be registered yet, so none can be stopped."""

    ALL = "all"
    TENANT = "tenant"
    TOOL = "tool"
    RUN = "run"
    UPSTREAM = "upstream"


class StopLeave(StrEnum):
    """Whose leave a stop was given with: that of the tenant it halts, or that of the whole deployment."""

    TENANT = "tenant"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopScope:
    """What is halted. Make it with `everything`, `of_tenant`, `of_tool` or `of_run`.

    Attributes:
        tenant: whose; None where it is every tenant's.
        name: the tool, or the run; None for the other kinds.

    Raises:
        MisuseError: it names nothing that can be stopped.
    """

    kind: StopKind
    tenant: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        wants_tenant = self.kind in (StopKind.TENANT, StopKind.RUN)
        wants_name = self.kind in (StopKind.TOOL, StopKind.RUN)
        is_tenant_sound = is_identity(self.tenant) if wants_tenant else self.tenant is None
        if self.kind is StopKind.TOOL:
            is_tenant_sound = self.tenant is None or is_identity(self.tenant)
        is_name_sound = is_identity(self.name) if wants_name else self.name is None
        if self.kind is StopKind.TOOL and is_name_sound:
            is_name_sound = _TOOL.fullmatch(str(self.name)) is not None
        if self.kind is StopKind.UPSTREAM or not (is_tenant_sound and is_name_sound):
            raise MisuseError("A stop is of everything, of a tenant, of a tool or of a run; their names are text.")

    @classmethod
    def everything(cls) -> Self:
        return cls(kind=StopKind.ALL)

    @classmethod
    def of_tenant(cls, tenant: str) -> Self:
        return cls(kind=StopKind.TENANT, tenant=tenant)

    @classmethod
    def of_tool(cls, tool: str, *, tenant: str | None = None) -> Self:
        """The tool for one tenant, or for every tenant without one."""
        return cls(kind=StopKind.TOOL, tenant=tenant, name=tool)

    @classmethod
    def of_run(cls, run_id: str, *, tenant: str) -> Self:
        return cls(kind=StopKind.RUN, tenant=tenant, name=run_id)

    @property
    def key(self) -> str:
        """What the store calls it; two scopes never share one."""
        match self.kind:
            case StopKind.TENANT:
                return f"tenant:{self.tenant}"
            case StopKind.TOOL if self.tenant is None:
                return f"tool:{self.name}"
            case StopKind.TOOL:
                return tool_scope(str(self.tenant), str(self.name))
            case StopKind.RUN:
                return run_scope(str(self.tenant), str(self.name))
            case _:
                return "all"

    def holds_for(self, *, tenant: str, tool: str, run_id: str) -> bool:
        """Whether a call of this tenant, tool and run is halted by it."""
        is_tenant = self.tenant is None or self.tenant == tenant
        is_named = self.name is None or self.name == (tool if self.kind is StopKind.TOOL else run_id)
        return is_tenant and is_named


def scope_of_key(key: str) -> StopScope | None:
    """What the store's name of a scope means; None for one that somebody wrote by hand."""
    kind, _, rest = key.partition(":")
    with suppress(MisuseError, ValueError, TypeError):
        match kind:
            case "all" if not rest:
                return StopScope.everything()
            case "tenant":
                return StopScope.of_tenant(rest)
            case "tool" if not rest.startswith("["):
                return StopScope.of_tool(rest)
            case "tool":
                tenant, tool = json.loads(rest)
                return StopScope.of_tool(tool, tenant=tenant)
            case "run":
                tenant, run_id = json.loads(rest)
                return StopScope.of_run(run_id, tenant=tenant)
            case _:
                pass
    return None


def is_stop_scope(value: object) -> TypeGuard[StopScope]:
    """Whether `value` is a scope as its constructor makes it; runs no foreign method."""
    if not is_whole(value, StopScope) or type(value.kind) is not StopKind:
        return False
    with suppress(MisuseError):
        value.__post_init__()
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNote:
    """Who stopped, and why.

    Attributes:
        subject, tenant: the person's, from its own sign-in.
        leave: what the stop was given with; it is not lifted with less.
        sealed_reason: free text, encrypted; it is shown to people who may lift the stop and goes nowhere else.
    """

    subject: str
    tenant: str
    leave: StopLeave
    sealed_reason: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecord:
    """A stop in force, as the store has it; without a note if whoever stopped left none."""

    scope: str
    stopped_at: datetime
    note: StopNote | None
