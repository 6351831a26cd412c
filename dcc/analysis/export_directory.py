"""The directory of an export: names of files, its manifest and its lock.

`_manifest.json` lists and describes the files; it is replaced as a whole. `_lock` is locked while an export is written.
Readers of Parquet ignore names that begin with `_`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from dcc.errors import ExportActiveError, ExportError
from dcc.runtime.private_files import PART_NAMES, SHARED_DIRECTORY, SHARED_FILE, make_directory, replacement_file

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
    try:
        make_directory(directory, SHARED_DIRECTORY)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, SHARED_FILE)
    except OSError as error:
        raise unwritable_error(directory, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ExportActiveError(
                f"Another export is being written to {directory}. "
                "Wait until it is done, or export to another directory."
            ) from error
        yield
    finally:
        os.close(lock)


def unwritable_error(path: Path, error: OSError) -> ExportError:
    """The error for a directory or file that cannot be written."""
    return ExportError(
        f"The export {path} could not be written: {error.strerror or error}. "
        "Check its permissions and the space on its disk, then export again."
    )


def read_manifest(directory: Path, format_: ExportFormat, criteria: Mapping[str, object]) -> ExportManifest:
    """The manifest of an earlier, equal export; empty for an empty directory.

    Raises ExportError for a directory with other content (other files, a different export), or that cannot be read.
    """
    path = directory / MANIFEST
    try:
        manifest = _parse(path.read_text("utf-8"))
    except FileNotFoundError:
        manifest = ExportManifest(format_, criteria)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(
            f"{path} is not the manifest of an export that this version can go on with. "
            "Export to another directory, or remove this one."
        ) from error
    except OSError as error:
        raise unwritable_error(directory, error) from error
    if manifest.format is not format_ or manifest.criteria != criteria:
        raise ExportError(
            f"{directory} holds an export of {_description(manifest.format, manifest.criteria)}, and this one is of "
            f"{_description(format_, criteria)}. Export with the same format and filter, or to another directory."
        )
    try:
        _refuse_foreign(directory, manifest)
    except OSError as error:
        raise unwritable_error(directory, error) from error
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
