"""The options of a contract, each held against what it may be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from placet.errors import ContractError, InvalidArguments
from placet.model.contract import (
    MAX_ATTEMPTS_PER_CALL,
    SERVER_ID,
    TOOL_NAME,
    ApprovalMode,
    Bound,
    Breaker,
    Contract,
    EffectClass,
    Isolation,
    KeyTemplate,
    Origin,
    Remote,
    Repair,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.exact import is_function, is_seconds, is_whole, items_of, member_of
from placet.model.identifiers import Digest
from placet.model.json import JsonObject
from placet.model.principal import is_identity
from placet.model.retention import is_retention
from placet.rules.contracts.digest import contract_digest
from placet.rules.contracts.limits import LIMITS, MAX_RESULT_BYTES
from placet.rules.decoding import LONE_SURROGATE, Path

_TEMPLATE_FIELD = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_SHORT_TEXT = 200
_MOST_NAMED = 5
MAX_CONCURRENT = 10_000

Kind = TypeVar("Kind", EffectClass, Risk, ApprovalMode, TextRule, Repair, Isolation)


def _else(value: Any, otherwise: Any) -> Any:
    """`value or otherwise` would ask a foreign value whether it is true."""
    return otherwise if value is None else value


def name_of(function: object) -> str:
    """A function's own name; empty for what is none."""
    name = getattr(function, "__name__", "") if is_function(function) else ""
    return name if type(name) is str else ""


