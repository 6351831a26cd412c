"""Removes from staging what the retention policy allows, without disturbing a session.

While an archive is moved aside and this is recorded, the tracker's lock keeps sessions from beginning; the files are
deleted afterwards. So a session finds an archive complete, or not at all.

Nothing goes that a session may still need: an archive whose documents are not all validated, or a document that waits
for upload or confirmation. `dcc retry` downloads everything else again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, exists

from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import insert_rows, run_reading, run_writing
from dcc.errors import ArchiveRemovedError, CleaningError
from dcc.messages import byte_size, count_of
from dcc.naming import Action
from dcc.operations.staging.contents import RemovalDirectories, StagedArchive, StagedKind, read_staging
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.reports.submissions.stored_reports import remove_old_reports, remove_reports
from dcc.runtime.clock import utc_now
from dcc.session.leases import refuse_during_session
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.tracker.database import exception_id
from dcc.tracker.hostings.download_plan import is_unchecked
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.queries.submission_filters import submission_query
from dcc.tracker.register.source_addresses import PRESENT_HOSTINGS
from dcc.tracker.states import CANCELLED, NOT_ARRIVED, NOT_UPLOADED, UPLOADING, VALID, WAITING
from dcc.tracker.stored_archives import not_stored_everywhere
from dcc.tracker.submission_rows import LATEST_OF_SUBMISSION, is_at, state_of, submission_key_of

log = logging.getLogger(__name__)

_DAY_SECONDS: Final = 86_400
_AT_ONCE: Final = 100
_WHOLE: Final = (StagedKind.ARCHIVE, StagedKind.CONTENTS)
_PART: Final = (StagedKind.PART, StagedKind.ORIGIN)
_SET_BACK: Final = {WAITING: "it is to be downloaded again", CANCELLED: "it was cancelled"}


class RetentionVerdict(StrEnum):
    """A decision on an entry of staging."""

    KEEP = "keep"
    REMOVE = "remove"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KnownArchive:
    """What the tracker knows of a submission: `changed` is the time of its latest change of state (UTC, naive).

    `hosted`: a source hosts it now. `validated`: all documents of its latest download are validated. `to_upload`: one
    of them waits for its upload. `held`: one waits for confirmation, or its upload was interrupted. `stored`: the
    archive store has its bytes.
    """

    za_id: int
    centre: str | None
    state: State
    changed: datetime
    hosted: bool
    validated: bool = True
    to_upload: bool = False
    held: bool = False
    stored: bool = True


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """A decision with its reason; `known` is what the tracker knows of the submission, None for nothing."""

    staged: StagedArchive
    verdict: RetentionVerdict
    reason: str
    age_days: int
    known: KnownArchive | None = None


def retention_decisions(
    staged: StagedArchive, known: KnownArchive | None, settings: Settings, now: datetime
) -> list[RetentionDecision]:
    """Decide on an archive with its contents, and on a part of it, if there are both; `now` is in UTC, naive."""
    if known is None:
        return [_decide_on_unknown(staged, now)]
    decisions = []
    for kinds, keep, changed in ((_WHOLE, _keep_whole, known.changed), (_PART, _keep_part, None)):
        if (one := staged.of(*kinds)) is not None:
            kept = keep(one, known, settings)
            age = _age(now, one.modified, changed)
            verdict = RetentionVerdict.KEEP if kept.days is None or age < kept.days else RetentionVerdict.REMOVE
            decisions.append(RetentionDecision(one, verdict, kept.reason, age, known))
    return decisions


def _decide_on_unknown(staged: StagedArchive, now: datetime) -> RetentionDecision:
    verdict, reason = RetentionVerdict.UNKNOWN, "not known to the tracker"
    if staged.of(StagedKind.LEFT_OVER) is not None:
        verdict, reason = RetentionVerdict.REMOVE, "a left-over of a process that was killed"
    elif staged.place in set(Action):
        verdict, reason = RetentionVerdict.KEEP, "a link, which is not followed"
    elif staged.key is None:
        reason = "nothing that the platform puts there"
    return RetentionDecision(staged, verdict, reason, _age(now, staged.modified))


class _Retention(NamedTuple):
    """The days for which something is kept, None for ever; and why."""

    days: int | None
    reason: str


def _keep_whole(staged: StagedArchive, known: KnownArchive, settings: Settings) -> _Retention:
    """How long an archive with its contents is kept."""
    state, last_phase = known.state, Phase[settings.staging_keep_phase.upper()]
    if not known.stored and staged.of(StagedKind.ARCHIVE) is not None:
        return _Retention(None, "it is not in the archive store yet: dcc archive repair")
    if state in _SET_BACK:
        return _Retention(settings.staging_keep_failed_days, _SET_BACK[state])
    if not known.validated:
        return _Retention(None, "it is not validated whole")
    if known.held or (known.to_upload and last_phase > Phase.XSD):
        return _Retention(None, "a document of it waits to be uploaded or confirmed")
    if state.status in (Status.FAILED, Status.CANCELLED):
        return _Retention(settings.staging_keep_failed_days, f"it is at {state}")
    if state >= State(last_phase, Status.DONE):
        return _Retention(settings.staging_keep_days, f"it is through, at {state}")
    return _Retention(None, f"it is not through {last_phase.short_name} yet, at {state}")


def _keep_part(_: StagedArchive, known: KnownArchive, settings: Settings) -> _Retention:
    if known.state != WAITING and known.state not in NOT_ARRIVED:
        return _Retention(0, "a part of an archive that has arrived since")
    if known.hosted:
        return _Retention(None, "its download goes on from there")
    return _Retention(settings.staging_keep_part_days, "a part of an archive that no file source hosts any more")


def _age(now: datetime, modified: float, changed: datetime | None = None) -> int:
    """Complete days since the later of both times; 0 for a future time."""
    since = now.replace(tzinfo=UTC).timestamp() - modified
    if changed is not None:
        since = min(since, (now - changed).total_seconds())
    return max(int(since // _DAY_SECONDS), 0)


def _has_document(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a document of a submission's latest download fulfils a condition."""
    return exists().where(XmlFile.download_id == LATEST_OF_SUBMISSION, condition)


