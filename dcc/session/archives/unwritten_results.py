"""Results of submissions since the last commit, written to the tracker in one transaction.

They are collected in memory and written as a whole. So a failed write can be repeated from the start, and many
submissions at once need few statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from sqlalchemy import Connection, bindparam, update

from dcc.databases.transactions import insert_rows
from dcc.outcomes import AttemptOutcome, Problem
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.session.archives.active_submissions import ActiveSubmission, ArchiveDocument
from dcc.session.archives.waiting_attempts import PlannedAttempt
from dcc.session.data.document_log import kind_id, rewrite_log
from dcc.session.fetching.archive_transfer import ReceivedArchive
from dcc.store.copies import StoredCopies
from dcc.tracker import progress
from dcc.tracker.hostings.copies import (
    NewBadCopy,
    earlier_copies,
    forget_bad_copies,
    record_bad_copies,
    record_published,
)
from dcc.tracker.hostings.download_plan import StagedSubmission
from dcc.tracker.hostings.hosting import EarlierCopy, Hosting
from dcc.tracker.hostings.staged_copies import begin_from_staging
from dcc.tracker.listings.findings import ArrivedArchive, note_arrived
from dcc.tracker.models import FileSourceHasZip, ZipDownload, ZipFile, ZipLog
from dcc.tracker.problems import problem_columns
from dcc.tracker.progress import NewDocument, StateReport, Subject
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.stored_archives import record_stored_archives
from dcc.tracker.submission_rows import action_states

NOT_FETCHED: Final = State(Phase.DOWNLOAD, Status.CANCELLED)
_LARGEST_COUNT: Final = 255
_COUNT_RETRY: Final = (
    update(FileSourceHasZip)
    .where(FileSourceHasZip.id == bindparam("number"), FileSourceHasZip.num_retries < _LARGEST_COUNT)
    .values(num_retries=FileSourceHasZip.num_retries + 1)
)


@dataclass
class WrittenResults:
    """The result of writing: ids of new downloads, earlier attempts by hosting, and states of submissions."""

    download_ids: list[int]
    earlier: dict[int, EarlierCopy]
    document_ids: list[list[int]]
    states: dict[int, State]
    staged: list[StagedSubmission]


class DownloadColumns(TypedDict, total=False):
    """The columns of a download's row that change in the course of it."""

    request: datetime
    received: datetime
    downloaded_size_bytes: int
    outcome: str
    content_size_bytes: int | None
    content_md5: str
    etag: str | None
    last_modified: str | None


