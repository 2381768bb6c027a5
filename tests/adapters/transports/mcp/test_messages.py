"""What comes in over the wire, read strictly and without raising."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.adapters.transports.mcp.messages import (
    Answer,
    Asked,
    Fault,
    Garbled,
    Noise,
    Noticed,
    answer,
    is_too_deep,
    notice,
    read_message,
    refusal,
    request,
)


def test_what_we_say_reads_back() -> None:
    assert read_message(request(1, "tools/list", {"a": 1})) == Asked(id=1, method="tools/list", params={"a": 1})
    assert read_message(notice("notifications/cancelled", {})) == Noticed(method="notifications/cancelled", params={})
    said = answer("q", {"x": "é"})
    assert read_message(said) == Answer(id="q", result={"x": "é"}, size=len(said))
    assert read_message(refusal(3, -32601, "no")) == Fault(id=3, code=-32601, error={"code": -32601, "message": "no"})


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{},"result":{}}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":2}}}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1,"result":[]}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1,"error":"words"}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":true}}', Garbled(id=1)),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":1}}', Fault(id=None, code=1, error={"code": 1})),
        ('{"jsonrpc":"2.0","id":true,"result":{}}', Noise()),
        ('{"jsonrpc":"2.0","id":1.0,"result":{}}', Noise()),
        ('{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}', Noise()),
        ('{"jsonrpc":"2.0","method":"a","method":"b"}', Noise()),
        ('{"jsonrpc":"2.0","id":{},"method":"a"}', Noise()),
        ('{"jsonrpc":"2.0","method":3}', Noise()),
        ('{"jsonrpc":"2.0","method":"a","params":[]}', Noise()),
        ('{"jsonrpc":"1.0","id":1,"result":{}}', Noise()),
        ("[" * 100_000, Noise()),
        ('"x"', Noise()),
        (b"\xff\xfe", Noise()),
        ('{"jsonrpc":"2.0","id":1,"result":{"a":' + "[" * 79 + "]" * 79 + "}}", Noise()),
        (r'{"jsonrpc":"2.0","id":1,"result":{"a":["\ud800"]}}', Garbled(id=1)),
        (r'{"jsonrpc":"2.0","id":1,"result":{"\uDFFF":1}}', Garbled(id=1)),
        (r'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\ud800"}}', Garbled(id=1)),
        (r'{"jsonrpc":"2.0","id":"\ud800","result":{}}', Noise()),
        (r'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', Noise()),
        (r'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\udabc"}}', Noise()),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xed\xa0\x80"}}', Noise()),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2}}', Garbled(id=1)),
        (
            r'{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d\ude00\\ud800"}}',
            Answer(id=1, result={"a": "\U0001f600\\ud800"}, size=61),
        ),
    ],
)
def test_what_is_not_sound_is_no_answer(text: str, read: object) -> None:
    assert read_message(text) == read


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}"), ('[1,{"b":1,"a":', "}]")])
@pytest.mark.parametrize("levels", [78, 80, 900, 5_000])
def test_what_has_more_levels_than_are_heard_is_none_whatever_they_are(opens: str, closes: str, levels: int) -> None:
    times = levels // len(closes)
    text = f'{{"jsonrpc":"2.0","id":1,"result":{{"a":{opens * times}1{closes * times}}}}}'
    assert is_too_deep(text) is (levels > 78)
    assert isinstance(read_message(text), Noise if levels > 78 else Answer)


def test_one_level_more_is_too_many() -> None:
    text = '{"jsonrpc":"2.0","id":1,"result":{"a":' + "[" * 79 + "]" * 79 + "}}"
    assert is_too_deep(text) and read_message(text) == Noise()


def test_levels_are_counted_outside_of_texts_however_a_text_ends() -> None:
    deepest = '{"jsonrpc":"2.0","id":1,"result":{"a":' + "[" * 78 + '"' + '[{\\"' * 100 + '"' + "]" * 78 + "}}"
    assert isinstance(read_message(deepest), Answer)
    assert is_too_deep("[" * 81) and not is_too_deep('"\\"' + "[" * 81) and not is_too_deep("[]" * 81)


@given(st.one_of(st.binary(), st.text(), st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(["jsonrpc", "id", "result", "error",
                                                                              "method", "params", "code"]), inner)),
).map(json.dumps)))  # fmt: skip
def test_nothing_that_comes_in_raises(text: bytes | str) -> None:
    read = read_message(text)

    assert json.dumps(asdict(read), ensure_ascii=False).encode()  # so nothing of it can fail to be sent, or told
