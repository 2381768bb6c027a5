"""Of the suite on a server `make test` runs where several act at once; all of it runs there on the other two stores."""

from __future__ import annotations

from pathlib import Path

import pytest

ON_A_SERVER = Path(__file__).with_name("test_postgres.py")
SEVERAL = "at_once"
"""In the name of each test that shows what a server decides for several."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path == ON_A_SERVER and SEVERAL not in item.name:
            item.add_marker("exhaustive")
