"""Rules about sessions: what they left when they ended, and what is unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, or_, select

from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.phases import Status
from dcc.session.leases import UNFINISHED, Lease
from dcc.tracker.lineage import KEY, is_at, key_of, state_of
from dcc.tracker.models import CrawlingSession, SessionTask, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.states import REQUESTED

_TAKEN_UP: Final = "The next session takes it up: dcc crawl"


def ended_sessions(connection: Connection, leases: Iterable[Lease]) -> Iterator[Inconsistency]:
    """C6."""
    held = {lease.session for lease in leases if not lease.is_dead}
    unfinished = or_(CrawlingSession.finish_time.is_(None), CrawlingSession.status == UNFINISHED)
    query = select(CrawlingSession.id, CrawlingSession.start_time).where(unfinished).order_by(CrawlingSession.id)
    for session_id, started in connection.execute(query):
        if session_id not in held:
            yield Inconsistency(
                "C6",
                f"session {session_id}",
                f"It began at {started} UTC and never ended; no process holds it. The next session records that "
                "it died, and takes up its work: dcc crawl",
            )
    tasks = (
        select(SessionTask.id, SessionTask.session_id, SessionTask.comment)
        .join(CrawlingSession)
        .where(or_(SessionTask.finish_time.is_(None), SessionTask.status == UNFINISHED))
        .where(CrawlingSession.finish_time.is_not(None))
        .order_by(SessionTask.id)
    )
    for task_id, session_id, comment in connection.execute(tasks):
        yield Inconsistency(
            "C6",
            f"task {task_id} of session {session_id}",
            f"It never ended ({comment}), though its session did. Look at dcc session list; report this as a fault.",
        )


def nothing_under_way(connection: Connection) -> Iterator[Inconsistency]:
    """C5. Only when no session is active."""
    running = int(Status.RUNNING)
    zips = (
        select(*KEY, ZipAction.phase_id, ZipAction.status_id)
        .join(ZipFile)
        .where(ZipAction.status_id == running)
        .order_by(ZipAction.id)
    )
    for zip_action in connection.execute(zips):
        yield _idle(str(key_of(zip_action)), zip_action)
    downloads = (
        select(ZipDownload.id, ZipDownload.phase_id, ZipDownload.status_id)
        .where(or_(ZipDownload.status_id == running, is_at(ZipDownload, REQUESTED)))
        .order_by(ZipDownload.id)
    )
    for download in connection.execute(downloads):
        yield _idle(f"download {download.id}", download)
    documents = (
        select(XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.status_id == running)
        .order_by(XmlFile.id)
    )
    for document in connection.execute(documents):
        yield _idle(f"document {document.id}, {document.fname}", document)


def _idle(subject: str, row: Any) -> Inconsistency:
    return Inconsistency("C5", subject, f"It is {state_of(row)}, though no session is active. {_TAKEN_UP}")
