"""A document's content from its rows: the inverse of `building`, so that the document can be rebuilt.

Elements without a line in the tables (samples, sections, series with values) get that of their content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, select

from dcc.documents import contents as said
from dcc.qc import models
from dcc.qc.models import BLOCK, EXPERIMENT, HOUSING, LINE, SPECIMEN, STATUS_CODE
from dcc.qc.rows.procedure_loading import load_procedures
from dcc.vocabulary import EntityKind

_CHUNK: Final = 500
Rows = dict[int, list[Row[Any]]]


def load_document(connection: Connection, document_id: int) -> Iterator[said.Content]:
    """A document's content: each block, followed by its entities, in document order.

    Without entities that were refused because of a text that is too long for its column (rule Q1). Reads 500 entities
    at a time.
    """
    blocks = select(BLOCK).where(BLOCK.c.document_id == document_id).order_by(BLOCK.c.position)
    for row in connection.execute(blocks).all():
        yield said.Block(row.line, row.position, row.centre, row.pipeline, row.project)
        for chunk in _chunks(connection, SPECIMEN, row.id):
            yield from load_specimens(connection, chunk)
        for chunk in _chunks(connection, HOUSING, row.id):
            yield from _housings(connection, chunk)
        for chunk in _chunks(connection, LINE, row.id):
            yield from _lines(connection, chunk)
        for chunk in _chunks(connection, EXPERIMENT, row.id):
            yield from load_experiments(connection, chunk)


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


def rows_by(connection: Connection, statement: Select[Any]) -> Rows:
    """Rows grouped by their owners, the first column, in that order."""
    return {owner: list(rows) for owner, rows in groupby(connection.execute(statement), key=lambda row: row[0])}


def _parts(connection: Connection, table: Table, ids: list[int]) -> Rows:
    """The rows of a table of parts, whose key begins with the owner and ends with the position."""
    keys = list(table.primary_key.columns)
    return rows_by(connection, select(table).where(keys[0].in_(ids)).order_by(*keys))


def load_specimens(connection: Connection, rows: list[Row[Any]]) -> Iterator[said.Specimen]:
    """The specimens of rows, in their order."""
    ids = [row.id for row in rows]
    related = _parts(connection, models.RELATED, ids)
    genotypes = _parts(connection, models.GENOTYPE, ids)
    strains = _parts(connection, models.PARENTAL_STRAIN, ids)
    alterations = _parts(connection, models.ALTERATION, ids)
    regions = _parts(connection, models.CHROMOSOME, ids)
    for row in rows:
        written = _written(row)
        status = None
        if row.status_code is not None:
            status = said.StatusCode(row.line, written.get("date", _text(row.status_date)), row.status_code)
        yield said.Specimen(
            line=row.line,
            position=row.position,
            kind=said.SpecimenKind(row.kind),
            specimen_id=row.specimen_id,
            is_baseline=written.get("isBaseline", _boolean(row.is_baseline)),
            gender=row.gender,
            zygosity=row.zygosity,
            litter_id=row.litter_id,
            pipeline=row.pipeline,
            phenotyping_centre=row.phenotyping_centre,
            project=row.project,
            dob=written.get("DOB", _text(row.dob)),
            stage=row.stage,
            stage_unit=row.stage_unit,
            colony_id=row.colony_id,
            strain_id=row.strain_id,
            production_centre=row.production_centre,
            related_specimens=tuple(
                said.RelatedSpecimen(one.line, one.specimen_id, one.relationship) for one in related.get(row.id, ())
            ),
            genotypes=tuple(map(_genotype, genotypes.get(row.id, ()))),
            chromosomal_alterations=tuple(
                _alteration(one, regions.get(row.id, [])) for one in alterations.get(row.id, ())
            ),
            parental_strains=tuple(map(_strain, strains.get(row.id, ()))),
            status_code=status,
        )


def _genotype(row: Row[Any]) -> said.Genotype:
    allele = (row.mgi_gene_id, row.gene_symbol, row.mgi_allele_id)
    return said.Genotype(row.line, *allele, row.father_zygosity, row.mother_zygosity)


def _alteration(row: Row[Any], regions: Iterable[Row[Any]]) -> said.ChromosomalAlteration:
    own = [region for region in regions if region.alteration == row.position]
    added, removed = (
        tuple(
            said.ChromosomeRegion(one.line, one.region_start, one.region_end, one.species)
            for one in own
            if one.kind == kind
        )
        for kind in ("added", "removed")
    )
    return said.ChromosomalAlteration(row.line, added, removed)


def _strain(row: Row[Any]) -> said.ParentalStrain:
    written = _written(row)
    percentage = written.get("percentage", repr(row.percentage))
    return said.ParentalStrain(
        row.line, percentage, row.mgi_strain_id, row.gender, written.get("level", str(row.level))
    )


def load_experiments(connection: Connection, rows: list[Row[Any]]) -> Iterator[said.Experiment]:
    """The experiments of rows, in their order."""
    ids = [row.id for row in rows]
    named = _parts(connection, models.NAMED, ids)
    codes = _status_codes(connection, EntityKind.EXPERIMENT, ids)
    procedures = load_procedures(connection, EntityKind.EXPERIMENT, ids)
    for row in rows:
        yield said.Experiment(
            row.line,
            row.position,
            row.experiment_id,
            _written(row).get("dateOfExperiment", _text(row.date)),
            row.sequence_id,
            tuple(one.specimen_id for one in named.get(row.id, ())),
            procedures.get(row.id),
            codes.get(row.id, ()),
        )


def _lines(connection: Connection, rows: list[Row[Any]]) -> Iterator[said.Line]:
    ids = [row.id for row in rows]
    codes = _status_codes(connection, EntityKind.LINE, ids)
    procedures = load_procedures(connection, EntityKind.LINE, ids)
    for row in rows:
        own = codes.get(row.id, ())
        yield said.Line(row.line, row.position, row.colony_id, row.sequence_id, procedures[row.id], own)


def _housings(connection: Connection, rows: list[Row[Any]]) -> Iterator[said.Housing]:
    procedures = load_procedures(connection, EntityKind.HOUSING, [row.id for row in rows])
    for row in rows:
        written = _written(row)
        from_lims = written.get("fromLIMS", _boolean(row.from_lims))
        updated = written.get("lastUpdated", _text(row.last_updated))
        yield said.Housing(row.line, row.position, from_lims, updated, procedures[row.id])


def _status_codes(connection: Connection, kind: EntityKind, ids: list[int]) -> dict[int, tuple[said.StatusCode, ...]]:
    own = (STATUS_CODE.c.owner_kind == kind.value) & STATUS_CODE.c.owner_id.in_(ids)
    found = rows_by(
        connection,
        select(STATUS_CODE.c.owner_id, STATUS_CODE).where(own).order_by(STATUS_CODE.c.owner_id, STATUS_CODE.c.position),
    )
    return {
        owner: tuple(said.StatusCode(row.line, _written(row).get("date", _text(row.date)), row.code) for row in rows)
        for owner, rows in found.items()
    }


def _written(row: Row[Any]) -> dict[str, Any]:
    return json.loads(row.lexical) if row.lexical else {}


def _text(value: Any) -> Any:
    """A date as written; None stays None."""
    return None if value is None else value.isoformat()


def _boolean(value: bool) -> str:
    return "true" if value else "false"
