"""What an upstream says of its tools, what was accepted of it, and how the two differ.

the server describes ── Definition ── accepted by a person ── Pin
described anew       ── equal: the tool goes on   ── other: Drift, the tool is quarantined   ── new: it is hidden
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from placet.model.identifiers import Digest
from placet.model.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool as its server describes it. All of it is somebody else's text.

    Attributes:
        tool: the server's own name of it, exactly.
        annotations: hints of the server; they may only raise risk and effect.
        binding: of an HTTP service: method, path and how each argument travels; empty for MCP. It decides meaning too.
    """

    server: str
    tool: str
    title: str | None
    description: str | None
    input_schema: JsonObject = field(hash=False)
    output_schema: JsonObject | None = field(hash=False)
    annotations: JsonObject = field(default_factory=dict, hash=False)
    binding: JsonObject = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A definition that a person has accepted.

    Attributes:
        digest: of the definition's canonical form (`rules/pins.definition_digest`).
        accepted_by: the person's subject.
        mac, key_id: over all of the above, with the key of this purpose.
    """

    definition: Definition
    digest: Digest
    accepted_by: str
    accepted_at: datetime
    mac: str
    key_id: str


class PinFault(StrEnum):
    """Why an entry of the pin file, or all of it, is not believed.

    unreadable: it is no entry, or no such file. other_key: this deployment has no key that could have signed it, so it
    was accepted elsewhere, or under a key that was retired since. altered: it is not what was signed.
    """

    UNREADABLE = "unreadable"
    OTHER_KEY = "other_key"
    ALTERED = "altered"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoiltPin:
    """An entry that is there and not believed: its tool is neither seen nor called."""

    server: str
    tool: str
    fault: PinFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """All that was accepted.

    Attributes:
        pins: by server id and the server's own name of the tool.
        spoilt: entries that are not believed.
        fault: why the whole file is not believed; then there are no pins. None also where there is no file.
    """

    pins: Mapping[tuple[str, str], Pin] = field(default_factory=dict, hash=False)
    spoilt: tuple[SpoiltPin, ...] = ()
    fault: PinFault | None = None

    def of(self, server: str) -> Mapping[str, Pin]:
        """What was accepted of one server, by the server's own names."""
        return {tool: pin for (name, tool), pin in self.pins.items() if name == server}


class PinState(StrEnum):
    """How a tool of an upstream stands."""

    ACCEPTED = "accepted"
    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    QUARANTINED = "quarantined"
    NO_TERMS = "no_terms"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A server describes a tool otherwise than it was accepted.

    Attributes:
        name: of the tool's contract.
        pin: the accepted digest; seen: the digest now.
        described: what it says now; of a tool that it describes twice, one of the two; None where it is no definition.
    """

    server: str
    tool: str
    name: str
    pin: Digest
    seen: Digest
    described: Definition | None = field(default=None, repr=False)
