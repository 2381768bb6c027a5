"""What DBOS writes of runs into its database: names as JSON. Nothing is unpickled, whoever has written it."""

from __future__ import annotations

import base64
from typing import Any, Final

from dbos import Serializer
from dbos._serialization import DBOSDefaultSerializer, DefaultSerializer, deserialize_value

from placet.errors import ConfigurationError, MisuseError
from placet.integrations.driving import fault_of
from placet.integrations.wire import packed, unpacked

_ARGUMENTS: Final = "["
_A_PICKLED_WORD: Final = b"Vplacet\np0\n."


class EngineFault(Exception):
    """What DBOS has recorded of an error: its code and nothing else."""


class NamesOnly(Serializer):
    """Refuses to write anything else; what it cannot read is nothing, so that a forged row ends no run."""

    def name(self) -> str:
        return "placet_names"

    def serialize(self, data: Any) -> str:
        """As JSON.

        Raises:
            MisuseError: it holds something an engine may not keep.
        """
        if isinstance(data, Exception):
            return packed(fault_of(data).as_data())
        if type(data) is dict and data.keys() == {"args", "kwargs"}:
            if data["kwargs"]:
                raise MisuseError("A run is named to DBOS by its tenant and its id.")
            return packed(list(data["args"]))
        return packed(data)

    def deserialize(self, serialized_data: str) -> Any:
        try:
            value = unpacked(serialized_data)
        except MisuseError:
            return None
        return {"args": tuple(value), "kwargs": {}} if isinstance(value, list) else value


def refuse_pickles() -> None:
    """A row says itself how it was written, and one that says "pickle" would be unpickled whatever the serializer is:
    whoever may write to DBOS's database could run code in every worker. From here on such a row holds nothing.

    DBOS has no setting for this, so its class is changed, in this process; and asked, through the function that reads
    its rows, for one that would show if it were run.

    Raises:
        ConfigurationError: this version of DBOS unpickles by another way.
    """
    DefaultSerializer.deserialize = _nothing  # type: ignore[method-assign, assignment]
    if _unpickles():
        raise ConfigurationError(
            "This version of DBOS runs what rows of its database say.",
            code="engine_unpickles",
            hint="Install a version of dbos that this version of placet was tested with.",
        )


def _unpickles() -> bool:
    """Whether a harmless pickle is loaded where DBOS reads what its rows hold."""
    harmless = base64.b64encode(_A_PICKLED_WORD).decode()
    try:
        found = deserialize_value(harmless, DBOSDefaultSerializer.name(), NamesOnly())
    except Exception:
        return False
    return found is not None


def _nothing(_: DefaultSerializer, serialized_data: str) -> Any:
    return None
