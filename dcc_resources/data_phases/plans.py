"""What the documents of a zip action would change, without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from dcc_resources.data_phases.documents import DueDocument, load_due
from dcc_resources.data_phases.staged_documents import staged_path
from dcc_resources.data_phases.upload_groups import document_to_apply
from dcc_resources.databases.transactions import run_reading
from dcc_resources.errors import NotFoundError
from dcc_resources.naming import DocumentKind
from dcc_resources.outcomes import ZipKey
from dcc_resources.qc_database.contents import Content
from dcc_resources.qc_database.planning import Plan, plan_document
from dcc_resources.qc_database.reading import read_document
from dcc_resources.qc_database.upload_findings import OWNERSHIP
from dcc_resources.qc_database.vocabulary import Severity
from dcc_resources.settings import Settings
from dcc_resources.staging import Staging
from dcc_resources.tracker.delegations import Delegations, load_delegations
from dcc_resources.tracker.reference import Phase


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """What one document would change."""

    file_name: str
    plan: Plan

    def is_held(self, hold_above: int) -> bool:
        """Whether a session lets the document take effect only when it is confirmed.

        `hold_above` is how many entities a document may end.
        """
        would_be = self.plan.would_be
        others = any(found.rule == OWNERSHIP and found.severity is Severity.WARNING for found in would_be.findings)
        return others or sum(would_be.ended.values()) > hold_above


def plan_submission(tracker: Engine, qc: Engine, settings: Settings, key: ZipKey) -> list[DocumentPlan]:
    """What each document of a zip action that waits to be uploaded would change by itself, in the order of upload.

    Those that are held are among them. Raises NotFoundError when none waits, StagedDocumentLostError when one is not in
    staging any more, DocumentError, and the `unreachable` error of either database.
    """

    def find(connection: Connection) -> tuple[list[DueDocument], Delegations]:
        due = load_due(connection, Phase.UPLOAD, settings.naming, [key])
        if not due:
            raise NotFoundError(
                f"No document of {key} waits to be uploaded. How far they are says `dcc show {key}`; what has not been "
                "fetched and validated yet is by `dcc crawl --until xsd`."
            )
        return due, load_delegations(connection)

    staging = Staging(settings.staging_directory)
    plans = []
    due, delegations = run_reading(tracker, find, patience_seconds=settings.database_retry)
    for document in due:
        path, kind = staged_path(staging, document), document.name.kind

        def read(path: Path = path, kind: DocumentKind = kind) -> Iterator[Content]:
            return read_document(path, kind)

        to_apply = document_to_apply(document, delegations)
        plan = plan_document(qc, to_apply, read, patience_seconds=settings.database_retry)
        plans.append(DocumentPlan(document.name.file_name, plan))
    return plans
