"""What procedures yielded, as rows: measurements, media and metadata (reference data_format section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from dcc_resources.qc_database import contents as said
from dcc_resources.qc_database import models
from dcc_resources.qc_database.bulk import BulkInserter, Counters, Row
from dcc_resources.qc_database.lexical import parse_number
from dcc_resources.qc_database.vocabulary import EntityKind, MeasurementType, MediaType, MetadataOwner

_SIMPLE: Final = MeasurementType.SIMPLE.value
_ONTOLOGY: Final = MeasurementType.ONTOLOGY.value
_SERIES: Final = MeasurementType.SERIES.value


class RunOwner(NamedTuple):
    """Whose procedure it is: the entity's table and row, and what each of its measurements repeats."""

    kind: EntityKind
    id: int
    centre: str
    pipeline: str
    project: str
    experiment_id: str | None
    date: str | None
    specimen_id: str | None


class _MediaRow(NamedTuple):
    """The columns of a media row after its type and parameter, but for status and line."""

    sample_position: int | None = None
    sample_id: str | None = None
    section_position: int | None = None
    section_id: str | None = None
    local_id: str | None = None
    increment: str | None = None
    uri: str | None = None
    file_type: str | None = None
    link: str | None = None


def fingerprint(start: int, *texts: str | None) -> int:
    """A CRC-32 of texts, in their order, with `start` as that of what is before them."""
    return crc32("\x1f".join(["\x1e" if text is None else text for text in texts]).encode(), start)


