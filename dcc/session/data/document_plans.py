"""What the waiting documents of a submission would change, without changing it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.errors import NotFoundError
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.document_effect import DocumentWithRows
from dcc.qc.apply.planned_changes import Plan, plan_document
from dcc.rights import Delegations
from dcc.rules.upload import OWNERSHIP
from dcc.session.data.document_queries import waiting_for_upload
from dcc.session.data.prepared_archives import prepared_temporarily
from dcc.session.data.upload_order import DueDocument, document_to_apply
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.hostings.foreign_archives import not_fetched
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.submission_rows import find_submission
from dcc.vocabulary import Severity


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """What one document would change."""

    file_name: str
    plan: Plan

    def is_held(self, hold_threshold: int) -> bool:
        """Whether a session holds the document for confirmation, which nobody has given yet.

        `hold_threshold` is the number of entities that a document may end without it.
        """
        would_be = self.plan.would_be
        others = any(found.rule == OWNERSHIP and found.severity is Severity.WARNING for found in would_be.findings)
        return would_be.confirmed_by is None and (others or sum(would_be.ended.values()) > hold_threshold)


def plan_submission(tracker: Engine, qc: Engine, settings: Settings, key: SubmissionKey) -> list[DocumentPlan]:
    """What each document of a submission that waits for upload would change by itself, in the order of upload.

    Held documents are among them, and those of a submission on hold. Raises NotFoundError if none waits,
    StagedDocumentLostError if one is not in staging any more, DocumentError, and the `unreachable` error of either
    database.
    """

    def find(connection: Connection) -> tuple[list[DueDocument], Delegations]:
        due = waiting_for_upload(connection, find_submission(connection, key).za_id, settings.naming)
        if not due:
            raise not_fetched(connection, key) or NotFoundError(
                f"No document of {key} waits to be uploaded. `dcc show {key}` says how far each is; "
                "`dcc crawl --until xsd` fetches and validates what has not been yet."
            )
        return due, load_delegations(connection)

    due, delegations = run_reading(tracker, find)
    staging = Staging(settings.staging_directory)
    plans = []
    with prepared_temporarily(staging, due, qc) as prepared:
        for document in due:
            to_apply = DocumentWithRows(document_to_apply(document, delegations), prepared(document))
            plan = plan_document(qc, to_apply)
            plans.append(DocumentPlan(document.name.file_name, plan))
    return plans
