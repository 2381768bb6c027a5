"""What holds where nobody has said otherwise, and how a setting is given."""

from __future__ import annotations

from typing import Any

import pytest

from placet import GateSettings


def test_a_setting_is_given_by_its_name() -> None:
    by_place: Any = GateSettings
    with pytest.raises(TypeError):
        by_place(5.0)


def test_an_unknown_effect_is_looked_at_twenty_times_before_it_is_left_to_people() -> None:
    assert GateSettings().max_probes == 20


def test_as_many_wait_and_are_kept_ready_as_the_settings_say() -> None:
    assert (GateSettings().max_waiting, GateSettings().max_processes, GateSettings().spare_processes) == (256, 8, 1)
