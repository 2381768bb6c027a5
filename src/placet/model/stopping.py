"""A stop: an operator's halt of everything, of a tenant, a tool, an upstream or a run; and a tool's quarantine."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeGuard

from placet.errors import MisuseError
from placet.model.contract import SERVER_ID, TOOL_NAME
from placet.model.exact import is_whole
from placet.model.identifiers import Digest
from placet.model.ledger import quarantined_name, run_scope, scopes_of, tool_scope, upstream_scope
from placet.model.principal import is_identity


class StopKind(StrEnum):
    """What a stop halts. `quarantine`: a tool whose upstream describes it otherwise than it was accepted; it ends when
    the tool is accepted, and not otherwise.
    """

    ALL = "all"
    TENANT = "tenant"
    TOOL = "tool"
    RUN = "run"
    UPSTREAM = "upstream"
    QUARANTINE = "quarantine"


_QUARANTINED = re.compile(rf"{TOOL_NAME.pattern}@[0-9a-f]{{32}}")
_NAMED = {StopKind.TOOL: TOOL_NAME, StopKind.QUARANTINE: _QUARANTINED, StopKind.UPSTREAM: SERVER_ID}


class StopLeave(StrEnum):
    """Whose leave a stop was given with: that of the tenant it halts, or that of the whole deployment."""

    TENANT = "tenant"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopScope:
    """What is halted. Make it with `everything`, `of_tenant`, `of_tool`, `of_upstream`, `of_run` or `quarantine`.

    Attributes:
        tenant: whose; None where it is every tenant's.
        name: the tool, the upstream, the run, or the tool and half a pin; None for the other kinds.

    Raises:
        MisuseError: it names nothing that can be stopped.
    """

    kind: StopKind
    tenant: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        wants_tenant = self.kind in (StopKind.TENANT, StopKind.RUN)
        wants_name = self.kind in (*_NAMED, StopKind.RUN)
        is_tenant_sound = is_identity(self.tenant) if wants_tenant else self.tenant is None
        if self.kind in (StopKind.TOOL, StopKind.UPSTREAM):
            is_tenant_sound = self.tenant is None or is_identity(self.tenant)
        is_name_sound = is_identity(self.name) if wants_name else self.name is None
        if self.kind in _NAMED and is_name_sound:
            is_name_sound = _NAMED[self.kind].fullmatch(str(self.name)) is not None
        if not (is_tenant_sound and is_name_sound):
            raise MisuseError(
                "A stop is of everything, of a tenant, of a tool, of an upstream or of a run; their names are text."
            )

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
    def of_upstream(cls, server: str, *, tenant: str | None = None) -> Self:
        """All tools of the upstream for one tenant, or for every tenant without one."""
        return cls(kind=StopKind.UPSTREAM, tenant=tenant, name=server)

    @classmethod
    def quarantine(cls, tool: str, pin: Digest) -> Self:
        """The tool as it was accepted under this pin, for every tenant. Accepted otherwise, it is another one."""
        return cls(kind=StopKind.QUARANTINE, name=quarantined_name(tool, pin))

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
            case StopKind.UPSTREAM if self.tenant is None:
                return f"upstream:{self.name}"
            case StopKind.UPSTREAM:
                return upstream_scope(str(self.tenant), str(self.name))
            case StopKind.QUARANTINE:
                return f"quarantine:{self.name}"
            case StopKind.RUN:
                return run_scope(str(self.tenant), str(self.name))
            case _:
                return "all"

    def holds_for(self, *, tenant: str, tool: str, run_id: str) -> bool:
        """Whether a call of this tenant, tool and run is halted by it."""
        return self.key in scopes_of(tenant, tool, run_id)


def is_quarantine(key: str) -> bool:
    """Whether the store's name of a scope is that of a quarantine."""
    return key.startswith("quarantine:")


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
            case "upstream" if not rest.startswith("["):
                return StopScope.of_upstream(rest)
            case "upstream":
                tenant, server = json.loads(rest)
                return StopScope.of_upstream(server, tenant=tenant)
            case "quarantine":
                return StopScope(kind=StopKind.QUARANTINE, name=rest)
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
