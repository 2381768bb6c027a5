"""Metric series as an on-call engineer's dashboard shows them: means of gauges, increases of counters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from placet.demos.ops.log_lines import instant

_COUNTER_ENDINGS = ("_total", "_sum", "_bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric with one set of labels, of one service (label `job`); samples in order of time."""

    service: str
    metric: str
    labels: Mapping[str, str]
    samples: Sequence[Sample]

    @property
    def kind(self) -> Literal["gauge", "counter"]:
        """By the naming rule of Prometheus."""
        return "counter" if self.metric.endswith(_COUNTER_ENDINGS) else "gauge"

    def readings(self) -> Iterator[Sample]:
        """A gauge as it is; a counter as increase per minute between two scrapes, restarts taken into account."""
        if self.kind == "gauge":
            yield from self.samples
            return
        for earlier, later in pairwise(self.samples):
            minutes = (later.at - earlier.at).total_seconds() / 60
            if minutes > 0:
                increase = later.value - earlier.value if later.value >= earlier.value else later.value
                yield Sample(at=later.at, value=increase / minutes)


def parsed_series(text: str) -> tuple[Series, ...]:
    """Read a CSV of ts, metric, labels (JSON) and value; the label `job` names the service."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        sample = Sample(at=instant(row["ts"]), value=float(row["value"]))
        found.setdefault((row["metric"], row["labels"]), []).append(sample)
    return tuple(_series(metric, json.loads(labels), samples) for (metric, labels), samples in found.items())


def _series(metric: str, labels: dict[str, str], samples: Iterable[Sample]) -> Series:
    service = labels.pop("job", "")
    return Series(
        service=service, metric=metric, labels=labels, samples=tuple(sorted(samples, key=lambda sample: sample.at))
    )
