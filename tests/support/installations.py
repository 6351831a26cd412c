"""An installation to try things on: a tracker, centres, file sources, and a way to run a crawling session."""

import errno
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, select, update

from dcc.cli.demo import submissions
from dcc.databases.transactions import writing
from dcc.errors import TransferFailedError
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import EndReason, SourceCrawl, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase, Status
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.session_request import SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.folder import LocalConnection
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.register import centres, file_sources
from tests.support.asking import count_in, execute_in, in_writing, rows_in

MODIFIED = 1_400_000_000


def specimens(centre: str = "H", stem: str = "2013-10-31.1", mice: int = 2) -> dict[str, bytes]:
    """A conforming, valid specimen document, by its name."""
    return {f"{centre}.{stem}.specimen.impc.xml": submissions.specimen_document(centre, mice=mice)}


def experiments(centre: str = "H", stem: str = "2013-10-31.1", at_least: int = 0) -> dict[str, bytes]:
    """A conforming, valid experiment document, by its name."""
    document = submissions.experiment_document(centre, animals=2, at_least=at_least)
    return {f"{centre}.{stem}.experiment.impc.xml": document}


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def folder_address(path: Path, centre: str = "H", **changes: Any) -> SourceAddress:
    """A folder of this machine as a file source to be registered."""
    address = SourceAddress(0, centre, SourceProtocol.FILE, "localhost", "", SecretStr(""), str(path))
    return replace(address, **changes)


@dataclass
class Folder:
    """The folder that a file source serves: archives are put below `add`, `edit` and `delete`."""

    path: Path
    source_id: int = 0

    def put(self, key: str, content: bytes | Mapping[str, bytes] | None = None, modified: int = MODIFIED) -> bytes:
        """Put the archive `<action>/<name>` there: these bytes, or these documents; by default a valid one."""
        data = specimens() if content is None else content
        archive = data if isinstance(data, bytes) else submissions.archive(data)
        path = self.path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive)
        os.utime(path, (modified, modified))
        return archive


@dataclass
class SessionResult:
    """What a session yielded: crawls by source id, outcomes by `<action>/<name>`, its notices, and why it ended."""

    id: int
    crawls: dict[int, SourceCrawl] = field(default_factory=dict)
    zips: dict[str, SubmissionOutcome] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    closing_notices: tuple[str, ...] = ()
    ended: EndReason | None = None


@dataclass
class Installation:
    """A tracker with what is needed to run sessions on it."""

    tracker: Engine
    settings: Settings
    root: Path

    def add_centre(self, *codes: str) -> None:
        with writing(self.tracker) as connection:
            for code in codes:
                centres.add_centre(connection, centres.CentreDetails(code, full_name=f"Centre {code}"))

    def add_source(self, address: SourceAddress) -> int:
        """Register a file source; returns its id."""
        return in_writing(self.tracker, file_sources.add_source, address)

    def add_folder(self, centre: str = "H", name: str = "centre") -> Folder:
        """A file source that is a local folder."""
        path = self.root / name
        path.mkdir()
        return Folder(path, self.add_source(folder_address(path, centre)))

    def with_settings(self, **changes: object) -> Self:
        return replace(self, settings=self.settings.model_copy(update=changes))

    def run_session(
        self, source_ids: Sequence[int] | None = None, *, crawl: bool = True, group: str | None = None
    ) -> SessionResult:
        """Run a whole crawling session, of a group or of all centres, or only its processing."""
        request = SessionRequest(group=group, source_ids=source_ids)
        with open_session(self.tracker, self.settings, request) as session:
            result = SessionResult(session.id, notices=session.notices)
            if crawl:
                for crawled in crawl_file_sources(session, source_ids):
                    result.crawls[crawled.source_id] = crawled
            for outcome in process_zip_actions(session):
                result.zips[str(outcome.key)] = outcome
        result.closing_notices = session.notices[len(result.notices) :]
        result.ended = session.ended
        return result

    def crawl(self, group: str | None = None, *, hand_over: bool = False) -> SessionResult:
        """List the sources of a group or of all centres in a session that fetches nothing."""
        with open_session(self.tracker, self.settings, SessionRequest(group=group)) as session:
            crawls = {crawled.source_id: crawled for crawled in crawl_file_sources(session)}
            if hand_over:
                session.hand_over()
        return SessionResult(session.id, crawls, ended=session.ended)

    def process_again(self, *keys: str) -> SessionResult:
        """Re-open zip actions by name and process them: `dcc retry`."""
        named = [SubmissionKey(Action(key.partition("/")[0]), key.partition("/")[2]) for key in keys]
        with open_session(self.tracker, self.settings, SessionRequest(requested_by="tester")) as session:
            result = SessionResult(session.id)
            for outcome in process_zip_actions(session, named):
                result.zips[str(outcome.key)] = outcome
        return result

    def states(self) -> dict[str, str]:
        """The state of each zip action, `<action>/<name>` to `<phase> <status>`."""
        query = select(ZipFile.file_name, ZipAction.todo_id, ZipAction.phase_id, ZipAction.status_id).join(
            ZipAction, ZipAction.zip_id == ZipFile.id
        )
        return {
            f"{row.todo_id}/{row.file_name}": _state(row.phase_id, row.status_id)
            for row in rows_in(self.tracker, query)
        }

    def attempts(self, key: str) -> list[tuple[int, str]]:
        """The download attempts of a zip action, oldest first: file source and state of each."""
        action, _, name = key.partition("/")
        query = (
            select(FileSourceHasZip.file_source_id, ZipDownload.phase_id, ZipDownload.status_id)
            .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
            .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
            .join(ZipFile, ZipFile.id == ZipAction.zip_id)
            .where(ZipFile.file_name == name, ZipAction.todo_id == Action(action))
            .order_by(ZipDownload.id)
        )
        return [(row.file_source_id, _state(row.phase_id, row.status_id)) for row in rows_in(self.tracker, query)]

    def documents(self) -> list[tuple[str, str]]:
        """All rows of `xml_file`: name and state, by name."""
        query = select(XmlFile.fname, XmlFile.phase_id, XmlFile.status_id).order_by(XmlFile.fname, XmlFile.id)
        return [(row.fname, _state(row.phase_id, row.status_id)) for row in rows_in(self.tracker, query)]

    def count(self, model: type) -> int:
        return count_in(self.tracker, model)

    def staged(self) -> dict[str, bytes]:
        root = self.settings.staging_directory
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@contextmanager
def growing(path: Path, content: bytes) -> Iterator[None]:
    """The file has half of the content, and some more each tenth of a second until the end."""
    half = len(content) // 2
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[:half])
    stop = threading.Event()

    def upload() -> None:
        with path.open("ab", buffering=0) as file:
            for byte in content[half:-1]:
                if stop.wait(0.1):
                    return
                file.write(bytes([byte]))

    thread = threading.Thread(target=upload)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def until_the_next_second() -> None:
    """Times are kept to the second: what happens from here on is later than what happened before."""
    time.sleep(1.01 - time.time() % 1)


