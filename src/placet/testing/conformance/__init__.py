"""What a store must do to be a placet store: one suite, for ours and for anybody's.

Subclass `StoreConformance` in a test module and give it a fixture `make_store`, a coroutine function that opens an
empty store and answers with a `Subject`. Tests are coroutines (pytest-asyncio in auto mode, or anyio's plugin).

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self): ...

A store is right when every test passes. Nothing here knows how it keeps its rows.
"""

from __future__ import annotations

from placet.testing.conformance.announcing import AnnouncingConformance
from placet.testing.conformance.approvals import ApprovalConformance
from placet.testing.conformance.archiving import ArchiveConformance
from placet.testing.conformance.attempts import AttemptConformance
from placet.testing.conformance.binding import BindingConformance
from placet.testing.conformance.claims import ClaimConformance
from placet.testing.conformance.co_committing import CoCommitConformance
from placet.testing.conformance.credentials import CredentialConformance
from placet.testing.conformance.custody import CustodyConformance
from placet.testing.conformance.driving import DeclaredRunConformance, DrivenRunConformance
from placet.testing.conformance.editing import EditConformance
from placet.testing.conformance.granted_asks import GrantedAskConformance
from placet.testing.conformance.granting import GrantConformance
from placet.testing.conformance.journal import JournalConformance
from placet.testing.conformance.paging import PagingConformance
from placet.testing.conformance.reconciling import ReconcileConformance
from placet.testing.conformance.reminding import ReminderConformance
from placet.testing.conformance.running import RunConformance
from placet.testing.conformance.samples import (
    _BEGINNING,
    A_MAC,
    ANOTHER_MAC,
    EVERY_STATE,
    LEASE_SECONDS,
    PAUSE_SECONDS,
    WINDOW_SECONDS,
    HandlersDatabase,
    HandlersTransaction,
    MakeStore,
    Snapshot,
    Subject,
    a_claim,
    a_forbidden_event,
    a_question,
    a_reconciliation,
    a_settlement,
    a_spend,
    a_step,
    a_turn,
    an_answer,
    an_event,
    claimed,
    decided,
    everything,
    fault_of,
    in_state,
    opened,
    pending,
    settled,
    taken_over,
    the_same_ask,
    unknown,
)
from placet.testing.conformance.stopping import StopConformance
from placet.testing.conformance.tenants import TenantConformance
from placet.testing.conformance.voting import VotingConformance
from placet.testing.conformance.watching import WatchingConformance

__all__ = [
    "ANOTHER_MAC",
    "A_MAC",
    "EVERY_STATE",
    "LEASE_SECONDS",
    "PAUSE_SECONDS",
    "WINDOW_SECONDS",
    "_BEGINNING",
    "HandlersDatabase",
    "HandlersTransaction",
    "MakeStore",
    "Snapshot",
    "StoreConformance",
    "Subject",
    "a_claim",
    "a_forbidden_event",
    "a_question",
    "a_reconciliation",
    "a_settlement",
    "a_spend",
    "a_step",
    "a_turn",
    "an_answer",
    "an_event",
    "claimed",
    "decided",
    "everything",
    "fault_of",
    "in_state",
    "opened",
    "pending",
    "settled",
    "taken_over",
    "the_same_ask",
    "unknown",
]


class StoreConformance(
    ClaimConformance,
    AttemptConformance,
    ReconcileConformance,
    ApprovalConformance,
    VotingConformance,
    WatchingConformance,
    EditConformance,
    BindingConformance,
    JournalConformance,
    PagingConformance,
    RunConformance,
    DeclaredRunConformance,
    DrivenRunConformance,
    CustodyConformance,
    StopConformance,
    TenantConformance,
    ArchiveConformance,
    CredentialConformance,
    GrantConformance,
    GrantedAskConformance,
    AnnouncingConformance,
    ReminderConformance,
    CoCommitConformance,
):
    """The suite. Every test opens its own empty store."""
