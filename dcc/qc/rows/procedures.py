"""Results of procedures as rows: measurements, media and metadata.

Most of a document is measurements, and many of these are largely alike: common parts are processed once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from dcc.documents import contents
from dcc.documents.lexical import parse_number
from dcc.qc.rows.types import LengthCheck, Limits, NewIds, Row, Tables, TooLong, checks_by
from dcc.vocabulary import MeasurementType, MediaType, MetadataOwner

_SIMPLE: Final = MeasurementType.SIMPLE.value
_ONTOLOGY: Final = MeasurementType.ONTOLOGY.value
_SERIES: Final = MeasurementType.SERIES.value

_Head: TypeAlias = tuple[str, str, str | None, str | None, str | None, str | None, str | None]
"""Type, parameter, sequenceID, increment, its status, unit and status of a measurement."""
_Measured: TypeAlias = tuple[int, int | None, _Head, str | None, int]
"""The position of a parameter in its procedure; the position of a value in that, if any; head, value and line."""

_NOTHING: Final = "\x1e"
_PRIME: Final = 4_294_967_291
"""CRC-32s that differ in the same bits may have the same sum, as those of swapped values; their squares have not."""
_MAX_HEADS: Final = 5_000
_MAX_VALUES: Final = 30_000
_LONG_VALUE: Final = 20


class MeasurementRows:
    """Makes the rows of a document's measurements.

    `too_long` is the first text of the last addition that no column holds. `held_text` counts the characters of values
    and terms.
    """

    def __init__(self, new_ids: NewIds, tables: Tables, limits: Limits) -> None:
        self._new_id = new_ids["measurement"]
        self._rows = tables["measurement"]
        self._heads = _heads_by(checks_by(limits)["measurement"])
        self.too_long: TooLong | None = None
        self.held_text = 0

    def add(self, run_id: int, procedure: contents.Procedure, tail: Row) -> None:
        """Add the measurements of a procedure, a row for each value or term; `tail` is what each repeats of its run.

        That part is only in their fingerprints: the rows lack it.
        """
        found = _measured_in(procedure)
        self._heads.bound()
        # What measurements repeat of their run begins their fingerprints.
        self._add_rows(run_id, found, crc32("\x1f".join(map(str, tail)).encode()))
        self.too_long = self._heads.first_too_long(found)
        self.held_text += sum([len(value) for _, _, _, value, _ in found if value])

    def _add_rows(self, run_id: int, found: list[_Measured], start: int) -> None:
        new_id, append, heads = self._new_id, self._rows.append, self._heads
        for place, item, head, value, line in found:
            before, after = heads[head]
            mark = crc32(f"{before}{_NOTHING if value is None else value}{after}".encode(), start)
            kind, name, sequence, increment, increment_status, unit, status = head
            append((new_id(), run_id, place, item, kind, name, sequence, increment, increment_status,
                    value, _NUMBERS[value], unit, status, line, mark * mark % _PRIME))  # fmt: skip


def _measured_in(procedure: contents.Procedure) -> list[_Measured]:
    found: list[_Measured] = [
        (place, None if value is None else 1, (_SIMPLE, name, sequence, None, None, unit, status), value, line)
        for place, (line, name, sequence, unit, value, status) in enumerate(procedure.simple, start=1)
    ]
    done = len(procedure.simple)
    for place, (line, name, sequence, terms, status) in enumerate(procedure.ontology, start=done + 1):
        head = (_ONTOLOGY, name, sequence, None, None, None, status)
        found += [(place, item, head, term, line) for item, term in enumerate(terms, start=1)]
    done += len(procedure.ontology)
    for place, (first_line, name, sequence, unit, values, status) in enumerate(procedure.series, start=done + 1):
        found += [
            (place, item, (_SERIES, name, sequence, increment, increment_status, unit, status), value, line)
            for item, (line, increment, increment_status, value) in enumerate(values, start=1)
        ]
        if not values:
            found.append((place, None, (_SERIES, name, sequence, None, None, unit, status), None, first_line))
    return found


class _Heads(dict[_Head, tuple[str, str]]):
    """The parts of heads in fingerprints before the value and after it, by head."""

    def __init__(self, check: LengthCheck) -> None:
        super().__init__()
        self._check = check
        self._too_long: dict[_Head, TooLong] = {}

    def __missing__(self, head: _Head) -> tuple[str, str]:
        kind, *named, unit, status = head
        before = [_NOTHING if text is None else text for text in (*named, "")]
        after = [_NOTHING if text is None else text for text in ("", unit, status)]
        self[head] = constant = ("\x1f".join(before), "\x1f".join(after))
        too_long = self._check.of_row((None, None, None, None, kind, *named, None, None, unit, status))
        if too_long is not None:
            self._too_long[head] = too_long
        return constant

    def first_too_long(self, found: list[_Measured]) -> TooLong | None:
        if not self._too_long:
            return None
        return next((self._too_long[head] for _, _, head, _, _ in found if head in self._too_long), None)

    def bound(self) -> None:
        if len(self) > _MAX_HEADS:
            self.clear()
            self._too_long.clear()


_heads_by = lru_cache(maxsize=2)(_Heads)
"""Shared by documents that are checked alike."""


class _Numbers(dict[str | None, float | None]):
    """The numbers of values; the last short ones are remembered."""

    def __missing__(self, value: str | None) -> float | None:
        number = None if value is None else parse_number(value)
        if value is None or len(value) <= _LONG_VALUE:
            if len(self) > _MAX_VALUES:
                self.clear()
            self[value] = number
        return number


_NUMBERS: Final = _Numbers()

OF_RUN: Final = (
    "document_id",
    "procedure_id",
    "centre",
    "pipeline",
    "project",
    "experiment_id",
    "date",
    "specimen_id",
)
"""The columns of measurements that are equal within a procedure: they are in the row of that."""


class RunOwner(NamedTuple):
    """The owner of a procedure: the entity's table and row, and the columns that its measurements repeat."""

    kind: str
    id: int
    centre: str
    pipeline: str
    project: str
    experiment_id: str | None = None
    date: str | None = None
    specimen_id: str | None = None


