"""OpenLineage's events of a session and its steps: archives, documents and QC tables with their rows and verdicts.

A session is a run of the job `session`. Each phase that it worked on is a run of the job `session.<phase>`, with the
session's run as its parent. The ids of runs follow from the tracker and the session's number, so that each process says
the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from openlineage.client import event_v2 as ol
from openlineage.client import facet_v2 as facets
from sqlalchemy import Connection, Engine, Row, make_url, select

from dcc.databases.engines import disposed
from dcc.databases.transactions import run_reading
from dcc.outcomes import EndReason, ZipKey
from dcc.phases import Phase, Status
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.tracker.crawls import SessionEntry, TaskEntry, list_sessions
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.session_zips import session_zip_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.submission_rows import IDS, KEY, newest_downloads, object_of, rows_about

_AT_ONCE: Final = 500
"""Datasets of a kind in one event; a run with more has several."""
_ENTITIES: Final = ("specimen", "experiment", "line", "housing", "measurement")
"""The QC tables whose rows the document table counts, each in a column of its name with an s."""
_CONTEXT_TABLES: Final = ("data_context", "context_member")
_OVERVIEW_TABLES: Final = ("overview_genotype", "overview_animal_procedure")
_END_STATES: Final = {
    EndReason.FINISHED: ol.RunState.COMPLETE,
    EndReason.STOPPED: ol.RunState.ABORT,
    EndReason.TIME_LIMIT: ol.RunState.ABORT,
}

ol.set_producer(f"urn:dcc:{version('dcc')}")


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """A document; `rows` are the numbers of rows that it opened in the QC tables, by their names."""

    name: str
    size_bytes: int | None
    phase: Phase
    status: Status
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionArchive:
    """A submission with the source of its latest download, if any, and its documents."""

    key: ZipKey
    source: SourceAddress | None
    size_bytes: int | None
    phase: Phase
    status: Status
    documents: Sequence[SessionDocument]


@dataclass(frozen=True, slots=True)
class SessionDatasets:
    """A session as the tracker records it, the sources that it crawled, and its archives."""

    session: SessionEntry
    sources: Sequence[SourceAddress]
    archives: Sequence[SessionArchive]


def load_session_datasets(tracker: Engine, settings: Settings, session_id: int) -> SessionDatasets:
    """What a session worked on. Raises DatabaseUnreachableError and SQLAlchemyError."""
    session, addresses, archives, documents = run_reading(
        tracker, lambda connection: _of_tracker(connection, session_id)
    )
    rows: dict[int, dict[str, int]] = {}
    if documents and any(task.phase is Phase.UPLOAD for task in session.tasks):
        with disposed(open_qc_database(settings)) as qc:
            ids = list(documents)
            rows = run_reading(qc, lambda connection: _opened_rows(connection, ids))
    of_download: dict[int, list[SessionDocument]] = {}
    for number, (download, name, size_bytes, phase, status) in documents.items():
        known = SessionDocument(name, size_bytes, Phase(phase), Status(status), rows.get(number, {}))
        of_download.setdefault(download, []).append(known)
    crawled = {crawl.source for crawl in session.crawls}
    return SessionDatasets(
        session,
        [address for address in addresses.values() if address.id in crawled],
        [
            object_of(
                SessionArchive,
                row,
                source=addresses.get(row.file_source_id),
                documents=of_download.get(row.download_id, []),
            )
            for row in archives
        ],
    )


def _of_tracker(
    connection: Connection, session_id: int
) -> tuple[SessionEntry, dict[int, SourceAddress], Sequence[Row[Any]], dict[int, Sequence[Any]]]:
    (session,) = list_sessions(connection, ids=[session_id])
    addresses = {address.id: address for address in load_addresses(connection, only_crawlable=False)}
    latest = newest_downloads()
    query = (
        select(
            *KEY,
            ZipAction.phase_id,
            ZipAction.status_id,
            ZipFile.size_bytes,
            latest.c.download_id,
            FileSourceHasZip.file_source_id,
        )
        .join(ZipFile)
        .outerjoin(latest, latest.c.za_id == ZipAction.id)
        .outerjoin(ZipDownload, ZipDownload.id == latest.c.download_id)
        .outerjoin(FileSourceHasZip)
        .where(ZipAction.id.in_(session_zip_ids(connection, session)))
        .order_by(ZipAction.id)
    )
    archives = connection.execute(query).all()
    downloads = [row.download_id for row in archives if row.download_id is not None]
    documents = {number: row for number, *row in rows_about(connection, _DOCUMENTS, downloads)}
    return session, addresses, archives, documents


_DOCUMENTS = select(
    XmlFile.id, XmlFile.zip_id, XmlFile.fname, XmlFile.size_bytes, XmlFile.phase_id, XmlFile.status_id
).where(XmlFile.zip_id.in_(IDS))
_COUNTS = select(DOCUMENT.c.tracker_id, *(DOCUMENT.c[f"{name}s"] for name in _ENTITIES)).where(
    DOCUMENT.c.tracker_id.in_(IDS)
)


def _opened_rows(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, int]]:
    return {row[0]: dict(zip(_ENTITIES, row[1:], strict=True)) for row in rows_about(connection, _COUNTS, ids)}


class SessionEvents:
    """Makes the events of one session."""

    def __init__(self, settings: Settings, session_id: int) -> None:
        self._settings = settings
        self._namespace = "dcc" if settings.environment is None else f"dcc.{settings.environment}"
        self._tracker = _without_credentials(settings.tracker_database_url)
        self._session_id = session_id

    def begin(self) -> ol.RunEvent:
        """The event of its begin, now."""
        return self._event("session", ol.RunState.START, datetime.now(UTC))

    def died(self) -> ol.RunEvent:
        """The event of its end, if its process was killed."""
        return self._event("session", ol.RunState.FAIL, datetime.now(UTC), failure="Its process died.")

    def end(self, worked_on: SessionDatasets, failure: str | None) -> Iterator[ol.RunEvent]:
        """The events of its steps, then that of its end. `failure` is the error that broke it off."""
        session = worked_on.session
        by_phase: dict[Phase, list[TaskEntry]] = {}
        for task in session.tasks:
            by_phase.setdefault(task.phase, []).append(task)
        for phase, tasks in sorted(by_phase.items(), key=_began):
            yield from self._step(phase, tasks, worked_on)
        known = session.outcome in set(EndReason)
        state = _END_STATES.get(EndReason(session.outcome), ol.RunState.FAIL) if known else ol.RunState.RUNNING
        reason = failure or (session.outcome if state is ol.RunState.FAIL else None)
        inputs, outputs = [self._source(address) for address in worked_on.sources], self._opened_tables(worked_on)
        ended = session.finished or datetime.now(UTC)
        yield self._event("session", state, ended, inputs, outputs, failure=reason)

    def _step(self, phase: Phase, tasks: Sequence[TaskEntry], worked_on: SessionDatasets) -> Iterator[ol.RunEvent]:
        name = f"session.{phase.short_name}"
        began = min(task.started for task in tasks)
        ended = max((task.finished for task in tasks if task.finished is not None), default=began)
        outcomes = {task.outcome for task in tasks}
        state = ol.RunState.COMPLETE if outcomes == {"succeeded"} else ol.RunState.ABORT
        yield self._event(name, ol.RunState.START, began)
        inputs, outputs = self._datasets(phase, worked_on)
        for first in range(0, max(len(inputs), len(outputs)), _AT_ONCE):
            lot = slice(first, first + _AT_ONCE)
            yield self._event(name, ol.RunState.RUNNING, ended, inputs[lot], outputs[lot])
        failure = "; ".join(task.comment or "" for task in tasks if task.outcome == "failed")
        yield self._event(name, ol.RunState.FAIL if "failed" in outcomes else state, ended, failure=failure or None)

    def _datasets(
        self, phase: Phase, worked_on: SessionDatasets
    ) -> tuple[Sequence[ol.InputDataset], Sequence[ol.OutputDataset]]:
        """What a step read and wrote."""
        archives = [archive for archive in worked_on.archives if archive.source is not None]
        documents = [(archive, document) for archive in archives for document in archive.documents]
        if phase is Phase.ZIP_NAME:
            return [self._source(address) for address in worked_on.sources], []
        if phase is Phase.DOWNLOAD:
            hosted = [
                ol.InputDataset(*_hosted(archive, archive.source)) for archive in archives if archive.source is not None
            ]
            return hosted, [ol.OutputDataset(*self._staged(archive), _size(archive.size_bytes)) for archive in archives]
        if phase <= Phase.XSD:
            judged = [ol.InputDataset(*self._staged(archive), _verdicts(archive, Phase.XSD)) for archive in archives]
            return judged, [ol.OutputDataset(*self._document(*one), _size(one[1].size_bytes)) for one in documents]
        if phase <= Phase.DATA:
            taken = [one for one in documents if one[1].phase >= Phase.UPLOAD]
            read = [ol.InputDataset(*self._document(*one), _verdicts(one[1], phase)) for one in taken]
            return read, self._opened_tables(worked_on)
        read_tables, written = {
            Phase.CONTEXT: (_ENTITIES, _CONTEXT_TABLES),
            Phase.OVERVIEW: (_CONTEXT_TABLES, _OVERVIEW_TABLES),
        }.get(phase, (_CONTEXT_TABLES, ("document_context",)))
        return (
            [ol.InputDataset(*self._table(name)) for name in read_tables],
            [ol.OutputDataset(*self._table(name)) for name in written],
        )

    def _source(self, source: SourceAddress) -> ol.InputDataset:
        return ol.InputDataset(_server(source), source.base_path)

    def _staged(self, archive: SessionArchive) -> tuple[str, str]:
        return "file", f"{self._settings.staging_directory}/{archive.key}"

    def _document(self, archive: SessionArchive, document: SessionDocument) -> tuple[str, str]:
        return "file", f"{self._settings.staging_directory}/{archive.key}.contents/{document.name}"

    def _table(self, name: str) -> tuple[str, str]:
        """OpenLineage's names of a table: on a server `mysql://host:port` and `database.table`."""
        url = make_url(self._settings.qc_database_url)
        if url.get_backend_name() == "sqlite":
            return "file", f"{url.database}/{name}"
        return f"mysql://{url.host or 'localhost'}:{url.port or 3306}", f"{url.database}.{name}"

    def _opened_tables(self, worked_on: SessionDatasets) -> list[ol.OutputDataset]:
        """The QC tables with the numbers of rows that the session's documents opened."""
        opened = dict.fromkeys(_ENTITIES, 0)
        for archive in worked_on.archives:
            for document in archive.documents:
                for name, count in document.rows.items():
                    opened[name] += count
        return [
            ol.OutputDataset(*self._table(name), {"outputStatistics": _STATISTICS(rowCount=count)})
            for name, count in opened.items()
            if count
        ]

    def _event(
        self,
        job: str,
        state: ol.RunState,
        at: datetime,
        inputs: Sequence[ol.InputDataset] = (),
        outputs: Sequence[ol.OutputDataset] = (),
        *,
        failure: str | None = None,
    ) -> ol.RunEvent:
        run_facets: dict[str, facets.RunFacet] = {}
        if job != "session":
            parent = facets.parent_run
            run_facets["parent"] = parent.ParentRunFacet(
                parent.Run(self._run_id("session")), parent.Job(self._namespace, "session")
            )
        if failure is not None:
            run_facets["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(failure, "Python")
        kind = facets.job_type_job.JobTypeJobFacet("BATCH", "DCC", "JOB" if job == "session" else "TASK")
        return ol.RunEvent(
            eventType=state,
            eventTime=at.astimezone(UTC).isoformat() if at.tzinfo else at.replace(tzinfo=UTC).isoformat(),
            run=ol.Run(self._run_id(job), run_facets),
            job=ol.Job(self._namespace, job, {"jobType": kind}),
            inputs=list(inputs),
            outputs=list(outputs),
        )

    def _run_id(self, job: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._tracker}#{self._session_id}/{job}"))


_STATISTICS: Final = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet


def _began(step: tuple[Phase, Sequence[TaskEntry]]) -> tuple[datetime, Phase]:
    return min(task.started for task in step[1]), step[0]


def _without_credentials(database_url: str) -> str:
    url = make_url(database_url)
    return f"{url.get_backend_name()}://{url.host or ''}:{url.port or ''}/{url.database}"


def _server(source: SourceAddress) -> str:
    return "file" if source.protocol == "file" else f"{source.protocol}://{source.hostname}"


def _hosted(archive: SessionArchive, source: SourceAddress) -> tuple[str, str]:
    return _server(source), f"{source.base_path.rstrip('/')}/{archive.key}"


def _size(size_bytes: int | None) -> dict[str, facets.OutputDatasetFacet]:
    return {"outputStatistics": _STATISTICS(size=size_bytes, fileCount=1)}


def _verdicts(judged: SessionArchive | SessionDocument, phase: Phase) -> dict[str, facets.InputDatasetFacet]:
    """Whether it passed its phase, if it came so far: it may have come further since."""
    if judged.phase < phase and judged.status is not Status.FAILED:
        return {}
    passed = judged.phase > phase or judged.status is not Status.FAILED
    module = facets.data_quality_assertions_dataset
    return {
        "dataQualityAssertions": module.DataQualityAssertionsDatasetFacet(
            [module.Assertion(assertion=phase.short_name, success=passed)]
        )
    }
