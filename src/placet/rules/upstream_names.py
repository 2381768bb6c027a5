"""What a tool of an upstream is called here: the server id, a dot, and the upstream's own name where it can be one.

    search               desk.search
    repos/get            desk.repos_get-5d0a1f7c     a character that no name has; the digits are of the exact name
    seventy letters …    desk.seventy_let…-90be11aa   too long

The exact name stays in the contract's origin, so nothing is lost, and two upstreams never meet. What is not printable
ASCII is no name: what looks like one on a screen would be another.

Source: CASES B02, B05; DESIGN section 5.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from placet.errors import ContractError
from placet.model.contract import SERVER_ID, TOOL_NAME
from placet.rules.showing import escape_for_people

LONGEST_NAME: Final = 64
LONGEST_UPSTREAM_NAME: Final = 256
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]{1,256}")
_NO_NAME_HAS: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_MARK_CHARACTERS: Final = 8


def require_server_id(name: str) -> str:
    """
    Raises:
        ContractError: it is no server id.
    """
    if type(name) is str and SERVER_ID.fullmatch(name):
        return name
    raise ContractError("An upstream's id is 1 to 24 characters of a-z 0-9 _ -, and begins with a letter.")


def require_upstream_name(tool: str) -> str:
    """
    Raises:
        ContractError: it is not 1 to 256 printable ASCII characters without a blank; shown with escapes.
    """
    if type(tool) is str and _PRINTABLE.fullmatch(tool):
        return tool
    shown = escape_for_people(tool[:80]) if type(tool) is str else ""
    raise ContractError(
        f"A server names a tool '{shown}', which is not 1 to {LONGEST_UPSTREAM_NAME} printable ASCII characters."
    )


def contract_name(server: str, tool: str) -> str:
    """What one tool is called here; the same for the same names, always.

    Raises:
        ContractError: the server id or the tool's name is none.
    """
    prefix = f"{require_server_id(server)}."
    if TOOL_NAME.fullmatch(require_upstream_name(tool)) and len(prefix) + len(tool) <= LONGEST_NAME:
        return prefix + tool
    return shortened(prefix, tool)


def contract_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """What the tools of one server are called here, by their own names; without those that are called alike.

    Which of two that are called alike is meant cannot be told, so neither is; nothing else is lost by that.

    Raises:
        ContractError: the server id is none. Tools whose names are none are left out.
    """
    require_server_id(server)
    named: dict[str, str] = {}
    for tool in tools:
        try:
            named[tool] = contract_name(server, tool)
        except ContractError:
            continue
    count = Counter(named.values())
    return {tool: name for tool, name in named.items() if count[name] == 1}


def shortened(prefix: str, name: str) -> str:
    """A name that fits, of what can be kept of a longer or stranger one and a mark of the whole of it."""
    mark = hashlib.sha256(name.encode()).hexdigest()[:_MARK_CHARACTERS]
    kept = LONGEST_NAME - len(prefix) - len(mark) - 1
    return f"{prefix}{_NO_NAME_HAS.sub('_', name)[:kept]}-{mark}"
