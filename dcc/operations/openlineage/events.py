"""OpenLineage's events of a session and its steps: archives, documents and QC tables with their rows and verdicts.

A session is a run of the job `session`. Each phase that it worked on is a run of the job `session.<phase>`, with the
session's run as its parent. The ids of runs follow from the tracker and the session's number, so that each process says
the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from openlineage.client import event_v2 as ol
from openlineage.client import facet_v2 as facets
from sqlalchemy import Connection, Engine, Row, make_url, select

from dcc.databases.engines import disposed
from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.transactions import run_reading
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.outcomes import EndReason
from dcc.phases import Phase
from dcc.qc.database import open_qc_database
from dcc.qc.models import COUNTED, DOCUMENT
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.store.staging import CONTENTS
from dcc.tracker.crawls import SessionEntry, TaskEntry, list_sessions
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.session_submissions import session_submission_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.submission_rows import KEY, newest_downloads, state_of, submission_key_of

_AT_ONCE: Final = 500
"""Datasets of a kind in one event; a run with more has several."""
_CONTEXT_TABLES: Final = ("data_context", "context_member")
_READ_AND_WRITTEN: Final = {
    Phase.CONTEXT: ([f"{table.name}" for table in COUNTED.values()], _CONTEXT_TABLES),
    Phase.OVERVIEW: (_CONTEXT_TABLES, ("overview_genotype", "overview_animal_procedure")),
    Phase.QC: (_CONTEXT_TABLES, ("document_context",)),
}
"""The QC tables that each phase after data reads, and those that it writes."""
_STATES: Final = {
    "active": ol.RunState.RUNNING,
    "open": ol.RunState.RUNNING,
    EndReason.FINISHED: ol.RunState.COMPLETE,
    EndReason.STOPPED: ol.RunState.ABORT,
    EndReason.TIME_LIMIT: ol.RunState.ABORT,
}
"""The states of runs by the outcomes of sessions; a session that ended otherwise failed."""

ol.set_producer(f"urn:dcc:{version('dcc')}")


@dataclass(frozen=True, slots=True)
class SessionDatasets:
    """A session as the tracker records it, the sources that it crawled, and its archives and documents as rows.

    `archives` are submissions with the source of their latest download, if any; `documents` are those of these
    downloads, each after its archive. `opened` are the numbers of rows that documents opened in each QC table.
    """

    session: SessionEntry
    sources: Sequence[SourceAddress]
    archives: Sequence[tuple[Row[Any], SourceAddress]]
    documents: Sequence[tuple[Row[Any], Row[Any]]]
    opened: Mapping[str, int]


def load_session_datasets(
    tracker: Engine, settings: Settings, session_id: int, *, is_broken_off: bool
) -> SessionDatasets:
    """What a session worked on.

    Raises DatabaseUnreachableError and SQLAlchemyError; but of one that broke off, it leaves out the rows of a QC
    database that cannot be used.
    """
    found = run_reading(tracker, lambda connection: _of_tracker(connection, session_id))
    if not found.documents or all(task.phase is not Phase.UPLOAD for task in found.session.tasks):
        return found
    ids = [document.id for _, document in found.documents]
    try:
        with disposed(open_qc_database(settings)) as qc:
            opened = run_reading(qc, lambda connection: list(rows_about(connection, _COUNTS, ids)))
    except (QcDatabaseOutdatedError, QcDatabaseUnreachableError):
        if is_broken_off:
            return found
        raise
    sums = {f"{table.name}": sum(getattr(row, name) for row in opened) for name, table in COUNTED.items()}
    return replace(found, opened=sums)


def _of_tracker(connection: Connection, session_id: int) -> SessionDatasets:
    (session,) = list_sessions(connection, ids=[session_id])
    addresses = {address.id: address for address in load_addresses(connection, only_crawlable=False)}
    latest = newest_downloads(session_submission_ids(connection, session))
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
        .join(latest, latest.c.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.id == latest.c.download_id)
        .join(FileSourceHasZip)
        .order_by(ZipAction.id)
    )
    archives = [(row, addresses[row.file_source_id]) for row in connection.execute(query)]
    of_download: dict[int, list[Row[Any]]] = {row.download_id: [] for row, _ in archives}
    for document in rows_about(connection, _DOCUMENTS, of_download):
        of_download[document.download_id].append(document)
    documents = [(row, document) for row, _ in archives for document in of_download[row.download_id]]
    crawled = {crawl.source for crawl in session.crawls}
    sources = [address for address in addresses.values() if address.id in crawled]
    return SessionDatasets(session, sources, archives, documents, {})


_DOCUMENTS = select(
    XmlFile.id,
    XmlFile.download_id.label("download_id"),
    XmlFile.fname,
    XmlFile.size_bytes,
    XmlFile.phase_id,
    XmlFile.status_id,
).where(XmlFile.download_id.in_(IDS))
_COUNTS = select(*(DOCUMENT.c[name] for name in COUNTED)).where(DOCUMENT.c.tracker_id.in_(IDS))


class SessionEvents:
    """Makes the events of one session."""

    def __init__(self, settings: Settings, session_id: int) -> None:
        self._settings = settings
        self._namespace = "dcc" if settings.environment is None else f"dcc.{settings.environment}"
        url = make_url(settings.tracker_database_url)
        self._tracker = f"{url.get_backend_name()}://{url.host or ''}:{url.port or ''}/{url.database}"
        self._session_id = session_id

    def begin(self) -> ol.RunEvent:
        """The event of its begin, now."""
        return self._event("session", ol.RunState.START, utc_now())

    def died(self) -> ol.RunEvent:
        """The event of its end, if its process was killed."""
        return self._event("session", ol.RunState.FAIL, utc_now(), failure="Its process died.")

    def end(self, datasets: SessionDatasets, failure: str | None) -> Iterator[ol.RunEvent]:
        """The events of its steps, then that of its end. `failure` is the error that broke it off."""
        session = datasets.session
        by_phase: dict[Phase, list[TaskEntry]] = {}
        for task in session.tasks:
            by_phase.setdefault(task.phase, []).append(task)
        starts = {phase: min(task.started for task in tasks) for phase, tasks in by_phase.items()}
        for phase in sorted(by_phase, key=lambda phase: (starts[phase], phase)):
            yield from self._step(phase, by_phase[phase], datasets)
        state = _STATES.get(session.outcome, ol.RunState.FAIL)
        reason = failure or (session.outcome if state is ol.RunState.FAIL else None)
        inputs, outputs = [self._source(address) for address in datasets.sources], self._opened_tables(datasets)
        ended = session.finished or utc_now()
        yield self._event("session", state, ended, inputs, outputs, failure=reason)

    def _step(self, phase: Phase, tasks: Sequence[TaskEntry], datasets: SessionDatasets) -> Iterator[ol.RunEvent]:
        name = f"session.{phase.short_name}"
        began = min(task.started for task in tasks)
        ended = max((task.finished for task in tasks if task.finished is not None), default=began)
        outcomes = {task.outcome for task in tasks}
        state = ol.RunState.COMPLETE if outcomes == {"succeeded"} else ol.RunState.ABORT
        yield self._event(name, ol.RunState.START, began)
        inputs, outputs = self._datasets(phase, datasets)
        for first in range(0, max(len(inputs), len(outputs)), _AT_ONCE):
            lot = slice(first, first + _AT_ONCE)
            yield self._event(name, ol.RunState.RUNNING, ended, inputs[lot], outputs[lot])
        failure = "; ".join(task.comment or "" for task in tasks if task.outcome == "failed")
        yield self._event(name, ol.RunState.FAIL if "failed" in outcomes else state, ended, failure=failure or None)

    def _datasets(
        self, phase: Phase, datasets: SessionDatasets
    ) -> tuple[Sequence[ol.InputDataset], Sequence[ol.OutputDataset]]:
        """What a step read and wrote."""
        archives, documents = datasets.archives, datasets.documents
        if phase is Phase.ZIP_NAME:
            return [self._source(address) for address in datasets.sources], []
        if phase is Phase.DOWNLOAD:
            hosted = [
                ol.InputDataset(_server(source), f"{source.base_path.rstrip('/')}/{submission_key_of(row)}")
                for row, source in archives
            ]
            return hosted, [ol.OutputDataset(*self._staged(row), _size(row.size_bytes)) for row, _ in archives]
        if phase <= Phase.XSD:
            judged = [ol.InputDataset(*self._staged(row), _verdicts(row, Phase.XSD)) for row, _ in archives]
            return judged, [ol.OutputDataset(*self._staged(*one), _size(one[1].size_bytes)) for one in documents]
        if phase <= Phase.DATA:
            taken = [one for one in documents if one[1].phase_id >= Phase.UPLOAD]
            read = [ol.InputDataset(*self._staged(*one), _verdicts(one[1], phase)) for one in taken]
            return read, self._opened_tables(datasets)
        read_tables, written = _READ_AND_WRITTEN[phase]
        return (
            [ol.InputDataset(*self._table(name)) for name in read_tables],
            [ol.OutputDataset(*self._table(name)) for name in written],
        )

    def _source(self, source: SourceAddress) -> ol.InputDataset:
        return ol.InputDataset(_server(source), source.base_path)

    def _staged(self, archive: Row[Any], document: Row[Any] | None = None) -> tuple[str, str]:
        """OpenLineage's names of an archive in staging, or of a document of it."""
        place = f"{self._settings.staging_directory}/{submission_key_of(archive)}"
        return "file", place if document is None else f"{place}{CONTENTS}/{document.fname}"

    def _table(self, name: str) -> tuple[str, str]:
        """OpenLineage's names of a table: on a server `mysql://host:port` and `database.table`."""
        url = make_url(self._settings.qc_database_url)
        if url.get_backend_name() == "sqlite":
            return "file", f"{url.database}/{name}"
        return f"mysql://{url.host or 'localhost'}:{url.port or 3306}", f"{url.database}.{name}"

    def _opened_tables(self, datasets: SessionDatasets) -> list[ol.OutputDataset]:
        """The QC tables with the numbers of rows that the session's documents opened."""
        return [
            ol.OutputDataset(*self._table(name), {"outputStatistics": _STATISTICS(rowCount=count)})
            for name, count in datasets.opened.items()
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
            eventTime=at.replace(tzinfo=UTC).isoformat(),
            run=ol.Run(self._run_id(job), run_facets),
            job=ol.Job(self._namespace, job, {"jobType": kind}),
            inputs=list(inputs),
            outputs=list(outputs),
        )

    def _run_id(self, job: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._tracker}#{self._session_id}/{job}"))


_STATISTICS: Final = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet


def _server(source: SourceAddress) -> str:
    return "file" if source.protocol == "file" else f"{source.protocol}://{source.hostname}"


def _size(size_bytes: int | None) -> dict[str, facets.OutputDatasetFacet]:
    return {"outputStatistics": _STATISTICS(size=size_bytes, fileCount=1)}


def _verdicts(judged: Row[Any], phase: Phase) -> dict[str, facets.InputDatasetFacet]:
    """Whether it passed its phase, if it came so far: it may have come further since."""
    state = state_of(judged)
    if state.phase < phase and not state.failed:
        return {}
    passed = state.phase > phase or not state.failed
    module = facets.data_quality_assertions_dataset
    return {
        "dataQualityAssertions": module.DataQualityAssertionsDatasetFacet(
            [module.Assertion(assertion=phase.short_name, success=passed)]
        )
    }
