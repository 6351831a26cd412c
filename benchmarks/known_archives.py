"""An installation that knows many archives, all of them through with quality control but for those of two centres.

An archive of each centre goes through a real session and is looked at. The others are put beside it: an empty file of
the same size and time on the file source, and in both databases the rows that the session left of the first, under
names and ids of their own. Measurements are not copied: a session with nothing new asks for none.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, func, insert, select

from benchmarks.installation import databases, make_installation
from benchmarks.measuring import DCC, clean_environment
from benchmarks.servers import Folders, OpenSsh
from benchmarks.session import DOCUMENTS, documents_of
from dcc.cli.demo.submissions import archive
from dcc.databases.transactions import insert_rows, writing
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.models import DOCUMENT, SHARE
from dcc.session.data.quality_control import update_qc_states
from dcc.settings import Settings
from dcc.tracker.models import FileSourceHasZip, XmlFile, XmlLog, ZipAction, ZipDownload, ZipFile
from dcc.vocabulary import ContextEvent

CENTRES: Final = ("Bcm", "Biat", "Gmc", "H", "Ics", "J", "Krb", "Ning", "Rbrc", "Tcp", "Ucd", "Wtsi")
"""Each has one file source. The last one's data wait to be looked at."""
FAILING: Final = "Krb"
"""The centre whose archives fail their validation, where any do."""

_FIRST: Final = date(1990, 1, 1)
_A_DAY: Final = 9
_ANIMALS: Final = 8
_AT_ONCE: Final = 2_000

Row = dict[str, Any]


def archive_name(centre: str, number: int) -> str:
    """The name of a centre's archive `number`, from 0."""
    created, inc = _made(number)
    return f"{centre}.{created}.{inc}.impc.zip"


@dataclass
class KnownArchives:
    """An installation in `folder`, to be made, that knows archives on a file source of each centre, all on one server.

    `variables` are settings of the environment beside DCC_HOME. With `some_fail`, the archives of one centre fail their
    validation. `known` is how many archives it knows.
    """

    folder: Path
    server: OpenSsh | Folders
    centres: Sequence[str] = CENTRES
    variables: Mapping[str, str] = field(default_factory=dict)
    some_fail: bool = False
    known: int = 0

    @property
    def home(self) -> Path:
        """DCC_HOME."""
        return self.folder / "home"

    @property
    def roots(self) -> dict[str, Path]:
        """The base path of each centre's file source."""
        return {centre: self.folder / "sources" / centre for centre in self.centres}

    def environment(self, *, events: bool = False) -> dict[str, str]:
        """The environment that `dcc` runs in, with Dagster's events or without."""
        home = {"DCC_HOME": str(self.home), "DCC_DAGSTER_EVENTS": str(events).lower()}
        return clean_environment(**{**home, **self.variables})

    def register(self) -> None:
        """Make the installation, with the centres and their file sources, which are empty if they are not there yet."""
        for root in self.roots.values():
            (root / "add").mkdir(parents=True, exist_ok=True)
        sources = [self.server.source(centre, root) for centre, root in self.roots.items()]
        make_installation(self.home, sources, self.server.known_hosts, self.variables)

    def put(self, centre: str, number: int) -> None:
        """Put a centre's archive `number` on its file source, with documents that pass all rules, or fail."""
        created, inc = _made(number)
        documents = documents_of(centre, created, inc * DOCUMENTS, 1 + number * _ANIMALS)
        if self.some_fail and centre == FAILING:
            documents = {name: text.replace(b"dateOfExperiment", b"day", 1) for name, text in documents.items()}
        (self.roots[centre] / "add" / archive_name(centre, number)).write_bytes(archive(documents, created))

    def make(self) -> None:
        """Register, take one archive of each centre through a session, and have all but one centre's looked at."""
        self.register()
        for centre in self.centres:
            self.put(centre, 0)
        self.run("crawl", ends=int(self.some_fail))
        with self.databases() as (settings, tracker, qc):
            for centre in self.centres[:-1]:
                decide_on_contexts(
                    qc, ContextEvent.DONE, ContextFilter(centre=centre), author="benchmark", reason="looked at"
                )
            update_qc_states(tracker, qc, settings, author="benchmark", reason="looked at")
        self.known = len(self.centres)

    def grow(self, known: int) -> None:
        """Have the installation know `known` archives."""
        with self.databases() as (_, tracker, qc):
            for place, centre in enumerate(self.centres):
                numbers = [self._share(total, place) for total in (self.known, known)]
                _Copies(tracker, qc, self.roots[centre] / "add", centre).add(range(*numbers))
        self.known = known

    def _share(self, total: int, place: int) -> int:
        """How many of `total` archives are of the centre at `place`."""
        return total // len(self.centres) + (place < total % len(self.centres))

    def databases(self) -> AbstractContextManager[tuple[Settings, Engine, Engine]]:
        """The settings, the tracker and the QC database."""
        return databases(self.home, self.variables)

    def run(self, *command: str, events: bool = False, ends: int = 0) -> None:
        """Run a `dcc` command. Raises RuntimeError with what it said when it ends with another exit code."""
        ended = subprocess.run([DCC, *command], env=self.environment(events=events), capture_output=True, text=True)
        if ended.returncode != ends:
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")


