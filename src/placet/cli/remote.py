"""A server instead of this folder's store: `--server URL --token-file FILE`. Nothing of the project is read then."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from placet.cli.failing import ConfigProblem, UsageProblem
from placet.cli.screen import Screen
from placet.errors import NotFound, PlacetError
from placet.rules.addresses import shown_word

if TYPE_CHECKING:
    from placet.client import AsyncClient, Client

Opened = TypeVar("Opened")

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_LARGEST = 16_384
_IN_ADDRESS = re.compile(r"[A-Za-z0-9._~-]+")
_DIGEST_LENGTH = 64
_HOW_TO_GET = "It holds one line, and only you may read it: an agent's API key, or a token that a person's issuer gave."


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where to ask, and the file that holds what to sign in with."""

    url: str
    token_file: Path

    @property
    def flags(self) -> str:
        """What a next step has to name as well, to be about the same server."""
        return f" --server {shlex.quote(self.url)} --token-file {shlex.quote(str(self.token_file))}"

    def connect(self) -> Client:
        """
        Raises:
            ConfigurationError: it is no address that a credential is sent to, or there is no credential.
        """
        from placet.client import Client

        return Client(self.url, token=_token(self.token_file))

    def open(self) -> AsyncClient:
        """The same for an event loop. Raises what `connect` raises."""
        from placet.client import AsyncClient

        return AsyncClient(self.url, token=_token(self.token_file))


def server_of(url: str | None, token_file: str | None, *, local: Mapping[str, str | None]) -> Server | None:
    """What the flags name.

    Args:
        local: what flags say about the store here, by the name of the setting.

    Raises:
        UsageProblem: one of them without the other, or with a flag about the store here.
    """
    if url is None and token_file is None:
        return None
    if url is None or token_file is None:
        raise UsageProblem("--server and --token-file go together")
    given = ", ".join(f"--{name}" for name, value in local.items() if value is not None)
    if given:
        raise UsageProblem(
            f"A server has its own store, key, policy and project: {given} says nothing to it",
            hint="Leave it out, or leave out --server to ask the store here.",
        )
    return Server(url=url, token_file=Path(token_file))


@asynccontextmanager
async def there(server: Server, made: Callable[[AsyncClient], Opened]) -> AsyncIterator[Opened]:
    """What asks the server, made over a client that is open for as long as this lasts."""
    async with server.open() as client:
        yield made(client)


def required_id(said: str, what: str, *, hint: str = "") -> str:
    """What was typed, as it stands in an address.

    Raises:
        NotFound: it is the id of nothing: nothing of a server is at an address that has to be spelled otherwise.
    """
    if _IN_ADDRESS.fullmatch(said) is not None and said.strip("."):
        return said
    raise NotFound(f"There is no such {what} in your tenant.", hint=hint)


def whole_digest(said: str) -> str:
    """As long as digests are: the beginning of another one stays another, and is refused by the server, on record."""
    return said.ljust(_DIGEST_LENGTH, "0")


def here_only(server: Server | None, what: str, hint: str) -> None:
    """
    Raises:
        UsageProblem: a server is named, and this it cannot be asked for.
    """
    if server is not None:
        raise UsageProblem(f"{what} is asked of the store here, not of a server", hint=hint)


def told_at(client: AsyncClient | Client) -> datetime:
    """When the last answer was given: by the server's clock, or by this host's where it does not say so."""
    from placet.bootstrap.surroundings import system_clock

    return client.answered_at or system_clock().now()


@contextmanager
def told_if_cut(screen: Screen, server: Server | None, look: str) -> Iterator[None]:
    """Around what changes something: where nobody heard how it ended, that is told, and how to look.

    Args:
        look: the command that shows how it stands.
    """
    try:
        yield
    except KeyboardInterrupt:
        if server is not None:
            screen.warn("placet: cut off; whether it was done is not known")
            screen.warn(f"  look: {look}")
        raise
    except PlacetError as error:
        if server is not None and error.may_have_acted:
            error.hint = f"Whether it was done is not known. Look before you repeat it: {look}"
        raise


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
        raise ConfigProblem(
            f"The token file is absent, empty or unreadable: {where}", code="token_missing", hint=_HOW_TO_GET
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigProblem(
            f"The token file can be read by others: {where}", code="token_exposed", hint=f"chmod 600 {where}"
        )
    text = raw.decode("ascii", "replace").strip()
    if _TOKEN.fullmatch(text) is None:
        raise ConfigProblem(f"The token file holds no token: {where}", code="token_malformed", hint=_HOW_TO_GET)
    return text
