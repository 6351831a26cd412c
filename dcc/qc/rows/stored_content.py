"""A document's content from its rows: the inverse of `row_builder`, so that the document can be rebuilt.

Elements without a line in the tables (samples, sections, series with values) get that of their content. Most fields of
elements are columns of the same names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, select

from dcc.databases.list_parameters import rows_with
from dcc.documents import contents
from dcc.qc import models
from dcc.vocabulary import EntityKind, MeasurementType, MediaType, MetadataOwner

_CHUNK: Final = 500

Made = TypeVar("Made")
Rows = defaultdict[int, list[Row[Any]]]
"""Rows by the id of their owner, in their order."""


def load_document(connection: Connection, document_id: int) -> Iterator[contents.Content]:
    """A document's content: each block, followed by its entities, in document order.

    Without entities that were refused because of a text that is too long for its column (rule Q1). Reads 500 entities
    at a time.
    """
    blocks = select(models.BLOCK).where(models.BLOCK.c.document_id == document_id).order_by(models.BLOCK.c.position)
    loads = (
        (models.SPECIMEN, load_specimens),
        (models.HOUSING, _housings),
        (models.LINE, _lines),
        (models.EXPERIMENT, load_experiments),
    )
    for row in connection.execute(blocks).all():
        yield _made(contents.Block, row)
        for table, load in loads:
            for chunk in _chunks(connection, table, row.id):
                yield from load(connection, chunk)


def _chunks(connection: Connection, table: Table, block_id: int) -> Iterator[list[Row[Any]]]:
    last = -1
    while True:
        of_block = (table.c.block_id == block_id) & (table.c.position > last)
        statement = select(table).where(of_block).order_by(table.c.position).limit(_CHUNK)
        chunk = list(connection.execute(statement))
        if not chunk:
            return
        yield chunk
        last = chunk[-1].position


def _rows_by(connection: Connection, query: Select[Any], owner: ColumnElement[Any], ids: Iterable[int]) -> Rows:
    found: Rows = defaultdict(list)
    for row in rows_with(connection, query, owner, ids):
        found[row._mapping[owner]].append(row)
    return found


def _parts(connection: Connection, table: Table, ids: Iterable[int]) -> Rows:
    """The rows of a table of parts, whose key begins with the owner and ends with the position."""
    keys = list(table.primary_key.columns)
    return _rows_by(connection, select(table).order_by(*keys), keys[0], ids)


def _made(kind: type[Made], row: Row[Any], /, **given: Any) -> Made:
    """An element with the fields given, and the others from the columns of their names."""
    names: Sequence[str] = kind._fields  # type: ignore[attr-defined]
    return kind(*[given[name] if name in given else getattr(row, name) for name in names])


def _all_made(kind: type[Made], rows: Iterable[Row[Any]]) -> tuple[Made, ...]:
    return tuple([_made(kind, row) for row in rows])


def _written(row: Row[Any], attribute: str, value: Any) -> Any:
    """The text of an attribute, which a row has besides its value where that cannot reproduce it."""
    written = json.loads(row.lexical) if row.lexical else {}
    if attribute in written:
        return written[attribute]
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else None if value is None else repr(value)


def load_specimens(connection: Connection, rows: list[Row[Any]]) -> Iterator[contents.Specimen]:
    """The specimens of rows, in their order."""
    ids = [row.id for row in rows]
    tables = (models.RELATED, models.GENOTYPE, models.PARENTAL_STRAIN, models.ALTERATION, models.CHROMOSOME)
    related, genotypes, strains, alterations, regions = (_parts(connection, table, ids) for table in tables)
    for row in rows:
        status = None
        if row.status_code is not None:
            status = contents.StatusCode(row.line, _written(row, "date", row.status_date), row.status_code)
        yield _made(
            contents.Specimen,
            row,
            kind=contents.SpecimenKind(row.kind),
            is_baseline=_written(row, "isBaseline", row.is_baseline),
            dob=_written(row, "DOB", row.dob),
            related_specimens=_all_made(contents.RelatedSpecimen, related[row.id]),
            genotypes=_all_made(contents.Genotype, genotypes[row.id]),
            chromosomal_alterations=tuple(_alteration(one, regions[row.id]) for one in alterations[row.id]),
            parental_strains=tuple(map(_strain, strains[row.id])),
            status_code=status,
        )


def _alteration(row: Row[Any], regions: Iterable[Row[Any]]) -> contents.ChromosomalAlteration:
    of_kind: dict[str, list[contents.ChromosomeRegion]] = {"added": [], "removed": []}
    for one in regions:
        if one.alteration == row.position:
            region = contents.ChromosomeRegion(one.line, one.region_start, one.region_end, one.species)
            of_kind[one.kind].append(region)
    return contents.ChromosomalAlteration(row.line, *map(tuple, of_kind.values()))


def _strain(row: Row[Any]) -> contents.ParentalStrain:
    written = {name: _written(row, name, getattr(row, name)) for name in ("percentage", "level")}
    return _made(contents.ParentalStrain, row, **written)


def load_experiments(connection: Connection, rows: list[Row[Any]]) -> Iterator[contents.Experiment]:
    """The experiments of rows, in their order."""
    ids = [row.id for row in rows]
    named = _parts(connection, models.NAMED, ids)
    codes = _status_codes(connection, EntityKind.EXPERIMENT, ids)
    procedures = _load_procedures(connection, EntityKind.EXPERIMENT, ids)
    for row in rows:
        yield _made(
            contents.Experiment,
            row,
            date=_written(row, "dateOfExperiment", row.date),
            specimen_ids=tuple(one.specimen_id for one in named[row.id]),
            procedure=procedures.get(row.id),
            status_codes=codes.get(row.id, ()),
        )


def _lines(connection: Connection, rows: list[Row[Any]]) -> Iterator[contents.Line]:
    ids = [row.id for row in rows]
    codes = _status_codes(connection, EntityKind.LINE, ids)
    procedures = _load_procedures(connection, EntityKind.LINE, ids)
    for row in rows:
        yield _made(contents.Line, row, procedure=procedures[row.id], status_codes=codes.get(row.id, ()))


def _housings(connection: Connection, rows: list[Row[Any]]) -> Iterator[contents.Housing]:
    procedures = _load_procedures(connection, EntityKind.HOUSING, [row.id for row in rows])
    for row in rows:
        from_lims = _written(row, "fromLIMS", row.from_lims)
        updated = _written(row, "lastUpdated", row.last_updated)
        yield _made(contents.Housing, row, from_lims=from_lims, last_updated=updated, procedure=procedures[row.id])


def _status_codes(
    connection: Connection, kind: EntityKind, ids: list[int]
) -> dict[int, tuple[contents.StatusCode, ...]]:
    own = models.STATUS_CODE.c
    of_kind = select(models.STATUS_CODE).where(own.owner_kind == kind.value).order_by(own.position)
    return {
        owner_id: tuple(contents.StatusCode(row.line, _written(row, "date", row.date), row.code) for row in rows)
        for owner_id, rows in _rows_by(connection, of_kind, own.owner_id, ids).items()
    }


def _load_procedures(connection: Connection, kind: EntityKind, ids: list[int]) -> dict[int, contents.Procedure]:
    """The procedures of entities, by the rows of these. A few statements for any number."""
    own = select(models.RUN).where(models.RUN.c.owner_kind == kind.value, models.RUN.c.owner_id.in_(ids))
    runs = connection.execute(own).all()
    parts = _parts_of_runs(connection, [run.id for run in runs])
    return {run.owner_id: _procedure(run, parts) for run in runs}


class _Parts(NamedTuple):
    """The results of procedures: measurements and media by their runs, and what belongs to media and runs."""

    measured: Rows
    filmed: Rows
    metadata: defaultdict[tuple[str, int], list[contents.Metadata]]
    associations: defaultdict[int, list[contents.ParameterAssociation]]

    def of_file(self, kind: type[Made], row: Row[Any]) -> Made:
        """An element that names a media file."""
        metadata = tuple(self.metadata[MetadataOwner.MEDIA.value, row.id])
        return _made(kind, row, metadata=metadata, associations=tuple(self.associations[row.id]))


def _parts_of_runs(connection: Connection, run_ids: list[int]) -> _Parts:
    measured, filmed = (
        _rows_by(connection, select(table).order_by(table.c.position, table.c.item), table.c.procedure_run_id, run_ids)
        for table in (models.MEASUREMENT, models.MEDIA)
    )
    metadata = select(models.METADATA).order_by(models.METADATA.c.position)
    parts = _Parts(measured, filmed, defaultdict(list), defaultdict(list))
    for row in rows_with(connection, metadata, models.METADATA.c.procedure_run_id, run_ids):
        parts.metadata[row.owner_kind, row.owner_id].append(_made(contents.Metadata, row))
    media_ids = [row.id for rows in filmed.values() for row in rows]
    dimensions = _parts(connection, models.DIMENSION, media_ids)
    for media_id, rows in _parts(connection, models.ASSOCIATION, media_ids).items():
        for row in rows:
            of_this = tuple(
                contents.Dimension(one.line, one.dimension_id, one.origin, one.unit, one.value)
                for one in dimensions[media_id]
                if one.association == row.position
            )
            parts.associations[media_id].append(_made(contents.ParameterAssociation, row, dimensions=of_this))
    return parts


def _procedure(run: Row[Any], parts: _Parts) -> contents.Procedure:
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for _, group in groupby(parts.measured[run.id], key=lambda row: row.position):
        row, *others = group
        if row.type == MeasurementType.SIMPLE:
            head = (row.line, row.parameter_id, row.sequence_id)
            found["simple"].append(contents.SimpleParameter(*head, row.unit, row.value, row.status))
        elif row.type == MeasurementType.ONTOLOGY:
            terms = tuple(one.value for one in (row, *others))
            found["ontology"].append(_made(contents.OntologyParameter, row, terms=terms))
        else:
            values = _all_made(contents.SeriesValue, (row, *others) if row.item is not None else ())
            found["series"].append(_made(contents.SeriesParameter, row, values=values))
    for _, group in groupby(parts.filmed[run.id], key=lambda row: row.position):
        row, *others = group
        files = (row, *others) if row.item is not None else ()
        if row.type == MediaType.MEDIA:
            found["media"].append(parts.of_file(contents.MediaParameter, row))
        elif row.type == MediaType.SAMPLE:
            found["media_samples"].append(_made(contents.MediaSampleParameter, row, samples=_samples(files, parts)))
        else:
            series = tuple(parts.of_file(contents.SeriesMediaValue, one) for one in files)
            metadata = tuple(parts.metadata[MetadataOwner.SERIES_MEDIA.value, row.id])
            found["series_media"].append(_made(contents.SeriesMediaParameter, row, values=series, metadata=metadata))
    return _made(
        contents.Procedure,
        run,
        **{name: tuple(found[name]) for name in contents.Procedure._fields[2:-1]},
        metadata=tuple(parts.metadata[MetadataOwner.PROCEDURE.value, run.id]),
    )


def _samples(rows: Sequence[Row[Any]], parts: _Parts) -> tuple[contents.MediaSample, ...]:
    samples = []
    for _, of_sample in groupby(rows, key=lambda row: row.sample_position):
        in_sample = list(of_sample)
        sections = []
        for _, of_section in groupby(in_sample, key=lambda row: row.section_position):
            in_section = list(of_section)
            files = tuple(parts.of_file(contents.MediaFile, row) for row in in_section)
            sections.append(contents.MediaSection(in_section[0].line, in_section[0].section_id, files))
        samples.append(contents.MediaSample(in_sample[0].line, in_sample[0].sample_id, tuple(sections)))
    return tuple(samples)
