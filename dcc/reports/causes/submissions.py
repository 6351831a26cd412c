"""The causes of what stopped documents and archives before rules looked at them: read from the tracker's logs.

Of each zip action what its latest download came to counts, and what holds no more does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, func, literal, null, or_, select

from dcc.errors import ArchiveRemovedError, MemberIgnoredError
from dcc.outcomes import HELD
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.qc.apply.versions import in_chunks
from dcc.reports.causes.cause import Cause, Example
from dcc.reports.causes.counting import CauseCounter, FindingLine
from dcc.reports.causes.errors import ERROR_FACES, kind_of
from dcc.reports.causes.grouping import face_among
from dcc.reports.causes.permitted import listed_in, nearest_of
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
_LONGEST_MESSAGE: Final = 1_600
_OF_RULES: Final = (*CATALOGUE, HELD)
_IGNORED: Final = MemberIgnoredError.short_name()


def count_submission_causes(connection: Connection, scope: Scope, faulty: FaultyZips) -> list[Counted]:
    """The causes of what is wrong with the documents and archives of a scope, in no order.

    Three statements, of zips three for every 400, whose rows are not held.
    """
    of_documents = CauseCounter(faulty.as_a_whole | faulty.in_data)
    of_downloads = CauseCounter(faulty.in_documents | faulty.in_data)
    of_names = CauseCounter(faulty.in_documents | faulty.in_data)
    for condition in zip_conditions(scope):
        _take(connection, _document_errors(condition), of_documents)
        _take(connection, _download_reasons(condition), of_downloads)
        _take(connection, _refused_names(condition), of_names)
    counters: Iterable[tuple[Any, CauseCounter]] = (
        (XmlLog, of_documents),
        (ZipLog, of_downloads),
        (ZipActionLog, of_names),
    )
    return [(log, first, cause) for log, counter in counters for first, cause in counter.causes()]


def with_logged_examples(connection: Connection, causes: Sequence[Counted]) -> list[Cause]:
    """The causes, each with its example."""
    found: dict[tuple[Any, int], Any] = {}
    for log, select_examples in _EXAMPLES.items():
        for ids in in_chunks(sorted(number for each, number, _ in causes if each is log)):
            rows = connection.execute(select_examples.where(log.id.in_(ids)))
            found.update({(log, row.id): row for row in rows})
    return [
        replace(cause, example=_example(cause.kind, found[log, number])) if (log, number) in found else cause
        for log, number, cause in causes
    ]


def logged_after(condition: ColumnElement[bool], last: int, most: int) -> Select[Any]:
    """The entries of documents' logs after the one with the id `last`, but for those of rules; at most so many."""
    latest = latest_downloads_of(condition)
    return (
        _EXAMPLES[XmlLog]
        .add_columns(AnException.short_name.label("kind"))
        .join(AnException, AnException.id == XmlLog.exception_id)
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .where(XmlLog.cleared.is_(None), AnException.short_name.not_in(_OF_RULES), XmlLog.id > last)
        .order_by(XmlLog.id)
        .limit(most)
    )


def _take(connection: Connection, query: Select[Any], counter: CauseCounter) -> None:
    for row in connection.execute(query, execution_options={"yield_per": _PAGE}):
        counter.take(_line(row))


def _line(row: Row[Any]) -> FindingLine:
    severity = Severity.WARNING if row.kind == _IGNORED else Severity.ERROR
    return FindingLine(
        id=row.id,
        document=row.document,
        zip_action=ACTIONS_BY_ID[row.todo_id].value,
        zip_file=row.file_name,
        centre=row.centre or "",
        rule=kind_of(row.kind),
        severity=severity.value,
        value=row.source,
        message=row.message or "",
    )


