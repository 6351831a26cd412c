"""The causes of what stopped documents and archives before rules looked at them: read from the tracker's logs.

Of each zip action what its latest download came to counts, and what holds no more does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, literal, null, or_, select

from dcc.declarations import VALUE, cause_id
from dcc.errors import ArchiveRemovedError, MemberIgnoredError
from dcc.messages import Details, message_from_json
from dcc.outcomes import HELD
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.qc.apply.versions import in_chunks
from dcc.reports.causes.cause import Cause, Example
from dcc.reports.causes.counting import CauseCounter, Group
from dcc.reports.causes.errors import declared_code
from dcc.reports.causes.permitted import nearest_of
from dcc.reports.causes.zip_scopes import FAILED_AS_A_WHOLE, FaultyZips, Scope, latest_downloads_of, zip_conditions
from dcc.rules.catalogue import CATALOGUE
from dcc.tracker.models import (
    AnException,
    Centre,
    FileSource,
    FileSourceHasZip,
    ProtocolRow,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.vocabulary import Severity

Counted = tuple[Any, int, Cause]
"""A cause with the log that tells of it, and the id of an entry there that is an example."""

_PAGE: Final = 1_000
_OF_RULES: Final = (*CATALOGUE, HELD)
_IGNORED: Final = MemberIgnoredError.short_name()


def count_submission_causes(connection: Connection, scope: Scope, faulty: FaultyZips) -> list[Counted]:
    """The causes of what is wrong with the documents and archives of a scope, in no order.

    Three statements, of zips three for every 400, whose rows are not held.
    """
    elsewhere = faulty.in_documents | faulty.in_data
    counters: dict[Any, CauseCounter] = {
        XmlLog: CauseCounter(faulty.as_a_whole | faulty.in_data),
        ZipLog: CauseCounter(elsewhere),
        ZipActionLog: CauseCounter(elsewhere),
    }
    for condition in zip_conditions(scope):
        entries: dict[Any, Select[Any]] = {
            XmlLog: _document_errors(condition),
            ZipLog: _reasons(condition),
            ZipActionLog: _refusals(condition),
        }
        for log, query in entries.items():
            in_order = query.order_by(ZipFile.file_name, ZipAction.todo_id, "document", log.id)
            for row in connection.execute(in_order, execution_options={"yield_per": _PAGE}):
                counters[log].take(_group(row))
    return [(log, first, cause) for log, counter in counters.items() for first, cause in counter.causes()]


def with_logged_examples(connection: Connection, causes: Sequence[Counted]) -> list[Cause]:
    """The causes, each with its details and its example."""
    found: dict[tuple[Any, int], Any] = {}
    for log, entries in _ENTRIES.items():
        for ids in in_chunks(sorted(number for each, number, _ in causes if each is log)):
            found.update({(log, row.id): row for row in connection.execute(entries.where(log.id.in_(ids)))})
    return [
        replace(cause, details=_details(found[log, number]), example=logged_example(found[log, number]))
        if (log, number) in found
        else cause
        for log, number, cause in causes
    ]


def logged_after(condition: ColumnElement[bool], last: int, most: int) -> Select[Any]:
    """The entries of documents' logs after the one with the id `last`, but for those of rules; at most so many."""
    return _document_errors(condition).where(XmlLog.id > last).order_by(XmlLog.id).limit(most)


def logged_example(row: Any) -> Example:
    """An entry of a log as an example."""
    said = message_from_json(row.details, row.message or "")
    details = said.known
    permitted, value = tuple(details.get("permitted", ())), details.get("found")
    return Example(
        zip=f"{ACTIONS_BY_ID[row.todo_id]}/{row.file_name}",
        document=row.document_name,
        line=row.line,
        column=row.col,
        element=details.get("what"),
        value=value,
        said=said,
        expected=details.get("expected"),
        permitted=permitted,
        nearest=nearest_of(permitted, value),
    )


def _details(row: Any) -> Details:
    """The details of an entry of a log, of which a download's source is the value."""
    known = message_from_json(row.details, "").known
    return known if row.source is None else {**known, VALUE: row.source}


