"""The causes of what stopped documents and archives before rules looked at them: read from the tracker's logs.

Of each zip action what its latest download came to counts, and what holds no more does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """The causes, each with its details and its example."""
    found: dict[tuple[Any, int], Any] = {}
    for log, select_examples in _EXAMPLES.items():
        for ids in in_chunks(sorted(number for each, number, _ in causes if each is log)):
            rows = connection.execute(select_examples.where(log.id.in_(ids)))
            found.update({(log, row.id): row for row in rows})
    return [
        replace(cause, details=logged_details(found[log, number]), example=logged_example(found[log, number]))
        if (log, number) in found
        else cause
        for log, number, cause in causes
    ]


def logged_after(condition: ColumnElement[bool], last: int, most: int) -> Select[Any]:
    """The entries of documents' logs after the one with the id `last`, but for those of rules; at most so many."""
    latest = latest_downloads_of(condition)
    return (
        _EXAMPLES[XmlLog]
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .where(XmlLog.cleared.is_(None), AnException.short_name.not_in(_OF_RULES), XmlLog.id > last)
        .order_by(XmlLog.id)
        .limit(most)
    )


def logged_details(row: Any) -> Details:
    """The details of an entry of a log, of which a download's source is the value."""
    source = getattr(row, "source", None)
    known = message_from_json(row.details, "").known
    return known if source is None else {**known, VALUE: source}


def logged_example(row: Any) -> Example:
    """An entry of a log, with the columns of `_EXAMPLES`, as an example."""
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


def _take(connection: Connection, query: Select[Any], counter: CauseCounter) -> None:
    for row in connection.execute(query, execution_options={"yield_per": _PAGE}):
        code = declared_code(row.kind, row.code)
        severity = Severity.WARNING if row.kind == _IGNORED else Severity.ERROR
        counter.take(
            Group(
                zip_action=ACTIONS_BY_ID[row.todo_id].value,
                zip_file=row.file_name,
                centre=row.centre or "",
                document=row.document,
                code=code,
                cause=cause_id(code, logged_details(row)),
                severity=severity.value,
                first=row.id,
            )
        )


_SOURCE: Final = (
    Centre.short_name + literal(", ") + ProtocolRow.short_name + literal("://") + FileSource.hostname
).label("source")

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
        log.code,
        log.details,
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
    return (
        select(*_columns(ZipLog), null().label("document"), _SOURCE)
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


def _of_example(log: Any, document: Any = None, source: Any = None) -> Select[Any]:
    name, line, column = (null(), null(), null()) if document is None else (document, XmlLog.line, XmlLog.col)
    return select(
        log.id,
        log.message,
        log.code,
        log.details,
        ZipAction.todo_id,
        ZipFile.file_name,
        AnException.short_name.label("kind"),
        name.label("document_name"),
        line.label("line"),
        column.label("col"),
        (null() if source is None else source).label("source"),
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
        .join(AnException, AnException.id == XmlLog.exception_id)
        .join(XmlFile, XmlFile.id == XmlLog.xml_id)
        .join(ZipDownload, ZipDownload.id == XmlFile.zip_id)
    ),
    ZipLog: _to_zip(
        _of_example(ZipLog, source=_SOURCE)
        .join(AnException, AnException.id == ZipLog.exception_id)
        .join(ZipDownload, ZipDownload.id == ZipLog.zip_id)
    )
    .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
    .join(ProtocolRow, ProtocolRow.id == FileSource.protocol_id)
    .join(Centre, Centre.id == FileSource.centre_id),
    ZipActionLog: (
        _of_example(ZipActionLog)
        .join(AnException, AnException.id == ZipActionLog.exception_id)
        .join(ZipAction, ZipAction.id == ZipActionLog.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    ),
}
