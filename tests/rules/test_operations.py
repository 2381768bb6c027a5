"""Operation keys, fingerprints and resources: what names one intended operation."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from typing import Any

import pytest

import placet
from placet import Principal
from placet.errors import InvalidArguments
from placet.model.contract import Contract
from placet.rules import operations
from placet.rules.canonical import canonical_bytes

AGENT = Principal.agent("agent", tenant="acme")


def contract(**options: Any) -> Contract:
    async def refund(
        order: str, part: str = "", amount: int = 0, share: float = 0.5, note: str | None = None
    ) -> str: ...

    settings: dict[str, Any] = {"effect": "write", "risk": "low", "permission": "p"}
    return placet.tool(**(settings | options))(refund).contract


def key(of: Contract, arguments: Any = None, *, run: str = "r1", call: str = "c1", caller: str | None = None,
        principal: Principal = AGENT) -> str:  # fmt: skip
    return operations.operation_key(
        of, arguments or {}, principal, run_id=run, call_id=call, caller_key=caller  # type: ignore[arg-type]
    )  # fmt: skip


TEMPLATE = contract(operation_key="refund:{order}:{part}")


@pytest.mark.req("H030")
def test_without_a_business_key_run_and_call_name_the_operation() -> None:
    assert key(contract()) == '["call","r1","c1"]'
    assert key(contract(), run="r2") != key(contract()) != key(contract(), call="c2")


@pytest.mark.req("C033", "H030")
def test_a_callers_key_names_it_whatever_the_run_and_the_call_but_within_the_principal() -> None:
    other = Principal.agent("other", tenant="acme")

    assert key(contract(), caller="k") == '["caller","agent","k"]' == key(contract(), run="r9", call="c9", caller="k")
    assert key(contract(), caller="k", principal=other) != key(contract(), caller="k")


@pytest.mark.case("H07")
def test_a_contracts_template_is_never_replaced_by_a_callers_key() -> None:
    arguments = {"order": "A", "part": "1"}

    assert key(TEMPLATE, arguments, caller="k1") == key(TEMPLATE, arguments, caller="k2") == key(TEMPLATE, arguments)
    assert key(TEMPLATE, arguments) == '["business","refund:{order}:{part}","A","1"]'


def test_fields_never_run_into_each_other() -> None:
    assert key(TEMPLATE, {"order": "a:b", "part": "c"}) != key(TEMPLATE, {"order": "a", "part": "b:c"})
    assert key(TEMPLATE, {"order": 'a","b', "part": "c"}) != key(TEMPLATE, {"order": "a", "part": 'b","c'})
    assert key(contract(), run='r","c', call="x") != key(contract(), run="r", call='c","x')


def test_types_and_kinds_do_not_meet() -> None:
    number = contract(operation_key="k:{amount}")
    values = {"1": 1, '"1"': "1", "true": True, "false": False, '"true"': "true", r'"\u00e4\""': 'ä"'}

    assert {written: key(number, {"amount": value}) for written, value in values.items()} == {
        written: f'["business","k:{{amount}}",{written}]' for written in values
    }
    assert key(contract(), run="agent", call="k") != key(contract(), caller="k")


@pytest.mark.parametrize("value", [None, 1.5, [], {}, ["a"]])
def test_a_key_field_that_is_null_or_no_plain_scalar_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments) as caught:
        key(contract(operation_key="k:{note}"), {"note": value})

    assert caught.value.problems == (("/note", "key_field_missing"),)


def test_an_absent_key_field_is_refused() -> None:
    with pytest.raises(InvalidArguments):
        key(TEMPLATE, {"order": "A"})


def test_keys_beyond_200_characters_are_hashed_and_stay_apart() -> None:
    long = key(TEMPLATE, {"order": "A" * 500, "part": "1"})

    assert len(long) <= 200
    assert long.startswith('["business","sha256","')
    assert long != key(TEMPLATE, {"order": "A" * 501, "part": "1"})
    assert len(key(contract(), run="r" * 128, call="c" * 128)) <= 200


def test_a_key_of_exactly_200_characters_is_kept_as_it_is() -> None:
    base = len(key(TEMPLATE, {"order": "", "part": ""}))

    assert len(key(TEMPLATE, {"order": "A" * (200 - base), "part": ""})) == 200
    assert "sha256" not in key(TEMPLATE, {"order": "A" * (200 - base), "part": ""})
    assert "sha256" in key(TEMPLATE, {"order": "A" * (201 - base), "part": ""})


@pytest.mark.req("C036", "C026")
def test_the_fingerprint_is_of_tool_and_canonical_arguments() -> None:
    one = operations.fingerprint("a", canonical_bytes({"x": 1, "y": 2}))

    assert one == operations.fingerprint("a", canonical_bytes({"y": 2, "x": 1}))
    assert one != operations.fingerprint("b", canonical_bytes({"x": 1, "y": 2}))
    assert one != operations.fingerprint("a", canonical_bytes({"x": 1.0, "y": 2}))


@pytest.mark.req("H030")
def test_the_version_is_no_part_of_fingerprint_and_key() -> None:
    old, new = contract(version="1"), contract(version="2")

    assert old.digest != new.digest
    assert key(old) == key(new)


@pytest.mark.req("H024", "H025", "B082")
def test_argument_digest_and_fingerprint_are_hashes_of_different_domains() -> None:
    text = canonical_bytes({"x": 1})

    assert operations.argument_digest("a", text) != operations.fingerprint("a", text)
    assert operations.argument_digest("ab", b"c") != operations.argument_digest("a", b"bc")
    assert len(operations.argument_digest("a", text)) == 64


def test_a_resource_names_its_fields_and_is_absent_without_a_template() -> None:
    assert operations.resource(contract(), {}) is None
    assert operations.resource(contract(resource="order:{order}"), {"order": "A"}) == '["order:{order}","A"]'


# ---------------------------------------------------------------- digests


def sha256_hex(domain: str, *parts: bytes) -> str:
    """As the digest is described, written again: the domain, NUL, then each part behind its length."""
    message = domain.encode() + b"\0" + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(message).hexdigest()


def test_what_names_arguments_and_operations_is_this_so_that_finished_ones_are_known_again() -> None:
    form = b'{"word":"x"}'
    long = "x" * 300
    text = f'["call","r1","{long}"]'.encode()

    assert operations.argument_digest("act", form) == sha256_hex("placet/arguments/1", b"act", form)
    assert operations.fingerprint("act", form) == sha256_hex("placet/operation/1", b"act", form)
    assert key(contract(), call=long) == f'["call","sha256","{sha256_hex("placet/key/1", text)}"]'


def test_an_operation_of_another_environment_has_a_kind_of_its_own() -> None:
    staging = dataclasses.replace(AGENT, environment="staging")

    assert key(TEMPLATE, {"order": "A", "part": "1"}, principal=staging).startswith('["business@staging",')
    assert key(contract(), caller="k", principal=staging).startswith('["caller@staging",')


# ---------------------------------------------------------------- resources for people


@pytest.mark.parametrize(
    ("template", "arguments", "shown"),
    [
        ("ticket:{order}", {"order": "T-1"}, "ticket:T-1"),
        ("{order}/{part}", {"order": "a", "part": "b"}, "a/b"),
        ("n:{amount}", {"amount": 7}, "n:7"),
        ("ticket:{order}", {"order": "{part}"}, "ticket:{part}"),
    ],
)
def test_a_resource_reads_as_its_template_filled_in(template: str, arguments: dict[str, Any], shown: str) -> None:
    name = operations.resource(contract(resource=template), arguments)

    assert name is not None
    assert operations.readable(name) == shown


def test_every_name_a_template_may_use_is_filled_in() -> None:
    assert operations.readable('["{a} {B2} {_c_9} {Z} {aB}","1","2","3","4","5"]') == "1 2 3 4 5"
    assert operations.readable('["{9a} {a-b} {} { a}","1"]') == "{9a} {a-b} {} { a}"


def test_a_number_names_an_operation_exactly_whatever_digits_the_interpreter_is_told_to_write() -> None:
    number, before = 10**1000 + 7, sys.get_int_max_str_digits()
    wide = contract(operation_key="k:{amount}")
    text = f'["business","k:{{amount}}",{number}]'.encode()
    sys.set_int_max_str_digits(640)
    try:
        named = key(wide, {"amount": number})
    finally:
        sys.set_int_max_str_digits(before)

    assert named == f'["business","sha256","{sha256_hex("placet/key/1", text)}"]'


def test_a_name_too_deep_to_be_read_reads_as_it_is() -> None:
    deep = "[" * 100_000

    assert operations.readable(deep) == deep


@pytest.mark.parametrize(
    "name",
    ["ticket:T-1", "", "7", "{}", "null", "[]", "[7]", '["{a} {b}","1"]', '["business","sha256","00"', '[["{a}"],1]'],
)
def test_a_name_that_is_no_filled_template_reads_as_it_is(name: str) -> None:
    assert operations.readable(name) == name


def test_only_a_contract_with_a_template_names_its_operations_itself() -> None:
    assert operations.is_business_key(TEMPLATE) is True
    assert operations.is_business_key(contract()) is False
