"""The manifest of a submission: which files its archive is to hold, with sizes, checksums and counts.

`manifest.json` or `manifest.csv` at the top of the archive; docs/centres.md has the format.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from dcc.errors import ManifestError
from dcc.messages import Message, mark, message

MANIFEST_NAMES: Final = ("manifest.json", "manifest.csv")
"""What manifests are called."""
MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024
"""How long a manifest may be."""

_CHECKSUMS: Final[Mapping[int, str]] = {32: "md5", 64: "sha256"}
_NUMBERS: Final = ("size", "specimens", "experiments")


class Counts(NamedTuple):
    """How many specimens and experiments a document holds."""

    specimens: int
    experiments: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What a manifest says of a file: its path in the archive, and the rest as far as it says it.

    `checksum` is an MD5 or SHA-256 in lower-case hexadecimal digits, `size` in bytes.
    """

    file: str
    size: int | None = None
    checksum: str | None = None
    specimens: int | None = None
    experiments: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive is to hold, and the sizes of the files that it holds, by their paths."""

    expected: tuple[Expected, ...]
    sizes: Mapping[str, int]

    def differences(
        self, documents: Mapping[str, Path], count: Callable[[str], Counts | None], refused: Iterable[str] = ()
    ) -> Iterator[Message]:
        """What the archive does not hold as the manifest says, a message each.

        `documents` has the files of documents by their paths in the archive; `refused` are documents that were not
        taken out of it; `count` counts what a document holds, None where that cannot be said since it is not valid.
        """
        listed = {one.file for one in self.expected}
        for one in self.expected:
            if one.file not in self.sizes:
                yield message(mark("{file} is missing"), file=one.file)
            elif one.size not in (None, self.sizes[one.file]):
                said = mark("{file} has {found} bytes, not {expected}")
                yield message(said, file=one.file, found=self.sizes[one.file], expected=one.size)
            elif one.file in documents:
                yield from _of_content(one, documents[one.file], count)
        for file in (*documents, *refused):
            if file not in listed:
                yield message(mark("{file} is not in the manifest"), file=file)


def read_manifest(content: bytes, name: str, archive: str) -> tuple[Expected, ...]:
    """What the manifest of that name in an archive says. Raises ManifestError."""
    try:
        text = content.decode("utf-8-sig")
        rows = _rows_of_json(text) if name.endswith(".json") else csv.DictReader(io.StringIO(text))
        return tuple(map(_expected, rows))
    except (ValueError, TypeError, KeyError, AttributeError, csv.Error, RecursionError) as error:
        raise ManifestError(
            mark(
                "{archive} has a {name} that cannot be read ({reason}). Write it with `dcc manifest`, or correct it, "
                "and put the archive in its place, under the same name."
            ),
            archive=archive,
            name=name,
            reason=Message(f"{type(error).__name__}: {error}"[:200]),
        ) from error


def manifest_of(directory: Path, count: Callable[[Path], Counts]) -> list[dict[str, Any]]:
    """The rows of a manifest of the documents below a directory; `count` counts what one holds. Raises OSError."""
    rows = []
    for path in sorted(directory.rglob("*.xml")):
        row = {"file": path.relative_to(directory).as_posix(), "size": path.stat().st_size}
        rows.append(row | {"checksum": _digest(path, "sha256")} | count(path)._asdict())
    return rows


def write_manifest(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a manifest, in the format that the file's name tells. Raises OSError."""
    if path.suffix == ".json":
        path.write_text(json.dumps({"files": rows}, indent=1) + "\n", encoding="utf-8")
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("file", "size", "checksum", "specimens", "experiments"))
        writer.writeheader()
        writer.writerows(rows)


def _rows_of_json(text: str) -> Sequence[Mapping[str, Any]]:
    told = json.loads(text)
    rows: Sequence[Mapping[str, Any]] = told["files"] if isinstance(told, dict) else told
    return rows


def _expected(row: Mapping[str, Any]) -> Expected:
    file = row["file"].strip().removeprefix("./")
    if not file:
        raise ValueError("a row names no file")
    size, specimens, experiments = (_number(row.get(name)) for name in _NUMBERS)
    checksum = (row.get("checksum") or "").strip().lower() or None
    if checksum is not None and (len(checksum) not in _CHECKSUMS or not all(c in "0123456789abcdef" for c in checksum)):
        raise ValueError(f"the checksum of {file} is neither an MD5 nor a SHA-256")
    return Expected(file, size, checksum, specimens, experiments)


def _number(value: Any) -> int | None:
    return None if value in (None, "") else int(value)


def _of_content(one: Expected, path: Path, count: Callable[[str], Counts | None]) -> Iterator[Message]:
    if one.checksum is not None:
        found = _digest(path, _CHECKSUMS[len(one.checksum)])
        if found != one.checksum:
            said = mark("{file} has the checksum {found}, not {expected}")
            yield message(said, file=one.file, found=found, expected=one.checksum)
            return
    if one.specimens is None and one.experiments is None:
        return
    counted = count(one.file)
    if counted is None:
        return
    if one.specimens not in (None, counted.specimens):
        said = mark("{file} holds {found} specimens, not {expected}")
        yield message(said, file=one.file, found=counted.specimens, expected=one.specimens)
    if one.experiments not in (None, counted.experiments):
        said = mark("{file} holds {found} experiments, not {expected}")
        yield message(said, file=one.file, found=counted.experiments, expected=one.experiments)


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