@dataclass
class UnwrittenResults:
    """Results to be written together. All times are in UTC.

    `changes` are the new values of columns, by row; `problems` are by the ids of attempts. `checked`: documents that a
    dead session recorded, by row. `without_further_attempt`: the submissions whose last attempt had no bytes, with the
    state that it gave, if any. `staged`: those that use the copy in staging. `stored`: what the archive store received
    from which attempt. `arrived`: archives whose size is known by now.
    """

    reports: dict[int, StateReport] = field(default_factory=dict)
    changes: dict[tuple[type[ZipDownload | ZipFile], int], dict[str, object]] = field(default_factory=dict)
    problems: dict[int, list[Problem]] = field(default_factory=dict)
    extracted: list[ActiveSubmission] = field(default_factory=list)
    checked: dict[int, ArchiveDocument] = field(default_factory=dict)
    downloads: list[PlannedAttempt] = field(default_factory=list)
    bad_copies: list[NewBadCopy] = field(default_factory=list)
    published: list[tuple[Hosting, str]] = field(default_factory=list)
    without_further_attempt: dict[int, State | None] = field(default_factory=dict)
    staged: list[ActiveSubmission] = field(default_factory=list)
    stored: list[tuple[int, StoredCopies]] = field(default_factory=list)
    finished: list[ActiveSubmission] = field(default_factory=list)
    arrived: list[ArrivedArchive] = field(default_factory=list)

    def report_state(self, submission: ActiveSubmission, state: State, *, promote: bool = True) -> None:
        """Report the state of a submission's attempt; a later report on the same one replaces an earlier one."""
        number = submission.attempt.download_id
        self.reports[number] = StateReport(Subject.ZIP_DOWNLOAD, number, state, promote)

    def add_problems(self, submission: ActiveSubmission, problems: Iterable[Problem]) -> None:
        """Add problems that a submission's attempt met."""
        self.problems.setdefault(submission.attempt.download_id, []).extend(problems)

    def change_download(self, number: int, **values: Unpack[DownloadColumns]) -> None:
        """Give columns of a download new values."""
        self.changes.setdefault((ZipDownload, number), {}).update(values)

    def cancel(self, number: int) -> None:
        """Record that a requested attempt did not begin."""
        self.end(number, AttemptOutcome.CANCELLED)
        self.reports[number] = StateReport(Subject.ZIP_DOWNLOAD, number, NOT_FETCHED, promote=False)

    def end(self, number: int, outcome: AttemptOutcome, received: ReceivedArchive | None = None) -> None:
        """Record how an attempt ended, now, and what arrived."""
        self.change_download(number, received=utc_now(), outcome=outcome.value)
        if received is None:
            return
        sent_bytes = received.size_bytes if received.is_sent else 0
        self.change_download(number, downloaded_size_bytes=sent_bytes, content_size_bytes=received.size_bytes)
        if received.validators is not None:
            etag, last_modified = received.validators.etag, received.validators.last_modified
            self.change_download(number, etag=etag, last_modified=last_modified)

    def note_archive(self, submission: ActiveSubmission) -> None:
        """Record the size and the MD5 of a submission's archive, as far as they are known."""
        archive, attempt = submission.archive, submission.attempt
        if archive is None:
            return
        found = {"size_bytes": archive.size_bytes, "content_md5": archive.md5}
        self.changes.setdefault((ZipFile, submission.zip_id), {}).update(found)
        arrived = (submission.zip_id, submission.za_id, attempt.hosting.source_id, submission.key, archive.size_bytes)
        self.arrived.append(ArrivedArchive(*arrived))
        if archive.md5:
            self.change_download(attempt.download_id, content_md5=archive.md5)

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def write(self, connection: Connection, session_id: int) -> WrittenResults:
        """Write everything for a session, in the caller's transaction. Changes nothing in memory."""
        progress.report(connection, list(self.reports.values()))
        note_arrived(connection, session_id, self.arrived)
        self._change_rows(connection)
        document_ids = self._write_documents(connection)
        insert_rows(
            connection,
            ZipLog,
            [
                {"zip_id": number, "exception_id": kind_id(connection, problem.kind), **problem_columns(problem)}
                for number, problems in self.problems.items()
                for problem in problems
            ],
        )
        record_bad_copies(connection, self.bad_copies)
        forget_bad_copies(connection, (one.attempt.hosting.id for one in self.extracted))
        record_published(connection, self.published)
        record_stored_archives(connection, self.stored)
        failures = {za_id: state for za_id, state in self.without_further_attempt.items() if state is not None}
        progress.fall_back_to_last_bytes(connection, self.without_further_attempt.keys(), failures)
        return WrittenResults(
            self._add_downloads(connection, session_id),
            earlier_copies(connection, [hosting.id for _, hosting in self.downloads]),
            document_ids,
            action_states(connection, (one.za_id for one in self.finished)),
            begin_from_staging(connection, session_id, [one.staged for one in self.staged if one.staged]),
        )

    def _change_rows(self, connection: Connection) -> None:
        by_columns: dict[tuple[Any, tuple[str, ...]], list[dict[str, object]]] = defaultdict(list)
        for (model, number), values in self.changes.items():
            by_columns[model.__table__, tuple(sorted(values))].append({"number": number, **values})
        for (table, _), rows in by_columns.items():
            connection.execute(update(table).where(table.c.id == bindparam("number")), rows)

    def _write_documents(self, connection: Connection) -> list[list[int]]:
        """Add the documents of opened archives, and report known ones; returns ids for each archive, in order."""
        new = [
            (submission, document)
            for submission in self.extracted
            for document in submission.documents
            if document.row_id is None
        ]
        centres = centre_ids(connection) if new else {}
        ids = progress.add_documents(connection, [_new_document(*found, centres) for found in new])
        known = list(self.checked.items())
        progress.report(
            connection, [StateReport(Subject.XML_FILE, number, document.state) for number, document in known]
        )
        written = [(number, document) for number, (_, document) in zip(ids, new, strict=True)] + known
        problems = {number: document.problems for number, document in written if document.problems}
        rewrite_log(connection, problems, clears_others=False)
        numbers = iter(ids)
        return [
            [next(numbers) if document.row_id is None else document.row_id for document in submission.documents]
            for submission in self.extracted
        ]

    def _add_downloads(self, connection: Connection, session_id: int) -> list[int]:
        retries = [
            {"number": hosting.id}
            for submission, hosting in self.downloads
            if hosting.failed_before or hosting.id in submission.choice.failed
        ]
        if retries:
            connection.execute(_COUNT_RETRY, retries)
        hostings = [hosting.id for _, hosting in self.downloads]
        listed = [
            {"listed_size_bytes": hosting.size_bytes, "listed_modified": hosting.modified, "session_id": session_id}
            for _, hosting in self.downloads
        ]
        return progress.add_downloads(connection, hostings, utc_now(), more=listed)


def _new_document(submission: ActiveSubmission, document: ArchiveDocument, centres: Mapping[str, int]) -> NewDocument:
    name = document.name
    return NewDocument(
        download_id=submission.attempt.download_id,
        file_name=document.file_name,
        centre_id=centres.get(name.centre) if name else None,
        created=name.created if name else None,
        inc=name.inc if name else None,
        size_bytes=document.size_bytes,
        md5=document.md5,
        state=document.state,
        place=document.place,
        archives=document.archives,
    )
