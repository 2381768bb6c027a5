"""Which of several processes, with several policies, goes on with a run: the one that has the newer policy.

The active policy decides, and a question that was asked under another one is asked anew. While a deploy is under way
two policies are active, and each would have people asked anew what the other has just asked. So a policy that a run has
left for another does not take it back while somebody may have the other: it waits, each time twice as long. After a
rollback nobody has the other any more, and then it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from placet.engine.checkpoints import Resting
from placet.model.identifiers import PolicyVersion
from placet.model.run import RunCheckpoint
from placet.ports.clock import Clock

MOST_POLICIES: Final = 16
_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3_600.0
_MOST_SEEN: Final = 5_000
_MOST_NEWER: Final = 64
_SWEEP_SECONDS: Final = 10.0
_FORGOTTEN_SECONDS: Final = 300.0
"""Whoever drives looks at what is due every minute, or more often."""
Name = tuple[str, str, int]
"""Tenant, run, and how often it has been laid down."""


def with_policy(policies: tuple[PolicyVersion, ...], version: PolicyVersion) -> tuple[PolicyVersion, ...]:
    """The policies under which a run came to rest, with one more, if it is another one."""
    return policies if policies[-1:] == (version,) else (*policies, version)[-MOST_POLICIES:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """A run is left to those who have its newer policy, for so long from now on.

    Attributes:
        is_noted_in_the_row: that it is, because this process remembers no more of them: it is due again after that.
    """

    seconds: float
    is_noted_in_the_row: bool = False


class Precedence:
    """What this process has seen of policies that came after its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newer: dict[PolicyVersion, None] = {}
        self._seen: dict[Name, tuple[float, float]] = {}
        self._swept_at = 0.0

    @property
    def has_met_a_newer(self) -> bool:
        """Whether any run has left this process's policy for another one."""
        return bool(self._newer)

    def patience(self, row: RunCheckpoint, resting: Resting, mine: PolicyVersion, *, is_due: bool) -> Patience | None:
        """How long this process leaves the run to those who have its newer policy; None if it may go on.

        It is counted from when it was first seen due here: whoever has that policy would have gone on with it by then.
        """
        policies = resting.policies or (row.policy_version,)
        last = policies[-1]
        if mine == last:
            return None
        if mine in policies:
            self._newer[last] = None
            while len(self._newer) > _MOST_NEWER:
                self._newer.pop(next(iter(self._newer)))
        elif last not in self._newer:
            return None
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** max(0, len(policies) - 2))
        if not is_due:
            return Patience(seconds=seconds)
        now, name = self._clock.monotonic(), (row.tenant, str(row.run_id), row.state_version)
        if name not in self._seen and not self._has_room(now):
            return Patience(seconds=seconds, is_noted_in_the_row=True)
        first, _ = self._seen.get(name, (now, now))
        left = first + seconds - now
        if left <= 0.0:
            del self._seen[name]
            return None
        self._seen[name] = (first, now)
        return Patience(seconds=left)

    def _has_room(self, now: float) -> bool:
        """None that is waited for is forgotten for another one, or with very many each would be begun anew for ever.

        Those that nobody has seen due for long have gone on.
        """
        if len(self._seen) >= _MOST_SEEN and now - self._swept_at >= _SWEEP_SECONDS:
            self._swept_at = now
            self._seen = {name: seen for name, seen in self._seen.items() if now - seen[1] < _FORGOTTEN_SECONDS}
        return len(self._seen) < _MOST_SEEN
