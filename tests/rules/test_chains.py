"""What the MACs of a chain cover, so that old chains stay good and none stands for another."""

from __future__ import annotations

import dataclasses

import pytest

from placet.errors import MisuseError
from placet.model.audit import ChainHead
from placet.model.identifiers import WriterId
from placet.rules.audit import event_body
from placet.rules.chains import GENESIS, chain_message, head_message, heads_form, sound_anchors, unchained_message
from tests.rules.audit_samples import event


def test_what_links_heads_and_memories_cover_is_this_so_that_old_chains_stay_good() -> None:
    head = ChainHead(
        writer=WriterId("w1"), sequence=3, link="f" * 64, opened_after=b'{"w0":[1,"x"]}', key_id="", mac=""
    )
    other = dataclasses.replace(head, writer=WriterId("a2"), sequence=9, link="0" * 64)

    assert chain_message("w1", 7, "a" * 64, b"{}") == b"placet/link/1\x00w1\x007\x00" + b"a" * 64 + b"\x00{}"
    assert head_message(head) == b"placet/head/1\x00w1\x003\x00" + b"f" * 64 + b'\x00{"w0":[1,"x"]}'
    assert heads_form([head, other]) == b'{"a2":[9,"' + b"0" * 64 + b'"],"w1":[3,"' + b"f" * 64 + b'"]}'
    assert heads_form([]) == b"{}"
    assert GENESIS == "0" * 64


def test_the_mac_of_an_event_that_waits_covers_its_body_and_nothing_of_a_chain_can_stand_for_it() -> None:
    body = event_body(event())

    assert unchained_message(body) == b"placet/unchained/1\x00" + body
    assert not unchained_message(body).startswith((b"placet/link/", b"placet/head/"))


@pytest.mark.parametrize(
    "anchors",
    [
        7,
        [],
        {"w": None},
        {"w": (1,)},
        {"w": [1, "x"]},
        {"w": (1, "x", 2)},
        {"w": (-1, "x")},
        {"w": (True, "x")},
        {"w": (1.0, "x")},
        {"w": (1, b"x")},
        {7: (1, "x")},
        {"w": (1, "x"), "v": (1, 2)},
    ],
)
def test_anchors_of_another_form_are_misuse_and_not_a_break(anchors: object) -> None:
    assert sound_anchors({"w": (0, "x"), "v": (7, "y")}) == {"w": (0, "x"), "v": (7, "y")}
    with pytest.raises(MisuseError):
        sound_anchors(anchors)  # type: ignore[arg-type]
