"""What happens is announced once to whom it concerns, from the audit, whatever the other side does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import placet
from placet.adapters.keys import KeyRing
from placet.adapters.stores.chain import ChainLinker
from placet.engine.announcing import LEASE_SECONDS, AnnouncingReport
from placet.errors import ConfigurationError, StoreUnavailable
from placet.model.audit import AuditEvent, EventKind
from placet.model.identifiers import Token, WriterId
from placet.model.notices import Announcing, CursorMove, DeliveryState, Notice, NoticeKind
from placet.model.retention import Kept
from placet.ports.notifier import Gone, NotDelivered, Sent
from placet.rules.announcements import MOST_ATTEMPTS, message_id_of
from tests.engine.announcing import OK, Inbox, Post, a_destination, a_post
from tests.engine.conftest import APPROVER, OPERATOR, OpenWorld, Spy, World, acting, written

pytestmark = [pytest.mark.case("F07")]

STOPPER = placet.Principal.person("stan", tenant="acme", scopes=("ops.stop", "ops.stop.all"))
KEEPER = placet.Principal.person("kim", tenant="ops", scopes=("ops.purge",))


async def asks(world: World, *names: str) -> list[placet.Outcome]:
    return [await world.submit("write", {"word": name}, call_id=name) for name in names]


@pytest.fixture
async def world(open_world: OpenWorld, where: str, spy: Spy) -> World:
    async def lost() -> None:
        raise RuntimeError("the line went dead")

    return await open_world(written(spy, approval="always"), acting(lost, name="vanish"), store=where)


# ---------------------------------------------------------------- what is announced


async def test_an_approval_is_announced_from_its_asking_to_its_end(world: World) -> None:
    post = await a_post(world)
    first, second, third = await asks(world, "a", "b", "c")
    await world.approve(first)
    await world.deny(second, reason="not on a Friday, says Mara")
    assert isinstance(third, placet.AwaitingApproval)
    await world.gate.desk.withdraw(third.approval_id, by=APPROVER)
    assert (await world.submit("write", {"word": "a"}, call_id="a")).code == "succeeded"

    report = await post.round()

    assert sorted(post.inbox.kinds) == [
        "approval.approved",
        *["approval.asked"] * 3,
        "approval.denied",
        "approval.spent",
        "approval.withdrawn",
    ]
    assert report == AnnouncingReport(found=7, delivered=7)
    assert await post.round() == AnnouncingReport(), "once"
    asked = post.inbox.notices[0]
    assert asked.event is not None and isinstance(first, placet.AwaitingApproval)
    assert asked.url == f"https://ops.example.com/console/approvals/{first.approval_id}"
    assert (asked.event.tool, asked.event.risk, asked.event.subject) == ("write", "medium", OPERATOR.subject)
    assert asked.event.expires_at is not None, "until when it may be decided"


async def test_what_became_unknown_and_what_was_stopped_is_announced(world: World) -> None:
    post = await a_post(world)
    assert (await world.submit("vanish")).code == "effect_unknown"
    assert (await world.submit("vanish")).code == "effect_unknown", "asked for again, and known to be unknown"
    await world.gate.switch.stop("tool:write", by=STOPPER)
    await world.gate.switch.resume("tool:write", by=STOPPER)

    await post.round()

    assert sorted(post.inbox.kinds) == ["effect.unknown", "stop.begun", "stop.lifted"]


async def test_a_destination_hears_of_its_tenants_and_its_kinds_alone(world: World) -> None:
    asked = frozenset({NoticeKind.APPROVAL_ASKED})
    ours, theirs = a_destination("ours", kinds=asked), a_destination("theirs", tenants=("globex",))
    everything = a_destination("everything", tenants=("*",))
    post = await a_post(world, ours, theirs, everything)
    await asks(world, "a")
    await world.submit("vanish", call_id="v")
    await world.gate.switch.stop("all", by=STOPPER)

    await post.round()

    assert post.inboxes["ours"].kinds == ["approval.asked"]
    assert post.inboxes["theirs"].kinds == []
    assert sorted(post.inboxes["everything"].kinds) == ["approval.asked", "effect.unknown", "stop.begun"]


async def test_a_new_destination_hears_nothing_of_what_was_before(world: World) -> None:
    await asks(world, "a")
    post = await a_post(world)
    await asks(world, "b")

    assert await post.round() == AnnouncingReport(found=1, delivered=1)


async def test_a_worker_that_knows_fewer_destinations_reads_nothing_past_the_others(world: World) -> None:
    one, other = a_destination("one"), a_destination("other")
    await a_post(world, one, other)
    await asks(world, "a")
    await Post(world, one).round()

    later = Post(world, one, other)
    await later.round()

    assert (later.inboxes["one"].kinds, later.inboxes["other"].kinds) == ([], ["approval.asked"])


async def test_every_writers_chain_is_read(world: World, open_world: OpenWorld, where: str, spy: Spy) -> None:
    if where == placet.MEMORY:
        return
    post = await a_post(world)
    another = await open_world(written(spy, approval="always"), store=where)
    await asks(world, "a")
    await asks(another, "b")

    assert await post.round() == AnnouncingReport(found=2, delivered=2)
    assert await Post(another).round() == AnnouncingReport()


# ---------------------------------------------------------------- the other side


async def test_a_message_has_the_same_id_however_often_it_is_sent(world: World) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="status_500"), NotDelivered(code="too_slow"), OK))
    await asks(world, "a")
    for _ in range(3):
        await post.round()
        world.clock.advance(60)

    assert len(post.inbox.ids) == 3 and len(set(post.inbox.ids)) == 1
    assert post.inbox.ids[0].startswith("msg_")
    assert await post.round() == AnnouncingReport()
    assert [post.counted(each) for each in ("delivered", "postponed", "dead")] == [1, 2, 0]


async def test_a_message_waits_longer_each_time_and_is_given_up_in_the_end(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="status_500")))
    await asks(world, "a")
    waits: list[float] = []
    for _ in range(MOST_ATTEMPTS - 1):
        assert (await post.round()).postponed == 1
        (delivery,) = await world.gate.store.deliveries(destination=None, states=tuple(DeliveryState), limit=9)
        waits.append((delivery.due_at - world.clock.now()).total_seconds())
        world.clock.advance(waits[-1] - 0.001)
        assert await post.round() == AnnouncingReport(), "not before it is due"
        world.clock.advance(0.002)

    assert all(2.5 * 2**n <= wait <= 5.0 * 2**n for n, wait in enumerate(waits[:11]))
    assert all(7_200 <= wait <= 14_400 for wait in waits[12:])
    assert await post.round() == AnnouncingReport(dead=1)
    assert post.waiting() == {"destination": "slack", "pending": 0, "oldest_seconds": 0.0, "dead": 1}
    assert "a message was given up" in caplog.text
    world.clock.advance(1_000_000)
    assert await post.round() == AnnouncingReport()

    post.inbox.answers = [OK]
    assert await world.gate.store.retry_deliveries("ops", None, limit=9) == 1
    assert await post.round() == AnnouncingReport(delivered=1)


async def test_what_the_other_side_asks_for_is_waited_for(world: World) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="status_429", retry_after_seconds=600.0), OK))
    await asks(world, "a")
    await post.round()

    world.clock.advance(599)
    assert await post.round() == AnnouncingReport()
    assert post.waiting()["pending"] == 1
    assert post.waiting()["oldest_seconds"] == pytest.approx(599, abs=2)
    world.clock.advance(1)
    assert await post.round() == AnnouncingReport(delivered=1)


async def test_a_destination_that_says_it_is_gone_gets_nothing_more_until_somebody_opens_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(world, inbox=Inbox(Gone(code="status_410")))
    await asks(world, "a")
    await post.round()
    await asks(world, "b")
    world.clock.advance(100_000)

    assert await post.round() == AnnouncingReport()
    assert len(post.inbox.notices) == 1
    assert post.counted("closed") == 1
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [each.__dict__["hint"] for each in said] == ["Mend it, then: placet notifications retry ops"]

    post.inbox.answers = [OK]
    await world.gate.store.retry_deliveries("ops", None, limit=9)
    report = await post.round()
    assert report == AnnouncingReport(found=1, delivered=2), "nothing was lost meanwhile"


async def test_a_destination_that_takes_nothing_holds_up_no_other(world: World) -> None:
    deaf, ours = a_destination("deaf"), a_destination("ours")
    post = await a_post(world, deaf, ours, inbox=Inbox(RuntimeError("secret in the text")))
    await asks(world, *(f"n{number}" for number in range(30)))

    report = await post.round()

    assert len(post.inboxes["ours"].notices) == 30
    assert len(post.inboxes["deaf"].notices) == 20, "the rest waits for the next round"
    assert (report.delivered, report.postponed) == (30, 20)


async def test_a_notifiers_own_fault_is_an_attempt_in_vain_and_its_text_stays_inside(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(world, inbox=Inbox(RuntimeError("hunter2"), OK))
    await asks(world, "a")

    assert await post.round() == AnnouncingReport(found=1, postponed=1)
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])
    (delivery,) = await world.gate.store.deliveries(destination="ops", states=tuple(DeliveryState), limit=9)
    assert delivery.code == "notifier_failed"


async def test_what_a_dead_worker_had_taken_is_sent_by_another(world: World) -> None:
    post = await a_post(world)
    await asks(world, "a", "b")
    reading = post.announcer._reading
    await reading.round(post.destinations[0])
    taken = await world.gate.store.take_deliveries(
        "ops",
        "dead",
        lease_seconds=LEASE_SECONDS,
        most_attempts=9,
        limit=1,  # type: ignore[arg-type]
    )
    assert len(taken) == 1

    assert (await post.round()).delivered == 1
    world.clock.advance(LEASE_SECONDS)
    assert (await post.round()).delivered == 1
    assert len(set(post.inbox.ids)) == 2


async def test_whose_lease_is_over_says_nothing_of_what_another_has_sent_meanwhile(world: World) -> None:
    """Its message arrived too, under the same name; the record is the other one's."""
    other = Post(world, seed=8)

    class Slow(Inbox):
        async def send(self, notice: Notice) -> Sent:
            world.clock.advance(LEASE_SECONDS)
            assert await other.round() == AnnouncingReport(delivered=1)
            return await super().send(notice)

    post = await a_post(world, inbox=Slow(NotDelivered(code="too_slow")))
    await asks(world, "a")

    assert await post.round() == AnnouncingReport(found=1)
    assert post.inbox.ids == other.inbox.ids
    assert [post.counted(each) for each in ("delivered", "postponed", "dead")] == [0, 0, 0]
    (delivery,) = await world.gate.store.deliveries(destination="ops", states=tuple(DeliveryState), limit=9)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 2)


