"""The public test kit: clocks and ids that tests own, a meter that remembers."""

from placet.testing.fakes import FakeClock, RecordingMeter, SeededIds

__all__ = ["FakeClock", "RecordingMeter", "SeededIds"]
