"""What a command needs beyond placet itself comes with an extra: which, and how to get it, in one code and one line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from placet.bootstrap.extras import how_to_install
from placet.errors import ConfigurationError


def require_extra(what: str, extra: str, libraries: Sequence[str]) -> None:
    """
    Args:
        what: what needs them, as a sentence begins.

    Raises:
        ConfigurationError: a library is not installed.
    """
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        *before, last = missing
        words = f"{', '.join(before)} and {last}, which are" if before else f"{last}, which is"
        raise ConfigurationError(
            f"{what} needs {words} not installed.", code="extra_missing", hint=how_to_install(extra)
        )


def require_mcp(what: str = "Serving MCP") -> None:
    """
    Raises:
        ConfigurationError: the library for MCP is not installed.
    """
    require_extra(what, "mcp", ("mcp",))
