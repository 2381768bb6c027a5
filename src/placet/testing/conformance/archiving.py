"""Forgetting: what is old and finished goes, its name stays, and nothing that is held, changed or needed is touched."""

# ruff: noqa: S101, S106 - a conformance suite asserts, and its tokens are no secrets

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.audit import ChainTombstone, EventKind
from placet.model.credentials import CredentialChange
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import ApprovalId, CallId, Digest, RunId, Token
from placet.model.ledger import Claimed, Held, Moved, OverBudget
from placet.model.retention import (
    ChainCut,
    FinishedKind,
    Grave,
    Hold,
    Kept,
    OldApproval,
    OldRows,
    OldRun,
    Purge,
    tenant_hold,
)
from placet.testing.conformance.credentials import a_credential
from placet.testing.conformance.samples import (
    ANOTHER_MAC,
    LEASE_SECONDS,
    MakeStore,
    Subject,
    a_claim,
    a_forbidden_event,
    a_reconciliation,
    a_settlement,
    a_step,
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
)

_DAYS = timedelta(days=90)
_MARK = b"sealed mark"
_PAY = FinishedKind(tenant="acme", tool="pay")
_TOLD = (an_event(EventKind.RECORDS_PURGED),)


def a_grave(effect: Effect, **changes: Any) -> Grave:
    grave = Grave(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        state=effect.state,
        fence=effect.fence,
        updated_at=effect.updated_at,
        sealed_mark=_MARK,
    )
    return replace(grave, **changes)


def a_purge(subject: Subject, **changes: Any) -> Purge:
    return replace(Purge(holds=frozenset(), idle_before=subject.clock.now(), events=_TOLD), **changes)


def a_hold(subject: Subject, scope: str = "all") -> Hold:
    return Hold(scope=scope, held_by="mara", held_at=subject.clock.now())


async def in_effect_state(subject: Subject, key: str, state: EffectState) -> Effect:
    """An effect brought into the state by the verbs that lead there; its fence is 1."""
    effect = await claimed(subject, key, token=f"token-{key}")
    match state:
        case EffectState.DISPATCHED:
            return effect
        case EffectState.COMMITTED | EffectState.FAILED:
            return await settled(subject, effect, state)
        case _:
            subject.clock.advance(LEASE_SECONDS)
            effect = await taken_over(subject, effect)
    if state is EffectState.UNKNOWN:
        return effect
    subject.clock.advance(3_600.0)
    answer = await subject.store.reconcile(a_reconciliation(effect, state, looked_at=subject.clock.now()))
    assert isinstance(answer, Moved), answer
    return answer.effect


_FINISHED = (
    EffectState.COMMITTED,
    EffectState.FAILED,
    EffectState.RECONCILED_COMMITTED,
    EffectState.RECONCILED_ABSENT,
)