def _example(kind: str, row: Any) -> Example:
    _, _, fields = face_among(ERROR_FACES[kind], None, row.message or "")
    permitted = listed_in(fields.get("expected"))
    return Example(
        zip=f"{ACTIONS_BY_ID[row.todo_id]}/{row.file_name}",
        document=row.document_name,
        line=row.line,
        column=row.col,
        element=fields.get("what") or fields.get("element"),
        value=fields.get("found"),
        message=row.message or "",
        expected=fields.get("expected"),
        permitted=permitted,
        nearest=nearest_of(permitted, fields.get("found")),
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


def _columns(log: Any) -> tuple[Any, ...]:
    return (
        log.id,
        ZipAction.todo_id,
        ZipFile.file_name,
        func.coalesce(_OF_NAME, _HOST).label("centre"),
        AnException.short_name.label("kind"),
        func.substr(log.message, 1, _LONGEST_MESSAGE).label("message"),
    )


def _document_errors(condition: ColumnElement[bool]) -> Select[Any]:
    latest = latest_downloads_of(condition)
    return (
        select(*_columns(XmlLog), XmlFile.id.label("document"), null().label("source"))
        .select_from(XmlLog)
        .join(AnException, AnException.id == XmlLog.exception_id)
        .join(XmlFile, XmlFile.id == XmlLog.xml_id)
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(XmlLog.cleared.is_(None), AnException.short_name.not_in(_OF_RULES))
        .order_by(ZipFile.file_name, ZipAction.todo_id, XmlFile.id, XmlLog.id)
    )


def _download_reasons(condition: ColumnElement[bool]) -> Select[Any]:
    latest = latest_downloads_of(condition)
    source = Centre.short_name + literal(", ") + ProtocolRow.short_name + literal("://") + FileSource.hostname
    return (
        select(*_columns(ZipLog), null().label("document"), source.label("source"))
        .select_from(ZipLog)
        .join(AnException, AnException.id == ZipLog.exception_id)
        .join(latest, latest.c.download_id == ZipLog.zip_id)
        .join(ZipDownload, ZipDownload.id == ZipLog.zip_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(ProtocolRow, ProtocolRow.id == FileSource.protocol_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(or_(FAILED_AS_A_WHOLE, AnException.short_name == _IGNORED))
        .order_by(ZipFile.file_name, ZipAction.todo_id, ZipLog.id)
    )


def _refused_names(condition: ColumnElement[bool]) -> Select[Any]:
    last = select(func.max(ZipActionLog.id)).where(ZipActionLog.za_id == ZipAction.id).correlate(ZipAction)
    return (
        select(*_columns(ZipActionLog), null().label("document"), null().label("source"))
        .select_from(ZipAction)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .join(ZipActionLog, (ZipActionLog.za_id == ZipAction.id) & (ZipActionLog.id == last.scalar_subquery()))
        .join(AnException, AnException.id == ZipActionLog.exception_id)
        .where(
            condition,
            ZipAction.status_id == int(Status.FAILED),
            ZipAction.phase_id == int(Phase.ZIP_NAME),
            AnException.short_name != ArchiveRemovedError.short_name(),
        )
        .order_by(ZipFile.file_name, ZipAction.todo_id, ZipActionLog.id)
    )


def _of_example(log: Any, document: Any = None) -> Select[Any]:
    place = (document, XmlLog.line, XmlLog.col) if document is not None else (null(), null(), null())
    name, line, column = place
    return select(
        log.id,
        log.message,
        ZipAction.todo_id,
        ZipFile.file_name,
        name.label("document_name"),
        line.label("line"),
        column.label("col"),
    ).select_from(log)


def _to_zip(query: Select[Any]) -> Select[Any]:
    return (
        query.join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    )


_EXAMPLES: Final[dict[Any, Select[Any]]] = {
    XmlLog: _to_zip(
        _of_example(XmlLog, XmlFile.fname)
        .join(XmlFile, XmlFile.id == XmlLog.xml_id)
        .join(ZipDownload, ZipDownload.id == XmlFile.zip_id)
    ),
    ZipLog: _to_zip(_of_example(ZipLog).join(ZipDownload, ZipDownload.id == ZipLog.zip_id)),
    ZipActionLog: (
        _of_example(ZipActionLog)
        .join(ZipAction, ZipAction.id == ZipActionLog.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    ),
}
