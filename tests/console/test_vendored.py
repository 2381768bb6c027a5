"""The library that ships with the console is the published one, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

import placet.console

STATIC = Path(placet.console.__file__).parent / "static"


def test_vendored_files_are_what_was_published() -> None:
    lines = (STATIC / "vendored.sha256").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}

    assert {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in listed} == listed
    assert sorted(listed) == ["htmx.min.js", "hx-csp.min.js", "hx-sse.min.js"]
    assert "Zero-Clause BSD" in (STATIC / "htmx.LICENSE").read_text()


def test_nothing_of_the_console_comes_from_anywhere_else() -> None:
    for path in [*STATIC.glob("console.*"), STATIC / "sign_in.js", *(STATIC.parent / "templates").iterdir()]:
        text = path.read_text()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text, path
        assert "innerHTML =" not in text and "eval(" not in text, path
