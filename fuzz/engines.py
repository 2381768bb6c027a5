"""Two ways of feeding one target for a while: atheris, led by coverage, and hypothesis where atheris does not exist."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from pathlib import Path
from time import monotonic
from typing import Any

FOUND = 77
"""Exit status of a process that found something, as libFuzzer has it."""
FINDINGS = {FOUND: "FOUND", 70: "TOO SLOW", 71: "TOO LARGE"}
"""Every exit status that means a finding; the others than 0 mean that the fuzzer itself could not run."""

_LONGEST_INPUT_BYTES = 4096
_SLOWEST_INPUT_SECONDS = 60


def atheris_is_installed() -> bool:
    return importlib.util.find_spec("atheris") is not None


def atheris_is_promised() -> bool:
    """Whether requirements/fuzz.txt holds wheels of atheris for this interpreter."""
    return (
        platform.python_implementation() == "CPython"
        and (3, 11) <= sys.version_info[:2] <= (3, 13)
        and sys.platform == "linux"
        and platform.machine() == "x86_64"
    )


def fuzz_with_atheris(name: str, *, seconds: int, seed: int, grown: Path, corpus: Path, findings: Path) -> None:
    """Fuzz until the time is over or something is found; never returns.

    `grown` keeps inputs that reached something new, for the next round; `corpus` is only read.
    """
    atheris: Any = importlib.import_module("atheris")  # ours to import only where it exists
    with atheris.instrument_imports(include=["placet", "fuzz.targets"]):
        from fuzz.targets import TARGETS

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_LONGEST_INPUT_BYTES}",
        f"-timeout={_SLOWEST_INPUT_SECONDS}",
        f"-artifact_prefix={findings}/{name}-",
        f"-seed={seed}",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
        "-use_value_profile=1",
    ]
    words = corpus.parent / f"{name}.dict"
    if words.is_file():
        options.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, str(grown), str(corpus)], TARGETS[name])
    atheris.Fuzz()


def fuzz_with_hypothesis(name: str, *, seconds: int, seed: int, corpus: Path, findings: Path) -> int:
    """Generate inputs, half of them near the corpus, until the time is over or something is found; how many were run.

    The smallest input that fails is kept in `findings`; then what it raised is raised.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    from fuzz.targets import TARGETS

    check = TARGETS[name]
    known = [path.read_bytes() for path in sorted(corpus.iterdir())] or [b""]
    ends_at = monotonic() + seconds
    last = b""
    executed = 0

    def near(parts: tuple[bytes, int, int, bytes]) -> bytes:
        seed_bytes, start, removed, put_in = parts
        start = min(start, len(seed_bytes))
        return seed_bytes[:start] + put_in + seed_bytes[start + removed :]

    inputs = st.binary(max_size=_LONGEST_INPUT_BYTES) | st.tuples(
        st.sampled_from(known), st.integers(0, 400), st.integers(0, 8), st.binary(max_size=8)
    ).map(near)

    @settings(
        max_examples=500,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def one_round(data: bytes) -> None:
        nonlocal last, executed
        last = data
        executed += 1
        check(data)

    for data in known:
        check(data)
    while monotonic() < ends_at:
        seed += 1
        try:
            seeded(seed)(one_round)()
        except BaseException:
            (findings / f"{name}-{seed}").write_bytes(last)
            raise
    return executed


def run(name: str, *, engine: str, **options: Any) -> None:
    """Run one target in this process and end it: status 0, or FOUND."""
    if engine == "atheris":
        fuzz_with_atheris(name, **options)
    importlib.import_module("fuzz.targets")  # what cannot even be imported is no finding
    options.pop("grown")
    try:
        executed = fuzz_with_hypothesis(name, **options)
    except BaseException as fault:
        import traceback

        traceback.print_exception(fault)
        raise SystemExit(FOUND) from None
    print(f"stat::number_of_executed_units: {executed}", flush=True)
