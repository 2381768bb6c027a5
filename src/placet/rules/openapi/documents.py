"""A document's operations, each ready or with the reason why it is not.

One operation that cannot be carried keeps none of the others from it. A document that is none at all, of another
version, or of more than it may have, is refused whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from placet.errors import DocumentRefused, InvalidArguments
from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import Operation, UnfitOperation
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.openapi.arguments import arguments_of
from placet.rules.openapi.references import Unfit, members_of, resolved, text_of
from placet.rules.openapi.results import results_of
from placet.rules.openapi.schemas import Budget, Dialect

MAX_DOCUMENT_BYTES: Final = 4_194_304
MAX_OPERATIONS: Final = 1_000
MAX_SCHEMA_PARTS: Final = 500_000
_LIMITS: Final = DecodingLimits(
    max_bytes=MAX_DOCUMENT_BYTES,
    max_depth=64,
    max_members=400_000,
    max_string_characters=1_048_576,
    max_number_digits=400,
)
_ANYWHERE: Final = frozenset(("*",) * depth for depth in range(1, 65))
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_NOT_CARRIED: Final = frozenset({"options", "trace"})
_VERSION: Final = re.compile(r"3\.([01])\.[0-9]{1,3}(?:-[a-z0-9.]{1,16})?")
_DIALECTS: Final = {"0": Dialect.OPENAPI_3_0, "1": Dialect.JSON_SCHEMA_2020}
_BASE_DIALECTS: Final = (
    "https://spec.openapis.org/oas/3.1/dialect/base",
    "https://json-schema.org/draft/2020-12/schema",
)
_LONGEST_NAME: Final = 256
_LONGEST_PATH: Final = 1_000
_PATH: Final = re.compile(r"/[^?#\\\s\x00-\x1f\x7f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document that is one, of a version that is read.

    Attributes:
        title: what it calls itself, unchecked text; None where it does not.
        servers: where it says that the service is; a suggestion, which is never followed.
    """

    root: JsonObject = field(repr=False, hash=False)
    dialect: Dialect
    title: str | None
    servers: tuple[str, ...]


def document_from(text: bytes | str) -> Document:
    """Read a document from its JSON text.

    Raises:
        DocumentRefused: it is no OpenAPI document of version 3.0 or 3.1, or passes a limit.
    """
    reason = None
    try:
        root = decode_object(text, limits=_LIMITS, wide=_ANYWHERE)
    except InvalidArguments as refusal:
        place = refusal.problems[0][0] if refusal.problems else ""
        reason = f"{refusal.reason.replace('_', ' ')} at {place or '/'}"
    if reason is not None:
        raise DocumentRefused(f"The document cannot be read as JSON: {reason}.")
    version = root.get("openapi")
    known = _VERSION.fullmatch(version) if type(version) is str else None
    if known is None:
        raise DocumentRefused(
            "The document is not OpenAPI 3.0 or 3.1.", hint='Its first member says openapi: "3.0.x" or "3.1.x".'
        )
    if root.get("jsonSchemaDialect", _BASE_DIALECTS[0]) not in _BASE_DIALECTS:
        raise DocumentRefused("The document's schemas are in another dialect than JSON Schema 2020-12.")
    info, servers = root.get("info"), root.get("servers")
    title = info.get("title") if isinstance(info, dict) else None
    urls = [each.get("url") for each in servers if isinstance(each, dict)] if isinstance(servers, list) else []
    return Document(
        root=root,
        dialect=_DIALECTS[known[1]],
        title=title if type(title) is str else None,
        servers=tuple(each for each in urls if type(each) is str),
    )


def operations_of(document: Document) -> tuple[Operation | UnfitOperation, ...]:
    """Every operation, in the document's order.

    Raises:
        DocumentRefused: it has no paths, too many operations, or two of one `operationId`.
    """
    found = list(_found(document))
    if len(found) > MAX_OPERATIONS:
        raise DocumentRefused(f"The document has more than {MAX_OPERATIONS} operations.")
    counts = Counter(_name(operation, method, path) for path, _, method, operation in found)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise DocumentRefused(f"Two operations of the document have the operationId {ascii(twice[0])[:80]}.")
    budget = Budget(MAX_SCHEMA_PARTS)
    return tuple(_operation(document, path, item, method, operation, budget) for path, item, method, operation in found)


def _found(document: Document) -> Iterator[tuple[str, JsonObject, str, JsonObject]]:
    """Path, path item, method and operation; what is not even an object is none."""
    paths = document.root.get("paths")
    if not isinstance(paths, dict):
        raise DocumentRefused("The document has no paths.")
    for path, part in paths.items():
        if path.startswith("x-"):
            continue
        item = _item(document.root, part)
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, dict):
                yield path, item, method, operation


def _item(root: JsonObject, part: JsonValue) -> JsonObject:
    """What stands beside a path item's reference counts too, where both do not say the same.

    Raises:
        DocumentRefused: the reference leads out of the document, or to nothing.
    """
    try:
        found = resolved(root, part, "a path")
    except Unfit as unfit:
        why = unfit.why
    else:
        beside = part if isinstance(part, dict) and "$ref" in part else {}
        return {**found, **{name: each for name, each in beside.items() if name != "$ref"}}
    raise DocumentRefused(f"A path of the document cannot be read: {why}.")


def _name(operation: JsonObject, method: str, path: str) -> str:
    name = operation.get("operationId")
    return name if type(name) is str and name else f"{method.upper()}:{path}"


def _operation(
    document: Document, path: str, item: JsonObject, method: str, operation: JsonObject, budget: Budget
) -> Operation | UnfitOperation:
    name = _name(operation, method, path)
    try:
        return _ready(document, name, path, item, method, operation, budget)
    except Unfit as unfit:
        return UnfitOperation(tool=name, method=method.upper(), path=path, why=unfit.why)


def _ready(
    document: Document, name: str, path: str, item: JsonObject, method: str, operation: JsonObject, budget: Budget
) -> Operation:
    if len(name) > _LONGEST_NAME:
        raise Unfit(f"its operationId has more than {_LONGEST_NAME} characters")
    if method in _NOT_CARRIED:
        raise Unfit(f"the method {method.upper()} is not carried")
    _refuse_path(path)
    if "servers" in item or "servers" in operation:
        raise Unfit("it has servers of its own; the server is the configuration's word alone")
    if method in ("get", "head", "delete") and "requestBody" in operation:
        raise Unfit(f"a {method.upper()} with a body is not carried")
    members_of(operation, "responses")
    arguments = arguments_of(document.root, item, operation, path, document.dialect, budget)
    results = results_of(document.root, operation, method.upper(), document.dialect, budget)
    return Operation(
        tool=name,
        title=text_of(operation, "summary"),
        description=text_of(operation, "description"),
        method=method.upper(),
        path=path,
        parameters=arguments.parameters,
        body=arguments.body,
        successes=results.successes,
        key_header=arguments.key_header,
        arguments_schema=arguments.schema,
        result_schema=results.schema,
        left_out=arguments.left_out,
    )


def _refuse_path(path: str) -> None:
    if len(path) > _LONGEST_PATH or _PATH.fullmatch(path) is None or "%" in path:
        raise Unfit("its path is no plain path")
    segments = path.split("/")
    if any(each in (".", "..") for each in segments) or "" in segments[1:-1]:
        raise Unfit("its path has a segment that leads elsewhere")
    if any(each.count("{") > 1 for each in segments):
        raise Unfit("a segment of its path has two parameters")
