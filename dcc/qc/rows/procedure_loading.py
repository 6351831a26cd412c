"""Results of procedures, from the rows of measurements, media and metadata: the inverse of `qc.rows.procedures`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, select

from dcc.documents import contents as said
from dcc.qc.models import ASSOCIATION, DIMENSION, MEASUREMENT, MEDIA, METADATA, RUN
from dcc.vocabulary import EntityKind, MeasurementType, MediaType, MetadataOwner

_Metadata = dict[tuple[str, int], tuple[said.Metadata, ...]]
_Associations = dict[int, tuple[said.ParameterAssociation, ...]]


def load_procedures(connection: Connection, kind: EntityKind, ids: list[int]) -> dict[int, said.Procedure]:
    """The procedures of entities, by the rows of these. A few statements for any number."""
    of_these = (RUN.c.owner_kind == kind.value) & RUN.c.owner_id.in_(ids)
    runs = connection.execute(select(RUN).where(of_these)).all()
    run_ids = [row.id for row in runs]
    measured = _by_run(connection, MEASUREMENT, run_ids)
    filmed = _by_run(connection, MEDIA, run_ids)
    metadata = _metadata(connection, run_ids)
    associations = _associations(connection, [row.id for rows in filmed.values() for row in rows])
    return {
        row.owner_id: _procedure(row, measured.get(row.id, []), filmed.get(row.id, []), metadata, associations)
        for row in runs
    }


def _by_run(connection: Connection, table: Any, run_ids: list[int]) -> dict[int, list[Row[Any]]]:
    own = select(table).where(table.c.procedure_run_id.in_(run_ids))
    rows = connection.execute(own.order_by(table.c.procedure_run_id, table.c.position, table.c.item))
    return {run_id: list(group) for run_id, group in groupby(rows, key=lambda row: row.procedure_run_id)}


def _metadata(connection: Connection, run_ids: list[int]) -> _Metadata:
    order = (METADATA.c.owner_kind, METADATA.c.owner_id, METADATA.c.position)
    rows = connection.execute(select(METADATA).where(METADATA.c.procedure_run_id.in_(run_ids)).order_by(*order))
    return {
        owner: tuple(said.Metadata(row.line, row.parameter_id, row.sequence_id, row.status, row.value) for row in group)
        for owner, group in groupby(rows, key=lambda row: (row.owner_kind, row.owner_id))
    }


def _associations(connection: Connection, media_ids: list[int]) -> _Associations:
    dimensions: dict[tuple[int, int], list[said.Dimension]] = {}
    found: dict[int, list[said.ParameterAssociation]] = {}
    for start in range(0, len(media_ids), 2_000):
        chunk = media_ids[start : start + 2_000]
        parts = select(DIMENSION).where(DIMENSION.c.media_id.in_(chunk)).order_by(*DIMENSION.primary_key.columns)
        for row in connection.execute(parts):
            one = said.Dimension(row.line, row.dimension_id, row.origin, row.unit, row.value)
            dimensions.setdefault((row.media_id, row.association), []).append(one)
        own = select(ASSOCIATION).where(ASSOCIATION.c.media_id.in_(chunk)).order_by(*ASSOCIATION.primary_key.columns)
        for row in connection.execute(own):
            of_this = tuple(dimensions.get((row.media_id, row.position), ()))
            association = said.ParameterAssociation(row.line, row.parameter_id, row.sequence_id, row.link, of_this)
            found.setdefault(row.media_id, []).append(association)
    return {media_id: tuple(associations) for media_id, associations in found.items()}


def _procedure(
    run: Row[Any],
    measured: Iterable[Row[Any]],
    filmed: Iterable[Row[Any]],
    metadata: _Metadata,
    associations: _Associations,
) -> said.Procedure:
    simple: list[said.SimpleParameter] = []
    ontology: list[said.OntologyParameter] = []
    series: list[said.SeriesParameter] = []
    for _, group in groupby(measured, key=lambda row: row.position):
        rows = list(group)
        row = rows[0]
        head = (row.line, row.parameter_id, row.sequence_id)
        if row.type == MeasurementType.SIMPLE:
            simple.append(said.SimpleParameter(*head, row.unit, row.value, row.status))
        elif row.type == MeasurementType.ONTOLOGY:
            ontology.append(said.OntologyParameter(*head, tuple(one.value for one in rows), row.status))
        else:
            values = tuple(
                said.SeriesValue(one.line, one.increment, one.increment_status, one.value)
                for one in rows
                if one.item is not None
            )
            series.append(said.SeriesParameter(*head, row.unit, values, row.status))
    media: list[said.MediaParameter] = []
    samples: list[said.MediaSampleParameter] = []
    series_media: list[said.SeriesMediaParameter] = []
    for _, group in groupby(filmed, key=lambda row: row.position):
        rows = list(group)
        row = rows[0]
        if row.type == MediaType.MEDIA:
            of_file = metadata.get((MetadataOwner.MEDIA.value, row.id), ())
            file = (row.parameter_id, row.uri, row.file_type, row.link, row.status)
            media.append(said.MediaParameter(row.line, *file, associations.get(row.id, ()), of_file))
        elif row.type == MediaType.SAMPLE:
            of_parameter = _samples(rows, metadata, associations)
            samples.append(said.MediaSampleParameter(row.line, row.parameter_id, of_parameter, row.status))
        else:
            series_media.append(_series_media(rows, metadata, associations))
    return said.Procedure(
        run.line,
        run.procedure_id,
        tuple(simple),
        tuple(ontology),
        tuple(series),
        tuple(media),
        tuple(samples),
        tuple(series_media),
        metadata.get((MetadataOwner.PROCEDURE.value, run.id), ()),
    )


def _samples(rows: list[Row[Any]], metadata: _Metadata, associations: _Associations) -> tuple[said.MediaSample, ...]:
    samples = []
    there = [row for row in rows if row.item is not None]
    for _, of_sample in groupby(there, key=lambda row: row.sample_position):
        in_sample = list(of_sample)
        sections = []
        for _, of_section in groupby(in_sample, key=lambda row: row.section_position):
            in_section = list(of_section)
            files = tuple(
                said.MediaFile(
                    row.line,
                    row.local_id,
                    row.uri,
                    row.file_type,
                    row.link,
                    metadata.get((MetadataOwner.MEDIA.value, row.id), ()),
                    associations.get(row.id, ()),
                )
                for row in in_section
            )
            sections.append(said.MediaSection(in_section[0].line, in_section[0].section_id, files))
        samples.append(said.MediaSample(in_sample[0].line, in_sample[0].sample_id, tuple(sections)))
    return tuple(samples)


def _series_media(rows: list[Row[Any]], metadata: _Metadata, associations: _Associations) -> said.SeriesMediaParameter:
    first = rows[0]
    values = tuple(
        said.SeriesMediaValue(
            row.line,
            row.increment,
            row.uri,
            row.file_type,
            row.link,
            associations.get(row.id, ()),
            metadata.get((MetadataOwner.MEDIA.value, row.id), ()),
        )
        for row in rows
        if row.item is not None
    )
    own = metadata.get((MetadataOwner.SERIES_MEDIA.value, first.id), ())
    return said.SeriesMediaParameter(first.line, first.parameter_id, values, first.status, own)
