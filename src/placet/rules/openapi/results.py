"""What an operation answers with when it succeeds: `{"status": 201, "body": ...}`, each status with its own body.

One schema holds all of it, so that the contract itself checks a body against what is declared for its status; a status
of success that is not declared breaks the contract. What is answered without JSON or text has no `body`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import Success
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts.schemas import floats_as_text
from placet.rules.openapi.arguments import bare_type, json_type
from placet.rules.openapi.references import Unfit, members_of, resolved
from placet.rules.openapi.schemas import Budget, Dialect, Direction, Schemas

_SUCCESS: Final = re.compile(r"2[0-9]{2}")
_KNOWN: Final = re.compile(r"[1-5](?:[0-9]{2}|XX)|default")
_TEXT: Final = re.compile(r"text/[a-z0-9!#$&^_.+-]{1,64}")
_ANY_SUCCESS: Final = ("2XX", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Which answers are a success, and the schema of what they become."""

    successes: tuple[Success, ...]
    schema: JsonObject


def results_of(
    root: JsonObject, operation: JsonObject, method: str, dialect: Dialect, budget: Budget
) -> Results:  # fmt: skip
    """
    Raises:
        Unfit: a success is answered with what is neither JSON nor text.
    """
    declared = _declared(members_of(operation, "responses"))
    schemas = Schemas(root, dialect, Direction.RESPONSE, budget)
    exact = tuple(int(each) for each in declared if each not in _ANY_SUCCESS)
    successes: list[Success] = []
    bodies: dict[bytes, tuple[JsonValue | None, list[JsonValue]]] = {}
    for status, part in declared.items():
        response = resolved(root, part, "a response")
        media_types, body = _body(members_of(response, "content"), method, schemas)
        statuses = () if status in _ANY_SUCCESS else (int(status),)
        successes.append(Success(statuses=statuses, media_types=media_types))
        form = canonical_bytes([body is not None, floats_as_text(body)])
        bodies.setdefault(form, (body, []))[1].append(_status(statuses, exact))
    branches = [_branch(body, statuses) for body, statuses in bodies.values()]
    schema: JsonObject = branches[0] if len(branches) == 1 else {"type": "object", "oneOf": list(branches)}
    if defined := schemas.definitions():
        schema = {**schema, "$defs": defined}
    return Results(successes=tuple(successes), schema=schema)


def _declared(responses: JsonObject) -> dict[str, JsonValue]:
    """Exact statuses of success; all others with `2XX`, or with `default` where no success is declared at all."""
    found = {str(name): part for name, part in responses.items() if not str(name).startswith("x-")}
    if any(_KNOWN.fullmatch(name) is None for name in found):
        raise Unfit("a response has a status that is none")
    exact = {name: part for name, part in found.items() if _SUCCESS.fullmatch(name)}
    if "2XX" in found:
        return {**exact, "2XX": found["2XX"]}
    if exact:
        return exact
    if "default" in found:
        return {"default": found["default"]}
    raise Unfit("it declares no answer of success")


def _body(content: JsonObject, method: str, schemas: Schemas) -> tuple[tuple[str, ...], JsonValue | None]:
    if not content or method == "HEAD":
        return (), None
    if (name := json_type(content)) is not None:
        declared = members_of(content, name).get("schema", True)
        return (bare_type(name),), schemas.converted(declared)
    texts = tuple(bare_type(each) for each in content)
    if all(_TEXT.fullmatch(each) for each in texts):
        return texts, {"type": "string"}
    raise Unfit("it answers with what is neither JSON nor text")


def _status(statuses: tuple[int, ...], exact: tuple[int, ...]) -> JsonValue:
    if statuses:
        return {"const": statuses[0]}
    others: JsonObject = {"type": "integer", "minimum": 200, "maximum": 299}
    return {**others, "not": {"enum": list(exact)}} if exact else others


def _branch(body: JsonValue | None, statuses: list[JsonValue]) -> JsonObject:
    exact = [each["const"] for each in statuses if isinstance(each, dict) and "const" in each]
    others = [each for each in statuses if not (isinstance(each, dict) and "const" in each)]
    listed: list[JsonValue] = [{"enum": exact}] if exact else []
    status: JsonValue = (listed + others)[0] if len(listed + others) == 1 else {"anyOf": listed + others}
    if body is None:
        return {
            "type": "object",
            "properties": {"status": status},
            "required": ["status"],
            "additionalProperties": False,
        }
    return {
        "type": "object",
        "properties": {"status": status, "body": body},
        "required": ["status", "body"],
        "additionalProperties": False,
    }
