"""The canonical form and the digests over it: the same in every process, and equal exactly for the same call."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import placet
from placet.model.contract import KeyTemplate
from placet.model.identifiers import CallId, RunId
from placet.rules.canonical import canonical_bytes, rfc8785_bytes
from placet.rules.decoding import decode_object
from placet.rules.encoding import encode_foreign
from placet.rules.operations import argument_digest, call_key, fingerprint, operation_key

HERE = Path(__file__).resolve()
GOLDEN = HERE.parents[1] / "rules" / "golden_canonical.json"
NUMBERS = 100_000
STREAM_DIGEST = "c80b2924"  # of our spellings of the stream, so that no later version spells one number otherwise


def doubles(count: int, seed: int = 8785) -> Iterator[float]:
    """Finite doubles of any bits; every other one near a power of ten or two, where layouts and roundings change."""
    chance = random.Random(seed)
    while count:
        match chance.randrange(4):
            case 0:
                number = float(f"{chance.choice(('', '-'))}{chance.randrange(1, 10**17)}e{chance.randrange(-330, 300)}")
            case 1:
                near = struct.unpack(">q", struct.pack(">d", 2.0 ** chance.randrange(-1074, 1024)))[0]
                (number,) = struct.unpack(">d", struct.pack(">q", near + chance.randrange(-2, 3)))
            case _:
                (number,) = struct.unpack(">d", chance.randbytes(8))
        if number - number == 0:
            count -= 1
            yield number


def test_a_hundred_thousand_doubles_are_spelled_as_an_independent_implementation_does_but_for_their_fraction() -> None:
    digest = hashlib.sha256()
    integral = 0
    for number in doubles(NUMBERS):
        ours, theirs = canonical_bytes(number), rfc8785.dumps(number)
        assert rfc8785_bytes(number) == theirs, number.hex()
        if number == 0:
            assert ours in (b"0.0", b"-0.0")
        elif number.is_integer() and b"e" not in theirs:
            assert ours == theirs + b".0", number.hex()
            integral += 1
        else:
            assert ours == theirs, number.hex()
        assert struct.pack(">d", json.loads(ours)) == struct.pack(">d", number)
        digest.update(ours + b"\n")
    assert integral > 500
    assert digest.hexdigest()[:8] == STREAM_DIGEST


@pytest.mark.case("A07")
@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_an_official_vector_differs_in_the_fraction_of_integral_floats_alone(name: str, shared_data: Path) -> None:
    folder = shared_data / "jcs" / "testdata"
    published = (folder / "output" / f"{name}.json").read_bytes().strip()
    value = json.loads((folder / "input" / f"{name}.json").read_bytes())

    assert rfc8785_bytes(value) == published
    assert rfc8785.dumps(json.loads(canonical_bytes(value))) == published
    assert canonical_bytes(value) == canonical_bytes(json.loads(canonical_bytes(value)))


PROGRAM = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.properties.test_same_everywhere import everything
print(hashlib.sha256(everything()).hexdigest())
"""


def everything() -> bytes:
    """Spellings, digests and names of all golden vectors and of many numbers."""
    vectors = json.loads(GOLDEN.read_text("utf-8"))["vectors"]
    values: list[Any] = [json.loads(vector["input"]) for vector in vectors]
    values += [{"n": number, "caf\u00e9": [number], "a": None} for number in doubles(2_000)]
    parts = []
    for value in values:
        spelled = canonical_bytes(value)
        parts += [spelled, argument_digest("t", spelled).encode(), fingerprint("t", spelled).encode()]
    parts.append(call_key("r\u00e9", "c").encode())  # type: ignore[arg-type]
    return b"\n".join(parts)


@pytest.mark.parametrize(
    "surroundings",
    [
        {"PYTHONHASHSEED": "0", "LC_ALL": "C", "LANG": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0", "PYTHONINTMAXSTRDIGITS": "640"},
        {"PYTHONHASHSEED": "random", "LC_NUMERIC": "de_DE.UTF-8", "PYTHONOPTIMIZE": "1"},
    ],
    ids=["C", "elsewhere", "turkish", "optimised"],
)
def test_a_fresh_process_in_other_surroundings_spells_and_digests_alike(surroundings: dict[str, str]) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(HERE.parents[2])],
        env={**inherited, "PYTHONPATH": str(HERE.parents[2] / "src"), **surroundings},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()

    assert told == hashlib.sha256(everything()).hexdigest()


# ---------------------------------------------------------------- the same call

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15)
leaves = st.none() | st.booleans() | numbers | st.text("ab1.e", max_size=3)
arguments = st.dictionaries(
    st.sampled_from(["a", "b", "1"]),
    st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner), max_leaves=4
    ),
    max_size=2,
)
names = st.text('ab{:"', min_size=1, max_size=3)


def exactly(value: Any) -> Any:
    if type(value) is dict:
        return tuple(sorted((name, exactly(member)) for name, member in value.items()))
    if type(value) is list:
        return [exactly(item) for item in value]
    return type(value).__name__, repr(value)


@pytest.mark.req("B070", "B071", "C026")
@given(names, arguments, names, arguments)
def test_digests_are_equal_exactly_if_tool_and_arguments_are(one: str, mine: Any, other: str, yours: Any) -> None:
    alike = one == other and exactly(mine) == exactly(yours)
    for digest in (argument_digest, fingerprint):
        assert (digest(one, canonical_bytes(mine)) == digest(other, canonical_bytes(yours))) is alike
    assert argument_digest(one, canonical_bytes(mine)) != fingerprint(one, canonical_bytes(mine))


@pytest.mark.req("B070")
@given(arguments)
def test_what_was_digested_is_read_back_type_for_type(value: Any) -> None:
    assert exactly(decode_object(canonical_bytes(value))) == exactly(value)
    assert exactly(decode_object(encode_foreign(value))) == exactly(value)
    assert canonical_bytes(decode_object(encode_foreign(value))) == canonical_bytes(value)


async def _look(one: str, two: str) -> None: ...


CONTRACT = placet.tool(effect="read", name="look")(_look).contract
parts = st.text('a",[]:@\u00e9', max_size=3) | st.integers(196, 204).map(lambda length: "k" * length)
keyed = st.tuples(st.sampled_from(["run", "caller", "business"]), parts, parts, st.sampled_from(["production", "x"]))


def key(kind: str, one: str, two: str, environment: str) -> str:
    agent = placet.Principal.agent(f"s{one}"[:128], tenant="acme", environment=environment)
    template = KeyTemplate(text="k:{one}:{two}", fields=("one", "two")) if kind == "business" else None
    contract = replace(CONTRACT, operation_key=template)
    caller_key = two if kind == "caller" else None
    return operation_key(
        contract, {"one": one, "two": two}, agent, run_id=RunId(one), call_id=CallId(two), caller_key=caller_key
    )


def identity(kind: str, one: str, two: str, environment: str) -> tuple[str, ...]:
    """What an operation's name is made of: a run's calls have no environment but their run's."""
    match kind:
        case "run":
            return (kind, one, two)
        case "caller":
            return (kind, f"s{one}"[:128], two, environment)
        case _:
            return (kind, one, two, environment)


@pytest.mark.req("C033", "H030")
@given(keyed, keyed)
def test_operation_keys_are_equal_exactly_if_all_that_names_the_operation_is(
    one: tuple[str, str, str, str], other: tuple[str, str, str, str]
) -> None:
    assert (key(*one) == key(*other)) is (identity(*one) == identity(*other))
    assert len(key(*one)) <= 200
    assert key(*one).isascii()
