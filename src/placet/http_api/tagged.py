"""Documents under an entity tag: as it is, "as it was", or, for whoever prefers to wait, once it is not any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from starlette.responses import Response

from placet.http_api.door import door_of, preferred_wait, refuse_repeated, require_still, same_tag
from placet.http_api.outcomes import json_response
from placet.model.principal import Principal
from placet.model.waking import approvals_topic
from placet.rules.documents import document_of

Seen = TypeVar("Seen")


async def tagged(
    request: Request, principal: Principal, look: Callable[[], Awaitable[Seen]], tag_of: Callable[[Seen], str]
) -> Response:
    """What is seen, with its tag; 304 to whoever has that tag.

    With `Prefer: wait=N` and the tag in `If-None-Match` it waits until it is seen otherwise, for no longer than the
    credential is good.
    """
    door = door_of(request)
    refuse_repeated(request)
    seconds = preferred_wait(request, door.settings)

    def is_as_it_was(seen: Seen) -> bool:
        return same_tag(request, "if-none-match", tag_of(seen))

    async def look_again() -> Seen:
        await require_still(request, principal)
        return await look()

    seen = await look()
    if seconds and is_as_it_was(seen):
        with door.waiting.place_of(principal):
            seen = await door.waiting.until(
                look_again,
                lambda found: not is_as_it_was(found),
                topic=approvals_topic(principal.tenant),
                seconds=seconds,
                request=request,
            )
    headers = {"ETag": tag_of(seen)}
    if is_as_it_was(seen):
        return Response(status_code=304, headers=headers)
    return json_response(document_of(seen), headers=headers)  # type: ignore[arg-type]  # a view has members
