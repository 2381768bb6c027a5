"""A list of people that a test changes, and what a person is told who may not."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Principal
from placet.errors import DecisionRefused


class ListedPeople:
    """A list of people that a test changes."""

    def __init__(self, *people: Principal) -> None:
        self.listed = {(each.tenant, each.subject): each for each in people}
        self.fault: BaseException | None = None

    async def person(self, tenant: str, subject: str) -> Principal | None:
        if self.fault is not None:
            raise self.fault
        return self.listed.get((tenant, subject))

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        return tuple(each for each in self.listed.values() if each.tenant == tenant)

    def remove(self, person: Principal) -> None:
        del self.listed[person.tenant, person.subject]

    def put(self, person: Principal) -> None:
        self.listed[person.tenant, person.subject] = person


async def refusal(work: Any) -> str:
    with pytest.raises(DecisionRefused) as caught:
        await work
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value.code
