"""Reference data from a folder of files, and the small set that comes with the platform.

A folder holds any of:

- IMPReSS: `impress.json`, one object of the API's answers by their address, or a folder `impress` with a file for each
  answer: `impress/pipeline/list.json`, `impress/parameter/7.json` and so on (see impress_answers)
- `status_codes`, `projects`, `colonies`, `strains`, as .csv or .tsv; strains also as MGI_Strain.rpt
- `retrieved.txt`: when all of it was retrieved, a day or a day and time in UTC; without it a file's last change counts

The first line of a table names its columns, in any order; others are ignored:

- status_codes: code, description
- projects: project
- colonies: colony_id, production_centre, status; and, each of which may be empty or left out, created (yyyy-mm-dd),
  strain_id, gene_id, gene_symbol, allele_id, allele_symbol
- strains: strain_id, name. MGI's own report (id, name, type between tabs, no names above) also serves.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from dcc.errors import InternalFaultError, ReferenceDataError
from dcc.messages import count_of
from dcc.reference.impress import Impress
from dcc.reference.impress_api import impress_from_answers
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, Snapshot, StatusCodes, Strains

MGI_REPORT_SUFFIX = ".rpt"
_OPTIONAL = tuple(each.name for each in fields(Colony) if each.default is None)
"""The optional columns of colonies that have texts."""
_MGI_COLUMNS = "strain_id\tname\ttype\n"


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    cells: dict[str, str]

    def fault(self, what: str) -> ReferenceDataError:
        return ReferenceDataError(f"{self.where}: {what}. Correct the file and load it again.")

    def needed(self, column: str) -> str:
        value = self.cells[column].strip()
        if not value:
            raise self.fault(f"{column} is empty")
        return value


def _status_codes(content: bytes, provenance: Provenance) -> StatusCodes:
    meanings: dict[str, str] = {}
    for row in _rows(content, provenance.source, ("code",)):
        code = row.needed("code")
        if code in meanings:
            raise row.fault(f"the code {code} is there twice")
        meanings[code] = row.cells.get("description", "").strip()
    return StatusCodes(provenance, meanings)


def _projects(content: bytes, provenance: Provenance) -> Projects:
    rows = _rows(content, provenance.source, ("project",))
    return Projects(provenance, frozenset(row.needed("project") for row in rows))


def _colonies(content: bytes, provenance: Provenance) -> Colonies:
    productions: dict[str, list[Colony]] = {}
    for row in _rows(content, provenance.source, ("colony_id", "production_centre", "status")):
        created = row.cells.get("created", "").strip()
        try:
            created_on = date.fromisoformat(created) if created else None
        except ValueError as error:
            raise row.fault(f"created is {created!r}, which is no date") from error
        colony = Colony(
            row.needed("colony_id"),
            row.needed("production_centre"),
            row.needed("status"),
            created_on,
            **{column: row.cells.get(column, "").strip() or None for column in _OPTIONAL},
        )
        productions.setdefault(colony.colony_id, []).append(colony)
    return Colonies(provenance, {colony_id: tuple(found) for colony_id, found in productions.items()})


def _strains(content: bytes, provenance: Provenance) -> Strains:
    if provenance.source.endswith(MGI_REPORT_SUFFIX):
        content = _MGI_COLUMNS.encode() + content
    rows = _rows(content, provenance.source, ("strain_id", "name"))
    return Strains(provenance, {row.needed("strain_id"): row.cells["name"].strip() for row in rows})


def _rows(content: bytes, source: str, needed: tuple[str, ...]) -> Iterator[_Row]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReferenceDataError(f"{source} is not in UTF-8 ({error}). Save it as UTF-8.") from error
    first_line = text.split("\n", 1)[0]
    table = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in first_line else ",", strict=True)
    read = 0
    try:
        columns = [column.strip() for column in next(table, [])]
        missing = [column for column in needed if column not in columns]
        if missing:
            lacks = f"lacks the columns {', '.join(missing)}"
            raise ReferenceDataError(f"{source} {lacks}: its first line is {first_line[:200]!r}.")
        for cells in table:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                raise ReferenceDataError(
                    f"{source}, line {table.line_num}: {count_of(len(cells), 'cell')} for "
                    f"{count_of(len(columns), 'column')}. Correct the file and load it again."
                )
            read += 1
            yield _Row(f"{source}, line {table.line_num}", dict(zip(columns, cells, strict=True)))
    except csv.Error as error:
        raise ReferenceDataError(f"{source}, line {table.line_num}: {error}. Correct the file.") from error
    if read == 0:
        raise ReferenceDataError(f"{source} has no rows. Retrieve it again.")


SHIPPED = Path(__file__).parent / "shipped"
"""The shipped set: what the demonstration and the samples of the exchange format need."""

SHIPPED_SOURCE = "shipped:"
"""Prefix of the source of a shipped snapshot."""

IMPRESS_FILE = "impress.json"
MGI_REPORT = "MGI_Strain.rpt"
_SUFFIXES = (".csv", ".tsv")
_RETRIEVED = "retrieved.txt"

_TABLES: Mapping[str, Callable[[bytes, Provenance], Snapshot]] = {
    StatusCodes.NAME: _status_codes,
    Projects.NAME: _projects,
    Colonies.NAME: _colonies,
    Strains.NAME: _strains,
}
SETS = (Impress.NAME, *_TABLES)
"""The names of the sets of reference data."""


@dataclass(frozen=True, slots=True)
class ReferenceData:
    """The available snapshots; None for a missing set.

    `imits_names` are the names of centres where colonies are registered, by their codes, as far as the DCC gave them.
    """

    impress: Impress | None = None
    status_codes: StatusCodes | None = None
    projects: Projects | None = None
    colonies: Colonies | None = None
    strains: Strains | None = None
    imits_names: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Snapshot]:
        found = (getattr(self, name) for name in SETS)
        return (snapshot for snapshot in found if snapshot is not None)

    def find(self, kind: type[Snapshot]) -> Snapshot | None:
        """The snapshot of a kind; None if it is missing."""
        return next((snapshot for snapshot in self if type(snapshot) is kind), None)


def load_shipped() -> ReferenceData:
    """The reference data that are shipped with the platform."""
    found: dict[str, Any] = {name: load_shipped_set(name) for name in SETS}
    return ReferenceData(**found)


def load_shipped_set(name: str) -> Snapshot:
    """The shipped snapshot of a set; its identity depends on its content, not on its place."""
    snapshot = load_from_folder(name, SHIPPED)
    if snapshot is None:
        raise InternalFaultError(f"The {name} that come with the platform are not there. Install it again.")
    return snapshot.with_source(SHIPPED_SOURCE + Path(snapshot.source).name)


@cache
def shipped_checksum(name: str) -> str:
    """The checksum of a shipped set."""
    return load_shipped_set(name).checksum


def load_reference_data(folder: Path) -> ReferenceData:
    """The reference data of a folder.

    A set without a file is missing. Raises ReferenceDataError with the file and the problem if one is empty or
    malformed, and if the folder has none at all.
    """
    found: dict[str, Any] = {name: load_from_folder(name, folder) for name in SETS}
    data = ReferenceData(**found)
    if not list(data):
        files = ", ".join((IMPRESS_FILE, *(f"{name}.csv" for name in _TABLES)))
        raise ReferenceDataError(f"{folder} holds no reference data. Put one or more of {files} there.")
    return data


def load_from_folder(name: str, folder: Path) -> Snapshot | None:
    """A set from its file in a folder; None if there is none. Raises ReferenceDataError as `load_reference_data`."""
    place = _place_in_folder(name, folder)
    if place is None:
        return None
    if not place.is_dir():
        return load_from_file(name, place)
    contents = _tree_contents(place)
    answers = {address: parse_json(f"{place}/{address}.json", content) for address, content in contents.items()}
    provenance = _provenance_of_tree(folder, place, contents)
    return impress_from_answers(lambda address: _answer(answers, address, str(place)), provenance)


def provenance_at(name: str, path: Path) -> Provenance | None:
    """The provenance of a snapshot from a file or folder, without parsing it; None if it does not exist.

    Raises ReferenceDataError for an unreadable one.
    """
    place = _place_in_folder(name, path) if path.is_dir() else path
    if place is None:
        return None
    if place.is_dir():
        return _provenance_of_tree(path, place, _tree_contents(place))
    return _provenance_of_file(place, _content(place))


def _place_in_folder(name: str, folder: Path) -> Path | None:
    """The file of a set in a folder; of IMPReSS possibly the folder of its answers."""
    if name == Impress.NAME:
        bundle, tree = folder / IMPRESS_FILE, folder / "impress"
        if bundle.is_file():
            return bundle
        return tree if tree.is_dir() else None
    names = [name + suffix for suffix in _SUFFIXES] + [MGI_REPORT] * (name == Strains.NAME)
    found = [folder / each for each in names if (folder / each).is_file()]
    if len(found) > 1:
        raise ReferenceDataError(
            f"{folder} has the {name} twice: {', '.join(path.name for path in found)}. Remove one."
        )
    return found[0] if found else None


def load_from_file(name: str, path: Path) -> Snapshot:
    """A set from a file. Raises ReferenceDataError with the file and the problem."""
    content = _content(path)
    return read_set(name, content, _provenance_of_file(path, content))


def _provenance_of_file(path: Path, content: bytes) -> Provenance:
    return Provenance(str(path), _retrieved(path.parent, [path]), checksum_of(content))


def read_set(name: str, content: bytes, provenance: Provenance) -> Snapshot:
    """A set from a file's content; of IMPReSS the answers by their address. Raises ReferenceDataError."""
    if name != Impress.NAME:
        return _TABLES[name](content, provenance)
    parsed = parse_json(provenance.source, content)
    if not isinstance(parsed, dict) or not parsed:
        raise ReferenceDataError(f"{provenance.source} is no object of answers by their address. Retrieve it again.")
    return impress_from_answers(lambda address: _answer(parsed, address, provenance.source), provenance)


