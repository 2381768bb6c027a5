"""What becomes of each mutant: one forked process, the tests that reach its lines, fastest first, until one fails.

    zygote ── fork ─► survey      runs the room's tests once: which lines each reaches, and its processor time
           ── fork ─► warm        has collected the tests; forks once for each mutant
           ── fork ─► cold        loads the changed module, then collects: for module-level mutants that survive there

A test may spend ten times its own processor time and three seconds, then the mutant counts as cut off (endless loop);
what waits without working is cut off by the wall clock, generously. Hypothesis draws the same 25 examples each time and
does not shrink. Both kinds of process are first run without a change, and must pass.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from .sources import Mutant

ROOT = Path(__file__).resolve().parents[2]
_WALL_SECONDS = 90.0
_PYTEST = (
    "-q",
    "-x",
    "--capture=no",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:faulthandler",
    "-W",
    "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning",
    "-o",
    "timeout=0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`status` is killed, timeout, survived, untested or unjudged; `by` is the test that noticed."""

    mutant: Mutant
    status: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one run of the unchanged tests showed.

    Attributes:
        reached: for each file and line, the tests that ran it; "" stands for importing and collecting.
        seconds: processor time of each test.
    """

    reached: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def tests_of_lines(self, mutant: Mutant) -> set[str]:
        """The tests that reach the statement; where none was seen to, those that reach its function.

        What follows in the callers of a coroutine that an exception was thrown into, coverage does not see.
        """
        found = self._between(mutant.file, mutant.lines)
        return found or (self._between(mutant.file, mutant.function_lines) if mutant.function_lines else found)

    def _between(self, file: str, lines: tuple[int, int]) -> set[str]:
        reached = self.reached.get(file, {})
        return {test for line in range(lines[0], lines[1] + 1) for test in reached.get(line, ())}

    def tests_of_file(self, file: str) -> set[str]:
        return {test for tests in self.reached.get(file, {}).values() for test in tests} - {""}

    def fastest_first(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))

    def first_of(self, tests: Sequence[str], most_seconds: float) -> list[str]:
        """The first tests that together take no longer than that; the first one in any case."""
        ends = accumulate(self.seconds.get(test, 0.0) for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end <= most_seconds] or list(tests[:1])


class _Judge:
    """A pytest plugin for one child: limits each test's processor time and tells the first failure."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self.failed = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 3.0 + 10.0 * self._seconds.get(nodeid, 0.2))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid or "collection"


# --- processes


def _in_child(work: Callable[[], str], *, folder: Path, wall_seconds: float) -> tuple[str, str]:
    """Run `work` in a forked process of its own session. Answers a status and the first failure."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        _be_child(work, folder=folder, writer=writer)
    os.close(writer)
    text = _read_until(reader, process, time.monotonic() + wall_seconds)
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    shutil.rmtree(folder, ignore_errors=True)
    if text.startswith("survived") or text.startswith("killed"):
        word, _, by = text.partition(" ")
        return word, by
    return "timeout", f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def _read_until(reader: int, process: int, deadline: float) -> str:
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reader], [], [], left)
        if not ready:
            break
        piece = os.read(reader, 65_536)
        if not piece:
            break
        pieces.append(piece)
        if piece.endswith(b"\n"):
            break
    return b"".join(pieces).decode("utf-8", "replace").strip()


def _be_child(work: Callable[[], str], *, folder: Path, writer: int) -> None:
    try:
        os.setsid()
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = str(folder)
        _silence()
        signal.setitimer(signal.ITIMER_PROF, 30.0)
        answer = work()
    except BaseException as error:
        answer = f"killed {type(error).__name__}"
    try:
        os.write(writer, answer.encode()[:4000] + b"\n")
    finally:
        os._exit(0)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def _with_hypothesis_tamed() -> None:
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        max_examples=25,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutation")


# --- the survey


def survey(tests: Sequence[str], sources: Sequence[Path], *, folder: Path) -> tuple[Survey, list[str]]:
    """Run the tests once, in a child. Answers what they reach, and the libraries they load."""
    told = folder / "survey.json"
    folder.mkdir(parents=True, exist_ok=True)
    process = os.fork()
    if process == 0:
        try:
            _silence()
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
            _survey(tests, sources, told)
        except BaseException as error:
            told.write_text(json.dumps({"failed": f"{type(error).__name__}: {error}"}))
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    data: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {"failed": "the process died"}
    if "failed" in data:
        raise SystemExit(f"The unchanged tests do not pass; nothing can be said about changes. {data['failed']}")
    reached = {
        file: {int(line): frozenset(data["names"][index] for index in tests) for line, tests in lines.items()}
        for file, lines in data["reached"].items()
    }
    return Survey(reached=reached, seconds=data["seconds"]), data["modules"]


class _Watch:
    """A pytest plugin: one coverage context and one clock for each test."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self._began = 0.0
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        forget_what_was_cached()  # else only the first test would be seen to reach a cached function
        self._coverage.switch_context(nodeid)
        self._began = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.process_time() - self._began
        self._coverage.switch_context("")


