"""Procedures as rows: their runs, measurements, media and metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from dcc.documents import contents
from dcc.documents.lexical import parse_number
from dcc.qc.rows.measurements import MeasurementRows
from dcc.qc.rows.types import Limits, NamedRows, NewIds, Tables, Value
from dcc.vocabulary import MediaType, MetadataOwner

_OF_SOME_MEDIA: Final = (
    "sample_position",
    "sample_id",
    "section_position",
    "section_id",
    "local_id",
    "increment",
    "uri",
    "file_type",
    "link",
)
"""The columns of media that are null for some of their types, or for a parameter without a file."""


class RunOwner(NamedTuple):
    """The owner of a procedure: the entity's table and row, and the columns that its measurements repeat."""

    owner_kind: str
    owner_id: int
    centre: str
    pipeline: str
    project: str
    experiment_id: str | None = None
    date: str | None = None
    specimen_id: str | None = None


class ProcedureRows:
    """Makes the rows of a document's procedures; `measurements` makes those of measurements."""

    def __init__(self, document_id: int, new_ids: NewIds, tables: Tables, limits: Limits, named: NamedRows) -> None:
        self.measurements = MeasurementRows(new_ids, tables, limits)
        self._document_id = document_id
        self._new_ids = new_ids
        self._tables = tables
        self._row = named.row
        of_run = ("id", "document_id", "procedure_id", "line")
        self._run_row = named.in_order("procedure_run", RunOwner, *of_run)
        of_metadata = ("id", "procedure_run_id", "owner_kind", "owner_id", "position")
        self._metadata_row = named.in_order("metadata", contents.Metadata, *of_metadata)
        self._text = 0

    @property
    def held_text(self) -> int:
        """The number of characters of values and terms appended so far."""
        return self._text + self.measurements.held_text

    def add(self, owner: RunOwner, procedure: contents.Procedure) -> None:
        """Append the rows of a procedure."""
        run_id, procedure_id = self._new_ids["procedure_run"](), procedure.procedure_id
        row = self._run_row((*owner, run_id, self._document_id, procedure_id, procedure.line))
        self._tables["procedure_run"].append(row)
        place = (owner.centre, owner.pipeline, owner.project)
        experiment = (owner.experiment_id, owner.date, owner.specimen_id)
        self.measurements.add(run_id, procedure, (*place, procedure_id, *experiment))
        if procedure.media or procedure.media_samples or procedure.series_media:
            self._add_media(run_id, procedure)
        self._add_metadata(run_id, MetadataOwner.PROCEDURE, run_id, procedure.metadata)

    def _add_media(self, run_id: int, procedure: contents.Procedure) -> None:
        done = len(procedure.simple) + len(procedure.ontology) + len(procedure.series)
        for place, media in enumerate(procedure.media, start=done + 1):
            self._add_file(run_id, media, item=1, **_of_parameter(run_id, place, MediaType.MEDIA, media))
        done += len(procedure.media)
        for place, samples in enumerate(procedure.media_samples, start=done + 1):
            self._add_samples(run_id, place, samples)
        done += len(procedure.media_samples)
        for place, series in enumerate(procedure.series_media, start=done + 1):
            self._add_series(run_id, place, series)

    def _add_samples(self, run_id: int, place: int, parameter: contents.MediaSampleParameter) -> None:
        of_parameter = _of_parameter(run_id, place, MediaType.SAMPLE, parameter)
        item = 0
        for sample_place, sample in enumerate(parameter.samples, start=1):
            of_sample: dict[str, Value] = {"sample_position": sample_place, "sample_id": sample.local_id}
            for section_place, section in enumerate(sample.sections, start=1):
                of_section: dict[str, Value] = {"section_position": section_place, "section_id": section.local_id}
                for file in section.files:
                    item += 1
                    self._add_file(run_id, file, item=item, **of_parameter, **of_sample, **of_section)
        if item == 0:
            self._media_row(parameter, item=None, **of_parameter)

    def _add_series(self, run_id: int, place: int, parameter: contents.SeriesMediaParameter) -> None:
        of_parameter = _of_parameter(run_id, place, MediaType.SERIES, parameter)
        row_ids = [
            self._add_file(run_id, value, item=item, **of_parameter)
            for item, value in enumerate(parameter.values, start=1)
        ] or [self._media_row(parameter, item=None, **of_parameter)]
        self._add_metadata(run_id, MetadataOwner.SERIES_MEDIA, row_ids[0], parameter.metadata)

    def _add_file(
        self,
        run_id: int,
        file: contents.MediaParameter | contents.MediaFile | contents.SeriesMediaValue,
        **given: Value,
    ) -> int:
        """Append the rows of a media file, with the values given in its own; returns its id."""
        media_id = self._media_row(file, **given)
        for place, one in enumerate(file.associations):
            row = self._row("media_association", one, media_id=media_id, position=place)
            self._tables["media_association"].append(row)
            for part, dimension in enumerate(one.dimensions):
                own = {"dimension_id": dimension.id, "number": parse_number(dimension.value)}
                row = self._row("dimension", dimension, media_id=media_id, association=place, position=part, **own)
                self._tables["dimension"].append(row)
        self._add_metadata(run_id, MetadataOwner.MEDIA, media_id, file.metadata)
        return media_id

    def _media_row(
        self,
        element: contents.MediaParameter
        | contents.MediaFile
        | contents.SeriesMediaValue
        | contents.MediaSampleParameter
        | contents.SeriesMediaParameter,
        **given: Value,
    ) -> int:
        row_id = self._new_ids["media"]()
        unsaid = {name: None for name in _OF_SOME_MEDIA if name not in element._fields}
        self._tables["media"].append(self._row("media", element, id=row_id, **{**unsaid, **given}))
        return row_id

    def _add_metadata(
        self, run_id: int, kind: MetadataOwner, owner_id: int, metadata: Iterable[contents.Metadata]
    ) -> None:
        new_id, append, row = self._new_ids["metadata"], self._tables["metadata"].append, self._metadata_row
        for place, one in enumerate(metadata):
            append(row((*one, new_id(), run_id, kind.value, owner_id, place)))
            if one.value is not None:
                self._text += len(one.value)


def _of_parameter(
    run_id: int,
    place: int,
    kind: MediaType,
    parameter: contents.MediaParameter | contents.MediaSampleParameter | contents.SeriesMediaParameter,
) -> dict[str, Value]:
    """What the media of a parameter have in common."""
    own: dict[str, Value] = {"parameter_id": parameter.parameter_id, "status": parameter.status}
    return {"procedure_run_id": run_id, "position": place, "type": kind.value, **own}
