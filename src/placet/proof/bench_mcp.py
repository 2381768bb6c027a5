"""The rows of a bench that say what the gate costs an MCP client: the same call made directly, and through a gateway.

One client holds one session with the server itself and one with a gateway in front of it, each a process of its own,
and calls them in turns; the client is the protocol's own SDK. Where the libraries are not installed, or it is not
served, the rows are missing, with the reason.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from placet.proof.bench_rows import Row, Values
from placet.proof.workloads import NotMeasured

if TYPE_CHECKING:
    from mcp import Client

RATIOS: Final = (
    Row("mcp_to_direct", "MCP call through the gate : made directly, p50", "x", 2),
    Row("mcp_slow_to_direct", "the same, of a tool that takes 50 ms, p50", "x", 2),
)
ABSOLUTES: Final = (
    Row("mcp_direct_p50", "MCP call made directly", "us", 0),
    Row("mcp_direct_p95", "  p95", "us", 0),
    Row("mcp_p50", "MCP call through the gate", "us", 0),
    Row("mcp_p95", "  p95", "us", 0),
)
ROWS: Final = (*RATIOS, *ABSOLUTES)
_SERVED: Final = "placet.serve.measured_mcp"  # by name: it stands further out than this
_WARM_UP: Final = 20
_PATIENCE_SECONDS: Final = 120.0
_SLOW_CALLS: Final = 10
_LIBRARIES: Final = ("fastapi", "mcp", "uvicorn")


def measured(values: Values, *, rounds: int, seconds: float) -> dict[str, str]:
    """Put into its rows what was measured; why each of them is missing, if it is."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    why = f"{', '.join(missing)} is not installed"
    if not missing:
        try:
            with _served("upstream") as direct, _served("through", direct) as through:
                asyncio.run(_rounds(direct, through, values, rounds=rounds, seconds=seconds))
            return {}
        except NotMeasured as wrong:
            why = str(wrong)
    for row in ROWS:
        values[row.name].clear()
    return {row.name: why for row in ROWS}


@contextmanager
def _served(*words: str) -> Iterator[str]:
    """The address of a process that serves meanwhile.

    Raises:
        NotMeasured: it did not come up.
    """
    command = [sys.executable, "-m", _SERVED, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            line = process.stdout.readline().decode().strip() if process.stdout is not None else ""
            if not line.startswith("http://"):
                raise NotMeasured(f"{_SERVED} did not serve")
            yield line
        finally:
            process.kill()


async def _rounds(direct: str, through: str, values: Values, *, rounds: int, seconds: float) -> None:
    from mcp import Client

    failed = False
    try:
        async with (
            asyncio.timeout(_PATIENCE_SECONDS + rounds * seconds),
            Client(direct) as bare,
            Client(through) as gated,
        ):
            for _ in range(_WARM_UP):
                await _both(bare, gated, "nothing")
            for _ in range(rounds):
                await _one_round(bare, gated, values, seconds)
    except NotMeasured:
        raise
    except Exception:  # a group of whatever the SDK raises; what matters is that there is no number
        failed = True
    if failed:
        raise NotMeasured("the calls over MCP were not answered")


async def _one_round(bare: Client, gated: Client, values: Values, seconds: float) -> None:
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 2:
        pairs.append(await _both(bare, gated, "nothing"))
    slow = [await _both(bare, gated, "wait") for _ in range(_SLOW_CALLS)]
    direct, through = ([pair[side] for pair in pairs] for side in (0, 1))
    values["mcp_direct_p50"].append(_percentile(direct, 50) * 1e6)
    values["mcp_direct_p95"].append(_percentile(direct, 95) * 1e6)
    values["mcp_p50"].append(_percentile(through, 50) * 1e6)
    values["mcp_p95"].append(_percentile(through, 95) * 1e6)
    values["mcp_to_direct"].append(values["mcp_p50"][-1] / values["mcp_direct_p50"][-1])
    values["mcp_slow_to_direct"].append(
        _percentile([pair[1] for pair in slow], 50) / _percentile([pair[0] for pair in slow], 50)
    )


async def _both(bare: Client, gated: Client, tool: str) -> tuple[float, float]:
    """Seconds that the call took directly, and through the gate."""
    return await _timed(bare, tool), await _timed(gated, f"bench.{tool}")


async def _timed(client: Client, tool: str) -> float:
    began = time.perf_counter()
    result = await client.call_tool(tool, {})
    took = time.perf_counter() - began
    if result.is_error:
        raise NotMeasured("a call over MCP did not succeed")
    return took


def _percentile(values: list[float], at: int) -> float:
    return quantiles(values, n=100, method="inclusive")[at - 1]
