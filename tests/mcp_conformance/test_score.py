"""The official conformance suite against the gateway: in front of a server that has one of everything, and behind it.

Slow: sixty server scenarios and seventy client scenarios, each a conversation of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mcp_conformance import suite
from tests.places import for_sockets

HERE = Path(__file__).parent
UNSCORED = tomllib.loads((HERE / "unscored.toml").read_text(encoding="utf-8"))
NEVER_EXCUSED = (
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "sep-2322-",
    "auth/resource-mismatch",
    "auth/iss-",
)
END_SECONDS = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def the_suite() -> None:
    if not suite.is_there():
        pytest.skip("no conformance suite: make mcp-conformance")


@contextmanager
def process(*arguments: str) -> Iterator[str]:
    """A program of ours, and the first line it prints."""
    running = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True, cwd=suite.REPOSITORY
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline().strip()
        assert line, "it ended before it began"
        yield line
    finally:
        running.terminate()
        try:
            running.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        if running.stdout is not None:
            running.stdout.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gateway")
    with (
        process("tests.mcp_conformance.everything") as upstream,
        process("tests.mcp_conformance.gateway", str(folder), upstream) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def driver() -> Iterator[list[str]]:
    """The command that the suite starts for each scenario."""
    place = for_sockets() / f"placet-conformance-{id(object())}.sock"
    with process("tests.mcp_conformance.driving", str(place)) as socket:
        yield [sys.executable, "-I", "-S", str(HERE / "command.py"), socket]
    place.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("revision", "count"), [("2026-07-28", 37), ("2025-11-25", 30)], ids=["stateless", "handshake"]
)
def test_every_required_server_scenario_passes_through_the_gateway(
    gateway: str, tmp_path: Path, revision: str, count: int
) -> None:
    required = suite.required(revision, "Server")
    seen = suite.server(gateway, revision, output=tmp_path)
    missed = [name for name in required if name not in seen.passed]
    seen = suite.asked_again(seen, missed, url=gateway, revision=revision, output=tmp_path)
    assert len(required) == count
    assert set(required) - seen.passed == set(), seen.report
    assert set(seen.failures) - seen.passed == set(UNSCORED["server"][revision])


@pytest.mark.parametrize(
    ("revision", "count"), [("2026-07-28", 32), ("2025-11-25", 18)], ids=["stateless", "handshake"]
)
def test_every_required_client_scenario_passes_on_the_gateways_other_side(
    driver: list[str], tmp_path: Path, revision: str, count: int
) -> None:
    required = suite.required(revision, "Client")
    seen = suite.client(driver, revision, output=tmp_path)
    missed = [name for name in required if name not in seen.passed]
    seen = suite.asked_again(seen, missed, url=None, command=driver, revision=revision, output=tmp_path)
    assert len(required) == count
    assert set(required) - seen.passed == set(), seen.report
    assert set(seen.failures) - seen.passed == set(UNSCORED["client"][revision])


def test_what_protects_somebody_is_never_excused() -> None:
    excused = {name for side in UNSCORED.values() for names in side.values() for name in names}
    assert not [name for name in excused if name.startswith(NEVER_EXCUSED)]


def test_every_excuse_says_why() -> None:
    reasons = [reason for side in UNSCORED.values() for names in side.values() for reason in names.values()]
    assert all(len(reason) > 10 for reason in reasons)
