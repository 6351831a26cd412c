"""Results after validation as recorded in the tracker and the QC database, in the same form as a session yields them.

With these Dagster shows changes outside of sessions, old results, and findings: a session reports the documents that it
judged, while a check is about all documents of the submission. Both databases are read a few hundred submissions at a
time, with a fixed number of statements each time and one more for each document with findings. Data contexts and
overviews are counted by centre.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, select

from dcc.data_outcomes import CentresBuilt, ContextsBuilt, DocumentData, FindingEntry, OverviewsBuilt, SubmissionData
from dcc.databases.list_parameters import IDS, rows_with, sorted_chunks
from dcc.declarations import stored_details
from dcc.naming import DocumentKind
from dcc.outcomes import STEP_LEFT_OUT, SubmissionKey
from dcc.phases import Phase
from dcc.qc.contexts.listings import count_contexts
from dcc.qc.contexts.overviews import count_overviews
from dcc.qc.judging.finding_reports import SEVERITY_RANK
from dcc.qc.models import COUNTED, DOCUMENT, FINDING, SNAPSHOT
from dcc.runtime.clock import utc_now
from dcc.tracker.models import AnException, XmlFile, XmlLog, ZipAction, ZipFile
from dcc.tracker.problems import KIND, entries_that_hold
from dcc.tracker.queries.submission_filters import submission_query
from dcc.tracker.states import UPLOAD_FAILED, WITHDRAWN
from dcc.tracker.submission_rows import latest_downloads, state_of, submission_key_of
from dcc.vocabulary import DocumentAction, DocumentState, Severity
from dcc_assets.metadata.archives import ERRORS_SHOWN
from dcc_assets.metadata.documents import SHOWN_PHASES

PAGE: Final = 500
"""The most submissions that are read at once, with their documents."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of documents beside their own rows in the tracker, by the ids of these.

    `rows`, `counts` and `findings` are of the QC database. `reasons` say why documents could not be uploaded;
    `left_out` are the steps that the settings leave out of them.
    """

    rows: Mapping[int, Row[Any]]
    counts: Mapping[int, Mapping[tuple[str, Severity], int]]
    findings: Mapping[int, Sequence[FindingEntry]]
    reasons: Mapping[int, str]
    left_out: Mapping[int, tuple[Phase, ...]]


def recorded_data(
    tracker: Connection,
    qc: Connection,
    keys: Collection[SubmissionKey] | None = None,
    condition: ColumnElement[bool] | None = None,
) -> Iterator[SubmissionData]:
    """The submissions with documents after validation, those of `keys`, or those that `condition` selects.

    Each is yielded once for each shown phase that one of its documents has reached, with all documents that reached it
    or stopped before it.
    """
    ids = documented_submissions(tracker, keys, condition)
    for some in sorted_chunks(ids, PAGE):
        yield from recorded_page(tracker, qc, some)


def recorded_page(tracker: Connection, qc: Connection, ids: Sequence[int]) -> list[SubmissionData]:
    """As `recorded_data`, for the ids of one portion of submissions (at most `PAGE`)."""
    of_actions = _documents(tracker, ids)
    facts = _facts(tracker, qc, [document for documents in of_actions.values() for document in documents])
    actions = submission_query().where(ZipAction.id.in_(IDS)).order_by(ZipAction.id)
    rows = tracker.execute(actions, {"ids": list(of_actions)})
    return [outcome for row in rows for outcome in _submission_data(row, of_actions[row.id], facts)]


def documented_submissions(
    tracker: Connection, keys: Collection[SubmissionKey] | None, condition: ColumnElement[bool] | None = None
) -> list[int]:
    """As `submission_ids`, without those that cannot have documents: after a bad name or a failed download."""
    documented = ZipAction.phase_id >= Phase.XML_NAME
    return submission_ids(tracker, keys, documented if condition is None else and_(documented, condition))


def submission_ids(
    tracker: Connection, keys: Collection[SubmissionKey] | None = None, condition: ColumnElement[bool] | None = None
) -> list[int]:
    """The ids of submissions: of all, or of those of `keys` that `condition` selects."""
    query = select(ZipAction.id, ZipAction.todo_id, ZipFile.file_name).join(ZipFile, ZipFile.id == ZipAction.zip_id)
    if condition is not None:
        query = query.where(condition)
    names = None if keys is None else [key.file_name for key in keys]
    chosen = None if keys is None else frozenset(keys)
    found = rows_with(tracker, query, ZipFile.file_name, names)
    return sorted(row.id for row in found if chosen is None or submission_key_of(row) in chosen)


def _documents(tracker: Connection, ids: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """The documents of submissions that came as far as the upload, by the ids of submissions."""
    downloads = {one.download_id: one.za_id for one in latest_downloads(tracker, ids) if one.counts}
    documents: Select[*tuple[Any, ...]] = (
        select(XmlFile.id, XmlFile.download_id.label("download_id"), XmlFile.fname, XmlFile.phase_id, XmlFile.status_id)
        .where(XmlFile.download_id.in_(IDS), XmlFile.phase_id >= Phase.UPLOAD)
        .order_by(XmlFile.id)
    )
    of_actions: dict[int, list[Row[Any]]] = defaultdict(list)
    for document in tracker.execute(documents, {"ids": list(downloads)}):
        of_actions[downloads[document.download_id]].append(document)
    return of_actions


def _reasons(tracker: Connection, xml_ids: Sequence[int]) -> dict[int, str]:
    """Why documents could not be uploaded: the first valid entry of their logs."""
    reasons: dict[int, str] = {}
    query = entries_that_hold(KIND, XmlLog.message).order_by(XmlLog.id)
    for xml_id, kind, message in rows_with(tracker, query, XmlLog.xml_id, xml_ids):
        reasons.setdefault(xml_id, message or kind)
    return reasons


def _left_out_steps(tracker: Connection, xml_ids: Sequence[int]) -> dict[int, tuple[Phase, ...]]:
    found: dict[int, tuple[Phase, ...]] = {}
    query = entries_that_hold(KIND).where(AnException.short_name.in_(STEP_LEFT_OUT))
    for xml_id, kind in rows_with(tracker, query, XmlLog.xml_id, xml_ids):
        found[xml_id] = (*found.get(xml_id, ()), STEP_LEFT_OUT[kind])
    return found


def _facts(tracker: Connection, qc: Connection, documents: Sequence[Row[Any]]) -> _Facts:
    rows: dict[int, Row[Any]] = {}
    counts: dict[int, dict[tuple[str, Severity], int]] = defaultdict(dict)
    xml_ids = [document.id for document in documents]
    for some in sorted_chunks(xml_ids, PAGE):
        of_documents = DOCUMENT.c.tracker_id.in_(some)
        query = select(DOCUMENT).where(of_documents, DOCUMENT.c.action != DocumentAction.UNDO.value)
        by_id = {row.id: row for row in qc.execute(query)}
        rows |= {row.tracker_id: row for row in by_id.values()}
        for row in _finding_counts(qc, list(by_id)):
            counts[by_id[row.document_id].tracker_id][row.rule, Severity(row.severity)] = row.findings
    return _Facts(
        rows,
        counts,
        findings={xml_id: _worst_findings(qc, rows[xml_id].id) for xml_id in counts},
        reasons=_reasons(tracker, [one.id for one in documents if state_of(one) == UPLOAD_FAILED]),
        left_out=_left_out_steps(tracker, xml_ids),
    )


def _finding_counts(qc: Connection, document_ids: Sequence[int]) -> Iterable[Row[Any]]:
    columns = (FINDING.c.document_id, FINDING.c.rule, FINDING.c.severity)
    active = (FINDING.c.document_id.in_(IDS), FINDING.c.is_active.is_(True))
    number = func.count().label("findings")
    return qc.execute(select(*columns, number).where(*active).group_by(*columns), {"ids": list(document_ids)})


def _worst_findings(qc: Connection, document_id: int) -> list[FindingEntry]:
    query = (
        select(FINDING, SNAPSHOT.c.name.label("snapshot_name"))
        .outerjoin(SNAPSHOT, SNAPSHOT.c.id == FINDING.c.snapshot_id)
        .where(FINDING.c.document_id == document_id, FINDING.c.is_active.is_(True))
        .order_by(SEVERITY_RANK, FINDING.c.line, FINDING.c.id)
        .limit(ERRORS_SHOWN)
    )
    return [
        FindingEntry(
            row.code,
            Severity(row.severity),
            stored_details(row.code, row.details, row.message),
            row.line,
            value=row.value,
            snapshot=None if row.snapshot_name is None else f"{row.snapshot_name} {row.snapshot_id}",
        )
        for row in qc.execute(query)
    ]


def _submission_data(row: Row[Any], rows: Sequence[Row[Any]], facts: _Facts) -> Iterator[SubmissionData]:
    documents = tuple(_document(one, facts) for one in rows)
    outcome = SubmissionData(
        key=submission_key_of(row),
        centre=row.centre,
        reached=Phase.UPLOAD,
        phase=row.phase_id,
        status=row.status_id,
        documents=documents,
        seconds=0.0,
        finished=row.last_update,
    )
    if any(Phase.CONTEXT in document.left_out for document in documents):
        yield replace(outcome, reached=Phase.CONTEXT)
    for phase in SHOWN_PHASES:
        if phase is Phase.UPLOAD or any(one.phase >= phase or one.state == WITHDRAWN for one in documents):
            yield replace(outcome, reached=phase)


def _document(row: Row[Any], facts: _Facts) -> DocumentData:
    stored = facts.rows.get(row.id)
    data = DocumentData(
        file_name=row.fname,
        kind=_kind_of(row.fname) if stored is None else DocumentKind(stored.kind),
        centre="" if stored is None else stored.centre,
        phase=row.phase_id,
        status=row.status_id,
        reason=facts.reasons.get(row.id),
        left_out=facts.left_out.get(row.id, ()),
    )
    if stored is None:
        return data
    return replace(
        data,
        late=stored.late,
        held=stored.state == DocumentState.HELD.value and stored.author is None,
        unapplied=stored.state == DocumentState.HELD.value and stored.author is not None,
        said={name: getattr(stored, name) for name in COUNTED},
        findings=tuple(facts.findings.get(row.id, ())),
        finding_counts=dict(facts.counts.get(row.id, {})),
    )


def _kind_of(file_name: str) -> DocumentKind:
    """The kind of a document that is not in the QC database, for a view with few details."""
    return next((kind for kind in DocumentKind if f".{kind.value}." in file_name), DocumentKind.EXPERIMENT)


def recorded_centres(connection: Connection, centres: Collection[str] | None = None) -> list[CentresBuilt]:
    """What phases have built, each of all centres that have any of it, or of those of `centres`."""
    now = utc_now()
    return [
        ContextsBuilt(count_contexts(connection, centres), 0, 0.0, now),
        OverviewsBuilt(count_overviews(connection, centres), 0.0, now),
    ]
