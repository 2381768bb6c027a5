"""A typed function becomes a contract with its checks; arguments become what the contract promises, or are refused.

Pydantic validates strictly, without coercion and without unknown members at any depth, whatever the model's own
configuration says. Its error texts repeat the input, so only error types and paths leave this module.
"""

from __future__ import annotations

import inspect
import math
import re
import typing
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic_core.core_schema import ErrorType

from placet.errors import ContractError, InvalidArguments
from placet.model.context import CallContext, ProbeAnswer, ProbeContext
from placet.model.contract import (
    MAX_ATTEMPTS_PER_CALL,
    TOOL_NAME,
    ApprovalMode,
    Contract,
    EffectClass,
    Isolation,
    KeyTemplate,
    Remote,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue
from placet.model.principal import is_identity
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.decoding import DecodingLimits, decode_object, encode_foreign, json_pointer

WideInt = Annotated[int, Field(json_schema_extra={"x-placet-wide": True})]
"""An integer that may lie beyond 2^53-1; exact at any size."""

SERVER_NAMES = frozenset(
    {"tenant", "tenantid", "operationkey", "idempotencykey", "approvalid", "principal", "callcontext"}
)
"""What only the server may say, in small letters without separators, as `tenant-id`, `X-Tenant-ID` and `tenantId`
are compared. An argument of such a name would let a model say it (B028, B037, H007)."""

GENERIC_NAME_PARTS = frozenset(
    {"shell", "bash", "exec", "execute", "eval", "sql", "psql", "subprocess", "powershell", "cmd", "curl", "wget"}
)
GENERIC_FIELDS = frozenset(
    {"command", "cmd", "shell", "script", "sql", "sql_query", "statement", "code", "url", "uri", "endpoint", "argv"}
)
"""Names that mark a generic executor: the model would choose what runs, not only its arguments (B035)."""

MAX_RESULT_BYTES = 16_777_216
"""The largest `max_result_bytes` a contract may ask for."""

_TEMPLATE_FIELD = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")
_MODEL_TOKENS = re.compile(r"<\|[a-zA-Z_]{1,40}\|>|</?tool_(?:call|use|result)s?>|\[/?INST\]|</?function_calls?>", re.I)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_NAMES_AND_PATHS = re.compile(r"(?:^|_)(?:name|path|file|filename|dir|directory)(?:$|_)", re.I)
_KNOWN_PROBLEMS = frozenset(typing.get_args(ErrorType))
_MAX_PROBLEMS = 16
_MAX_SHORT_TEXT = 200
_SEPARATORS = re.compile(r"[\W_]+")
_NO_SCHEMA = frozenset({"metadata", "default", "expected", "members", "serialization", "config"})
"""Parts of a core schema that hold values, or say how it is written; they may look like a schema."""
_RESULT_OPENS, _RESULT_CLOSES = b'{"result":', b"}"

Handler = Callable[..., Any]
Probe = Callable[[ProbeContext], Awaitable[ProbeAnswer]]
Kind = TypeVar("Kind", EffectClass, Risk, ApprovalMode, TextRule)


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A contract with its checks and its one handler. Not callable: tools run through a gate only.

    Attributes:
        function: the plain function, for unit tests of its own.
    """

    contract: Contract
    function: Handler
    probe: Probe | None
    _arguments: type[BaseModel]
    _result: TypeAdapter[Any]
    _takes_model: str | None
    _takes_context: str | None
    _wide_result: frozenset[tuple[str, ...]]
    _names_every_value: bool

    # ------------------------------------------------------------ arguments

    def check_arguments(self, raw: object) -> tuple[JsonObject, bytes]:
        """Decode, validate and normalise raw arguments: their plain form and its canonical bytes.

        Raises:
            InvalidArguments: with paths and fixed messages only; nothing ran.
        """
        contract = self.contract
        limits = _argument_limits(contract.max_depth)
        text = raw if type(raw) is bytes or type(raw) is str else encode_foreign(raw, limits=limits)
        decoded = decode_object(text, limits=limits, wide=contract.wide_fields)
        arguments = self._validated(canonical_bytes(decoded))
        if (coerced := _coerced(decoded, arguments)) is not None:
            raise InvalidArguments("contract_broken", problems=((json_pointer(coerced), "coerced"),))
        _refuse_loss(decoded, arguments)
        canonical = canonical_bytes(arguments)
        if len(canonical) > contract.max_argument_bytes:
            raise InvalidArguments("arguments_too_large")
        if contract.text_rule is TextRule.GUARDED:
            _refuse_control_text(arguments, everywhere=contract.effect_class.is_write)
        if canonical_bytes(self._validated(canonical)) != canonical:
            raise InvalidArguments("normalisation_not_stable")  # else what is named and approved would not be what runs
        return arguments, canonical

    def handler_arguments(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        """Keyword arguments for one attempt: a fresh copy of what was authorised, and the context."""
        model = self._arguments.model_validate_json(canonical, strict=True, extra="forbid")
        if self._takes_model is not None:
            keywords: dict[str, Any] = {self._takes_model: model}
        else:
            keywords = {name: getattr(model, name) for name in self._arguments.model_fields}
        if self._takes_context is not None:
            keywords[self._takes_context] = context
        return keywords

    def _validated(self, text: bytes) -> JsonObject:
        try:
            model = self._arguments.model_validate_json(text, strict=True, extra="forbid")
            dumped: JsonObject = model.model_dump(mode="json", by_alias=True, warnings="none")
            return dumped
        except ValidationError as error:
            problems = _problems(error)
        except BaseException:  # a validator of the user's model raised something else; its text stays here
            problems = (("", "validator_failed"),)
        raise InvalidArguments("contract_broken", problems=problems)

    # ------------------------------------------------------------ results

    def check_result(self, returned: object) -> tuple[JsonValue, bytes]:
        """Hold a returned value against the result contract: its plain form and canonical bytes.

        Raises:
            InvalidArguments: the value breaks the contract; `reason` says how. No foreign text, no cause.
        """
        reason = "result_broken"
        try:
            text = self._result_text(returned)
            read = self._result.validate_json(text, strict=True, extra="forbid")
            canonical = canonical_bytes(self.read_result(text))
            plain = self.read_result(canonical)  # as a replay will read it, member order included
            if _coerced(plain, self._result.dump_python(read, mode="json", by_alias=True, warnings="none")) is not None:
                raise ValueError  # told as result_broken, like whatever else breaks it
        except InvalidArguments as error:
            reason = "result_" + error.reason
        except BaseException:
            reason = "result_broken"
        else:
            if len(canonical) <= self.contract.max_result_bytes:
                return plain, canonical
            reason = "result_too_large"
        raise InvalidArguments(reason)

    def read_result(self, text: bytes) -> JsonValue:
        """Strictly decode a result's JSON text, recorded or fresh.

        Raises:
            InvalidArguments: it is not sound JSON within the contract's limits.
        """
        wrapped = _RESULT_OPENS + text + _RESULT_CLOSES
        return decode_object(wrapped, limits=self._result_limits(), wide=self._wide_result)["result"]

    def _result_text(self, returned: object) -> bytes:
        """JSON text of a returned value: plain values as they are, typed ones through their own serialiser.

        A list or dict that holds typed values is written so only if the contract names the type of each; where it
        says `Any`, nobody promised how a value that is not JSON is written.
        """
        if type(returned) in (dict, list, str, int, float, bool, type(None)):
            try:
                text = encode_foreign({"result": returned}, limits=self._result_limits())
                return text[len(_RESULT_OPENS) : -len(_RESULT_CLOSES)]
            except InvalidArguments as refusal:
                if refusal.reason != "unsupported_value" or not self._names_every_value:
                    raise
        return self._result.dump_json(returned, by_alias=True, warnings="error")

    def _result_limits(self) -> DecodingLimits:
        """A result travels inside an object of one member, so that any JSON value may be one."""
        return _result_limits(self.contract.max_depth, self.contract.max_result_bytes)


def tool(
    *,
    effect: EffectClass | str,
    risk: Risk | str | None = None,
    permission: str | None = None,
    name: str | None = None,
    version: str = "1",
    description: str | None = None,
    approval: ApprovalMode | str = ApprovalMode.BY_POLICY,
    timeout_seconds: float = 10.0,
    retry: RetryPolicy | None = None,
    remote: Remote | None = None,
    operation_key: str | None = None,
    resource: str | None = None,
    purpose: str | None = None,
    probe: Probe | None = None,
    redact: tuple[str, ...] = (),
    allowed_tenants: tuple[str, ...] | None = None,
    text: TextRule | str = TextRule.GUARDED,
    max_argument_bytes: int = 8_192,
    max_result_bytes: int = 65_536,
    generic_executor: str | None = None,
) -> Callable[[Handler], Tool]:
    """Make a tool of a typed function.

    The function's parameters are the arguments (or one parameter that is a Pydantic model); a parameter of type
    `CallContext` receives the context. Its return type is the result contract. A coroutine function is cancelled
    at its deadline; a plain function runs in a thread, which cannot be.

    Args:
        effect: read, sensitive_read, idempotent_write, write or irreversible.
        risk: needed for writes and sensitive reads; low for plain reads if absent.
        permission: the scope a principal needs; required for everything but plain reads.
        operation_key: names the business operation, e.g. `"refund:{order_id}"`.
        resource: what the call acts on, e.g. `"order:{order_id}"`.
        probe: tells what became of an effect whose outcome is unknown.
        generic_executor: the written reason for letting in a shell-, SQL- or URL-like tool; it is audited.

    Raises:
        ContractError: the promise is incomplete or too wide; nothing is registered.
    """

    def derive(function: Handler) -> Tool:
        options = _Options(function=function, name=name or str(getattr(function, "__name__", "")))
        effect_class = options.choice(EffectClass, effect, "effect")
        if risk is None and effect_class is not EffectClass.READ:
            raise options.refuse("it needs a risk: low, medium, high or critical")
        if permission is None and effect_class is not EffectClass.READ:
            raise options.refuse("it needs a permission, the scope its callers must hold")
        if probe is not None and not callable(probe):
            raise options.refuse("probe is a function of a ProbeContext")
        arguments, takes_model, takes_context = options.arguments()
        result = options.result()
        schema = options.schema(arguments)
        names = tuple(field.alias or key for key, field in arguments.model_fields.items())
        redacted = options.known(redact, names)
        _refuse_server_names(options, schema, arguments)
        _refuse_lossy_writing(options, schema, arguments)
        _refuse_other_keys(options, arguments)
        _refuse_generic(options, schema, reason=generic_executor)
        contract = Contract(
            name=options.name,
            version=options.short(version, "version"),
            description=options.text(description or inspect.getdoc(function) or "", "description"),
            arguments_schema=schema,
            result_schema=options.result_schema(result),
            argument_names=names,
            effect_class=effect_class,
            risk=options.choice(Risk, risk or Risk.LOW, "risk"),
            permission=None if permission is None else options.short(permission, "permission"),
            approval=options.choice(ApprovalMode, approval, "approval"),
            isolation=Isolation.ASYNC if inspect.iscoroutinefunction(function) else Isolation.THREAD,
            timeout_seconds=options.positive(timeout_seconds, "timeout_seconds"),
            retry=options.retry(retry or RetryPolicy()),
            remote=options.remote(remote or Remote()),
            operation_key=options.template(operation_key, names, "operation_key", redacted=redacted),
            resource=options.template(resource, names, "resource", redacted=redacted),
            purpose=options.short(purpose or options.name, "purpose"),
            redact=redacted,
            wide_fields=frozenset(_wide_paths(schema)),
            allowed_tenants=options.tenants(allowed_tenants),
            text_rule=options.choice(TextRule, text, "text"),
            max_argument_bytes=options.bytes(max_argument_bytes, "max_argument_bytes", most=_LIMITS.max_bytes),
            max_result_bytes=options.bytes(max_result_bytes, "max_result_bytes", most=MAX_RESULT_BYTES),
            max_depth=_LIMITS.max_depth,
            has_probe=probe is not None,
            generic_executor_reason=generic_executor,
            digest=Digest(""),
        )
        return Tool(
            contract=replace(contract, digest=contract_digest(contract)),
            function=function,
            probe=probe,
            _arguments=arguments,
            _result=result,
            _takes_model=takes_model,
            _takes_context=takes_context,
            _wide_result=frozenset(("result", *path) for path in _wide_paths(contract.result_schema)),
            _names_every_value=not _leaves_open(result.core_schema),
        )

    return derive


def contract_digest(contract: Contract) -> Digest:
    """Identity of everything in a contract that decides meaning."""
    form: JsonObject = {
        "name": contract.name,
        "version": contract.version,
        "description": contract.description,
        "arguments": _floats_as_text(contract.arguments_schema),
        "result": _floats_as_text(contract.result_schema),
        "effect_class": contract.effect_class.value,
        "risk": contract.risk.value,
        "permission": contract.permission,
        "approval": contract.approval.value,
        "isolation": contract.isolation.value,
        "timeout_seconds": str(contract.timeout_seconds),
        "retry": [
            contract.retry.max_attempts,
            str(contract.retry.initial_delay_seconds),
            str(contract.retry.max_delay_seconds),
        ],
        "remote": [
            contract.remote.honours_key,
            str(contract.remote.key_retention_seconds),
            contract.remote.refuses_late,
            str(contract.remote.arrival_bound_seconds),
        ],
        "operation_key": contract.operation_key.text if contract.operation_key else None,
        "resource": contract.resource.text if contract.resource else None,
        "purpose": contract.purpose,
        "redact": list[JsonValue](sorted(contract.redact)),
        "wide_fields": list[JsonValue](sorted("/".join(path) for path in contract.wide_fields)),
        "allowed_tenants": None
        if contract.allowed_tenants is None
        else list[JsonValue](sorted(contract.allowed_tenants)),
        "text_rule": contract.text_rule.value,
        "limits": [contract.max_argument_bytes, contract.max_result_bytes, contract.max_depth],
        "has_probe": contract.has_probe,
        "generic_executor": contract.generic_executor_reason,
    }
    return Digest(sha256_hex("placet/contract/1", canonical_bytes(form)))


# ---------------------------------------------------------------- deriving

_LIMITS = DecodingLimits()


@lru_cache
def _argument_limits(max_depth: int) -> DecodingLimits:
    return replace(_LIMITS, max_depth=max_depth)


@lru_cache
def _result_limits(max_depth: int, max_result_bytes: int) -> DecodingLimits:
    return replace(
        _LIMITS,
        max_depth=max_depth + 1,
        max_bytes=max_result_bytes * 2 + 32,
        max_members=max(_LIMITS.max_members, max_result_bytes),
        max_string_characters=max(_LIMITS.max_string_characters, max_result_bytes),
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """What was given to `tool`, with refusals that name the function."""

    function: Handler
    name: str

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise self.refuse("a name is 1 to 64 characters of a-z A-Z 0-9 _ . -; give one with name=")

    def refuse(self, why: str) -> ContractError:
        return ContractError(f"The tool {self.name!r} cannot be registered: {why}.", tool=self.name)

    def choice(self, kind: type[Kind], value: Any, what: str) -> Kind:
        try:
            return kind(value)
        except ValueError:
            pass
        raise self.refuse(f"{what} is one of {', '.join(member.value for member in kind)}")

    def positive(self, value: float, what: str) -> float:
        if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
            raise self.refuse(f"{what} is a finite number above zero")
        return float(value)

    def short(self, value: str, what: str) -> str:
        """Text that audit events carry as it is."""
        if type(value) is not str or not 0 < len(value) <= _MAX_SHORT_TEXT or not value.isprintable():
            raise self.refuse(f"{what} is printable text of 1 to {_MAX_SHORT_TEXT} characters")
        return value

    def text(self, value: str, what: str) -> str:
        if type(value) is not str:
            raise self.refuse(f"{what} is text")
        return value

    def bytes(self, value: int, what: str, *, most: int) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise self.refuse(f"{what} is an integer from 1 to {most}")
        return value

    def tenants(self, names: tuple[str, ...] | None) -> frozenset[str] | None:
        if names is None:
            return None
        if isinstance(names, str) or not all(is_identity(name) for name in names):
            raise self.refuse("allowed_tenants is a sequence of tenants, each a text of 1 to 128 characters")
        return frozenset(names)

    def remote(self, remote: Remote) -> Remote:
        if type(remote) is not Remote:
            raise self.refuse("remote is a Remote")
        for what in ("key_retention_seconds", "arrival_bound_seconds"):
            seconds = getattr(remote, what)
            if seconds is not None:
                self.positive(seconds, f"remote.{what}")
        return remote

    def retry(self, policy: RetryPolicy) -> RetryPolicy:
        if type(policy) is not RetryPolicy:
            raise self.refuse("retry is a RetryPolicy")
        if type(policy.max_attempts) is not int or not 1 <= policy.max_attempts <= MAX_ATTEMPTS_PER_CALL:
            raise self.refuse(f"retry.max_attempts is an integer from 1 to {MAX_ATTEMPTS_PER_CALL}")
        self.positive(policy.initial_delay_seconds, "retry.initial_delay_seconds")
        self.positive(policy.max_delay_seconds, "retry.max_delay_seconds")
        return policy

    def known(self, fields: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
        if isinstance(fields, str):
            raise self.refuse("redact is a sequence of names, not one text")
        if unknown := set(fields) - set(names):
            raise self.refuse(f"redact names no argument: {', '.join(sorted(unknown))}")
        return frozenset(fields)

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

    def arguments(self) -> tuple[type[BaseModel], str | None, str | None]:
        """The argument model, the parameter that takes it whole, and the parameter that takes the context."""
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise self.refuse("a generator runs after its attempt is over; return the whole result")
        hints = self._hints()
        takes_context: str | None = None
        fields: dict[str, Any] = {}
        for key, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise self.refuse(f"the parameter {key!r} must have a name that callers can use")
            if key not in hints:
                raise self.refuse(f"the parameter {key!r} needs a type")
            if hints[key] is CallContext:
                takes_context = key
                continue
            fields[key] = (hints[key], ... if parameter.default is parameter.empty else parameter.default)
        if len(fields) == 1:
            key, (hint, _) = next(iter(fields.items()))
            if inspect.isclass(hint) and issubclass(hint, BaseModel):
                return hint, key, takes_context
        config = ConfigDict(strict=True, extra="forbid", frozen=True)
        try:
            model: type[BaseModel] = create_model(f"{self.name}_arguments", __config__=config, **fields)
        except (PydanticUserError, TypeError, NameError):
            model = BaseModel
        if model is BaseModel:
            raise self.refuse("its parameters have types that cannot be checked")
        return model, None, takes_context

    def result(self) -> TypeAdapter[Any]:
        hint = self._hints().get("return")
        if hint is None or hint is Any:
            raise self.refuse("it needs a return type, the contract of its result")
        try:
            return TypeAdapter(hint)
        except PydanticUserError:
            pass
        raise self.refuse("its return type cannot be checked")

    def schema(self, arguments: type[BaseModel]) -> JsonObject:
        try:
            schema: JsonObject = arguments.model_json_schema(mode="validation")
        except PydanticUserError:
            schema = {}
        if not schema:
            raise self.refuse("its arguments have no JSON Schema")
        if any(node.get("uniqueItems") is True for node in _nodes(schema)):
            raise self.refuse("a set has no order, so two equal calls could differ; use a list")
        self._refuse_lazy(arguments.__pydantic_core_schema__)
        return schema

    def result_schema(self, result: TypeAdapter[Any]) -> JsonObject:
        try:
            schema = result.json_schema(mode="serialization")
        except PydanticUserError:
            schema = None
        if schema is None:
            raise self.refuse("its result has no JSON Schema")
        self._refuse_lazy(result.core_schema)
        return schema

    def _refuse_lazy(self, core: object) -> None:
        """What is checked while it is used is not checked before it is shown, run or recorded."""
        if any(node["type"] == "generator" for node in _core_nodes(core)):
            raise self.refuse("the items of an Iterable or Generator are checked one by one, when taken; use a list")

    def _hints(self) -> dict[str, Any]:
        try:
            hints: dict[str, Any] | None = typing.get_type_hints(self.function, include_extras=True)
        except (NameError, TypeError):
            hints = None
        if hints is None:
            raise self.refuse("its annotations cannot be read; define the types at module level")
        return hints


def _refuse_server_names(options: _Options, schema: JsonObject, arguments: type[BaseModel]) -> None:
    """Refuse every name the model could be filled by, shown in the schema or not (field names, all aliases)."""
    hidden = (name for fields in _model_fields(arguments.__pydantic_core_schema__) for name in _read_names(fields))
    for name in (*_property_names(schema), *hidden):
        bare = _SEPARATORS.sub("", unicodedata.normalize("NFKC", name).casefold())
        if bare in SERVER_NAMES or bare.removeprefix("x") in SERVER_NAMES:
            raise options.refuse(f"the argument {name!r} is the server's to say; take it from the CallContext")


def _refuse_lossy_writing(options: _Options, schema: JsonObject, arguments: type[BaseModel]) -> None:
    """What is digested, shown and run is what the model writes: it has to be all it reads, under the same names."""
    written = arguments.model_json_schema(mode="serialization")
    is_left_out = any(
        field.get("serialization_exclude") is True
        for fields in _model_fields(arguments.__pydantic_core_schema__)
        for field in fields.values()
    )
    if is_left_out or set(_property_names(written)) != set(_property_names(schema)):
        raise options.refuse(
            "its arguments are written otherwise than they are read; leave out serialization aliases, excluded and "
            "computed fields"
        )
    if any(node.get("writeOnly") is True for node in _nodes(schema)):
        raise options.refuse("a secret type writes itself masked, so two calls would look alike; use str and redact=")


def _refuse_other_keys(options: _Options, arguments: type[BaseModel]) -> None:
    """Members are named by text. Where names are read as something else, `1` and `01` would be one member."""
    nodes = tuple(_core_nodes(arguments.__pydantic_core_schema__))
    named = {node["ref"]: node for node in nodes if "ref" in node}
    if not all(_is_text(node["keys_schema"], named) for node in nodes if "keys_schema" in node):
        raise options.refuse("the keys of a mapping are str, or a Literal or Enum of str; else use a list")


def _refuse_generic(options: _Options, schema: JsonObject, *, reason: str | None) -> None:
    if reason is not None:
        if not reason.strip():
            raise options.refuse("generic_executor needs the written reason")
        return
    parts = set(re.split(r"[^a-z]+", options.name.lower()))
    fields = {name.lower() for name in _property_names(schema)}
    has_address = any(node.get("format") in ("uri", "uri-reference", "iri") for node in _nodes(schema))
    if parts & GENERIC_NAME_PARTS or fields & GENERIC_FIELDS or has_address:
        raise options.refuse(
            "it looks like a generic executor (shell, SQL or any address); wrap the business operation instead, "
            "or give generic_executor= the reason"
        )


# ---------------------------------------------------------------- schemas


def _nodes(schema: object) -> Iterator[JsonObject]:
    """Every object inside a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
        for child in schema.values():
            yield from _nodes(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _nodes(child)


def _core_nodes(core: object, *, closed: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Every schema inside a core schema, itself included; what is inside a type of `closed` is not looked at."""
    if isinstance(core, dict):
        is_schema = type(core.get("type")) is str  # else a table by name, which may have any name
        if is_schema:
            yield core
        if not is_schema or core["type"] not in closed:
            for key, child in core.items():
                if not (is_schema and key in _NO_SCHEMA):
                    yield from _core_nodes(child, closed=closed)
    elif isinstance(core, list | tuple):
        for child in core:
            yield from _core_nodes(child, closed=closed)


def _model_fields(core: object) -> Iterator[dict[str, Any]]:
    """The field tables of every model, typed dict, dataclass and named tuple inside a core schema."""
    for node in _core_nodes(core):
        fields = node.get("fields", node.get("arguments_schema"))
        if isinstance(fields, dict):
            yield fields
        elif isinstance(fields, list):
            yield {str(field.get("name")): field for field in fields if isinstance(field, dict)}


def _is_text(core: dict[str, Any], named: dict[str, dict[str, Any]]) -> bool:
    """Whether a key of this schema stays text; a validator may still change it."""
    match core["type"]:
        case "str" | "any":  # a JSON name is text
            return True
        case "literal":
            return all(type(value) is str for value in core["expected"])
        case "enum":
            return all(isinstance(member.value, str) for member in core["members"])
        case "union":
            choices = (choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"])
            return all(_is_text(choice, named) for choice in choices)
        case "definition-ref":
            return core["schema_ref"] in named and _is_text(named[core["schema_ref"]], named)
        case "function-before" | "function-after" | "function-wrap":
            return _is_text(core["schema"], named)
        case _:
            return False


def _leaves_open(core: object) -> bool:
    """Whether a value may be of any type, other than inside a model or dataclass, which writes itself."""
    return any(node["type"] == "any" for node in _core_nodes(core, closed=frozenset({"model", "dataclass"})))


def _read_names(fields: dict[str, Any]) -> Iterator[str]:
    for name, field in fields.items():
        yield name
        aliases = field.get("validation_alias")
        for alias in aliases if isinstance(aliases, list) else [aliases]:
            yield from (part for part in (alias if isinstance(alias, list) else [alias]) if isinstance(part, str))


def _property_names(schema: JsonObject) -> Iterator[str]:
    for node in _nodes(schema):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties


def _wide_paths(schema: JsonObject) -> Iterator[tuple[str, ...]]:
    """Paths of integers declared wide; a recursive model is followed once."""
    definitions = schema.get("$defs")

    def walk(node: object, path: tuple[str, ...], seen: frozenset[str]) -> Iterator[tuple[str, ...]]:
        if not isinstance(node, dict):
            return
        if node.get("x-placet-wide") is True:
            yield path
        reference = node.get("$ref")
        if isinstance(reference, str) and isinstance(definitions, dict) and reference not in seen:
            yield from walk(definitions.get(reference.removeprefix("#/$defs/")), path, seen | {reference})
        properties = node.get("properties")
        if isinstance(properties, dict):
            for name, child in properties.items():
                yield from walk(child, (*path, name), seen)
        for key in ("items", "additionalProperties"):
            yield from walk(node.get(key), (*path, "*"), seen)
        for key in ("prefixItems", "anyOf", "oneOf", "allOf"):
            children = node.get(key)
            for child in children if isinstance(children, list) else []:
                yield from walk(child, (*path, "*") if key == "prefixItems" else path, seen)

    yield from walk(schema, (), frozenset())


def _floats_as_text(value: JsonValue) -> JsonValue:
    """Schemas may hold bounds beyond what canonical JSON carries; their text identifies them as well."""
    if isinstance(value, dict):
        return {key: _floats_as_text(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_floats_as_text(child) for child in value]
    return repr(value) if type(value) is float else value


# ---------------------------------------------------------------- values


def _problems(error: ValidationError) -> tuple[tuple[str, str], ...]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple((_pointer(entry["loc"]), _problem(entry["type"])) for entry in found[:_MAX_PROBLEMS])


def _problem(error_type: str) -> str:
    """Pydantic's own name of the rule; a name that a validator made up could hold the value."""
    return error_type if error_type in _KNOWN_PROBLEMS else "custom_error"


def _pointer(location: tuple[int | str, ...]) -> str:
    return json_pointer([str(part) for part in location])


def _coerced(read: JsonValue, written: JsonValue, path: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Where Pydantic let pass, though strict, a literal or enum 1 read from `true` or `1.0`."""
    if isinstance(read, dict) and isinstance(written, dict):
        for name, child in read.items():
            if name in written and (found := _coerced(child, written[name], (*path, name))) is not None:
                return found
    elif isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        for index, child in enumerate(read):
            if (found := _coerced(child, written[index], (*path, str(index)))) is not None:
                return found
    elif (
        isinstance(read, bool | int | float)
        and isinstance(written, bool | int | float)
        and ((type(read) is bool) != (type(written) is bool) or (type(read) is float and type(written) is int))
    ):
        return path
    return None


def _refuse_loss(read: JsonValue, written: JsonValue, path: tuple[str, ...] = ()) -> None:
    """Refuse fewer members than were read: of `A` and `a`, read as one, only one would be shown and run."""
    if isinstance(read, dict) and isinstance(written, dict):
        renamed = [child for name, child in read.items() if name not in written]
        others = [child for name, child in written.items() if name not in read] if renamed else []
        if len(read) > len(written) or sum(map(_members, renamed)) > sum(map(_members, others)):
            raise InvalidArguments("contract_broken", problems=((json_pointer(path), "member_lost"),))
        for name, child in read.items():
            if name in written:
                _refuse_loss(child, written[name], (*path, name))
    elif isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        for index, child in enumerate(read):
            _refuse_loss(child, written[index], (*path, str(index)))


def _members(value: JsonValue) -> int:
    """How many object members there are, at any depth."""
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0


def _refuse_control_text(value: JsonValue, *, everywhere: bool, path: tuple[str, ...] = (), key: str = "") -> None:
    """Refuse control characters and model-template tokens in acts, and in the names and paths of reads."""
    if isinstance(value, dict):
        for name, child in value.items():
            if everywhere:
                _refuse_token(name, path)
            _refuse_control_text(child, everywhere=everywhere, path=(*path, name), key=name)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _refuse_control_text(child, everywhere=everywhere, path=(*path, str(index)), key=key)
    elif isinstance(value, str) and (everywhere or _NAMES_AND_PATHS.search(key)):
        _refuse_token(value, path)


def _refuse_token(text: str, path: tuple[str, ...]) -> None:
    if _CONTROLS.search(text):
        raise InvalidArguments("control_character", path=json_pointer(path))
    if _MODEL_TOKENS.search(text):
        raise InvalidArguments("model_template_token", path=json_pointer(path))
