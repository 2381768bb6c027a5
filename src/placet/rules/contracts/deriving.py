"""A typed function becomes a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from placet.model.contract import (
    DEFAULT_BREAKER,
    DEFAULT_MAX_CONCURRENT,
    ApprovalMode,
    Breaker,
    EffectClass,
    Isolation,
    Remote,
    Repair,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.rules.contracts.core_schemas import leaves_open
from placet.rules.contracts.lints import (
    refuse_generic,
    refuse_lossy_writing,
    refuse_other_keys,
    refuse_server_names,
    refuse_server_names_read,
)
from placet.rules.contracts.options import Given, Options, Shape, described_by, name_of
from placet.rules.contracts.schemas import wide_paths
from placet.rules.contracts.tools import Handler, Precondition, Probe, ResultText, Tool
from placet.rules.contracts.typed import TypedFunction, TypedResult

WideInt = Annotated[int, Field(json_schema_extra={"x-placet-wide": True})]
"""An integer that may lie beyond 2^53-1; exact at any size."""


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
    silence_seconds: float | None = None,
    retry: RetryPolicy | None = None,
    remote: Remote | None = None,
    max_concurrent: int = DEFAULT_MAX_CONCURRENT,
    breaker: Breaker | None = DEFAULT_BREAKER,
    operation_key: str | None = None,
    resource: str | None = None,
    purpose: str | None = None,
    probe: Probe | None = None,
    precondition: Precondition | None = None,
    redact: tuple[str, ...] = (),
    allowed_tenants: tuple[str, ...] | None = None,
    text: TextRule | str = TextRule.GUARDED,
    max_argument_bytes: int = 8_192,
    max_result_bytes: int = 65_536,
    generic_executor: str | None = None,
    repair: tuple[Repair | str, ...] = (),
    retention_seconds: float | None = None,
    isolation: Isolation | str | None = None,
) -> Callable[[Handler], Tool]:
    """Make a tool of a typed function.

    The function's parameters are the arguments (or one parameter that is a Pydantic model); a parameter of type
    `CallContext` receives the context. Its return type is the result contract. A coroutine function is cancelled
    at its deadline; a plain function runs in a thread, which cannot be.

    Args:
        effect: read, sensitive_read, idempotent_write, write or irreversible.
        risk: needed for writes and sensitive reads; low for plain reads if absent.
        permission: the scope a principal needs; required for everything but plain reads.
        silence_seconds: ends an attempt that says nothing of its progress (`CallContext.progress`) for so long, as at
            its deadline, `timeout_seconds`, which stays where it is. None: only the deadline does. Not for processes.
        max_concurrent: calls of one tenant that may run at once in this process; further ones wait their turn.
        breaker: when the tool is left alone after faults in a row; None: never.
        operation_key: names the business operation, e.g. `"refund:{order_id}"`.
        resource: what the call acts on, e.g. `"order:{order_id}"`.
        probe: tells what became of an effect whose outcome is unknown.
        precondition: reads the state that an approval is bound to, as plain JSON; where it has changed by the time the
            call would run, nothing runs and a person is asked anew. It is read before anybody says yes. Not with
            `approval="never"`.
        generic_executor: the written reason for letting in a shell-, SQL- or URL-like tool; it is audited.
        repair: wrapping that is undone, one step of it, where arguments are refused as they stand: `double_encoded`,
            `code_fence`. The audit says so of each such call. Not at risk high or critical.
        retention_seconds: how long after its end an operation's arguments, result and external reference are kept, a
            day or more; its key and digests stay. None leaves it to whoever runs the deployment.
        isolation: `"process"` runs either kind of function in a process of its own, which is killed at its deadline;
            it has to stand at the top level of an importable module.

    Raises:
        ContractError: the promise is incomplete or too wide; nothing is registered.
    """
    given = Given(
        effect=effect,
        risk=risk,
        permission=permission,
        version=version,
        description=description,
        approval=approval,
        timeout_seconds=timeout_seconds,
        silence_seconds=silence_seconds,
        retry=retry,
        remote=remote,
        max_concurrent=max_concurrent,
        breaker=breaker,
        operation_key=operation_key,
        resource=resource,
        purpose=purpose,
        probe=probe,
        precondition=precondition,
        redact=redact,
        allowed_tenants=allowed_tenants,
        text=text,
        max_argument_bytes=max_argument_bytes,
        max_result_bytes=max_result_bytes,
        generic_executor=generic_executor,
        repair=repair,
        retention_seconds=retention_seconds,
    )

    def derive(function: Handler) -> Tool:
        options = Options(name=name_of(function) if name is None else name)
        options.refuse_no_function(function)
        options.refuse_incomplete(given)
        typed = TypedFunction(options, function)
        arguments = typed.arguments()
        result = typed.result()
        schema = typed.schema(arguments.model)
        names = tuple(field.alias or key for key, field in arguments.model.model_fields.items())
        refuse_server_names(options, schema)
        refuse_server_names_read(options, arguments.model)
        refuse_lossy_writing(options, schema, arguments.model)
        refuse_other_keys(options, arguments.model)
        refuse_generic(options, schema, reason=generic_executor)
        shape = Shape(
            description=described_by(function),
            arguments_schema=schema,
            result_schema=typed.result_schema(result),
            argument_names=names,
            isolation=options.isolation(isolation, function),
            wide_fields=frozenset(wide_paths(schema)),
        )
        contract = options.contract(given, shape)
        return Tool(
            contract=contract,
            function=function,
            probe=probe,
            precondition=precondition,
            _arguments=arguments,
            _result=TypedResult(adapter=result, names_every_value=not leaves_open(result.core_schema)),
            _result_text=ResultText.of(contract),
        )

    return derive
