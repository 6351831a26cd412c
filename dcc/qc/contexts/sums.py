"""Sums of the measurements of procedure runs: the number for each parameter, and the sum of fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, select

from dcc.databases.list_parameters import as_json, groups_in
from dcc.qc.models import MEASUREMENT


def sums(connection: Connection, groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, str, int, int]]:
    """The sums of runs in groups.

    The index of a group, a parameter, the number of its measurements, and the sum of their fingerprints.
    """
    found = connection.execute(_SUMS, {"runs": as_json(groups)}).all() if groups else ()
    for number, parameter, measurements, fingerprints in found:
        yield number - 1, parameter.rstrip(" "), measurements, int(fingerprints)


def _summed() -> Select[Any]:
    group = groups_in("runs")
    columns: Sequence[ColumnElement[Any]] = (group.c.number, MEASUREMENT.c.parameter_id)
    summed = select(*columns, func.count(), func.sum(MEASUREMENT.c.fingerprint)).select_from(group)
    return summed.join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == group.c.value).group_by(*columns)


_SUMS: Final = _summed()
