"""Exports measurements as one file, or as a directory with a file for each centre and procedure.

The next export to a directory updates it: a file is written again only if its measurements have changed, which
fingerprints show without reading it. If an export breaks off, every file is complete, and the next export continues.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
from pyarrow import csv, parquet
from sqlalchemy import Connection, Engine

from dcc.analysis.columns import SCHEMA
from dcc.analysis.export_directory import (
    ExportFormat,
    ExportManifest,
    Partition,
    WrittenFile,
    open_directory,
    path_of,
    read_manifest,
    remove_file,
    remove_leftovers,
    save_manifest,
    unwritable_error,
)
from dcc.analysis.measurements import (
    MeasurementFilter,
    iterate_batches,
    patient_connection,
    resolve_past,
    summary_query,
)
from dcc.analysis.spreadsheets import escape_formulas
from dcc.runtime.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory, replacement_file

__all__ = [
    "ExportFormat",
    "ExportProgress",
    "ExportReport",
    "MeasurementFilter",
    "Partition",
    "export_measurements",
    "export_to_file",
    "write_measurements",
]

_SAVE_SECONDS: Final = 5.0
_FILE_SCHEMA: Final = {
    ExportFormat.PARQUET: pa.schema([field for field in SCHEMA if field.name not in Partition._fields]),
    ExportFormat.CSV: SCHEMA,
}


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """Progress of an export: rows written, rows to write, and the present partition."""

    rows: int
    of_rows: int
    partition: Partition


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export: its rows and files in all, and the files written, unchanged and removed this time.

    `written` are the partitions whose files were written, `unchanged` and `removed` numbers of files.
    """

    directory: Path
    format: ExportFormat
    rows: int
    files: int
    written: tuple[Partition, ...]
    rows_written: int
    unchanged: int
    removed: int
    seconds: float


class _Summary(NamedTuple):
    rows: int
    fingerprint: str


def export_measurements(
    qc: Engine,
    directory: Path,
    format_: ExportFormat = ExportFormat.PARQUET,
    criteria: MeasurementFilter | None = None,
    *,
    on_progress: Callable[[ExportProgress], None] | None = None,
) -> ExportReport:
    """Update a directory to the selected measurements (by default all current, valid ones).

    The files are `centre=<centre>/procedure_id=<procedure>/part-0.parquet` (or `.csv`). Only those that changed since
    the last export to the same directory are written; those without measurements are removed. All show the same moment.
    Memory is that of one chunk (`analysis.measurements.ROWS`). The columns are those of `analysis.columns.COLUMNS`; in
    Parquet, centre and procedure_id are in the paths only; in CSV, texts are guarded (`analysis.spreadsheets`).

    Raises ExportError for a directory that cannot be written or has other content, ExportActiveError while another
    export writes to it, NotFoundError for an unknown past document, QcDatabaseUnreachableError.
    """
    began = time.monotonic()
    criteria = criteria or MeasurementFilter()
    with open_directory(directory), patient_connection(qc) as connection:
        manifest = read_manifest(directory, format_, criteria.described())
        criteria = resolve_past(connection, criteria)
        summaries = _summarise(connection, criteria)
        paths = {partition: path_of(partition, format_) for partition in summaries}
        try:
            remove_leftovers(directory, manifest)
            changed = [
                one for one, path in paths.items() if not _stands(directory / path, manifest, path, summaries[one])
            ]
            removed = _remove_outdated_files(
                directory, manifest, paths.values(), [paths[partition] for partition in changed]
            )
            due = {partition: (paths[partition], summaries[partition]) for partition in changed}
            _write_files(connection, directory, manifest, criteria, due, on_progress)
        except OSError as error:
            raise unwritable_error(directory, error) from error
    return ExportReport(
        directory,
        format_,
        rows=sum(summary.rows for summary in summaries.values()),
        files=len(summaries),
        written=tuple(changed),
        rows_written=sum(summaries[partition].rows for partition in changed),
        unchanged=len(summaries) - len(changed),
        removed=removed,
        seconds=time.monotonic() - began,
    )


