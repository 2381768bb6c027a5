"""Speaking to somebody else's system: the process that runs it, and what its client tells the gate.

The client says what it knows about every failure, because the gate decides by that what may be tried again:

    could not connect                      NotSent          nothing left
    400 401 403 404 409 411 413 415 422    ToolRejected     refused, nothing happened
    any other status but 2xx               RemoteStatus     the gate knows its table
    anything after sending                 ConnectionError  may have acted
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import quote, unquote

import httpx

from placet import NotSent, RemoteStatus, ToolRejected

_REFUSALS = frozenset({400, 401, 403, 404, 409, 411, 413, 415, 422})
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_POLL_SECONDS = 0.02


class RemoteProcess:
    """A service in a process of its own. It ends with this process, whatever happens to us.

    Started again after `stop` or `kill`, it keeps its port and, in the same directory, its records.

    Attributes:
        program: the module that is run.
        name: what people call it.
    """

    program: ClassVar[str]
    name: ClassVar[str]

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    def start(self, directory: Path, *, timeout_seconds: float = 10.0) -> str:
        """Start it with its store in `directory` and wait until it listens.

        Returns:
            Its URL.

        Raises:
            RuntimeError: it ended, or did not listen in time; then no process is left.
        """
        if self._process is not None:
            raise RuntimeError(f"The {self.name} is running already; stop it first.")
        directory.mkdir(parents=True, exist_ok=True)
        ready_file = directory / "service.port"
        ready_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", self.program, "--until-stdin-ends"),
                *("--store", str(directory / "service.db"), "--port", str(self._port), "--ready-file", str(ready_file)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            # Ctrl-C on the terminal is ours to handle; the service hears of it from us.
            start_new_session=True,
        )
        try:
            self._port = self._awaited_port(ready_file, timeout_seconds)
        except BaseException:
            self.kill()
            raise
        return self.url

    def stop(self, *, timeout_seconds: float = 5.0) -> None:
        """End it as an operator would (SIGTERM); one that does not end in time is killed."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_seconds)
            self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _awaited_port(self, ready_file: Path, timeout_seconds: float) -> int:
        for _ in range(int(timeout_seconds / _POLL_SECONDS) + 1):
            if ready_file.exists():
                return int(ready_file.read_text(encoding="ascii"))
            if self._process is None or _has_ended(self._process):
                raise RuntimeError(f"The {self.name} ended before it listened.")
        raise RuntimeError(f"The {self.name} did not listen in time.")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for the end of the process."""
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment() -> dict[str, str]:
    """Ours, with the folder of this package first: it runs from the same source as we do."""
    source = str(Path(__file__).resolve().parents[3])
    path = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


class RemoteClient:
    """The service's HTTP interface; use as `async with`, or call `aclose`.

    Every call opens a connection of its own, so that "could not connect" means that nothing was sent.

    Attributes:
        many: the path its records are under.
        name: what people call it.
    """

    many: ClassVar[str]
    name: ClassVar[str]

    def __init__(self, url: str, *, timeout_seconds: float = 5.0) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=timeout_seconds,
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client; it cannot be used afterwards."""
        await self._http.aclose()

    async def count(self) -> int:
        """How many records it holds. Raises as `_sent` does."""
        found = self._members(await self._sent("GET", f"/{self.many}")).get("count")
        if not isinstance(found, int):
            raise self._not_understood()
        return found

    async def records(self) -> list[dict[str, Any]]:
        """The records it holds, oldest first: `id`, `key`, `url` and the record. Raises as `_sent` does."""
        listed = self._members(await self._sent("GET", f"/{self.many}")).get(self.many)
        if not isinstance(listed, list):
            raise self._not_understood()
        return [{**record, "key": unquote(record["key"])} for record in listed]

    async def arrivals(self) -> list[str]:
        """The key of every creation that reached it, in order, acted on or not. Raises as `_sent` does."""
        keys = self._members(await self._sent("GET", "/arrivals")).get("keys")
        if not isinstance(keys, list):
            raise self._not_understood()
        return [unquote(key) for key in keys]

    async def misbehave(self, faults: Mapping[str, Any]) -> None:
        """Set faults, as `placet.demos.remote.service.Faults` describes them. Raises as `_sent` does."""
        await self._sent("POST", "/faults", json=dict(faults))

    async def _created(self, key: str, record: Mapping[str, Any], *, timeout_seconds: float | None) -> dict[str, Any]:
        """Create a record under its key; its members. Raises as `_sent` does."""
        response = await self._sent(
            "POST",
            f"/{self.many}",
            headers={"Idempotency-Key": _wire(key)},
            json=dict(record),
            timeout=httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds,
        )
        return self._members(response)

    async def _under(self, key: str) -> dict[str, Any] | None:
        """The record under a key; None if there is none. Raises as `_sent` does."""
        members = self._members(await self._sent("GET", f"/{self.many}", params={"key": _wire(key)}))
        records = members.get(self.many)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise self._not_understood()
        return records[0] if records else None

    async def _sent(self, method: str, path: str, **content: Any) -> httpx.Response:
        """The one place where the wire's failures become ours.

        Raises:
            NotSent: it could not be reached; nothing happened.
            ToolRejected: it refused; nothing happened.
            RemoteStatus: it answered with another status than success.
            ConnectionError: the answer was lost; it may have acted.
        """
        try:
            response = await self._http.request(method, path, **content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol):
            raise NotSent(f"The {self.name} could not be reached.") from None
        except httpx.HTTPError:
            raise ConnectionError(f"The answer of the {self.name} was lost.") from None
        if response.status_code in _REFUSALS:
            raise ToolRejected(f"The {self.name} refused the request.", status=response.status_code)
        if not response.is_success:
            raise RemoteStatus(response.status_code, retry_after=response.headers.get("Retry-After"))
        return response

    def _members(self, response: httpx.Response) -> dict[str, Any]:
        try:
            found = response.json()
        except ValueError:
            raise self._not_understood() from None
        if not isinstance(found, dict):
            raise self._not_understood()
        return found

    def _not_understood(self) -> ConnectionError:
        # Success was answered, so it may have acted: this must not look like a refusal.
        return ConnectionError(f"The answer of the {self.name} could not be understood.")


def _wire(key: str) -> str:
    """An operation key as a header can carry it; printable ASCII stays as it is, but for the percent sign."""
    return quote(key, safe=_PRINTABLE)
