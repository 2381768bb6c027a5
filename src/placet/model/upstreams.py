"""Servers whose tools are called through the gate: how they are reached, and on whose terms. The deployment's word.

Whatever lets somebody in is not here: it is named, and looked up when something is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from placet.model.contract import (
    DEFAULT_BREAKER,
    DEFAULT_MAX_CONCURRENT,
    ApprovalMode,
    Bound,
    Breaker,
    EffectClass,
    Remote,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.destinations import SecretRef
from placet.model.issuers import Network
from placet.model.json import JsonValue

# ---------------------------------------------------------------- how it is reached


class CredentialForm(StrEnum):
    """How a credential is shown. basic: `user` and the secret. header, query: the secret alone, under `name`.

    oauth: `secret` is the file that holds what an authorization server gave; of MCP servers alone (ADR 0048).
    """

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"
    OAUTH = "oauth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What the deployment itself shows an upstream; never what its own caller came with.

    Attributes:
        name: of the header or of the query's member; None for the other forms.
        user: for `basic`; None for the other forms.
    """

    form: CredentialForm
    secret: SecretRef
    name: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioWay:
    """An MCP server that the gate starts itself, and speaks with over its standard input and output. No shell.

    Attributes:
        command: a program on the path, or the path of one.
        environment: what the process gets besides a fixed few harmless variables; text as it is, or where it stands.
        environment_by_tenant: the same for one tenant's process, over the former.
        folder: where it is started.
    """

    command: str
    args: tuple[str, ...] = ()
    environment: Mapping[str, str | SecretRef] = field(default_factory=dict, hash=False)
    environment_by_tenant: Mapping[str, Mapping[str, str | SecretRef]] = field(default_factory=dict, hash=False)
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamableWay:
    """An MCP server over streamable HTTP.

    Attributes:
        credential: for every tenant that has none in `credential_by_tenant`; None: such a tenant shows none.
    """

    url: str
    credential: Credential | None = None
    credential_by_tenant: Mapping[str, Credential] = field(default_factory=dict, hash=False)
    network: Network = Network.PUBLIC
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiWay:
    """An HTTP service that an OpenAPI document describes.

    Attributes:
        document: the description's file.
        url: where the service is; what the document says of servers is never used.
        credential: as of a `StreamableWay`.
        headers: sent with every request, in clear.
    """

    document: Path
    url: str
    credential: Credential | None = None
    credential_by_tenant: Mapping[str, Credential] = field(default_factory=dict, hash=False)
    network: Network = Network.PUBLIC
    ca_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


Way = StdioWay | StreamableWay | OpenApiWay


class Relayed(StrEnum):
    """What of an upstream that is no tool may be passed on; nothing of it unless it is allowed by name."""

    RESOURCES = "resources"
    PROMPTS = "prompts"
    COMPLETION = "completion"
    SAMPLING = "sampling"
    ELICITATION = "elicitation"
    LOGGING = "logging"
    ROOTS = "roots"


class Naming(StrEnum):
    """At the MCP front door, what is of an upstream bears the server id before its name, or its own name alone.

    Everywhere else a tool of an upstream is called by its contract's name, which begins with the server id.
    """

    PREFIXED = "prefixed"
    PLAIN = "plain"


class Statefulness(StrEnum):
    """Whether a session remembers what was said in it. stateful: one for each principal; else one for each tenant."""

    STATEFUL = "stateful"
    STATELESS = "stateless"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamBounds:
    """What one upstream may cost.

    Attributes:
        connect_seconds: from nothing to verified definitions.
        refresh_seconds: how old verified definitions may become before they are looked at again.
        idle_seconds: after which a session that nobody uses is ended.
        max_sessions: kept at once.
        max_message_bytes: the largest message, or answer, that is read.
        max_definition_bytes: all pages of its definitions together.
        max_tools: that it may describe.
    """

    connect_seconds: float = 20.0
    refresh_seconds: float = 300.0
    idle_seconds: float = 300.0
    max_sessions: int = 64
    max_message_bytes: int = 4_194_304
    max_definition_bytes: int = 4_194_304
    max_tools: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """One server, as the project file declares it.

    Attributes:
        name: its server id.
        manifest: the file with our terms for its tools.
        tenants: whose calls it takes; None: everybody's.
    """

    name: str
    way: Way
    manifest: Path
    tenants: frozenset[str] | None = None
    statefulness: Statefulness = Statefulness.STATEFUL
    relayed: frozenset[Relayed] = frozenset()
    naming: Naming = Naming.PREFIXED
    bounds: UpstreamBounds = field(default_factory=UpstreamBounds)


