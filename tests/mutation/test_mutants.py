"""The mutants of a text: what is changed, what is left alone, and by what name a mutant is found again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.mutation.patterns import edits
from scripts.mutation.sources import Mutant, error_names, mutants


def changed(tmp_path: Path, text: str) -> set[str]:
    """The text after each mutant, without the ends of its lines' blanks."""
    return {mutant.applied(text) for mutant in found(tmp_path, text)}


def found(tmp_path: Path, text: str) -> list[Mutant]:
    path = tmp_path / "sample.py"
    path.write_text(text, encoding="utf-8")
    return mutants(path, root=tmp_path, error_names=frozenset({"SampleError"}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a <= b", {"x = a < b", "x = a > b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = a and b", {"x = a or b", "x = True and b", "x = a and True"}),
        ("x = a or b", {"x = a and b", "x = False or b", "x = a or False"}),
        ("x = not a", {"x =  a"}),
        ("x = 8_192", {"x = 8193", "x = 8191"}),
        ("x = 0.5", {"x = 1.5", "x = -0.5"}),
        ("x = True", {"x = False"}),
        ("x = 'word'", {"x = 'XXwordXX'"}),
        ("x = b'word'", {"x = b'XXword'"}),
        ("x = f'{a} b'", {"x = f'XX{a} b'"}),
        ("x = a[b:c]", {"x = a[:c]", "x = a[b:]", "x = a[b + 1:c]", "x = a[b:c + 1]"}),
        ("x = {a, b}", {"x = {b}", "x = {a}"}),
        ("x = (a, b, c)", {"x = (b, c)", "x = (a, c)", "x = (a, b)"}),
        ("x = {a: b, c: d}", {"x = {c: d}", "x = {a: b}"}),
        ("x = {a: (b), c: (\n  d\n)}", {"x = {c: (\n  d\n)}", "x = {a: (b)}"}),
        ("x = set(\n  a\n  .b\n)", {"x = (a\n  .b)", "x = set(\n  None\n)"}),
        ("x = min(a)", {"x = max(a)", "x = min(None)"}),
        ("x = a.lower()", {"x = a"}),
        ("x = f(a=b)", {"x = f()"}),
        ("x = f(a=b, c=d)", {"x = f(c=d)", "x = f(a=b)"}),
        ("x = f(a, b)", {"x = f(None, b)", "x = f(a, None)", "x = f(a)"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("x += a", {"x -= a", "x = a"}),
        ("for a in b:\n    break", {"for a in b:\n    continue"}),
        ("try:\n    f()\nexcept (A, B):\n    pass", {
            "try:\n    pass\nexcept (A, B):\n    pass",
            "try:\n    f()\nexcept (B):\n    pass",
            "try:\n    f()\nexcept (A):\n    pass",
        }),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f():\n    raise a", {"def f():\n    pass"}),
        ("match a:\n    case B() | C():\n        f()", {
            "match a:\n    case C():\n        f()",
            "match a:\n    case B() :\n        f()",
            "match a:\n    case B() | C():\n        pass",
        }),
        ("x = [a for a in b if c]", {"x = [a for a in b if not (c)]", "x = [a for a in b if True]"}),
    ],
)  # fmt: skip
def test_each_small_change_is_made(tmp_path: Path, before: str, after: set[str]) -> None:
    assert changed(tmp_path, before) == after


@pytest.mark.parametrize(
    "text",
    [
        '"""A text for readers."""',
        "def f() -> 'int | None':\n    pass",
        "x: int | None",
        "__all__ = ['f', 'g']",
        "if TYPE_CHECKING:\n    x = 1",
        "SampleError('what was wrong')",
        "raise ValueError('what was wrong')",
    ],
)
def test_what_only_readers_and_checkers_see_is_left_alone(tmp_path: Path, text: str) -> None:
    assert {after for after in changed(tmp_path, text) if after != "pass"} == set()


def test_a_code_in_an_error_is_no_wording(tmp_path: Path) -> None:
    assert "raise SampleError('XXtoo_longXX', 'what was wrong')" in changed(
        tmp_path, "raise SampleError('too_long', 'what was wrong')"
    )


def test_every_mutant_of_a_larger_text_is_a_program_and_another_one(tmp_path: Path) -> None:
    path = Path(__file__)
    text = path.read_text(encoding="utf-8")
    original = ast.dump(ast.parse(text))
    every = mutants(path, root=path.parent, error_names=frozenset())

    assert len(every) > 200
    assert [mutant for mutant in every if ast.dump(ast.parse(mutant.applied(text))) == original] == []


def test_a_mutant_keeps_its_name_when_the_code_moves(tmp_path: Path) -> None:
    text = "def f(a):\n    x = a + 1\n    x = a + 1\n    return x\n"
    names = [mutant.identity for mutant in found(tmp_path, text)]

    assert ("sample.py", "f", "x = a + 1", "x = a - 1", 1) in names
    assert ("sample.py", "f", "x = a + 1", "x = a - 1", 2) in names
    assert len(set(names)) == len(names)
    assert [mutant.identity for mutant in found(tmp_path, "import re\n\n\n" + text)] == names


def test_a_mutant_knows_its_outermost_function_and_the_lines_of_its_statement(tmp_path: Path) -> None:
    text = "class C:\n    size = 1\n\n    def f(self, n=2):\n        def g():\n            return h(\n  3,\n )\n"

    places = {mutant.replacement: (mutant.function, mutant.lines) for mutant in found(tmp_path, text)}

    assert places["0"] == ("", (2, 2))
    assert places["1"] == ("", (4, 4))
    assert places["4"] == ("C.f", (6, 8))


def test_classes_of_the_module_of_errors_take_wording(tmp_path: Path) -> None:
    path = tmp_path / "errors.py"
    path.write_text("class First(Exception):\n    pass\n\n\ndef f():\n    pass\n")

    assert error_names(path) == {"First"}


# ---------------------------------------------------------------- patterns


def patterns(text: str, *, is_f_string: bool = False) -> set[str]:
    return {text[: edit.start] + edit.replacement + text[edit.end :] for edit in edits(text, is_f_string=is_f_string)}


@pytest.mark.parametrize(
    ("pattern", "after"),
    [
        ("a{0,127}", {"a{1,127}", "a{0,128}", "a{0,126}"}),
        ("a{8,}+", {"a{9,}+", "a{7,}+"}),
        ("a+", {"a*"}),
        ("a*+", {"a++"}),
        ("a?", {"a"}),
        ("ab|cd", {"cd", "ab"}),
        ("x(?:a|b)y", {"x(?:b)y", "x(?:a)y"}),
        ("[a-z_]", {"[_]", "[a-z]"}),
        (r"[^\s&]", {r"[\s&]", "[^&]", r"[^\s]", r"[^\S&]"} - {r"[^\S&]"}),
        (r"\d", {r"\D"}),
        (r"\bx", {"x"}),
        ("^x$", {"x$", "^x"}),
        ("(?<!x)y", {"y"}),
        ("(?=x)y", {"y"}),
        ("(?i)x", {"x"}),
        ("(?i:x)", {"(?:x)"}),
        ("(?P<n>a|b)(?P=n)", {"(?P<n>b)(?P=n)", "(?P<n>a)(?P=n)"}),
        ("[\\]x]", {"[x]", "[\\]]"}),
        ("\\++", {"\\+*"}),
        ("\\u200b|x", {"x", "\\u200b"}),
    ],
)
def test_each_part_of_a_pattern_is_changed(pattern: str, after: set[str]) -> None:
    assert patterns(pattern) == after


def test_doubled_braces_of_an_f_string_are_one_character() -> None:
    assert patterns(r"[{{\[](?:[^}}\]])", is_f_string=True) == {
        r"[\[](?:[^}}\]])",
        r"[{{](?:[^}}\]])",
        r"[{{\[](?:[}}\]])",
        r"[{{\[](?:[^\]])",
        r"[{{\[](?:[^}}])",
    }
    assert patterns("{{a}}", is_f_string=True) == set()


def test_fields_of_an_f_string_are_no_part_of_its_pattern() -> None:
    assert patterns("(?:{words})[a-z]{{0,9}}+|b", is_f_string=True) == {
        "(?:{words})[a-z]{{1,9}}+|b",
        "(?:{words})[a-z]{{0,10}}+|b",
        "(?:{words})[a-z]{{0,8}}+|b",
        "b",
        "(?:{words})[a-z]{{0,9}}+",
    }
