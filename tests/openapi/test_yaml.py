"""A document in YAML says what it says in JSON, or is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.transports.http.documents import document_text, yaml_as_json
from placet.errors import DocumentRefused
from placet.rules.openapi import documents

pytestmark = pytest.mark.req("B035")


def read(text: str) -> Any:
    return json.loads(yaml_as_json(text))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True), ("True", True), ("FALSE", False), ("yes", "yes"), ("no", "no"), ("on", "on"), ("n", "n"),
        ("null", None), ("~", None), ("", None), ("1", 1), ("-7", -7), ("+7", 7), ("007", 7),
        ("0x1F", 31), ("0o17", 15),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("2024-01-01", "2024-01-01"), ("12:30:45", "12:30:45"),
        ("1_000", "1_000"), ("'1'", "1"), ('"true"', "true"), ("'null'", "null"), ("|\n  a\n  b\n", "a\nb\n"),
        ("[]", []), ("{}", {}), ("[a, [b]]", ["a", ["b"]]), ('"\\u00fc"', "ü"), ("3.0.3", "3.0.3"), ("1.0", 1.0),
        ("9007199254740993", 9007199254740993), ("=", "="), ("0b1", "0b1"), ("1:2", "1:2"),
    ],
)  # fmt: skip
def test_plain_words_mean_what_yaml_1_2_says(written: str, meant: Any) -> None:
    found = read(f"a: {written}\nb: 1")
    assert found == {"a": meant, "b": 1}
    assert type(found["a"]) is type(meant)


def test_names_are_text_whatever_they_look_like() -> None:
    assert read("200: a\ntrue: b\nnull: c\n2024-01-01: d\n") == {
        "200": "a",
        "true": "b",
        "null": "c",
        "2024-01-01": "d",
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: &x 1\nb: *x\n", "alias"),
        ("a: !!python/object/apply:os.system ['true']\n", "tag"),
        ("a: !!str 1\n", "tag"),
        ("a: ! 1\n", "tag"),
        ("<<: {a: 1}\n", "merge key"),
        ("? [a]\n: b\n", "no text"),
        ("a: .inf\n", "number"),
        ("a: .NaN\n", "number"),
        ("a: 1e999\n", "number"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("a: [1\n", "line"),
        ("a: b: c\n", "line"),
        ("[" * 100 + "]" * 100, "64 levels"),
        ("- " * 100 + "a", "64 levels"),
        ("a: \x07\n", "sound YAML"),
    ],
)
def test_what_json_cannot_say_is_refused_without_its_text(text: str, word: str) -> None:
    with pytest.raises(DocumentRefused, match=word) as refused:
        yaml_as_json(text)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_aliases_that_would_grow_are_never_followed() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9))
    with pytest.raises(DocumentRefused, match="alias"):
        yaml_as_json(f"l0: &l0 [x]\n{levels}\n")


def test_a_repeated_member_is_found_where_json_is_read() -> None:
    with pytest.raises(DocumentRefused, match="duplicate member"):
        documents.document_from(yaml_as_json("openapi: 3.1.0\npaths: {}\npaths: {}\n"))


def test_a_whole_document_is_the_same_in_both(tmp_path: Path) -> None:
    as_yaml = tmp_path / "api.yaml"
    as_yaml.write_text(
        """\
openapi: 3.0.3
info: {title: T, version: "1"}
paths:
  /things/{id}:
    get:
      operationId: get_thing
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses:
        200: {description: "", content: {application/json: {schema: {type: object}}}}
""",
        encoding="utf-8",
    )
    as_json = tmp_path / "api.json"
    as_json.write_text(yaml_as_json(as_yaml.read_text(encoding="utf-8")), encoding="utf-8")
    one, other = (documents.operations_of(documents.document_from(document_text(file))) for file in (as_yaml, as_json))
    assert one == other
    assert one[0].tool == "get_thing"


def test_a_file_that_is_not_there_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentRefused, match="cannot be read"):
        document_text(tmp_path / "absent.yaml")
    with pytest.raises(DocumentRefused, match="cannot be read"):
        document_text(tmp_path)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"a" * (documents.MAX_DOCUMENT_BYTES + 1))
    with pytest.raises(DocumentRefused, match="more than"):
        document_text(large)
    (tmp_path / "other.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentRefused, match="UTF-8"):
        document_text(tmp_path / "other.yaml")


def test_without_the_extra_json_is_read_and_yaml_told_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.json").write_text(' {"openapi": "3.1.0"}', encoding="utf-8")
    assert document_text(tmp_path / "a.json") == ' {"openapi": "3.1.0"}'
    with pytest.raises(DocumentRefused) as refused:
        yaml_as_json("openapi: 3.1.0")
    assert (refused.value.code, "checkout[openapi]" in refused.value.hint) == ("extra_missing", True)
    assert refused.value.__context__ is None
