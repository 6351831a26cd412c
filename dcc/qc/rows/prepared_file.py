"""Documents of an archive as rows in a file, made before anybody knows the ids that the rows will have.

The file is an SQLite database. It has the tables that documents fill in the QC database, with ids that begin at 1, so
that rows of documents that follow one another can be copied together. It also has what must be known of a document to
decide whether its entities take effect. For a QC database on SQLite, which copies rows from file to file, the tables
have rows. What the measurements of a procedure have in common is in the row of that, since to write a value takes
longer than to read it. For one on a server they have the lines that it loads, those of many rows in one text.

Behind the database, where SQLite does not look, are the facts about the documents, their length, and a checksum. So
whoever need not know the entities opens no database. A file of another version or basis, or a damaged one, is made
again.

Nothing here knows the QC database, so that a process that prepares documents loads no SQLAlchemy.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote
from zlib import crc32

from dcc.documents import contents
from dcc.documents.content_digest import ContentDigest
from dcc.documents.forms import path_of_centre
from dcc.documents.origins import Origin
from dcc.naming import DocumentKind
from dcc.qc.rows.entity_keys import Key, entity_key_of
from dcc.qc.rows.lines import as_lines, with_fields
from dcc.qc.rows.measurements import MEASURED, OF_RUN
from dcc.qc.rows.row_builder import NUMBERED, RowBuilder
from dcc.qc.rows.types import Limits, NamedRows, Row, TooLong, Value
from dcc.runtime.checksums import crc32_of
from dcc.vocabulary import EntityKind

VERSION: Final = 10
"""The version of what a file says, and how, apart from the columns of its tables, which are part of the basis."""

_ROWS_HELD: Final = 20_000
_TEXT_HELD: Final = 8_000_000
_ENTRY: Final = "entry"
_ENTRY_COLUMNS: Final = ("kind", "columns")
_RUN: Final = "procedure_run"
_MEASUREMENT: Final = "measurement"
_ID: Final = 0
"""The place of the id in rows of numbered tables."""
_RUN_OF_MEASUREMENT: Final = itemgetter(MEASURED.index("procedure_run_id"))
_LINES: Final = ("id", "lines")
"""The columns of a table of lines, whose ids are those of the last of their rows, or its number."""
_LENGTH_DIGITS: Final = 12
_CHECKSUM_BYTES: Final = 4
_CHECKSUM_OF_WHOLE: Final = "2144df1c"
"""The CRC-32 of any bytes that end with their own CRC-32, its lowest byte first."""


class Columns(NamedTuple):
    """The columns of a file's tables, in the order of rows, and what texts they hold at most.

    `in_lines`: the tables have the lines that rows are; those of measurements say what their runs say of them too.
    Rows of the tables `left_out` are made and checked, and not kept.
    """

    names: Mapping[str, Sequence[str]]
    limits: Limits
    in_lines: bool
    left_out: frozenset[str] = frozenset()

    @property
    def checksum(self) -> str:
        """A checksum of the form of the tables: a file in another form is of no use."""
        form = (sorted(self.names.items()), sorted(self.limits.items()), self.in_lines)
        return f"{crc32(repr(form).encode()):08x}"


class Entries(NamedTuple):
    """Some centre elements of a document, or some entities of a kind, in columns and in document order.

    `kind` is None for centre elements, whose `keys` are their centres alone. `row_ids` has None for entities that are
    not stored, because something is `too_long`, in them or in the centre element.
    """

    kind: EntityKind | None
    lines: list[int]
    paths: list[str]
    keys: list[Key]
    row_ids: list[int | None]
    too_long: list[TooLong | None]


_Entry: TypeAlias = tuple[int, str, Key, int | None, TooLong | None]
"""Line, path, key, id of the row and too long text of a centre element or an entity."""


class PreparedWriter:
    """Writes a prepared file, document by document; the file appears when it is closed.

    A document keeps `rows_held` rows in memory before it writes them.
    """

    def __init__(self, path: Path, basis: str, columns: Columns, rows_held: int = _ROWS_HELD) -> None:
        self._path, self._basis, self.columns, self.rows_held = path, basis, columns, rows_held
        self._part = path.with_name(f"{path.name}.part")
        self._part.unlink(missing_ok=True)
        tables = tuple((table, *(_LINES if columns.in_lines else names)) for table, names in columns.names.items())
        self._part.write_bytes(_empty_file(tables))
        # Whoever writes with several threads has them take turns.
        self._connection = sqlite3.connect(self._part, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("BEGIN")
        self.last = dict.fromkeys((*columns.names, _ENTRY), 0)
        self._of_run = itemgetter(*map(columns.names[_RUN].index, OF_RUN))
        self._of_runs: dict[Value, Row] = {}
        self.named = NamedRows(columns.names)
        self.new_ids = {table: itertools.count(1).__next__ for table in NUMBERED}
        self._numbers = itertools.count(1)
        self.documents: list[dict[str, Any]] = []

    def document(self, kind: DocumentKind) -> DocumentWriter:
        """Begin a document. An unfinished document does no harm."""
        return DocumentWriter(self, next(self._numbers), kind)

    def close(self) -> None:
        """End the file with the facts about its documents, and put it where it belongs."""
        self._connection.execute("COMMIT")
        self._connection.close()
        facts = json.dumps({"version": VERSION, "basis": self._basis, "documents": self.documents}).encode()
        end = facts + f"{len(facts):0{_LENGTH_DIGITS}}".encode()
        checksum = crc32(end, int(crc32_of(self._part), 16))
        with self._part.open("ab") as file:
            file.write(end + checksum.to_bytes(_CHECKSUM_BYTES, "little"))
        self._part.replace(self._path)

    def discard(self) -> None:
        """Remove a file that cannot be finished."""
        self._connection.close()
        self._part.unlink(missing_ok=True)

    def write(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows of a table, for a document."""
        if table in self.columns.left_out:
            return
        self.last[table] = last = rows[-1][_ID] if table in NUMBERED else self.last[table] + len(rows)  # type: ignore[assignment]
        if self.columns.in_lines and table != _ENTRY:
            if table == _RUN:
                self._of_runs = {run[_ID]: self._of_run(run) for run in rows}
            lines = self._lines_of_measurements(rows) if table == _MEASUREMENT else as_lines(rows)
            self._connection.execute(f"INSERT INTO {quoted(table)} VALUES (?, ?)", (last, lines))  # noqa: S608
            return
        marks = ", ".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)  # noqa: S608

    def _lines_of_measurements(self, rows: Sequence[Row]) -> bytes:
        """With what they repeat of their runs, which were written before."""
        by_run = groupby(rows, key=_RUN_OF_MEASUREMENT)
        return b"".join([with_fields(as_lines(list(some)), self._of_runs[run_id]) for run_id, some in by_run])


