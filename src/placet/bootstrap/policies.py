"""A policy file to the engine that decides by it."""

from __future__ import annotations

from pathlib import Path

from placet.errors import PolicyFileError
from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision, Deny, Entitlement, NotEntitled
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal
from placet.rules.asking import AskRules
from placet.rules.policy import POLICY_FAILED, Matrix
from placet.rules.policy_files import LARGEST_FILE, Mistake, read

_CHECK = "placet policy check says all that is wrong with it."


def read_policy(path: Path) -> Matrix:
    """The matrix with the rules of a file. The file is read once: a change of it counts for gates opened later.

    Raises:
        PolicyFileError: it is absent, unreadable or wrong; its message says what is wrong first.
    """
    found = looked_at(path)
    if isinstance(found, AskRules):
        return Matrix(asks=found)
    told = tuple(told_of(mistake, path) for mistake in found)
    first, more = found[0], len(found) - 1
    rest = f" That is the first of {more + 1} mistakes." if more else ""
    raise PolicyFileError(f"{told[0]}.{rest}", hint=f"{first.hint} {_CHECK}", mistakes=told)


def looked_at(path: Path) -> AskRules | tuple[Mistake, ...]:
    """The rules of a file, or everything that is wrong with what it says.

    Raises:
        PolicyFileError: there is none, or it cannot be read at all.
    """
    return read(text_of(path))


def text_of(path: Path) -> str:
    """What a policy file says.

    Raises:
        PolicyFileError: there is none, or it cannot be read at all.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) <= LARGEST_FILE:
            return raw.decode("utf-8")
        fault = PolicyFileError(f"The policy file is too large: {path}", hint="It may have a million bytes.")
    except UnicodeDecodeError:
        fault = PolicyFileError(f"The policy file is not UTF-8: {path}", hint="Save it as UTF-8.")
    except FileNotFoundError:
        fault = PolicyFileError(
            f"There is no policy file at {path}", code="policy_missing", hint="Put it there, or name another."
        )
    except (OSError, ValueError):
        fault = PolicyFileError(
            f"The policy file cannot be read: {path}",
            code="policy_unreadable",
            hint="Give this user permission to read it, or name another.",
        )
    raise fault


class NoPolicy:
    """Stands where a policy file cannot be used, for whoever has to go on all the same: it says no to everything."""

    version = PolicyVersion("unavailable")
    timeout_seconds: float | None = None

    async def decide(self, call: Call) -> Decision:
        return Deny(reasons=(POLICY_FAILED,), policy_version=self.version)

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return False

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        return NotEntitled(code=POLICY_FAILED)


def told_of(mistake: Mistake, path: Path) -> str:
    """One mistake as a sentence with its place."""
    place = f"{path}:{mistake.line}" if mistake.line is not None else str(path)
    return f"{place}: {mistake.message}"