_KNOWN: Final = submission_query().add_columns(
    exists(PRESENT_HOSTINGS.where(FileSourceHasZip.za_id == ZipAction.id).correlate(ZipAction)).label("hosted"),
    LATEST_OF_SUBMISSION.label("latest"),
    _has_document(is_unchecked(XmlFile)).label("unvalidated"),
    _has_document(is_at(XmlFile, VALID)).label("to_upload"),
    _has_document(is_at(XmlFile, NOT_UPLOADED, UPLOADING)).label("held"),
)


def known_archives(connection: Connection, keys: Collection[SubmissionKey]) -> dict[SubmissionKey, KnownArchive]:
    """What the tracker knows of submissions, and of others of their names; unknown ones are left out."""
    # A name that is not UTF-8 cannot be in the tracker.
    names = {key.file_name for key in keys if key.file_name.isprintable()}
    rows = list(rows_with(connection, _KNOWN, ZipFile.file_name, names))
    not_stored = not_stored_everywhere(connection, [row.latest for row in rows if row.latest is not None])
    return {
        submission_key_of(row): KnownArchive(
            za_id=row.id,
            centre=row.centre,
            state=state_of(row),
            changed=row.last_update,
            hosted=bool(row.hosted),
            validated=not row.unvalidated,
            to_upload=bool(row.to_upload),
            held=bool(row.held),
            stored=row.latest not in not_stored,
        )
        for row in rows
    }


