"""The store's verbs over tables: read the rows, let a rule decide, write the rows and the events.

Each function runs inside one exclusive transaction that its caller opens, and commits or, if it raises, rolls back. It
reads and decides first and writes last, so that a refusal leaves nothing behind. A store with other means (one
statement per verb) must answer the same; the conformance suite holds it to that.
"""

from placet.adapters.stores.verbs.approvals import answer, ask, edit, known_approval, retire
from placet.adapters.stores.verbs.archive import hold, lift, purge
from placet.adapters.stores.verbs.credentials import credential_used, put_credentials
from placet.adapters.stores.verbs.grants import add_grant, end_grant, revoke_grant
from placet.adapters.stores.verbs.journal import adopt_key, close_lost_read, record, resume, stop
from placet.adapters.stores.verbs.ledger import (
    begin_probe,
    claim,
    heartbeat,
    owner_died,
    probed_in_vain,
    reconcile,
    settle,
    take_over,
    turn,
    void,
)
from placet.adapters.stores.verbs.reminders import tell_reminder
from placet.adapters.stores.verbs.runs import begin_run, change_run, keep_run, rest_run, take_run
from placet.adapters.stores.verbs.tables import Tables
from placet.adapters.stores.verbs.votes import vote

__all__ = [
    "Tables",
    "add_grant",
    "adopt_key",
    "answer",
    "ask",
    "begin_probe",
    "begin_run",
    "change_run",
    "claim",
    "close_lost_read",
    "credential_used",
    "edit",
    "end_grant",
    "heartbeat",
    "hold",
    "keep_run",
    "known_approval",
    "lift",
    "owner_died",
    "probed_in_vain",
    "purge",
    "put_credentials",
    "reconcile",
    "record",
    "rest_run",
    "resume",
    "retire",
    "revoke_grant",
    "settle",
    "stop",
    "take_over",
    "take_run",
    "tell_reminder",
    "turn",
    "void",
    "vote",
]
