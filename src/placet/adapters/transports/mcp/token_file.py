"""What an authorization server gave this deployment for one upstream: who we are there, and what lets us in.

A file that only its owner reads; every change replaces it whole. It never holds anything of a caller's. Fulfils the
SDK's `TokenStorage`.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import BaseModel, ValidationError

Record = TypeVar("Record", bound=BaseModel)

_LARGEST: Final = 65_536
_LONGEST_CHALLENGE: Final = 4_096
_OWNERS_ALONE: Final = 0o600
_TURN_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
"""Of this process, by event loop and file."""


class TokenFile:
    """One file. It may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens()

    def tokens(self) -> OAuthToken | None:
        """What lets us in; None where nobody has signed in, or what stands there is none."""
        return _read(OAuthToken, self._facts().get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Letting us in also answers what was missing before."""
        given = tokens.model_dump(mode="json", exclude_none=True)
        self._change(lambda facts: {**facts, "tokens": given, "missing": None})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _read(OAuthClientInformationFull, self._facts().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        client = client_info.model_dump(mode="json", exclude_none=True)
        self._change(lambda facts: {**facts, "client": client})

    def server(self) -> OAuthMetadata | None:
        """What the authorization server said of itself when we signed in; where tokens are refreshed."""
        return _read(OAuthMetadata, self._facts().get("server"))

    def note_server(self, server: OAuthMetadata) -> None:
        said = server.model_dump(mode="json", exclude_none=True)
        self._change(lambda facts: {**facts, "server": said})

    def missing(self) -> str | None:
        """The challenge of an upstream that let us in and wanted more leave for one of its tools."""
        missing = self._facts().get("missing")
        return missing if isinstance(missing, str) else None

    def note_missing(self, challenge: str) -> None:
        """One that is longer than any sound one is not kept: nobody could read the file again."""
        if len(challenge) <= _LONGEST_CHALLENGE and self.missing() != challenge:
            self._change(lambda facts: {**facts, "missing": challenge})

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Nobody else of this deployment replaces tokens while the block lasts. A refresh token is good once: whoever
        shows it a second time is taken for a thief, and everybody is signed out.

        Raises:
            TimeoutError: somebody else takes too long.
        """
        named = (id(asyncio.get_running_loop()), str(self._path))
        lock = _turns.get(named)
        if lock is None:
            lock = _turns[named] = asyncio.Lock()
        async with asyncio.timeout(_TURN_SECONDS), lock:
            with self._opened(".turn") as descriptor:
                while not _is_locked(descriptor):
                    await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=_LOOK_SECONDS)
                yield

    def _change(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replace the file by what is made of it, with nobody in between.

        Raises:
            OSError: it cannot be written, or is there and not one of ours; the old one stands.
        """
        with self._opened(".lock") as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            facts = self._facts()
            if not facts and self._path.exists():
                raise OSError(f"The file of tokens cannot be read: {self._path.name}")
            self._write({name: value for name, value in change(facts).items() if value is not None})

    @contextmanager
    def _opened(self, end: str) -> Iterator[int]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}{end}")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNERS_ALONE)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _facts(self) -> dict[str, Any]:
        """Nothing, where the file is not one of ours: then we are not signed in."""
        try:
            with self._path.open("rb") as file:
                facts = json.loads(file.read(_LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def _write(self, facts: dict[str, Any]) -> None:
        """
        Raises:
            OSError: it cannot be written; the old one stands.
        """
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                os.fchmod(file.fileno(), _OWNERS_ALONE)
                json.dump(facts, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(kind: type[Record], said: object) -> Record | None:
    try:
        return kind.model_validate(said)
    except ValidationError:
        return None