@dataclass
class CleaningResult:
    """What was removed; `changed` are places that were left alone because they had changed meanwhile."""

    removed: list[RetentionDecision] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The number of removed bytes."""
        return sum(decision.staged.bytes for decision in self.removed)


def review_staging(tracker: Engine, settings: Settings, *, within: bool = True) -> list[RetentionDecision]:
    """The content of staging, by place, with a decision on each; changes nothing. For `within` see `read_staging`.

    Raises ConfigurationError for a staging area that cannot be read, and TrackerUnreachableError.
    """
    staged = read_staging(settings.staging_directory, within=within)
    keys = {archive.key for archive in staged if archive.key is not None}
    known = run_reading(tracker, lambda connection: known_archives(connection, keys))
    return _decide(staged, known, settings, utc_now())


def clean(
    tracker: Engine,
    settings: Settings,
    decisions: Sequence[RetentionDecision],
    *,
    unknown: bool = False,
    session: Session | None = None,
) -> CleaningResult:
    """Remove what `decisions`, of `review_staging`, allow; with `unknown` also what the tracker does not know.

    Each decision is made again in its turn. `session` is the session that this belongs to; without one, none may be
    active. Kept reports of removed archives, and reports older than every archive, are removed too. Raises
    SessionActiveError, SessionLostError, CleaningError if something cannot be removed, and TrackerUnreachableError.
    What was removed before stays so; what could not be recorded is put back.
    """
    write = partial(run_writing, tracker) if session is None else session.write
    if session is None:
        # Old reports are removed below even if staging keeps everything.
        write(partial(refuse_during_session, settings=settings))
    cleaned = CleaningResult()
    going = [decision for decision in decisions if _goes(decision, unknown=unknown)]
    for start in range(0, len(going), _AT_ONCE):
        batch = going[start : start + _AT_ONCE]
        try:
            with RemovalDirectories(settings.staging_directory) as aside:
                take = partial(_take, batch=batch, aside=aside, settings=settings, unknown=unknown)
                removed, changed = write(partial(take, is_alone=session is None))
        except OSError as error:
            raise CleaningError(
                f"Something in staging ({settings.staging_directory}) cannot be removed: {error.filename or ''} "
                f"({os.strerror(error.errno or 0)}). See to the permissions and the disk, then run it again."
            ) from error
        cleaned.removed += removed
        cleaned.changed += changed
        whole = [decision.staged.key for decision in removed if decision.staged.of(*_WHOLE)]
        remove_reports(settings, [key for key in whole if key is not None])
    remove_old_reports(settings, max(settings.staging_keep_days, settings.staging_keep_failed_days))
    return cleaned


def clean_after_session(tracker: Engine, settings: Settings, session: Session) -> list[str]:
    """Remove what the settings allow, as a part of a session; returns sentences on the result. Never raises.

    A session of a group of centres removes only archives of these centres; another session may be working on the rest.
    """

    def is_own(decision: RetentionDecision) -> bool:
        key = decision.staged.key
        return session.group is None or (
            key is not None and session.covers(settings.naming.centre_of_archive(key.file_name))
        )

    try:
        decisions = list(filter(is_own, review_staging(tracker, settings)))
        cleaned = clean(tracker, settings, decisions, session=session)
    except Exception as error:
        log.warning("Staging was not cleaned after session %s: %s", session.id, error)
        return [f"Staging was not cleaned: {error}"]
    if not cleaned.removed:
        return []
    return [f"Removed {count_of(len(cleaned.removed), 'entry')} of {byte_size(cleaned.bytes)} from staging."]


def _decide(
    staged: Iterable[StagedArchive], known: Mapping[SubmissionKey, KnownArchive], settings: Settings, now: datetime
) -> list[RetentionDecision]:
    return [
        decision
        for archive in staged
        for decision in retention_decisions(
            archive, None if archive.key is None else known.get(archive.key), settings, now
        )
    ]


def _goes(decision: RetentionDecision, *, unknown: bool) -> bool:
    return decision.verdict is RetentionVerdict.REMOVE or (unknown and decision.verdict is RetentionVerdict.UNKNOWN)


def _take(
    connection: Connection,
    batch: Sequence[RetentionDecision],
    aside: RemovalDirectories,
    settings: Settings,
    *,
    unknown: bool,
    is_alone: bool,
) -> tuple[list[RetentionDecision], list[str]]:
    """Move aside what may still be removed, and record it; returns this, and the places that had changed.

    `is_alone`: no session may be active.
    """
    if is_alone:
        refuse_during_session(connection, settings)
    # An earlier attempt whose connection was lost may have moved something that a session wants by now.
    aside.put_back()
    keys = {decision.staged.key for decision in batch if decision.staged.key is not None}
    known = known_archives(connection, keys)
    taken: list[RetentionDecision] = []
    changed: list[str] = []
    rows: list[dict[str, object]] = []
    for again in _decide((decision.staged for decision in batch), known, settings, utc_now()):
        moved = aside.take(again.staged.entries) if _goes(again, unknown=unknown) else []
        if len(moved) < len(again.staged.entries):
            changed.append(again.staged.place)
        if moved:
            done = replace(again, staged=StagedArchive(again.staged.key, tuple(moved)))
            taken.append(done)
            rows += _row(connection, done)
    insert_rows(connection, ZipActionLog, rows)
    return taken, changed


def _row(connection: Connection, removed: RetentionDecision) -> list[dict[str, object]]:
    """The entry in the submission's log, if more than a part of its archive was removed."""
    whole = removed.staged.of(*_WHOLE)
    if removed.known is None or whole is None:
        return []
    nouns = {StagedKind.ARCHIVE: "archive", StagedKind.CONTENTS: "documents"}
    what = " and ".join(noun for kind, noun in nouns.items() if whole.of(kind))
    message = (
        f"Its {what} ({byte_size(whole.bytes)}) went from staging after {count_of(removed.age_days, 'day')}, since "
        f"{removed.reason}. To have it there again: dcc retry {whole.key}"
    )
    kind = exception_id(connection, ArchiveRemovedError.short_name(), ArchiveRemovedError.summary())
    return [{"za_id": removed.known.za_id, "exception_id": kind, "message": message}]
