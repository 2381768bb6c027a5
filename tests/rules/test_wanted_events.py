"""Which events somebody wants: every word narrows, and only as events say it."""

import json

import pytest

from placet.model.audit import ChainedEvent
from placet.model.identifiers import WriterId
from placet.model.wanted_events import WantedEvents
from placet.rules.wanted_events import chooser

BODY = {
    "kind": "completed",
    "run_id": "r",
    "tool": "pay",
    "approval_id": "apr",
    "subject": "s",
    "decided_by": "d",
    "on_behalf_of": "o",
    "outcome": "success",
    "detail": "why",
    "reasons": ["one", "two"],
}
FITTING = [
    {"kinds": frozenset({"completed", "started"})},
    {"run_id": "r"},
    {"tool": "pay"},
    {"approval_id": "apr"},
    {"person": "s"},
    {"person": "d"},
    {"person": "o"},
    {"outcome": "success"},
    {"detail": "why"},
    {"rule": "one"},
    {"rule": "two"},
]
OTHER = {"kinds": frozenset({"started"}), "rule": "on"}


def an_event(body: object) -> ChainedEvent:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ChainedEvent(writer=WriterId("w"), sequence=1, body=text, link="l", key_id="k")


def is_wanted(body: object, **words: object) -> bool:
    return chooser(WantedEvents(**words))(an_event(body))  # type: ignore[arg-type]


@pytest.mark.parametrize("word", FITTING, ids="-".join)
def test_a_word_that_an_event_says_finds_it_and_another_does_not(word: dict[str, object]) -> None:
    (name,) = word
    everything = {key: value for each in FITTING for key, value in each.items()} | word

    assert is_wanted(BODY, **word)
    assert is_wanted(BODY, **everything)
    assert not is_wanted(BODY, **{name: OTHER.get(name, "another")})
    assert not is_wanted(BODY, **(everything | {name: OTHER.get(name, "another")}))
    assert not is_wanted({}, **word)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"null", {"reasons": "one", "kind": ["completed"]}], ids=str)
def test_what_cannot_be_read_is_found_by_whoever_narrows_nothing(body: object) -> None:
    assert is_wanted(body)
    assert not is_wanted(body, tool="pay")
    assert not is_wanted(body, person="s")
    assert not is_wanted(body, rule="one")
    assert not is_wanted(body, kinds=frozenset({"completed"}))
