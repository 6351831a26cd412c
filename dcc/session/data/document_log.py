"""The problems of documents in the tracker's `xml_log`.

The kind of an entry is the id of the rule, or the name of the error that stopped the document; a held document has an
entry too. Entries that no longer hold stay, marked as cleared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from sqlalchemy import Connection, bindparam, insert, update

from dcc import errors
from dcc.databases.columns import MessageText
from dcc.databases.list_parameters import IDS, change_about, rows_about
from dcc.outcomes import NOTES, Problem
from dcc.rules.catalogue import CATALOGUE
from dcc.runtime.clock import utc_now
from dcc.tracker.database import exception_id
from dcc.tracker.models import AnException, FileSourceHasZip, XmlFile, XmlLog, ZipDownload
from dcc.tracker.problems import KIND, entries_that_hold, problem_columns

_FITTED: Final = MessageText()
_INSERT: Final = insert(XmlLog)
_ACTIVE: Final = (
    entries_that_hold(XmlLog.id, KIND, XmlLog.message, XmlLog.line, XmlLog.col)
    .where(XmlLog.xml_id.in_(IDS))
    .order_by(XmlLog.id)
)
_CLEAR: Final = update(XmlLog).where(XmlLog.id.in_(IDS)).values(cleared=bindparam("now"))


def rewrite_log(connection: Connection, wanted: Mapping[int, Sequence[Problem]], *, clears_others: bool = True) -> None:
    """Replace the active log entries of each document, named by the id of its `xml_file`.

    Existing equal entries stay, new ones are added, and others are marked as cleared, unless they are to stay, too. A
    few statements for any number of documents.
    """
    present = _present(connection, wanted)
    cleared: list[int] = []
    added: list[dict[str, object]] = []
    for xml_id, problems in wanted.items():
        entries = present[xml_id]
        for problem in problems:
            if entries.get(_entry(problem)):
                entries[_entry(problem)].pop()
            else:
                added.append(_row(connection, xml_id, problem))
        cleared.extend(log_id for left in entries.values() for log_id in left)
    if clears_others:
        clear_entries(connection, cleared)
    if added:
        connection.execute(_INSERT, added)


def clear_entries(connection: Connection, log_ids: Iterable[int]) -> None:
    """Mark entries of documents' logs as cleared."""
    change_about(connection, _CLEAR, log_ids, now=utc_now())


def clear_kinds(connection: Connection, za_id: int, kinds: Collection[str]) -> None:
    """Mark the entries of these kinds as cleared, in the logs of all documents that a submission ever had."""
    of_submission = (
        entries_that_hold(XmlLog.id)
        .join(XmlFile, XmlFile.id == XmlLog.xml_id)
        .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id == za_id, AnException.short_name.in_(kinds))
    )
    clear_entries(connection, [entry for _, entry in connection.execute(of_submission)])


_Entry: TypeAlias = tuple[str, str | None, int | None, int | None]
"""The kind, message, line and column of an entry."""


def _present(connection: Connection, xml_ids: Iterable[int]) -> Mapping[int, dict[_Entry, list[int]]]:
    """The ids of active entries, by document and by what they say."""
    present: dict[int, dict[_Entry, list[int]]] = defaultdict(lambda: defaultdict(list))
    for xml_id, number, kind, text, line, column in rows_about(connection, _ACTIVE, xml_ids):
        present[xml_id][kind, text, line, column].append(number)
    return present


def _entry(problem: Problem) -> _Entry:
    # As it will be read back: long text is cut on its way into the database.
    words = _FITTED.process_bind_param(problem.message, None)  # type: ignore[arg-type]
    return problem.kind, words, problem.line, problem.column


def _row(connection: Connection, xml_id: int, problem: Problem) -> dict[str, object]:
    return {
        "xml_id": xml_id,
        "exception_id": kind_id(connection, problem.kind),
        **problem_columns(problem),
        "severity": problem.severity.value,
        "line": problem.line,
        "col": problem.column,
    }


def kind_id(connection: Connection, kind: str) -> int:
    """The id in `an_exception` of a rule, or of the error of that name."""
    return exception_id(connection, kind, _description(kind))


def _description(kind: str) -> str:
    if kind in CATALOGUE:
        return CATALOGUE[kind].demand
    if kind in NOTES:
        return NOTES[kind]
    error = getattr(errors, kind, errors.DccError)
    return str(error.summary())
