"""The operations that an OpenAPI document describes, in our words.

document ── Operation, or UnfitOperation ── what one call asks: HttpRequest ── what came back: HttpAnswer
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from placet.model.json import JsonObject


class Place(StrEnum):
    """Where a parameter travels."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"


class Style(StrEnum):
    """How a parameter that is a list or an object is written. json: its text in JSON, whatever it is.

    simple, form, space and pipe differ in what stands between two items; `exploded` forms name the parameter once for
    each item, and deep ones name each member in brackets.
    """

    SIMPLE = "simple"
    SIMPLE_EXPLODED = "simple_exploded"
    FORM = "form"
    FORM_EXPLODED = "form_exploded"
    SPACE = "space"
    PIPE = "pipe"
    DEEP = "deep"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """
    Attributes:
        name: as it travels.
        member: the argument that it comes from.
    """

    name: str
    member: str
    place: Place
    style: Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What is sent as the request's body, in JSON.

    Attributes:
        media_type: it is said to be.
        members: where it is made of arguments, the name of each in the body, and the argument that it comes from; None
            where one argument is the whole of it.
        member: that argument, which may be left out where the document lets the body be left out.
    """

    media_type: str
    members: tuple[tuple[str, str], ...] | None
    member: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """What an answer of these statuses holds.

    Attributes:
        statuses: exact ones; empty: every other status of success.
        media_types: of its body, in small letters; empty: there is none, and none is read.
    """

    statuses: tuple[int, ...]
    media_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, ready to become a contract.

    Attributes:
        tool: its `operationId`, or method and path where it has none.
        method: in capitals.
        path: with its parameters in braces, below the address of the service.
        key_header: the header in which it takes an idempotency key; None where it declares none.
        arguments_schema: one object for parameters and body, as JSON Schema 2020-12.
        result_schema: of `{"status": 201, "body": ...}`, a branch for each status and its body.
        left_out: optional parameters of the document that cannot be sent, by place and name.
    """

    tool: str
    title: str | None
    description: str | None
    method: str
    path: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    successes: tuple[Success, ...]
    key_header: str | None
    arguments_schema: JsonObject = field(hash=False)
    result_schema: JsonObject = field(hash=False)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitOperation:
    """One that says something that is not carried. `why` names what, and is not the document's text."""

    tool: str
    method: str
    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request below the address of the service, and nothing in it that could leave its place.

    Attributes:
        target: path and query, percent-encoded.
        headers: without those of the connection and of the credential.
        body: None: there is none.
    """

    method: str
    target: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back. Of an answer that is no success nothing is read but its status and `Retry-After`.

    Attributes:
        media_type: without parameters, in small letters.
        encoding: its `Content-Encoding`; "identity" for none.
        body: None where it is longer than what is read.
    """

    status: int
    media_type: str
    encoding: str
    retry_after: str | None
    body: bytes | None = field(repr=False)
