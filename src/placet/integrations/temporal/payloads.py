"""What goes over the wire to Temporal, and into its history: ids, fixed words and numbers, and no text of an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter

from placet.integrations.wire import packed, unpacked

_ENCODING = b"json/placet"


class NamesOnly(PayloadConverter):
    """Refuses whatever is no name, fixed word or number, before it is sent; and what somebody else has written."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """As JSON.

        Raises:
            MisuseError: a value is nothing an engine may keep.
        """
        return [Payload(metadata={"encoding": _ENCODING}, data=packed(value).encode()) for value in values]

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Plain values; no type is made of them.

        Raises:
            MisuseError: it was written by somebody else.
        """
        return [unpacked(payload.data) for payload in payloads]


class WordlessFailures(DefaultFailureConverter):
    """An error is its type: text, trace and causes may hold anybody's data."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        _silence(failure)


def _silence(failure: Failure) -> None:
    info = failure.application_failure_info
    failure.message = info.type if failure.HasField("application_failure_info") else ""
    failure.stack_trace = ""
    if failure.HasField("application_failure_info"):
        info.ClearField("details")
    if failure.HasField("cause"):
        _silence(failure.cause)


def names_only(converter: DataConverter) -> DataConverter:
    """The same converter (a codec that encrypts is kept), for names alone."""
    return dataclasses.replace(converter, payload_converter_class=NamesOnly, failure_converter_class=WordlessFailures)
