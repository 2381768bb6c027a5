"""From a checked call to its names: argument digest, fingerprint, operation key, resource.

The form of every name carries its version, so that an upgrade never makes a finished operation look new.
"""

from __future__ import annotations

import json
import re

from placet.errors import InvalidArguments
from placet.model.contract import Contract, KeyTemplate
from placet.model.identifiers import CallId, Digest, OperationKey, RunId
from placet.model.json import JsonObject
from placet.model.principal import DEFAULT_ENVIRONMENT, Principal
from placet.rules.canonical import sha256_hex
from placet.rules.integers import write_integer

MAX_KEY_CHARACTERS = 200


def argument_digest(tool: str, canonical_arguments: bytes) -> Digest:
    """Identity of exact arguments for one tool; what an approval binds and a screen shows."""
    return Digest(sha256_hex("placet/arguments/1", tool.encode(), canonical_arguments))


def fingerprint(tool: str, canonical_arguments: bytes) -> Digest:
    """What an operation key must always name: tool and arguments, not the version (C026, C036, H030)."""
    return Digest(sha256_hex("placet/operation/1", tool.encode(), canonical_arguments))


def operation_key(
    contract: Contract,
    arguments: JsonObject,
    principal: Principal,
    *,
    run_id: RunId,
    call_id: CallId,
    caller_key: str | None,
) -> OperationKey:
    """Name the intended operation, so that asking twice is asking once.

    The contract's template always wins; then the caller's own key, within the principal; then run and call.
    Keys are lists of fields in ASCII JSON with their kind first, never joined strings, so no two
    lists give one key; beyond 200 characters they are hashed. Unique per tenant.

    Raises:
        InvalidArguments: a field of the template is absent, null, not a scalar or an integer of more than 4,300
            digits; nothing happened.

    Source: DESIGN section 10; C033, H030.
    """
    if contract.operation_key is not None:
        values = _field_values(contract.operation_key, arguments)
        return _encode(_kind("business", principal), contract.operation_key.text, *values)
    if caller_key is not None:
        return _encode(_kind("caller", principal), principal.identity, caller_key)
    return call_key(run_id, call_id)


def _kind(word: str, principal: Principal) -> str:
    """What was done in staging has not been done in production: other environments have kinds of their own."""
    return word if principal.environment == DEFAULT_ENVIRONMENT else f"{word}@{principal.environment}"


def call_key(run_id: RunId, call_id: CallId) -> OperationKey:
    """The name of an operation that neither its contract nor its caller names."""
    return _encode("call", run_id, call_id)


def is_business_key(contract: Contract) -> bool:
    return contract.operation_key is not None


def resource(contract: Contract, arguments: JsonObject) -> str | None:
    """What the call acts on, as the contract names it, e.g. `["ticket:{ticket_id}","T-1"]`."""
    if contract.resource is None:
        return None
    return _encode(contract.resource.text, *_field_values(contract.resource, arguments))


def readable(name: str) -> str:
    """A resource as a person reads it: the template with its values, e.g. `ticket:T-1`. Not an identity."""
    try:
        template, *values = json.loads(name)
        fields = iter(values)
        return re.sub(r"\{[a-zA-Z_][a-zA-Z0-9_]*\}", lambda _: str(next(fields)), template)
    except (ValueError, TypeError, StopIteration, RecursionError):
        return name


def _field_values(template: KeyTemplate, arguments: JsonObject) -> list[str | int]:
    values: list[str | int] = []
    for name in template.fields:
        value = arguments.get(name)
        if type(value) is not str and type(value) is not int and type(value) is not bool:
            raise InvalidArguments("key_field_missing", path=f"/{name}")
        values.append(value)
    return values


_ascii_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def _field_text(field: str | int) -> str:
    """An integer exactly, however few digits this interpreter is told to write."""
    return write_integer(field) if type(field) is int else _ascii_json(field)


def _encode(*fields: str | int) -> OperationKey:
    text = f"[{','.join(map(_field_text, fields))}]"
    if len(text) > MAX_KEY_CHARACTERS:
        text = _ascii_json((fields[0], "sha256", sha256_hex("placet/key/1", text.encode())))
    return OperationKey(text)
