"""What a client of the MCP door calls a tool, a prompt, a resource of an upstream; and back again, exactly.

    of the upstream           prefixed                       plain
    tool      read_file       files.read_file                read_file
    prompt    review          files.review                   review
    resource  file:///a.txt   placet:files/file:///a.txt     file:///a.txt

Names are unique only within a server, so ours comes first: the id that the deployment gave the server, never the name
that the server gives itself. One upstream may keep its own names where no other one is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placet.errors import ConfigurationError
from placet.model.contract import Contract

SCHEME = "placet:"
"""Of a resource's address that names the server it is read from."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MAX_URI_CHARACTERS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class OutwardNames:
    """
    Attributes:
        plain: the one server whose prompts, resources and tools bear their own names; None for none.
        contracts_by_name: by the name that a client knows, the contract's.
    """

    plain: str | None
    contracts_by_name: Mapping[str, str] = field(hash=False)

    def tool(self, contract: Contract) -> str:
        """What a client calls this tool."""
        return _outward_tool(contract, self.plain)

    def contract(self, name: str) -> str | None:
        """Which contract a client means by a name; None if no tool bears it."""
        return self.contracts_by_name.get(name)

    def prompt(self, server: str, name: str) -> str:
        return name if server == self.plain else f"{server}.{name}"

    def prompt_of(self, name: str) -> tuple[str, str] | None:
        """Server and its own name of a prompt; None if the name is of no server."""
        if self.plain is not None:
            return self.plain, name
        server, dot, rest = name.partition(".")
        return (server, rest) if dot and rest else None

    def uri(self, server: str, uri: str) -> str:
        """Of a resource, or of a template for such: what stands before it does not change what it expands to."""
        return uri if server == self.plain else f"{SCHEME}{server}/{uri}"

    def uri_of(self, uri: str) -> tuple[str, str] | None:
        """Server and its own address of a resource; None if the address is of no server."""
        if len(uri) > _MAX_URI_CHARACTERS:
            return None
        if self.plain is not None:
            return self.plain, uri
        if not uri.startswith(SCHEME):
            return None
        server, slash, rest = uri.removeprefix(SCHEME).partition("/")
        return (server, rest) if slash and rest else None


def outward_names(contracts: Iterable[Contract], *, plain: str | None = None) -> OutwardNames:
    """What clients call these tools.

    Raises:
        ConfigurationError: two tools would bear one name.
    """
    by_name: dict[str, str] = {}
    for contract in contracts:
        name = _outward_tool(contract, plain)
        if by_name.setdefault(name, contract.name) != contract.name:
            raise ConfigurationError(
                f"A client would know two tools by the name {name!r}: {by_name[name]!r} and {contract.name!r}.",
                hint='Take naming = "plain" from the upstream, or rename the other tool.',
            )
    return OutwardNames(plain=plain, contracts_by_name=by_name)


def _outward_tool(contract: Contract, plain: str | None) -> str:
    origin = contract.origin
    if origin is None or origin.server != plain or _TOOL_NAME.fullmatch(origin.tool) is None:
        return contract.name
    return origin.tool