def export_to_file(
    qc: Engine,
    path: Path,
    format_: ExportFormat,
    criteria: MeasurementFilter | None = None,
    *,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Write the selected measurements to one file, which replaces one of that name when it is complete; their number.

    As `write_measurements`. Raises ExportError for a file that cannot be written.
    """
    try:
        with replacement_file(path, SHARED_FILE) as temporary, temporary.open("wb") as file:
            return write_measurements(qc, file, format_, criteria, on_rows=on_rows)
    except OSError as error:
        raise unwritable_error(path, error) from error


def write_measurements(
    qc: Engine,
    file: BinaryIO,
    format_: ExportFormat,
    criteria: MeasurementFilter | None = None,
    *,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Write the selected measurements (by default all current, valid ones) to an open file; their number.

    They have all columns of `analysis.columns.COLUMNS` and the order of their ids; in CSV, texts are guarded
    (`analysis.spreadsheets`). `on_rows` is called with the number of rows so far. Raises NotFoundError for an unknown
    past document, QcDatabaseUnreachableError, OSError.
    """
    rows = 0
    with patient_connection(qc) as connection, _writer(file, format_, SCHEMA) as writer:
        for batch in iterate_batches(connection, criteria or MeasurementFilter()):
            _write_batch(writer, batch, format_)
            rows += batch.num_rows
            if on_rows is not None:
                on_rows(rows)
    return rows


def _summarise(connection: Connection, criteria: MeasurementFilter) -> dict[Partition, _Summary]:
    """The partitions to export, sorted."""
    groups: dict[Partition, list[tuple[Any, ...]]] = defaultdict(list)
    for centre, procedure, group, *sums in connection.execute(summary_query(criteria)):
        name = "-" if group == "" else group or ""
        groups[Partition(centre[:-1], procedure[:-1])].append((name, *map(int, sums)))
    return {
        partition: _Summary(
            sum(rows[1] for rows in groups[partition]),
            hashlib.sha256(repr(sorted(groups[partition])).encode()).hexdigest(),
        )
        for partition in sorted(groups)
    }


def _stands(file: Path, manifest: ExportManifest, path: str, summary: _Summary) -> bool:
    """Whether a file is up to date, as far as its size and fingerprint show."""
    written = manifest.files.get(path)
    if written is None or written.fingerprint != summary.fingerprint:
        return False
    return file.is_file() and file.stat().st_size == written.size_bytes


def _remove_outdated_files(
    directory: Path, manifest: ExportManifest, paths: Collection[str], changed: Collection[str]
) -> int:
    """Record the files that will be written as unfinished; remove those without measurements."""
    gone = {*manifest.files, *manifest.unfinished}.difference(paths)
    removed = len(gone.intersection(manifest.files))
    manifest.unfinished.update(changed, gone)
    for path in manifest.unfinished:
        manifest.files.pop(path, None)
    save_manifest(directory, manifest)
    for path in gone:
        remove_file(directory, path)
    manifest.unfinished.difference_update(gone)
    if not manifest.unfinished:
        save_manifest(directory, manifest)
    return removed


def _write_files(
    connection: Connection,
    directory: Path,
    manifest: ExportManifest,
    criteria: MeasurementFilter,
    due: Mapping[Partition, tuple[str, _Summary]],
    on_progress: Callable[[ExportProgress], None] | None,
) -> None:
    """Write the files of these partitions, one after the other, and the manifest as it goes."""
    done, rows = 0, sum(summary.rows for _, summary in due.values())
    schema = _FILE_SCHEMA[manifest.format]
    saved = time.monotonic()
    for partition, (path, summary) in due.items():
        file = directory / path
        make_directory(file.parent, SHARED_DIRECTORY)
        of_file = replace(criteria, centre=partition.centre, procedure=partition.procedure_id)
        with replacement_file(file, SHARED_FILE) as temporary, _writer(temporary, manifest.format, schema) as writer:
            for batch in iterate_batches(connection, of_file):
                _write_batch(writer, batch.select(schema.names), manifest.format)
                done += batch.num_rows
                if on_progress is not None:
                    on_progress(ExportProgress(done, rows, partition))
        manifest.files[path] = WrittenFile(summary.rows, file.stat().st_size, summary.fingerprint)
        manifest.unfinished.discard(path)
        if time.monotonic() - saved > _SAVE_SECONDS:
            save_manifest(directory, manifest)
            saved = time.monotonic()
    if due:
        save_manifest(directory, manifest)


def _writer(target: Path | BinaryIO, format_: ExportFormat, schema: pa.Schema) -> Any:
    if format_ is ExportFormat.PARQUET:
        return parquet.ParquetWriter(target, schema, compression="zstd")
    # Texts are quoted, so that an empty one differs from a missing one.
    return csv.CSVWriter(target, schema, write_options=csv.WriteOptions(quoting_style="needed"))


def _write_batch(writer: Any, batch: pa.RecordBatch, format_: ExportFormat) -> None:
    writer.write_batch(escape_formulas(batch) if format_ is ExportFormat.CSV else batch)
