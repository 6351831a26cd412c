"""The manifest of a submission: which files its archive is to hold, with sizes, checksums and counts.

`manifest.json` or `manifest.csv` at the top of the archive, or beside it under the archive's name and that;
docs/centres.md has the format.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from dcc.archives.entries import legible, plain_path, shortened
from dcc.errors import ManifestError
from dcc.messages import Message, mark, message, size_detail
from dcc.naming import MANIFEST_ENDINGS, MANIFEST_FORMATS
from dcc.runtime.checksums import md5_of, sha256_of

MANIFEST_NAMES: Final = tuple(f"manifest.{suffix}" for suffix in MANIFEST_FORMATS)
"""What manifests are called, that which counts first."""
MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024
"""How long a manifest may be."""

_MAX_VALUES: Final = 1_000_000
"""A manifest of that many bytes has fewer if its files have the names of documents; others take much more memory."""
_MAX_COLUMNS: Final = 100
"""A row of a CSV takes the time of all columns, however short it is."""
_SEPARATORS: Final = {"json": "{[,", "csv": ",;\t\n"}
_CHECKSUMS: Final = {32: md5_of, 64: sha256_of}
"""The functions of checksums by their length."""
_LONGEST_NAME: Final = 1_000
_NUMBERS: Final = ("size", "specimens", "experiments")


class Counts(NamedTuple):
    """How many specimens and experiments a document holds."""

    specimens: int
    experiments: int


class ManifestEntry(NamedTuple):
    """What a manifest says of a file: its path in the archive, and the rest as far as it says it.

    `checksum` is an MD5 or SHA-256 in lower-case hexadecimal digits, `size` in bytes.
    """

    file: str
    size: int | None = None
    checksum: str | None = None
    specimens: int | None = None
    experiments: int | None = None


def differences(
    expected: Iterable[ManifestEntry],
    sizes: Mapping[str, int],
    files: Mapping[str, Path],
    count: Callable[[str], Counts | None],
    refused: Iterable[str] = (),
) -> Iterator[Message]:
    """What an archive does not hold as a manifest says, a message each.

    `sizes` are those of all files in it, by their paths; `files` has those of documents, as they were taken out of it.
    `refused` are documents that were not. `count` counts what a document holds, None where that cannot be said since
    it is not valid.
    """
    listed = set()
    for one in expected:
        listed.add(one.file)
        if one.file not in sizes:
            yield message(mark("{file} is missing"), file=one.file)
        elif one.size not in (None, sizes[one.file]):
            text = mark("{file} has {found} bytes, not {expected}")
            yield message(text, file=one.file, found=sizes[one.file], expected=one.size)
        elif one.file in files:
            yield from _of_content(one, files[one.file], count)
    for file in (*files, *refused):
        if file not in listed:
            yield message(mark("{file} is not in the manifest"), file=shortened(file))


def conflicts(one: Iterable[ManifestEntry], other: Iterable[ManifestEntry]) -> Iterator[str]:
    """The files of which two manifests of an archive say something else."""
    by_file, of_other = {each.file: each for each in one}, {each.file: each for each in other}
    for file in dict.fromkeys([*by_file, *of_other]):
        if file not in by_file or file not in of_other or not _agree(by_file[file], of_other[file]):
            yield file


def _agree(one: ManifestEntry, other: ManifestEntry) -> bool:
    """Whether nothing that both say differs; checksums of two sorts cannot be compared."""
    if one.checksum and other.checksum and len(one.checksum) == len(other.checksum) and one.checksum != other.checksum:
        return False
    return all(None in pair or len(set(pair)) == 1 for pair in zip(one[1:], other[1:], strict=True))


def read_beside(archive: Path) -> tuple[ManifestEntry, ...] | None:
    """What the manifest beside an archive says, `<archive>.manifest.json` or `.csv`; None where there is none.

    Raises ManifestError, and OSError.
    """
    for ending in MANIFEST_ENDINGS:
        path = archive.with_name(archive.name + ending)
        if path.is_file():
            require_short(path.stat().st_size, path.name, archive.name)
            return read_manifest(path.read_bytes(), path.name, archive.name)
    return None


def require_short(size: int, name: str, archive: str) -> None:
    """Refuse a manifest of too many bytes. Raises ManifestError."""
    if size > MAX_MANIFEST_BYTES:
        raise ManifestError(
            mark("{archive} has a {name} of more than {most}. Split the archive up."),
            archive=archive,
            name=name,
            most=size_detail(MAX_MANIFEST_BYTES),
        )


def read_manifest(content: bytes, name: str, archive: str) -> tuple[ManifestEntry, ...]:
    """What the manifest of that name in an archive says. Raises ManifestError."""
    try:
        text = content.decode("utf-8-sig")
        suffix = name.rpartition(".")[2]
        if sum(map(text.count, _SEPARATORS[suffix])) >= _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_VALUES:,} values")
        rows: Iterable[Any]
        if suffix == "json":
            told = json.loads(text)
            rows = told.get("files", ()) if isinstance(told, dict) else told
            if not isinstance(rows, list):
                raise ValueError('it has no list of "files"')
        else:
            separator = max(",;\t", key=text.partition("\n")[0].count)
            rows = csv.DictReader(io.StringIO(text), delimiter=separator)
            if len(rows.fieldnames or ()) > _MAX_COLUMNS:
                raise ValueError(f"it has more than {_MAX_COLUMNS} columns")
        found = tuple(map(_expected, rows))
        # For each row that names it, a file would be read once more.
        if len({one.file for one in found}) < len(found):
            raise ValueError("it names a file twice")
    except (ValueError, csv.Error, RecursionError) as error:
        raise ManifestError(
            mark(
                "{archive} has a {name} that cannot be read ({reason}). Write it with `dcc manifest`, or correct "
                "it, and replace the archive, under the same name."
            ),
            archive=archive,
            name=name,
            reason=message(mark("its reader says “{error}”"), error=str(error)[:200]),
        ) from error
    return found


def manifest_row(file: str, path: Path, counts: Counts | None = None) -> dict[str, Any]:
    """The row of a manifest for a file, which lies at `path`. Raises OSError."""
    row = {"file": file, "size": path.stat().st_size, "checksum": sha256_of(path)}
    return row | (Counts(0, 0) if counts is None else counts)._asdict()


def write_manifest(rows: Sequence[Mapping[str, Any]], path: Path, suffix: str) -> None:
    """Write rows as a manifest, in the format that the suffix `json` or `csv` tells. Raises OSError."""
    if suffix == "json":
        path.write_text(json.dumps({"files": rows}, indent=1) + "\n", encoding="utf-8")
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("file", "size", "checksum", "specimens", "experiments"))
        writer.writeheader()
        writer.writerows(rows)


def _expected(row: Any) -> ManifestEntry:
    file = row.get("file") if isinstance(row, dict) else None
    if not isinstance(file, str) or not (file := file.strip()):
        raise ValueError("a row names no file")
    if len(file) > _LONGEST_NAME:
        raise ValueError(f"a row names a file of {len(file):,} characters")
    file = plain_path(file)
    if not file.isprintable():
        file = legible(file)
    size, specimens, experiments = (_number(row, name) for name in _NUMBERS)
    checksum = str(row.get("checksum") or "").strip().lower() or None
    if checksum is not None and (len(checksum) not in _CHECKSUMS or not all(c in "0123456789abcdef" for c in checksum)):
        raise ValueError(f"the checksum of {file} is neither an MD5 nor a SHA-256")
    return ManifestEntry(file, size, checksum, specimens, experiments)


def _number(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    try:
        # Of a float, int() would drop what follows the point.
        return None if value in (None, "") else int(str(value))
    except ValueError as error:
        raise ValueError(f"{name} is {str(value)!r}, which is no whole number") from error


def _of_content(one: ManifestEntry, path: Path, count: Callable[[str], Counts | None]) -> Iterator[Message]:
    """What the content of a file has otherwise than a manifest says, its checksum or its counts."""
    if one.checksum is not None:
        found = _CHECKSUMS[len(one.checksum)](path)
        if found != one.checksum:
            text = mark("{file} has the checksum {found}, not {expected}")
            yield message(text, file=one.file, found=found, expected=one.checksum)
            return
    if one.specimens is None and one.experiments is None:
        return
    counted = count(one.file)
    if counted is None:
        return
    if one.specimens not in (None, counted.specimens):
        text = mark("{file} holds {found} specimens, not {expected}")
        yield message(text, file=one.file, found=counted.specimens, expected=one.specimens)
    if one.experiments not in (None, counted.experiments):
        text = mark("{file} holds {found} experiments, not {expected}")
        yield message(text, file=one.file, found=counted.experiments, expected=one.experiments)
