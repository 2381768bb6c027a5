"""Which words are the URL of a store in a database, and how much of it may be shown.

A URL may hold a password. Whatever cannot be read as one without doubt is refused, and is never repeated: an unescaped
slash in a password would otherwise end the host's name in the middle of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from placet.errors import ConfigurationError

SCHEMA: Final = "placet"
"""The PostgreSQL schema of a store whose URL names none."""
_SCHEMES: Final = ("postgresql://", "postgres://")
_OWN_OPTION: Final = "placet_schema"
_HOW: Final = (
    "Write it as postgresql://USER@HOST:PORT/DATABASE. In a user or password write / as %2F, ? as %3F, # as %23, "
    "@ as %40 and : as %3A."
)
_PARTS: Final = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^/?#@\s\\]*)@)?(?P<hosts>[^/?#@\s\\]*)"
    r"(?:/(?P<database>[^/?#@:;=&\s\\]*))?(?:\?(?P<options>[^?#@\s\\]*))?"
)
_HOST: Final = re.compile(r"(?:\[[:.%\w]+\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_HOST_NAME: Final = re.compile(r"/?[^\x00-\x20\\@:?#=&;%\[\],]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+(?:%\w+)?")
_DATABASE_NAME: Final = re.compile(r"[^\x00\\/@:?#=&;%]*")
"""What a host and a database are once they are read: nothing that might be a user's name or a password."""
_PORT: Final = re.compile(r"[0-9]{1,5}")
_SCHEMA_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TLS_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_NOT_TAKEN: Final = (
    "channel_binding", "client_encoding", "connect_timeout", "fallback_application_name", "gssencmode", "hostaddr",
    "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts", "replication",
    "require_auth", "requirepeer", "sslcertmode", "sslcompression", "sslsni", "tcp_user_timeout",
)  # fmt: skip
"""What libpq takes and the driver here would hand on to the server, which does not know it."""
_MOST_READINGS: Final = 4
_ANY_URL: Final = re.compile(
    r"\s*(?:jdbc:)?(?:[A-Za-z][A-Za-z0-9+.-]+:/|postgres(?:ql)?[^/\s]*:)|.*://"  # a collapsed one too
    r"|(?:.*\s)?(?:host|hostaddr|port|dbname|user|service)\s*="
    r"|.*(?:password|passwd|passfile|pwd)\s*=|.*:.*@",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A server, or the folder of its socket; without a port, the driver's own is taken."""

    name: str
    port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAddress:
    """Where a store in a database is.

    Attributes:
        url: as drivers read it, with whatever lets one in; it is not shown to anybody.
        shown: hosts, ports and database alone.
        hosts: the servers it names, in its order; none where the driver's own is meant.
        schema: the PostgreSQL schema that holds the tables.
    """

    url: str = field(repr=False)
    shown: str
    hosts: tuple[Host, ...]
    schema: str


def names_database(where: object) -> bool:
    """Whether a store is named by what begins as the URL of a PostgreSQL database does, and not by a path."""
    return type(where) is str and where.startswith(_SCHEMES)


def is_other_url(where: object) -> bool:
    """Whether it is the URL of something else, or a connection string: no path, and not to be repeated."""
    return not names_database(where) and any(map(_ANY_URL.match, _unescaped(str(where))))


def _unescaped(text: str) -> list[str]:
    """A text as it is, and as it is read once, twice and so on, as often as it might be."""
    readings = [text]
    while len(readings) < _MOST_READINGS and (read := unquote(readings[-1])) != readings[-1]:
        readings.append(read)
    return readings


def refuse_other_url(where: object) -> None:
    """What looks like a URL or a connection string is no path, and may hold a password: it is not repeated.

    Raises:
        ConfigurationError: it is one, and none of a database known here.
    """
    if is_other_url(where):
        raise ConfigurationError(
            "The store is a URL that is not known here.",
            hint="Write a database as postgresql://USER@HOST:PORT/DATABASE, and a file as its path.",
        )
    if str(where) == ":memory:":  # to SQLite a store of each connection's own
        raise ConfigurationError(
            "The store is named by a word of SQLite's, and not by a path.",
            hint='The store that forgets everything with its process is placet.MEMORY, written "memory:".',
        )


def may_be_address(word: object) -> bool:
    """Whether it is, or looks like, the address of something, and so may hold a password."""
    return names_database(word) or is_other_url(word)


def shown_word(word: str) -> str:
    """A word of somebody's as a message may repeat it: of what may be an address, nothing."""
    return "..." if may_be_address(word) else word


def database_address(where: str, *, other_host: str = "") -> DatabaseAddress:
    """Read a URL: `postgresql://USER@HOST:PORT/DATABASE`, as libpq reads it, and `placet_schema=NAME` in its options.

    Args:
        other_host: what the environment names (PGHOST), for a URL that names none; the driver dials it.

    Raises:
        ConfigurationError: it cannot be read without doubt. The message does not repeat it.
    """
    parts = _PARTS.fullmatch(where)
    options = None if parts is None else _options(parts["options"])
    if parts is None or options is None or "\0" in unquote(where):
        raise ConfigurationError("The store's address cannot be read as a PostgreSQL URL.", hint=_HOW)
    authority = _said_once("host", parts["hosts"], [value for name, value in options if name == "host"])
    database = _said_once(
        "database",
        unquote(parts["database"] or ""),
        [value for name, value in options if name in ("dbname", "database")],
    )
    ports = _said_once("port", "", [value for name, value in options if name == "port"])
    authority = authority or other_host
    if not (_are_hosts(authority) and _DATABASE_NAME.fullmatch(database) and _are_ports(ports, options, authority)):
        raise ConfigurationError("The store's address cannot be read as a PostgreSQL URL.", hint=_HOW)
    _refuse_options(options)
    schemas = [value for name, value in options if name == _OWN_OPTION] or [SCHEMA]
    if any(name.startswith("placet") and name != _OWN_OPTION for name, _ in options):
        raise ConfigurationError(
            "The store's address has an option that is not known here.", hint="It is placet_schema=."
        )
    if len(schemas) > 1:
        raise ConfigurationError("The store's address has placet_schema= more than once.", hint="Say it once.")
    if _SCHEMA_NAME.fullmatch(schemas[-1]) is None:
        raise ConfigurationError(
            "placet_schema= is a name of ASCII letters, digits and underscores.",
            hint="Such as placet_schema=my_ledger.",
        )
    if schemas[-1].startswith("pg_"):
        raise ConfigurationError(
            "placet_schema= is a name that PostgreSQL keeps for itself.",
            hint="Choose one that does not begin with pg_.",
        )
    user = "" if parts["user"] is None else f"{parts['user']}@"
    path = "" if parts["database"] is None else f"/{parts['database']}"
    rest = urlencode([(name, value) for name, value in options if name != _OWN_OPTION], quote_via=quote, safe="/")
    shown_database = path if path not in ("", "/") else f"/{database}" if database else path
    return DatabaseAddress(
        url=f"postgresql://{user}{parts['hosts']}{path}" + (f"?{rest}" if rest else ""),
        shown=f"postgresql://{authority or 'localhost'}{shown_database}",
        hosts=_hosts(authority, ports),
        schema=schemas[-1],
    )


def _refuse_options(options: list[tuple[str, str]]) -> None:
    """Raises:
    ConfigurationError: one is not taken here, or says what it cannot say. Its value is not repeated.
    """
    for name, value in options:
        if name == "sslmode" and value not in _TLS_MODES:
            raise ConfigurationError(
                "The store's address has an sslmode that is not known.", hint=f"It is one of {', '.join(_TLS_MODES)}."
            )
        if name in _NOT_TAKEN:
            raise ConfigurationError(
                f"The store's address has an option that is not taken here: {name}", hint="Leave it out."
            )


def _options(text: str | None) -> list[tuple[str, str]] | None:
    try:
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
    except ValueError:
        return None


def _said_once(what: str, before: str, behind: list[str]) -> str:
    """What stands before the ? or behind it.

    Raises:
        ConfigurationError: it stands in two places: the driver would take one of them, and who reads it the other.
    """
    said = [*([before] if before else []), *behind]
    if len(said) > 1:
        raise ConfigurationError(f"The store's address names its {what} twice.", hint="Name it in one place.")
    return said[0] if said else ""


def _are_hosts(authority: str) -> bool:
    return not authority or all(
        each and _is_host(each) and _HOST_NAME.fullmatch(_host(each).name) for each in authority.split(",")
    )


def _are_ports(text: str, options: list[tuple[str, str]], authority: str) -> bool:
    """One for all hosts, or one for each."""
    if not any(name == "port" for name, _ in options):
        return True
    several = text.split(",")
    return len(several) in (1, len(authority.split(","))) and all(map(_is_port, several))


def _hosts(authority: str, port: str) -> tuple[Host, ...]:
    """Ports by their places, or one for all."""
    named = [_host(each) for each in authority.split(",") if each]
    ports = [int(each) for each in port.split(",") if each]
    if len(ports) == 1:
        ports *= len(named)
    others = [*ports, *[None] * len(named)]
    return tuple(Host(name=host.name, port=host.port or port) for host, port in zip(named, others, strict=False))


def _host(text: str) -> Host:
    name, mark, port = text.rpartition(":")
    if mark and port.isdecimal():
        return Host(name=unquote(name).strip("[]"), port=int(port))
    return Host(name=unquote(text).strip("[]"), port=None)


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and (found["port"] is None or _is_port(found["port"]))


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and 0 < int(text) < 65_536
