"""Parameters and body of an operation as one strict object, and where each of its members goes.

Each argument has its parameter's own name. A body that must be sent, is an object and says no more of it than which
members it has, gives each of its members as an argument; any other body is the one argument `body`. Where two would
have one name, each of them has its place before it: `path_id`, `query_id`, `body_id`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import Body, Parameter, Place, Style
from placet.rules.openapi.parameters import TOKEN, argument_schema, object_names, style_of
from placet.rules.openapi.references import MAX_CHAIN, Unfit, at, items_of, members_of, resolved, text_of, truth_of
from placet.rules.openapi.schemas import Budget, Dialect, Direction, Schemas, described, only
from placet.rules.upstream_headers import OF_THE_MESSAGE

MAX_ARGUMENTS: Final = 200
KEY_HEADER: Final = "idempotency-key"
_BODY: Final = "body"
_NOT_READ: Final = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that say nothing. Source: OpenAPI 3.0.4, section 4.7.12.2."""
OF_THE_CONNECTION: Final = OF_THE_MESSAGE | frozenset(
    {
        "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix",
        "x-forwarded-proto", "x-forwarded-server", "x-real-ip",
        "x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url",
    }
)  # fmt: skip
"""Headers that say how a message travels, for whom, or that it is another request than it seems; no argument sets
them."""
_JSON: Final = re.compile(r"application/(?:[a-z0-9!#$&^_.-]{1,64}\+)?json")
_PLAIN: Final = frozenset({"type", "properties", "required", "additionalProperties"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What an operation takes. `left_out`: optional parameters that cannot be sent, by place and name."""

    parameters: tuple[Parameter, ...]
    body: Body | None
    key_header: str | None
    schema: JsonObject
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """One argument before it has its name."""

    place: str
    name: str
    schema: JsonValue
    is_required: bool
    style: Style = Style.JSON


@dataclass(slots=True)
class _Found:
    parameters: list[_Given] = field(default_factory=list)
    key_header: str | None = None
    left_out: list[str] = field(default_factory=list)


def arguments_of(
    root: JsonObject, item: JsonObject, operation: JsonObject, path: str, dialect: Dialect, budget: Budget
) -> Arguments:
    """
    Raises:
        Unfit: a parameter that has to be sent, or the body, cannot be.
    """
    schemas = Schemas(root, dialect, Direction.REQUEST, budget)
    found = _Found()
    for parameter in _declared(root, item, operation):
        _take(parameter, schemas, found)
    _refuse_other_path(path, [each.name for each in found.parameters if each.place == Place.PATH.value])
    _refuse_shared_query(found.parameters, schemas)
    body, given = _body(root, operation, schemas)
    everything = [*found.parameters, *given]
    if len(everything) > MAX_ARGUMENTS:
        raise Unfit(f"it has more than {MAX_ARGUMENTS} arguments")
    members = _names(everything)
    schema: JsonObject = {
        "type": "object",
        "properties": {member: each.schema for member, each in zip(members, everything, strict=True)},
        "required": [member for member, each in zip(members, everything, strict=True) if each.is_required],
        "additionalProperties": False,
    }
    if defined := schemas.definitions():
        schema["$defs"] = defined
    of_body = members[len(found.parameters) :]
    return Arguments(
        parameters=tuple(
            Parameter(name=each.name, member=member, place=Place(each.place), style=each.style)
            for member, each in zip(members, found.parameters, strict=False)
        ),
        body=_placed(body, given, of_body),
        key_header=found.key_header,
        schema=schema,
        left_out=tuple(found.left_out),
    )


# ---------------------------------------------------------------- parameters


def _declared(root: JsonObject, item: JsonObject, operation: JsonObject) -> list[JsonObject]:
    """Those of the path, each replaced by the operation's own of the same name and place."""
    found: dict[tuple[str | None, str], JsonObject] = {}
    for holder in (item, operation):
        here: set[tuple[str | None, str]] = set()
        for given in items_of(holder, "parameters"):
            parameter = resolved(root, given, "a parameter")
            place, name = text_of(parameter, "in"), text_of(parameter, "name") or ""
            identity = (place, name.casefold() if place == "header" else name)
            if not name or identity in here:
                raise Unfit("a parameter has no name, or is declared twice")
            here.add(identity)
            found[identity] = parameter
    return list(found.values())


def _take(parameter: JsonObject, schemas: Schemas, found: _Found) -> None:
    place, name = text_of(parameter, "in"), text_of(parameter, "name") or ""
    is_required = truth_of(parameter, "required", usual=False)
    if place == "header" and name.casefold() in _NOT_READ:
        return
    if place == "header" and name.casefold() == KEY_HEADER:
        found.key_header = name
        return
    if why := _why_not_sent(place, name):
        if is_required:
            raise Unfit(why)
        found.left_out.append(f"{place} {ascii(name)[1:-1][:60]}")
        return
    where = Place(place or "")
    if where is Place.PATH and not is_required:
        raise Unfit("a parameter of the path is not required")
    style, declared = _style_and_schema(where, parameter)
    schema = schemas.converted(declared)
    alone = schemas.standing_alone(schema)
    found.parameters.append(
        _Given(
            place=where.value,
            name=name,
            schema=described(argument_schema(where, style, schema, alone), text_of(parameter, "description")),
            is_required=is_required,
            style=style,
        )
    )


def _why_not_sent(place: str | None, name: str) -> str | None:
    match place:
        case "path" | "query":
            return None
        case "header":
            is_sound = TOKEN.fullmatch(name) is not None and name.casefold() not in OF_THE_CONNECTION
            return None if is_sound else "a required header is not one that an argument may set"
        case "cookie":
            return "a required parameter travels in a cookie"
        case _:
            raise Unfit("a parameter is in no known place")


def _style_and_schema(place: Place, parameter: JsonObject) -> tuple[Style, JsonValue]:
    if "content" not in parameter:
        explode = truth_of(parameter, "explode", usual=False) if "explode" in parameter else None
        style = style_of(place, text_of(parameter, "style"), explode=explode)
        if "schema" not in parameter:
            raise Unfit("a parameter has no schema")
        return style, parameter["schema"]
    content = members_of(parameter, "content")
    if place is not Place.QUERY or "schema" in parameter or list(content) != ["application/json"]:
        raise Unfit(f"a parameter of the {place.value} has content that is not carried")
    return Style.JSON, members_of(content, "application/json").get("schema")


def _refuse_other_path(path: str, declared: list[str]) -> None:
    named = re.findall(r"\{([^{}]*)\}", path)
    if sorted(named) != sorted(declared):
        raise Unfit("the path and its parameters do not name the same ones, each once")


def _refuse_shared_query(parameters: list[_Given], schemas: Schemas) -> None:
    """An object that is written member by member must not write another parameter."""
    names: Counter[str] = Counter()
    for each in parameters:
        if each.place != Place.QUERY.value:
            continue
        names.update(_written(each, schemas))
    if any(count > 1 for count in names.values()):
        raise Unfit("two parameters of the query would have one name")


def _written(parameter: _Given, schemas: Schemas) -> tuple[str, ...]:
    """The names under which it stands in the query."""
    if not _is_object(parameter.schema) or parameter.style not in (Style.FORM_EXPLODED, Style.DEEP):
        return (parameter.name,)
    members = object_names(schemas.standing_alone(parameter.schema))
    is_deep = parameter.style is Style.DEEP
    return tuple(f"{parameter.name}[{member}]" for member in members) if is_deep else members


def _is_object(schema: JsonValue) -> bool:
    parts = schema.get("allOf") if isinstance(schema, dict) else None
    last = parts[-1] if isinstance(parts, list) and parts else None
    return isinstance(last, dict) and last.get("type") == "object"


# ---------------------------------------------------------------- body


def json_type(content: JsonObject) -> str | None:
    """The JSON among media types, as the document writes it; `application/json` before others."""
    found = [name for name in content if _JSON.fullmatch(bare_type(name))]
    return min(found, key=lambda name: bare_type(name) != "application/json", default=None)


def bare_type(media_type: str) -> str:
    """Without parameters, in small letters."""
    return media_type.partition(";")[0].strip().lower()


def _body(root: JsonObject, operation: JsonObject, schemas: Schemas) -> tuple[Body | None, list[_Given]]:
    if "requestBody" not in operation:
        return None, []
    request = resolved(root, operation["requestBody"], "requestBody")
    content = members_of(request, "content")
    name = json_type(content)
    if name is None:
        raise Unfit("its body is not JSON")
    declared = members_of(content, name).get("schema")
    if declared is None:
        raise Unfit("its body has no schema")
    is_required = truth_of(request, "required", usual=False)
    body = Body(media_type=bare_type(name), members=None, member=_BODY)
    plain = _plain_object(root, declared) if is_required else None
    if plain is None:
        schema = described(schemas.converted(declared), text_of(request, "description"))
        return body, [_Given(place=_BODY, name=_BODY, schema=schema, is_required=is_required)]
    converted: JsonObject = {"whole": schemas.converted(plain)}
    whole = members_of(converted, "whole")
    required = items_of(whole, "required")
    return Body(media_type=body.media_type, members=(), member=None), [
        _Given(place=_BODY, name=name, schema=each, is_required=name in required)
        for name, each in members_of(whole, "properties").items()
    ]


def _plain_object(root: JsonObject, declared: JsonValue) -> JsonObject | None:
    """The schema of an object of which no more is said than which members it has."""
    for _ in range(MAX_CHAIN):
        if not isinstance(declared, dict):
            return None
        if "$ref" not in declared:
            break
        if not only(declared, frozenset({"$ref"})):
            return None
        declared = at(root, declared["$ref"])
    if not isinstance(declared, dict) or declared.get("type") != "object" or not only(declared, _PLAIN):
        return None
    properties, required = declared.get("properties"), declared.get("required", [])
    if not isinstance(properties, dict) or not properties or not isinstance(required, list):
        return None
    if declared.get("additionalProperties", True) not in (True, False, {}):
        return None
    if not all(type(each) is str and each in properties for each in required):
        return None
    return declared


def _placed(body: Body | None, given: list[_Given], members: list[str]) -> Body | None:
    if body is None:
        return None
    if body.members is None:
        return Body(media_type=body.media_type, members=None, member=members[0])
    pairs = tuple((each.name, member) for each, member in zip(given, members, strict=True))
    return Body(media_type=body.media_type, members=pairs, member=None)


def _names(given: list[_Given]) -> list[str]:
    counts = Counter(each.name for each in given)
    names = [each.name if counts[each.name] == 1 else f"{each.place}_{each.name}" for each in given]
    if len(set(names)) != len(names):
        raise Unfit("two of its arguments would have one name")
    return names
