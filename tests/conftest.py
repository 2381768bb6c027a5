"""What every test may use. Kept light: a fixture here is paid for, or at least read, by all of them."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


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
