"""Which of several processes, with several policies, goes on with a run: the one that has the newer policy.

The active policy decides, and a question that was asked under another one is asked anew. While a deploy is under way
two policies are active, and each would have people asked anew what the other has just asked. So a policy that a run has
left for another does not take it back while somebody may have the other: it waits, each time twice as long. After a
rollback nobody has the other any more, and then it goes on.
"""

from __future__ import annotations

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


def with_policy(policies: tuple[PolicyVersion, ...], version: PolicyVersion) -> tuple[PolicyVersion, ...]:
    """The policies under which a run came to rest, with one more, if it is another one."""
    return policies if policies[-1:] == (version,) else (*policies, version)[-MOST_POLICIES:]


class Precedence:
    """What this process has seen of policies that came after its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newer: dict[PolicyVersion, None] = {}
        self._seen: dict[tuple[str, str, int], float] = {}

    def waits_seconds(self, row: RunCheckpoint, resting: Resting, mine: PolicyVersion, *, is_due: bool) -> float | None:
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
            return seconds
        now, name = self._clock.monotonic(), (row.tenant, str(row.run_id), row.state_version)
        left = self._seen.setdefault(name, now) + seconds - now
        if left <= 0.0:
            del self._seen[name]
            return None
        while len(self._seen) > _MOST_SEEN:
            self._seen.pop(next(iter(self._seen)))
        return left