def note_uploaded(tracker: Engine) -> None:
    """Have the tracker say that the data of all documents were uploaded."""
    execute_in(tracker, update(XmlFile).values(phase_id=Phase.UPLOAD, status_id=Status.DONE))


def note_withdrawn(tracker: Engine) -> None:
    """Have the tracker say that the data of all documents were withdrawn."""
    execute_in(tracker, update(XmlFile).values(phase_id=Phase.UPLOAD, status_id=Status.CANCELLED))


def _state(phase: Phase, status: Status) -> str:
    return f"{phase.short_name} {status.short_name}"


@pytest.fixture
def installation(tracker: Engine, settings: Settings, tmp_path: Path) -> Installation:
    """An installation with the centres H and J registered, quick to try again."""
    quick = settings.model_copy(update={"retry_delay": 0.05, "min_free_bytes": 0})
    made = Installation(tracker, quick, tmp_path)
    made.add_centre("H", "J")
    return made


@pytest.fixture
def folder(installation: Installation) -> Folder:
    """The folder of centre H, served as a file source."""
    return installation.add_folder()


@dataclass
class Fetches:
    """The archives that are fetched from folders: from which folder each, by its name, and from which offset.

    Nothing is fetched from the folders that are `away`. So many of the next transfers from a folder `break_off` after
    ten bytes. The disk is `full` for those from some folders.
    """

    folders: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    away: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    break_off: Counter[str] = field(default_factory=Counter)

    def breaks_off(self, folder: str, offset: int) -> bool:
        """Note a transfer; returns whether it is to break off. Raises what hinders its beginning."""
        if folder in self.away:
            raise TransferFailedError(f"{folder} broke off.")
        if folder in self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.folders.append(folder)
        self.offsets.append(offset)
        self.break_off[folder] -= 1
        return self.break_off[folder] >= 0


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    """Notes what is fetched from folders, and hinders it."""
    noted, fetch = Fetches(), LocalConnection.fetch

    def noting(self: LocalConnection, action: Action, name: str, sink: Any, *, offset: int = 0, **named: Any) -> None:
        if name.endswith(".zip") and noted.breaks_off(self._base.name, offset):
            sink((self._base / action / name).read_bytes()[offset : offset + 10])
            raise TransferFailedError(f"{self._base.name} broke off. The session tries again.")
        fetch(self, action, name, sink, offset=offset, **named)

    monkeypatch.setattr(LocalConnection, "fetch", noting)
    return noted
