"""The search for secrets can fail: a leak planted in each channel, the way one would really come about, is found."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

import placet
from placet.bootstrap.records import audit_export
from placet.bootstrap.stores import open_existing_store
from placet.model.audit import AuditEvent, EventKind
from placet.model.notices import Notice, NoticeKind
from placet.model.outcome import Failed, Succeeded
from tests.scenarios.canary import LogEars, Outputs, Secrets, forms
from tests.scenarios.test_canary import ANNOUNCED, BELONGS, MARA, SCOPE, Channels, assert_exactly

SECRET = Secrets()("planted")
AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    heard = Outputs()
    yield from (heard for _ in LogEars(heard).listening())


def found_in(outputs: Outputs) -> set[str]:
    secrets = Secrets()
    secrets("planted")
    return {channel for _, channel in outputs.found(secrets)}


@pytest.mark.parametrize("form", [name for name, _ in forms(SECRET)])
@pytest.mark.parametrize("before", range(3))
def test_every_spelling_is_found_wherever_it_stands(outputs: Outputs, form: str, before: int) -> None:
    outputs.hear("somewhere", b"x" * before + dict(forms(SECRET))[form] + b"yz")

    assert found_in(outputs) == {"somewhere"}


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET.swapcase().encode(),
        SECRET.capitalize().encode(),
        f'{{"a": "\\u00fc{SECRET}"}}'.encode(),
        f"https://x/?a=%22{SECRET}%3C".encode(),
        f"ü{SECRET}".encode("utf-16"),
        repr({"k": SECRET}).encode(),
    ],
)
def test_what_stands_around_a_secret_hides_it_from_nobody(outputs: Outputs, spelled: bytes) -> None:
    outputs.hear("somewhere", spelled)

    assert found_in(outputs) == {"somewhere"}


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_base64_is_found_at_every_shift(outputs: Outputs, before: int, after: int) -> None:
    text = b"a" * before + SECRET.encode() + b"b" * after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        one = Outputs()
        one.hear("somewhere", encode(text))
        assert found_in(one) == {"somewhere"}


def test_ordinary_output_holds_nothing(outputs: Outputs) -> None:
    outputs.hear("somewhere", SECRET[:-1], SECRET[1:], "planted", "zq")

    assert found_in(outputs) == set()


# ---------------------------------------------------------------- one real leak per channel


class Leak:
    """A gate on a real file, for leaks to be planted in."""

    def __init__(self, folder: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.outputs = outputs
        self.capsys = capsys

    async def worked(self, agent: placet.Principal) -> placet.Outcome:
        """One ordinary write, on record."""

        @placet.tool(effect="write", risk="medium", permission=SCOPE, approval="always")
        async def act() -> str:
            """Act."""
            return "done"

        async with placet.open(tools=[act], store=self.folder / "placet.db", recovery="manual") as gate:
            outcome = await gate.submit({"call_id": "c", "tool": "act", "arguments": {}}, principal=agent, run="r")
            (view,) = await gate.desk.pending(by=MARA)
            self.outputs.hear("desk", view)
            self.outputs.hear("audit", *[event.body async for event in gate.store.chained()])
        return outcome


def in_log(leak: Leak) -> None:
    logging.getLogger("placet.gate").debug("binding %s failed", SECRET)


def in_outcomes(leak: Leak) -> None:
    leak.outputs.hear_outcome(
        Succeeded(call_id="c", tool="act", code="succeeded", message=f"Done with {SECRET}.", result=None)
    )


def in_errors(leak: Leak) -> None:
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as foreign:
            raise placet.PlacetError("The call failed.") from foreign
    except placet.PlacetError as error:
        leak.outputs.hear_error(error)


def in_notes(leak: Leak) -> None:
    error = placet.PlacetError("The call failed.")
    error.add_note(SECRET)
    leak.outputs.hear_error(error)


def in_raised(leak: Leak) -> None:
    leak.outputs.hear_outcome(Failed(call_id="c", tool="act", code="tool_failed", message=SECRET))


def in_metrics(leak: Leak) -> None:
    registry = CollectorRegistry()
    Counter("placet_calls", "Calls.", ["tool"], registry=registry).labels(SECRET).inc()
    leak.outputs.hear("metrics", generate_latest(registry))


def in_streams(leak: Leak) -> None:
    print(SECRET, file=sys.stderr)
    told = leak.capsys.readouterr()
    leak.outputs.hear("streams", told.out, told.err)


def in_messages(leak: Leak) -> None:
    """An error's text that came into an event, whose encodings in the three forms all differ."""
    event = AuditEvent(
        kind=EventKind.EFFECT_RECONCILED, at=AT, tenant="acme", subject="a", key_id="k", detail=f"ü{SECRET}"
    )
    channels = Channels(leak.outputs)
    notice = Notice(message_id="msg_1", kind=NoticeKind.EFFECT_RECONCILED, at=AT, event=event, url=None)
    asyncio.run(channels.send(notice))


PLANTS: dict[str, tuple[Callable[[Leak], None], set[str]]] = {
    "log": (in_log, {"log as JSON", "log as text"}),
    "outcomes": (in_outcomes, {"outcomes"}),
    "errors": (in_errors, {"errors"}),
    "notes": (in_notes, {"errors"}),
    "raised": (in_raised, {"outcomes", "errors"}),
    "metrics": (in_metrics, {"metrics"}),
    "streams": (in_streams, {"streams"}),
    "messages": (in_messages, set(ANNOUNCED)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_leak_is_found(
    tmp_path: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    plant, channels = PLANTS[name]

    plant(Leak(tmp_path, outputs, capsys))

    assert found_in(outputs) == channels
    with pytest.raises(AssertionError):
        secrets = Secrets()
        secrets("planted")
        assert_exactly(outputs, secrets, {})


async def test_a_leak_in_what_the_store_keeps_is_found(
    tmp_path: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment, which the audit and the approvals keep in clear, that an agent was given a secret for."""
    leak = Leak(tmp_path, outputs, capsys)
    agent = placet.Principal.agent("a", tenant="acme", roles=("operator",), scopes=(SCOPE,), environment=SECRET)
    await leak.worked(agent)
    outputs.hear_files("store files", tmp_path, "placet.db*")
    keys, store = open_existing_store(tmp_path / "placet.db")
    async with audit_export(store, keys, tenant=None) as lines:
        outputs.hear("audit export", *[line async for line in lines])
    await store.close()

    assert found_in(outputs) >= {"store files", "audit", "audit export"}


def test_a_listed_secret_that_is_nowhere_is_a_failure(outputs: Outputs) -> None:
    secrets = Secrets()
    secrets("planted")
    with pytest.raises(AssertionError):
        assert_exactly(outputs, secrets, {"planted": ("it should be there", ("audit",))})


def test_every_channel_of_the_table_has_a_leak_planted_in_it() -> None:
    planted = {channel for _, channels in PLANTS.values() for channel in channels}
    planted |= {"store files", "audit", "audit export"}
    listed = {channel for _, channels in BELONGS.values() for channel in channels}

    assert listed - planted == {"desk", "ledger", "explained", "runs", "switch"}, (
        "values, heard by their repr like outcomes"
    )
