"""Exports measurements as one file, or as a directory with a file for each centre and procedure.

The next export to a directory updates it: a file is written again only if its measurements have changed, which
fingerprints show without reading it. If an export breaks off, every file is complete, and the next export continues.

`_manifest.json` lists and describes the files; it is replaced as a whole. `_lock` is locked while an export is written.
Readers of Parquet ignore names that begin with `_`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyarrow import csv, parquet
from sqlalchemy import Connection, Engine

from dcc.analysis.columns import SCHEMA
from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import iterate_batches, resolve_past, summary_query
from dcc.analysis.spreadsheets import escape_formulas
from dcc.databases.engines import patient_connection
from dcc.errors import ExportActiveError, ExportError
from dcc.runtime.private_files import (
    PART_NAMES,
    SHARED_DIRECTORY,
    SHARED_FILE,
    locked,
    make_directory,
    replacement_file,
    writing_errors,
)

MANIFEST: Final = "_manifest.json"
_LOCK: Final = "_lock"
_HIDDEN: Final = ("_", ".")
_LONGEST_NAME: Final = 255
_IS_PATH: Final = re.compile(r"centre=[^/]*/procedure_id=[^/]*/part-0\.(?:parquet|csv)").fullmatch
_IS_LEFTOVER: Final = re.compile(r"\.(?:[0-9a-f]{32}|_manifest\.json|part-0\.(?:parquet|csv))\.part").fullmatch
"""Names of what a killed export did not complete; with the file's name from earlier versions."""
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class ExportFormat(StrEnum):
    """The format of exported files."""

    PARQUET = "parquet"
    CSV = "csv"


FORMAT_VERSIONS: Final[Mapping[ExportFormat, int]] = {ExportFormat.PARQUET: 1, ExportFormat.CSV: 2}
"""The version of the manifest and the files; another one cannot be continued. In CSV 1, texts were not guarded."""


class Partition(NamedTuple):
    """The measurements in one file."""

    centre: str
    procedure_id: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A written file: its rows and bytes, and a fingerprint of the rows."""

    rows: int
    size_bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """The description of an export: `criteria` is its filter, `unfinished` are files being written or removed."""

    format: ExportFormat
    criteria: Mapping[str, object]
    files: dict[str, WrittenFile] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)


def path_of(partition: Partition, format_: ExportFormat) -> str:
    """The path of a partition's file below the directory: `centre=H/procedure_id=IMPC_BWT_001/part-0.parquet`.

    Special characters are percent-encoded. Raises ExportError for a name that no directory can have.
    """
    folders = [f"{name}={quote(value, safe='')}" for name, value in partition._asdict().items()]
    if any(len(folder) > _LONGEST_NAME for folder in folders) or _NULL in partition:
        raise ExportError(
            f"The measurements of centre {partition.centre!r} and procedure {partition.procedure_id!r} cannot be "
            "exported: no directory can be named after them. Export the procedures that you want (--procedure), "
            "or leave out invalid measurements."
        )
    return "/".join([*folders, f"part-0.{format_.value}"])


@contextmanager
def open_directory(directory: Path) -> Iterator[None]:
    """Make a directory if it is missing, and lock it against other exports.

    Raises ExportError if it cannot be made, ExportActiveError while another export works in it.
    """
    with writing_errors(directory, ExportError):
        make_directory(directory, SHARED_DIRECTORY)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, SHARED_FILE)
    active = f"Another export is being written to {directory}. Wait until it is done, or export to another directory."
    with locked(lock, ExportActiveError(active)):
        yield


def read_manifest(directory: Path, format_: ExportFormat, criteria: Mapping[str, object]) -> ExportManifest:
    """The manifest of an earlier, equal export; empty for an empty directory.

    Raises ExportError for a directory with other content (other files, a different export), or that cannot be read.
    """
    path = directory / MANIFEST
    manifest = ExportManifest(format_, criteria)
    try:
        with writing_errors(directory, ExportError), suppress(FileNotFoundError):
            manifest = _parse(path.read_text("utf-8"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(
            f"{path} is not the manifest of an export that this version can go on with. "
            "Export to another directory, or remove this one."
        ) from error
    if manifest.format is not format_ or manifest.criteria != criteria:
        raise ExportError(
            f"{directory} holds an export of {_description(manifest.format, manifest.criteria)}, and this one is of "
            f"{_description(format_, criteria)}. Export with the same format and filter, or to another directory."
        )
    with writing_errors(directory, ExportError):
        _refuse_foreign(directory, manifest)
    return manifest


def remove_leftovers(directory: Path, manifest: ExportManifest) -> None:
    """Remove what a killed export did not complete from an export's own folders. Raises OSError."""
    for folder in _folders(manifest):
        for part in (directory / folder).glob(PART_NAMES):
            if _IS_LEFTOVER(part.name):
                part.unlink()