async def test_a_fault_of_the_store_at_one_destination_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = a_destination("one"), a_destination("other")
    post = await a_post(world, one, other)
    await asks(world, "a")
    announce = world.gate.store.announce

    async def failing(command: Announcing) -> bool:
        if command.destination == "one":
            raise StoreUnavailable
        return await announce(command)

    monkeypatch.setattr(world.gate.store, "announce", failing)
    with pytest.raises(StoreUnavailable):
        await post.round()
    assert (post.inboxes["one"].kinds, post.inboxes["other"].kinds) == ([], ["approval.asked"])

    monkeypatch.undo()
    assert await post.round() == AnnouncingReport(found=1, delivered=1)


async def test_what_is_signed_under_a_key_that_is_not_here_yet_waits(world: World) -> None:
    """Another process has rotated; this one hears of the key with its next look, and sends then."""
    post = await a_post(world)
    await asks(world, "a")
    here = post.announcer._evidence._linker
    post.announcer._evidence._linker = ChainLinker(KeyRing.ephemeral())

    assert await post.round() == AnnouncingReport(found=1, postponed=1)
    post.announcer._evidence._linker = here
    world.clock.advance(60)
    assert await post.round() == AnnouncingReport(delivered=1)


# ---------------------------------------------------------------- history that was changed


