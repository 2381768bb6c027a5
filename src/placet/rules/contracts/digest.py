"""The identity of a contract."""

from __future__ import annotations

from placet.model.contract import Contract
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.contracts.schemas import floats_as_text


def contract_digest(contract: Contract) -> Digest:
    """Identity of everything in a contract that decides meaning."""
    form: JsonObject = {
        "name": contract.name,
        "version": contract.version,
        "description": contract.description,
        "arguments": floats_as_text(contract.arguments_schema),
        "result": floats_as_text(contract.result_schema),
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
    if contract.repair:  # else the digest is what it was before contracts could say so
        form["repair"] = list[JsonValue](sorted(each.value for each in contract.repair))
    if contract.remote.co_commits:
        form["co_commits"] = True
    if contract.open_members:
        form["open_members"] = list[JsonValue](sorted(contract.open_members))
    if contract.open_result_members:
        form["open_result_members"] = list[JsonValue](sorted(contract.open_result_members))
    if contract.origin is not None:
        way = () if contract.origin.way is None else (contract.origin.way,)
        form["origin"] = [contract.origin.server, contract.origin.tool, contract.origin.pin, *way]
    if contract.silence_seconds is not None:
        form["silence_seconds"] = str(contract.silence_seconds)
    if contract.has_precondition:
        form["has_precondition"] = True
    if contract.bind:
        form["bind"] = [[each.member, each.source.value, floats_as_text(each.value)] for each in contract.bind]
    return Digest(sha256_hex("placet/contract/1", canonical_bytes(form)))
