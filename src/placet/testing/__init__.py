"""The public test kit: clocks and ids that tests own, a meter that remembers, values that are hostile."""

from placet.testing.fakes import FakeClock, RecordingMeter, SeededIds
from placet.testing.hostile import HostileValues

__all__ = ["FakeClock", "HostileValues", "RecordingMeter", "SeededIds"]
