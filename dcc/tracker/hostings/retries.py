"""Retries: those that people ask for, with what hinders the others, and what each session tries again by itself.

That is failed downloads, by the retry policy, and archives with documents that were refused for a centre which has been
registered since.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, exists, select, union
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import rows_with
from dcc.errors import BadFileNameError, ConfigurationError, DccError, NotFoundError
from dcc.messages import mark, message_from_json
from dcc.outcomes import SubmissionKey
from dcc.tracker import progress
from dcc.tracker.decisions import DecisionKind, is_acknowledged, is_decided, is_on_hold
from dcc.tracker.hostings.changed_archives import changed_where_fetched, loaded_submissions, withdrawn_submissions
from dcc.tracker.hostings.download_plan import is_unchecked, load_plans, load_plans_among
from dcc.tracker.hostings.foreign_archives import Decline, UnfetchedArchive, declines_of, may_be_taken
from dcc.tracker.hostings.staged_copies import StagedCopy, staged_copies
from dcc.tracker.models import (
    BadCopy,
    Centre,
    FileSource,
    FileSourceHasZip,
    Reopening,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.register.source_addresses import is_paused
from dcc.tracker.reopened_by import CRAWL, RETRY_POLICY, person_name
from dcc.tracker.states import CANCELLED, NOT_ARRIVED, NOT_EXTRACTED, REFUSED, REFUSED_BY_NAME
from dcc.tracker.submission_rows import (
    KEY,
    LATEST_OF_SUBMISSION,
    action_states,
    count_submissions,
    is_at,
    is_named,
    latest_downloads,
    named_after,
    of_names_in,
    state_of,
    submission_key_of,
)
from dcc.vocabulary import SourceState

_MAX_TOLD = 3
_Named = aliased(Centre)


def require_retriable(connection: Connection, keys: Sequence[SubmissionKey]) -> None:
    """Check that submissions can be processed again now; changes nothing.

    Raises as `reopen_named`, and NotFoundError for one that no available source hosts.
    """
    ids = _retriable(connection, keys)
    planned = {plan.za_id for plan in load_plans(connection, None, list(ids.values()), by_name=True)}
    for key, za_id in ids.items():
        if za_id not in planned:
            raise not_hosted_error(connection, key)


def why_not_retriable(connection: Connection, keys: Sequence[SubmissionKey]) -> dict[SubmissionKey, str]:
    """Those of known submissions that cannot be processed again now, each with why; changes nothing."""
    found = _look_up(connection, keys)
    planned = {plan.za_id for plan in load_plans(connection, None, [row.id for row in found.values()], by_name=True)}
    unplanned = {key: "no available source hosts it" for key, row in found.items() if row.id not in planned}
    return unplanned | {key: reason for key, reason, _ in _obstacles(connection, found)}


def staged_copies_of(connection: Connection, keys: Sequence[SubmissionKey]) -> list[StagedCopy]:
    """The possible copies in staging of these submissions; raises as `reopen_named`."""
    return staged_copies(connection, _retriable(connection, keys).values())


def reopen_named(connection: Connection, keys: Sequence[SubmissionKey], requested_by: str) -> list[int]:
    """Open submissions again that a person wants processed again; returns their ids.

    Raises NotFoundError for an unknown one, BadFileNameError for a refused name, ConfigurationError for one on hold or
    whose content changed after its data were uploaded.
    """
    za_ids = list(_retriable(connection, keys).values())
    reason = mark("Processing was asked for again.")
    progress.reopen(connection, za_ids, requested_by=person_name(requested_by), reason=reason)
    return za_ids


def _retriable(connection: Connection, keys: Sequence[SubmissionKey]) -> dict[SubmissionKey, int]:
    """The ids of submissions. Raises as `reopen_named`."""
    found = _look_up(connection, keys)
    for key in keys:
        if key not in found:
            raise NotFoundError(f"The tracker knows no {key}. Look for it with: dcc zips")
    for _, _, error in _obstacles(connection, found):
        raise error
    return {key: row.id for key, row in found.items()}


def _obstacles(
    connection: Connection, found: Mapping[SubmissionKey, Any]
) -> Iterator[tuple[SubmissionKey, str, DccError]]:
    """The submissions that are not processed again, each with the reason in short, and as an error."""
    changed = changed_where_fetched(connection, [row.id for row in found.values()])
    for key, row in found.items():
        named = shlex.quote(str(key))
        if state_of(row) == REFUSED:
            text = f"{key} is refused for its name and cannot be processed. See the reason with: dcc show {named}"
            yield key, "refused for its name", BadFileNameError(text)
        elif row.on_hold:
            text = f"{key} is on hold. Release it first: dcc release {named}"
            yield key, "on hold", ConfigurationError(text)
        elif row.id in changed:
            # It would repeat existing data, and fail because of that.
            text = (
                f"{key} has changed on its file source after its data were uploaded, and is not processed again beside "
                f"them. Withdraw the data first: dcc data undo {named} --reason ...; then: dcc retry {named}. To keep "
                "them, ask the centre to submit what changed under a new name."
            )
            yield key, "changed after its data were uploaded", ConfigurationError(text)


def reopen_lost_with_source(connection: Connection, source_id: int, requested_by: str) -> None:
    """Open submissions again whose archives came from a source that is about to be deleted, with their documents.

    Without those whose data were uploaded, or that a person withdrew or cancelled.
    """
    hosted = select(FileSourceHasZip.za_id).where(FileSourceHasZip.file_source_id == source_id)
    latest = {one.download_id: one.za_id for one in latest_downloads(connection, connection.scalars(hosted).all())}
    deleted = select(ZipDownload.id).join(FileSourceHasZip).where(FileSourceHasZip.file_source_id == source_id)
    lost = {latest[row.id] for row in rows_with(connection, deleted, ZipDownload.id, latest)}
    states = action_states(
        connection, lost - loaded_submissions(connection, lost) - withdrawn_submissions(connection, lost)
    )
    reason = mark("The file source that it came from was deleted.")
    ids = [za_id for za_id, state in states.items() if state != CANCELLED]
    progress.reopen(connection, ids, requested_by=person_name(requested_by), reason=reason)


def not_hosted_error(connection: Connection, key: SubmissionKey) -> NotFoundError:
    """The error that no source offers a submission now, with what became of its sources."""
    hosting = FileSourceHasZip.gone_since, FileSourceHasZip.missed_since, FileSourceHasZip.uploading_since
    source = FileSource.id, FileSource.state_id.label("state"), is_paused().label("paused"), Centre.is_active
    centres = Centre.short_name.label("centre"), _Named.short_name.label("owner")
    query = (
        select(*source, *hosting, *centres, FileSourceHasZip.za_id, may_be_taken().label("may_be_taken"))
        .select_from(FileSource)
        .join(FileSourceHasZip)
        .join(Centre, Centre.id == FileSource.centre_id)
        .join(ZipAction)
        .join(ZipFile)
        .outerjoin(_Named, _Named.id == ZipFile.centre_id)
        .where(is_named(key))
        .order_by(FileSource.id)
    )
    rows = connection.execute(query).all()
    declines = declines_of(connection, [row.za_id for row in rows])
    reasons = dict.fromkeys(_why_not(row, key, declines.get(row.za_id)) for row in rows)
    why = "; ".join(list(reasons)[:_MAX_TOLD]) or "none ever did"
    return NotFoundError(
        f"No available file source hosts {key} at present: {why}. See where it was with "
        f"`dcc show {shlex.quote(str(key))}`, and the sources with `dcc source list`; then crawl, and try again."
    )


def _look_up(connection: Connection, keys: Sequence[SubmissionKey]) -> dict[SubmissionKey, Any]:
    on_hold = is_decided(DecisionKind.HOLD).label("on_hold")
    columns = (ZipAction.id, *KEY, ZipAction.phase_id, ZipAction.status_id, on_hold)
    query = select(*columns).join(ZipFile)
    rows = rows_with(connection, query, ZipFile.file_name, (key.file_name for key in keys))
    known = {submission_key_of(row): row for row in rows}
    return {key: known[key] for key in keys if key in known}


def _why_not(row: Any, key: SubmissionKey, declined: Decline | None) -> str:
    source = f"file source {row.id}"
    if row.state == SourceState.REMOVED:
        return f"{source} is removed"
    if not row.is_active:
        return f"{source} is of centre {row.centre}, not active (`dcc centre activate {row.centre}`)"
    if row.state != SourceState.AVAILABLE:
        return f"{source} is in the state {row.state} (`dcc source set-state {row.id} available`)"
    if row.paused:
        return f"{source} is paused (`dcc source resume {row.id}`)"
    if row.gone_since is not None:
        return f"{source} does not list it any more"
    if not row.may_be_taken:
        unfetched = UnfetchedArchive(row.za_id, key, row.owner or "", (row.centre,), declined)
        return f"{source} is of another centre: {unfetched.translatable}"
    if row.missed_since is not None:
        return f"{source} did not list it the last time"
    if row.uploading_since is not None:
        return f"it is still being uploaded to {source}"
    return f"{source} could not be listed in this session"


def reopen_failed_downloads(connection: Connection, sources: set[int] | None, centres: Collection[str] | None) -> int:
    """Failed downloads are tried again from this session's sources. Returns their number.

    Of archives of some `centres`; None: of all. They include downloads that a person asked for and that failed, and
    archives that are damaged on one source while another has a copy not known to be bad. Without those that changed
    after their data were uploaded.
    """
    failed = {plan.za_id for plan in load_plans_among(connection, sources, _DUE, _MAY_BE_TRIED, centres)}
    failed -= changed_where_fetched(connection, failed)
    progress.reopen(connection, failed, RETRY_POLICY, mark("The download failed in an earlier session."))
    return len(failed)


def with_registered_names(
    connection: Connection, sources: set[int] | None, centres: Collection[str] | None
) -> list[int]:
    """The submissions that failed for the centre in a document's name, which has been registered since.

    Of archives that these sources host (None: any source), of some `centres`; None: of all. Without those that a person
    decided on, and those that changed after their data were uploaded.
    """
    refused = connection.execute(of_names_in(_REFUSED_FOR_CENTRE, centres)).all()
    if not refused:
        return []
    registered = centre_ids(connection)
    found = {row.id for row in refused if _centre_of(row) in registered}
    found -= withdrawn_submissions(connection, found) | changed_where_fetched(connection, found)
    return [plan.za_id for plan in load_plans(connection, sources, sorted(found))]


def reopen_with_registered_names(
    connection: Connection, sources: set[int] | None, centres: Collection[str] | None
) -> None:
    """Open the submissions `with_registered_names` again that this session's sources have."""
    found = with_registered_names(connection, sources, centres)
    reason = mark("The name of a document conforms: its centre has been registered since.")
    progress.reopen(connection, found, CRAWL, reason)


