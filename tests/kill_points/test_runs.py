"""A run whose process dies between any two durable steps: the next process ends it, and each effect happened once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integrations.moments import LONGEST_SECONDS, OF_THE_STORE, all_end_right, ended_right
from tests.integrations.shop import Shop
from tests.postgres.fixtures import Database

SAMPLE = ("store take_run ASK 1", "store answer 1", "store claim 1", "store settle 2")
pytestmark = [
    pytest.mark.req("H051", "X003", "C049"),
    pytest.mark.case("H01", "G09"),
    pytest.mark.timeout(LONGEST_SECONDS + 60),
]


def test_a_run_whose_process_dies_after_any_durable_step_ends_right(tmp_path: Path) -> None:
    """And these are all of them."""
    assert all_end_right(Shop(folder=tmp_path, run="run")) == OF_THE_STORE


def test_so_does_one_on_a_database_where_it_matters_most(tmp_path: Path, databases: Callable[..., Database]) -> None:
    shop = Shop(folder=tmp_path, run="run", store=databases().url)
    assert ended_right(shop, SAMPLE) == set(SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_so_does_one_on_a_database(tmp_path: Path, databases: Callable[..., Database]) -> None:
    assert all_end_right(Shop(folder=tmp_path, run="run", store=databases().url)) == OF_THE_STORE
