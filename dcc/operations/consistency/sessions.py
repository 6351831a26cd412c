"""Rules about sessions: what they left when they ended, and what is unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sqlalchemy import Connection, or_, select

from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.operations.consistency.tracker_rows import key_of, state_of
from dcc.phases import Phase, Status
from dcc.session.leases import UNFINISHED, Lease
from dcc.tracker.models import CrawlingSession, SessionTask, XmlFile, ZipAction, ZipDownload, ZipFile

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
        .join(CrawlingSession, CrawlingSession.id == SessionTask.session_id)
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
        select(ZipAction.todo_id, ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(ZipAction.status_id == running)
        .order_by(ZipAction.id)
    )
    for todo, name, phase, status in connection.execute(zips):
        yield _idle(str(key_of(todo, name)), phase, status)
    downloads = (
        select(ZipDownload.id, ZipDownload.phase_id, ZipDownload.status_id)
        .where(
            or_(
                ZipDownload.status_id == running,
                (ZipDownload.status_id == int(Status.PENDING)) & (ZipDownload.phase_id == int(Phase.DOWNLOAD)),
            )
        )
        .order_by(ZipDownload.id)
    )
    for download_id, phase, status in connection.execute(downloads):
        yield _idle(f"download {download_id}", phase, status)
    documents = (
        select(XmlFile.id, XmlFile.fname, XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.status_id == running)
        .order_by(XmlFile.id)
    )
    for document_id, name, phase, status in connection.execute(documents):
        yield _idle(f"document {document_id}, {name}", phase, status)


def _idle(subject: str, phase: int, status: int) -> Inconsistency:
    return Inconsistency("C5", subject, f"It is {state_of(phase, status)}, though no session is active. {_TAKEN_UP}")
