"""The drafts service: somebody else's system, in a process of its own, where people pick up what nobody could answer.

    python -m placet.demos.support.drafts --store FILE --port 0 --ready-file FILE

It keeps drafts as `placet.demos.remote.service` keeps records: `POST /drafts`, `GET /drafts/DRAFT-1001` and their like.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from placet.demos.remote.service import Kind, Refused, run

_MOST_CHARACTERS = 4_000


def _checked_draft(posted: Mapping[str, Any]) -> str:
    question = posted.get("question")
    if posted.keys() != {"question"} or type(question) is not str or not 0 < len(question) <= _MOST_CHARACTERS:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "that is not a draft")
    return json.dumps({"question": question})


DRAFTS = Kind(
    one="draft",
    many="drafts",
    name="drafts service",
    prefix="DRAFT",
    program="placet.demos.support.drafts",
    about="A small service that keeps drafts of support requests.",
    checked=_checked_draft,
)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and serve."""
    run(DRAFTS, arguments)


if __name__ == "__main__":
    main()