# ---------------------------------------------------------------- our terms for its tools


class ValueSource(StrEnum):
    """Where a probe's value comes from: written down, or of the effect that is looked for."""

    FIXED = "value"
    TENANT = "tenant"
    OPERATION_KEY = "operation_key"
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeValue:
    """
    Attributes:
        value: the fixed one; None for the other sources.
        at: a JSON Pointer into the effect's arguments; empty for the other sources.
    """

    source: ValueSource
    value: JsonValue = field(default=None, hash=False)
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What stands at a JSON Pointer equals a value, in type and in value."""

    at: str
    equals: ProbeValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTerms:
    """How another tool of the same upstream, one that reads, tells what became of an effect.

    Attributes:
        tool: the upstream's own name of it.
        arguments: what it is asked, by name.
        items_at: JSON Pointer to a list in the answer; None: the answer is the one item.
        found_if: an item of which all of these hold is the effect; at least one condition.
        absent_if: without a list, all of these hold of an answer that says it is not there; none: no answer says so.
        complete_below: with a list, one that is shorter and holds no such item says that it is not there; a longer one
            may have been cut. None: no list says so.
        absent_statuses: of an HTTP service, answers that say it is not there.
        result_at, reference_at: JSON Pointers into the item: the effect's result, and its name in the remote.
    """

    tool: str
    arguments: Mapping[str, ProbeValue] = field(hash=False)
    found_if: tuple[Condition, ...]
    items_at: str | None = None
    absent_if: tuple[Condition, ...] = ()
    complete_below: int | None = None
    absent_statuses: frozenset[int] = frozenset()
    result_at: str | None = None
    reference_at: str | None = None


class ToolErrors(StrEnum):
    """What it proves of a write that its upstream answers with an error result.

    unknown: nothing. refused: the deployment's word that nothing happened then.
    """

    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTerms:
    """What the deployment says of one tool of an upstream; the upstream's own word may only raise risk and effect.

    Attributes mean what they mean of `placet.tool`.

    Attributes:
        tool: the upstream's own name of it, exactly.
        key_header: of an HTTP service: the header that takes the operation key; None: as the operation declares.
        refusals: of an HTTP service: statuses that prove that nothing happened, besides those that always do.
        reference_at: JSON Pointer into the result: the effect's name in the remote.
    """

    tool: str
    effect: EffectClass
    risk: Risk
    permission: str | None
    version: str = "1"
    approval: ApprovalMode = ApprovalMode.BY_POLICY
    operation_key: str | None = None
    resource: str | None = None
    purpose: str | None = None
    timeout_seconds: float = 30.0
    silence_seconds: float | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    remote: Remote = field(default_factory=Remote)
    max_concurrent: int = DEFAULT_MAX_CONCURRENT
    breaker: Breaker | None = DEFAULT_BREAKER
    redact: tuple[str, ...] = ()
    text: TextRule = TextRule.GUARDED
    max_argument_bytes: int = 8_192
    max_result_bytes: int = 65_536
    max_depth: int | None = None
    allowed_tenants: frozenset[str] | None = None
    retention_seconds: float | None = None
    generic_executor: str | None = None
    open_members: tuple[str, ...] = ()
    open_result_members: tuple[str, ...] = ()
    bind: tuple[Bound, ...] = ()
    probe: ProbeTerms | None = None
    errors: ToolErrors = ToolErrors.UNKNOWN
    key_header: str | None = None
    refusals: frozenset[int] = frozenset()
    reference_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Our terms for the tools of one upstream, by the upstream's own names. A tool without terms is hidden."""

    server: str
    terms: Mapping[str, ToolTerms] = field(hash=False)
