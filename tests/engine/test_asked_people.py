"""A list of people that answers one question and not the other is away until it answers both."""

from __future__ import annotations

import pytest

from placet import Principal
from placet.engine.listing import AskedPeople
from tests.engine.conftest import APPROVER


class HalfAway:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.away = {"person", "people"}

    async def person(self, tenant: str, subject: str) -> Principal | None:
        if "person" in self.away:
            raise OSError
        return APPROVER

    async def people(self, tenant: str) -> tuple[Principal, ...]:
        if "people" in self.away:
            raise OSError
        return (APPROVER,)


@pytest.mark.parametrize(("first", "last"), [("person", "people"), ("people", "person")])
async def test_a_list_is_back_when_it_answers_whatever_it_did_not(
    caplog: pytest.LogCaptureFixture, first: str, last: str
) -> None:
    people = HalfAway()
    asked = AskedPeople(people)

    async def told() -> list[str]:
        caplog.clear()
        for _ in range(2):
            await asked.person(APPROVER.tenant, APPROVER.subject)
            await asked.everybody(APPROVER.tenant)
        return [record.levelname for record in caplog.records if record.name == "placet.people"]

    said = [await told()]
    people.away = {last}
    said.append(await told())
    people.away = set()
    said.append(await told())

    assert said == [["ERROR"], [], ["WARNING"]]
