"""Why an unknown effect waits, from when "absent" is believed, and what each person may say of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import placet
from placet import Principal, Remote
from placet.model.contract import Contract
from placet.model.effect import Effect, EffectState
from placet.model.ledger import Claimed
from placet.rules.transitions import apply_claim
from placet.rules.unknowns import Absence, UnknownReason, WaitingEffect, unknown_reason, waiting_effect
from placet.testing.conformance import a_claim

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
UPDATED_AT = NOW - timedelta(seconds=90)
PROBE_AFTER = NOW + timedelta(seconds=7)
PAUSE_SECONDS, BOUND_SECONDS = 5.0, 2.0
SEND_BY = NOW - timedelta(seconds=PAUSE_SECONDS + BOUND_SECONDS)
"""As late as it can be for quiet to end at NOW itself."""

PAULA = Principal.person("paula", tenant="acme", scopes=("effects.reconcile",))
NORA = Principal.person("nora", tenant="acme", scopes=("effects.read",))
BOT = Principal.agent("bot", tenant="acme", scopes=("effects.reconcile",))


def contract(*, probe: Any = None, remote: Remote | None = None) -> Contract:
    async def pay(order: str) -> str:
        return "paid"

    return placet.tool(effect="write", risk="low", permission="p", probe=probe, remote=remote)(pay).contract


async def a_probe(key: str) -> None: ...


PROBED, UNPROBED = contract(probe=a_probe), contract()


def an_unknown(**changes: Any) -> Effect:
    claimed = apply_claim(None, a_claim(), now=NOW)
    assert isinstance(claimed, Claimed)
    unknown: dict[str, Any] = {
        "state": EffectState.UNKNOWN,
        "subject": "agent-1",
        "updated_at": UPDATED_AT,
        "send_by": SEND_BY,
        "arrival_bound_seconds": BOUND_SECONDS,
        "probe_after": PROBE_AFTER,
    }
    return replace(claimed.effect, **(unknown | changes))


def waiting(effect: Effect | None = None, of: Contract | None = PROBED, **changes: Any) -> WaitingEffect:
    given: dict[str, Any] = {"now": NOW + TICK, "max_probes": 3, "pause_seconds": PAUSE_SECONDS} | changes
    return waiting_effect(effect or an_unknown(), of, given.pop("person", PAULA), **given)


def test_everything_is_said_of_an_effect_that_may_be_settled() -> None:
    effect = an_unknown()

    assert waiting(effect) == WaitingEffect(
        effect=effect,
        age_seconds=90.000001,
        reason=UnknownReason.NOT_PROBED,
        next_probe_at=PROBE_AFTER,
        absence=Absence.BELIEVABLE,
        absent_after=NOW,
        may_act_twice=True,
        requested_by=("agent-1",),
        why_not_committed=None,
        why_not_absent=None,
    )


# ---------------------------------------------------------------- why it waits


@pytest.mark.parametrize(
    ("of", "probes", "reason"),
    [
        (None, 0, "not_here"),
        (None, 3, "not_here"),
        (UNPROBED, 0, "no_probe"),
        (UNPROBED, 3, "no_probe"),
        (PROBED, 0, "not_probed"),
        (PROBED, 1, "cannot_tell"),
        (PROBED, 2, "cannot_tell"),
        (PROBED, 3, "gave_up"),
        (PROBED, 4, "gave_up"),
    ],
    ids=lambda value: value if isinstance(value, str | int) else "none" if value is None else "contract",
)
def test_the_reason_says_who_has_to_look_and_only_a_probe_has_a_next_time(
    of: Contract | None, probes: int, reason: str
) -> None:
    found = waiting(an_unknown(probes=probes), of)

    assert unknown_reason(of, probes=probes, max_probes=3).value == reason
    assert found.reason.value == reason
    assert found.next_probe_at == (PROBE_AFTER if reason in ("not_probed", "cannot_tell") else None)


def test_with_no_looks_allowed_a_probe_has_given_up_before_it_began() -> None:
    assert unknown_reason(PROBED, probes=0, max_probes=0) is UnknownReason.GAVE_UP


def test_a_probe_without_an_appointment_is_due_now() -> None:
    now = NOW + timedelta(hours=1)

    assert waiting(an_unknown(probe_after=None), now=now).next_probe_at == now


def test_the_words_are_these_for_they_are_labels_and_answers_of_the_commands() -> None:
    assert [reason.value for reason in UnknownReason] == [
        "no_probe", "not_here", "not_probed", "cannot_tell", "gave_up"
    ]  # fmt: skip
    assert [absence.value for absence in Absence] == ["believable", "too_early", "attempt_open"]


@pytest.mark.parametrize(
    ("offset", "age"),
    [(timedelta(0), 0.0), (timedelta(seconds=1.5), 1.5), (-timedelta(seconds=3), 0.0), (timedelta(seconds=0.5), 0.5)],
)
def test_an_age_is_counted_from_the_last_change_and_is_never_negative(offset: timedelta, age: float) -> None:
    assert waiting(now=UPDATED_AT + offset).age_seconds == age


@pytest.mark.parametrize(
    ("of", "twice"),
    [(None, None), (UNPROBED, True), (contract(remote=Remote(honours_key=True)), False)],
    ids=["not_here", "unproven", "honours_key"],
)
def test_whether_it_might_act_twice_is_for_the_contract_to_say(of: Contract | None, twice: bool | None) -> None:
    assert waiting(of=of).may_act_twice is twice


# ---------------------------------------------------------------- when absence is believed


@pytest.mark.req("H045")
@pytest.mark.parametrize(
    ("offset", "absence", "why_not"),
    [
        (-TICK, Absence.TOO_EARLY, "too_early_for_absent"),
        (timedelta(0), Absence.TOO_EARLY, "too_early_for_absent"),
        (TICK, Absence.BELIEVABLE, None),
    ],
)
def test_absence_is_believed_of_a_look_strictly_after_the_quiet_end(
    offset: timedelta, absence: Absence, why_not: str | None
) -> None:
    found = waiting(now=NOW + offset)

    assert (found.absence, found.absent_after) == (absence, NOW)
    assert (found.why_not_absent, found.why_not_committed) == (why_not, None)


@pytest.mark.req("H045")
def test_while_the_attempt_may_go_on_nobody_can_say_from_when() -> None:
    open_attempt = an_unknown(ends_by_itself=False, attempt_ended_at=None)
    found = waiting(open_attempt, now=NOW + timedelta(days=3650))

    assert (found.absence, found.absent_after) == (Absence.ATTEMPT_OPEN, None)
    assert (found.why_not_absent, found.why_not_committed) == ("too_early_for_absent", None)


# ---------------------------------------------------------------- who may say so

ASKED_FOR = {"for itself": "agent-1", "for paula": '["production", "agent-1", "paula"]', "paula's": "paula"}


@pytest.mark.parametrize(
    ("whose", "person", "why_not_committed", "why_not_absent"),
    [
        ("for itself", PAULA, None, None),
        ("for paula", PAULA, None, "own_request"),
        ("paula's", PAULA, None, "own_request"),
        ("for itself", NORA, "scope_missing", "scope_missing"),
        ("for itself", BOT, "not_a_person", "not_a_person"),
        ("for itself", replace(BOT, scopes=frozenset()), "not_a_person", "not_a_person"),
        ("paula's", replace(PAULA, scopes=frozenset()), "scope_missing", "scope_missing"),
    ],
)
def test_presence_needs_a_person_with_the_scope_and_absence_one_who_did_not_ask_for_it(
    whose: str, person: Principal, why_not_committed: str | None, why_not_absent: str | None
) -> None:
    found = waiting(an_unknown(subject=ASKED_FOR[whose]), person=person)

    assert (found.why_not_committed, found.why_not_absent) == (why_not_committed, why_not_absent)


def test_that_it_is_ones_own_request_is_said_before_that_it_is_too_early() -> None:
    found = waiting(an_unknown(subject=ASKED_FOR["for paula"]), now=NOW)

    assert found.requested_by == ("agent-1", "paula")
    assert (found.absence, found.why_not_absent) == (Absence.TOO_EARLY, "own_request")
