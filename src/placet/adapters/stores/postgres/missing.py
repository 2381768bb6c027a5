"""Why a database was not reached, in our words: each cause with its own next step."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_NO_UPGRADE: Final = "rejected SSL upgrade"
_TLS_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_NO_FILE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
_UNREACHABLE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """What is told, before the address, and what to do about it."""

    told: str
    hint: str


_REFUSED_BY_SERVER: Final = {
    "28P01": Miss(
        told="The store refuses the password of this user",
        hint="Check user and password in the store's address, or the password file that PGPASSFILE names; or set "
        "PGPASSWORD.",
    ),
    "28000": Miss(
        told="The store knows no such user, or lets it in from nowhere like here",
        hint="Check the user in the store's address: CREATE ROLE makes one, pg_hba.conf says who comes in from where.",
    ),
    "42704": Miss(
        told="The server does not know an option of the store's address",
        hint="Look at what stands behind the ? in the address; what the driver does not take goes to the server.",
    ),
    "3D000": Miss(
        told="The server has no such database",
        hint="Check the database's name in the store's address; CREATE DATABASE makes one.",
    ),
}
_NOBODY_LISTENS: Final = Miss(
    told="Nothing listens where the store is said to be",
    hint="Is the server started, and is the port right? PostgreSQL's own is 5432.",
)
_NO_SUCH_HOST: Final = Miss(
    told="No host has the name that the store's address says",
    hint="Check how the host is spelt, and this machine's name service.",
)
_NO_SOCKET: Final = Miss(
    told="There is no server's socket where the store is said to be",
    hint="Is the server started? host= names the folder of its socket, and port= its number.",
)
_NO_LEAVE: Final = Miss(
    told="This user may not open the server's socket",
    hint="Get permission for the folder of the socket, or name a host.",
)
_NO_WAY: Final = Miss(
    told="The host of the store cannot be reached from here", hint="Check the network, and the host's address."
)
_NO_TLS: Final = Miss(
    told="The server offers no TLS, and the store's address asks for it",
    hint="Set ssl = on at the server; or say less with sslmode=, where the network itself is trusted.",
)
_NOT_TRUSTED: Final = Miss(
    told="TLS with the server did not come about",
    hint="Is sslrootcert= the authority that signed the server's certificate, and is the host named as it says?",
)
_UNUSABLE: Final = Miss(
    told="The driver cannot use what the store's address says",
    hint="sslmode=verify-ca and verify-full need the authority's certificate: sslrootcert=FILE in the address, or "
    "~/.postgresql/root.crt.",
)
_NO_ANSWER: Final = Miss(
    told="The store did not answer in time",
    hint="Check host and port, the server's load, and the network: a firewall that drops words looks the same.",
)


def refusal_of(code: str) -> Miss | None:
    """Of the server's own word; None for one that is about something else."""
    return _REFUSED_BY_SERVER.get(code) or (_REFUSED_BY_SERVER["28000"] if code[:2] == "28" else None)


def silence_of(fault: BaseException) -> Miss | None:
    """Of a connection that was not made, or is lost; None where nothing more is known."""
    match fault:
        case ConnectionRefusedError():
            return _NOBODY_LISTENS
        case socket.gaierror():
            return _NO_SUCH_HOST
        case asyncpg.ClientConfigurationError():
            return _UNUSABLE
        case ssl.SSLError():
            return _NOT_TRUSTED
        case ConnectionError() if type(fault) is ConnectionError and _NO_UPGRADE in str(fault):
            return _NO_TLS
        case FileNotFoundError():
            return _NO_SOCKET
        case PermissionError():
            return _NO_LEAVE
        case TimeoutError():
            return _NO_ANSWER
        case OSError() if _numbers(fault) == {errno.ECONNREFUSED}:
            return _NOBODY_LISTENS
        case OSError() if _numbers(fault) & _UNREACHABLE:
            return _NO_WAY
        case _:
            return None


def unread_file_of(fault: BaseException, url: str) -> Miss | None:
    """Of a file for TLS that the address or the environment names; the driver says no more of it than of a socket."""
    if not isinstance(fault, _NO_FILE):
        return None
    said = parse_qs(urlsplit(url).query)
    own = [name for name in _TLS_FILES if name in said and not _is_readable(said[name][-1])]
    variables = [(f"PG{name.upper()}", os.environ.get(f"PG{name.upper()}")) for name in _TLS_FILES if name not in said]
    others = [name for name, path in variables if path and not _is_readable(path)]
    if not own and not others:
        return None
    places = [f"{' and '.join(f'{name}=' for name in own)} in the store's address"] if own else []
    places += [f"{' and '.join(others)} in the environment"] if others else []
    return Miss(
        told="A file that TLS with the server needs cannot be read",
        hint=f"Check {', and '.join(places)}: is there such a file, and may this user read it?",
    )


def _is_readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _numbers(fault: OSError) -> set[int]:
    """What went wrong at each address of a host; for several, their numbers stand in the text alone."""
    return {fault.errno} if fault.errno is not None else {int(each) for each in _ERRNO.findall(str(fault))}
