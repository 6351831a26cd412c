"""A history lived for real: two folders that are served, an installation, and its sessions."""

import hashlib
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, select

from dcc.cli.demo import submissions
from dcc.cli.sessions.crawl import run_session
from dcc.errors import DccError
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.qc.models import SPECIMEN
from dcc.session.listeners import NOBODY
from dcc.settings import Settings
from dcc.sources.base import SourceProtocol
from dcc.tracker.models import AnException, XmlFile, XmlLog, ZipAction, ZipFile
from tests.histories.happenings import Copy, Form, Place, Version
from tests.support.installations import Installation
from tests.support.servers import Share

CENTRES: Final = {Place.OWN: "H", Place.MIRROR: "J"}
QUIET_SECONDS: Final = 0.3
BORN: Final = 1_400_000_000


def name_of(archive: int) -> str:
    """The file name of an archive."""
    return f"H.2014-01-{archive + 1:02d}.1.impc.zip"


@cache
def content_of(copy: Copy) -> bytes:
    """The bytes of a copy."""
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


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the databases hold: the state of each archive, of its documents, and the animals that are current.

    `animals` are the numbers of current animals by archive; `troubled` are the archives with a document that failed and
    has its reason in the log. `left_out` are the steps that are noted as left out of documents, by archive.
    """

    states: dict[int, str]
    documents: dict[int, tuple[str, ...]]
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

    def add_source(self, centre: str, folder: Path, actions: Collection[Action], **changes: Any) -> None:
        """Register a centre, and a folder of it, which is made, as its source."""
        for action in actions:
            (folder / action).mkdir(parents=True)
        installation = Installation(self.tracker, self.settings, self.home)
        installation.add_centre(centre)
        share = Share(folder, SourceProtocol.FILE, "localhost", base_path=str(folder))
        installation.add_source(share.address(centre=centre, **changes))

    def leave_out(self, step: str) -> None:
        """Leave out a step from now on; an empty one: none."""
        self.settings = self.settings.model_copy(update={"left_out_steps": step})

    def date(self, path: Path) -> None:
        """Have an archive lie at its source for long enough not to be young."""
        moment = self.time()
        os.utime(path, (moment, moment))

    def time(self) -> int:
        """A time later than all that were asked for before."""
        self.clock += 10
        return BORN + self.clock


@dataclass
class Life(Lived):
    """The life of an installation with two centres."""

    _growing: list[tuple[Path, bytes, int]] = field(default_factory=list)
    _away: set[Place] = field(default_factory=set)

    def begin(self) -> None:
        """Register the two centres and their sources."""
        for place, centre in CENTRES.items():
            self.add_source(centre, self.home / place, [Action.ADD])

    def path(self, place: Place, archive: int) -> Path:
        """Where an archive lies at a place."""
        return self.home / place / "add" / name_of(archive)

    def upload(self, place: Place, copy: Copy) -> None:
        """Put a copy at a place, long enough ago not to be young."""
        path = self.path(place, copy.archive)
        path.write_bytes(content_of(copy))
        self.date(path)

    def begin_upload(self, place: Place, copy: Copy) -> None:
        """Let a copy arrive during the next session."""
        path, content = self.path(place, copy.archive), content_of(copy)
        path.write_bytes(content[: len(content) // 3])
        self._growing.append((path, content, self.time()))

    def remove(self, place: Place, archive: int) -> None:
        """Take an archive and its checksum away."""
        path = self.path(place, archive)
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.md5").unlink(missing_ok=True)

    def publish(self, place: Place, archive: int, copy: Copy | None) -> None:
        """Put the checksum of a copy beside an archive, or take it away."""
        path = self.path(place, archive)
        beside = path.with_name(f"{path.name}.md5")
        if copy is None:
            beside.unlink(missing_ok=True)
        else:
            beside.write_text(hashlib.md5(content_of(copy), usedforsecurity=False).hexdigest())

    def go_away(self, place: Place) -> None:
        """Have a place not there for the next session."""
        self._away.add(place)

    def crawl(self) -> None:
        """Run a session."""
        with self._meanwhile():
            run_session(self.tracker, self.settings, listeners=NOBODY)

    def retry(self, archive: int) -> str | None:
        """Run a session for one archive; the name of the error that refused it."""
        with self._meanwhile():
            try:
                run_session(self.tracker, self.settings, listeners=NOBODY, keys=[ZipKey(Action.ADD, name_of(archive))])
            except DccError as error:
                return type(error).__name__
        return None

    def holdings(self) -> Holdings:
        """What the databases hold."""
        numbers = {name_of(archive): archive for archive in range(31)}
        with self.tracker.connect() as connection:
            states = connection.execute(
                select(ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id).join(
                    ZipAction, ZipAction.zip_id == ZipFile.id
                )
            ).all()
            latest: dict[str, tuple[int, str]] = {}
            logs = select(XmlLog.xml_id, AnException.short_name).join(AnException).where(XmlLog.cleared.is_(None))
            logged = dict(connection.execute(logs).all())
            for row in connection.execute(
                select(XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id).order_by(XmlFile.id)
            ):
                latest[row.fname] = row.id, state_of(row.phase_id, row.status_id)
        with self.qc.connect() as connection:
            animals = connection.scalars(select(SPECIMEN.c.specimen_id).where(SPECIMEN.c.is_current)).all()
        documents: dict[int, tuple[str, ...]] = {}
        troubled, left_out = set(), {}
        for name, (number, state) in latest.items():
            archive = numbers[name.replace(".specimen.impc.xml", ".impc.zip")]
            documents[archive] = (*documents.get(archive, ()), state)
            if number in logged and state.endswith("failed"):
                troubled.add(archive)
            if (kind := logged.get(number, "")).startswith(LEFT_OUT):
                left_out[archive] = kind.removeprefix(LEFT_OUT)
        found: dict[int, int] = {}
        for animal in animals:
            archive = int(animal.rpartition("M")[2]) // 100
            found[archive] = found.get(archive, 0) + 1
        return Holdings(
            {numbers[row.file_name]: state_of(row.phase_id, row.status_id) for row in states},
            documents,
            found,
            frozenset(troubled),
            left_out,
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


def state_of(phase: int, status: int) -> str:
    return f"{Phase(phase).short_name} {Status(status).short_name}"
