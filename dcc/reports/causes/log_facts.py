"""What stopped documents and archives before rules looked at them: entries of the tracker's logs.

Of each submission its latest download counts, and of that only what still holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, null, or_, select

from dcc.databases.list_parameters import rows_with
from dcc.declarations import VALUE, cause_id
from dcc.error_declarations import declared_code
from dcc.errors import ArchiveRemovedError, MemberIgnoredError
from dcc.messages import Message, message_from_json
from dcc.reports.causes.cause import Fact, FindingGroup
from dcc.reports.causes.permitted import Names
from dcc.reports.causes.scopes import Scope, submission_conditions
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
from dcc.tracker.states import REFUSED
from dcc.tracker.submission_rows import DOCUMENTS_COUNT, LATEST_OF_SUBMISSION, has_failed_as_whole, is_at, of_host
from dcc.vocabulary import Severity

_PAGE: Final = 2_000
_IGNORED: Final = MemberIgnoredError.short_name()
_KIND: Final = AnException.short_name
_IS_ERROR: Final = _KIND.like("%Error")
"""Errors have the names of classes. Rules, also former ones, have not, nor have documents held or left out."""


class LogFacts:
    """The facts of one log, with the ids of its entries: `XmlLog`, `ZipLog` or `ZipActionLog`."""

    def __init__(self, connection: Connection, scope: Scope, log: Any) -> None:
        self._connection = connection
        self._scope = scope
        self._log = log

    def groups(self) -> Iterator[FindingGroup]:
        """Each entry by itself; a statement, of zips, one for each chunk."""
        for condition in submission_conditions(self._scope):
            query = _current(self._log, condition)
            query = query.order_by(ZipFile.file_name, ZipAction.todo_id, "document", self._log.id)
            for row in self._connection.execute(query, execution_options={"yield_per": _PAGE}):
                code, details, severity = _fact(row)
                place = (row.todo_id, row.file_name, row.document, row.centre or "")
                yield FindingGroup(*place, code, cause_id(code, details), severity.value, row.id)

    def examples(self, ids: Sequence[int]) -> dict[int, Fact]:
        """The entries of these ids."""
        rows = rows_with(self._connection, _entries(self._log), self._log.id, ids)
        return {row.id: _example(row) for row in rows}

    def rows(self) -> Iterator[Fact]:
        """Every entry; pages, since a connection can ask nothing else while one answer streams."""
        for condition in submission_conditions(self._scope):
            query, last = _current(self._log, condition).order_by(self._log.id).limit(_PAGE), 0
            while rows := self._connection.execute(query.where(self._log.id > last)).all():
                yield from map(_example, rows)
                last = rows[-1].id


def _example(row: Any) -> Fact:
    code, details, severity = _fact(row)
    permitted, found, expected = tuple(details.get("permitted", ())), details.get("found"), details.get("expected")
    # Numbers of cells, bytes or entries are told as texts are.
    value = None if found is None else str(found)
    return Fact(
        code,
        severity,
        details,
        zip=f"{row.todo_id}/{row.file_name}",
        document=row.document_name,
        line=row.line,
        column=row.col,
        element=details.get("what"),
        value=value,
        message=message_from_json(row.details, row.message or ""),
        expected=Message(str(expected)) if isinstance(expected, int) else expected,
        permitted=permitted,
        nearest=None if value is None else Names(permitted).nearest(value),
    )


def _fact(row: Any) -> tuple[str, dict[str, Any], Severity]:
    """The code of an entry, its details, of which a download's source is the value, and its severity."""
    details = {**message_from_json(row.details, "").all_details, **({} if row.source is None else {VALUE: row.source})}
    severity = Severity.WARNING if row.kind == _IGNORED else Severity.ERROR
    return declared_code(row.kind, row.code), details, severity


_OF_NAME: Final = select(Centre.short_name).where(Centre.id == ZipFile.centre_id).correlate(ZipFile).scalar_subquery()
_SOURCE: Final = (
    select(Centre.short_name + literal(", ") + ProtocolRow.short_name + literal("://") + FileSource.hostname)
    .join(FileSource, FileSource.centre_id == Centre.id)
    .join(ProtocolRow, ProtocolRow.id == FileSource.protocol_id)
    .where(FileSource.id == FileSourceHasZip.file_source_id)
    .correlate(FileSourceHasZip)
    .scalar_subquery()
)
_OF_DOCUMENT: Final = {"document": XmlFile.id, "document_name": XmlFile.fname, "line": XmlLog.line, "col": XmlLog.col}


def _entries(log: Any) -> Select[Any]:
    """The entries of a log with what each is about, joined with `zip_action`, `zip_file` and the kind of error."""
    query = select(
        log.id,
        log.message,
        log.code,
        log.details,
        ZipAction.todo_id,
        ZipFile.file_name,
        func.coalesce(_OF_NAME, of_host(Centre.short_name)).label("centre"),
        _KIND.label("kind"),
        (_SOURCE if log is ZipLog else null()).label("source"),
        *((column if log is XmlLog else null()).label(name) for name, column in _OF_DOCUMENT.items()),
    ).join_from(log, AnException, AnException.id == log.exception_id)
    if log is XmlLog:
        query = query.join(XmlFile, XmlFile.id == XmlLog.xml_id)
    if log is not ZipActionLog:
        query = query.join(
            ZipDownload, ZipDownload.id == (XmlFile.download_id if log is XmlLog else ZipLog.download_id)
        )
        query = query.join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    action = ZipActionLog.za_id if log is ZipActionLog else FileSourceHasZip.za_id
    return query.join(ZipAction, ZipAction.id == action).join(ZipFile, ZipFile.id == ZipAction.zip_id)


def _current(log: Any, condition: ColumnElement[bool]) -> Select[Any]:
    """The entries of a log that hold at present of the submissions that a condition selects."""
    if log is ZipActionLog:
        last = select(func.max(ZipActionLog.id)).where(ZipActionLog.za_id == ZipAction.id).correlate(ZipAction)
        is_last = ZipActionLog.id == last.scalar_subquery()
        return _entries(log).where(
            condition, is_last, is_at(ZipAction, REFUSED), _KIND.not_in([ArchiveRemovedError.short_name()])
        )
    query = _entries(log).where(condition, ZipDownload.id == LATEST_OF_SUBMISSION)
    if log is XmlLog:
        return query.where(DOCUMENTS_COUNT, XmlLog.cleared.is_(None), _IS_ERROR)
    ignored = and_(DOCUMENTS_COUNT, _KIND == _IGNORED)
    return query.where(or_(has_failed_as_whole(ZipAction), ignored))