class ProcedureRows:
    """Makes the rows of a document's procedures."""

    def __init__(self, document_id: int, counters: Counters, rows: BulkInserter) -> None:
        self._document_id = document_id
        self._rows = rows
        self._run_id = counters.of(models.ProcedureRun.__table__)
        self._measurement_id = counters.of(models.Measurement.__table__)
        self._media_id = counters.of(models.Media.__table__)
        self._metadata_id = counters.of(models.Metadata.__table__)
        self._runs = rows.rows_of(models.ProcedureRun.__table__)
        self._measurements = rows.rows_of(models.Measurement.__table__)
        self._media = rows.rows_of(models.Media.__table__)
        self._associations = rows.rows_of(models.MediaAssociation.__table__)
        self._dimensions = rows.rows_of(models.Dimension.__table__)
        self._metadata = rows.rows_of(models.Metadata.__table__)

    def add(self, owner: RunOwner, procedure: said.Procedure) -> None:
        """Take the rows of a procedure."""
        run_id = self._run_id()
        self._runs.append(
            (run_id, self._document_id, owner.kind.value, owner.id, procedure.procedure_id, procedure.line)
        )
        tail = (owner.centre, owner.pipeline, owner.project, procedure.procedure_id, *owner[5:])
        place = self._add_measurements(run_id, procedure, tail)
        self._add_media(run_id, procedure, place)
        self._add_metadata(run_id, MetadataOwner.PROCEDURE, run_id, procedure.metadata)

    def _add_measurements(self, run_id: int, procedure: said.Procedure, tail: Row) -> int:
        """One row a value or term; the place of the last parameter."""
        new_id, append, document_id = self._measurement_id, self._measurements.append, self._document_id
        held, start = 0, fingerprint(0, *map(str, tail))
        for place, (line, name, sequence, unit, value, status) in enumerate(procedure.simple, start=1):
            item = number = None
            if value is not None:
                item, number = 1, parse_number(value)
                held += len(value)
            head = (new_id(), run_id, document_id, place, item, _SIMPLE, name, sequence)
            mark = fingerprint(start, name, sequence, None, None, value, unit, status)
            append((*head, None, None, value, number, unit, status, line, *tail, mark))
        done = len(procedure.simple)
        for place, parameter in enumerate(procedure.ontology, start=done + 1):
            for item, term in enumerate(parameter.terms, start=1):
                head = (new_id(), run_id, document_id, place, item, _ONTOLOGY, *parameter[1:3])
                mark = fingerprint(start, *parameter[1:3], None, None, term, None, parameter.status)
                number = parse_number(term)
                append((*head, None, None, term, number, None, parameter.status, parameter.line, *tail, mark))
                held += len(term)
        done += len(procedure.ontology)
        for place, series in enumerate(procedure.series, start=done + 1):
            _, name, sequence, unit, values, status = series
            of_series = (run_id, document_id, place)
            for item, (line, increment, increment_status, value) in enumerate(values, start=1):
                head = (new_id(), *of_series, item, _SERIES, name, sequence)
                mark = fingerprint(start, name, sequence, increment, increment_status, value, unit, status)
                number = parse_number(value)
                append((*head, increment, increment_status, value, number, unit, status, line, *tail, mark))
                held += len(value)
            if not values:
                head = (new_id(), *of_series, None, _SERIES, name, sequence)
                mark = fingerprint(start, name, sequence, None, None, None, unit, status)
                append((*head, None, None, None, None, unit, status, series.line, *tail, mark))
        self._rows.note_text(held)
        return done + len(procedure.series)

    def _add_media(self, run_id: int, procedure: said.Procedure, done: int) -> None:
        for place, media in enumerate(procedure.media, start=done + 1):
            one = _MediaRow(uri=media.uri, file_type=media.file_type, link=media.link)
            row_id = self._media_row(run_id, place, 1, MediaType.MEDIA, media, one, media.line)
            self._belongings(run_id, row_id, media)
        done += len(procedure.media)
        for place, samples in enumerate(procedure.media_samples, start=done + 1):
            self._add_samples(run_id, place, samples)
        done += len(procedure.media_samples)
        for place, series in enumerate(procedure.series_media, start=done + 1):
            first: int | None = None
            for item, value in enumerate(series.values, start=1):
                one = _MediaRow(increment=value.increment, uri=value.uri, file_type=value.file_type, link=value.link)
                row_id = self._media_row(run_id, place, item, MediaType.SERIES, series, one, value.line)
                self._belongings(run_id, row_id, value)
                first = row_id if first is None else first
            if first is None:
                first = self._media_row(run_id, place, None, MediaType.SERIES, series, _MediaRow(), series.line)
            self._add_metadata(run_id, MetadataOwner.SERIES_MEDIA, first, series.metadata)

    def _add_samples(self, run_id: int, place: int, parameter: said.MediaSampleParameter) -> None:
        item = 0
        for sample_place, sample in enumerate(parameter.samples, start=1):
            for section_place, section in enumerate(sample.sections, start=1):
                for file in section.files:
                    item += 1
                    sample_of = (sample_place, sample.local_id, section_place, section.local_id, file.local_id)
                    one = _MediaRow(*sample_of, uri=file.uri, file_type=file.file_type, link=file.link)
                    row_id = self._media_row(run_id, place, item, MediaType.SAMPLE, parameter, one, file.line)
                    self._belongings(run_id, row_id, file)
        if item == 0:
            self._media_row(run_id, place, None, MediaType.SAMPLE, parameter, _MediaRow(), parameter.line)

    def _media_row(
        self,
        run_id: int,
        place: int,
        item: int | None,
        kind: MediaType,
        parameter: said.MediaParameter | said.MediaSampleParameter | said.SeriesMediaParameter,
        one: _MediaRow,
        line: int,
    ) -> int:
        row_id = self._media_id()
        head = (row_id, run_id, place, item, kind.value, parameter.parameter_id)
        self._media.append((*head, *one, parameter.status, line))
        return row_id

    def _belongings(
        self, run_id: int, media_id: int, media: said.MediaParameter | said.MediaFile | said.SeriesMediaValue
    ) -> None:
        for place, one in enumerate(media.associations):
            self._associations.append((media_id, place, one.parameter_id, one.sequence_id, one.link, one.line))
            for part, (line, name, origin, unit, value) in enumerate(one.dimensions):
                row = (media_id, place, part, name, origin, unit, value, parse_number(value), line)
                self._dimensions.append(row)
        self._add_metadata(run_id, MetadataOwner.MEDIA, media_id, media.metadata)

    def _add_metadata(self, run_id: int, kind: MetadataOwner, owner_id: int, metadata: Iterable[said.Metadata]) -> None:
        for place, (line, name, sequence, status, value) in enumerate(metadata):
            row_id = self._metadata_id()
            self._metadata.append((row_id, run_id, kind.value, owner_id, place, name, sequence, value, status, line))
            self._rows.note_text(len(value or ""))
