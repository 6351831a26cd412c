"""The sections of a session's report beside causes: failed, waiting, held and late archives, and findings of crawls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from dcc.messages import mark, message
from dcc.outcomes import HELD, NO_ROOM, WAITS, Problem, ZipKey
from dcc.phases import Status
from dcc.reports.causes.skipped_archives import SkipReason, why_not_crawled
from dcc.reports.submissions.model import Note, Noted, Section
from dcc.rules.upload import LATE
from dcc.sources.crawl_policy import DueReason
from dcc.tracker.crawls import SessionEntry, session_findings
from dcc.tracker.hostings.older_archives import zips_that_wait
from dcc.tracker.queries.zip_stories import DocumentStory, zip_story
from dcc.tracker.register.centres import list_centres
from dcc.tracker.register.file_sources import list_sources
from dcc.tracker.register.source_addresses import load_crawl_dues
from dcc.tracker.session_statistics import (
    SessionZip,
    session_entries,
    session_zip_ids,
    session_zips,
    zips_without_room,
)

_MAX_NOTES: Final = 20
_MAX_DOCUMENTS: Final = 5
"""Documents of one archive that a section lists."""
_MAX_ERRORS: Final = 3


def sections_of(
    connection: Connection, session: SessionEntry, failure_limit: int, *, is_newest: bool
) -> tuple[Section, ...]:
    """The sections of a session's report that have anything, those that need somebody first.

    `failure_limit` is that of DCC_SOURCE_FAILURE_LIMIT. Unless the session `is_newest`, those that tell what is now are
    left out.
    """
    failed = [zipped for zipped in session_zips(connection, session) if zipped.status is Status.FAILED]
    names = {entry.short_name: entry.full_name for entry in list_centres(connection)}
    waiting = zips_that_wait(connection, session_zip_ids(connection, session)).values()
    no_room = zips_without_room(connection) if is_newest else []
    without_room = [(key, Problem(NO_ROOM, reason)) for key, reason in no_room]
    findings = [Note((Problem(one.kind, one.said),), 1) for one in session_findings(connection, session.id)]
    alone = _left_alone(connection, session, failure_limit) if is_newest else []
    held, late = (session_entries(connection, session, [kind]) for kind in (HELD, LATE))
    found: dict[Noted, tuple[Iterable[Note], int]] = {
        Noted.FAILED: ((_failure(connection, zipped, names) for zipped in failed[:_MAX_NOTES]), len(failed)),
        Noted.WITHOUT_ROOM: ((_about(*each) for each in without_room[:_MAX_NOTES]), len(without_room)),
        Noted.HELD: (_of_documents(held), len(held)),
        Noted.FINDINGS: (findings[:_MAX_NOTES], len(findings)),
        Noted.LATE: (_of_documents(late), len(late)),
        Noted.IN_ORDER: (
            [_about(key, Problem(WAITS, older.translatable)) for key, older in list(waiting)[:_MAX_NOTES]],
            len(waiting),
        ),
        Noted.LEFT_ALONE: (alone[-_MAX_NOTES:], len(alone)),
    }
    return tuple(Section(kind, tuple(notes), total) for kind, (notes, total) in found.items() if total)


def _about(name: object, problem: Problem) -> Note:
    return Note((problem,), 1, str(name))


def _of_documents(entries: Mapping[ZipKey, Sequence[tuple[str, Problem]]]) -> Iterable[Note]:
    for key, found in list(entries.items())[:_MAX_NOTES]:
        documents = tuple(_about(*each) for each in found[:_MAX_DOCUMENTS])
        yield Note(name=str(key), documents=documents, documents_total=len(found))


def _failure(connection: Connection, zipped: SessionZip, names: Mapping[str, str]) -> Note:
    story = zip_story(connection, zipped.key)
    failed = [document for document in story.documents if document.status is Status.FAILED]
    # Errors of the latest attempt; the submission's own may be of an earlier one.
    reasons = (story.latest.reasons if story.latest else ()) or (() if failed else story.reasons[-1:])
    problems = reasons[-_MAX_ERRORS:]
    centre = zipped.centre or next(iter(zipped.hosts), "")
    return Note(
        problems,
        len(problems),
        str(zipped.key),
        centre=", ".join(filter(None, (centre, names.get(centre)))),
        failed_at=story.phase,
        documents=tuple(map(_failed_document, failed[:_MAX_DOCUMENTS])),
        documents_total=len(failed),
    )


def _failed_document(document: DocumentStory) -> Note:
    errors = tuple(problem for problem in document.errors if problem.is_error)
    return Note(errors[:_MAX_ERRORS], len(errors), document.file_name, failed_at=document.phase)


def _left_alone(connection: Connection, session: SessionEntry, failure_limit: int) -> list[Note]:
    """The sources that were not due, or failed too often, with the reason; those listed not long ago are counted."""
    crawled = {crawl.source for crawl in session.crawls}
    dues = load_crawl_dues(connection, failure_limit)
    notes, recent = [], 0
    for source in list_sources(connection):
        due = dues.get(source.id)
        was_due = source.id in crawled and (due is None or due.why is not DueReason.FAILING)
        if due is None or was_due or source.centre not in (session.centres or (source.centre,)):
            continue
        recent += due.why is DueReason.RECENT
        reasons = why_not_crawled(source, None if due.why is DueReason.RECENT else due)
        problems = tuple(Problem(entry.why, entry.for_wranglers or entry.message) for entry in reasons)
        if problems:
            notes.append(Note(problems, len(problems), source.label))
    if recent:
        notes.append(_about("", Problem(SkipReason.NOT_DUE, message(_RECENT, number=recent))))
    return notes


_RECENT: Final = mark("Sources that were listed not long ago: {number}.")
