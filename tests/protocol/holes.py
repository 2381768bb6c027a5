"""Every rule left out once, in the smallest world where that breaks something; and what it breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.protocol.model import Broken, Doubt, Rule, World


@dataclass(frozen=True, kw_only=True)
class Hole:
    """`world` has all rules; without `rule` it breaks `breaks`. `name` is unique and short.

    Attributes:
        not_promised: what the world breaks even with all rules, because it does not keep what a promise assumes.
        refused: the first step of the shortest way that the real engine does not take; empty where it takes all of
            them, and what the rule demands shows in the audit, or in what callers are told.
    """

    name: str
    rule: Rule
    world: World
    breaks: Broken
    not_promised: frozenset[Broken] = frozenset()
    refused: str = ""

    @property
    def open_world(self) -> World:
        """The world without the rule."""
        return replace(self.world, off=frozenset({self.rule}))


IN_DOUBT = World(loses_answers=True)
TWO = World(workers=2, horizon=5)
KEYED = World(attempts=2, honours_key=True)

HOLES = (
    Hole(name="no_guard", rule=Rule.GUARD, world=World(), breaks=Broken.SILENT, refused="worker 0: sends"),
    Hole(
        name="no_guard_twice",
        rule=Rule.GUARD,
        world=World(workers=2, horizon=3),
        breaks=Broken.TWICE,
        refused="worker 0: sends",
    ),
    Hole(
        name="window_from_answer",
        rule=Rule.WINDOW_FROM_SUBMISSION,
        world=World(),
        breaks=Broken.SILENT,
        refused="worker 0: passes its guard",
    ),
    Hole(
        name="no_quiet",
        rule=Rule.QUIET,
        world=World(),
        breaks=Broken.SILENT,
        refused="look 0: settles (reconciled_absent)",
    ),
    Hole(
        name="look_before_quiet",
        rule=Rule.QUIET_AT_START,
        world=World(),
        breaks=Broken.SILENT,
        refused="look 0: settles (reconciled_absent)",
    ),
    Hole(
        name="quiet_too_short",
        rule=Rule.QUIET_WHOLE,
        world=World(lease=1, window=1),
        breaks=Broken.SILENT,
        refused="look 0: settles (reconciled_absent)",
    ),
    Hole(
        name="attempt_that_nothing_ends",
        rule=Rule.ENDED,
        world=World(pause=None, ends_by_itself=False),
        breaks=Broken.SILENT,
        refused="look 0: settles (reconciled_absent)",
    ),
    Hole(
        name="settle_without_state",
        rule=Rule.SETTLE_STATE,
        world=World(),
        breaks=Broken.STALE,
        refused="worker 0: settles (answered)",
    ),
    Hole(
        name="settle_without_fence",
        rule=Rule.SETTLE_FENCE,
        world=TWO,
        breaks=Broken.STALE,
        refused="worker 0: settles (answered)",
    ),
    Hole(
        name="doubt_by_owner",
        rule=Rule.CLAIM_TOKEN,
        world=World(workers=2, loses_answers=True, one_owner=True, doubt=Doubt.OWNER, horizon=1),
        breaks=Broken.TWICE,
        refused="worker 0: finds its owner's name",
    ),
    Hole(
        name="doubt_by_fresh_token",
        rule=Rule.CLAIM_TOKEN,
        world=IN_DOUBT,
        breaks=Broken.TOLD_NOT_RUN,
        refused="worker 0: gives up",
    ),
    Hole(
        name="late_claim_without_fence",
        rule=Rule.CLAIM_FENCE,
        world=World(loses_answers=True, lands_late=True, refuses=True, horizon=4),
        breaks=Broken.CLAIM_TWICE,
        refused="worker 0: late claim lands",
    ),
    Hole(
        name="not_run_without_void",
        rule=Rule.VOID,
        world=World(loses_answers=True, lands_late=True, crowded=True, horizon=4),
        breaks=Broken.TOLD_NOT_RUN,
    ),
    Hole(
        name="retry_in_the_head",
        rule=Rule.TURN,
        world=replace(KEYED, horizon=5),
        breaks=Broken.SILENT,
        refused="look 0: begins",
    ),
    Hole(
        name="retry_after_stop",
        rule=Rule.TURN_STOP,
        world=replace(KEYED, stops=True),
        breaks=Broken.AFTER_STOP,
        refused="worker 0: turns",
    ),
    Hole(
        name="refused_after_doubt",
        rule=Rule.ALL_ATTEMPTS,
        world=replace(KEYED, refuses=True),
        breaks=Broken.SILENT,
    ),
    Hole(name="take_over_leaves_open", rule=Rule.TAKE_OVER_CLOSES, world=World(), breaks=Broken.LEFT_OPEN),
    Hole(
        name="completed_without_change",
        rule=Rule.COMPLETED_WITH_CHANGE,
        world=World(),
        breaks=Broken.CLOSED_TWICE,
    ),
    Hole(
        name="completed_again_in_doubt",
        rule=Rule.COMPLETED_WITH_CHANGE,
        world=World(loses_answers=True, lease=9),
        breaks=Broken.CLOSED_TWICE,
        refused="worker 0: settles (refused)",
    ),
    Hole(
        name="stop_under_a_snapshot",
        rule=Rule.STOP_LOCK,
        world=World(stops=True, reads_early=True),
        breaks=Broken.AFTER_STOP,
        refused="worker 0: claims (answered)",
    ),
    Hole(
        name="clocks_of_hosts",
        rule=Rule.DATABASE_CLOCK,
        world=World(worker_clock=-2),
        breaks=Broken.SILENT,
        refused="look 0: begins",
    ),
    Hole(
        name="absence_unproven",
        rule=Rule.PROVEN_ABSENCE,
        world=World(workers=2, arrival=None, horizon=3),
        breaks=Broken.TWICE,
        refused="worker 1: begins",
        not_promised=frozenset({Broken.SILENT}),
    ),
    Hole(
        name="approval_of_another_dispatch",
        rule=Rule.APPROVAL_DISPATCH,
        world=World(workers=2, approvals=2),
        breaks=Broken.OTHER_DISPATCH,
        refused="worker 1: begins",
    ),
    Hole(
        name="co_commit_without_fence",
        rule=Rule.CO_COMMIT_FENCE,
        world=World(co_commit=True),
        breaks=Broken.SILENT,
    ),
    Hole(
        name="co_commit_in_part",
        rule=Rule.CO_COMMIT_WHOLE,
        world=World(co_commit=True),
        breaks=Broken.LEFT_OPEN,
    ),
)
REDUNDANT = {
    Rule.RECONCILE_FENCE: "a look that began after the quiet end of one fence is no look at a later one",
    Rule.LATE_WORD: "it lets a true word be heard; without it the row stays unknown, which is safe",
}
"""Rules without which nothing breaks, as long as the others hold."""
