"""The mutants of one source file, each a replaced span of its text.

Left alone are annotations, docstrings, `__all__`, blocks for type checkers, and prose: a text with a blank in it that
only becomes the wording of an error. Everything else counts.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .patterns import edits


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One small change of one file.

    Attributes:
        file: path from the root of the repository.
        function: qualified name of the outermost function around it; empty at module or class level.
        lines: first and last line of the statement it is in, or of that statement's head.
        function_lines: first and last line of that function's body; nothing at module or class level.
        start, end: the span of the text that is replaced.
        before, after: the changed lines, stripped; with `nth` they name it across moves of the code.
    """

    file: str
    function: str
    lines: tuple[int, int]
    start: int
    end: int
    replacement: str
    operator: str
    before: str = ""
    after: str = ""
    nth: int = 1
    function_lines: tuple[int, int] | None = None

    @property
    def identity(self) -> tuple[str, str, str, str, int]:
        return self.file, self.function, self.before, self.after, self.nth

    def applied(self, text: str) -> str:
        return text[: self.start] + self.replacement + text[self.end :]


def mutants(path: Path, *, root: Path, error_names: frozenset[str]) -> list[Mutant]:
    """Every mutant of the file, in the order of its text."""
    text = path.read_text(encoding="utf-8")
    finder = _Finder(text, file=path.relative_to(root).as_posix(), error_names=error_names)
    finder.visit(ast.parse(text))
    return _named(text, sorted(finder.found.values(), key=lambda mutant: (mutant.start, mutant.end)))


def error_names(errors: Path) -> frozenset[str]:
    """The classes of the module of errors: what they are given as text is wording."""
    tree = ast.parse(errors.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))


def _named(text: str, found: Sequence[Mutant]) -> list[Mutant]:
    seen: Counter[tuple[str, str, str]] = Counter()
    named: list[Mutant] = []
    for mutant in found:
        first = text.rfind("\n", 0, mutant.start) + 1
        last = text.find("\n", mutant.end)
        old = text[first:last]
        new = text[first : mutant.start] + mutant.replacement + text[mutant.end : last]
        before, after = (" ".join(line.split()) for line in (old, new))
        seen[mutant.function, before, after] += 1
        named.append(replace(mutant, before=before, after=after, nth=seen[mutant.function, before, after]))
    return named


