"""Results of the phases after validation, shown in Dagster: of sessions, of people, and of sessions that died.

A session reports its own work. Changes by `dcc qc done`, `dcc data undo` or `dcc data confirm`, and those of a killed
session, are found by a watermark (`watermarks`). It tells the changes in the tracker and in the data contexts up to
which everything was shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from dagster import DagsterInstance
from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, type_coerce

from dcc.data_outcomes import CentresBuilt, ContextsBuilt, DataOutcome, SubmissionData
from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import sorted_chunks
from dcc.databases.transactions import run_patiently
from dcc.outcomes import SubmissionKey
from dcc.phases import STATES, Phase, State, Status
from dcc.qc.apply.upload_lock import uploads_are_open
from dcc.qc.contexts.listings import newest_history
from dcc.qc.models import CONTEXT, HISTORY
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.models import ZipAction, ZipFile
from dcc_assets.graph import CENTRE_PARTITIONS
from dcc_assets.metadata.centres import centre_reports
from dcc_assets.metadata.documents import data_reports
from dcc_assets.sync.document_records import PAGE, documented_submissions, recorded_centres, recorded_page
from dcc_assets.sync.horizon import read_archive
from dcc_assets.sync.watermarks import CentresShown, StoredWatermarks
from dcc_dagster.partition_events import PartitionReport

T = TypeVar("T")

_JUDGED_AT_ONCE: Final = 100
# As the databases store times: to the second.
_CHANGED: Final[ColumnElement[Any]] = type_coerce(ZipAction.last_update, UtcDateTime())
_MAX_KNOWN: Final = 5_000
"""The most submissions in a watermark: some tens of kilobytes."""


@dataclass(frozen=True, slots=True)
class ChangeWatermark:
    """Up to where changes were shown: the newest `last_update` of submissions, and id of `context_history`.

    `is_open`: more may have changed within that second. Changes by a clock that was ahead do not count: they are shown
    again until that time has come.
    """

    zips: str = ""
    is_open: bool = False
    contexts: int = 0
    known: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Of an open second, the submissions by the texts of the states in which they were shown."""

    def or_later(self, other: ChangeWatermark) -> ChangeWatermark:
        """The later of two watermarks; of the same second, the closed one."""
        later = max(self, other, key=lambda watermark: (watermark.zips, not watermark.is_open))
        return replace(later, contexts=max(self.contexts, other.contexts))


