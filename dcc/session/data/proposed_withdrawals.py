"""A person's decisions on proposed withdrawals: the data of missing archives are withdrawn, or stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from dcc.databases.transactions import run_writing
from dcc.errors import NotDelegatedError, NotFoundError
from dcc.qc.apply.holding import check_signature
from dcc.session.data.corrections import withdraw_submission
from dcc.settings import Settings
from dcc.tracker.hostings.missing_archives import ProposalState, WithdrawalProposal, decide


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
        settle_proposals(tracker, [proposal], ProposalState.ACCEPTED, author=author, reason=reason)
        return DecidedProposal(proposal)
    if undone.builders:
        first = undone.builders[0]
        builder = f"{first.zip_action}/{first.zip_file}: {first.file_name}"
        return DecidedProposal(proposal, problem=f"{builder} {first.why}. Withdraw that first.")
    return DecidedProposal(proposal, len(undone.withdrawn))


def settle_proposals(
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
    run_writing(tracker, lambda connection: decide(connection, ids, state, author=author, reason=reason))