def count_not_arrived(connection: Connection, centres: Collection[str] | None = None) -> int:
    """The number of submissions, of some `centres` or of all, that no source has delivered after an attempt."""
    return count_submissions(connection, _NOT_ARRIVED, named_after(centres))


_NOT_ARRIVED: Final = is_at(ZipAction, *sorted(NOT_ARRIVED))
_MAY_BE_TRIED: Final = and_(~is_acknowledged(), ~is_on_hold())
_Newer = aliased(Reopening)
_DUE: Final = union(
    select(ZipAction.id).where(_NOT_ARRIVED),
    select(Reopening.za_id).where(
        Reopening.fell_back.is_not(None),
        ~exists().where(_Newer.za_id == Reopening.za_id, _Newer.id > Reopening.id),
    ),
    select(FileSourceHasZip.za_id).join(BadCopy).join(ZipAction).where(is_at(ZipAction, NOT_EXTRACTED)),
).subquery("due")
"""A subquery for the retry policy, so that no session needs another statement."""

_Other = aliased(XmlFile)
_REFUSED_FOR_CENTRE: Final = (
    select(ZipAction.id, XmlLog.details)
    .join(FileSourceHasZip)
    .join(ZipDownload)
    .join(XmlFile, XmlFile.download_id == ZipDownload.id)
    .join(XmlLog)
    .where(
        is_at(ZipAction, REFUSED_BY_NAME),
        ZipDownload.id == LATEST_OF_SUBMISSION,
        XmlLog.code == f"{BadFileNameError.error_id()}.centre",
        XmlLog.cleared.is_(None),
        # Those that `load_interrupted` returns are finished first.
        ~exists().where(_Other.download_id == ZipDownload.id, is_unchecked(_Other)),
        _MAY_BE_TRIED,
    )
)


def _centre_of(row: Any) -> object:
    return (message_from_json(row.details, "").details or {}).get("centre")
