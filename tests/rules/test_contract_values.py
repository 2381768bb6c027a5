"""Values whatever their types: what counts as coerced, as lost, and as text that hides or steers."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import InvalidArguments
from placet.rules.contracts.values import coerced, refuse_control_text, refuse_loss

# ---------------------------------------------------------------- coerced

DAY = "1970-08-23"


@pytest.mark.req("B020")
@pytest.mark.case("A12")
@pytest.mark.parametrize(
    ("read", "written"),
    [(True, 1), (False, 0), (1, True), (True, 1.0), (1.0, True), (1.0, 1), (0.0, 0)],
)
def test_a_truth_and_a_number_or_a_fraction_and_an_integer_are_not_the_same(read: Any, written: Any) -> None:
    assert coerced(read, written) == ()


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (True, True), (False, True), (1, 1), (1, 2), (1.5, 1.5), (1, 1.0), (None, None), (True, "true"), ("1", 1),
        (1, "1"), (1.0, "1.0"), (1.0, None), ("a", "b"), (None, 1), ({}, 1), ([], 1), (1, []), ("5", None), (20, DAY),
        ({"a": 1}, 1), (1, {"a": 1}), ("true", True), ("1.0", 1.5),
    ],
)  # fmt: skip
def test_a_value_that_keeps_its_kind_is_not_coerced(read: Any, written: Any) -> None:
    assert coerced(read, written) is None


@pytest.mark.req("B020")
@pytest.mark.parametrize(
    "digits",
    ["5", "20240101", " 5", "5 ", "\t55\n", "-5", "+5", "5.", "5.5", "55.55", ".5", ".55", "-.5", "1e3", "1E3", "1e-3",
     "1e+3", "1.5e33", " -1.5E+3 "],
)  # fmt: skip
def test_digits_that_became_an_instant_are_coerced(digits: str) -> None:
    assert coerced(digits, DAY) == ()


@pytest.mark.parametrize(
    "text", ["", " ", ".", "-", "+", "e5", ".e5", "1e", "1e+", "5x", "x5", "5 5", "--5", "1.2.3", "1e3.5", DAY, "P1D"]
)
def test_a_text_that_is_no_number_may_be_an_instant(text: str) -> None:
    assert coerced(text, DAY) is None


@pytest.mark.parametrize(
    "instant", [DAY, "9999-12-31T23:59:59Z", "12345-06-07", "00:00:05", "12:34", "P1D", "PT5S", "-P9DT5S", "-PT5S"]
)
def test_every_spelling_of_an_instant_or_a_duration_is_known(instant: str) -> None:
    assert coerced("5", instant) == ()


@pytest.mark.parametrize(
    "text", ["5", "5.0", "x", "PX", "P", "T5", "123-45-67", "1970-1-01", "1970-01", "1:23", " 12:34", ""]
)
def test_digits_that_are_written_as_something_else_stay(text: str) -> None:
    assert coerced("5", text) is None


def test_the_place_of_what_was_coerced_is_told() -> None:
    read = {"a": 1, "b": [{"c": 1}, {"c": True}], "d": False}

    assert coerced(read, {"a": 1, "b": [{"c": 1}, {"c": 1}], "d": 0}) == ("b", "1", "c")
    assert coerced(read, {"a": 1, "b": [{"c": 1}, {"c": True}], "d": 0}) == ("d",)
    assert coerced(read, read) is None


def test_what_has_no_counterpart_is_not_compared() -> None:
    assert coerced({"a": True, "b": True}, {"b": True}) is None
    assert coerced({"a": True, "b": True}, {"b": 1}) == ("b",)
    assert coerced([True], [1, 2]) is None
    assert coerced([True, True], [1]) is None
    assert coerced([True, True], [True, 1]) == ("1",)


# ---------------------------------------------------------------- lost


def lost(read: Any, written: Any) -> str | None:
    """Where a member was lost."""
    try:
        refuse_loss(read, written)
    except InvalidArguments as error:
        assert error.reason == "contract_broken"
        ((place, rule),) = error.problems
        assert rule == "member_lost"
        return place
    return None


@pytest.mark.req("B013")
@pytest.mark.parametrize(
    ("read", "written", "place"),
    [
        ({"A": 1, "a": 2}, {"a": 2}, ""),
        ({"a": 1}, {}, ""),
        ({"x": {"A": 1, "a": 2}}, {"x": {"a": 2}}, "/x"),
        ({"x": [{}, {"A": 1, "a": 2}]}, {"x": [{}, {"a": 2}]}, "/x/1"),
        ({"x": {"y": {"a": 1}}}, {"x": {"y": {}}}, "/x/y"),
        ([[{"a": 1}]], [[{}]], "/0/0"),
        # under a new name a member is told from its fellows by nothing, so all of them are counted together
        ({"K": {"A": 1, "a": 2}}, {"k": {"a": 2}}, ""),
        ({"K": [{"A": 1, "a": 2}]}, {"k": [{"a": 2}]}, ""),
        ({"K": {"i": {"A": 1, "a": 2}}}, {"k": {"i": {"a": 2}}}, ""),
        ({"K": {"A": 1, "a": 2}, "same": 1}, {"k": {"a": 2}, "same": 1}, ""),
        ({"K": {"A": 1, "a": 2}, "s": {"a": 1, "b": 2, "c": 3}}, {"k": {"a": 2}, "s": {"a": 1, "b": 2, "c": 3}}, ""),
        ({"K": {"a": 1}}, {"k": "a"}, ""),
    ],
)
def test_fewer_members_than_were_read_are_refused_with_their_place(read: Any, written: Any, place: str) -> None:
    assert lost(read, written) == place


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1, "default": 2}),
        ({"A": 1}, {"a": 1}),
        ({"K": {"A": 1, "B": 2}}, {"k": {"a": 1, "b": 2}}),
        ({"K": [{"A": 1}]}, {"k": [{"a": 1}]}),
        ({"K": {"A": {"B": 1}}}, {"k": {"a": {"b": 1}}}),
        ({"K": 1}, {"k": {"default": 1}}),
        ({"a": {"b": 1}}, {"a": "text"}),
        ({"a": [{"b": 1}]}, {"a": []}),
        ({"a": [{"b": 1}]}, {"a": [{}, {}]}),
        ([{"a": 1}], {}),
        ({"a": 1}, []),
        ({"K": [1, 2]}, {"k": [1]}),
        (1, [1]),
        ([1], 1),
        (1, 2),
    ],
)
def test_members_that_are_renamed_filled_in_or_read_as_another_kind_are_not_lost(read: Any, written: Any) -> None:
    assert lost(read, written) is None


# ---------------------------------------------------------------- text


def refusal(value: Any, *, everywhere: bool = True) -> tuple[str, str] | None:
    """The place and the rule."""
    try:
        refuse_control_text(value, everywhere=everywhere)
    except InvalidArguments as error:
        ((place, rule),) = error.problems
        assert rule == error.reason
        return place, rule
    return None


CONTROLS = [*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)]


@pytest.mark.case("A14")
@pytest.mark.parametrize("text", [*map(chr, CONTROLS), "\r", "a\rb", "\r\r\n", "\n\r"])
def test_a_control_character_is_refused(text: str) -> None:
    assert refusal({"text": f"a{text}b"}) == ("/text", "control_character")


@pytest.mark.parametrize(
    "token",
    ["<|im_start|>", "<|IM_END|>", "<|a|>", f"<|{'a' * 40}|>", "<|_|>", "<tool_call>", "</tool_call>", "<tool_calls>",
     "<tool_use>", "</tool_uses>", "<tool_result>", "</Tool_Results>", "[INST]", "[/INST]", "[inst]", "<function_call>",
     "<function_calls>", "</function_calls>", "<arg_key>", "</arg_key>", "<arg_value>", "</ARG_VALUE>"],
)  # fmt: skip
def test_a_token_of_a_model_s_template_is_refused(token: str) -> None:
    assert refusal({"text": f"say {token}."}) == ("/text", "model_template_token")


@pytest.mark.parametrize(
    "text",
    ["<||>", f"<|{'a' * 41}|>", "<|a b|>", "<|1|>", "<tool>", "<tool_>", "<tool_calling>", "[INST", "INST]", "[\\INST]",
     "<function>", "<arg_>", "<arg_keys>", "a\tb\nc\r\nd", "", " ~"],
)  # fmt: skip
def test_text_that_only_resembles_it_stays(text: str) -> None:
    assert refusal({"text": text}) is None


ENDS_OF_RANGES = "\u202a\u202e\u2066\u2069\u206a\u206f\U000e0000\U000e0041\U000e007f"
FLAG = "\U0001f3f4\U000e0067\U000e0062"


@pytest.mark.case("F02")
@pytest.mark.parametrize(
    "text",
    [
        *ENDS_OF_RANGES,
        *(f"{before}\U000e0100" for before in ("", "a", "\U0001f600", "\u33ff", "\ua000", "\uf8ff", "\ufb00")),
        "a\U000e01ef",
        "pay \u202emoc.live",
        f"\u845b{FLAG}\U000e0065\U000e006e\U000e0067\U000e007f\U000e0100",  # after England, not after the ideograph
        f"{FLAG}\U000e0065\U000e006e\U000e0067",  # England, not ended
        f"{FLAG}\U000e0068\U000e0069\U000e007f",
    ],
)
def test_text_that_is_reordered_or_hidden_is_refused_in_acts(text: str) -> None:
    refused = "invisible_character"

    assert refusal({"text": text}) == ("/text", refused)
    assert refusal({"text": text}, everywhere=False) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{FLAG}\U000e0065\U000e006e\U000e0067\U000e007f",
        f"{FLAG}\U000e0073\U000e0063\U000e0074\U000e007f",
        f"{FLAG}\U000e0077\U000e006c\U000e0073\U000e007f",
        *(f"{ideograph}\U000e0100" for ideograph in "\u3400\u9fff\uf900\ufaff\U00020000\U0003ffff"),
        "\u845b\U000e01ef",
        "\u2029 \u202f \u2065 \u2070",
        "\u05d0\u200f",
        "re\u00adport",
        "Müller 株式会社",
    ],
)
def test_prose_keeps_flags_variants_of_ideographs_and_marks(text: str) -> None:
    assert refusal({"text": text}) is None


@pytest.mark.case("B02", "F02")
@pytest.mark.parametrize(
    "key",
    [
        "name",
        "path",
        "file",
        "filename",
        "dir",
        "directory",
        "Name",
        "FILE_PATH",
        "user_name",
        "name_of_user",
        "a_dir_b",
    ],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_name_or_path_carries_nothing_invisible_and_no_control(key: str, everywhere: bool) -> None:
    assert refusal({key: "re\u00adport"}, everywhere=everywhere) == (f"/{key}", "invisible_character")
    assert refusal({key: "a\x07"}, everywhere=everywhere) == (f"/{key}", "control_character")
    assert refusal({key: "plain\n"}, everywhere=everywhere) is None
    assert refusal({key: "Müller"}, everywhere=everywhere) is None


@pytest.mark.parametrize(
    "key", ["rename", "names", "namely", "pathology", "dirt", "profile", "files", "xname_", "text", "_x"]
)
def test_what_is_not_called_a_name_or_path_is_prose(key: str) -> None:
    assert refusal({key: "re\u00adport"}) is None
    assert refusal({key: "a\x07 re\u00adport <|a|>"}, everywhere=False) is None


def test_the_name_of_a_member_is_a_name_where_it_acts() -> None:
    assert refusal({"a": {"re\u00adport": 1}}) == ("/a", "invisible_character")
    assert refusal({"a": [{"b\x07": 1}]}) == ("/a/0", "control_character")
    assert refusal({"a": {"<|x|>": 1}}) == ("/a", "model_template_token")
    assert refusal({"a": {"re\u00adport": 1, "b\x07": 1, "<|x|>": 1}}, everywhere=False) is None


def test_what_is_inside_a_list_has_the_list_s_name_and_what_is_inside_an_object_its_own() -> None:
    assert refusal({"path": ["a", ["b\u200b"]]}, everywhere=False) == ("/path/1/0", "invisible_character")
    assert refusal({"path": {"text": "b\u200b"}}, everywhere=False) is None
    assert refusal({"text": {"path": "b\u200b"}}, everywhere=False) == ("/text/path", "invisible_character")
    assert refusal({"text": [{"path": "b\u200b"}]}, everywhere=False) == ("/text/0/path", "invisible_character")
    assert refusal({"name": [1, None, True, 1.5, "ok"]}) is None
    assert refusal(["a", "b\u200b"], everywhere=False) is None
    assert refusal("a\x07") == ("", "control_character")
    assert refusal("b\u200b") is None