def _group(row: Any) -> Group:
    code = declared_code(row.kind, row.code)
    return Group(
        zip_action=ACTIONS_BY_ID[row.todo_id].value,
        zip_file=row.file_name,
        centre=row.centre or "",
        document=row.document,
        code=code,
        cause=cause_id(code, _details(row)),
        severity=(Severity.WARNING if row.kind == _IGNORED else Severity.ERROR).value,
        first=row.id,
    )


_HOST: Final = (
    select(func.min(Centre.short_name))
    .join(FileSource, FileSource.centre_id == Centre.id)
    .join(FileSourceHasZip, FileSourceHasZip.file_source_id == FileSource.id)
    .where(FileSourceHasZip.za_id == ZipAction.id)
    .correlate(ZipAction)
    .scalar_subquery()
)
_OF_NAME: Final = select(Centre.short_name).where(Centre.id == ZipFile.centre_id).correlate(ZipFile).scalar_subquery()
_SOURCE: Final = (
    select(Centre.short_name + literal(", ") + ProtocolRow.short_name + literal("://") + FileSource.hostname)
    .join(FileSource, FileSource.centre_id == Centre.id)
    .join(ProtocolRow, ProtocolRow.id == FileSource.protocol_id)
    .where(FileSource.id == FileSourceHasZip.file_source_id)
    .correlate(FileSourceHasZip)
    .scalar_subquery()
)


def _entries(log: Any, *, of_document: bool = False, of_download: bool = False) -> Select[Any]:
    """The entries of a log with what each is about, joined with `zip_action`, `zip_file` and the kind of error."""
    query = select(
        log.id,
        log.message,
        log.code,
        log.details,
        ZipAction.todo_id,
        ZipFile.file_name,
        func.coalesce(_OF_NAME, _HOST).label("centre"),
        AnException.short_name.label("kind"),
        (XmlFile.id if of_document else null()).label("document"),
        (XmlFile.fname if of_document else null()).label("document_name"),
        (XmlLog.line if of_document else null()).label("line"),
        (XmlLog.col if of_document else null()).label("col"),
        (_SOURCE if of_download else null()).label("source"),
    ).join_from(log, AnException, AnException.id == log.exception_id)
    action = ZipActionLog.za_id
    if of_document:
        query = query.join(XmlFile, XmlFile.id == XmlLog.xml_id)
    if of_document or of_download:
        query = query.join(ZipDownload, ZipDownload.id == (XmlFile.zip_id if of_document else ZipLog.zip_id))
        query = query.join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        action = FileSourceHasZip.za_id
    return query.join(ZipAction, ZipAction.id == action).join(ZipFile, ZipFile.id == ZipAction.zip_id)


_ENTRIES: Final[dict[Any, Select[Any]]] = {
    XmlLog: _entries(XmlLog, of_document=True),
    ZipLog: _entries(ZipLog, of_download=True),
    ZipActionLog: _entries(ZipActionLog),
}


def _document_errors(condition: ColumnElement[bool]) -> Select[Any]:
    latest = latest_downloads_of(condition)
    of_latest = _ENTRIES[XmlLog].join(latest, latest.c.download_id == ZipDownload.id)
    return of_latest.where(XmlLog.cleared.is_(None), AnException.short_name.not_in(_OF_RULES))


def _reasons(condition: ColumnElement[bool]) -> Select[Any]:
    latest = latest_downloads_of(condition)
    of_latest = _ENTRIES[ZipLog].join(latest, latest.c.download_id == ZipDownload.id)
    return of_latest.where(or_(FAILED_AS_A_WHOLE, AnException.short_name == _IGNORED))


def _refusals(condition: ColumnElement[bool]) -> Select[Any]:
    last = select(func.max(ZipActionLog.id)).where(ZipActionLog.za_id == ZipAction.id).correlate(ZipAction)
    return _ENTRIES[ZipActionLog].where(
        condition,
        ZipActionLog.id == last.scalar_subquery(),
        ZipAction.status_id == int(Status.FAILED),
        ZipAction.phase_id == int(Phase.ZIP_NAME),
        AnException.short_name != ArchiveRemovedError.short_name(),
    )
