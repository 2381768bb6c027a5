"""An exported audit from whoever wants us to believe it: only the very bytes that were exported hold."""

from __future__ import annotations

from functools import cache
from io import BytesIO

from fuzz.choices import Choices
from fuzz.targets.audit import genuine, keys, linker
from placet.ports.keys import KeyPurpose
from placet.rules.audit import tenant_of
from placet.rules.export_check import MAX_FAULTS, ExportReport, lines_of, verify_export
from placet.rules.exports import export_lines

AS_IT_IS = 0x7B  # an opening brace: the input is the file itself


def check(data: bytes) -> None:
    """A file that begins with a brace, or alterations of a genuine one: of the whole store, or of one tenant."""
    if data[:1] == bytes([AS_IT_IS]):
        file = data
    else:
        choices = Choices(data)
        lines = list(exported(choices.one_of((None, "acme", "globex", "nobody"))))
        while not choices.is_used_up and lines:
            _alter(choices, lines)
        file = b"".join(lines)
    report = verify_export(lines_of(BytesIO(file)), linker())
    is_genuine = any(file == b"".join(exported(tenant)) for tenant in (None, "acme", "globex", "nobody"))
    assert report.holds is is_genuine, report
    _check_bounds(report, file)


def _check_bounds(report: ExportReport, file: bytes) -> None:
    """What is said is fixed words and numbers, and names of writers; and not more than a person would read."""
    assert len(report.faults) <= MAX_FAULTS
    assert report.more == 0 or len(report.faults) == MAX_FAULTS
    assert report.lines <= file.count(b"\n") + 2
    for fault in report.faults:
        assert fault.problem.isascii() and fault.problem.replace("_", "").isalpha()
        assert 1 <= fault.line <= report.lines


@cache
def exported(tenant: str | None) -> tuple[bytes, ...]:
    events, heads = genuine()
    return tuple(
        export_lines(
            events,
            heads,
            count=sum(tenant is None or tenant_of(event) == tenant for event in events),
            tenant=tenant,
            linker=linker(),
            sign=lambda message: keys().mac(KeyPurpose.AUDIT_CHAIN, message),
        )
    )


def _alter(choices: Choices, lines: list[bytes]) -> None:
    place, other = choices.below(len(lines)), choices.below(len(lines))
    match choices.below(7):
        case 0:
            del lines[place]
        case 1:
            lines[place], lines[other] = lines[other], lines[place]
        case 2:
            lines.insert(other, lines[place])
        case 3:
            foreign = exported(choices.one_of((None, "acme", "globex")))
            lines[place] = foreign[other % len(foreign)]
        case 4:
            del lines[place:]
        case _:
            line = lines[place]
            position = choices.below(len(line) + 1)
            lines[place] = line[:position] + choices.take(choices.below(6)) + line[position + choices.below(6) :]