class ArchiveConformance:
    """All of a purge, or nothing of it."""

    async def old(self, subject: Subject, *, limit: int = 99, skip: int = 0) -> list[str]:
        """The keys of what is finished and older than 90 days."""
        before = subject.clock.now() - _DAYS
        found = await subject.store.finished(_PAY, before=before, limit=limit, skip=skip)
        return [effect.operation_key for effect in found]

    # ------------------------------------------------------------ operations

    async def test_what_is_finished_and_old_is_listed_oldest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for state in (*_FINISHED, EffectState.DISPATCHED, EffectState.UNKNOWN):
            await in_effect_state(subject, state.value, state)
        assert await subject.store.finished_kinds() == (_PAY,)
        last = await subject.store.effect("acme", a_claim("reconciled_absent").operation_key)
        assert last is not None
        newest = last.updated_at
        subject.clock.advance((newest + _DAYS - subject.clock.now()).total_seconds())
        assert await self.old(subject) == ["committed", "failed", "reconciled_committed"], "not at its very instant"
        subject.clock.advance(1.0)
        assert await self.old(subject) == [state.value for state in _FINISHED]
        assert await self.old(subject, limit=2, skip=1) == ["failed", "reconciled_committed"]
        counted = await subject.store.old_rows(Kept.OPERATIONS, before=subject.clock.now(), kind=_PAY)
        assert counted.count == 4 and counted.oldest_at is not None and counted.oldest_at < newest

    async def test_each_tenant_and_tool_is_a_kind_of_its_own(self, make_store: MakeStore) -> None:
        subject = await make_store()
        assert await subject.store.finished_kinds() == ()
        for tenant, tool in (("other", "pay"), ("acme", "look"), ("acme", "pay")):
            effect = await claimed(subject, "k-" + tool, tenant=tenant, tool=tool, token=f"t-{tenant}-{tool}")
            await settled(subject, effect)
        kinds = (FinishedKind(tenant="acme", tool="look"), _PAY, FinishedKind(tenant="other", tool="pay"))
        assert await subject.store.finished_kinds() == kinds
        later = subject.clock.now() + _DAYS
        for kind in kinds:
            (found,) = await subject.store.finished(kind, before=later, limit=9)
            assert isinstance(found, Effect) and (found.tenant, found.tool) == (kind.tenant, kind.tool)

    async def test_a_purged_operation_keeps_its_name_and_its_end_and_loses_what_it_said(
        self, make_store: MakeStore
    ) -> None:
        for state in _FINISHED:
            subject = await make_store()
            effect = await in_effect_state(subject, "key-1", state)
            subject.clock.advance(_DAYS.total_seconds())
            assert await subject.store.purge(a_purge(subject, graves=(a_grave(effect),)))
            rest = await subject.store.effect("acme", effect.operation_key)
            assert rest is not None and rest.is_purged
            assert (rest.sealed_arguments, rest.sealed_result, rest.external_reference) == (_MARK, None, None)
            kept = ("fingerprint", "tool", "subject", "state", "fence", "attempts", "token", "argument_digest",
                    "result_digest", "reason", "created_at", "updated_at", "run_id", "call_id")  # fmt: skip
            assert {name: getattr(rest, name) for name in kept} == {name: getattr(effect, name) for name in kept}
            assert await subject.told() and (await subject.told())[-1] == "records_purged"
            assert await subject.store.finished_kinds() == ()
            listed = await subject.store.effects(tenant="acme", states=(state,), limit=9)
            assert listed == (rest,)
            assert (await subject.verified()).holds

    async def test_a_purged_operation_never_looks_new(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for key, state in (("done", EffectState.COMMITTED), ("failed", EffectState.FAILED)):
            effect = await in_effect_state(subject, key, state)
            assert await subject.store.purge(a_purge(subject, graves=(a_grave(effect),)))
        new = a_claim("done", token="token-2")
        assert isinstance(await subject.store.claim(new), Held)
        assert isinstance(await subject.store.claim(replace(new, expected_fence=1)), Held), "never run again"
        failed = a_claim("failed", token="token-3")
        assert isinstance(await subject.store.claim(failed), Held), "it is not the first dispatch"
        other = replace(failed, expected_fence=1, fingerprint=Digest("e" * 64))
        assert isinstance(await subject.store.claim(other), Held), "it names the same call for ever"
        again = await subject.store.claim(replace(failed, expected_fence=1))
        assert isinstance(again, Claimed) and (again.effect.fence, again.effect.attempts) == (2, 2)
        assert again.effect.owner == "owner-1" and again.effect.sealed_arguments == b"sealed arguments"
        assert not again.effect.is_purged

    async def test_a_settle_whose_answer_was_lost_is_answered_after_the_purge_too(self, make_store: MakeStore) -> None:
        subject = await make_store()
        effect = await claimed(subject)
        done = await settled(subject, effect)
        assert await subject.store.purge(a_purge(subject, graves=(a_grave(done),)))
        answer = await subject.store.settle(a_settlement(effect))
        assert isinstance(answer, Moved) and not answer.is_news
        assert not await subject.store.void("acme", effect.operation_key, effect.token), "the claim had landed"

    async def test_what_is_not_finished_is_never_purged(self, make_store: MakeStore) -> None:
        for state in [EffectState.DISPATCHED, EffectState.UNKNOWN]:
            subject = await make_store()
            effect = await in_effect_state(subject, "key-1", state)
            before = await everything(subject)
            assert not await subject.store.purge(a_purge(subject, graves=(a_grave(effect),)))
            assert await everything(subject) == before

    async def test_one_row_that_moved_keeps_all_of_them(self, make_store: MakeStore) -> None:
        subject = await make_store()
        done = await in_effect_state(subject, "done", EffectState.COMMITTED)
        failed = await in_effect_state(subject, "failed", EffectState.FAILED)
        again = await subject.store.claim(a_claim("failed", token="token-2", fence=1))
        assert isinstance(again, Claimed)
        before = await everything(subject)
        for seen in (failed, replace(done, fence=2), replace(done, state=EffectState.FAILED)):
            assert not await subject.store.purge(a_purge(subject, graves=(a_grave(done), a_grave(seen))))
        moved = a_grave(done, updated_at=done.updated_at - timedelta(seconds=1))
        assert not await subject.store.purge(a_purge(subject, graves=(moved,)))
        unknown_one = a_grave(done, operation_key="no-such-key")
        assert not await subject.store.purge(a_purge(subject, graves=(a_grave(done), unknown_one)))
        assert await everything(subject) == before
        purge = a_purge(subject, graves=(a_grave(done),))
        assert await subject.store.purge(purge)
        assert not await subject.store.purge(purge), "once is enough"

    async def test_an_event_that_may_not_be_written_keeps_everything(self, make_store: MakeStore) -> None:
        subject = await make_store()
        done = await in_effect_state(subject, "done", EffectState.COMMITTED)
        for index in range(3):
            await subject.store.record((an_event(attempt=index + 1),))
        events = await subject.events()
        before = await everything(subject)
        cut = a_cut(events[0].writer, 1, events[1].sequence, events[1].link)
        for purge in (
            a_purge(subject, graves=(a_grave(done),), runs=(OldRun(tenant="acme", run_id=RunId("run-1"), steps=1),)),
            a_purge(subject, cut=cut),
        ):
            subject.clock.advance(1.0)
            forbidden = replace(purge, idle_before=subject.clock.now(), events=(a_forbidden_event(),))
            assert await fault_of(subject.store.purge(forbidden)) is not None
            assert await everything(subject) == before
            assert await subject.store.tombstones() == ()

    # ------------------------------------------------------------ runs, approvals, tokens

    async def test_an_idle_run_is_forgotten_with_its_steps_and_refusals(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for index in (1, 2):
            await subject.store.record((an_event(),), step=a_step(f"call-{index}", max_steps=2), denies_tool="pay")
        full = await subject.store.record((an_event(),), step=a_step("call-3", max_steps=2))
        assert isinstance(full, OverBudget)
        idle_since = subject.clock.now()
        assert await subject.store.old_runs(before=idle_since, limit=9) == ()
        subject.clock.advance(1.0)
        (old,) = await subject.store.old_runs(before=subject.clock.now(), limit=9)
        assert old == OldRun(tenant="acme", run_id=RunId("run-1"), steps=2)
        assert await subject.store.old_runs(before=subject.clock.now(), limit=9, skip=1) == ()
        assert not await subject.store.purge(a_purge(subject, runs=(old,), idle_before=idle_since)), "not idle so long"
        assert not await subject.store.purge(a_purge(subject, runs=(replace(old, steps=1),))), "it went on"
        assert await subject.store.purge(a_purge(subject, runs=(old,)))
        assert not await subject.store.purge(a_purge(subject, runs=(old,)))
        anew = a_step("call-1", subject="agent-2", max_steps=1, max_denials=1)
        await subject.store.record((an_event(),), step=anew, denies_tool="pay")
        beyond = replace(anew, call_id=CallId("call-2"))
        assert isinstance(await subject.store.record((an_event(),), step=beyond), OverBudget), "counted from one"

    async def test_a_run_that_goes_on_is_not_old_however_long_ago_it_began(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((an_event(),), step=a_step("call-1"))
        subject.clock.advance(_DAYS.total_seconds())
        before = subject.clock.now()
        await subject.store.record((an_event(),), step=a_step("call-2"))
        assert await subject.store.old_runs(before=before, limit=9) == ()
        counted = await subject.store.old_rows(Kept.RUNS, before=before)
        assert counted == OldRows(count=0, oldest_at=None)

    async def test_a_closed_approval_is_forgotten_once_its_clock_has_run_out(self, make_store: MakeStore) -> None:
        for state in [ApprovalState.SPENT, ApprovalState.REVOKED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN]:
            subject = await make_store()
            approval = await in_state(subject, state)
            ends_at = approval.question.decide_by
            if approval.answer is not None:
                ends_at = max(ends_at, approval.answer.expires_at)
            old = OldApproval(tenant="acme", approval_id=approval.question.approval_id)
            before = await everything(subject)
            subject.clock.advance((ends_at - subject.clock.now()).total_seconds() - 0.001)
            (listed,) = await subject.store.old_approvals(before=subject.clock.now(), limit=9)
            assert listed == approval
            assert not await subject.store.purge(a_purge(subject, approvals=(old,))), (
                "it could still be put back and used"
            )
            assert await everything(subject) == before
            subject.clock.advance(0.001)
            assert await subject.store.purge(a_purge(subject, approvals=(old,)))
            assert await subject.store.approval("acme", approval.question.approval_id) is None
            assert not await subject.store.purge(a_purge(subject, approvals=(old,)))

    async def test_an_open_approval_is_never_forgotten(self, make_store: MakeStore) -> None:
        for state in [ApprovalState.PENDING, ApprovalState.APPROVED]:
            subject = await make_store()
            approval = await in_state(subject, state)
            subject.clock.advance(_DAYS.total_seconds())
            assert await subject.store.old_approvals(before=subject.clock.now(), limit=9) == ()
            old = OldApproval(tenant="acme", approval_id=approval.question.approval_id)
            assert not await subject.store.purge(a_purge(subject, approvals=(old,)))
            assert await subject.store.approval("acme", approval.question.approval_id) == approval

    async def test_a_denial_stands_as_long_as_its_run(self, make_store: MakeStore) -> None:
        subject = await make_store()
        denied = await decided(subject, await pending(subject), ApprovalDecision.DENY)
        old = OldApproval(tenant="acme", approval_id=denied.question.approval_id)
        subject.clock.advance(_DAYS.total_seconds())
        assert await subject.store.old_approvals(before=subject.clock.now(), limit=9) == (denied,)
        assert not await subject.store.purge(a_purge(subject, approvals=(old,)))
        (run,) = await subject.store.old_runs(before=subject.clock.now(), limit=9)
        assert await subject.store.purge(a_purge(subject, runs=(run,)))
        assert await subject.store.purge(a_purge(subject, approvals=(old,)))

    async def test_old_approvals_are_passed_over_by_skip(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for index, tenant in enumerate(("acme", "acme", "other")):
            asked = await pending(subject, f"apr-{index}", tenant=tenant, run_id=RunId(f"run-{index}"))
            await subject.store.retire(asked, ApprovalState.WITHDRAWN, events=())
            subject.clock.advance(1.0)

        async def ids(skip: int, limit: int) -> list[ApprovalId]:
            found = await subject.store.old_approvals(before=subject.clock.now(), limit=limit, skip=skip)
            return [approval.question.approval_id for approval in found]

        assert await ids(0, 9) == ["apr-0", "apr-1", "apr-2"]
        assert await ids(1, 1) == ["apr-1"]
        assert await ids(2, 9) == ["apr-2"]
        assert (await subject.store.old_rows(Kept.APPROVALS, before=subject.clock.now())).count == 3

    async def test_voided_tokens_are_forgotten(self, make_store: MakeStore) -> None:
        subject = await make_store()
        claim = a_claim()
        assert await subject.store.void("acme", claim.operation_key, Token("token-1"))
        at = subject.clock.now()
        assert await subject.store.old_tokens(before=at, limit=9) == ()
        later = at + timedelta(seconds=1)
        assert await subject.store.old_tokens(before=later, limit=9) == ("token-1",)
        assert await subject.store.old_rows(Kept.TOKENS, before=later) == OldRows(count=1, oldest_at=at)
        assert await subject.store.purge(a_purge(subject, tokens=(Token("token-1"),)))
        assert await subject.store.old_tokens(before=later, limit=9) == ()
        assert isinstance(await subject.store.claim(claim), Claimed)

    async def test_api_keys_that_have_ended_are_forgotten_and_those_that_go_on_stay(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        now = await subject.store.now()
        old, fresh = a_credential("k1", ends_at=now - timedelta(days=2)), a_credential("k2", ends_at=now)
        usable, other = a_credential("k3"), a_credential("k4", tenant="other", ends_at=now - timedelta(days=1))
        added = CredentialChange(added=(old, fresh, usable, other))
        assert await subject.store.put_credentials(added, events=())

        counted = await subject.store.old_rows(Kept.API_KEYS, before=now)
        assert counted == OldRows(count=2, oldest_at=old.ends_at)
        for kept in (fresh, usable, replace(old, mac=ANOTHER_MAC), replace(old, name="never")):
            purge = a_purge(subject, idle_before=now, credentials=(old, kept))
            assert not await subject.store.purge(purge), kept.name
        assert await subject.store.credential(old.kind, old.name) is not None
        assert await subject.store.hold(a_hold(subject, "tenant:other"), events=())
        held = a_purge(subject, idle_before=now, holds=frozenset({"tenant:other"}), credentials=(other,))
        assert not await subject.store.purge(held)
        assert (await subject.store.old_rows(Kept.API_KEYS, before=now)).count == 1
        assert await subject.store.purge(replace(held, credentials=(old,)))
        assert await subject.store.credential(old.kind, old.name) is None
        assert await subject.store.credential(other.kind, other.name) is not None

    # ------------------------------------------------------------ the audit

    async def test_the_oldest_events_of_a_chain_are_cut_at_a_tombstone(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for index in range(4):
            await subject.store.record((an_event(attempt=index + 1),))
        events = await subject.events()
        writer = events[0].writer
        assert [e.sequence for e in await subject.store.oldest_events(writer, limit=9)] == [1, 2, 3], "the last stays"
        assert [e.sequence for e in await subject.store.oldest_events(writer, limit=2)] == [1, 2]
        cut = a_cut(writer, 1, 2, events[1].link)
        assert await subject.store.purge(a_purge(subject, cut=cut))
        assert [event.sequence for event in await subject.events()] == [3, 4, 5]
        assert await subject.store.tombstones() == (cut.tombstone,)
        assert [e.sequence for e in await subject.store.oldest_events(writer, limit=9)] == [3, 4]
        async with subject.store.snapshot() as audit:
            assert audit.tombstones == (cut.tombstone,) and audit.count == 3
        further = a_cut(writer, 3, 4, events[3].link)
        assert await subject.store.purge(a_purge(subject, cut=further))
        assert await subject.store.tombstones() == (further.tombstone,)
        assert [event.sequence for event in await subject.events()] == [5, 6]

    async def test_a_cut_that_does_not_fit_changes_nothing(self, make_store: MakeStore) -> None:
        subject = await make_store()
        for index in range(4):
            await subject.store.record((an_event(attempt=index + 1),))
        events = await subject.events()
        writer = events[0].writer
        before = await everything(subject)
        for cut in (
            a_cut(writer, 2, 3, events[2].link),  # it begins elsewhere
            a_cut(writer, 1, 2, events[2].link),  # another link stands there
            a_cut(writer, 1, 4, events[3].link),  # the last event
            a_cut(writer, 1, 9, events[3].link),  # beyond the end
            a_cut(writer, 1, 0, "0" * 64),  # nothing
            a_cut("w-none", 1, 1, events[0].link),  # nobody's
        ):
            assert not await subject.store.purge(a_purge(subject, cut=cut)), cut
        assert await everything(subject) == before
        assert await subject.store.tombstones() == ()

    async def test_a_read_that_is_not_completed_keeps_its_started_event(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await subject.store.record((an_event(),))
        place = await opened(subject)
        for index in range(2):
            await subject.store.record((an_event(attempt=index + 1),))
        events = await subject.events()
        oldest = await subject.store.oldest_events(place.writer, limit=9)
        assert [event.sequence for event in oldest] == [1]
        through = a_cut(place.writer, 1, place.sequence, events[place.sequence - 1].link)
        assert not await subject.store.purge(a_purge(subject, cut=through))
        assert await subject.store.purge(a_purge(subject, cut=a_cut(place.writer, 1, 1, events[0].link)))
        subject.clock.advance(LEASE_SECONDS)
        (lost,) = await subject.store.lost_reads(limit=9)
        assert await subject.store.close_lost_read(lost, an_event(EventKind.COMPLETED))

    async def test_old_events_are_counted_by_what_they_say(self, make_store: MakeStore) -> None:
        subject = await make_store()
        at = an_event().at
        await subject.store.record((an_event(), an_event(tenant="other"), replace(an_event(), at=at + _DAYS)))
        counted = await subject.store.old_rows(Kept.EVENTS, before=at + timedelta(seconds=1))
        assert counted == OldRows(count=2, oldest_at=at)

    # ------------------------------------------------------------ holds

    async def test_a_hold_is_set_and_lifted_with_its_events(self, make_store: MakeStore) -> None:
        subject = await make_store()
        hold = a_hold(subject, tenant_hold("acme"))
        assert await subject.store.hold(hold, events=(an_event(EventKind.HOLD_SET),))
        assert not await subject.store.hold(hold, events=(an_event(EventKind.HOLD_SET),)), "it was held already"
        assert await subject.store.holds() == (hold,)
        assert not await subject.store.lift("all", events=(an_event(EventKind.HOLD_LIFTED),))
        assert await subject.store.lift(hold.scope, events=(an_event(EventKind.HOLD_LIFTED),))
        assert await subject.store.holds() == ()
        assert await subject.told() == ["hold_set", "hold_lifted"]

    async def test_nothing_is_forgotten_that_was_held_since_somebody_looked(self, make_store: MakeStore) -> None:
        subject = await make_store()
        purge = await everything_old(subject)
        assert await subject.store.hold(a_hold(subject, tenant_hold("else")), events=_TOLD)
        before = await everything(subject)
        assert not await subject.store.purge(purge), "another hold than was seen"
        assert await everything(subject) == before
        assert await subject.store.purge(replace(purge, holds=frozenset({tenant_hold("else")})))

    async def test_what_is_held_is_neither_listed_nor_forgotten(self, make_store: MakeStore) -> None:
        for scope in ["all", tenant_hold("acme")]:
            subject = await make_store()
            purge = replace(await everything_old(subject), holds=frozenset({scope}))
            assert await subject.store.hold(a_hold(subject, scope), events=_TOLD)
            now, store = subject.clock.now(), subject.store
            assert await store.finished_kinds() == ()
            assert await store.finished(_PAY, before=now, limit=9) == ()
            assert await store.old_runs(before=now, limit=9) == ()
            assert await store.old_approvals(before=now, limit=9) == ()
            for kept in (Kept.RUNS, Kept.APPROVALS, Kept.EVENTS):
                assert (await store.old_rows(kept, before=now)).count == 0, kept
            assert (await store.old_rows(Kept.OPERATIONS, before=now, kind=_PAY)).count == 0
            assert len(await store.old_tokens(before=now, limit=9)) == (0 if scope == "all" else 1)
            before = await everything(subject)
            empty = replace(purge, graves=(), runs=(), approvals=(), tokens=())
            for part in ("graves", "runs", "approvals"):
                assert not await store.purge(replace(empty, **{part: getattr(purge, part)})), part
            assert await everything(subject) == before
            assert await store.purge(replace(empty, tokens=purge.tokens)) is (scope != "all")


def a_cut(writer: str, first_kept: int, last: int, link: str) -> ChainCut:
    tombstone = ChainTombstone(
        writer=writer,  # type: ignore[arg-type]
        first_kept=last + 1,
        link=link,
        removed=last - first_kept + 1,
        cut_by="mara",
        cut_at=datetime.fromisoformat("2026-05-01T00:00:00+00:00"),
        key_id="k-1",
        mac="5" * 64,
    )
    return ChainCut(first_kept=first_kept, tombstone=tombstone)


async def everything_old(subject: Subject) -> Purge:
    """A purge of one row of each kind, all of them old enough."""
    done = await in_effect_state(subject, "done", EffectState.COMMITTED)
    asked = await pending(subject)
    withdrawn = await subject.store.retire(asked, ApprovalState.WITHDRAWN, events=())
    assert isinstance(withdrawn, Approval)
    assert await subject.store.void("acme", a_claim("never").operation_key, Token("voided"))
    subject.clock.advance(_DAYS.total_seconds())
    (run,) = await subject.store.old_runs(before=subject.clock.now(), limit=9)
    return a_purge(
        subject,
        graves=(a_grave(done),),
        runs=(run,),
        approvals=(OldApproval(tenant="acme", approval_id=asked.question.approval_id),),
        tokens=(Token("voided"),),
    )
