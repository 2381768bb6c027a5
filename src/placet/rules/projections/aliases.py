"""What a tool is called where a provider's names have no dots. The exact name decides; an alias only stands for it.

An alias is made of the name alone, so it is the same in every process, and whoever has the contracts finds the name
again. Source: CASES B05.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from placet.errors import MisuseError
from placet.model.contract import Contract
from placet.model.exact import items_of
from placet.rules.projections.roots import require_contract

MAX_ALIAS: Final = 64
_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARACTERS = 8


def provider_name(name: str) -> str:
    """The name itself where a provider takes it; else a readable part of it, and a mark of the whole."""
    if _PLAIN.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:_MARK_CHARACTERS]
    return f"{_FOREIGN.sub('_', name)[: MAX_ALIAS - _MARK_CHARACTERS - 1]}-{mark}"


def names_of(contracts: Iterable[Contract]) -> Mapping[str, str]:
    """The exact name behind every name that a provider was told.

    Raises:
        MisuseError: these are no contracts, or two of them would go by one name there.
    """
    found: dict[str, str] = {}
    for contract in items_of(contracts) or ():
        name = require_contract(contract).name
        if found.setdefault(provider_name(name), name) != name:
            raise MisuseError(
                f"The tools {found[provider_name(name)]!r} and {name!r} go by one name at this provider.",
                hint="Give one of them another name.",
            )
    return found