async def test_what_was_written_long_before_it_is_read_is_passed_over_and_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(world)
    await asks(world, "a")
    world.clock.advance(timedelta(days=7, seconds=1).total_seconds())
    await asks(world, "b")

    report = await post.round()

    assert (report.found, report.delivered, report.passed_over) == (1, 1, 1)
    assert "events were cut, or too old, before they were announced" in caplog.text


async def test_a_cut_of_the_audit_is_survived_and_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    post = await a_post(world)
    await asks(world, "a", "b")
    count = len(world.events())
    await cut(world)
    await asks(world, "c")

    report = await post.round()

    assert post.inbox.kinds == ["approval.asked"]
    assert report == AnnouncingReport(found=1, delivered=1, passed_over=count), "how many nobody read"
    assert await post.round() == AnnouncingReport()
    assert "events were cut" in caplog.text


async def test_the_first_event_after_a_cut_is_still_proven(world: World) -> None:
    post = await a_post(world)
    await asks(world, "a")
    world.clock.advance(timedelta(days=1).total_seconds())
    await world.gate.switch.stop("tool:write", by=STOPPER)
    await post.announcer._reading.round(post.destinations[0])
    await cut(world, keeping_days=3.5)
    assert world.events()[0]["kind"] == "stopped"

    assert (await post.round()).delivered == 1
    assert post.inbox.kinds == ["stop.begun"]


