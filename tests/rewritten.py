"""Rewrites the assertions of the test modules once, before each of pytest's workers would do all of it again.

    python -m tests.rewritten

What pytest finds beside a module, made from the same text, it takes. It would write that itself, but not where nobody
writes bytecode, and not before all workers that begin together have done the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from multiprocessing import Pool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _pytest.assertion import rewrite

HERE = Path(__file__).parent
_TOGETHER = 16
_NOBODY_TRACES: Any = SimpleNamespace(trace=lambda _: None)
_AS_IN_OURS: Any = SimpleNamespace(getini=lambda _: False)
"""The one setting that is asked for: whether assertions that hold are reported."""


def modules(folder: Path) -> list[Path]:
    """Those whose assertions pytest rewrites."""
    return sorted([*folder.rglob("test_*.py"), *folder.rglob("conftest.py")])


def rewritten(module: Path) -> bool:
    """Whether it had to be done. What cannot be read as Python is left for pytest to tell."""
    cache = rewrite.get_cache_dir(module) / f"{module.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(module, cache) is not None:
        return False
    try:
        source, code = rewrite._rewrite_test(module, _AS_IN_OURS)
    except SyntaxError:
        return False
    cache.parent.mkdir(exist_ok=True)
    return rewrite._write_pyc(_NOBODY_TRACES, code, source, cache)


def rewrite_all(found: Iterable[Path]) -> int:
    """How many had to be done."""
    with Pool(os.cpu_count()) as pool:
        return sum(pool.imap_unordered(rewritten, found, _TOGETHER))


if __name__ == "__main__":
    rewrite_all(modules(HERE))
