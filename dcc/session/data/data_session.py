"""What the phases after validation use in a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from dcc.data_outcomes import DocumentData
from dcc.databases.transactions import run_reading
from dcc.errors import InternalFaultError, ReferenceDataError, ReferenceUnreachableError, platform_fault
from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.qc.judging.documents import JudgingBasis
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference import snapshots
from dcc.qc.reference.refresh import RefreshOutcome, ensure_reference
from dcc.rights import Delegations
from dcc.session.data.document_queries import archives_from, load_due
from dcc.session.data.upload_order import DueDocument, in_order_of_upload
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.settings.centre_groups import LeftOutSteps
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.states import State

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class DataSession:
    """One session's work on both databases. `keys` are its submissions, None for all.

    `with_faults`: the submissions that met a fault of the platform when they were judged. `has_reference`: reference
    data were refreshed. `delegations` are those in force since the upload began.
    """

    qc: Engine
    session: Session
    keys: set[ZipKey] | None
    staging: Staging
    faults: list[InternalFaultError] = field(default_factory=list)
    with_faults: set[int] = field(default_factory=set)
    has_reference: bool = False
    delegations: Delegations = field(default_factory=Delegations)

    def __post_init__(self) -> None:
        self.settings: Settings = self.session.settings
        self.left_out: LeftOutSteps = self.settings.steps_left_out

    @property
    def author(self) -> str:
        """The name in which the session sets documents back."""
        return f"session {self.session.id}"

    @property
    def is_own(self) -> Callable[[str], bool] | None:
        """Whether the session is for the centre in an archive's name; None: it is for all."""
        if self.session.group is None:
            return None
        return lambda zip_file: self.session.covers(self.settings.naming.centre_of_zip(zip_file))

    def covers(self, key: ZipKey) -> bool:
        """Whether the session is for the centre in an archive's name."""
        return self.is_own is None or self.is_own(key.file_name)

    def due(self, phase: Phase, *, left_out: bool = False) -> list[DueDocument]:
        """The documents of the session's centres that wait for a phase, in the order of upload.

        Without those for which the settings leave it out; or only these.
        """
        if left_out and not self.left_out.has(phase):
            return []
        due = self.read(lambda connection: load_due(connection, phase, self.settings.naming, self.keys))
        return [one for one in due if self.covers(one.key) and (phase in self.left_out_of(one)) == left_out]

    def left_out_of(self, document: DueDocument) -> frozenset[Phase]:
        """The steps that the settings leave out of a document."""
        return self.left_out.of(document.centre, document.source)

    def built_for(self, phase: Phase) -> Callable[[str], bool] | None:
        """Says of the name of an archive whether the session builds a phase for it; None: for all."""
        if not self.left_out.has(phase):
            return self.is_own
        sources = [source for source, steps in self.left_out.of_sources.items() if phase in steps]
        left_out = self.read(lambda connection: archives_from(connection, sources))

        def is_built(zip_file: str) -> bool:
            centre = self.settings.naming.centre_of_zip(zip_file)
            return self.session.covers(centre) and zip_file not in left_out and phase not in self.left_out.of(centre, 0)

        return is_built

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read from the tracker."""
        return self.session.read(work)

    def reopen(self, states: dict[int, State], reason: str) -> None:
        """Set documents back in the session's name."""
        if states:
            self.session.write(
                lambda connection: progress.reopen_documents(connection, states, self.author, reason) and None
            )

    def note_fault(self, key: ZipKey, file_name: str, error: Exception) -> InternalFaultError:
        """Keep and log a fault of the platform with a document, to be raised after everything else is done."""
        log.error("%s: %s met a fault of the platform", key, file_name, exc_info=error)
        fault = platform_fault(f"{key}: {file_name}", error)
        if not self.faults:
            # The one that is raised in the end: others would keep what their frames hold.
            fault.__cause__ = error
        self.faults.append(fault)
        return fault


def data_of(document: DueDocument, state: State, **more: Any) -> DocumentData:
    """The result of a document that is in a state then; `more` are further fields of it."""
    name = document.name
    return DocumentData(name.file_name, name.kind, name.centre, state.phase, state.status, **more)


def merged(*documents: Iterable[DueDocument]) -> list[DueDocument]:
    """The distinct documents of several lists, in the order of upload."""
    return in_order_of_upload({document.xml_id: document for some in documents for document in some}.values())


def refresh_reference_data(work: DataSession, known: snapshots.ActiveReference | None = None) -> bool:
    """Refresh the sets of reference data that the settings name; returns whether one was read.

    Once a session. If one cannot be read, its rules are unchecked, or use the earlier snapshot: the session reports
    that. `known` spares a query.
    """
    if work.has_reference:
        return False
    work.has_reference = True
    refreshed = ensure_reference(work.qc, work.settings, None if known is None else known.stored)
    for each in refreshed:
        if each.outcome is RefreshOutcome.FAILED:
            log.warning("%s", each.message)
            kind = ReferenceUnreachableError if each.is_unreachable else ReferenceDataError
            work.session.record_task_error(Phase.DATA, kind(each.message))
    return bool(refreshed)


def current_basis(work: DataSession) -> JudgingBasis:
    """The basis of judging: the active reference data, after a refresh, and today's waivers, in UTC."""

    def load(connection: Connection) -> tuple[snapshots.ActiveReference, JudgingBasis]:
        reference, today = snapshots.load_active(connection), datetime.now(UTC).date()
        waivers = waivers_in_force(connection, today)
        return reference, JudgingBasis(reference, waivers, today, work.settings.max_document_errors)

    reference, basis = run_reading(work.qc, load)
    # One query is enough if nothing has to be read.
    return run_reading(work.qc, load)[1] if refresh_reference_data(work, reference) else basis
