"""A server instead of this folder's store: `--server URL --token-file FILE`. Nothing of the project is read then."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.failing import ConfigProblem, UsageProblem
from placet.rules.addresses import shown_word

if TYPE_CHECKING:
    from placet.client import Client

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_LARGEST = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where to ask, and the file that holds what to sign in with."""

    url: str
    token_file: Path

    def connect(self) -> Client:
        """
        Raises:
            ConfigurationError: it is no address that a credential is sent to, or there is no credential.
        """
        from placet.client import Client

        return Client(self.url, token=_token(self.token_file))


def server_of(url: str | None, token_file: str | None) -> Server | None:
    """What the flags name.

    Raises:
        UsageProblem: one of them without the other.
    """
    if url is None and token_file is None:
        return None
    if url is None or token_file is None:
        raise UsageProblem("--server and --token-file go together")
    return Server(url=url, token_file=Path(token_file))


def _token(file: Path) -> str:
    """
    Raises:
        ConfigProblem: the file is absent, can be read by others, or holds no token; it is not repeated.
    """
    where = shown_word(str(file))
    try:
        with file.open("rb") as opened:
            mode = file.stat().st_mode
            raw = opened.read(_LARGEST)
    except (OSError, ValueError):
        mode, raw = 0, b""
    if not raw:
        raise ConfigProblem(f"The token file is absent, empty or unreadable: {where}", code="token_missing")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigProblem(
            f"The token file can be read by others: {where}", code="token_exposed", hint=f"chmod 600 {where}"
        )
    text = raw.decode("ascii", "replace").strip()
    if _TOKEN.fullmatch(text) is None:
        raise ConfigProblem(f"The token file holds no token: {where}", code="token_malformed")
    return text