async def test_a_message_whose_event_was_cut_is_given_up(world: World) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="status_500"), OK))
    await asks(world, "a")
    await asks(world, "b")
    await post.round()
    await cut(world)

    assert (await post.round()).dead >= 1
    (delivery, *_) = await world.gate.store.deliveries(destination="ops", states=(DeliveryState.DEAD,), limit=9)
    assert delivery.code == "event_gone"


async def cut(world: World, *, keeping_days: float = 2.5) -> None:
    """In three days, forget all of the audit that is older then; the last event always stays."""
    world.clock.advance(timedelta(days=3).total_seconds())
    report = await world.gate.purger.purge(placet.Retention(audit_seconds=keeping_days * 86_400), by=KEEPER)
    assert report.purged[Kept.EVENTS]
    world.check_pairs = lambda: None  # type: ignore[method-assign]  # half of a pair may be gone


# ---------------------------------------------------------------- rows by another hand


@pytest.fixture
async def on_file(open_world: OpenWorld, tmp_path: Path, spy: Spy) -> World:
    return await open_world(written(spy, approval="always"), store=str(tmp_path / "placet.db"))


def by_hand(tmp_path: Path) -> Callable[[str], Any]:
    def execute(statement: str) -> Any:
        connection = apsw.Connection(str(tmp_path / "placet.db"))
        connection.set_busy_timeout(30_000)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    return execute


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE audit_events SET body = replace(body, \'"tool":"write"\', \'"tool":"wrote"\')',
        "UPDATE audit_events SET link = replace(link, substr(link, 1, 1), '0') WHERE sequence > 0",
    ],
    ids=["body", "links"],
)
async def test_an_event_that_somebody_altered_is_announced_to_nobody(
    on_file: World, tmp_path: Path, statement: str
) -> None:
    """A message carries our signature, so nothing goes out on a row's word alone."""
    post = await a_post(on_file)
    await asks(on_file, "a")
    execute = by_hand(tmp_path)
    execute("DROP TRIGGER audit_events_stay")
    execute(statement)

    report = await post.round()

    assert (report.delivered, post.inbox.notices) == (0, [])
    assert report.dead == 1
    (delivery,) = await on_file.gate.store.deliveries(destination="ops", states=tuple(DeliveryState), limit=9)
    assert delivery.code == "event_altered"
    on_file.check_pairs = lambda: None  # type: ignore[method-assign]
    on_file.gate.verify_audit = _held  # type: ignore[method-assign]


async def _held() -> Any:
    class Held:
        holds = True

    return Held()