DATA_SHOWN: Final = StoredWatermarks("dcc/data shown", ChangeWatermark)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed submissions with their states, and changed centres with the newest id of `context_history` of each."""

    zips: Mapping[SubmissionKey, State]
    centres: Mapping[str, int]


class DataReporter:
    """Makes reports of documents and centres in the two databases, which are only read.

    Changes are looked for among the centres of a `group`, or of all. Set the watermark (`note_shown`) once the reports
    are stored.
    """

    def __init__(
        self,
        instance: DagsterInstance,
        tracker: Engine,
        qc: Engine,
        settings: Settings,
        group: CentreGroup | None = None,
    ) -> None:
        self._instance, self._group = instance, group
        self._tracker, self._qc, self._settings = tracker, qc, settings
        self._shown = read_archive(instance).horizon.shows()
        self._judged: list[SubmissionKey] = []
        self._reported_states: dict[SubmissionKey, State] = {}
        self._reported_histories: dict[str, int] = {}
        self._watermark: ChangeWatermark | None = None
        self.reported_centres: set[str] = set()

    def reports_of_session(
        self,
        outcomes: Iterable[DataOutcome],
        but_keys: Collection[SubmissionKey] = (),
        but_centres: Collection[str] = (),
    ) -> Iterator[PartitionReport]:
        """Reports of a session's outcomes, without those submissions and centres that the caller reports completely."""
        for outcome in outcomes:
            if not (isinstance(outcome, SubmissionData) and outcome.key in but_keys):
                yield from self._reports_of_outcome(outcome, but_centres)
        yield from self._reports_of_judged()

    def _reports_of_outcome(self, outcome: DataOutcome, but_centres: Collection[str]) -> Iterator[PartitionReport]:
        if isinstance(outcome, SubmissionData):
            self._note_state(outcome)
            if outcome.reached is Phase.DATA:
                self._judged.append(outcome.key)
                if len(self._judged) < _JUDGED_AT_ONCE:
                    return
        yield from self._reports_of_judged()
        if not isinstance(outcome, SubmissionData):
            yield from self._reports_of_centres(outcome, but_centres=but_centres)
            if isinstance(outcome, ContextsBuilt):
                self._reported_histories.update({counts.centre: outcome.history for counts in outcome.centres})
        elif outcome.reached is not Phase.DATA:
            yield from data_reports([outcome])

    def _reports_of_judged(self) -> Iterator[PartitionReport]:
        """The judged submissions, with everything recorded of them: checks are about all documents."""
        keys, self._judged = self._judged, []
        if keys:
            yield from data_reports(outcome for outcome in self._recorded_data(keys) if outcome.reached is Phase.DATA)

    def reports_of_recorded(
        self, keys: Collection[SubmissionKey] | None = None, centres: Collection[str] | None = None
    ) -> Iterator[PartitionReport]:
        """Reports of everything recorded, for all submissions and centres or for these."""
        yield from data_reports(self._recorded_data(keys))
        yield from self._reports_of_centres(*self._read(lambda _, qc: recorded_centres(qc, centres)))

    def reports_of_everything(self) -> Iterator[PartitionReport]:
        """Reports of everything recorded, up to which `note_shown` then sets the watermark."""
        newest = self._read(partial(_newest, shown=0))
        yield from self.reports_of_recorded()
        self._watermark = newest

    def _reports_of_centres(
        self, *builds: CentresBuilt, but_centres: Collection[str] = ()
    ) -> Iterator[PartitionReport]:
        """The reports of builds, whose centres become partitions."""
        for built in builds:
            by_centre = {report.partition: report for report in centre_reports(built)}
            self.reported_centres.update(by_centre)
            if by_centre:
                self._instance.add_dynamic_partitions(str(CENTRE_PARTITIONS.name), list(by_centre))
            yield from (report for centre, report in by_centre.items() if centre not in but_centres)

    def reports_of_changes(self) -> Iterator[PartitionReport]:
        """Reports of changes since the watermark, or since the last call, without those that the session reported."""
        if self._watermark is None:
            shown = DATA_SHOWN.centres_shown(self._instance, self._settings, self._group)
        else:
            shown = [CentresShown(self._watermark, None if self._group is None else self._group.centres)]
        # If the clock was put back, changes since then cannot be found.
        now = utc_now().isoformat()
        shown = [
            replace(one, watermark=replace(one.watermark, zips="")) if one.watermark.zips > now else one
            for one in shown
        ]
        contexts = min(centres.watermark.contexts for centres in shown)
        newest, changes = self._read(
            lambda tracker, qc: (_newest(tracker, qc, contexts), changes_since(tracker, qc, shown, only=self._shown))
        )
        # A submission in another state than the reported one was changed outside of the session, such as by `dcc data
        # undo`.
        keys = {key for key, state in changes.zips.items() if self._reported_states.get(key) != state}
        reported = self._reported_histories
        centres = {centre for centre, history in changes.centres.items() if history > reported.get(centre, 0)}
        if keys or centres:
            yield from self.reports_of_recorded(keys, centres)
        self._watermark = newest

    def note_shown(self) -> None:
        """Set the watermark, once all reports are stored: a killed process leaves it where it was."""
        if self._watermark is not None:
            DATA_SHOWN.write(self._instance, self._watermark, self._group)

    def _note_state(self, outcome: SubmissionData) -> None:
        """Record the state that a report stands for: one of its phase, or of validation.

        Any other state was set outside of the session, and is reported at the end.
        """
        if outcome.reached is outcome.phase or outcome.phase < Phase.UPLOAD:
            self._reported_states[outcome.key] = outcome.state

    def _recorded_data(self, keys: Collection[SubmissionKey] | None) -> Iterator[SubmissionData]:
        """As `recorded_data`. Each page is reported once it is complete, so that no retry reports anything twice."""
        ids = self._read(lambda tracker, _: documented_submissions(tracker, keys, self._shown))
        for some in sorted_chunks(ids, PAGE):
            yield from self._read(partial(recorded_page, ids=some))

    def _read(self, work: Callable[[Connection, Connection], T]) -> T:
        def read() -> T:
            with self._tracker.connect() as tracker, self._qc.connect() as qc:
                return work(tracker, qc)

        return run_patiently(self._tracker, read)


