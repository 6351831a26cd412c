"""What the phases after validation use in a session: both databases, and which documents are its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlalchemy import Engine

from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State
from dcc.qc.archive_scope import ArchiveScope
from dcc.session.data.document_queries import archives_from, load_due
from dcc.session.data.upload_order import DueDocument
from dcc.session.faults import Faults
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.settings.left_out_steps import LeftOutSteps
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.reopened_by import session_name


@dataclass
class DataSession:
    """One session's work on both databases. `keys` are its submissions, None for all.

    `has_reference`: reference data were refreshed.
    """

    qc: Engine
    session: Session
    keys: set[SubmissionKey] | None
    staging: Staging
    faults: Faults = field(default_factory=Faults)
    has_reference: bool = False

    def __post_init__(self) -> None:
        self.settings: Settings = self.session.settings
        self.left_out: LeftOutSteps = self.settings.steps_left_out
        self.scope = ArchiveScope(self.settings.naming, self.session.centres)

    @property
    def author(self) -> str:
        """The name in which the session sets documents back."""
        return session_name(self.session.id)

    def covers(self, key: SubmissionKey) -> bool:
        """Whether the session is for the centre in an archive's name."""
        return self.scope.has(key.file_name)

    def due(self, phase: Phase, *, left_out: bool = False) -> list[DueDocument]:
        """The documents of the session's centres that wait for a phase, in the order of upload.

        Without those for which the settings leave it out; or only these.
        """
        if left_out and not self.left_out.has(phase):
            return []
        due = self.session.read(lambda connection: load_due(connection, phase, self.settings.naming, self.keys))
        return [one for one in due if self.covers(one.key) and (phase in self.left_out_of(one)) == left_out]

    def left_out_of(self, document: DueDocument) -> frozenset[Phase]:
        """The steps that the settings leave out of a document."""
        return self.left_out.of(document.centre, document.source)

    def scope_of(self, phase: Phase) -> ArchiveScope:
        """The archives for which the session builds a phase."""
        if not self.left_out.has(phase):
            return self.scope
        if phase in self.left_out.everywhere:
            return replace(self.scope, centres=())
        centres = {centre for centre, steps in self.left_out.of_centres.items() if phase in steps}
        sources = [source for source, steps in self.left_out.of_sources.items() if phase in steps]
        archives = self.session.read(lambda connection: archives_from(connection, sources))
        return replace(self.scope, left_out_centres=centres, left_out_archives=archives)

    def reopen(self, states: dict[int, State], reason: str) -> None:
        """Set documents back in the session's name."""
        if states:
            self.session.write(
                lambda connection: progress.reopen_documents(connection, states, self.author, reason) and None
            )
