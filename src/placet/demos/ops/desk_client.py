"""Speaking to the ticket desk: the process that runs it, and the client that the agent's tool uses.

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
from typing import Any
from urllib.parse import quote, unquote

import httpx

from placet import NotSent, RemoteStatus, ToolRejected
from placet.demos.ops.contracts import TicketDraft, TicketReceipt

_REFUSALS = frozenset({400, 401, 403, 404, 409, 411, 413, 415, 422})
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_POLL_SECONDS = 0.02


class DeskProcess:
    """A desk in a process of its own. It ends with this process, whatever happens to us.

    Started again after `stop` or `kill`, it keeps its port and, in the same directory, its tickets.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where the desk listens, once started."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    def start(self, directory: Path, *, timeout_seconds: float = 10.0) -> str:
        """Start the desk with its store in `directory` and wait until it listens.

        Returns:
            Its URL.

        Raises:
            RuntimeError: it ended, or did not listen in time; then no process is left.
        """
        if self._process is not None:
            raise RuntimeError("The ticket desk is running already; stop it first.")
        directory.mkdir(parents=True, exist_ok=True)
        ready_file = directory / "desk.port"
        ready_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "placet.demos.ops.desk", "--until-stdin-ends"),
                *("--store", str(directory / "desk.db"), "--port", str(self._port), "--ready-file", str(ready_file)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            # Ctrl-C on the terminal is ours to handle; the desk hears of it from us.
            start_new_session=True,
        )
        try:
            self._port = self._awaited_port(ready_file, timeout_seconds)
        except BaseException:
            self.kill()
            raise
        return self.url

    def stop(self, *, timeout_seconds: float = 5.0) -> None:
        """End the desk as an operator would (SIGTERM); one that does not end in time is killed."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_seconds)
            self.kill()

    def kill(self) -> None:
        """End the desk at once (SIGKILL)."""
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
                raise RuntimeError("The ticket desk ended before it listened.")
        raise RuntimeError("The ticket desk did not listen in time.")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for the end of the process."""
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment() -> dict[str, str]:
    """Ours, with the folder of this package first: the desk runs from the same source as we do."""
    source = str(Path(__file__).resolve().parents[3])
    path = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


class DeskClient:
    """The desk's HTTP interface; use as `async with`, or call `aclose`.

    Every call opens a connection of its own, so that "could not connect" means that nothing was sent.
    """

    def __init__(self, url: str, *, timeout_seconds: float = 5.0) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=timeout_seconds,
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> DeskClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client; it cannot be used afterwards."""
        await self._http.aclose()

    async def create(self, key: str, ticket: TicketDraft, *, timeout_seconds: float | None = None) -> TicketReceipt:
        """Create the ticket, or get the one this key made before.

        Args:
            timeout_seconds: how long to wait for the desk; the client's own patience if absent.

        Raises:
            NotSent: the desk could not be reached; nothing happened.
            ToolRejected: the desk refused; nothing happened.
            RemoteStatus: the desk answered with another status than success.
            ConnectionError: the answer was lost; the ticket may exist.
        """
        response = await self._sent(
            "POST",
            "/tickets",
            headers={"Idempotency-Key": _wire(key)},
            json=ticket.model_dump(mode="json"),
            timeout=httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds,
        )
        return _receipt(key, _members(response))

    async def find(self, key: str) -> TicketReceipt | None:
        """Look up what became of a key; None if the desk holds nothing under it. Raises as `create` does."""
        members = _members(await self._sent("GET", "/tickets", params={"key": _wire(key)}))
        tickets = members.get("tickets")
        if not isinstance(tickets, list):
            raise _not_understood()
        return _receipt(key, tickets[0]) if tickets else None

    async def count(self) -> int:
        """How many tickets the desk holds. Raises as `create` does."""
        found = _members(await self._sent("GET", "/tickets")).get("count")
        if not isinstance(found, int):
            raise _not_understood()
        return found

    async def tickets(self) -> list[dict[str, Any]]:
        """The tickets the desk holds, oldest first: `id`, `key`, `url` and `ticket`. Raises as `create` does."""
        listed = _members(await self._sent("GET", "/tickets")).get("tickets")
        if not isinstance(listed, list):
            raise _not_understood()
        return [{**ticket, "key": unquote(ticket["key"])} for ticket in listed]

    async def arrivals(self) -> list[str]:
        """The key of every creation that reached the desk, in order, acted on or not. Raises as `create` does."""
        keys = _members(await self._sent("GET", "/arrivals")).get("keys")
        if not isinstance(keys, list):
            raise _not_understood()
        return [unquote(key) for key in keys]

    async def misbehave(self, faults: Mapping[str, Any]) -> None:
        """Set faults, as `placet.demos.ops.desk.Faults` describes them. Raises as `create` does."""
        await self._sent("POST", "/faults", json=dict(faults))

    async def _sent(self, method: str, path: str, **content: Any) -> httpx.Response:
        """The one place where the wire's failures become ours."""
        try:
            response = await self._http.request(method, path, **content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol):
            raise NotSent("The ticket desk could not be reached.") from None
        except httpx.HTTPError:
            raise ConnectionError("The answer of the ticket desk was lost.") from None
        if response.status_code in _REFUSALS:
            raise ToolRejected("The ticket desk refused the request.", status=response.status_code)
        if not response.is_success:
            raise RemoteStatus(response.status_code, retry_after=response.headers.get("Retry-After"))
        return response


def _wire(key: str) -> str:
    """An operation key as a header can carry it; printable ASCII stays as it is, but for the percent sign."""
    return quote(key, safe=_PRINTABLE)


def _members(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        raise _not_understood() from None
    if not isinstance(found, dict):
        raise _not_understood()
    return found


def _receipt(key: str, members: Mapping[str, Any]) -> TicketReceipt:
    try:
        return TicketReceipt(
            ticket_id=members["id"], url=members["url"], created=members.get("created", False), operation_key=key
        )
    except (KeyError, TypeError, ValueError):
        raise _not_understood() from None


def _not_understood() -> ConnectionError:
    # Success was answered, so it may have acted: this must not look like a refusal.
    return ConnectionError("The answer of the ticket desk could not be understood.")
