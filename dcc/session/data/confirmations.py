"""Confirmations of held documents by people; each document is applied at once."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection, Engine, select

from dcc.data_outcomes import DocumentData
from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import ConfigurationError, DocumentError, NotFoundError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.held_documents import confirm_held
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.document_problems import confirmed_problem
from dcc.session.data.document_queries import counted_by_tracker, documents_by_id, waiting_for_upload
from dcc.session.data.document_results import record_results
from dcc.session.data.prepared_archives import prepared_temporarily
from dcc.session.data.upload_order import DueDocument
from dcc.session.data.upload_phase import Uploader, failed_upload
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.changed_archives import replaced_since_fetched
from dcc.tracker.hostings.foreign_archives import not_fetched
from dcc.tracker.hostings.older_archives import waiting_for_older
from dcc.tracker.models import ZipAction
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.states import CANCELLED, NOT_UPLOADED, WITHDRAWN
from dcc.tracker.submission_rows import action_states, find_submission


def confirm_submission(
    tracker: Engine, qc: Engine, settings: Settings, key: SubmissionKey, *, author: str, reason: str
) -> list[DocumentData]:
    """Confirm the held documents of a submission, and apply them at once; returns the results.

    An edit or delete of another centre's data is refused, as in a session. The next session applies confirmed
    documents that could not be applied. Raises NotFoundError if none is held, and ConfigurationError for an author or a
    reason that is empty or too long. Raises ConfigurationError, too, while they would wait for an older archive, and if
    the submission is on hold, was cancelled, or was replaced on its source. Also StagedDocumentLostError if one is not
    in staging any more, and the `unreachable` error of either database.
    """
    run_reading(tracker, lambda connection: _require_confirmable(connection, key))
    try:
        ids = confirm_held(qc, key.action, key.file_name, author=author, reason=reason)
    except NotFoundError as error:
        raise run_reading(tracker, lambda connection: not_fetched(connection, key)) or error from None
    held = run_reading(qc, lambda connection: documents_by_id(connection, ids))
    counted = run_reading(tracker, lambda connection: counted_by_tracker(connection, held, settings.naming))
    uploader = Uploader(qc, settings, run_reading(tracker, load_delegations))
    documents = [document.due for document in counted]
    left_out = {document.xml_id: NOT_UPLOADED for document in documents if document.state == WITHDRAWN}

    def record(connection: Connection) -> None:
        progress.reopen_documents(connection, left_out, author, reason)
        # Unless all of this is interrupted, the applied documents' own entries follow at once.
        rewrite_log(connection, {document.xml_id: [confirmed_problem()] for document in documents})
        progress.note_changed(connection, {document.za_id for document in documents})

    run_writing(tracker, record)
    return [_confirm(tracker, uploader, document) for document in documents]


def left_to_sessions(
    tracker: Engine, settings: Settings, key: SubmissionKey, confirmed: Collection[DocumentData]
) -> list[str]:
    """The documents of a submission that were not among the `confirmed`, and that the next session applies or holds."""
    done = {document.file_name for document in confirmed}

    def find(connection: Connection) -> list[str]:
        due = waiting_for_upload(connection, find_submission(connection, key).za_id, settings.naming)
        return [document.name.file_name for document in due if document.name.file_name not in done]

    return run_reading(tracker, find)


def _require_confirmable(connection: Connection, key: SubmissionKey) -> None:
    """Raise ConfigurationError if a submission was cancelled or replaced, is on hold, or waits for another one."""
    za_id = find_submission(connection, key).za_id
    if za_id is None:
        return
    if action_states(connection, [za_id]).get(za_id) == CANCELLED:
        raise ConfigurationError(f"{key} was cancelled. Bring it back first: dcc retry {shlex.quote(str(key))}")
    if connection.scalar(select(ZipAction.id).where(ZipAction.id == za_id, is_on_hold())) is not None:
        raise ConfigurationError(f"{key} is on hold. Release it first: dcc release {shlex.quote(str(key))}")
    if replaced_since_fetched(connection, [za_id]):
        # Its new content would never be taken beside the data of the former one.
        raise ConfigurationError(
            f"{key} was not confirmed: the centre has replaced it on its file source since it was fetched. Let a "
            "session take the new content first: dcc crawl"
        )
    changing = [] if key.action is Action.ADD else [za_id]
    for older in waiting_for_older(connection, changing).values():
        waits, advice = "is still on its way", "Let a session take it first: dcc crawl"
        if older.is_held:
            waits, advice = "waits to be confirmed", f"Decide on it first: dcc data plan {shlex.quote(str(older.key))}"
        elif older.is_on_hold:
            waits, advice = "is on hold", f"Release or cancel it first: dcc release {shlex.quote(str(older.key))}"
        raise ConfigurationError(
            f"{key} was not confirmed: {older.key}, an older archive of centre {older.centre}, would replace newer "
            f"data if it were applied later. It {waits}. {advice}"
        )


def _confirm(tracker: Engine, uploader: Uploader, document: DueDocument) -> DocumentData:
    try:
        staging = Staging(uploader.settings.staging_directory)
        with prepared_temporarily(staging, [document], uploader.qc) as prepared:
            (result,) = uploader.upload([document], [prepared(document)])
    except DocumentError as error:
        result = failed_upload(document, error)
    states = run_writing(tracker, lambda connection: record_results(connection, [result])).documents
    state = states.get(document.xml_id, document.state)
    return replace(result.data, phase=state.phase, status=state.status)
