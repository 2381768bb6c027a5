from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upstreams.scene import Server, http_server


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture(params=["handshake", "stateless"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def http(server: Server, era: str) -> Iterator[Server]:
    with http_server(server, era):
        yield server
