"""Measurements as pandas DataFrames: `load_measurements` for data that fit into memory, `iterate_measurements` for
more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from sqlalchemy import ColumnElement, Connection, Engine, Select, case, false, func, null, or_, select, true

from dcc.analysis.columns import SCHEMA, to_frame
from dcc.analysis.filters import MeasurementFilter, conditions
from dcc.databases.columns import MYSQL_FAMILY
from dcc.databases.engines import patient_connection
from dcc.errors import NotFoundError
from dcc.qc.apply.upload_lock import await_uploads
from dcc.qc.apply.versions import same_animal
from dcc.qc.contexts.membership import BASELINE
from dcc.qc.contexts.metadata_groups import EMPTY_GROUP
from dcc.qc.history import current_at, document_at, measurements_at
from dcc.qc.latest_valid import is_latest_valid
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, EXPERIMENT, LINE, MEASUREMENT, OVERVIEW_ANIMAL, RUN, SPECIMEN
from dcc.vocabulary import EntityKind, Validity

ROWS: Final = 50_000
"""Rows of a chunk, fewer if their texts are long."""

_TEXT_HELD: Final = 32_000_000
_ROWS_FETCHED: Final = 200

_OWNERS: Final = {kind: table for kind, table in ENTITY_TABLES.items() if kind is not EntityKind.SPECIMEN}


def load_measurements(qc: Engine, criteria: MeasurementFilter | None = None) -> pd.DataFrame:
    """The selected measurements (by default all current, valid ones), in the order of their ids.

    The columns are those of `analysis.columns.COLUMNS`, with the dtypes of `analysis.columns.PANDAS_TYPES`, even
    without rows. The order is that in which documents were applied, and within a document its own. Raises NotFoundError
    for an unknown past document, QcDatabaseUnreachableError.
    """
    with patient_connection(qc) as connection:
        return to_frame(pa.Table.from_batches(iterate_batches(connection, criteria or MeasurementFilter()), SCHEMA))


def iterate_measurements(
    qc: Engine, criteria: MeasurementFilter | None = None, *, rows: int = ROWS
) -> Iterator[pd.DataFrame]:
    """As `load_measurements`, in DataFrames of at most so many rows; none without rows.

    Memory is that of one chunk, which has fewer rows if their texts are long. All chunks show the same moment.
    """
    with patient_connection(qc) as connection:
        for batch in iterate_batches(connection, criteria or MeasurementFilter(), rows=rows):
            yield to_frame(pa.Table.from_batches([batch]))


def iterate_batches(
    connection: Connection, criteria: MeasurementFilter, *, rows: int = ROWS
) -> Iterator[pa.RecordBatch]:
    """The selected measurements, in the order of their ids, as Arrow record batches of `SCHEMA`."""
    statement = measurements_query(resolve_past(connection, criteria))
    streamed = connection.execution_options(stream_results=True, max_row_buffer=_ROWS_FETCHED)
    value = SCHEMA.get_field_index("value")
    with streamed.execute(statement) as result:
        held: list[Any] = []
        text = 0
        for row in result:
            held.append(row)
            text += len(row[value] or "")
            if len(held) >= rows or text > _TEXT_HELD:
                yield _batch(held)
                held, text = [], 0
        if held:
            yield _batch(held)


def _batch(rows: list[Any]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def resolve_past(connection: Connection, criteria: MeasurementFilter) -> MeasurementFilter:
    """The filter with a past time replaced by a document. Raises NotFoundError for a document that was never applied.

    Waits for open uploads that may still belong to that time (`await_uploads`). The connection's moment begins after
    that, if it has read nothing before.
    """
    document = criteria.as_of_document
    if criteria.as_of_date is not None:
        with connection.engine.connect() as before:
            known = document_at(before, _end(criteria.as_of_date))
        await_uploads(connection.engine)
        return replace(criteria, as_of_date=None, as_of_document=known)
    if document is not None:
        await_uploads(connection.engine)
        last = connection.scalar(select(func.max(DOCUMENT.c.id))) or 0
        # A larger number may be one that the database cannot compare with.
        is_known = 0 < document <= last and connection.scalar(select(DOCUMENT.c.id).where(DOCUMENT.c.id == document))
        if not is_known:
            raise NotFoundError(
                f"The QC database knows no document {document}. "
                + (f"Name one from 1 to {last}, or a date." if last else "No document has been applied to it yet.")
            )
    return criteria


def _end(moment: date | datetime) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time.max)


def measurements_query(criteria: MeasurementFilter) -> Select[Any]:
    """The query for the columns of `SCHEMA`, for a filter without an unresolved past."""
    found = _Joined(criteria)
    columns = [found.columns[name].label(name) for name in SCHEMA.names]
    statement = found.select(columns).order_by(found.columns["id"])
    if criteria.procedure is None and criteria.as_of_document is None:
        # Join from the measurements, whose order the rows need, and not from a smaller table.
        for family in MYSQL_FAMILY:
            statement = statement.prefix_with("STRAIGHT_JOIN", dialect=family)
    return statement


def summary_query(criteria: MeasurementFilter) -> Select[Any]:
    """The query for values that show whether a centre and procedure's measurements are the same as at another time.

    Its columns: centre and procedure_id, each followed by a full stop, metadata_group, rows, the sum of their
    fingerprints, their highest id, and a sum over the measurement, animal and validity. Rows with the same ids differ
    in nothing else.
    """
    found = _Joined(criteria)
    row_id, animal = found.columns["id"], func.coalesce(SPECIMEN.c.id, 0)
    valid = found.columns["is_valid"]
    judged = case((valid == 1, 1), (valid == 0, 2), else_=0)
    # Products stay below 2**63, the largest integer of SQLite.
    mixed = ((row_id % 65_521 + 1) * ((animal * 3 + judged) % 2_147_483_647 + 1)) % 4_294_967_291
    keys = [
        found.columns["centre"].concat(".").label("centre"),
        found.columns["procedure_id"].concat(".").label("procedure_id"),
        found.columns["metadata_group"].label("metadata_group"),
    ]
    sums = [func.count(), func.sum(found.measurement.c.fingerprint), func.max(row_id), func.sum(mixed)]
    return found.select([*keys, *sums]).group_by(*keys)


def _is_valid(validity: ColumnElement[int]) -> ColumnElement[bool | None]:
    return case((validity == Validity.VALID, true()), (validity != Validity.UNJUDGED, false()))


class _Joined:
    """Measurements joined with all tables of their columns."""

    def __init__(self, criteria: MeasurementFilter) -> None:
        self._criteria = criteria
        past = criteria.as_of_document
        self.measurement = MEASUREMENT if past is None else measurements_at(past).subquery("measured")
        own = self.measurement.c
        colony = func.coalesce(LINE.c.colony_id, SPECIMEN.c.colony_id)
        self.columns: dict[str, ColumnElement[Any]] = {
            **{name: SPECIMEN.c[name] for name in SCHEMA.names if name in SPECIMEN.c},
            **{name: own[name] for name in SCHEMA.names if name in own},
            "colony_id": colony,
            "genotype": case((SPECIMEN.c.is_baseline == 1, BASELINE), else_=colony),
            "experiment_sequence_id": EXPERIMENT.c.sequence_id,
            "is_valid": true() if criteria.latest_valid else _is_valid(_of_owner("validity")),
            # Overviews show only the present. They have a row for each animal of an experiment.
            "metadata_group": null() if past is not None else _metadata_group(own.procedure_run_id),
            **{name: DOCUMENT.c[name] for name in ("zip_action", "zip_file", "file_name")},
            # The run has the same value as the measurement, and an index of it.
            **{name: RUN.c[name] for name in ("procedure_id", "document_id", "owner_kind")},
        }

    def select(self, columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
        own = self.measurement.c
        statement = select(*columns).select_from(self.measurement).join(RUN, RUN.c.id == own.procedure_run_id)
        for kind, table in _OWNERS.items():
            statement = statement.outerjoin(table, (RUN.c.owner_kind == kind.value) & (table.c.id == RUN.c.owner_id))
        of_animal = same_animal(self.measurement, self.measurement) & self._is_of_animal()
        statement = statement.outerjoin(SPECIMEN, of_animal)
        statement = statement.join(DOCUMENT, DOCUMENT.c.id == RUN.c.document_id).where(*self._versions())
        filtered = {
            **self.columns,
            "colony": self.columns["colony_id"],
            "specimen": own.specimen_id,
            "procedure": RUN.c.procedure_id,
            "parameter": own.parameter_id,
        }
        return statement.where(*conditions(self._criteria, filtered))

    def _is_of_animal(self) -> ColumnElement[bool]:
        """The condition on the version of an animal whose columns are shown."""
        if self._criteria.latest_valid:
            return is_latest_valid(EntityKind.SPECIMEN)
        past = self._criteria.as_of_document
        return SPECIMEN.c.is_current == 1 if past is None else current_at(EntityKind.SPECIMEN, past)

    def _versions(self) -> list[ColumnElement[bool]]:
        """The conditions on the versions whose measurements are wanted; those of a past are chosen already."""
        if self._criteria.latest_valid:
            return [or_(*((RUN.c.owner_kind == kind.value) & is_latest_valid(kind) for kind in _OWNERS))]
        return [_of_owner("is_current") == 1] if self._criteria.as_of_document is None else []


def _of_owner(name: str) -> ColumnElement[int]:
    """A column of the experiment, line or housing of a measurement."""
    return func.coalesce(*(owner.c[name] for owner in _OWNERS.values()))


def _metadata_group(run_id: ColumnElement[Any]) -> ColumnElement[Any]:
    group = select(func.replace(func.min(OVERVIEW_ANIMAL.c.metadata_group), EMPTY_GROUP, "")).where(
        OVERVIEW_ANIMAL.c.procedure_run_id == run_id
    )
    return group.correlate_except(OVERVIEW_ANIMAL).scalar_subquery()
