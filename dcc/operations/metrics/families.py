"""Metric families of the platform: all are named `dcc_...`, in the base units of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX: Final = "dcc_"

Labels = Sequence[str]


def gauge(
    name: str, description: str, labels: Labels = (), values: Mapping[Labels, float] | float | None = None
) -> GaugeMetricFamily:
    """A figure that rises and falls: one value, or values by labels; no sample for None."""
    family = GaugeMetricFamily(PREFIX + name, description, labels=labels)
    _fill(family, values)
    return family


def counter(name: str, description: str, labels: Labels, values: Mapping[Labels, float]) -> CounterMetricFamily:
    """A figure that only rises, by labels; its samples are named `..._total`."""
    family = CounterMetricFamily(PREFIX + name, description, labels=labels)
    _fill(family, values)
    return family


def one_of(
    name: str, description: str, labels: Labels, label: str, states: Sequence[str], values: Mapping[Labels, str]
) -> GaugeMetricFamily:
    """The state of each thing among `states`, `values` by labels: 1 for its state, 0 for the others."""
    family = GaugeMetricFamily(PREFIX + name, description, labels=(*labels, label))
    for key, current in values.items():
        for state in dict.fromkeys([*states, current]):
            family.add_metric([*key, state], float(state == current))
    return family


def timestamp(moment: datetime) -> float:
    """A time of a database, in UTC and naive, as seconds since 1970."""
    return moment.replace(tzinfo=UTC).timestamp()


def _fill(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Labels, float] | float | None) -> None:
    if isinstance(values, Mapping):
        for key, value in values.items():
            family.add_metric(list(key), value)
    elif values is not None:
        family.add_metric([], values)


__all__ = ["Labels", "Metric", "counter", "gauge", "one_of", "timestamp"]
