"""Withdrawals of submissions by people, and their decisions on proposals to withdraw."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, Engine, select

from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import NotDelegatedError, NotFoundError
from dcc.messages import mark
from dcc.naming import NamingConvention
from dcc.outcomes import NOTES, SubmissionKey
from dcc.qc.apply.held_documents import check_signature
from dcc.qc.apply.withdrawal import WithdrawalResult, copies_of, undo_submission
from dcc.qc.judging import rejudgements
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_log import clear_kinds, rewrite_log
from dcc.session.data.document_queries import (
    QcDocument,
    counted_by_tracker,
    documents_by_id,
    in_state,
    waiting_for_upload,
)
from dcc.session.data.judgement_phase import may_be_judged_again
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.hostings.changed_archives import LOADED
from dcc.tracker.hostings.foreign_archives import not_fetched
from dcc.tracker.hostings.missing_archives import WithdrawalProposal, decide_on_proposals, listed_now
from dcc.tracker.hostings.owner_notices import NewNotice, NoticeOutcome, add_notices
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipDownload
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.states import UPLOADED, WITHDRAWN
from dcc.tracker.submission_rows import find_submission
from dcc.vocabulary import DocumentState, WithdrawalProposalState

_LOADED_OF: Final = (
    select(XmlFile.id)
    .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .where(FileSourceHasZip.za_id.in_(IDS), LOADED)
)
_OF_WITHDRAWAL: Final = mark("Documents were withdrawn that it has to do with.")


def withdraw_submission(
    tracker: Engine, qc: Engine, settings: Settings, key: SubmissionKey, *, author: str, reason: str
) -> WithdrawalResult:
    """Withdraw all data of a submission, if no later document builds on them.

    Its documents become (upload, cancelled), including those that wait for upload or confirmation; documents whose
    findings may change are set to be judged again. An open proposal to withdraw it counts as accepted. If other
    documents build on it, nothing changes, and they are returned. Raises NotDelegatedError for data of a centre that
    has not delegated to the archive's, NotFoundError if nothing of it is applied or held, and the `unreachable` error
    of either database. If the tracker misses a withdrawal, the next session records it.
    """
    delegations, archive = run_reading(
        tracker, lambda connection: (load_delegations(connection), find_submission(connection, key))
    )
    rights = delegations.rights_of(archive.centre or settings.naming.centre_of_archive(key.file_name))
    try:
        undone = undo_submission(qc, key.action, key.file_name, author=author, reason=reason, rights=rights)
        nothing_applied = None
    except NotFoundError as error:
        undone, nothing_applied = WithdrawalResult((), (), ()), error
    if undone.builders:
        return undone
    withdrawn = run_reading(qc, lambda connection: in_state(connection, DocumentState.UNDONE, key))
    told = _tell_of_withdrawn(tracker, qc, settings.naming, withdrawn, author=author, reason=reason)
    if nothing_applied is not None:
        if not told:
            raise run_reading(tracker, lambda connection: not_fetched(connection, key)) or nothing_applied
        undone = WithdrawalResult(tuple(found.id for found in withdrawn), (), ())

    za_id = archive.za_id
    if za_id is not None:
        run_writing(tracker, lambda connection: _conclude(connection, za_id, undone, settings.naming, author, reason))
    return undone


def _conclude(
    connection: Connection, za_id: int, undone: WithdrawalResult, naming: NamingConvention, author: str, reason: str
) -> None:
    """Cancel the waiting documents of a withdrawn submission, tell owners of data, and accept a proposal of it."""
    _cancel_waiting(connection, za_id, naming, author, reason)
    notices = [NewNotice(owner, za_id, NoticeOutcome.WITHDRAWN) for owner in undone.others]
    notices += [
        NewNotice(declined.centre, za_id, NoticeOutcome.DECLINED, file_name=declined.file_name)
        for declined in undone.declined
    ]
    add_notices(connection, [replace(notice, done_by=author, reason=reason) for notice in notices])
    decide_on_proposals(connection, [za_id], WithdrawalProposalState.ACCEPTED, author=author, reason=reason)


def record_missed_withdrawals(work: DataSession) -> None:
    """Record withdrawals that the tracker missed because the process was killed."""
    undone = run_reading(work.qc, lambda connection: in_state(connection, DocumentState.UNDONE))
    withdrawn = [document for document in undone if work.covers(document.key)]
    tracker, naming = work.session.tracker, work.settings.naming
    reason = "The documents were withdrawn before."
    _tell_of_withdrawn(tracker, work.qc, naming, withdrawn, author=work.author, reason=reason)


def _tell_of_withdrawn(
    tracker: Engine,
    qc: Engine,
    naming: NamingConvention,
    withdrawn: Collection[QcDocument],
    *,
    author: str,
    reason: str,
) -> int:
    """Cancel withdrawn documents in the tracker, and set back those affected; returns the number of the former.

    Documents of their submissions that wait are cancelled, too.
    """
    if not withdrawn:
        return 0
    counted = run_reading(tracker, lambda connection: counted_by_tracker(connection, withdrawn, naming))
    standing = [document for document in counted if document.due.state != WITHDRAWN]
    if not standing:
        return 0
    news, ids = [document.due for document in standing], [document.stored.id for document in standing]
    touched = run_writing(qc, lambda connection: _set_back_by_withdrawal_of(connection, ids))

    def cancel(connection: Connection) -> None:
        # Affected documents are set back in the same transaction, so that none is forgotten.
        found = counted_by_tracker(connection, touched, naming)
        again = {one.due.xml_id: UPLOADED for one in found if may_be_judged_again(one.due)}
        progress.reopen_documents(connection, again, author, _OF_WITHDRAWAL)
        # Those of former downloads too, of submissions that were retried.
        former = rows_about(connection, _LOADED_OF, {document.za_id for document in news})
        gone = {document.xml_id for document in news} | {row.id for row in former}
        progress.reopen_documents(connection, dict.fromkeys(gone, WITHDRAWN), author, reason)
        rewrite_log(connection, {document.xml_id: () for document in news})
        for za_id in {document.za_id for document in news}:
            _cancel_waiting(connection, za_id, naming, author, reason)

    run_writing(tracker, cancel)
    return len(news)


def _cancel_waiting(connection: Connection, za_id: int, naming: NamingConvention, author: str, reason: str) -> None:
    """Cancel the documents of a withdrawn submission that were not uploaded yet."""
    waiting = waiting_for_upload(connection, za_id, naming)
    progress.reopen_documents(connection, {document.xml_id: WITHDRAWN for document in waiting}, author, reason)
    # Nothing goes back to a step that was left out, or waits to be confirmed.
    clear_kinds(connection, za_id, NOTES)


def _set_back_by_withdrawal_of(connection: Connection, document_ids: list[int]) -> list[QcDocument]:
    causes = [*document_ids, *rejudgements.withdrawals_of(connection, document_ids)]
    touched = rejudgements.documents_to_judge_again(connection, causes)
    rejudgements.mark_for_judging(connection, touched)
    return documents_by_id(connection, touched)


_COPIED: Final = (
    "A source lists the same documents in {copies}, from where they were not taken, and would not be now. Keep the "
    "data: dcc data proposals turn-down {key} --reason ... To withdraw them anyway: dcc data undo {key} --reason ..."
)


@dataclass(frozen=True, slots=True)
class DecidedProposal:
    """The result of a decision: the number of withdrawn documents, or why the proposal stays open."""

    proposal: WithdrawalProposal
    withdrawn: int = 0
    problem: str | None = None


def listed_copies(
    tracker: Connection, qc: Connection, keys: Collection[SubmissionKey]
) -> dict[SubmissionKey, list[SubmissionKey]]:
    """The submissions that a source lists with documents that were taken from one of `keys` instead; by these.

    A centre that gives an archive another name brings this about.
    """
    copies = copies_of(qc, keys)
    listed = listed_now(tracker, {copy for some in copies.values() for copy in some})
    return {key: sorted(some & listed, key=str) for key, some in copies.items() if some & listed}


def accept_proposals(
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    proposals: Sequence[WithdrawalProposal],
    *,
    author: str,
    reason: str,
) -> list[DecidedProposal]:
    """Withdraw the data of the archives in some proposals, given oldest first, each by itself like `dcc data undo`.

    The newest goes first, and those that others build on are tried again after them. An obstacle leaves its proposal
    open, and so do copies that are still listed: nothing of them would count. Raises ConfigurationError for an
    unsuitable author or reason, and the `unreachable` error of either database.
    """
    check_signature(author, reason)
    keys = [proposal.key for proposal in proposals]
    copies = run_reading(
        tracker, lambda connection: run_reading(qc, lambda data: listed_copies(connection, data, keys))
    )
    ended = [
        DecidedProposal(proposal, problem=_COPIED.format(key=proposal.key, copies=", ".join(map(str, some))))
        for proposal in proposals
        if (some := copies.get(proposal.key))
    ]
    waiting = [proposal for proposal in reversed(proposals) if proposal.key not in copies]
    while waiting:
        tried = [_accept(tracker, qc, settings, proposal, author, reason) for proposal in waiting]
        done = [decided for decided in tried if decided.problem is None]
        ended += done
        if not done:
            return ended + tried
        waiting = [decided.proposal for decided in tried if decided.problem is not None]
    return ended


def _accept(
    tracker: Engine, qc: Engine, settings: Settings, proposal: WithdrawalProposal, author: str, reason: str
) -> DecidedProposal:
    try:
        undone = withdraw_submission(tracker, qc, settings, proposal.key, author=author, reason=reason)
    except NotDelegatedError as error:
        return DecidedProposal(proposal, problem=str(error))
    except NotFoundError:
        # Somebody else withdrew it already, as proposed.
        decide_proposals(tracker, [proposal], WithdrawalProposalState.ACCEPTED, author=author, reason=reason)
        return DecidedProposal(proposal)
    if undone.builders:
        first = undone.builders[0]
        builder = f"{first.zip_action}/{first.zip_file}: {first.file_name}"
        return DecidedProposal(proposal, problem=f"{builder} {first.why}. Withdraw that first.")
    return DecidedProposal(proposal, len(undone.withdrawn))


def decide_proposals(
    tracker: Engine,
    proposals: Sequence[WithdrawalProposal],
    state: WithdrawalProposalState,
    *,
    author: str,
    reason: str,
) -> None:
    """Record a decision on open proposals. Raises as `accept_proposals`."""
    check_signature(author, reason)
    ids = [proposal.za_id for proposal in proposals]
    run_writing(tracker, lambda connection: decide_on_proposals(connection, ids, state, author=author, reason=reason))
