"""The orderly end of a process that is told to end: what runs may end within a limit, and then it is let go.

What is let go is left exactly as a process that was killed leaves it: dispatched, with a lease that nobody renews, for
recovery to find. Nothing is half written, and no state says that the process ended politely.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.engine.keeper import Keeper
from placet.engine.submissions import Submissions
from placet.errors import MisuseError
from placet.model.exact import is_seconds
from placet.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How a drain ended.

    Attributes:
        left: submissions that had not ended in time. Their effects are found by their leases, elsewhere or later.
    """

    left: int


class Drain:
    """Ends the work of one gate."""

    def __init__(self, *, submissions: Submissions, keeper: Keeper, store: Store) -> None:
        self._submissions = submissions
        self._keeper = keeper
        self._store = store

    async def __call__(self, seconds: float) -> DrainReport:
        """Turn new calls away, let those inside end, at most so long, then let go of the others.

        Raises:
            MisuseError: `seconds` is no finite number above zero; nothing was changed.
        """
        if not is_seconds(seconds):
            raise MisuseError("seconds= is a finite number above zero.")
        left = await self._submissions.drain(seconds)
        if left:
            await self._keeper.stop()  # no more signs of life, or others would wait for us
            await self._store.close()  # what an attempt still says is on record nowhere, as after a kill
        return DrainReport(left=left)