def _survey(tests: Sequence[str], sources: Sequence[Path], told: Path) -> None:
    import coverage
    import pytest

    _with_hypothesis_tamed()
    before = set(sys.modules)
    measuring = coverage.Coverage(
        data_file=None, branch=False, include=[str(path) for path in sources], config_file=False
    )
    measuring.start()
    watch = _Watch(measuring)
    code = pytest.main([*(word for word in _PYTEST if word != "-x"), *tests], plugins=[watch])
    measuring.stop()
    if code != 0:
        raise SystemExit(f"pytest answered {int(code)}: {', '.join(watch.failed[:20])}")
    data = measuring.get_data()
    names: dict[str, int] = {}
    reached: dict[str, dict[int, list[int]]] = {}
    for path in sources:
        contexts = data.contexts_by_lineno(str(path))
        reached[path.relative_to(ROOT).as_posix()] = {
            line: [names.setdefault(test, len(names)) for test in tests] for line, tests in contexts.items()
        }
    ours = ("placet", "tests", "conftest", "test_", "_pytest", "pytest", "mutation", "__")
    modules = [  # in the order they were loaded: `_asyncio` before `asyncio` leaves no task that is the current one
        name
        for name, module in list(sys.modules.items())
        if name not in before and not name.startswith(ours) and getattr(module, "__spec__", None) is not None
    ]
    told.write_text(
        json.dumps({"names": list(names), "reached": reached, "seconds": watch.seconds, "modules": modules})
    )


def preload(modules: Iterable[str]) -> None:
    """Load libraries in the zygote, so that no child has to."""
    for name in modules:
        if any(part.startswith("_hypothesis_") for part in name.split(".")):
            continue
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if "hypothesis.configuration" in sys.modules:  # else its plugin takes what was loaded here for a plugin's slow code
        importlib.import_module("hypothesis.configuration").notice_initialization_restarted(warn=False)


# --- in a process where everything is loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A mutant, or none for the control of a file, and the tests to run in this order."""

    file: str
    mutant: Mutant | None
    tests: list[str]
    reloads: bool


