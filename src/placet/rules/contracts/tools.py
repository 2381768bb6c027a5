"""A contract with its checks and its one handler: what every kind of tool has in common.

    raw ── decode ── arguments check ── canonical form ── size ── text rule ── stable? ── handler
    returned ── result check ── size ── recorded, shown

The order is the same whatever the contract is written in; an `ArgumentsCheck` and a `ResultCheck` know the kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from placet.errors import InvalidArguments
from placet.model.attempt import BrokenResult
from placet.model.context import CallContext, ProbeAnswer, ProbeContext
from placet.model.contract import Contract, TextRule
from placet.model.json import JsonObject, JsonValue
from placet.model.making import quick
from placet.rules.contracts.limits import argument_limits, result_limits
from placet.rules.contracts.names import is_server_name
from placet.rules.contracts.schemas import wide_paths
from placet.rules.contracts.values import MAX_PROBLEMS, refuse_control_text
from placet.rules.decoding import Path, decode_object, json_pointer
from placet.rules.encoding import encode_foreign
from placet.rules.repair import repaired_text

Handler = Callable[..., Any]
Probe = Callable[[ProbeContext], Awaitable[ProbeAnswer]]
Precondition = Callable[[ProbeContext], Any]
"""Reads the state that an approval is bound to: plain JSON, or a coroutine of it."""

_BROKEN_ELSEWHERE = frozenset(
    f"result_{how}"
    for how in (
        "cycle", "duplicate_member", "lone_surrogate", "null_character", "number_not_finite", "number_too_large",
        "string_too_long", "too_deep", "too_large", "too_long", "too_many_members",
        "unsupported_value",
    )
)  # fmt: skip
"""What another process may say of a result that it could not send; whatever else it says is `result_broken`."""
_RESULT_OPENS, _RESULT_CLOSES = b'{"result":', b"}"


class Accepted(NamedTuple):
    """Arguments in the form that is digested, shown and run.

    Attributes:
        canonical: their canonical bytes.
        is_as_decoded: their canonical bytes are those of what was decoded, so reading them again changes nothing.
    """

    arguments: JsonObject
    canonical: bytes
    is_as_decoded: bool


class ArgumentsCheck(Protocol):
    """What a contract promises of its arguments."""

    def accepted(self, decoded: JsonObject) -> Accepted:
        """
        Raises:
            InvalidArguments: contract_broken, with paths and rule names only; nothing ran.
        """
        ...

    def reads_back(self, canonical: bytes) -> bool:
        """Whether the accepted form, read again, is itself.

        Raises:
            InvalidArguments: contract_broken: read again, it is not even accepted.
        """
        ...

    def keywords(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        """Keyword arguments for one attempt, a fresh copy."""
        ...


class ResultCheck(Protocol):
    """What a contract promises of its result."""

    def accepted(self, returned: object, text: ResultText) -> tuple[JsonValue, bytes]:
        """The result's plain form, as a replay will read it, and its canonical bytes. Raises anything if broken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultText:
    """How a result is written and read: inside an object of one member, so that any JSON value may be one."""

    max_depth: int
    max_bytes: int
    wide_fields: frozenset[Path]

    @classmethod
    def of(cls, contract: Contract) -> ResultText:
        wide = frozenset(("result", *path) for path in wide_paths(contract.result_schema))
        return cls(max_depth=contract.max_depth, max_bytes=contract.max_result_bytes, wide_fields=wide)

    def write(self, returned: object) -> bytes:
        """JSON text of a value of exact built-in types.

        Raises:
            InvalidArguments: unsupported_value for any other type; or it passes a limit.
        """
        text = encode_foreign({"result": returned}, limits=result_limits(self.max_depth, self.max_bytes))
        return text[len(_RESULT_OPENS) : -len(_RESULT_CLOSES)]

    def read(self, text: bytes) -> JsonValue:
        """
        Raises:
            InvalidArguments: it is not sound JSON within the limits.
        """
        wrapped = _RESULT_OPENS + text + _RESULT_CLOSES
        limits = result_limits(self.max_depth, self.max_bytes)
        return decode_object(wrapped, limits=limits, wide=self.wide_fields)["result"]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments:
    """Arguments that their contract accepts.

    Attributes:
        arguments: their plain form; canonical: the same as canonical bytes.
        is_repaired: they are what the text says once one step of wrapping is undone (`Contract.repair`).
    """

    arguments: JsonObject = field(repr=False)
    canonical: bytes = field(repr=False)
    is_repaired: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A contract with its checks and its one handler. Not callable: tools run through a gate only.

    Attributes:
        function: the plain function, for unit tests of its own.
    """

    contract: Contract
    function: Handler
    probe: Probe | None
    _arguments: ArgumentsCheck
    _result: ResultCheck
    _result_text: ResultText
    precondition: Precondition | None = None

    def read_arguments(self, raw: object) -> ReadArguments:
        """Raw arguments held against the contract; where they are refused as they stand, once more, repaired.

        Raises:
            InvalidArguments: with paths and fixed messages only; nothing ran.
        """
        limits = argument_limits(self.contract.max_depth)
        text = raw if type(raw) is bytes or type(raw) is str else encode_foreign(raw, limits=limits)
        try:
            arguments, canonical = self.check_arguments(text)
            return ReadArguments(arguments=arguments, canonical=canonical, is_repaired=False)
        except InvalidArguments as error:
            refusal = error
        repaired = repaired_text(text, self.contract, limits=limits) if self.contract.repair else None
        if repaired is None:
            raise refusal
        arguments, canonical = self.check_arguments(repaired)
        return ReadArguments(arguments=arguments, canonical=canonical, is_repaired=True)

    def check_arguments(self, raw: object) -> tuple[JsonObject, bytes]:
        """Decode, validate and normalise raw arguments as they stand: their plain form and its canonical bytes.

        Raises:
            InvalidArguments: with paths and fixed messages only; nothing ran.
        """
        contract = self.contract
        limits = argument_limits(contract.max_depth)
        text = raw if type(raw) is bytes or type(raw) is str else encode_foreign(raw, limits=limits)
        accepted = self._arguments.accepted(decode_object(text, limits=limits, wide=contract.wide_fields))
        arguments, canonical = accepted.arguments, accepted.canonical
        _refuse_server_names(arguments)
        if len(canonical) > contract.max_argument_bytes:
            raise InvalidArguments("arguments_too_large")
        if contract.text_rule is TextRule.GUARDED:
            refuse_control_text(arguments, everywhere=contract.effect_class.is_write)
        if not accepted.is_as_decoded and not self._arguments.reads_back(canonical):
            raise InvalidArguments("normalisation_not_stable")  # else what is named and approved would not be what runs
        return arguments, canonical

    def handler_arguments(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        """Keyword arguments for one attempt: a fresh copy of what was authorised, and the context."""
        return self._arguments.keywords(canonical, context)

    def with_stand_in(
        self, contract: Contract, function: Handler, probe: Probe | None, precondition: Precondition | None = None
    ) -> Tool:
        """The same checks with other code behind them, for proofs that must not run the tool's own.

        `function` is handed the authorised arguments as bytes, `canonical`, and the `context` of the attempt.
        """
        handed = _HandedOver(inner=self._arguments)
        return replace(
            self, contract=contract, function=function, probe=probe, precondition=precondition, _arguments=handed
        )

    def check_result(self, returned: object) -> tuple[JsonValue, bytes]:
        """Hold a returned value against the result contract: its plain form and canonical bytes.

        Raises:
            InvalidArguments: the value breaks the contract; `reason` says how. No foreign text, no cause.
        """
        if type(returned) is BrokenResult:
            raise InvalidArguments(returned.reason if returned.reason in _BROKEN_ELSEWHERE else "result_broken")
        try:
            plain, canonical = self._result.accepted(returned, self._result_text)
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
        return self._result_text.read(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _HandedOver:
    """A contract's own check, whose attempts are handed what was authorised as it stands."""

    inner: ArgumentsCheck

    def accepted(self, decoded: JsonObject) -> Accepted:
        return self.inner.accepted(decoded)

    def reads_back(self, canonical: bytes) -> bool:
        return self.inner.reads_back(canonical)

    def keywords(self, canonical: bytes, context: CallContext) -> dict[str, Any]:
        self.inner.keywords(canonical, context)  # what it raises here, it raises before the tool's own code too
        return {"canonical": canonical, "context": context}


def _refuse_server_names(arguments: JsonObject) -> None:
    """No argument has a name that only the server may say, however it came to be let in; members of a mapping further
    inside are data."""
    problems = tuple((json_pointer([name]), "extra_forbidden") for name in arguments if is_server_name(name))
    if problems:
        raise InvalidArguments("contract_broken", problems=problems[:MAX_PROBLEMS])