def _made(number: int) -> tuple[date, int]:
    """The date and increment of a centre's archive `number`."""
    day, inc = divmod(number, _A_DAY)
    return _FIRST + timedelta(days=day), inc + 1


class _Copies:
    """Puts archives beside the first of a centre: files in `directory`, rows in both databases."""

    def __init__(self, tracker: Engine, qc: Engine, directory: Path, centre: str) -> None:
        self._tracker, self._qc = tracker, qc
        self._directory, self._centre = directory, centre
        with tracker.connect() as connection:
            (self._zip,) = _rows(connection, select(ZipFile).where(ZipFile.file_name == archive_name(centre, 0)))
            (self._action,) = _rows(connection, select(ZipAction).where(ZipAction.zip_id == self._zip["id"]))
            hosting = select(FileSourceHasZip).where(FileSourceHasZip.za_id == self._action["id"])
            (self._hosting,) = _rows(connection, hosting)
            download = select(ZipDownload).where(ZipDownload.zf_id == self._hosting["id"])
            (self._download,) = _rows(connection, download)
            self._documents = _rows(connection, select(XmlFile).where(XmlFile.download_id == self._download["id"]))
            self._logs = [
                _rows(connection, select(XmlLog).where(XmlLog.xml_id == document["id"])) for document in self._documents
            ]
        with qc.connect() as connection:
            self._applied, self._contexts = [], []
            for document in self._documents:
                applied = _rows(connection, select(DOCUMENT).where(DOCUMENT.c.tracker_id == document["id"]))
                parts = select(SHARE).where(SHARE.c.document_id.in_([one["id"] for one in applied]))
                self._applied.append(applied)
                self._contexts.append(_rows(connection, parts))

    def add(self, numbers: range) -> None:
        """Add the archives of these numbers."""
        for start in range(numbers.start, numbers.stop, _AT_ONCE):
            part = range(start, min(start + _AT_ONCE, numbers.stop))
            for number in part:
                self._put_file(archive_name(self._centre, number))
            with writing(self._tracker) as connection:
                xml_ids = self._track(connection, part)
            with writing(self._qc) as connection:
                self._apply(connection, part, xml_ids)

    def _put_file(self, name: str) -> None:
        path = self._directory / name
        with path.open("xb") as file:
            file.truncate(self._zip["size_bytes"])
        os.utime(path, (self._hosting["modified"], self._hosting["modified"]))

    def _track(self, connection: Connection, numbers: range) -> list[int]:
        """Add the rows of the tracker; the ids of the documents, five an archive."""
        zips = [
            _copied(self._zip, file_name=archive_name(self._centre, number), created=created, inc=inc)
            for number in numbers
            for created, inc in [_made(number)]
        ]
        zip_ids = insert_rows(connection, ZipFile, zips)
        action_ids = insert_rows(connection, ZipAction, [_copied(self._action, zip_id=zip_id) for zip_id in zip_ids])
        hostings = [_copied(self._hosting, za_id=action_id) for action_id in action_ids]
        hosting_ids = insert_rows(connection, FileSourceHasZip, hostings)
        downloads = [_copied(self._download, zf_id=hosting_id) for hosting_id in hosting_ids]
        documents = [
            _copied(document, zip_id=download_id, **self._document_named(document, number))
            for number, download_id in zip(numbers, insert_rows(connection, ZipDownload, downloads), strict=True)
            for document in self._documents
        ]
        xml_ids = insert_rows(connection, XmlFile, documents)
        entries = [
            _copied(entry, xml_id=xml_id)
            for place, xml_id in enumerate(xml_ids)
            for entry in self._logs[place % DOCUMENTS]
        ]
        insert_rows(connection, XmlLog, entries)
        return xml_ids

    def _document_named(self, document: Row, number: int) -> Row:
        created, inc = _made(number)
        _, first = _made(0)
        _, _, kind = document["fname"].removeprefix(f"{self._centre}.").split(".", 2)
        inc = (inc - first) * DOCUMENTS + document["inc"]
        return {"fname": f"{self._centre}.{created}.{inc}.{kind}", "created": created, "inc": inc}

    def _apply(self, connection: Connection, numbers: range, xml_ids: list[int]) -> None:
        """Add the rows of the QC database that stand for the documents."""
        next_id = (connection.scalar(select(func.max(DOCUMENT.c.id))) or 0) + 1
        documents, contexts = [], []
        for place, xml_id in enumerate(xml_ids):
            number, which = numbers[place // DOCUMENTS], place % DOCUMENTS
            named = self._document_named(self._documents[which], number)
            own = {"id": next_id + place, "tracker_id": xml_id, "zip_file": archive_name(self._centre, number)}
            own |= {"file_name": named["fname"], "created": named["created"], "inc": named["inc"]}
            documents += [{**applied, **own} for applied in self._applied[which]]
            contexts += [{**part, "document_id": own["id"]} for part in self._contexts[which]]
        for table, rows in ((DOCUMENT, documents), (SHARE, contexts)):
            if rows:
                connection.execute(insert(table), rows)


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    """Rows, without the time of their last change: the database gives it to each that is added, in its own form."""
    return [
        {name: value for name, value in row.items() if name != "last_update"}
        for row in connection.execute(query).mappings()
    ]


def _copied(row: Row, **changes: Any) -> Row:
    """A row with changes, to be added under an id of its own."""
    return {name: value for name, value in row.items() if name != "id"} | changes
