"""A history lived for real: two folders that are served, an installation, and its sessions."""

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, select

from dcc.cli.demo import submissions
from dcc.cli.sessions.crawl import run_session
from dcc.databases.transactions import writing
from dcc.errors import DccError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.qc.models import SPECIMEN
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings
from dcc.tracker.models import AnException, XmlFile, XmlLog
from dcc.tracker.register import centres
from tests.histories.happenings import Copy, Form, Place, Version
from tests.support.asking import column_in, rows_in
from tests.support.installations import Installation, folder_address

CENTRES: Final = {Place.OWN: "H", Place.MIRROR: "J"}
QUIET_SECONDS: Final = 0.3
BORN: Final = 1_400_000_000


def name_of(archive: int) -> str:
    return f"H.2014-01-{archive + 1:02d}.1.impc.zip"


def archive_of(name: str) -> int:
    """The archive of that file name or key, or of the document of that name."""
    return int(name.partition(".")[2][8:10]) - 1


@cache
def content_of(copy: Copy) -> bytes:
    mice = 3 if copy.version is Version.SECOND else 2
    document = submissions.specimen_document("H", mice=mice, first=100 * copy.archive + 1, created=date(2014, 1, 1))
    if copy.version is Version.INVALID:
        document = submissions.damaged(document, "isBaseline", "isBaselin")
    whole = submissions.archive({f"{name_of(copy.archive).removesuffix('.impc.zip')}.specimen.impc.xml": document})
    match copy.form:
        case Form.WHOLE:
            return whole
        case Form.HALF:
            return whole[: len(whole) // 2]
        case Form.ROTTEN:
            place = 120
            return whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]


LEFT_OUT: Final = "left_out_"
DOCUMENTS: Final = (
    select(XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id, AnException.short_name.label("logged"))
    .outerjoin(XmlLog, (XmlLog.xml_id == XmlFile.id) & XmlLog.cleared.is_(None))
    .outerjoin(AnException)
)
"""Documents with their states, and what holds of their logs."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the databases hold: the state of each archive, of its document, and the animals that are current.

    `animals` are the numbers of current animals by archive; `troubled` are the archives with a document that failed and
    has its reason in the log. `left_out` are the steps that are noted as left out of documents, by archive.
    """

    states: dict[int, str]
    documents: dict[int, str]
    animals: dict[int, int]
    troubled: frozenset[int]
    left_out: dict[int, str]


@dataclass
class Lived:
    """An installation in `home`, with databases that have their schema; `clock` is that of what lies at its sources."""

    home: Path
    settings: Settings
    tracker: Engine
    qc: Engine
    clock: int = 0

    @property
    def installation(self) -> Installation:
        return Installation(self.tracker, self.settings, self.home)

    def add_source(self, centre: str, folder: Path, actions: Collection[Action], **changes: Any) -> None:
        """Register a centre, and a folder of it, which is made, as its source."""
        for action in actions:
            (folder / action).mkdir(parents=True)
        self.installation.add_centre(centre)
        self.installation.add_source(folder_address(folder, centre, **changes))

    def leave_out(self, step: str) -> None:
        self.settings = self.settings.model_copy(update={"left_out_steps": step})

    def date(self, path: Path) -> None:
        """Have an archive lie at its source for long enough not to be young."""
        moment = self.time()
        os.utime(path, (moment, moment))

    def time(self) -> int:
        self.clock += 10
        return BORN + self.clock


@dataclass
class Life(Lived):
    """The life of an installation with two centres."""

    _growing: list[tuple[Path, bytes, int]] = field(default_factory=list)
    _away: set[Place] = field(default_factory=set)

    def begin(self) -> None:
        for place, centre in CENTRES.items():
            self.add_source(centre, self.home / place, [Action.ADD])

    def path(self, place: Place, archive: int) -> Path:
        return self.home / place / "add" / name_of(archive)

    def upload(self, place: Place, copy: Copy) -> None:
        path = self.path(place, copy.archive)
        path.write_bytes(content_of(copy))
        self.date(path)

    def begin_upload(self, place: Place, copy: Copy) -> None:
        path, content = self.path(place, copy.archive), content_of(copy)
        path.write_bytes(content[: len(content) // 3])
        self._growing.append((path, content, self.time()))

    def remove(self, place: Place, archive: int) -> None:
        path = self.path(place, archive)
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.md5").unlink(missing_ok=True)

    def publish(self, place: Place, archive: int, copy: Copy | None) -> None:
        path = self.path(place, archive)
        beside = path.with_name(f"{path.name}.md5")
        if copy is None:
            beside.unlink(missing_ok=True)
        else:
            beside.write_text(hashlib.md5(content_of(copy), usedforsecurity=False).hexdigest())

    def go_away(self, place: Place) -> None:
        self._away.add(place)

    def delegate(self, in_force: bool) -> None:
        owner, other = CENTRES.values()
        with writing(self.tracker) as connection:
            given = bool(centres.list_delegations(connection))
            if in_force and not given:
                centres.delegate(connection, owner, other, recorded_by="tester")
            elif given and not in_force:
                centres.revoke_delegation(connection, owner, other, revoked_by="tester")

    def crawl(self) -> None:
        with self._meanwhile():
            run_session(self.tracker, self.settings, SessionRequest())

    def retry(self, archive: int) -> None:
        with self._meanwhile(), suppress(DccError):
            run_session(self.tracker, self.settings, SessionRequest(keys=[SubmissionKey(Action.ADD, name_of(archive))]))

    def holdings(self) -> Holdings:
        rows = rows_in(self.tracker, DOCUMENTS.order_by(XmlFile.id))
        newest = {row.fname: row.id for row in rows}
        # One for each entry of its log, in any order.
        latest = [(archive_of(row.fname), row) for row in rows if row.id == newest[row.fname]]
        documents = {archive: state_of(row.phase_id, row.status_id) for archive, row in latest}
        animals = column_in(self.qc, select(SPECIMEN.c.specimen_id).where(SPECIMEN.c.is_current))
        return Holdings(
            {archive_of(key): state for key, state in self.installation.states().items()},
            documents,
            dict(Counter(int(animal.rpartition("M")[2]) // 100 for animal in animals)),
            frozenset(archive for archive, row in latest if row.logged and documents[archive].endswith("failed")),
            {archive: row.logged.removeprefix(LEFT_OUT) for archive, row in latest if LEFT_OUT in (row.logged or "")},
        )

    @contextmanager
    def _meanwhile(self) -> Iterator[None]:
        """Places are away, and uploads go on, while a session is at work; afterwards they are complete."""
        for place in self._away:
            (self.home / place).rename(self.home / f"{place} away")
        stop = threading.Event()
        threads = [threading.Thread(target=_grow, args=(path, stop)) for path, _, _ in self._growing]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            for place in self._away:
                (self.home / f"{place} away").rename(self.home / place)
            self._away.clear()
            for path, content, moment in self._growing:
                path.write_bytes(content)
                os.utime(path, (moment, moment))
            self._growing.clear()


def _grow(path: Path, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        # A place that is away takes nothing.
        if path.exists():
            with path.open("ab") as file:
                file.write(b"more")


def state_of(phase: Phase, status: Status) -> str:
    return f"{phase.short_name} {status.short_name}"