_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.BitXor: ("^", "&"),
}
_OTHER_NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "startswith": "endswith",
    "endswith": "startswith",
    "fullmatch": "match",
    "match": "search",
    "search": "match",
    "find": "rfind",
    "rfind": "find",
    "partition": "rpartition",
    "rpartition": "partition",
    "ljust": "rjust",
    "rjust": "ljust",
    "isdisjoint": "issubset",
    "issubset": "isdisjoint",
}
_CHANGES_TEXT = frozenset(
    ("lower", "upper", "casefold", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace")
)
_COPIES = frozenset(("list", "tuple", "dict", "set", "frozenset", "sorted", "deepcopy", "copy", "reversed"))
_PATTERN_FUNCTIONS = frozenset(("compile", "match", "search", "fullmatch", "sub", "split", "findall", "finditer"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Finder(ast.NodeVisitor):
    """One walk over one file."""

    def __init__(self, text: str, *, file: str, error_names: frozenset[str]) -> None:
        self.found: dict[tuple[int, int, str], Mutant] = {}
        self._text = text
        self._file = file
        self._error_names = error_names
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)
        self._names: list[str] = []
        self._function = ""
        self._function_lines: tuple[int, int] | None = None
        self._statement = (1, 1)
        self._is_wording = False
        self._is_pattern = False
        self._f_strings = 0

    # --- places

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place: ast.expr = node  # type: ignore[assignment]  # every node we ask about has a place
        end_line, end_column = place.end_lineno, place.end_col_offset
        assert end_line is not None and end_column is not None  # noqa: S101 - parsed from text
        return self._at(place.lineno, place.col_offset), self._at(end_line, end_column)

    def _is_misplaced(self, node: ast.AST) -> bool:
        """Inside f-strings this Python may give wrong places: believe only what parses to the same."""
        if not self._f_strings:
            return False
        start, end = self._span(node)
        try:
            parsed: ast.AST = ast.parse(self._text[start:end], mode="eval").body
        except (SyntaxError, ValueError):
            return True
        return ast.dump(parsed) != ast.dump(node)

    def _add(self, start: int, end: int, replacement: str, operator: str) -> None:
        if self._text[start:end] == replacement:
            return
        mutant = Mutant(
            file=self._file,
            function=self._function,
            lines=self._statement,
            start=start,
            end=end,
            replacement=replacement,
            operator=operator,
            function_lines=self._function_lines,
        )
        self.found.setdefault((start, end, replacement), mutant)

    def _swap(self, node: ast.AST, replacement: str, operator: str) -> None:
        if not self._is_misplaced(node):
            start, end = self._span(node)
            self._add(start, end, replacement, operator)

    def _between(self, left: ast.AST, right: ast.AST, word: str, others: Sequence[str], operator: str) -> None:
        if self._is_misplaced(left) or self._is_misplaced(right):
            return
        start, end = self._span(left)[1], self._span(right)[0]
        edge = r"\b" if word[0].isalpha() else ""
        found = re.search(edge + re.escape(word).replace(r"\ ", r"\s+") + edge, self._text[start:end])
        if found:
            for other in others:
                self._add(start + found.start(), start + found.end(), other, operator)

    # --- statements

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        before = self._statement
        self._statement = (node.lineno, _last_line_of_head(node))
        super().visit(node)
        self._statement = before

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for index, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not (is_text or (index == 0 and is_text)):
                self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self._names.append(node.name)
        self._body(node.body)
        self._names.pop()

    def _visit_function(self, node: _Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        before = self._function, self._function_lines
        self._names.append(node.name)
        if not self._function:
            self._function = ".".join(self._names)
            self._function_lines = node.body[0].lineno, node.end_lineno or node.lineno
        self._body(node.body)
        self._names.pop()
        self._function, self._function_lines = before

    visit_FunctionDef = _visit_function
    visit_AsyncFunctionDef = _visit_function

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self.visit(node.body)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._condition(node.test)
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
            self._swap(test, "True", "filter")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        before = self._statement
        self._statement = (node.pattern.lineno, node.pattern.end_lineno or node.pattern.lineno)
        self.visit(node.pattern)
        if node.guard is not None:
            self._condition(node.guard)
            self._swap(node.guard, "True", "guard")
            self.visit(node.guard)
        self._statement = before
        self._body(node.body)

    def visit_MatchOr(self, node: ast.MatchOr) -> None:
        self._drop_each(node.patterns)
        self.generic_visit(node)

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return  # its operators are turned around anyway
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        start, end = self._span(test)
        self._swap(test, f"not ({self._text[start:end]})", "condition")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._swap(node, "pass", "statement")
        before, self._is_wording = self._is_wording, True
        self.generic_visit(node)
        self._is_wording = before

    def visit_Expr(self, node: ast.Expr) -> None:
        self._swap(node, "pass", "statement")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._swap(node, "break", "statement")

    def visit_Break(self, node: ast.Break) -> None:
        self._swap(node, "continue", "statement")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._swap(node.value, "None", "return")
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        if self._function and not isinstance(node.value, ast.Constant):
            self._swap(node.value, "None", "assignment")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            if self._function and not isinstance(node.value, ast.Constant):
                self._swap(node.value, "None", "assignment")
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        word, other = _OPERATORS.get(type(node.op), ("", ""))
        if word:
            self._between(node.target, node.value, f"{word}=", (f"{other}=", "="), "augmented")
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if isinstance(node.type, ast.Tuple):
            before, self._statement = self._statement, (node.lineno, node.lineno)
            self._drop_each(node.type.elts)
            self._statement = before
        elif isinstance(node.type, ast.Name) and node.type.id == "BaseException":
            before, self._statement = self._statement, (node.lineno, node.lineno)
            self._swap(node.type, "Exception", "exception")
            self._statement = before
        self._body(node.body)

    def visit_Try(self, node: ast.Try) -> None:
        self._body(node.body)
        for handler in node.handlers:
            self.visit(handler)
        self._body(node.orelse)
        self._body(node.finalbody)

    # --- expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        left: ast.expr = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            word, others = _COMPARISONS[type(operator)]
            self._between(left, right, word, others, "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other, neutral = ("and", "or", "True") if isinstance(node.op, ast.And) else ("or", "and", "False")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, word, (other,), "junction")
        for value in node.values:
            self._swap(value, neutral, "junction")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not self._is_misplaced(node):
            start, _ = self._span(node)
            if isinstance(node.op, ast.Not):
                self._add(start, start + 3, "", "negation")
            elif isinstance(node.op, ast.USub):
                self._add(start, start + 1, "", "negation")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        word, other = _OPERATORS.get(type(node.op), ("", ""))
        if word:
            self._between(node.left, node.right, word, (other,), "operator")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._swap(node, str(not value), "constant")
        elif isinstance(value, int):
            self._swap(node, str(value + 1), "constant")
            self._swap(node, str(value - 1), "constant")
        elif isinstance(value, float):
            self._swap(node, repr(value + 1.0), "constant")
            self._swap(node, repr(value - 1.0), "constant")
        elif isinstance(value, bytes):
            self._swap(node, repr(b"XX" + value), "constant")
        elif isinstance(value, str) and not (self._is_wording and " " in value) and not self._patterns(node):
            self._swap(node, repr(f"XX{value}XX" if value else "XX"), "constant")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        words = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        is_pattern = self._patterns(node)
        if not is_pattern and not self._f_strings and not (self._is_wording and " " in words):
            start, end = self._span(node)
            opening = re.match(r"[fFrR]*(\"\"\"|'''|\"|')", self._text[start:end])
            if opening:
                self._add(start + opening.end(), start + opening.end(), "XX", "constant")
        self._f_strings += 1
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)
        self._f_strings -= 1

    def _patterns(self, node: ast.expr) -> bool:
        """The mutants of a text that is a pattern: raw, or given to a function of `re`."""
        if self._f_strings:
            return False
        start, end = self._span(node)
        source = self._text[start:end]
        is_pattern = False
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(f"({source})").readline))
        except (tokenize.TokenError, IndentationError):
            return False
        offsets = [0]
        for line in f"({source})".splitlines(keepends=True):
            offsets.append(offsets[-1] + len(line))
        for token in tokens:
            if token.type != tokenize.STRING:
                continue
            opening = re.match(r"([a-zA-Z]*)(\"\"\"|'''|\"|')", token.string)
            if opening is None or not ("r" in opening[1].lower() or self._is_pattern):
                continue
            is_pattern = True
            inner = token.string[opening.end() : -len(opening[2])]
            base = start + offsets[token.start[0] - 1] + token.start[1] - 1 + opening.end()
            for edit in edits(inner, is_f_string="f" in opening[1].lower()):
                self._add(base + edit.start, base + edit.end, edit.replacement, f"pattern {edit.operator}")
        return is_pattern

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("cast", "NewType", "TypeVar", "ParamSpec"):
            return
        self._function_of_call(node, name)
        is_wording, is_pattern = self._is_wording, self._is_pattern
        self._is_wording = is_wording or name in self._error_names
        self._arguments(node)
        self.visit(node.func)
        for index, argument in enumerate(node.args):
            of_re = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "re"
            self._is_pattern = is_pattern or (index == 0 and of_re and name in _PATTERN_FUNCTIONS)
            self.visit(argument)
        self._is_pattern = is_pattern
        for keyword in node.keywords:
            self.visit(keyword.value)
        self._is_wording = is_wording

    def _function_of_call(self, node: ast.Call, name: str) -> None:
        if self._is_misplaced(node):
            return
        end = self._span(node.func)[1]
        if name in _OTHER_NAMES:
            self._add(end - len(name), end, _OTHER_NAMES[name], "name")
        if name in _CHANGES_TEXT and isinstance(node.func, ast.Attribute):
            inner = self._span(node.func.value)
            self._swap(node, self._text[inner[0] : inner[1]], "text")
        if name in _COPIES and len(node.args) == 1 and not node.keywords:
            inner = self._span(node.args[0])
            if not isinstance(node.args[0], ast.GeneratorExp | ast.Starred):
                within = self._text[inner[0] : inner[1]]
                self._swap(node, f"({within})" if "\n" in within else within, "copy")

    def _arguments(self, node: ast.Call) -> None:
        if self._is_misplaced(node):
            return
        parts: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        for index, part in enumerate(parts):
            is_prose = self._is_wording and isinstance(part, ast.Constant | ast.JoinedStr)
            if isinstance(part, ast.keyword):
                if part.arg is not None and not isinstance(part.value, ast.JoinedStr):
                    self._drop(parts, index)
            elif not isinstance(part, ast.Starred | ast.GeneratorExp) and not is_prose:
                self._swap(part, "None", "argument")
        if len(node.args) > 1 and not node.keywords:
            self._drop(parts, len(parts) - 1)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None and not self._is_misplaced(bound):
                    self._swap(bound, "", "slice")
                    if not isinstance(bound, ast.Constant):
                        start, end = self._span(bound)
                        self._swap(bound, f"{self._text[start:end]} + 1", "slice")
        self.visit(node.slice)

    def _elements(self, node: ast.Set | ast.List | ast.Tuple) -> None:
        is_read = isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load)
        fewest = 3 if isinstance(node, ast.Tuple) else 2
        if is_read and len(node.elts) >= fewest:
            self._drop_each(node.elts)
        self.generic_visit(node)

    visit_Set = _elements
    visit_List = _elements
    visit_Tuple = _elements

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and len(node.keys) > 1:
                _, end = _with_parentheses(self._text, *self._span(value))
                self._cut(self._span(key)[0], end)
        self.generic_visit(node)

    # --- dropping members of lists

    def _drop_each(self, members: Sequence[ast.AST]) -> None:
        for index, member in enumerate(members):
            is_text = isinstance(member, ast.Constant) and isinstance(member.value, str)
            if not is_text and not isinstance(member, ast.Starred):
                self._drop(members, index)

    def _drop(self, members: Sequence[ast.AST], index: int) -> None:
        if not self._is_misplaced_any(members):
            self._cut(*self._span(members[index]))

    def _is_misplaced_any(self, members: Sequence[ast.AST]) -> bool:
        return bool(self._f_strings) and bool(members)

    def _cut(self, start: int, end: int) -> None:
        """Cut a member out, with its own parentheses and the comma or bar on one of its sides."""
        text = self._text
        start, end = _with_parentheses(text, start, end)
        following = _SEPARATOR.match(text, end)
        if following:
            self._add(start, following.end(), "", "member")
            return
        before = _skip_back(text, start)
        self._add(before - 1 if text[before - 1] in ",|" else start, end, "", "member")


_CLOSES = re.compile(r"\s*\)")
_SEPARATOR = re.compile(r"\s*[,|][ \t]*")


def _with_parentheses(text: str, start: int, end: int) -> tuple[int, int]:
    while text[(before := _skip_back(text, start)) - 1] == "(" and (closed := _CLOSES.match(text, end)):
        if text[before - 2].isalnum() or text[before - 2] in "_)]":
            break  # the call's own parenthesis
        start, end = before - 1, closed.end()
    return start, end


def _skip_back(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def _last_line_of_head(node: ast.stmt) -> int:
    body: list[ast.stmt] | None = getattr(node, "body", None)
    if isinstance(node, ast.Match):
        return node.subject.end_lineno or node.lineno
    if body:
        return max(node.lineno, body[0].lineno - 1)
    return node.end_lineno or node.lineno
