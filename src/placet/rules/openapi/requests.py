"""Arguments that a contract has accepted, as one request below the service's address.

Everything that comes from an argument is percent-encoded but for letters, digits and `-._~`. The schema has already
refused what could leave its place; here it is looked at once more, because values may also be put in by the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from placet.errors import ToolRejected
from placet.model.json import JsonObject, JsonValue
from placet.model.openapi import HttpRequest, Operation, Parameter, Place, Style
from placet.rules.canonical import canonical_bytes
from placet.rules.openapi.parameters import HEADER_TEXT, PATH_TEXT

_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_LONGEST_TARGET: Final = 8_000
_LONGEST_HEADER: Final = 4_000
_BETWEEN: Final = {
    Style.SIMPLE: ",", Style.SIMPLE_EXPLODED: ",", Style.FORM: ",", Style.SPACE: "%20", Style.PIPE: "%7C",
}  # fmt: skip


def key_text(key: str) -> str:
    """An operation key as a header can carry it; printable ASCII stays as it is, but for the percent sign."""
    return quote(key, safe=_PRINTABLE)


def request_of(
    operation: Operation,
    arguments: JsonObject,
    *,
    base_path: str = "",
    key: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpRequest:
    """The request that these arguments ask for.

    Args:
        base_path: of the service's address, without a slash at its end.
        key: the header that carries the operation key, and the key; None: it is not sent.
        headers: sent with every request.

    Raises:
        ToolRejected: they make no request that stays in its place; nothing is sent.
    """
    given = {each.member: arguments[each.member] for each in operation.parameters if each.member in arguments}
    sent: dict[str, str] = {"accept": _accepted(operation)}
    for name, value in (headers or {}).items():
        sent[name.lower()] = value
    for parameter in operation.parameters:
        if parameter.place is Place.HEADER and parameter.member in given:
            sent[parameter.name.lower()] = _header(given[parameter.member])
    if key is not None:
        sent[key[0].lower()] = key_text(key[1])
    body = _body(operation, arguments)
    if body is not None and operation.body is not None:
        sent["content-type"] = operation.body.media_type
    target = base_path + _path(operation, given)
    query = "&".join(_query(operation, given))
    target = f"{target}?{query}" if query else target
    if len(target) > _LONGEST_TARGET:
        raise _refused("The arguments make too long an address.")
    return HttpRequest(method=operation.method, target=target, headers=tuple(sent.items()), body=body)


def _accepted(operation: Operation) -> str:
    kinds = dict.fromkeys(kind for each in operation.successes for kind in each.media_types)
    return ", ".join(kinds) or "*/*"


# ---------------------------------------------------------------- path


def _path(operation: Operation, given: JsonObject) -> str:
    values = {each.name: each for each in operation.parameters if each.place is Place.PATH}

    def written(found: re.Match[str]) -> str:
        parameter = values[found[1]]
        if parameter.member not in given:
            raise _refused("An argument of the path is missing.")
        return _in_path(given[parameter.member])

    return "".join(
        re.sub(r"\{([^{}]*)\}", written, part) if part.startswith("{") else quote(part, safe="/!$&'(*)+,;=:@")
        for part in re.split(r"(\{[^{}]*\})", operation.path)
    )


def _in_path(value: JsonValue) -> str:
    texts = [_text(each) for each in (value if isinstance(value, list) else [value])]
    if not texts or any(re.fullmatch(PATH_TEXT, each) is None for each in texts):
        raise _refused("An argument cannot stand in a path.")
    return ",".join(map(_encoded, texts))


# ---------------------------------------------------------------- query


def _query(operation: Operation, given: JsonObject) -> Iterator[str]:
    for parameter in operation.parameters:
        if parameter.place is Place.QUERY and parameter.member in given:
            yield from _pairs(parameter, given[parameter.member])


def _pairs(parameter: Parameter, value: JsonValue) -> Iterator[str]:
    name = _encoded(parameter.name)
    if parameter.style is Style.JSON:
        yield f"{name}={_encoded(canonical_bytes(value).decode())}"
    elif isinstance(value, dict):
        for member, each in value.items():
            inner = f"{name}%5B{_encoded(member)}%5D" if parameter.style is Style.DEEP else _encoded(member)
            yield f"{inner}={_encoded(_text(each))}"
    elif isinstance(value, list):
        items = [_encoded(_text(each)) for each in value]
        if parameter.style is Style.FORM_EXPLODED:
            yield from (f"{name}={each}" for each in items)
        elif items:
            yield f"{name}={_BETWEEN[parameter.style].join(items)}"
    else:
        yield f"{name}={_encoded(_text(value))}"


# ---------------------------------------------------------------- header, body


def _header(value: JsonValue) -> str:
    text = ",".join(_text(each) for each in value) if isinstance(value, list) else _text(value)
    written = text if re.fullmatch(HEADER_TEXT, text) else key_text(text)
    if re.fullmatch(HEADER_TEXT, written) is None or len(written) > _LONGEST_HEADER:
        raise _refused("An argument cannot stand in a header.")
    return written


def _body(operation: Operation, arguments: JsonObject) -> bytes | None:
    body = operation.body
    if body is None:
        return None
    if body.members is not None:
        found = {name: arguments[member] for name, member in body.members if member in arguments}
        return canonical_bytes(found)
    if body.member is None or body.member not in arguments:
        return None
    return canonical_bytes(arguments[body.member])


def _text(value: JsonValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return canonical_bytes(value).decode()
        case _:
            raise _refused("An argument cannot be written as text.")


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _refused(why: str) -> ToolRejected:
    return ToolRejected(why, code="request_unfit", hint="Change the arguments; nothing was sent.")
