"""The people of placet.toml, as the file has them now: whoever is taken out of it decides nothing more in a process
that runs on.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from placet.cli.settings import Settings, people_in
from placet.model.principal import Principal

_Mark = tuple[int, int, int]


class ListedPeople:
    """Fulfils `ports.people.People` from the project file, which is read again once it has changed.

    A file that cannot be read, or is not sound, is no list: asking raises, and nobody decides until it is mended.
    """

    def __init__(self, settings: Settings) -> None:
        self._file = settings.file
        self._mark: _Mark | None = None  # of what is read below: since the settings were read it may have changed
        self._people = _by_name(settings.people.values())

    async def person(self, tenant: str, subject: str) -> Principal | None:
        return self._now().get((tenant, subject))

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        return tuple(person for person in self._now().values() if person.tenant == tenant)

    def _now(self) -> dict[tuple[str, str], Principal]:
        """Raises:
        OSError, ConfigProblem: there is no list just now.
        """
        if self._file is not None and (mark := _mark_of(self._file)) != self._mark:
            self._people = _by_name(people_in(self._file).values())
            self._mark = mark
        return self._people


def _mark_of(file: Path) -> _Mark:
    seen = file.stat()
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


def _by_name(people: Iterable[Principal]) -> dict[tuple[str, str], Principal]:
    return {(person.tenant, person.subject): person for person in people}
