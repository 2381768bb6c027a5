"""Server-sent events, however they are cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.adapters.transports.mcp.events import Event, EventReader
from placet.adapters.transports.mcp.faults import AnswerTooLarge

STREAM = (
    b"\xef\xbb\xbf: hello\nid: 7\r\nevent: message\rdata: one\ndata:two\n\n"
    b"retry: 1500\n\nid\ndata: {}\r\n\r\nid: \0\nx: y\n\n"
)
READ = [
    Event(kind="message", data=b"one\ntwo", id="7", retry_seconds=None),
    Event(kind="message", data=b"", id="7", retry_seconds=1.5),
    Event(kind="message", data=b"{}", id="", retry_seconds=None),
]


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    reader, found, begin = EventReader(1_000), [], 0
    for end in [*sorted(cuts), len(STREAM)]:
        found += reader.read(STREAM[begin:end])
        begin = end

    assert found == READ


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 200, b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60, b"x" * 200]
)
def test_an_event_larger_than_what_is_read_is_refused_while_it_comes(stream: bytes) -> None:
    reader = EventReader(100)

    with pytest.raises(AnswerTooLarge):
        for at in range(len(stream)):
            reader.read(stream[at : at + 1])


def test_many_small_events_are_not_one_large_one() -> None:
    reader = EventReader(100)

    assert sum(len(reader.read(b"data: " + b"x" * 50 + b"\n\n")) for _ in range(100)) == 100


def test_a_line_that_comes_in_a_million_pieces_is_looked_at_once() -> None:
    """Read anew with each piece it would take an hour, and nothing else would happen meanwhile."""
    reader = EventReader(4_000_000)
    for _ in range(1_000_000):
        reader.read(b"x")

    assert reader.read(b": y\ndata: one\n\n") == [Event(kind="message", data=b"one", id=None, retry_seconds=None)]
