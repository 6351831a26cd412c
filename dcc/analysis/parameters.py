"""The parameters that measurements can be of: those of IMPReSS, and those that centres have measured.

Filters that name a value that neither the data nor the reference data have are refused: most are misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Connection, Select, Table, and_, func, select

from dcc.analysis.filters import TEXT_FILTERS, MeasurementFilter, has_status, is_one_of
from dcc.errors import NotFoundError
from dcc.nearest_names import nearest_sentence
from dcc.qc import models
from dcc.qc.contexts.membership import BASELINE
from dcc.qc.models import CONTEXT, MEASUREMENT, MEMBER, PARAMETER, PROCEDURE
from dcc.qc.reference.snapshots import active_snapshot
from dcc.reference.impress import Impress
from dcc.vocabulary import MeasurementType


class ParameterEntry(NamedTuple):
    """A parameter of a procedure; all but the keys are missing where IMPReSS does not say it.

    `parameter_id` and `procedure_id` are keys of IMPReSS, `type` is a `MeasurementType`. `measurements` is the number
    of current, valid measurements that the last session counted in data contexts.
    """

    parameter_id: str
    name: str | None
    procedure_id: str
    procedure: str | None
    unit: str | None
    type: str | None
    measurements: int


def list_parameters(connection: Connection, text: str = "") -> list[ParameterEntry]:
    """The parameters whose key, name or procedure has all words of a text, ignoring case, by their keys."""
    counts = _counts(connection)
    found = [
        ParameterEntry._make([*row, counts.pop((row.parameter_id, row.procedure_id), 0)])
        for row in connection.execute(_impress())
    ]
    found += [ParameterEntry(key, None, procedure, None, None, None, n) for (key, procedure), n in counts.items()]
    words = text.casefold().split()
    return sorted(
        (parameter for parameter in found if _has(parameter, words)),
        key=lambda one: (one.parameter_id, one.procedure_id),
    )


def parameter_names(connection: Connection) -> dict[str, str]:
    """The names of parameters by their key."""
    return {row.parameter_id: row.name for row in connection.execute(_impress()) if row.name}


def _impress() -> Select[Any]:
    """The parameters of measurements in the active IMPReSS, each once for a procedure."""
    same = and_(
        PROCEDURE.c.snapshot_id == PARAMETER.c.snapshot_id,
        PROCEDURE.c.procedure_id == PARAMETER.c.procedure_id,
        PROCEDURE.c.variant == PARAMETER.c.procedure_variant,
    )
    keys = (PARAMETER.c.parameter_id, PARAMETER.c.procedure_id)
    name, procedure, unit, kind = map(
        func.min, (PARAMETER.c.name, PROCEDURE.c.name, PARAMETER.c.unit, PARAMETER.c.type)
    )
    return (
        select(keys[0], name.label("name"), keys[1], procedure, unit, kind)
        .join(PROCEDURE, same)
        .where(
            PARAMETER.c.snapshot_id == active_snapshot(Impress.NAME),
            PARAMETER.c.type.in_([measurement_type.value for measurement_type in MeasurementType]),
        )
        .group_by(*keys)
    )


def _counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Numbers of measurements by the keys of parameter and procedure."""
    keys = (CONTEXT.c.parameter_id, CONTEXT.c.procedure_id)
    statement = select(*keys, func.sum(CONTEXT.c.measurements)).group_by(*keys)
    counts = {(row[0], row[1]): int(row[2]) for row in connection.execute(statement)}
    asked = counted_again(MEASUREMENT.c.parameter_id, MEASUREMENT.c.procedure_id)
    for parameter_id, procedure_id, times in connection.execute(asked):
        counts[parameter_id, procedure_id] -= int(times)
    return counts