def changes_since(
    tracker: Connection,
    qc: Connection,
    shown: Iterable[CentresShown[ChangeWatermark]],
    until: datetime | None = None,
    only: ColumnElement[bool] | None = None,
) -> Changes:
    """What changed since the watermarks: submissions with uploaded documents, and centres with data contexts.

    `until` leaves out submissions that changed later: by a clock that was ahead. `only` selects submissions.
    """
    zips: dict[SubmissionKey, State] = {}
    histories: dict[str, int] = {}
    for centres in shown:
        zips |= _submissions_since(tracker, centres, until, only)
        of_contexts = (
            select(CONTEXT.c.centre, func.max(HISTORY.c.id))
            .join(HISTORY, HISTORY.c.context_id == CONTEXT.c.id)
            .where(HISTORY.c.id > centres.watermark.contexts, centres.of_column(CONTEXT.c.centre))
            .group_by(CONTEXT.c.centre)
        )
        histories |= dict(iter(qc.execute(of_contexts)))
    return Changes(zips, histories)


def _submissions_since(
    tracker: Connection,
    centres: CentresShown[ChangeWatermark],
    until: datetime | None,
    only: ColumnElement[bool] | None,
) -> dict[SubmissionKey, State]:
    watermark = centres.watermark
    # In the state of a document that failed in validation; others of their documents may be further.
    failed_in_part = and_(ZipAction.phase_id.between(Phase.XML_NAME, Phase.XSD), ZipAction.status_id == Status.FAILED)
    query = (
        select(ZipAction.id, ZipAction.todo_id, ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id, _CHANGED)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(or_(ZipAction.phase_id >= Phase.UPLOAD, failed_in_part), centres.of_zip_actions())
    )
    since = datetime.fromisoformat(watermark.zips) if watermark.zips else None
    if since is not None:
        query = query.where(since <= _CHANGED if watermark.is_open else since < _CHANGED)
    if until is not None:
        query = query.where(until >= _CHANGED)
    if only is not None:
        query = query.where(only)
    known = {(state, number) for state, numbers in watermark.known.items() for number in numbers}
    return {
        SubmissionKey(action, name): STATES[phase, status]
        for number, action, name, phase, status, changed in tracker.execute(query)
        if changed != since or (str(STATES[phase, status]), number) not in known
    }


def _newest(tracker: Connection, qc: Connection, shown: int) -> ChangeWatermark:
    """The watermark of everything; of contexts only up to the `shown` ones while any are being written.

    Rows that are being written have their ids already, and may be committed after rows with higher ones.
    """
    # Read the clock first: the next call finds what changes in the same second after this.
    now = utc_now()
    newest = tracker.scalar(select(func.max(ZipAction.last_update)))
    contexts = newest_history(qc)
    if uploads_are_open(qc.engine):
        contexts = shown
    if newest is None:
        return ChangeWatermark("", False, contexts)
    last, is_open = min(newest, now), newest >= now
    return ChangeWatermark(last.isoformat(), is_open, contexts, _states_at(tracker, last) if is_open else {})


def _states_at(tracker: Connection, second: datetime) -> dict[str, list[int]]:
    """The submissions that changed last in a second, by their states; none if there are too many for a watermark."""
    query = select(ZipAction.id, ZipAction.phase_id, ZipAction.status_id).where(_CHANGED.in_([second]))
    rows = tracker.execute(query.limit(_MAX_KNOWN + 1)).all()
    states: dict[str, list[int]] = defaultdict(list)
    for number, phase, status in rows[: _MAX_KNOWN if len(rows) <= _MAX_KNOWN else 0]:
        states[str(STATES[phase, status])].append(number)
    return dict(states)