def _folders(manifest: ExportManifest) -> set[str]:
    return {str(parent) for path in (*manifest.files, *manifest.unfinished) for parent in Path(path).parents}


def _parse(text: str) -> ExportManifest:
    read: dict[str, Any] = json.loads(text)
    if read["format_version"] != FORMAT_VERSIONS[ExportFormat(read["format"])]:
        raise ValueError(f"Format version {read['format_version']}")
    files = {path: WrittenFile(**written) for path, written in read["files"].items()}
    unfinished = set(read["unfinished"])
    if not all(map(_IS_PATH, (*files, *unfinished))):
        raise ValueError("A file that no export has")
    return ExportManifest(ExportFormat(read["format"]), read["filter"], files, unfinished)


def _description(format_: ExportFormat, criteria: Mapping[str, object]) -> str:
    return f"{format_.value} with the filter {json.dumps(criteria, ensure_ascii=False)}"


def _refuse_foreign(directory: Path, manifest: ExportManifest) -> None:
    known = {*manifest.files, *manifest.unfinished}
    folders = _folders(manifest)
    pending = [directory]
    while pending:
        with os.scandir(pending.pop()) as scan:
            entries = list(scan)
        for entry in entries:
            path = str(Path(entry.path).relative_to(directory))
            if entry.name.startswith(_HIDDEN):
                continue
            if path in folders and entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            elif path not in known or not entry.is_file(follow_symlinks=False):
                raise ExportError(
                    f"{directory} holds {path}, which no export has put there. "
                    "Export to a directory that is empty or does not exist, or remove it."
                )


def save_manifest(directory: Path, manifest: ExportManifest) -> None:
    """Replace the manifest of a directory."""
    content = {
        "made_by": "dcc data export",
        "format_version": FORMAT_VERSIONS[manifest.format],
        "format": manifest.format.value,
        "filter": manifest.criteria,
        "files": {path: asdict(written) for path, written in sorted(manifest.files.items())},
        "unfinished": sorted(manifest.unfinished),
    }
    with replacement_file(directory / MANIFEST, SHARED_FILE) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def remove_file(directory: Path, path: str) -> None:
    """Remove a file, and directories that become empty."""
    file = directory / path
    file.unlink(missing_ok=True)
    for parent in (file.parent, file.parent.parent):
        # It may have other files, or may be gone.
        with suppress(OSError):
            parent.rmdir()


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
        with writing_errors(directory, ExportError):
            remove_leftovers(directory, manifest)
            changed = [
                one for one, path in paths.items() if not _stands(directory / path, manifest, path, summaries[one])
            ]
            removed = _remove_outdated_files(
                directory, manifest, paths.values(), [paths[partition] for partition in changed]
            )
            due = {partition: (paths[partition], summaries[partition]) for partition in changed}
            _write_files(connection, directory, manifest, criteria, due, on_progress)
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
    criteria: MeasurementFilter,
    *,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Write the selected measurements to one file, which replaces one of that name when it is complete; their number.

    As `write_measurements`. Raises ExportError for a file that cannot be written.
    """
    with (
        writing_errors(path, ExportError),
        replacement_file(path, SHARED_FILE) as temporary,
        temporary.open("wb") as file,
    ):
        return write_measurements(qc, file, format_, criteria, on_rows=on_rows)


def write_measurements(
    qc: Engine,
    file: BinaryIO,
    format_: ExportFormat,
    criteria: MeasurementFilter,
    *,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Write the selected measurements to an open file; their number.

    They have all columns of `analysis.columns.COLUMNS` and the order of their ids; in CSV, texts are guarded
    (`analysis.spreadsheets`). `on_rows` is called with the number of rows so far. Raises NotFoundError for an unknown
    past document, QcDatabaseUnreachableError, OSError.
    """
    rows = 0
    with patient_connection(qc) as connection, _writer(file, format_, SCHEMA) as writer:
        for batch in iterate_batches(connection, criteria):
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