def run_warm(
    tasks: Sequence[Task], tests: Sequence[str], seen: Survey, *, folder: Path
) -> Iterator[tuple[Task, str, str]]:
    """Judge each task in a fork of a process that has collected the tests.

    A mutant inside a function is put there by exchanging the function's code; one at module level by running the
    changed module again in its own namespace. The status is "cold" where that cannot be done, and where a module run
    again makes its tests fail even unchanged. A test that fails though nothing is changed is left out for that file,
    which can only lower its score; where too many do, the status is "unjudged".
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        try:
            _warm(tasks, tests, seen, folder=folder, writer=writer)
        finally:
            os._exit(0)
    os.close(writer)
    count = 0
    with os.fdopen(reader, encoding="utf-8") as lines:
        for line in lines:
            index, status, by = json.loads(line)
            count += 1
            yield tasks[index], status, by
    os.waitpid(process, 0)
    if count != len(tasks):
        raise SystemExit(f"Only {count} of {len(tasks)} mutants were judged; the process that judges has died.")


def _warm(tasks: Sequence[Task], tests: Sequence[str], seen: Survey, *, folder: Path, writer: int) -> None:
    import pytest

    _with_hypothesis_tamed()
    judge = _Judge(seen.seconds)
    _silence()

    class Loop:
        def pytest_runtestloop(self, session: Any) -> bool:
            items = {item.nodeid: item for item in session.items}
            gc.collect()
            functions = _functions_by_code()
            gc.freeze()
            cannot_reload: set[str] = set()
            left_out: dict[str, set[str] | None] = {}  # None: too many
            noticed: Counter[str] = Counter()

            def worth(name: str) -> float:
                """How often a test has noticed something, for the time it takes."""
                return noticed[name] / (0.005 + seen.seconds[name])

            def run(names: Sequence[str], change: Callable[[], None], *, number: int) -> tuple[str, str]:
                return _in_child(
                    partial(_judge_items, [items[name] for name in names], change, judge),
                    folder=folder / str(number),
                    wall_seconds=_wall_seconds(names, seen),
                )

            for index, task in enumerate(tasks):
                change = _change(task, functions)
                if change is None or (task.reloads and task.file in cannot_reload):
                    answer = ("cold", "")
                elif task.mutant is None and not task.reloads:
                    failing = failing_unchanged(task.tests, partial(run, change=change, number=index))
                    answer = ("unjudged", "") if failing is None else ("survived", ", ".join(failing))
                    left_out[task.file] = None if failing is None else set(failing)
                elif (unfit := left_out.get(task.file, set())) is None:
                    answer = ("unjudged", "")
                else:
                    names = [name for name in task.tests if name not in unfit]
                    names.sort(key=worth, reverse=True)  # stable: else as the task has them
                    answer = run(names, change, number=index)
                    if task.mutant is None and answer[0] != "survived":
                        cannot_reload.add(task.file)
                noticed[answer[1]] += answer[0] == "killed"
                os.write(writer, json.dumps([index, *answer]).encode() + b"\n")
            return True

    pytest.main([*_PYTEST, *tests], plugins=[judge, Loop()])


_MOST_LEFT_OUT = 5


def failing_unchanged(names: Sequence[str], run: Callable[[Sequence[str]], tuple[str, str]]) -> list[str] | None:
    """The tests that do not pass though nothing is changed, found one by one; None if there are more than five."""
    failing: list[str] = []
    while len(failing) <= _MOST_LEFT_OUT:
        left = [name for name in names if name not in failing]
        status, by = run(left)
        if status == "survived":
            return failing
        if by not in left:  # a child that was cut off does not say where
            return None
        failing.append(by)
    return None


def _wall_seconds(tests: Iterable[str], seen: Survey) -> float:
    return _WALL_SECONDS + 20 * sum(seen.seconds.get(name, 0.0) for name in tests)


def _judge_items(items: Sequence[Any], change: Callable[[], None], judge: _Judge) -> str:
    change()
    forget_what_was_cached()
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if judge.failed:
            return f"killed {judge.failed}"
    return "survived"


def forget_what_was_cached() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("placet."):
            for thing in list(vars(module).values()):
                if isinstance(thing, _lru_cache_wrapper):
                    thing.cache_clear()


def _functions_by_code() -> dict[tuple[str, str], list[types.FunctionType]]:
    found: dict[tuple[str, str], list[types.FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType:
            found.setdefault((thing.__code__.co_filename, thing.__code__.co_qualname), []).append(thing)
    return found


def _change(task: Task, functions: dict[tuple[str, str], list[types.FunctionType]]) -> Callable[[], None] | None:
    """What puts the mutant into a loaded process; None if nothing does."""
    path = str(ROOT / task.file)
    text = Path(path).read_text(encoding="utf-8")
    changed = compile(task.mutant.applied(text) if task.mutant else text, path, "exec", dont_inherit=True)
    if task.reloads:
        return partial(_run_again, changed, module_name(task.file))
    if task.mutant is None:
        return partial(_exchange, [], changed)
    codes = [code for code in _codes(changed) if code.co_qualname == task.mutant.function]
    live = functions.get((path, task.mutant.function), [])
    if len(codes) != 1 or len({id(function.__code__) for function in live}) != 1:
        return None
    if len(codes[0].co_freevars) != len(live[0].__code__.co_freevars):
        return None
    return partial(_exchange, live, codes[0])


def _exchange(functions: Sequence[types.FunctionType], code: types.CodeType) -> None:
    for function in functions:
        function.__code__ = code


def _run_again(code: types.CodeType, name: str) -> None:
    """Run a module once more where it is, and give whoever imported a name from it the new value."""
    module = sys.modules[name]
    before = dict(vars(module))
    exec(code, vars(module))  # noqa: S102 - our own source, with one change
    after = vars(module)
    ours = ("placet", "tests", "test_", "conftest")
    for other in list(sys.modules.values()):
        if other is not module and getattr(other, "__name__", "").startswith(ours):
            for known, value in list(vars(other).items()):
                if known in before and before[known] is value and not known.startswith("__"):
                    setattr(other, known, after[known])


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def module_name(file: str) -> str:
    return file.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


# --- in a process where nothing of ours is loaded


def run_cold(mutant: Mutant | None, tests: Sequence[str], seen: Survey, *, folder: Path) -> tuple[str, str]:
    """Load the changed module in a fresh child, collect the tests' files, and run them."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    return _in_child(
        lambda: _cold(mutant, files, set(tests), seen),
        folder=folder,
        wall_seconds=_wall_seconds(tests, seen),
    )


class _Chosen:
    """A pytest plugin: of what was collected, only these, fastest first."""

    def __init__(self, tests: set[str], seen: Survey) -> None:
        self._tests = tests
        self._seen = seen

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._tests or item.nodeid not in self._seen.seconds),
            key=lambda item: (self._seen.seconds.get(item.nodeid, 0.0), item.nodeid),
        )


def _cold(mutant: Mutant | None, files: Sequence[str], tests: set[str], seen: Survey) -> str:
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, _ChangedFinder(mutant))
    judge = _Judge(seen.seconds)
    code = pytest.main([*_PYTEST, *files], plugins=[judge, _Chosen(tests, seen)])
    if judge.failed:
        return f"killed {judge.failed}"
    return "survived" if code == 0 else f"killed pytest answered {int(code)}"


class _ChangedFinder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = module_name(mutant.file)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname != self._name:
            return None
        loader = _ChangedLoader(fullname, str(ROOT / self._mutant.file), self._mutant)
        if importlib.machinery.PathFinder.find_spec(fullname, cast(Sequence[str] | None, path)) is None:
            return None
        return importlib.util.spec_from_file_location(fullname, str(ROOT / self._mutant.file), loader=loader)


class _ChangedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> types.CodeType:
        text = Path(self.path).read_text(encoding="utf-8")
        return compile(self._mutant.applied(text), self.path, "exec", dont_inherit=True)
