"""Distinct secrets, everything that is said while they are inside, and which of them can be read in what.

A new input is one more name given to `secret`, a new channel is one more `Outputs.hear`.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import traceback
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from placet import PlacetError
from placet.adapters.telemetry.logs import JsonFormatter


@dataclass
class Secrets:
    """Texts that occur nowhere else, by the name of the input they are put in."""

    made: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str) -> str:
        """Letters and digits alone, so that it may stand in an id, a class name, a code or a file name."""
        return self.made.setdefault(name, f"zq{name}{hashlib.sha256(name.encode()).hexdigest()[:10]}")

    def text(self, name: str) -> str:
        """The same where any text may stand: what every kind of escaping changes stands around it."""
        return f'ü"\\/&<{self(name)}\t<é+%'


@cache
def forms(secret: str) -> tuple[tuple[str, bytes], ...]:
    """What a secret may look like after it went through something."""
    raw = secret.encode()
    spelled = [
        ("plain", raw),
        ("backwards", raw[::-1]),
        ("hex", raw.hex().encode()),
        ("capital hex", raw.hex().upper().encode()),
        ("percent", "".join(f"%{byte:02X}" for byte in raw).encode()),
        ("json escapes", "".join(f"\\u{byte:04x}" for byte in raw).encode()),
        ("UTF-16", secret.encode("utf-16-le")),
        ("UTF-16, big end first", secret.encode("utf-16-be")),
        ("UTF-32", secret.encode("utf-32-le")),
        ("base32", base64.b32encode(raw).rstrip(b"=")[:-2]),
        ("base85", base64.b85encode(raw[: len(raw) // 4 * 4])),
        *((f"digest {name}", hashlib.new(name, raw).hexdigest().encode()) for name in ("md5", "sha1", "sha256")),
    ]
    for shift in range(3):  # where in a group of three the secret begins
        inside = base64.b64encode(b"\0" * shift + raw)[-(-shift * 4 // 3) + (1 if shift else 0) :].rstrip(b"=")
        spelled.append((f"base64, {shift}", inside[: len(inside) // 4 * 4 - 4]))
    return tuple(spelled)


def form_in(secret: str, output: bytes) -> str | None:
    """How the secret stands in the output; None if it does not."""
    for name, form in forms(secret):
        if form in output:
            return name
    return "other case" if secret.encode().lower() in output.lower() else None


class Outputs:
    """What was said, by channel."""

    def __init__(self) -> None:
        self._said: defaultdict[str, list[bytes]] = defaultdict(list)

    def hear(self, channel: str, *said: object) -> None:
        for each in said:
            text = each if isinstance(each, bytes | str) else repr(each)
            self._said[channel].append(text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace"))

    def hear_outcome(self, outcome: Any) -> None:
        """All an outcome says of itself, and the error it raises."""
        shown = (outcome.as_data(), outcome.for_openai(), outcome.for_anthropic(), outcome.for_mcp())
        self.hear("outcomes", repr(outcome), str(outcome), outcome.message, *shown)
        if not outcome.is_success:
            try:
                outcome.unwrap()
            except PlacetError as error:
                self.hear_error(error)

    def hear_error(self, error: BaseException) -> None:
        """An error with all that hangs on it. The lines of code that a traceback quotes are the test's own."""
        chain: list[BaseException] = [error]
        while (more := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(more)
        for each in chain:
            notes = getattr(each, "__notes__", ())
            self.hear("errors", str(each), repr(each), each.args, vars(each), notes, getattr(each, "hint", ""))
            self.hear("errors", *traceback.format_exception_only(each))

    def hear_files(self, channel: str, folder: Path, pattern: str) -> None:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                self.hear(channel, path.read_bytes())

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self._said)

    def found(self, secrets: Secrets) -> dict[tuple[str, str], str]:
        """Every secret and the channel it can be read in, with the form it has there."""
        whole = {channel: b"\n".join(said) for channel, said in self._said.items()}
        return {
            (name, channel): form
            for name, secret in secrets.made.items()
            for channel, output in whole.items()
            if (form := form_in(secret, output)) is not None
        }


class LogEars(logging.Handler):
    """Hears every logger at DEBUG, and writes each record as our formatter does and as a plain program would."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__(logging.DEBUG)
        self._outputs = outputs

    def emit(self, record: logging.LogRecord) -> None:
        extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        self._outputs.hear("log as JSON", JsonFormatter().format(record))
        self._outputs.hear("log as text", logging.Formatter("%(name)s %(message)s").format(record), extras)

    def listening(self) -> Iterator[None]:
        root, ours = logging.getLogger(), logging.getLogger("placet")
        before = (root.level, ours.level, ours.propagate)
        root.addHandler(self)
        root.setLevel(logging.DEBUG)
        ours.setLevel(logging.DEBUG)
        ours.propagate = True
        try:
            yield
        finally:
            root.removeHandler(self)
            root.setLevel(before[0])
            ours.setLevel(before[1])
            ours.propagate = before[2]


_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, None, None, None)))
