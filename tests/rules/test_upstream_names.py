"""What a tool of an upstream is called here: exact where it can be, else made up of the exact name; never shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ContractError
from placet.model.contract import TOOL_NAME
from placet.rules.upstream_names import contract_name, contract_names, require_server_id, require_upstream_name

LONGEST = "x" * (64 - len("desk."))


@pytest.mark.case("B05")
def test_two_servers_with_a_tool_of_one_name_never_meet() -> None:
    assert contract_names("a", ["search"]) == {"search": "a.search"}
    assert contract_names("b", ["search"]) == {"search": "b.search"}


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("create", "desk.create"),
        ("create.now-2_X", "desk.create.now-2_X"),
        (LONGEST, f"desk.{LONGEST}"),
        (LONGEST + "y", f"desk.{'x' * 50}-a323a559"),
        ("repos/get", "desk.repos_get-4b1f2259"),
        ("repos:get", "desk.repos_get-f9a82d7d"),
        ("$", "desk._-09fc9608"),
    ],
)
def test_a_name_is_kept_where_it_can_be_and_shortened_with_a_mark_where_it_cannot(tool: str, name: str) -> None:
    assert contract_name("desk", tool) == name


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=256))
def test_every_name_that_is_one_gets_one_that_can_be_registered_and_always_the_same(tool: str) -> None:
    name = contract_name("s" * 24, tool)

    assert TOOL_NAME.fullmatch(name) and name.startswith("s" * 24 + ".")
    assert contract_name("s" * 24, tool) == name


@given(st.lists(st.text(alphabet="ab/:_-1", min_size=1, max_size=90), unique=True, max_size=20))
def test_no_two_tools_of_a_server_share_a_name(tools: list[str]) -> None:
    names = contract_names("desk", tools)

    assert len(set(names.values())) == len(names)


def test_tools_that_are_called_alike_are_both_left_out_and_others_are_not() -> None:
    crafted = contract_name("desk", "repos/get").removeprefix("desk.")

    assert contract_names("desk", ["repos/get", crafted, "other"]) == {"other": "desk.other"}


@pytest.mark.case("B02")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("list_\ufeffitems", r"list_\u{feff}items"),
        ("d\u0435lete_record", "d\u0435lete_record"),
        ("\uff44elete_record", "\uff44elete_record"),
        ("two words", "two words"),
        ("line\nbreak", r"line\nbreak"),
        ("", ""),
        ("x" * 257, "x" * 80),
    ],
)
def test_what_is_not_printable_ascii_is_no_name_and_is_shown_with_escapes(name: str, shown: str) -> None:
    with pytest.raises(ContractError) as caught:
        require_upstream_name(name)

    assert f"'{shown}'" in str(caught.value)
    assert contract_names("desk", [name, "good"]) == {"good": "desk.good"}


@pytest.mark.parametrize("server", ["", "Desk", "1desk", "de.sk", "d" * 25, "desk\n", None, 7])
def test_a_server_id_is_short_and_of_few_letters(server: object) -> None:
    with pytest.raises(ContractError, match="An upstream's id is 1 to 24 characters"):
        require_server_id(server)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="An upstream's id is 1 to 24 characters"):
        contract_names(server, [])  # type: ignore[arg-type]