def checksum_of(content: bytes) -> str:
    """The checksum of a snapshot that was read from one file."""
    return hashlib.sha256(content).hexdigest()


def checksum_of_answers(contents: Mapping[str, bytes]) -> str:
    """The checksum of a snapshot from many answers, by their address, in any order."""
    digest = hashlib.sha256()
    for address, content in sorted(contents.items()):
        digest.update(f"{address}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def _tree_contents(tree: Path) -> dict[str, bytes]:
    paths = sorted(tree.rglob("*.json"))
    if not paths:
        raise ReferenceDataError(f"{tree} holds no answers of IMPReSS. Retrieve them again.")
    return {path.relative_to(tree).with_suffix("").as_posix(): _content(path) for path in paths}


def _provenance_of_tree(folder: Path, tree: Path, contents: Mapping[str, bytes]) -> Provenance:
    paths = [tree / f"{address}.json" for address in contents]
    return Provenance(str(tree), _retrieved(folder, paths), checksum_of_answers(contents))


def _answer(answers: dict[str, object], address: str, source: str) -> object:
    if address not in answers:
        raise ReferenceDataError(f"{source} has no answer for {address}. Retrieve IMPReSS again.")
    return answers[address]


def parse_json(source: str, content: bytes) -> object:
    """The parsed JSON. Raises ReferenceDataError with the `source` for other texts."""
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReferenceDataError(f"{source} is no JSON ({error}). Retrieve it again.") from error
    return parsed


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReferenceDataError(f"{path} cannot be read ({error.strerror}). Make it readable.") from error


def _retrieved(folder: Path, paths: list[Path]) -> datetime:
    note = folder / _RETRIEVED
    if not note.is_file():
        newest = max(path.stat().st_mtime for path in paths)
        return datetime.fromtimestamp(newest, UTC).replace(tzinfo=None, microsecond=0)
    text = _content(note).decode("utf-8", "replace").strip()
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ReferenceDataError(f"{note} says {text!r}, which is no day or time. Write 2026-11-21.") from error
    when = when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when
    return when.replace(microsecond=0)
