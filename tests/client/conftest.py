"""The client against a real server on loopback, with and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import pytest

from placet.client import AsyncClient, Client, Retries
from placet.serve.http_server import HttpServer, listening_socket
from tests.http_api.conftest import Api, MakeApi, api, make_api

__all__ = ["api", "make_api"]
QUICK = Retries(count=2, longest_seconds=0.01)


class Asking:
    """One kind of client; the synchronous one works in a thread, as its program would."""

    def __init__(self, client: AsyncClient | Client) -> None:
        self._client = client

    def answered_at_now(self) -> datetime | None:
        return self._client.answered_at

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(self._client, Client):
                return await asyncio.to_thread(method, *args, **kwargs)
            return await method(*args, **kwargs)

        return call


class Served:
    """One API and its address."""

    def __init__(self, api: Api, url: str, kind: type[AsyncClient | Client], opened: AsyncExitStack) -> None:
        self.api = api
        self.url = url
        self._kind = kind
        self._opened = opened

    def as_(self, token: str, *, url: str | None = None) -> Asking:
        asking = Asking(self._kind(url or self.url, token=token, retries=QUICK))
        self._opened.push_async_callback(asking.close)
        return asking


@pytest.fixture(params=[AsyncClient, Client], ids=["async", "sync"])
async def served(request: pytest.FixtureRequest, make_api: MakeApi) -> AsyncIterator[Served]:
    api = await make_api()
    server = HttpServer(api.app, listening_socket("127.0.0.1", 0), grace_seconds=1.0)
    await server.start()
    async with AsyncExitStack() as opened:
        opened.push_async_callback(server.stop)
        yield Served(api, server.url, request.param, opened)
