"""Rows to values and back, one module for each subject."""

from placet.adapters.stores.rows.approvals import (
    approval_change,
    approval_from,
    approval_row,
    edit_row,
    waiting_mark_from,
)
from placet.adapters.stores.rows.archive import hold_from, old_rows_from, tombstone_from, tombstone_row
from placet.adapters.stores.rows.credentials import credential_from, credential_row
from placet.adapters.stores.rows.effects import (
    effect_change,
    effect_from,
    effect_or_broken,
    effect_row,
    unknown_effects_from,
)
from placet.adapters.stores.rows.grants import grant_from, grant_revocation, grant_row
from placet.adapters.stores.rows.instants import instant, microseconds, place_of, place_of_event
from placet.adapters.stores.rows.journal import (
    event_from,
    head_from,
    key_uses_from,
    mac_from,
    mac_text,
    old_run_or_broken,
    run_from,
    stop_record_from,
    unchained_from,
)
from placet.adapters.stores.rows.reminders import reminder_row, told_from, waiting_from
from placet.adapters.stores.rows.runs import (
    RUNS_LEFT,
    checkpoint_change,
    checkpoint_from,
    checkpoint_row,
    run_change,
    run_note_from,
    run_or_broken,
    run_row,
    runs_of,
    served_text,
    standings_from,
)
from placet.adapters.stores.rows.votes import vote_from, vote_row

__all__ = [
    "RUNS_LEFT",
    "approval_change",
    "approval_from",
    "approval_row",
    "checkpoint_change",
    "checkpoint_from",
    "checkpoint_row",
    "credential_from",
    "credential_row",
    "edit_row",
    "effect_change",
    "effect_from",
    "effect_or_broken",
    "effect_row",
    "event_from",
    "grant_from",
    "grant_revocation",
    "grant_row",
    "head_from",
    "hold_from",
    "instant",
    "key_uses_from",
    "mac_from",
    "mac_text",
    "microseconds",
    "old_rows_from",
    "old_run_or_broken",
    "place_of",
    "place_of_event",
    "reminder_row",
    "run_change",
    "run_from",
    "run_note_from",
    "run_or_broken",
    "run_row",
    "runs_of",
    "served_text",
    "standings_from",
    "stop_record_from",
    "told_from",
    "tombstone_from",
    "tombstone_row",
    "unchained_from",
    "unknown_effects_from",
    "vote_from",
    "vote_row",
    "waiting_from",
    "waiting_mark_from",
]
