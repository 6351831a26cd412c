"""Refuses filters that name a value that neither the data nor the reference data have: most are misspelt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, select

from dcc.analysis.filters import TEXT_FILTERS, MeasurementFilter, has_status, is_one_of
from dcc.errors import NotFoundError
from dcc.nearest_names import nearest_sentence
from dcc.qc import models

BASELINE: Final = "baseline"
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
    nearest = nearest_sentence(text, names)
    return nearest or (f" It has {', '.join(sorted(names))}." if 0 < len(names) <= _NAMES_LISTED else "")
