"""The documents of a submission as a report lists them: a bounded number, the failed first, with counts of all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, case, func, select

from dcc.outcomes import HELD, LEFT_OUT, ZipKey
from dcc.phases import Phase, Status
from dcc.qc.models import DOCUMENT
from dcc.reports.submissions.model import DocumentReport
from dcc.reports.submissions.outcomes import steps_of
from dcc.rules.findings import MORE_RULE
from dcc.rules.upload import DUPLICATE, LATE
from dcc.tracker.models import AnException, DocumentPlace, XmlFile, XmlLog
from dcc.tracker.problems import KIND, NOT_FAILING, entries_that_hold
from dcc.tracker.queries.zip_stories import DownloadStory
from dcc.vocabulary import DocumentAction

COUNTED: Final = ("specimens", "experiments", "lines", "housings", "measurements")
"""What a document's row in the QC database counts."""


def list_documents(
    connection: Connection, qc: Connection | None, key: ZipKey, download: DownloadStory, *, limit: int
) -> tuple[DocumentReport, ...]:
    """The first `limit` documents of a download: those that failed, those held, then the others."""
    of_download = entries_that_hold().join(XmlFile, XmlFile.id == XmlLog.xml_id).where(XmlFile.zip_id == download.id)
    held = XmlFile.id.in_(of_download.where(AnException.short_name == HELD))
    rank = case((XmlFile.status_id == int(Status.FAILED), 0), (held, 1), else_=2)
    query = (
        select(
            XmlFile.id,
            XmlFile.fname,
            XmlFile.size_bytes,
            XmlFile.content_md5,
            XmlFile.phase_id,
            XmlFile.status_id,
            DocumentPlace.place,
        )
        .outerjoin(DocumentPlace, DocumentPlace.xml_id == XmlFile.id)
        .where(XmlFile.zip_id == download.id)
        .order_by(rank, XmlFile.phase_id, XmlFile.id)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    entries = _log_entries(connection, [row.id for row in rows])
    in_qc = {} if qc is None else _in_qc(qc, key, {row.id: row.fname for row in rows})
    return tuple(_document(row, entries[row.id], in_qc.get(row.id), download.requested) for row in rows)


def _document(row: Any, entries: Mapping[str, int], in_qc: Any, began: datetime) -> DocumentReport:
    """A document by its rows in both databases (None in the QC database); its download `began` then."""
    phase, status, held = Phase(row.phase_id), Status(row.status_id), bool(entries.get(HELD))
    was_there = in_qc is not None and in_qc.applied_at is not None and in_qc.applied_at < began.replace(microsecond=0)
    return DocumentReport(
        file_name=row.fname,
        size_bytes=row.size_bytes,
        md5=row.content_md5,
        phase=phase,
        status=status,
        steps=steps_of(phase, status, [step for step, kind in LEFT_OUT.items() if entries.get(kind)]),
        errors=entries.get("errors", 0),
        warnings=entries.get("warnings", 0),
        held=held,
        late=not held and bool(entries.get(LATE) or (in_qc is not None and in_qc.late)),
        repeated=bool(entries.get(DUPLICATE)) or was_there,
        counts={} if in_qc is None else {name: getattr(in_qc, name) for name in COUNTED},
        place=row.place,
    )


def _log_entries(connection: Connection, xml_ids: Sequence[int]) -> dict[int, Counter[str]]:
    """What the logs of documents have that holds: `errors`, `warnings`, whether held, late or a duplicate."""
    marked = case((XmlLog.severity.in_(NOT_FAILING), 1), else_=0).label("marked")
    query = (
        entries_that_hold(KIND, marked, func.count())
        .where(XmlLog.xml_id.in_(xml_ids))
        .group_by(XmlLog.xml_id, AnException.short_name, marked)
    )
    entries: dict[int, Counter[str]] = defaultdict(Counter)
    for xml_id, kind, is_marked, count in connection.execute(query):
        if kind in (HELD, LATE, DUPLICATE, *LEFT_OUT.values()):
            entries[xml_id][kind] += count
        if kind not in (HELD, MORE_RULE, *LEFT_OUT.values()):
            entries[xml_id]["warnings" if is_marked else "errors"] += count
    return entries


def _in_qc(qc: Connection, key: ZipKey, names: Mapping[int, str]) -> dict[int, Any]:
    """The rows of the QC database of documents, by the ids of their `xml_file`."""
    query = select(DOCUMENT).where(
        DOCUMENT.c.tracker_id.in_(list(names)),
        DOCUMENT.c.zip_file == key.file_name,
        DOCUMENT.c.zip_action == key.action.value,
        DOCUMENT.c.action != DocumentAction.UNDO.value,
    )
    # A tracker that was made anew gives the ids of a lost one to other documents.
    return {row.tracker_id: row for row in qc.execute(query) if names[row.tracker_id] == row.file_name}