async def test_a_delivery_that_somebody_wrote_carries_nothing_where_it_is_not_wanted(
    on_file: World, tmp_path: Path
) -> None:
    """Neither another tenant's event, nor one of a kind that this destination does not hear of."""
    ours = a_destination("ours", kinds=frozenset({NoticeKind.EFFECT_UNKNOWN}))
    theirs = a_destination("theirs", tenants=("globex",))
    post = await a_post(on_file, ours, theirs)
    await asks(on_file, "a")
    await post.round()
    (sequence,) = (
        row[0] for row in by_hand(tmp_path)("SELECT sequence FROM audit_events WHERE body LIKE '%approval_asked%'")
    )
    for name in ("ours", "theirs"):
        by_hand(tmp_path)(
            f"INSERT INTO deliveries VALUES ('{name}', '{on_file.gate.store.writer}', {sequence}, 'approval.asked', "
            "'pending', 0, 1, 1, NULL, NULL, NULL)"
        )

    report = await post.round()

    assert (report.delivered, report.dead) == (0, 2)
    assert all(inbox.notices == [] for inbox in post.inboxes.values())
    found = await on_file.gate.store.deliveries(destination=None, states=tuple(DeliveryState), limit=9)
    assert [each.code for each in found] == ["not_wanted", "not_wanted"]


async def test_a_store_that_went_back_is_announced_from_its_end(
    on_file: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(on_file)
    await asks(on_file, "a")
    await post.round()
    (head,) = await on_file.gate.store.heads()
    ahead = CursorMove(writer=head.writer, was=head.sequence, now=head.sequence + 50)
    assert await on_file.gate.store.announce(Announcing(destination="ops", moves=(ahead,)))

    assert await post.round() == AnnouncingReport()
    assert "the audit is shorter than it was" in caplog.text
    await asks(on_file, "b")
    assert (await post.round()).delivered == 1


async def test_what_follows_another_link_is_another_message(on_file: World) -> None:
    """After a restore another event may stand in the same place; whoever has heard of the first hears of it too."""
    await asks(on_file, "a")
    (event, *_) = [event async for event in on_file.gate.store.chained()]
    names = {
        message_id_of("ops", event),
        message_id_of("ops", replace(event, link="0" * 64)),
        message_id_of("chat", event),
        message_id_of("ops", replace(event, sequence=event.sequence + 1)),
        message_id_of("ops", replace(event, writer=WriterId("w-other"))),
    }
    assert len(names) == 5
    assert message_id_of("ops", event) == message_id_of("ops", replace(event, body=b"{}")), "the link says it all"


# ---------------------------------------------------------------- around


async def test_deliveries_are_forgotten_a_day_after_they_arrived_and_dead_ones_after_thirty(world: World) -> None:
    post = await a_post(world, inbox=Inbox(OK, NotDelivered(code="status_500")))
    await asks(world, "a", "b")
    await post.round()
    store = world.gate.store
    for _ in range(MOST_ATTEMPTS):
        world.clock.advance(14_400)
        await post.round()

    async def left() -> list[str]:
        found = await store.deliveries(destination=None, states=tuple(DeliveryState), limit=9)
        return [each.state.value for each in found]

    assert await left() == ["dead"], "the other one arrived more than a day ago"
    world.clock.advance(timedelta(days=29).total_seconds())
    await post.round()
    assert await left() == ["dead"]
    world.clock.advance(timedelta(days=2).total_seconds())
    await post.round()
    assert await left() == []


async def test_a_test_message_says_so_and_changes_nothing(world: World) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="unreachable")))

    assert await post.announcer.test("ops") == NotDelivered(code="unreachable")
    (notice,) = post.inbox.notices
    assert (notice.kind, notice.event, notice.url) == (NoticeKind.TEST, None, "https://ops.example.com/console/")
    assert await world.gate.store.deliveries(destination=None, states=tuple(DeliveryState), limit=9) == ()
    with pytest.raises(ConfigurationError) as refused:
        await post.announcer.test("nobody")
    assert refused.value.code == "no_such_destination"


