"""What a tool promises: data, bound to one handler at registration and frozen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from placet.errors import MisuseError
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue

TOOL_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
SERVER_ID = re.compile(r"[a-z][a-z0-9_-]{0,23}")
"""What the deployment calls an upstream; the first part of each of its tools' names."""
UNKNOWN_TOOL_LABEL = "unknown"
"""What a name becomes in audit, metrics and logs when no contract bears it."""

MAX_ATTEMPTS_PER_CALL = 100


class Risk(StrEnum):
    """How much harm a wrong call could do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class EffectClass(StrEnum):
    """What a call does to the world."""

    READ = "read"
    SENSITIVE_READ = "sensitive_read"
    IDEMPOTENT_WRITE = "idempotent_write"
    WRITE = "write"
    IRREVERSIBLE = "irreversible"

    @property
    def is_write(self) -> bool:
        return self not in (EffectClass.READ, EffectClass.SENSITIVE_READ)

    @property
    def repeats_safely(self) -> bool:
        """Whether a second attempt with the same operation key changes nothing more."""
        return self in (EffectClass.READ, EffectClass.SENSITIVE_READ, EffectClass.IDEMPOTENT_WRITE)


class ApprovalMode(StrEnum):
    """When a person has to be asked.

    `never`: nobody can wave this tool through, so a policy that asks refuses instead.
    """

    NEVER = "never"
    BY_POLICY = "by_policy"
    ALWAYS = "always"


class Isolation(StrEnum):
    """Where the handler runs. A coroutine can be cancelled at its deadline, a process killed, a thread neither."""

    ASYNC = "async"
    THREAD = "thread"
    PROCESS = "process"

    @property
    def ends_by_itself(self) -> bool:
        """Whether an attempt is known to stop by its deadline, even if nobody is left to see to it."""
        return self is not Isolation.THREAD


class TextRule(StrEnum):
    """Which control characters and model-template tokens argument text may carry.

    `guarded` refuses them in every text of a write and in the names and paths of a read; `free` allows them.
    U+0000 is refused everywhere.
    """

    GUARDED = "guarded"
    FREE = "free"


class Repair(StrEnum):
    """Wrapping of arguments that a contract lets be undone, one step of it, where the text as it stands is refused.

    `double_encoded`: the arguments, or an object or array inside them, are written as text that holds their JSON.
    `code_fence`: the arguments stand in a Markdown code fence.
    """

    DOUBLE_ENCODED = "double_encoded"
    CODE_FENCE = "code_fence"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently one call is attempted.

    Attributes:
        max_attempts: the first attempt included, 1 to 100.
        initial_delay_seconds: longest wait before the second attempt; doubles for each further one.
        max_delay_seconds: cap of the doubling. The actual wait is drawn evenly from zero to the bound.
    """

    max_attempts: int = 3
    initial_delay_seconds: float = 0.25
    max_delay_seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When a tool that meets fault after fault is left alone for a while, by one tenant in one process.

    Attributes:
        faults: so many faults in a row open it, 1 to 1,000; any answer of the remote, a refusal too, begins anew.
        within_seconds: how far apart the first and the last of them may lie.
        open_seconds: how long nothing is let through then.
        probes: calls let through after that, and needed to find the remote well, before all are; 1 to 100.
    """

    faults: int = 10
    within_seconds: float = 60.0
    open_seconds: float = 30.0
    probes: int = 1


DEFAULT_BREAKER = Breaker()
DEFAULT_MAX_CONCURRENT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """What placet may assume of the system behind a handler.

    Attributes:
        honours_key: a request with a known operation key does not act again.
        key_retention_seconds: how long it remembers a key; None for ever.
        refuses_late: it refuses a request that arrives after the deadline the request carries.
        arrival_bound_seconds: a request acts within this time after it was sent, or never; None: no bound known.
        co_commits: there is no remote: all that the handler changes, it writes to the store's own database, in the
            transaction that it hands to `CallContext.co_commit` last. So the row of the ledger tells what became of it.
    """

    honours_key: bool = False
    key_retention_seconds: float | None = None
    refuses_late: bool = False
    arrival_bound_seconds: float | None = None
    co_commits: bool = False

    def __post_init__(self) -> None:
        if type(self.honours_key) is not bool or type(self.refuses_late) is not bool:
            raise MisuseError("Remote's honours_key and refuses_late are True or False.")
        if type(self.co_commits) is not bool:
            raise MisuseError("Remote's co_commits is True or False.")

    @property
    def proves_absence(self) -> bool:
        """Whether "absent" can be trusted enough to dispatch again without a person.

        A remote that forgets keys may meet an old request as if it were new, so its keys alone prove nothing.
        """
        keeps_keys = self.honours_key and self.key_retention_seconds is None
        return self.co_commits or keeps_keys or self.refuses_late or self.arrival_bound_seconds is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTemplate:
    """Names one business operation from validated arguments, e.g. `refund:{order_id}`.

    Attributes:
        text: the template as written; part of the key.
        fields: the top-level argument names inside it, in order.
    """

    text: str
    fields: tuple[str, ...]


class BoundSource(StrEnum):
    """What the server says in the model's stead: something of the call, or a value that is written down."""

    TENANT = "tenant"
    SUBJECT = "subject"
    RUN = "run"
    OPERATION_KEY = "operation_key"
    FIXED = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A top-level argument that the server puts in. The model neither sees it nor may send it.

    Attributes:
        value: the fixed one; None for the other sources.
    """

    member: str
    source: BoundSource
    value: JsonValue = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a tool lives that is not ours, and which description of it was accepted.

    Attributes:
        server: the upstream's server id.
        tool: the upstream's own name of the tool, exactly.
        pin: digest of the accepted definition; another one makes another contract, and voids approvals.
        way: digest of how the upstream is reached; the same holds for it. None: it is not known where.
    """

    server: str
    tool: str
    pin: Digest
    way: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A tool's promise. Everything that decides meaning is in `digest`.

    Attributes:
        permission: the scope a principal needs; None needs none (reads only).
        timeout_seconds: deadline of one attempt.
        silence_seconds: how long an attempt may say nothing of its progress before it ends as at its deadline, which no
            word moves; None: as long as the deadline lets it.
        max_argument_bytes: bound of the canonical arguments.
        max_result_bytes: bound of the canonical result.
        max_depth: deepest nesting of arguments and result.
        resource: what the call acts on, e.g. `ticket:{ticket_id}`; None if it has no name.
        max_concurrent: calls that one tenant may have running at once, in one process. Not in the digest.
        breaker: when the tool is left alone after faults; None: never. Not in the digest.
        retention_seconds: how long after its end an operation's sealed arguments, result and external reference are
            kept; None leaves it to whoever runs the deployment. Not in the digest.
        redact: top-level arguments that even the approver sees redacted.
        repair: wrapping of arguments that is undone before they are refused; none unless the contract says so.
        wide_fields: paths of integers beyond 2^53-1; `*` stands for any index or key.
        argument_names: top-level names the arguments may have.
        has_probe: whether a probe can tell what became of an unknown effect.
        has_precondition: whether an approval is bound to the state of the world that it was asked about in.
        authored_schema: the arguments' schema as its author wrote it, where it was closed since; None for typed tools.
            Not in the digest: it decides nothing.
        open_members, open_result_members: where unknown members are let in, as pointers into the value.
        generic_executor_reason: why a shell-, SQL- or URL-like tool was let in; None for ordinary tools.
        origin: of a tool of an upstream; None for our own.
        bind: arguments that the server puts in; `arguments_schema` and `argument_names` do not have them.
    """

    name: str
    version: str
    description: str
    arguments_schema: JsonObject = field(hash=False)
    result_schema: JsonObject = field(hash=False)
    argument_names: tuple[str, ...]
    effect_class: EffectClass
    risk: Risk
    permission: str | None
    approval: ApprovalMode
    isolation: Isolation
    timeout_seconds: float
    retry: RetryPolicy
    remote: Remote
    max_concurrent: int
    breaker: Breaker | None
    operation_key: KeyTemplate | None
    resource: KeyTemplate | None
    purpose: str
    redact: frozenset[str]
    wide_fields: frozenset[tuple[str, ...]]
    allowed_tenants: frozenset[str] | None
    text_rule: TextRule
    max_argument_bytes: int
    max_result_bytes: int
    max_depth: int
    has_probe: bool
    generic_executor_reason: str | None
    digest: Digest
    authored_schema: JsonObject | None = field(default=None, hash=False)
    open_members: tuple[str, ...] = ()
    open_result_members: tuple[str, ...] = ()
    repair: frozenset[Repair] = frozenset()
    retention_seconds: float | None = None
    origin: Origin | None = None
    bind: tuple[Bound, ...] = ()
    silence_seconds: float | None = None
    has_precondition: bool = False
