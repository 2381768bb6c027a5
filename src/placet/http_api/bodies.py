"""Bodies of requests: bounded in size and time before anything reads them, and decoded by the one strict decoder.

The framework parses none of them, so `1.0` stays `1.0` and a member that occurs twice is refused, not taken once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Set
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.requests import Request

from placet.errors import InvalidArguments
from placet.http_api.problems import BodyTooLarge, BodyTooSlow, MediaTypeUnsupported, RequestMalformed
from placet.http_api.settings import HttpSettings
from placet.model.json import JsonObject
from placet.rules.decoding import DEFAULT_LIMITS, DecodingLimits, Path, decode_object

_AROUND_ARGUMENTS = 3
"""Levels that a batch puts around the arguments of a call: itself, its list, the proposal."""


async def read_body(request: Request, settings: HttpSettings) -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge, BodyTooSlow: it is not taken.
        ClientDisconnect: nobody sends it any more.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > settings.max_body_bytes:
        raise _too_large(settings)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > settings.max_body_bytes:
                    raise _too_large(settings)
        return bytes(body)
    except TimeoutError:
        pass
    raise BodyTooSlow


def _too_large(settings: HttpSettings) -> BodyTooLarge:
    return BodyTooLarge(members={"max_bytes": settings.max_body_bytes})


async def read_document(
    request: Request, settings: HttpSettings, *, members: Set[str], wide: Collection[Path] = ()
) -> dict[str, Any]:
    """The JSON object of a body, with no members but these.

    Raises:
        MediaTypeUnsupported, BodyTooLarge, BodyTooSlow, RequestMalformed: it is none.
    """
    _require_json(request)
    body = await read_body(request, settings)
    try:
        document: JsonObject = decode_object(body, limits=_limits(settings.max_body_bytes), wide=wide)
    except InvalidArguments as error:
        refusal = _malformed(error.problems)
    else:
        unknown = sorted(document.keys() - members)
        if not unknown:
            return document
        refusal = _malformed(tuple(("", "extra_forbidden") for _ in unknown[:1]), known=sorted(members))
    raise refusal


@cache
def _limits(max_bytes: int) -> DecodingLimits:
    """What the decoder takes of a whole body: as much as of each call's arguments, and what stands around them."""
    return replace(
        DEFAULT_LIMITS,
        max_bytes=max_bytes,
        max_depth=DEFAULT_LIMITS.max_depth + _AROUND_ARGUMENTS,
        max_members=10 * DEFAULT_LIMITS.max_members,
    )


def _malformed(problems: tuple[tuple[str, str], ...], *, known: Collection[str] = ()) -> RequestMalformed:
    about: JsonObject = {"problems": [{"path": path, "problem": problem} for path, problem in problems]}
    if known:
        about["members"] = list(known)
    return RequestMalformed("The body is not a JSON object of the members that this address takes.", members=about)


def _require_json(request: Request) -> None:
    said = request.headers.getlist("content-type")
    kind, _, parameters = (said[0] if len(said) == 1 else "").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    is_plain = kind.strip().lower() == "application/json" and charset in ("", "charset=utf-8")
    if not is_plain or request.headers.getlist("content-encoding") not in ([], ["identity"]):
        raise MediaTypeUnsupported


def text_member(document: dict[str, Any], name: str, *, most: int, least: int = 1) -> str:
    """A member that has to be a text of so many characters.

    Raises:
        RequestMalformed: it is absent, or something else.
    """
    value = document.get(name)
    if type(value) is str and least <= len(value) <= most:
        return value
    raise member_refused(name, f"text of {least} to {most} characters")


def optional_text(document: dict[str, Any], name: str, *, most: int, default: str = "") -> str:
    return text_member(document, name, most=most, least=0) if name in document else default


def choice_member(document: dict[str, Any], name: str, choices: Collection[str]) -> str:
    """A member that has to be one of some words."""
    value = document.get(name)
    if type(value) is str and value in choices:
        return value
    raise member_refused(name, f"one of {', '.join(choices)}")


def member_refused(name: str, what: str) -> RequestMalformed:
    return RequestMalformed(
        f"The member {name!r} of the body is {what}.", members={"problems": [{"path": f"/{name}", "problem": "wrong"}]}
    )