class DocumentWriter:
    """Takes a document's content and has its rows written."""

    def __init__(self, writer: PreparedWriter, number: int, kind: DocumentKind) -> None:
        self._writer, self._number, self._kind = writer, number, kind
        self._before = dict(writer.last)
        self._tables: dict[str, list[Row]] = {table: [] for table in writer.columns.names}
        self._builder = RowBuilder(number, writer.new_ids, self._tables, writer.columns.limits, writer.named)
        self._entries: dict[EntityKind | None, list[_Entry]] = {kind: [] for kind in (None, *EntityKind)}
        self._content = ContentDigest()
        self._block: contents.Block | None = None
        self._path = ""
        self._usable = False
        self._numbers: dict[str, int] = {}
        self._flushed = (0, 0)
        self._centres: set[str] = set()
        self._whole = True

    def take(self, content: contents.Content) -> None:
        """Take the next element of the document."""
        self._content.take(content)
        if isinstance(content, contents.Block):
            self._block, self._numbers = content, {}
            self._path = path_of_centre(self._kind, content.position)
            excess = self._builder.add_block(content)
            self._usable = excess is None
            self._note(None, content.line, self._path, (content.centre,), None, excess)
            return
        if self._block is None:
            raise RuntimeError("An entity was read before its centre element.")
        self._centres.add(self._block.centre)
        name = contents.element_name(content)
        self._numbers[name] = number = self._numbers.get(name, 0) + 1
        path, kind = f"{self._path}/{name}[{number}]", contents.kind_of(content)
        key = entity_key_of(self._block, content)
        row_id = self._builder.add_entity(kind, content) if self._usable else None
        if row_id is None or isinstance(row_id, TooLong):
            self._note(kind, content.line, path, key, None, row_id)
            return
        self._note(kind, content.line, path, key, row_id, None)
        rows, text = self._flushed
        held_rows, held_text = self._builder.held_rows - rows, self._builder.held_text - text
        if held_rows > self._writer.rows_held or held_text > _TEXT_HELD:
            self._flush()

    def finish(self, file_name: str, md5: str, findings: Sequence[Any] | None, origin: Origin | None = None) -> None:
        """Write the rest; `findings` are those of the rules that need this document alone, None if unknown."""
        self._flush()
        facts = {
            "file_name": file_name,
            "md5": md5,
            "content": self._content.hexdigest(),
            "number": self._number,
            "rows": {table: (self._before[table], last) for table, last in self._writer.last.items()},
            "measured": dict(sorted(self._builder.measured.items())),
            "centres": sorted(self._centres),
            "whole": self._whole,
            "findings": findings,
            "origin": None if origin is None else origin.to_json(),
        }
        self._writer.documents.append(facts)

    def _note(
        self, kind: EntityKind | None, line: int, path: str, key: Key, row_id: int | None, excess: TooLong | None
    ) -> None:
        self._whole = self._whole and (kind is None or row_id is not None)
        self._entries[kind].append((line, path, key, row_id, excess))

    def _flush(self) -> None:
        for table, rows in self._tables.items():
            if rows:
                self._writer.write(table, rows)
                rows.clear()
        for kind, entries in self._entries.items():
            if entries:
                self._writer.write(_ENTRY, [(kind, json.dumps(list(zip(*entries, strict=True))))])
                entries.clear()
        self._content.flush()
        self._flushed = (self._builder.held_rows, self._builder.held_text)