def described_by(function: Callable[..., Any]) -> str:
    """What a function says of itself, without its indentation."""
    words = function.__doc__
    return inspect.cleandoc(words) if type(words) is str else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a registration says beside the shape of its values, as it was written and not yet checked."""

    effect: EffectClass | str
    risk: Risk | str | None
    permission: str | None
    version: str
    description: str | None
    approval: ApprovalMode | str
    timeout_seconds: float
    retry: RetryPolicy | None
    remote: Remote | None
    max_concurrent: int
    breaker: Breaker | None
    operation_key: str | None
    resource: str | None
    purpose: str | None
    probe: Callable[..., Any] | None
    redact: tuple[str, ...]
    allowed_tenants: tuple[str, ...] | None
    text: TextRule | str
    max_argument_bytes: int
    max_result_bytes: int
    generic_executor: str | None
    repair: tuple[Repair | str, ...] = ()
    retention_seconds: float | None = None
    origin: Origin | None = None
    bind: tuple[Bound, ...] = ()
    silence_seconds: float | None = None
    precondition: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the function or the schema itself says, already checked.

    Attributes:
        description: used where the registration gives none.
        authored_schema: what the arguments' schema was before it was closed; None if it comes from types.
    """

    description: str
    arguments_schema: JsonObject
    result_schema: JsonObject
    argument_names: tuple[str, ...]
    isolation: Isolation
    wide_fields: frozenset[Path]
    max_depth: int = LIMITS.max_depth
    authored_schema: JsonObject | None = None
    open_members: tuple[str, ...] = ()
    open_result_members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Turns what was given into a contract, with refusals that name the tool.

    Attributes:
        of_the_server: what to do instead about an argument that only the server may say.
    """

    name: str
    of_the_server: str = "take it from the CallContext"

    def __post_init__(self) -> None:
        if type(self.name) is not str or not TOOL_NAME.fullmatch(self.name):
            raise ContractError(
                "A tool cannot be registered: a name is 1 to 64 characters of a-z A-Z 0-9 _ . -; give one with name="
            )

    def refuse(self, why: str) -> ContractError:
        return ContractError(f"The tool {self.name!r} cannot be registered: {why}.", tool=self.name)

    def isolation(self, wanted: Isolation | str | None, function: Callable[..., Any]) -> Isolation:
        """Where the function runs: as asked, if it can; else a coroutine in the event loop and the rest in threads."""
        is_coroutine = inspect.iscoroutinefunction(function)
        if wanted is None:
            return Isolation.ASYNC if is_coroutine else Isolation.THREAD
        isolation = self.choice(Isolation, wanted, "isolation")
        if isolation is (Isolation.THREAD if is_coroutine else Isolation.ASYNC):
            raise self.refuse("isolation 'async' is for coroutine functions and 'thread' for all others")
        if isolation is Isolation.PROCESS and "<" in str(getattr(function, "__qualname__", "<")):
            raise self.refuse(
                "a new process could not import it; define it at the top level of a module, not inside a function"
            )
        return isolation

    def refuse_no_function(self, handler: object) -> None:
        """A handler is a function or a method, or a part of one: whatever else can be called may be anything."""
        if not is_function(handler):
            raise self.refuse("its handler is not a function or method")

    def refuse_incomplete(self, given: Given) -> None:
        """Refuse before anything is looked at closely: a write without a risk or permission, a probe that is none."""
        is_plain_read = self.choice(EffectClass, given.effect, "effect") is EffectClass.READ
        if given.risk is None and not is_plain_read:
            raise self.refuse("it needs a risk: low, medium, high or critical")
        if given.permission is None and not is_plain_read:
            raise self.refuse("it needs a permission, the scope its callers must hold")
        if given.probe is not None and not callable(given.probe):
            raise self.refuse("probe is a function of a ProbeContext")
        if given.precondition is not None and not callable(given.precondition):
            raise self.refuse("precondition is a function of a ProbeContext")

    def contract(self, given: Given, shape: Shape) -> Contract:
        """The whole promise with its digest.

        Raises:
            ContractError: an option is not what it may be.
        """
        names = shape.argument_names
        redacted = self.known(given.redact, names)
        contract = Contract(
            name=self.name,
            version=self.short(given.version, "version"),
            description=self._description(given, shape),
            arguments_schema=shape.arguments_schema,
            result_schema=shape.result_schema,
            argument_names=names,
            effect_class=self.choice(EffectClass, given.effect, "effect"),
            risk=self.choice(Risk, _else(given.risk, Risk.LOW), "risk"),
            permission=None if given.permission is None else self.short(given.permission, "permission"),
            approval=self.choice(ApprovalMode, given.approval, "approval"),
            isolation=shape.isolation,
            timeout_seconds=self.positive(given.timeout_seconds, "timeout_seconds"),
            retry=self.retry(_else(given.retry, RetryPolicy())),
            remote=self.remote(_else(given.remote, Remote())),
            max_concurrent=self.count(given.max_concurrent, "max_concurrent", most=MAX_CONCURRENT),
            breaker=None if given.breaker is None else self.breaker(given.breaker),
            operation_key=self.template(given.operation_key, names, "operation_key", redacted=redacted),
            resource=self.template(given.resource, names, "resource", redacted=redacted),
            purpose=self.short(_else(given.purpose, self.name), "purpose"),
            redact=redacted,
            wide_fields=shape.wide_fields,
            allowed_tenants=self.tenants(given.allowed_tenants),
            text_rule=self.choice(TextRule, given.text, "text"),
            max_argument_bytes=self.count(given.max_argument_bytes, "max_argument_bytes", most=LIMITS.max_bytes),
            max_result_bytes=self.count(given.max_result_bytes, "max_result_bytes", most=MAX_RESULT_BYTES),
            max_depth=shape.max_depth,
            authored_schema=shape.authored_schema,
            open_members=shape.open_members,
            open_result_members=shape.open_result_members,
            has_probe=given.probe is not None,
            generic_executor_reason=given.generic_executor,
            digest=Digest(""),
            repair=self.repair(given),
            retention_seconds=self.retention(given.retention_seconds),
            origin=None if given.origin is None else self.origin(given.origin),
            bind=given.bind,
            silence_seconds=self.silence(given, shape),
            has_precondition=given.precondition is not None,
        )
        if contract.has_precondition and contract.approval is ApprovalMode.NEVER:
            raise self.refuse("approval is 'never', so there is no approval that its precondition could bind")
        if contract.remote.co_commits:
            self._refuse_unfit_co_commit(contract)
        try:
            return replace(contract, digest=contract_digest(contract))
        except InvalidArguments as error:
            reason = error.reason.replace("_", " ")
        raise self.refuse(f"its contract has no canonical form ({reason})")

    def _refuse_unfit_co_commit(self, contract: Contract) -> None:
        if contract.remote != Remote(co_commits=True):
            raise self.refuse("remote.co_commits says that there is no remote, so remote says nothing else")
        if not contract.effect_class.is_write:
            raise self.refuse("remote.co_commits is for writes")
        if contract.isolation is Isolation.PROCESS:
            raise self.refuse("a handler in a process of its own has no transaction of the gate to co-commit in")

    def _description(self, given: Given, shape: Shape) -> str:
        written = None if given.description is None else self.text(given.description, "description")
        return written or self.text(shape.description, "description")

    def choice(self, kind: type[Kind], value: Any, what: str) -> Kind:
        if (member := member_of(kind, value)) is not None:
            return member
        raise self.refuse(f"{what} is one of {', '.join(member.value for member in kind)}")

    def positive(self, value: float, what: str) -> float:
        if not is_seconds(value):
            raise self.refuse(f"{what} is a finite number above zero")
        return float(value)

    def silence(self, given: Given, shape: Shape) -> float | None:
        if given.silence_seconds is None:
            return None
        if shape.isolation is Isolation.PROCESS:
            raise self.refuse("nothing is heard of the progress of a process, so silence_seconds says nothing of it")
        return self.positive(given.silence_seconds, "silence_seconds")

    def short(self, value: str, what: str) -> str:
        """Text that audit events carry as it is."""
        if type(value) is not str or not 0 < len(value) <= _MAX_SHORT_TEXT or not value.isprintable():
            raise self.refuse(f"{what} is printable text of 1 to {_MAX_SHORT_TEXT} characters")
        return value

    def text(self, value: str, what: str) -> str:
        if type(value) is not str or LONE_SURROGATE.search(value):
            raise self.refuse(f"{what} is text")
        return value

    def tenants(self, names: tuple[str, ...] | None) -> frozenset[str] | None:
        if names is None:
            return None
        found = items_of(names)
        if found is None or not all(is_identity(name) for name in found):
            raise self.refuse("allowed_tenants is a sequence of tenants, each a text of 1 to 128 characters")
        return frozenset(found)

    def remote(self, remote: Remote) -> Remote:
        if not is_whole(remote, Remote):
            raise self.refuse("remote is a Remote")
        if type(remote.honours_key) is not bool or type(remote.refuses_late) is not bool:
            raise self.refuse("remote.honours_key and remote.refuses_late are True or False")
        if type(remote.co_commits) is not bool:
            raise self.refuse("remote.co_commits is True or False")
        for what in ("key_retention_seconds", "arrival_bound_seconds"):
            seconds = getattr(remote, what)
            if seconds is not None:
                self.positive(seconds, f"remote.{what}")
        return remote

    def count(self, value: int, what: str, *, most: int) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise self.refuse(f"{what} is an integer from 1 to {most}")
        return value

    def breaker(self, breaker: Breaker) -> Breaker:
        if not is_whole(breaker, Breaker):
            raise self.refuse("breaker is a Breaker, or None for none")
        self.count(breaker.faults, "breaker.faults", most=1000)
        self.count(breaker.probes, "breaker.probes", most=100)
        self.positive(breaker.within_seconds, "breaker.within_seconds")
        self.positive(breaker.open_seconds, "breaker.open_seconds")
        return breaker

    def retry(self, policy: RetryPolicy) -> RetryPolicy:
        if not is_whole(policy, RetryPolicy):
            raise self.refuse("retry is a RetryPolicy")
        if type(policy.max_attempts) is not int or not 1 <= policy.max_attempts <= MAX_ATTEMPTS_PER_CALL:
            raise self.refuse(f"retry.max_attempts is an integer from 1 to {MAX_ATTEMPTS_PER_CALL}")
        self.positive(policy.initial_delay_seconds, "retry.initial_delay_seconds")
        self.positive(policy.max_delay_seconds, "retry.max_delay_seconds")
        return policy

    def repair(self, given: Given) -> frozenset[Repair]:
        found = items_of(given.repair)
        if found is None:
            raise self.refuse("repair is a sequence of kinds, not one text")
        kinds = frozenset(self.choice(Repair, kind, "repair") for kind in found)
        if kinds and self.choice(Risk, _else(given.risk, Risk.LOW), "risk") in (Risk.HIGH, Risk.CRITICAL):
            raise self.refuse("at risk high or critical nothing is repaired; what was proposed is run or refused")
        return kinds

    def retention(self, seconds: float | None) -> float | None:
        if seconds is not None and not is_retention(seconds):
            raise self.refuse("retention_seconds is a finite number of seconds, of one day or more")
        return None if seconds is None else float(seconds)

    def origin(self, origin: Origin) -> Origin:
        if not is_whole(origin, Origin) or not all(type(each) is str for each in (origin.tool, origin.pin)):
            raise self.refuse("origin is an Origin")
        if type(origin.server) is not str or not SERVER_ID.fullmatch(origin.server):
            raise self.refuse("origin.server is 1 to 24 characters of a-z 0-9 _ -, and begins with a letter")
        if not _SHA256.fullmatch(origin.pin):
            raise self.refuse("origin.pin is a SHA-256 in lowercase hex")
        if origin.way is not None and not (type(origin.way) is str and _SHA256.fullmatch(origin.way)):
            raise self.refuse("origin.way is a SHA-256 in lowercase hex")
        self.text(origin.tool, "origin.tool")
        return origin

    def known(self, fields: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
        found = items_of(fields)
        if found is None or not all(type(name) is str for name in found):
            raise self.refuse("redact is a sequence of names, not one text")
        if unknown := set(found) - set(names):
            raise self.refuse(f"redact names no argument: {', '.join(sorted(unknown)[:_MOST_NAMED])}")
        return frozenset(found)

    def template(
        self, text: str | None, names: tuple[str, ...], what: str, *, redacted: frozenset[str]
    ) -> KeyTemplate | None:
        if text is None:
            return None
        fields = tuple(_TEMPLATE_FIELD.findall(self.text(text, what)))
        if not fields or "{" in _TEMPLATE_FIELD.sub("", text) or not text.isascii():
            raise self.refuse(
                f'{what} is ASCII text with at least one argument in braces, such as "order:{{order_id}}"'
            )
        if unknown := set(fields) - set(names):
            raise self.refuse(f"{what} names no argument: {', '.join(sorted(unknown))}")
        if shown := redacted.intersection(fields):
            raise self.refuse(f"the argument {min(shown)!r} is redacted, and {what} is kept and shown in clear")
        return KeyTemplate(text=text, fields=fields)
