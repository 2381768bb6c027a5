"""The public test kit: clocks and ids that tests own, a meter that remembers, values that are hostile, a remote system
that counts what really happened."""

from placet.testing.fakes import FakeClock, FixedSignIn, RecordingMeter, SeededIds, SessionsInMemory
from placet.testing.hostile import HostileValues
from placet.testing.sentinel import Sentinel, SentinelClient, SentinelFailed
from placet.testing.sentinel_manners import Manner, SentinelRules

__all__ = [
    "FakeClock",
    "FixedSignIn",
    "HostileValues",
    "Manner",
    "RecordingMeter",
    "SeededIds",
    "Sentinel",
    "SentinelClient",
    "SentinelFailed",
    "SentinelRules",
    "SessionsInMemory",
]
