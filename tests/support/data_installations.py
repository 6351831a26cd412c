"""An installation whose valid documents go on to the QC database: `data` is one with reference data at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Table, select

from dcc.cli.demo import submissions
from dcc.data_outcomes import ContextsBuilt, DataOutcome, DocumentData, OverviewsBuilt, SubmissionData
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.apply.withdrawal import WithdrawalResult
from dcc.session.data.confirmations import confirm_submission
from dcc.session.data.document_phases import process_data
from dcc.session.data.withdrawals import withdraw_submission
from dcc.settings import Settings
from dcc.tracker.decisions import DecisionKind, record_decisions, revoke
from dcc.tracker.models import AnException, CrawlingSession, DocumentReopening, SessionTask, XmlFile, XmlLog
from dcc.tracker.submission_rows import find_submission
from tests.support.asking import column_in, in_reading, in_writing, rows_in
from tests.support.installations import Folder, Installation

SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"
EXPERIMENTS = "H.2013-10-31.1.experiment.impc.xml"


def specimens(stem: str = "2013-10-31.1", *, mice: int = 3, first: int = 1, centre: str = "H") -> dict[str, bytes]:
    """A specimen document that passes all rules, by its name: of each stem with litters of its own."""
    document = submissions.specimen_document(centre, mice=mice, first=first)
    document = document.replace(f'litterId="{centre}-L'.encode(), f'litterId="{centre}-{stem}-L'.encode())
    return {f"{centre}.{stem}.specimen.impc.xml": document}


def experiments(
    stem: str = "2013-10-31.1",
    *,
    animals: int = 3,
    first: int = 1,
    centre: str = "H",
    procedure: str = "IMPC_BWT_001",
) -> dict[str, bytes]:
    """An experiment document on such specimens that passes all rules, by its name."""
    document = submissions.experiment_document(centre, animals=animals, first=first, procedure=procedure)
    return {f"{centre}.{stem}.experiment.impc.xml": document}


WHOLE_WAY = {phase: f"{phase.short_name} done" for phase in Phase if phase >= Phase.UPLOAD} | {Phase.QC: "qc pending"}
"""What is told of valid documents with measurements in each phase after validation."""


def key_of(key: str | SubmissionKey) -> SubmissionKey:
    """`<action>/<name>` as a SubmissionKey, which is left as it is."""
    if isinstance(key, SubmissionKey):
        return key
    action, _, name = key.partition("/")
    return SubmissionKey(Action(action), name)


@dataclass
class DataResult:
    """What the phases after validation told in one session."""

    zips: list[SubmissionData] = field(default_factory=list)
    contexts: list[ContextsBuilt] = field(default_factory=list)
    overviews: list[OverviewsBuilt] = field(default_factory=list)

    def take(self, outcomes: Iterable[DataOutcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case SubmissionData():
                    self.zips.append(outcome)
                case ContextsBuilt():
                    self.contexts.append(outcome)
                case OverviewsBuilt():
                    self.overviews.append(outcome)

    def told(self, key: str) -> list[tuple[Phase, str]]:
        """What was told of a zip action: the phase, and its state afterwards."""
        return [
            (one.reached, f"{one.phase.short_name} {one.status.short_name}") for one in self.zips if str(one.key) == key
        ]

    def document(self, file_name: str, reached: Phase) -> DocumentData:
        """What was told of a document in a phase."""
        (found,) = [
            document
            for one in self.zips
            if one.reached is reached
            for document in one.documents
            if document.file_name == file_name
        ]
        return found


@dataclass
class DataInstallation:
    """An installation with a folder as its source, and a QC database."""

    base: Installation
    qc: Engine
    folder: Folder

    @property
    def tracker(self) -> Engine:
        return self.base.tracker

    @property
    def settings(self) -> Settings:
        return self.base.settings

    def close(self) -> None:
        for engine in (self.tracker, self.qc):
            engine.dispose()

    def with_settings(self, **changes: object) -> DataInstallation:
        return DataInstallation(self.base.with_settings(**changes), self.qc, self.folder)

    def put(self, key: str, *documents: dict[str, bytes]) -> None:
        """Have the source host an archive with these documents."""
        together: dict[str, bytes] = {}
        for some in documents:
            together |= some
        self.folder.put(key, together)

    def validate(self, key: str | None = None, *documents: dict[str, bytes]) -> None:
        """Put this archive there, if any is named; then crawl, download and validate: a session up to xsd."""
        if key is not None:
            self.put(key, *documents)
        self.base.run_session()

    def take_up(self, until: Phase = Phase.QC, keys: Sequence[str] | None = None) -> DataResult:
        """Take what waits through the phases after validation, in a session of its own."""
        result = DataResult()
        with open_session(self.tracker, self.settings) as session:
            wanted = None if keys is None else [key_of(key) for key in keys]
            result.take(process_data(self.qc, session, until=until, keys=wanted))
        return result

    def run(self, key: str | None = None, *documents: dict[str, bytes]) -> DataResult:
        """Put this archive there, if any is named; then take all that waits to quality control, in two sessions."""
        self.validate(key, *documents)
        return self.take_up()

    def retry(self, key: str) -> DataResult:
        """Fetch and validate an archive again, as a person asks for, and take it to quality control."""
        self.base.process_again(key)
        return self.take_up()

    def confirm(self, key: str | SubmissionKey, **who: str) -> list[DocumentData]:
        return confirm_submission(self.tracker, self.qc, self.settings, key_of(key), **who)

    def hold(self, key: str, *, is_held: bool = True) -> None:
        """Let a wrangler put a submission on hold, or release it."""
        za_ids = [in_reading(self.tracker, find_submission, key_of(key)).za_id]
        if is_held:
            in_writing(self.tracker, record_decisions, DecisionKind.HOLD, za_ids, by="wrangler", reason="They ask.")
        else:
            in_writing(self.tracker, revoke, za_ids, DecisionKind.HOLD, by="wrangler")

    def withdraw(self, key: str | SubmissionKey, **who: str) -> WithdrawalResult:
        return withdraw_submission(self.tracker, self.qc, self.settings, key_of(key), **who)

    def states(self) -> dict[str, str]:
        return self.base.states()

    def documents(self) -> dict[str, str]:
        """The state of each document, of several with one name the newest."""
        return dict(self.base.documents())

    def log(self, file_name: str, *, cleared: bool = False) -> list[str]:
        """The kinds of the entries in the log of a document that hold, or of those that do not any more."""
        query = (
            select(AnException.short_name)
            .join(XmlLog, XmlLog.exception_id == AnException.id)
            .join(XmlFile, XmlFile.id == XmlLog.xml_id)
            .where(XmlFile.fname == file_name, XmlLog.cleared.is_not(None) if cleared else XmlLog.cleared.is_(None))
            .order_by(XmlLog.id)
        )
        return column_in(self.tracker, query)

    def set_back(self) -> list[tuple[str, str, str]]:
        query = (
            select(XmlFile.fname, DocumentReopening)
            .join(XmlFile, XmlFile.id == DocumentReopening.xml_id)
            .order_by(DocumentReopening.id)
        )
        return [
            (
                row.fname,
                f"{row.from_phase_id.short_name} {row.from_status_id.short_name}",
                f"{row.to_phase_id.short_name} {row.to_status_id.short_name}",
            )
            for row in rows_in(self.tracker, query)
        ]

    def rows(self, table: Table, *names: str) -> list[tuple[Any, ...]]:
        """Columns of all rows of a table of the QC database, sorted."""
        return sorted((tuple(row) for row in rows_in(self.qc, select(*(table.c[name] for name in names)))), key=str)

    def last_session(self) -> tuple[int, list[tuple[Phase, int]]]:
        """The status of the latest session, and of its tasks."""
        with self.tracker.connect() as connection:
            number, status = connection.execute(
                select(CrawlingSession.id, CrawlingSession.status).order_by(CrawlingSession.id.desc()).limit(1)
            ).one()
            tasks = select(SessionTask.phase_id, SessionTask.status).where(SessionTask.session_id == number)
            return status, [(phase, task) for phase, task in connection.execute(tasks.order_by(SessionTask.id))]

    def ending(self) -> dict[str, Any]:
        """All in both databases that must not depend on how it came about."""
        opened = self.rows(models.SPECIMEN, "specimen_id", "is_current", "validity")
        opened += self.rows(models.EXPERIMENT, "experiment_id", "is_current", "validity")
        return {
            "zip actions": self.states(),
            "documents": self.documents(),
            "log": {name: sorted(self.log(name)) for name in self.documents()},
            "applied": self.rows(models.DOCUMENT, "file_name", "state", "late", "contexts_built", "measurements"),
            "entities": sorted(opened, key=str),
            "measurements": self.rows(models.MEASUREMENT, "specimen_id", "parameter_id", "value"),
            "findings": sorted(
                row for row in self.rows(models.FINDING, "rule", "message", "line", "is_active") if row[-1]
            ),
            "contexts": self.rows(models.CONTEXT, "centre", "parameter_id", "state", "measurements", "checksum"),
        }


@pytest.fixture
def data(
    tracker: Engine, qc_with_reference: None, qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> DataInstallation:
    """An installation with the centres H and J, a folder that H serves, and the reference data that are shipped."""
    quick = qc_settings.model_copy(update={"retry_delay": 0.05, "min_free_bytes": 0, "database_retry": 10.0})
    base = Installation(tracker, quick, tmp_path)
    base.add_centre("H", "J")
    return DataInstallation(base, qc_database, base.add_folder())