@dataclass(frozen=True, eq=False)
class PreparedDocument:
    """A document in a prepared file, which has it under its `number`.

    `rows` tells by table the last row before the document and its own last one, by their ids where they have any, else
    by their numbers. `measured` counts measurements by procedure. `centres` are those that entities are of. `whole`:
    all of its entities have rows. `findings` are as they were given to the writer, and `origin` in JSON. `content` is
    the digest of what it says (`dcc.documents.content_digest`).
    """

    file: PreparedFile
    content: str
    number: int
    rows: Mapping[str, Sequence[int]]
    measured: Mapping[str, int]
    centres: Sequence[str]
    whole: bool
    findings: Sequence[Any] | None = field(repr=False)
    origin: str | None

    def number_of_rows(self, table: str) -> int:
        """How many rows it has in a table, by what `rows` tells."""
        before, last = self.rows[table]
        return last - before

    def entries(self) -> Iterator[Entries]:
        """The centre elements and entities."""
        statement = "SELECT kind, columns FROM entry WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        for kind, columns in self.file.ask(statement, self.rows[_ENTRY]):
            lines, paths, keys, row_ids, excess = json.loads(columns)
            too_long = [one and TooLong(*one) for one in excess]
            yield Entries(kind and EntityKind(kind), lines, paths, list(map(tuple, keys)), row_ids, too_long)


class PreparedFile:
    """A prepared file that is read. Raises OSError if it is missing, and OSError or ValueError if its end is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            end = file.seek(-_CHECKSUM_BYTES - _LENGTH_DIGITS, os.SEEK_END)
            length = int(file.read(_LENGTH_DIGITS))
            file.seek(end - length)
            facts = json.loads(file.read(length))
        self.version, self.basis = facts["version"], facts["basis"]
        self._documents = {(one.pop("file_name"), one.pop("md5")): one for one in facts["documents"]}
        self._connection: sqlite3.Connection | None = None

    @property
    def address(self) -> str:
        """What SQLite opens it by, for reading."""
        return f"file:{quote(str(self.path))}?mode=ro&immutable=1"

    def has(self, file_name: str, md5: str) -> bool:
        """Whether it has a document of that name and MD5."""
        return (file_name, md5) in self._documents

    def document(self, file_name: str, md5: str) -> PreparedDocument:
        """The document of that name and MD5. Raises KeyError."""
        return PreparedDocument(self, **self._documents[file_name, md5])

    def ask(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> Iterator[Any]:
        """The rows that a statement finds."""
        if self._connection is None:
            self._connection = sqlite3.connect(self.address, uri=True, check_same_thread=False)
        return self._connection.execute(statement, values)

    def lines(self, table: str, after: int, last: int) -> Iterator[bytes]:
        """The lines of rows of a table that follow the row `after`, to the `last` one."""
        statement = f"SELECT lines FROM {quoted(table)} WHERE id > ? AND id <= ? ORDER BY id"  # noqa: S608
        for (lines,) in self.ask(statement, (after, last)):
            yield lines

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@lru_cache(maxsize=1)
def _empty_file(tables: tuple[tuple[str, ...], ...]) -> bytes:
    """A file with all tables, without rows: copying it is faster than making them."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE {quoted(_ENTRY)} ({', '.join(_ENTRY_COLUMNS)})")
        for table, *names in tables:
            columns = [quoted(name) + (" INTEGER PRIMARY KEY" if name == "id" else "") for name in names]
            connection.execute(f"CREATE TABLE {quoted(table)} ({', '.join(columns)})")
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


def open_prepared(path: Path, basis: str, *, is_checked: bool = False) -> PreparedFile | None:
    """The prepared file at `path`; None where there is none, or it is damaged, or of another version or basis.

    It is compared with its checksum unless it `is_checked` already.
    """
    try:
        if not is_checked and crc32_of(path) != _CHECKSUM_OF_WHOLE:
            return None
        file = PreparedFile(path)
    except (OSError, ValueError):
        return None
    return file if (file.version, file.basis) == (VERSION, basis) else None


def quoted(name: str) -> str:
    """A name in SQLite's statements."""
    return f'"{name}"'
