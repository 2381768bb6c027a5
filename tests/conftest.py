"""What every test may use. Kept light: a fixture here is paid for, or at least read, by all of them."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.places import keep_in_memory

pytest_plugins = ["tests.postgres.fixtures"]

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Where files are kept, and how hard properties are tried: PLACET_PROPERTIES=large for a long run.

    In CI every run tries the same values.
    """
    keep_in_memory()
    from hypothesis import settings

    repeats = bool(os.environ.get("CI"))
    settings.register_profile("small", max_examples=100, deadline=None, derandomize=repeats, print_blob=True)
    settings.register_profile("large", max_examples=5_000, deadline=None, derandomize=repeats, print_blob=True)
    settings.load_profile(os.environ.get("PLACET_PROPERTIES") or "small")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: looking through it for garbage took as long as collecting it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded data that lies beside the checkout, or where PLACET_DATA says.

    Without it the test is skipped, except under PLACET_REQUIRE=all, where nothing may be missing.
    """
    folder = Path(os.environ.get("PLACET_DATA") or REPOSITORY.parent / "shared" / "data")
    if folder.is_dir():
        return folder
    if os.environ.get("PLACET_REQUIRE") == "all":
        pytest.fail(f"PLACET_REQUIRE=all, and there is no shared data at {folder}; set PLACET_DATA")
    pytest.skip(f"no shared data at {folder}; set PLACET_DATA")


@pytest.fixture(scope="session", autouse=True)
def children_can_be_interrupted() -> Iterator[None]:
    """A background job of a shell starts with SIGINT ignored, and every child would inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under PLACET_REQUIRE=all nothing may be absent: whatever would be skipped has failed."""
    report = yield
    if report.skipped and os.environ.get("PLACET_REQUIRE") == "all":
        report.outcome = "failed"
        report.longrepr = f"PLACET_REQUIRE=all, and this was skipped: {report.longrepr}"
    return report
