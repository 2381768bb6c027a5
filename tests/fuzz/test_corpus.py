"""Every input of the corpus through its target, without a fuzzer; and each target notices a broken implementation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuzz
from fuzz import targets
from fuzz.targets import TARGETS
from placet.errors import InvalidArguments
from placet.model.proposal import Proposal
from placet.rules import canonical, decoding, proposals, redaction, scrubbing
from placet.rules.contracts import schema_checks
from placet.rules.openapi import requests

CORPUS = Path(fuzz.__file__).with_name("corpus")
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


def test_each_target_has_its_folder_and_each_folder_its_target() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} == set(TARGETS)
    assert {path.parent.name for path in FILES} == set(TARGETS)
    assert all(path.stem in TARGETS for path in CORPUS.glob("*.dict"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_input_holds(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_a_target_is_the_same_in_every_process_for_the_same_bytes() -> None:
    from fuzz.choices import Choices

    def made(data: bytes) -> list[object]:
        choices = Choices(data)
        return [choices.below(7), choices.integer(), choices.double(), choices.text(), choices.yes(), choices.rest()]

    data = bytes(range(1, 60))
    assert repr(made(data)) == repr(made(data))
    assert made(b"") == [0, -128, 0.0, "", False, b""]


@pytest.mark.parametrize("name", sorted(TARGETS))
@given(data=st.data())
def test_inputs_near_the_corpus_hold(name: str, data: st.DataObject) -> None:
    known = [path.read_bytes() for path in FILES if path.parent.name == name]
    start = data.draw(st.sampled_from(known))
    position = data.draw(st.integers(0, len(start)))
    removed = data.draw(st.integers(0, 4))
    TARGETS[name](start[:position] + data.draw(st.binary(max_size=8)) + start[position + removed :])


# ---------------------------------------------------------------- a target that notices nothing proves nothing


def lenient(text: Any, **_: Any) -> Any:
    """A decoder as many have it."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError):
        value = None
    if type(value) is dict:
        return value
    raise InvalidArguments("not_json")


def shortened(value: Any) -> bytes:
    """A canonical form that forgets what comes late."""
    return canonical.canonical_bytes(value[:1] if type(value) is list else value)


def talkative(text: str) -> str:
    raise InvalidArguments(text)


def unchecked(raw: Any) -> Proposal:
    return raw if type(raw) is Proposal else Proposal(**(raw if type(raw) is dict else {}))


def nothing_altered(events: Any, heads: Any, linker: Any, **more: Any) -> Any:
    return replace(GENUINE_VERIFY(events, heads, linker, **more), breaks=())


def believed(lines: Any, linker: Any) -> Any:
    return replace(GENUINE_EXPORT(lines, linker), faults=())


GENUINE_VERIFY = targets.audit.verify_chains
GENUINE_EXPORT = targets.exports.verify_export

BROKEN: list[tuple[str, Any, str, Any]] = [
    ("decoding", targets.decoding, "decode_object", lenient),
    ("decoding", decoding, "LONE_SURROGATE", decoding.re.compile("never")),
    ("canonical", targets.canonical, "canonical_bytes", shortened),
    ("canonical", canonical, "float_text", repr),
    ("canonical", canonical, "isfinite", lambda number: True),
    ("proposals", targets.proposals, "read_proposal", unchecked),
    ("proposals", proposals, "is_call_id", lambda value: type(value) is str),
    ("logs", scrubbing, "_scrubbed_once", str),
    ("logs", redaction, "_size_of_content", str),
    ("audit", targets.audit, "verify_chains", nothing_altered),
    ("exports", targets.exports, "verify_export", believed),
    ("schemas", schema_checks.SchemaRule, "problems", lambda rule, value: ()),
    ("openapi", requests, "_encoded", lambda text: text),
    ("openapi", requests, "_in_path", str),
]


@pytest.mark.parametrize(
    ("name", "module", "attribute", "broken"), BROKEN, ids=[f"{name}-{attribute}" for name, _, attribute, _ in BROKEN]
)
def test_a_broken_implementation_is_noticed_by_its_corpus(
    name: str, module: Any, attribute: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert getattr(module, attribute) is not broken
    monkeypatch.setattr(module, attribute, broken)
    if name == "exports":
        targets.exports.exported.cache_clear()

    assert noticed(TARGETS[name], name)


def noticed(check: Callable[[bytes], None], name: str) -> bool:
    for path in FILES:
        if path.parent.name == name:
            try:
                check(path.read_bytes())
            except BaseException:  # whatever comes out of a target is a finding
                return True
    return False
