"""`[serve]` of placet.toml: where `placet serve` listens, and as whom the world knows it.

Closed as the rest of the file. `--host` and `--port` come before it; `placet serve --dev` goes by none of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from placet.cli.members import Members, checked
from placet.model.serving import Certificate, Listening, Place, ResumedTraces
from placet.rules import serving as rules

_MEMBERS: Final = (
    "host",
    "port",
    "public_url",
    "trusted_proxies",
    "certificate",
    "certificate_key",
    "metrics",
    "mcp",
    "mcp_audience",
    "mcp_resumed_traces",
)


_LONGEST_PORT: Final = 5
_LAST_PORT: Final = 65_535


def listening_of(table: object, *, file: Path | None, folder: Path) -> Listening:
    """What the table says, with the defaults where it says nothing.

    Raises:
        ConfigProblem: a member is not known, not of its kind, or cannot be used.
    """
    if table is None:
        return Listening()
    said = Members(table, "[serve]", file)
    said.refuse_unknown(_MEMBERS)
    usual = Listening()
    found = Listening(
        host=said.text("host") or usual.host,
        port=usual.port if said.table.get("port") is None else _port(said, "port", said.table["port"]),
        public_url=said.text("public_url"),
        trusted_proxies=said.texts("trusted_proxies"),
        certificate=_certificate(said, folder),
        metrics_at=_place(said, "metrics"),
        mcp=_yes(said, "mcp"),
        mcp_audience=said.text("mcp_audience"),
        mcp_resumed_traces=_resumed_traces(said),
    )
    checked("[serve]", file, lambda: rules.require_sound(found))
    return found


def _resumed_traces(said: Members) -> ResumedTraces:
    text = said.text("mcp_resumed_traces")
    if text is None:
        return ResumedTraces.SAME_TRACE
    if text not in (known := [each.value for each in ResumedTraces]):
        said.fail("mcp_resumed_traces", " or ".join(f'"{each}"' for each in known))
    return ResumedTraces(text)


def _certificate(said: Members, folder: Path) -> Certificate | None:
    chain, key = said.text("certificate"), said.text("certificate_key")
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        said.fail("certificate", "a file, together with certificate_key; both of them or neither")
    return Certificate(chain=folder / chain, key=folder / key)


def _place(said: Members, name: str) -> Place | None:
    text = said.text(name)
    if text is None:
        return None
    found = place_in(text)
    if found is None:
        said.fail(name, 'an address and a port, such as "127.0.0.1:9464"')
    return found


def place_in(text: str) -> Place | None:
    """An address and a port, written with a colon between them; None where it is none."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or len(port) > _LONGEST_PORT or int(port) > _LAST_PORT:
        return None
    return Place(host=host.removeprefix("[").removesuffix("]"), port=int(port))


def _yes(said: Members, name: str) -> bool:
    value = said.table.get(name, False)
    if type(value) is bool:
        return value
    said.fail(name, "true or false")


def _port(said: Members, name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= _LAST_PORT:
        return value
    said.fail(name, "a whole number from 0, which lets the system choose, to 65535")
