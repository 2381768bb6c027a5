"""A JSON Schema becomes a tool, beside those of typed functions: for tools that somebody else describes."""

from __future__ import annotations

import inspect
import typing
from typing import Final

from placet.model.context import CallContext
from placet.model.contract import (
    DEFAULT_BREAKER,
    DEFAULT_MAX_CONCURRENT,
    ApprovalMode,
    Bound,
    Breaker,
    EffectClass,
    Isolation,
    Origin,
    Remote,
    Repair,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.exact import ordered
from placet.model.json import JsonObject
from placet.rules.contracts.binding import without_bound
from placet.rules.contracts.limits import LIMITS, MAX_RESULT_BYTES
from placet.rules.contracts.lints import refuse_generic, refuse_server_names
from placet.rules.contracts.options import Given, Options, Shape, described_by
from placet.rules.contracts.schema_bounds import refuse_costly
from placet.rules.contracts.schema_checks import AnyResult, SchemaArguments, SchemaResult, SchemaRule
from placet.rules.contracts.schema_closing import Enforced, closed
from placet.rules.contracts.schema_graph import ANY_TYPE, TYPES, Node, open_path
from placet.rules.contracts.schema_reading import read_graph, read_schema
from placet.rules.contracts.schema_voices import may_be, voices_of
from placet.rules.contracts.schemas import wide_paths
from placet.rules.contracts.tools import Handler, Precondition, Probe, ResultCheck, ResultText, Tool
from placet.rules.decoding import Path

MAX_OPEN_MEMBERS: Final = 64
MAX_WIDE_FIELDS: Final = 256
_OF_AN_UPSTREAM: Final = "bind it, so that the server says it"


def tool_from_schema(
    handler: Handler,
    *,
    name: str,
    arguments: object,
    result: object = None,
    effect: EffectClass | str,
    risk: Risk | str | None = None,
    permission: str | None = None,
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
    max_depth: int = LIMITS.max_depth,
    generic_executor: str | None = None,
    repair: tuple[Repair | str, ...] = (),
    retention_seconds: float | None = None,
    isolation: Isolation | str | None = None,
    open_members: tuple[str, ...] = (),
    open_result_members: tuple[str, ...] = (),
    type_names: dict[str, str] | None = None,
    origin: Origin | None = None,
    bind: tuple[Bound, ...] = (),
) -> Tool:
    """Make a tool of a handler and a JSON Schema, for tools that are described and not typed.

    The schema is draft 2020-12 or draft-07, as built-in values or as JSON text. It refers to nothing outside of
    itself, `format` and `default` are annotations, and members that it does not declare are refused at every depth:
    `additionalProperties: true` and its like declare nothing. The contract's schema is the one that is enforced.

    The handler takes the arguments as one dict, a fresh copy per attempt, and if it has a parameter of type
    `CallContext`, the context. It returns plain JSON values. Every option of `placet.tool` means the same here.

    Args:
        result: the result's schema, closed like the arguments'; without one, any JSON value within the limits.
        max_depth: deepest nesting of arguments and result; a recursive schema may need a lower one to be bounded.
        open_members: where unknown arguments are let in, as pointers into the arguments; `*` stands for any name or
            index, and an empty pointer for the arguments themselves. What comes in there is any JSON.
        open_result_members: the same for the result.
        type_names: what type names mean that JSON Schema does not know, e.g. `{"dict": "object", "any": "any"}`.
        origin: where the tool lives if it is not ours, and the pin of its definition; part of the digest.
        bind: top-level arguments that the server puts in. The contract's schema lacks them, so the model neither sees
            nor sends them; the handler gets them. Part of the digest.

    Raises:
        ContractError: the promise is incomplete or too wide, or a schema cannot be enforced; nothing is registered.
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
        origin=origin,
        bind=bind,
    )
    options = Options(name=name) if origin is None else Options(name=name, of_the_server=_OF_AN_UPSTREAM)
    options.refuse_incomplete(given)
    depth = options.count(max_depth, "max_depth", most=LIMITS.max_depth)
    meanings = _type_names(options, type_names)
    takes_arguments, takes_context = _parameters(options, handler)
    authored = without_bound(options, read_schema(arguments, options.refuse, "arguments"), bind)
    root = read_graph(authored, options.refuse, type_names=meanings)
    max_bytes = options.count(max_argument_bytes, "max_argument_bytes", most=LIMITS.max_bytes)
    visits = refuse_costly(root, options.refuse, max_depth=depth, max_bytes=max_bytes)
    if not may_be(root, "object"):
        raise options.refuse("its arguments schema accepts no object, and arguments are one")
    enforced = closed(root, options.refuse, open_members=_paths(options, open_members, "open_members"))
    rule = _rule(options, enforced, visits, "arguments")
    refuse_server_names(options, enforced.schema)
    refuse_generic(options, enforced.schema, reason=generic_executor)
    result_opens = _paths(options, open_result_members, "open_result_members")
    result_bytes = options.count(max_result_bytes, "max_result_bytes", most=MAX_RESULT_BYTES)
    result_schema, result_check = _result(options, result, meanings, depth, result_bytes, result_opens)
    contract = options.contract(
        given,
        Shape(
            description=described_by(handler),
            arguments_schema=enforced.schema,
            result_schema=result_schema,
            argument_names=_member_names(root),
            isolation=options.isolation(isolation, handler),
            wide_fields=_wide_fields(options, enforced.schema),
            max_depth=depth,
            authored_schema=authored,
            open_members=tuple(open_members),
            open_result_members=tuple(open_result_members),
        ),
    )
    return Tool(
        contract=contract,
        function=handler,
        probe=probe,
        precondition=precondition,
        _arguments=SchemaArguments(
            rule=rule,
            takes_arguments=takes_arguments,
            takes_context=takes_context,
            max_bytes=contract.max_argument_bytes,
            max_depth=contract.max_depth,
            wide_fields=contract.wide_fields,
            bind=contract.bind,
        ),
        _result=result_check,
        _result_text=ResultText.of(contract),
    )


def _result(
    options: Options, result: object, meanings: dict[str, str], depth: int, max_bytes: int, opens: tuple[Path, ...]
) -> tuple[JsonObject, ResultCheck]:
    if result is None:
        if opens:
            raise options.refuse("open_result_members opens nothing where there is no result schema")
        return {}, AnyResult()
    root = read_graph(read_schema(result, options.refuse, "result"), options.refuse, type_names=meanings)
    visits = refuse_costly(root, options.refuse, max_depth=depth, max_bytes=max_bytes)
    enforced = closed(root, options.refuse, open_members=opens)
    _wide_fields(options, enforced.schema)
    return enforced.schema, SchemaResult(rule=_rule(options, enforced, visits, "result"))


def _wide_fields(options: Options, schema: JsonObject) -> frozenset[Path]:
    found: set[Path] = set()
    for count, path in enumerate(wide_paths(schema)):
        found.add(path)
        if len(found) > MAX_WIDE_FIELDS or count > MAX_WIDE_FIELDS * 100:
            raise options.refuse(f"its schema has more than {MAX_WIDE_FIELDS} places for wide integers")
    return frozenset(found)


def _rule(options: Options, enforced: Enforced, visits: int, what: str) -> SchemaRule:
    try:
        return SchemaRule.of(enforced, visits)
    except Exception as error:
        place = "/".join(str(part) for part in getattr(error, "instance_path", ()))
    raise options.refuse(f"its {what} schema is not one of draft 2020-12, at /{ascii(place)[1:-1][:120]}")


def _member_names(root: Node) -> tuple[str, ...]:
    """Top-level names the arguments may have, in the order they are declared."""
    return tuple(dict.fromkeys(name for voice in voices_of(root) for name in voice.node.named.get("properties", ())))


def _paths(options: Options, pointers: tuple[str, ...], what: str) -> tuple[Path, ...]:
    found = ordered(pointers)
    if found is None or not all(type(each) is str and each[:1] in ("", "/") for each in found):
        raise options.refuse(f'{what} is a sequence of JSON Pointers, such as "/metadata"')
    if len(found) > MAX_OPEN_MEMBERS:
        raise options.refuse(f"{what} opens at most {MAX_OPEN_MEMBERS} places")
    paths = tuple(map(open_path, found))
    if any(len(path) > LIMITS.max_depth for path in paths):
        raise options.refuse(f"{what} reaches at most {LIMITS.max_depth} levels deep")
    return paths


def _type_names(options: Options, meanings: dict[str, str] | None) -> dict[str, str]:
    if meanings is None:
        return {}
    if type(meanings) is not dict or not all(
        type(name) is str and name not in TYPES and type(meaning) is str and meaning in (*TYPES, ANY_TYPE)
        for name, meaning in meanings.items()
    ):
        raise options.refuse(f"type_names gives a type that JSON Schema does not know one of {', '.join(TYPES)}, any")
    return meanings


def _parameters(options: Options, handler: Handler) -> tuple[str, str | None]:
    """The handler's parameter that takes the arguments, and the one that takes the context."""
    options.refuse_no_function(handler)
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise options.refuse("a generator runs after its attempt is over; return the whole result")
    try:
        hints = typing.get_type_hints(handler, include_extras=True)
        parameters = dict(inspect.signature(handler).parameters)
    except BaseException:  # whatever an annotation raises while it is evaluated; its text stays there
        parameters = {}
    contexts = [name for name in parameters if hints.get(name) is CallContext]
    others = [name for name in parameters if name not in contexts]
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if len(others) != 1 or len(contexts) > 1 or any(each.kind not in by_name for each in parameters.values()):
        raise options.refuse("its handler takes the arguments as one dict, and may take a CallContext")
    return others[0], contexts[0] if contexts else None