def counted_again(*keys: Column[str]) -> Select[Any]:
    """How often contexts count measurements again, by some of their columns: those on animals of several genotypes or
    strains.
    """
    again = select(MEMBER.c.procedure_run_id, (func.count() - 1).label("times"))
    runs = again.group_by(MEMBER.c.procedure_run_id).having(func.count() > 1).subquery()
    texts = [func.rtrim(key) for key in keys]
    of_runs = MEASUREMENT.c.procedure_run_id == runs.c.procedure_run_id
    return select(*texts, func.sum(runs.c.times)).select_from(runs).join(MEASUREMENT, of_runs).group_by(*texts)


def _has(entry: ParameterEntry, words: list[str]) -> bool:
    text = " ".join(part for part in entry[:4] if part).casefold()
    return all(word in text for word in words)


_NAMES_COMPARED: Final = 10_000
_NAMES_LISTED: Final = 20
_LONGEST_BEGINNING: Final = 100


def _columns(name: str, *tables: Table) -> list[Column[Any]]:
    return [table.c[name] for table in tables]


_OWNERS: Final = (models.EXPERIMENT, models.LINE, models.HOUSING)
_COLONIES: Final = _columns("colony_id", models.SPECIMEN, models.LINE, models.COLONY)
_NAMED_IN: Final[Mapping[str, list[Column[Any]]]] = {
    "centre": _columns("centre", models.DOCUMENT),
    "pipeline": _columns("pipeline", models.PIPELINE, *_OWNERS),
    "project": [*_columns("name", models.PROJECT), *_columns("project", *_OWNERS)],
    "colony": _COLONIES,
    "genotype": _COLONIES,
    "specimen": _columns("specimen_id", models.SPECIMEN, models.MEASUREMENT),
    "procedure": _columns("procedure_id", models.PROCEDURE, models.RUN),
    "parameter": _columns("parameter_id", models.PARAMETER, models.CONTEXT, models.MEASUREMENT),
    "status": [*_columns("code", models.KNOWN_STATUS_CODE), *_columns("status", models.MEASUREMENT)],
    "strain": _columns("strain_id", models.CONTEXT, models.SPECIMEN),
}
"""The columns that have the values of a filter's field, the smallest table first."""


def require_known(connection: Connection, criteria: MeasurementFilter) -> None:
    """Raise NotFoundError, with the nearest names, for a text of a filter that the QC database has nowhere."""
    for field in TEXT_FILTERS:
        for text in criteria.texts(field) or ():
            require_known_value(connection, field, text)


def require_known_value(connection: Connection, field: str, text: str) -> None:
    """Raise NotFoundError, with the nearest names, for a text that the QC database has nowhere as that field."""
    if not is_known(connection, field, text):
        listing = " `dcc data parameters` lists all, by words of their names too." if field == "parameter" else ""
        raise NotFoundError(
            f"The QC database has no {field} {text!r}.{_alternatives(connection, field, text)}{listing} "
            "Correct the name, or leave it out."
        )


def is_known(connection: Connection, field: str, text: str) -> bool:
    """Whether the QC database has a text somewhere as that field."""
    if (field, text) in {("genotype", BASELINE), ("status", "")}:
        return True
    same = has_status if field == "status" else is_one_of
    return any(
        connection.execute(select(column).where(same(column, [text])).limit(1)).first() for column in _NAMED_IN[field]
    )


def _alternatives(connection: Connection, field: str, text: str) -> str:
    """A sentence with the nearest names, or with all if they are few."""
    names: dict[str, None] = {}
    for column in _NAMED_IN[field]:
        # All tables but the largest: its names are in the others.
        if column.table.name != models.MEASUREMENT.name:
            is_similar = column.startswith(text[: min(len(text) // 2, _LONGEST_BEGINNING)], autoescape=True)
            distinct = select(column).where(column.is_not(None)).distinct().order_by(is_similar.desc(), column)
            names |= dict.fromkeys(connection.scalars(distinct.limit(_NAMES_COMPARED)))
    nearest = str(nearest_sentence(text, names))
    return nearest or (f" It has {', '.join(sorted(names))}." if 0 < len(names) <= _NAMES_LISTED else "")
