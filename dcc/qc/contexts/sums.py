"""Sums of the measurements of procedure runs: the number for each parameter, and the sum of fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select

from dcc.databases.list_parameters import as_json, groups_in
from dcc.qc.models import MEASUREMENT


def sums(connection: Connection, groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, str, int, int]]:
    """The sums of runs in groups.

    The index of a group, a parameter, the number of its measurements, and the sum of their fingerprints.
    """
    for number, parameter, measurements, fingerprints in _summed_groups(connection, groups) if groups else ():
        yield number - 1, parameter.rstrip(" "), measurements, int(fingerprints)


def _summed_groups(connection: Connection, groups: Sequence[Sequence[int]]) -> Sequence[Any]:
    """The rows of `_SUMS`. A server reads neighbouring measurements in the order of their ids.

    Looking each of them up by its run costs MariaDB four times as much as reading past it.
    """
    given: dict[str, object] = {"runs": as_json(groups)}
    if connection.dialect.name != "sqlite":
        measurements, first, last = connection.execute(_EXTENT, given).one()
        if measurements and last - first < _DENSE * measurements:
            return connection.execute(_SUMS_WITHIN, {**given, "first": first, "last": last}).all()
    return connection.execute(_SUMS, given).all()


def _summed() -> Select[Any]:
    group, measurement = groups_in("runs"), MEASUREMENT.c
    of_run = measurement.procedure_run_id == group.c.value
    return _sums_of(group.c.number).select_from(group).join(MEASUREMENT, of_run)


def _summed_within() -> Select[Any]:
    """As `_summed`, for measurements with ids from `first` to `last`, whose runs are looked up."""
    # Distinct, so that MariaDB makes an indexed table of them.
    group = select(*groups_in("runs").c).distinct().subquery()
    within = MEASUREMENT.c.id.between(bindparam("first"), bindparam("last"))
    summed = _sums_of(group.c.number).prefix_with("STRAIGHT_JOIN").select_from(MEASUREMENT).where(within)
    return summed.join(group, MEASUREMENT.c.procedure_run_id == group.c.value)


def _sums_of(number: ColumnElement[int]) -> Select[Any]:
    columns: Sequence[ColumnElement[Any]] = (number, MEASUREMENT.c.parameter_id)
    marks = func.sum(MEASUREMENT.c.fingerprint).label("marks")
    return select(*columns, func.count().label("measured"), marks).group_by(*columns)


def _extent() -> Select[int, Any, Any]:
    """The number of runs' measurements, and their first and last id."""
    given, ids = groups_in("runs"), MEASUREMENT.c.id
    measured = given.join(MEASUREMENT, given.c.value == MEASUREMENT.c.procedure_run_id)
    return select(func.count(), func.min(ids), func.max(ids)).select_from(measured)


_DENSE: Final = 2
"""The most ids for each measurement of a range that is read in order."""
_SUMS: Final = _summed()
_SUMS_WITHIN: Final = _summed_within()
_EXTENT: Final = _extent()