class _MediaRow(NamedTuple):
    """The columns of a media row after its type and parameter, except status and line."""

    sample_position: int | None = None
    sample_id: str | None = None
    section_position: int | None = None
    section_id: str | None = None
    local_id: str | None = None
    increment: str | None = None
    uri: str | None = None
    file_type: str | None = None
    link: str | None = None


class ProcedureRows:
    """Makes the rows of a document's procedures; `measurements` makes those of measurements."""

    def __init__(self, document_id: int, new_ids: NewIds, tables: Tables, limits: Limits) -> None:
        self.measurements = MeasurementRows(new_ids, tables, limits)
        self._document_id = document_id
        self._run_id = new_ids["procedure_run"]
        self._media_id = new_ids["media"]
        self._metadata_id = new_ids["metadata"]
        self._runs = tables["procedure_run"]
        self._media = tables["media"]
        self._associations = tables["media_association"]
        self._dimensions = tables["dimension"]
        self._metadata = tables["metadata"]
        self._text = 0

    @property
    def held_text(self) -> int:
        """The number of characters of values and terms appended so far."""
        return self._text + self.measurements.held_text

    def add(self, owner: RunOwner, procedure: contents.Procedure) -> None:
        """Append the rows of a procedure."""
        run_id, document_id, procedure_id = self._run_id(), self._document_id, procedure.procedure_id
        row = (run_id, document_id, owner.kind, owner.id, procedure_id, procedure.line, *owner[2:])
        self._runs.append(row)
        self.measurements.add(run_id, procedure, (*owner[2:5], procedure_id, *owner[5:]))
        if procedure.media or procedure.media_samples or procedure.series_media:
            self._add_media(run_id, procedure)
        self._add_metadata(run_id, MetadataOwner.PROCEDURE, run_id, procedure.metadata)

    def _add_media(self, run_id: int, procedure: contents.Procedure) -> None:
        done = len(procedure.simple) + len(procedure.ontology) + len(procedure.series)
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

    def _add_samples(self, run_id: int, place: int, parameter: contents.MediaSampleParameter) -> None:
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
        parameter: contents.MediaParameter | contents.MediaSampleParameter | contents.SeriesMediaParameter,
        one: _MediaRow,
        line: int,
    ) -> int:
        row_id = self._media_id()
        head = (row_id, run_id, place, item, kind.value, parameter.parameter_id)
        self._media.append((*head, *one, parameter.status, line))
        return row_id

    def _belongings(
        self,
        run_id: int,
        media_id: int,
        media: contents.MediaParameter | contents.MediaFile | contents.SeriesMediaValue,
    ) -> None:
        for place, one in enumerate(media.associations):
            self._associations.append((media_id, place, one.parameter_id, one.sequence_id, one.link, one.line))
            for part, (line, name, origin, unit, value) in enumerate(one.dimensions):
                row = (media_id, place, part, name, origin, unit, value, parse_number(value), line)
                self._dimensions.append(row)
        self._add_metadata(run_id, MetadataOwner.MEDIA, media_id, media.metadata)

    def _add_metadata(
        self, run_id: int, kind: MetadataOwner, owner_id: int, metadata: Iterable[contents.Metadata]
    ) -> None:
        new_id, append, owner_kind = self._metadata_id, self._metadata.append, kind.value
        for place, (line, name, sequence, status, value) in enumerate(metadata):
            append((new_id(), run_id, owner_kind, owner_id, place, name, sequence, value, status, line))
            if value is not None:
                self._text += len(value)
