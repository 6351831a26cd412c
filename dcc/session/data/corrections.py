"""Corrections by people: plans, confirmations, withdrawals and new judgements.

Each correction is recorded with its author and reason; a plan changes nothing. The next session does the phases that
follow.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, Engine, select

from dcc.data_outcomes import DocumentData
from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import ConfigurationError, DocumentError, NotDelegatedError, NotFoundError
from dcc.messages import mark
from dcc.naming import Action
from dcc.outcomes import HELD, LEFT_OUT, ZipKey
from dcc.qc.apply.document_effect import DocumentWithRows
from dcc.qc.apply.holding import check_signature, confirm_held
from dcc.qc.apply.planning import Plan, plan_document
from dcc.qc.apply.withdrawal import WithdrawalResult, undo_submission
from dcc.qc.judging import rejudging
from dcc.rights import Delegations
from dcc.rules.upload import OWNERSHIP
from dcc.session.data.data_session import DataSession, record_results
from dcc.session.data.document_log import clear_kinds, rewrite_log
from dcc.session.data.document_queries import (
    QcDocument,
    counted_by_tracker,
    documents_by_id,
    in_state,
    standing_documents,
    waiting_for_upload,
)
from dcc.session.data.judging import may_be_judged_again
from dcc.session.data.prepared_archives import prepared_temporarily
from dcc.session.data.upload_order import DueDocument, document_to_apply
from dcc.session.data.uploading import Uploader, failed_upload
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.changed_archives import LOADED
from dcc.tracker.hostings.foreign_archives import not_fetched
from dcc.tracker.hostings.missing_archives import ProposalState, WithdrawalProposal, decide_on_proposals
from dcc.tracker.hostings.older_archives import waiting_for_older
from dcc.tracker.hostings.owner_notices import NewNotice, NoticeOutcome, add_notices
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload
from dcc.tracker.register.centres import find_archive, load_delegations
from dcc.tracker.states import NOT_UPLOADED, SET_ASIDE, UPLOADED, WITHDRAWN
from dcc.tracker.submission_rows import action_states
from dcc.vocabulary import DocumentState, Severity

_LONGEST_REASON: Final = 255
_LOADED_OF: Final = (
    select(XmlFile.id)
    .join(ZipDownload, ZipDownload.id == XmlFile.zip_id)
    .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
    .where(FileSourceHasZip.za_id.in_(IDS), LOADED)
)
_OF_WITHDRAWAL: Final = mark("Documents were withdrawn that it has to do with.")


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """What the next session judges again: the number of documents, and their submissions."""

    documents: int
    keys: tuple[ZipKey, ...]


def withdraw_submission(
    tracker: Engine, qc: Engine, settings: Settings, key: ZipKey, *, author: str, reason: str
) -> WithdrawalResult:
    """Withdraw all data of a submission, if no later document builds on them.

    Its documents become (upload, cancelled), including those that wait for upload or confirmation; documents whose
    findings may change are set to be judged again. An open proposal to withdraw it counts as accepted. If other
    documents build on it, nothing changes, and they are returned. Raises NotDelegatedError for data of a centre that
    has not delegated to the archive's, NotFoundError if nothing of it is applied or held, and the `unreachable` error
    of either database. If the tracker misses a withdrawal, the next session records it.
    """
    both = _Databases(tracker, qc, settings)
    delegations, archive = run_reading(
        tracker, lambda connection: (load_delegations(connection), find_archive(connection, key))
    )
    rights = delegations.rights_of(archive.centre or settings.naming.centre_of_zip(key.file_name))
    try:
        undone = undo_submission(qc, key.action, key.file_name, author=author, reason=reason, rights=rights)
        unfetched = None
    except NotFoundError as error:
        undone, unfetched = WithdrawalResult((), (), ()), error
    if undone.builders:
        return undone
    withdrawn = run_reading(qc, lambda connection: in_state(connection, DocumentState.UNDONE, key))
    told = _tell_of_withdrawn(both, withdrawn, author, reason)
    if unfetched is not None:
        if not told:
            both.refuse_unfetched(key)
            raise unfetched
        undone = WithdrawalResult(tuple(found.id for found in withdrawn), (), ())

    def conclude(connection: Connection) -> None:
        if archive.za_id is not None:
            waiting = waiting_for_upload(connection, archive.za_id, settings.naming)
            states = {document.xml_id: WITHDRAWN for document in waiting}
            progress.reopen_documents(connection, states, author, reason)
            # Nothing goes back to a step that was left out, or waits to be confirmed.
            clear_kinds(connection, archive.za_id, [HELD, *LEFT_OUT.values()])
            notices = [NewNotice(owner, archive.za_id, NoticeOutcome.WITHDRAWN) for owner in undone.others]
            notices += [
                NewNotice(declined.centre, archive.za_id, NoticeOutcome.DECLINED, file_name=declined.file_name)
                for declined in undone.declined
            ]
            add_notices(
                connection, [replace(notice, done_by=author, reason=reason[:_LONGEST_REASON]) for notice in notices]
            )
            decide_on_proposals(connection, [archive.za_id], ProposalState.ACCEPTED, author=author, reason=reason)

    run_writing(tracker, conclude)
    return undone


def record_missed_withdrawals(work: DataSession) -> None:
    """Record withdrawals that the tracker missed because the process was killed."""
    both = _Databases(work.session.tracker, work.qc, work.settings)
    undone = run_reading(both.qc, lambda connection: in_state(connection, DocumentState.UNDONE))
    withdrawn = [document for document in undone if work.covers(document.key)]
    _tell_of_withdrawn(both, withdrawn, work.author, "The documents were withdrawn before.")


def confirm_submission(
    tracker: Engine, qc: Engine, settings: Settings, key: ZipKey, *, author: str, reason: str
) -> list[DocumentData]:
    """Confirm the held documents of a submission, and apply them at once; returns the results.

    An edit or delete of another centre's data is refused, as in a session. The next session applies confirmed
    documents that could not be applied. Raises NotFoundError if none is held, and ConfigurationError for an author or a
    reason that is empty or too long. Raises ConfigurationError, too, while they would wait for an older archive, and if
    the submission is on hold or was set aside. Also StagedDocumentLostError if one is not in staging any more, and the
    `unreachable` error of either database.
    """
    both = _Databases(tracker, qc, settings)
    run_reading(both.tracker, lambda connection: _require_confirmable(connection, key))
    try:
        ids = confirm_held(qc, key.action, key.file_name, author=author, reason=reason)
    except NotFoundError:
        both.refuse_unfetched(key)
        raise
    held = run_reading(both.qc, lambda connection: documents_by_id(connection, ids))
    counted = run_reading(both.tracker, lambda connection: counted_by_tracker(connection, held, settings.naming))
    uploader = Uploader(qc, settings, run_reading(both.tracker, load_delegations))
    documents = [document for document, _ in counted]
    left_out = {document.xml_id: NOT_UPLOADED for document in documents if document.state == WITHDRAWN}
    run_writing(both.tracker, lambda connection: progress.reopen_documents(connection, left_out, author, reason))
    return [_confirm(both, uploader, document) for document in documents]


def recheck(
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    *,
    centre: str | None = None,
    rule: str | None = None,
    keys: Collection[ZipKey] | None = None,
    author: str,
    reason: str,
) -> RecheckResult:
    """Let the next session judge documents again: those with findings of `rule`, else all applied ones.

    `centre` and `keys` restrict them. Raises the `unreachable` error of either database.
    """

    def find(connection: Connection) -> list[int]:
        if rule is not None:
            return rejudging.documents_of_rule(connection, rule, centre)
        return standing_documents(connection, centre)

    both = _Databases(tracker, qc, settings)
    return _judge_again(both, run_reading(both.qc, find), None if keys is None else set(keys), author, reason)


@dataclass(frozen=True, slots=True)
class _Databases:
    tracker: Engine
    qc: Engine
    settings: Settings

    def refuse_unfetched(self, key: ZipKey) -> None:
        """Raise NotFoundError with what to do, for an archive that is held as a whole."""
        error = run_reading(self.tracker, lambda connection: not_fetched(connection, key))
        if error is not None:
            raise error from None


def _judge_again(
    both: _Databases, document_ids: Iterable[int], keys: set[ZipKey] | None, author: str, reason: str
) -> RecheckResult:
    """Set documents back; only in the QC database those that the tracker does not count.

    The QC database decides even if a running session advances a document in the tracker meanwhile.
    """
    found = run_reading(both.qc, lambda connection: documents_by_id(connection, document_ids))
    wanted = [document for document in found if keys is None or document.key in keys]
    run_writing(
        both.qc, lambda connection: rejudging.mark_for_judging(connection, [document.id for document in wanted])
    )

    def set_back(connection: Connection) -> tuple[list[DueDocument], set[int]]:
        counted = counted_by_tracker(connection, wanted, both.settings.naming)
        judged = [one for one, _ in counted if may_be_judged_again(one)]
        progress.reopen_documents(connection, {document.xml_id: UPLOADED for document in judged}, author, reason)
        return judged, {stored.id for _, stored in counted}

    judged, counted = run_writing(both.tracker, set_back)
    others = [document for document in wanted if document.id not in counted]
    concerned = {document.key for document in judged} | {document.key for document in others}
    return RecheckResult(len(judged) + len(others), tuple(sorted(concerned)))


def _tell_of_withdrawn(both: _Databases, withdrawn: Collection[QcDocument], author: str, reason: str) -> int:
    """Cancel withdrawn documents in the tracker, and set back those affected; returns the number of changes."""
    if not withdrawn:
        return 0
    naming = both.settings.naming
    counted = run_reading(both.tracker, lambda connection: counted_by_tracker(connection, withdrawn, naming))
    news = [document for document, _ in counted if document.state != WITHDRAWN]
    if not news:
        return 0
    ids = [stored.id for document, stored in counted if document.state != WITHDRAWN]
    touched = run_writing(both.qc, lambda connection: _set_back_by_withdrawal_of(connection, ids))

    def cancel(connection: Connection) -> None:
        # Affected documents are set back in the same transaction, so that none is forgotten.
        found = counted_by_tracker(connection, touched, naming)
        again = {one.xml_id: UPLOADED for one, _ in found if may_be_judged_again(one)}
        progress.reopen_documents(connection, again, author, _OF_WITHDRAWAL)
        # Those of former downloads too, of submissions that were retried.
        former = rows_about(connection, _LOADED_OF, {document.za_id for document in news})
        gone = {document.xml_id for document in news} | {row.id for row in former}
        progress.reopen_documents(connection, dict.fromkeys(gone, WITHDRAWN), author, reason)
        rewrite_log(connection, {document.xml_id: () for document in news})

    run_writing(both.tracker, cancel)
    return len(news)


def _set_back_by_withdrawal_of(connection: Connection, document_ids: list[int]) -> list[QcDocument]:
    causes = [*document_ids, *rejudging.withdrawals_of(connection, document_ids)]
    touched = rejudging.documents_to_judge_again(connection, causes)
    rejudging.mark_for_judging(connection, touched)
    return documents_by_id(connection, touched)


def _require_confirmable(connection: Connection, key: ZipKey) -> None:
    """Raise ConfigurationError if a submission was set aside or is on hold, or would wait for an older archive."""
    za_id = find_archive(connection, key).za_id
    if za_id is None:
        return
    if action_states(connection, [za_id]).get(za_id) == SET_ASIDE:
        raise ConfigurationError(f"{key} was set aside. Bring it back first: dcc retry {shlex.quote(str(key))}")
    if connection.scalar(select(ZipAction.id).where(ZipAction.id == za_id, is_on_hold())) is not None:
        raise ConfigurationError(f"{key} is on hold. Release it first: dcc release {shlex.quote(str(key))}")
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


def _confirm(both: _Databases, uploader: Uploader, document: DueDocument) -> DocumentData:
    try:
        with prepared_temporarily(Staging(both.settings.staging_directory), [document], uploader.qc) as prepared:
            (result,) = uploader.upload([document], [prepared(document)])
    except DocumentError as error:
        result = failed_upload(document, error)
    states, _ = run_writing(both.tracker, lambda connection: record_results(connection, [result]))
    state = states.get(document.xml_id, document.state)
    return replace(result.data, phase=state.phase, status=state.status)


@dataclass(frozen=True, slots=True)
class DecidedProposal:
    """The result of a decision: the number of withdrawn documents, or why the proposal stays open."""

    proposal: WithdrawalProposal
    withdrawn: int = 0
    problem: str | None = None


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
    open. Raises ConfigurationError for an unsuitable author or reason, and the `unreachable` error of either database.
    """
    check_signature(author, reason)
    waiting = list(reversed(proposals))
    ended: list[DecidedProposal] = []
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
        decide_proposals(tracker, [proposal], ProposalState.ACCEPTED, author=author, reason=reason)
        return DecidedProposal(proposal)
    if undone.builders:
        first = undone.builders[0]
        builder = f"{first.zip_action}/{first.zip_file}: {first.file_name}"
        return DecidedProposal(proposal, problem=f"{builder} {first.why}. Withdraw that first.")
    return DecidedProposal(proposal, len(undone.withdrawn))


