"""What a method lets a tool be, and which of the deployment's terms an operation can keep.

    GET, HEAD      read; sensitive_read, or any write, where the manifest says so
    PUT, DELETE    idempotent_write; write or irreversible where the manifest says so
    POST, PATCH    write; irreversible where the manifest says so, idempotent_write where the operation key is sent

Source: RFC 9110, sections 9.2.1 and 9.2.2; ADR-0047.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from placet.errors import ContractError
from placet.model.contract import BoundSource, EffectClass, Risk
from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import Operation, Place
from placet.model.pins import Definition
from placet.model.upstreams import ProbeTerms, ToolTerms
from placet.rules.openapi.arguments import OF_THE_CONNECTION
from placet.rules.openapi.parameters import TOKEN

_READS: Final = frozenset({"GET", "HEAD"})
_IDEMPOTENT: Final = frozenset({"PUT", "DELETE"})
_NEVER_KEYS: Final = OF_THE_CONNECTION | {"accept", "authorization", "content-type"}


def effect_of(method: str) -> EffectClass:
    """What a method makes of an operation of which the manifest does not say more."""
    if method in _READS:
        return EffectClass.READ
    return EffectClass.IDEMPOTENT_WRITE if method in _IDEMPOTENT else EffectClass.WRITE


def risk_of(method: str) -> Risk:
    """The same of its risk; what destroys is high until somebody who knows it says otherwise."""
    if method in _READS:
        return Risk.LOW
    return Risk.HIGH if method == "DELETE" else Risk.MEDIUM


def key_header_of(operation: Operation, terms: ToolTerms) -> str | None:
    """The header that carries the operation key, if one does."""
    if not terms.effect.is_write:
        return None
    return terms.key_header or operation.key_header


def refuse_unfit_terms(operation: Operation, terms: ToolTerms) -> None:
    """
    Raises:
        ContractError: the terms promise what the operation does not keep.
    """
    reads = operation.method in _READS
    if not reads and not terms.effect.is_write:
        raise _unfit(operation, f"is a {operation.method}, which is a write", 'Give it effect = "write" or more.')
    is_repeated = terms.effect is EffectClass.IDEMPOTENT_WRITE
    header = key_header_of(operation, terms)
    if is_repeated and operation.method not in _READS | _IDEMPOTENT and header is None and not _is_bound(terms):
        raise _unfit(
            operation,
            f"is a {operation.method}, and repeats itself safely only with an idempotency key, which it does not take",
            'Give it effect = "write", name the header with key_header, or bind the operation key.',
        )
    if terms.remote.honours_key and header is None and not _is_bound(terms):
        raise _unfit(
            operation,
            "is said to honour keys, and is sent none",
            "Name the header that takes the operation key with key_header, or bind it to an argument.",
        )
    if terms.key_header is not None:
        _refuse_header(operation, terms.key_header)
    if "" in terms.open_members and operation.body is not None and operation.body.members is not None:
        raise _unfit(operation, "has no place for unknown arguments", "Open a member of its arguments by name.")
    for each in terms.bind:
        if each.member not in _members(operation):
            raise _unfit(operation, "lacks an argument that is bound", "Bind arguments that the operation has.")


def refuse_said_twice(operation: Operation, *, headers: Collection[str], query: Collection[str]) -> None:
    """
    Args:
        headers, query: what the deployment says itself, in every request.

    Raises:
        ContractError: an argument would say the same, in its place or beside it.
    """
    ours = {name.casefold() for name in headers}
    for each in operation.parameters:
        is_ours = each.place is Place.HEADER and each.name.casefold() in ours
        if is_ours or (each.place is Place.QUERY and each.name in query):
            raise _unfit(
                operation,
                "declares an argument that the deployment says itself",
                "Take that parameter out of the document, or the header or credential out of placet.toml.",
            )


def refuse_unfit_probe(operation: Operation, asked: Operation, probe: ProbeTerms) -> None:
    """
    Raises:
        ContractError: what looks would change something, or is asked what it does not take or not asked what it needs.
    """
    if asked.method not in _READS:
        raise _unfit(operation, "has a probe that is a write", "Name an operation that is a GET.")
    required = asked.arguments_schema.get("required")
    needed = frozenset(required) if isinstance(required, list) else frozenset()
    if not frozenset(probe.arguments) <= _members(asked) or not needed <= frozenset(probe.arguments):
        raise _unfit(
            operation,
            "has a probe whose arguments are not those of the operation that looks",
            "Name arguments that it has, and all that it needs; placet tools import openapi shows them.",
        )


def _is_bound(terms: ToolTerms) -> bool:
    return any(each.source is BoundSource.OPERATION_KEY for each in terms.bind)


def _members(operation: Operation) -> frozenset[str]:
    declared = operation.arguments_schema.get("properties")
    return frozenset(declared) if isinstance(declared, dict) else frozenset()


def _refuse_header(operation: Operation, name: str) -> None:
    if TOKEN.fullmatch(name) is None or name.lower() in _NEVER_KEYS:
        raise _unfit(operation, "cannot take the key in that header", 'A key\'s header is such as "Idempotency-Key".')
    headers = {each.name.lower() for each in operation.parameters if each.place is Place.HEADER}
    if name.lower() in headers:
        raise _unfit(
            operation,
            "declares the key's header as an argument",
            'Bind that argument to "operation_key" instead of naming key_header.',
        )


def _unfit(operation: Operation, what: str, hint: str) -> ContractError:
    tool = ascii(operation.tool)[1:-1][:80]
    return ContractError(f"The operation {tool!r} {what}.", code="terms_unfit", hint=hint)


# ---------------------------------------------------------------- what is pinned


def definition_of(server: str, operation: Operation) -> Definition:
    """All that a document says of an operation and that decides meaning: what is told, checked and sent."""
    parameters: list[JsonValue] = [
        [each.place.value, each.name, each.member, each.style.value] for each in operation.parameters
    ]
    successes: list[JsonValue] = [
        [list[JsonValue](each.statuses), list[JsonValue](each.media_types)] for each in operation.successes
    ]
    binding: JsonObject = {
        "method": operation.method,
        "path": operation.path,
        "parameters": parameters,
        "body": _body_form(operation),
        "successes": successes,
        "key_header": operation.key_header,
    }
    return Definition(
        server=server,
        tool=operation.tool,
        title=operation.title,
        description=operation.description,
        input_schema=operation.arguments_schema,
        output_schema=operation.result_schema,
        annotations={"readOnlyHint": operation.method in _READS},
        binding=binding,
    )


def _body_form(operation: Operation) -> JsonValue:
    body = operation.body
    if body is None:
        return None
    members: JsonValue = None if body.members is None else [list[JsonValue](each) for each in body.members]
    return [body.media_type, members, body.member]
