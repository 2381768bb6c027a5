"""What `placet version` says."""

from __future__ import annotations

import json
import sys
from importlib import import_module


def version_facts() -> dict[str, str]:
    # The root is for users; inside, only its version is wanted, and reading installed metadata would take 30 ms.
    number: str = import_module("placet").__version__
    return {
        "schema": "version/1",
        "placet": number,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "platform": sys.platform,
    }


def version_text(*, as_json: bool) -> str:
    facts = version_facts()
    return json.dumps(facts, indent=2) + "\n" if as_json else f"placet {facts['placet']}\n"