def decide_proposals(
    tracker: Engine,
    proposals: Sequence[WithdrawalProposal],
    state: ProposalState,
    *,
    author: str,
    reason: str,
) -> None:
    """Record a decision on open proposals. Raises as `accept_proposals`."""
    check_signature(author, reason)
    ids = [proposal.za_id for proposal in proposals]
    run_writing(tracker, lambda connection: decide_on_proposals(connection, ids, state, author=author, reason=reason))


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """What one document would change."""

    file_name: str
    plan: Plan

    def is_held(self, hold_threshold: int) -> bool:
        """Whether a session holds the document for confirmation.

        `hold_threshold` is the number of entities that a document may end without it.
        """
        would_be = self.plan.would_be
        others = any(found.rule == OWNERSHIP and found.severity is Severity.WARNING for found in would_be.findings)
        return others or sum(would_be.ended.values()) > hold_threshold


def plan_submission(tracker: Engine, qc: Engine, settings: Settings, key: ZipKey) -> list[DocumentPlan]:
    """What each document of a submission that waits for upload would change by itself, in the order of upload.

    Held documents are among them, and those of a submission on hold. Raises NotFoundError if none waits,
    StagedDocumentLostError if one is not in staging any more, DocumentError, and the `unreachable` error of either
    database.
    """

    def find(connection: Connection) -> tuple[list[DueDocument], Delegations]:
        due = waiting_for_upload(connection, find_archive(connection, key).za_id, settings.naming)
        if not due:
            raise not_fetched(connection, key) or NotFoundError(
                f"No document of {key} waits to be uploaded. How far they are says `dcc show {key}`; what has not been "
                "fetched and validated yet is by `dcc crawl --until xsd`."
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