async def test_without_destinations_nothing_is_read(world: World) -> None:
    post = Post(world)
    post.announcer._destinations = ()
    await asks(world, "a")

    assert await post.round() == AnnouncingReport()
    assert await world.gate.store.known_destinations() == ()


async def test_many_events_are_read_in_parts_and_each_is_found_once(world: World) -> None:
    """More than one transaction of reading takes."""
    post = await a_post(world)
    event = AuditEvent(
        kind=EventKind.APPROVAL_ASKED, at=world.clock.now(), tenant="acme", subject="agent-1", key_id="k", tool="pay"
    )
    await world.gate.store.record(tuple(replace(event, call_id=f"c{n}") for n in range(1_201)))

    report = await post.announcer._reading.round(post.destinations[0])

    assert report.found == 1_201
    total = AnnouncingReport()
    while (done := await post.round()) != AnnouncingReport():
        total += done
    assert total.delivered == 1_201 == len(set(post.inbox.ids))
    assert post.waiting()["pending"] == 0


async def test_two_workers_make_and_send_each_delivery_once(world: World) -> None:
    one, other = await a_post(world), Post(world, seed=8)
    await asks(world, *(f"n{n}" for n in range(12)))

    await asyncio.gather(one.round(), other.round())
    await asyncio.gather(one.round(), other.round())

    ids = [*one.inbox.ids, *other.inbox.ids]
    assert len(ids) == len(set(ids)) == 12


# ---------------------------------------------------------------- on record


def of_destinations(world: World) -> list[tuple[str, str | None, str | None, list[str]]]:
    kinds = ("destination_closed", "destination_opened", "delivery_given_up")
    return [
        (event["kind"], event.get("detail"), event.get("decided_by"), event["reasons"])
        for event in world.events(*kinds)
    ]


async def test_closing_and_opening_by_hand_is_on_record_once_and_keeps_what_waits(world: World) -> None:
    post = await a_post(world)
    assert await post.announcer.close("ops", by="mara")
    assert not await post.announcer.close("ops", by="omar")
    await asks(world, "a")
    assert await post.round() == AnnouncingReport()

    assert await post.announcer.retry("ops", None, by="omar") == 0
    assert await post.announcer.retry("ops", None, by="omar") == 0
    assert (await post.round()).delivered == 1
    assert of_destinations(world) == [
        ("destination_closed", "by_hand", "mara", ["destination:ops"]),
        ("destination_opened", None, "omar", ["destination:ops"]),
    ]
    with pytest.raises(ConfigurationError) as unknown:
        await post.announcer.close("nobody", by="mara")
    assert unknown.value.code == "no_such_destination"


async def test_what_is_given_up_is_on_record_and_announced_to_nobody(world: World) -> None:
    post = await a_post(world, inbox=Inbox(NotDelivered(code="status_500")))
    await asks(world, "a")
    for _ in range(MOST_ATTEMPTS):
        await post.round()
        world.clock.advance(14_400)

    assert of_destinations(world) == [("delivery_given_up", "status_500", None, ["destination:ops"])]
    assert (await post.round()).found == 0


async def test_a_sender_that_was_lost_every_time_is_on_record_said_and_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    post = await a_post(world)
    await asks(world, "a")
    await post.announcer._reading.round(post.destinations[0])
    for _ in range(MOST_ATTEMPTS):
        taken = await world.gate.store.take_deliveries(
            "ops", Token("lost"), lease_seconds=1.0, most_attempts=MOST_ATTEMPTS, limit=9
        )
        assert len(taken) == 1
        world.clock.advance(1)

    assert await post.round() == AnnouncingReport(dead=1)
    assert await post.round() == AnnouncingReport()
    assert of_destinations(world) == [("delivery_given_up", "sender_lost", None, ["destination:ops"])]
    (said,) = [record for record in caplog.records if record.message == "a message was given up"]
    told = {name: said.__dict__[name] for name in ("destination", "kind", "code", "attempts")}
    assert told == {"destination": "ops", "kind": "approval.asked", "code": "sender_lost", "attempts": MOST_ATTEMPTS}
    assert post.counted("dead") == 1
