"""Results of the phases after validation, shown in Dagster: of sessions, of people, and of sessions that died.

A session reports its own work. Changes by `dcc qc done`, `dcc data undo` or `dcc data confirm`, and those of a killed
session, are found by a mark (`marks`). It tells the changes in the tracker and in the data contexts up to which
everything was shown.
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

from dcc.data_outcomes import ContextsBuilt, DataOutcome, OverviewsBuilt, ZipData
from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import sorted_chunks
from dcc.databases.transactions import run_patiently
from dcc.outcomes import ZipKey
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.qc.apply.upload_lock import uploads_are_open
from dcc.qc.contexts.listings import newest_history
from dcc.qc.models import CONTEXT, HISTORY
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.models import ZipAction, ZipFile
from dcc.tracker.states import State
from dcc_assets.graph import CENTRES
from dcc_assets.metadata.centres import contexts_reports, overviews_reports
from dcc_assets.metadata.documents import data_reports
from dcc_assets.sync.document_records import (
    PAGE,
    documented_zip_actions,
    recorded_contexts,
    recorded_overviews,
    recorded_page,
)
from dcc_assets.sync.horizon import read_archive
from dcc_assets.sync.marks import Marks, Part
from dcc_dagster.partition_events import PartitionReport

T = TypeVar("T")

_JUDGED_AT_ONCE: Final = 100
# As the databases store times: to the second.
_CHANGED: Final[ColumnElement[Any]] = type_coerce(ZipAction.last_update, UtcDateTime())
_MAX_KNOWN: Final = 5_000
"""The most submissions in a mark: some tens of kilobytes."""


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """Up to where changes were shown: the newest `last_update` of submissions, and id of `context_history`.

    `is_open`: more may have changed within that second. Changes by a clock that was ahead do not count: they are shown
    again until that time has come.
    """

    zips: str = ""
    is_open: bool = False
    contexts: int = 0
    known: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Of an open second, the submissions by the states in which they were shown, `<phase>/<status>`."""

    def or_later(self, other: ChangeMark) -> ChangeMark:
        """The later of two marks; of the same second, the closed one."""
        later = max(self, other, key=lambda mark: (mark.zips, not mark.is_open))
        return replace(later, contexts=max(self.contexts, other.contexts))


DATA_SHOWN: Final = Marks("dcc/data shown", ChangeMark)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed submissions with their states, and changed centres with the newest id of `context_history` of each."""

    zips: Mapping[ZipKey, State]
    centres: Mapping[str, int]


class Mirror:
    """Makes reports of documents and centres in the two databases, which are only read.

    Changes are looked for among the centres of a `group`, or of all. Set the mark (`note_shown`) once the reports are
    stored.
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
        self._judged: list[ZipKey] = []
        self._told: dict[ZipKey, State] = {}
        self._told_contexts: dict[str, int] = {}
        self._mark: ChangeMark | None = None
        self.centres_shown: set[str] = set()
        """Centres that were reported."""

    def of_session(
        self, outcomes: Iterable[DataOutcome], excluding: Collection[object] = ()
    ) -> Iterator[PartitionReport]:
        """Reports of a session's outcomes; without the submissions and centres of `excluding`, which the caller reports
        completely.

        Judged documents are reported even if the session fails later.
        """
        try:
            for outcome in outcomes:
                if getattr(outcome, "key", None) not in excluding:
                    yield from self._of(outcome, excluding)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._of_judged()
            raise
        yield from self._of_judged()

    def _of(self, outcome: DataOutcome, excluding: Collection[object]) -> Iterator[PartitionReport]:
        if isinstance(outcome, ZipData):
            self._note_told(outcome)
            if outcome.reached is Phase.DATA:
                self._judged.append(outcome.key)
                if len(self._judged) < _JUDGED_AT_ONCE:
                    return
        yield from self._of_judged()
        if isinstance(outcome, ContextsBuilt | OverviewsBuilt):
            yield from self._of_centres(outcome, excluding=excluding)
            if isinstance(outcome, ContextsBuilt):
                self._told_contexts.update({counts.centre: outcome.history for counts in outcome.centres})
        elif outcome.reached is not Phase.DATA:
            yield from data_reports([outcome])

    def _of_judged(self) -> Iterator[PartitionReport]:
        """The judged submissions, with everything recorded of them: checks are about all documents."""
        keys, self._judged = self._judged, []
        if keys:
            yield from data_reports(outcome for outcome in self._recorded(keys) if outcome.reached is Phase.DATA)

    def recorded(
        self, keys: Collection[ZipKey] | None = None, centres: Collection[str] | None = None
    ) -> Iterator[PartitionReport]:
        """Reports of everything recorded, for all submissions and centres or for these."""
        yield from data_reports(self._recorded(keys))
        yield from self._of_centres(
            *self._read(lambda _, qc: (recorded_contexts(qc, centres), recorded_overviews(qc, centres)))
        )

    def everything(self) -> Iterator[PartitionReport]:
        """Reports of everything recorded."""
        newest = self._read(partial(_newest, shown=0))
        yield from self.recorded()
        self._mark = newest

    def _of_centres(
        self, *builds: ContextsBuilt | OverviewsBuilt, excluding: Collection[object] = ()
    ) -> Iterator[PartitionReport]:
        """The reports of builds, whose centres become partitions."""
        for built in builds:
            reports = contexts_reports(built) if isinstance(built, ContextsBuilt) else overviews_reports(built)
            told = {report.partition: report for report in reports}
            self.centres_shown.update(told)
            if told:
                self._instance.add_dynamic_partitions(str(CENTRES.name), list(told))
            yield from (report for centre, report in told.items() if centre not in excluding)

    def catch_up(self) -> Iterator[PartitionReport]:
        """Reports of changes since the mark, or since the last call, without those that the session reported."""
        if self._mark is None:
            parts = DATA_SHOWN.parts(self._instance, self._settings, self._group)
        else:
            parts = [Part(self._mark, None if self._group is None else self._group.centres)]
        # If the clock was put back, changes since then cannot be found.
        now = utc_now().isoformat()
        parts = [replace(one, mark=replace(one.mark, zips="")) if one.mark.zips > now else one for one in parts]
        contexts = min(part.mark.contexts for part in parts)
        newest, changes = self._read(
            lambda tracker, qc: (_newest(tracker, qc, contexts), changes_since(tracker, qc, parts, shown=self._shown))
        )
        # A submission in another state than the reported one was changed outside of the session, such as by `dcc data
        # undo`.
        keys = {key for key, state in changes.zips.items() if self._told.get(key) != state}
        centres = {centre for centre, change in changes.centres.items() if change > self._told_contexts.get(centre, 0)}
        if keys or centres:
            yield from self.recorded(keys, centres)
        self._mark = newest

    def note_shown(self) -> None:
        """Set the mark, once all reports are stored: a killed process leaves it where it was."""
        if self._mark is not None:
            DATA_SHOWN.write(self._instance, self._mark, self._group)

    def _note_told(self, outcome: ZipData) -> None:
        """Record the state that a report stands for: one of its phase, of validation, or an earlier reported one.

        Any other state was set outside of the session, and is reported at the end.
        """
        state = State(outcome.phase, outcome.status)
        if outcome.reached is outcome.phase or outcome.phase < Phase.UPLOAD:
            self._told[outcome.key] = state
        elif self._told.get(outcome.key) != state:
            self._told.pop(outcome.key, None)

    def _recorded(self, keys: Collection[ZipKey] | None) -> Iterator[ZipData]:
        """As `recorded_data`. Each page is reported once it is complete, so that no retry reports anything twice."""
        ids = self._read(lambda tracker, _: documented_zip_actions(tracker, keys, self._shown))
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
    parts: Iterable[Part[ChangeMark]],
    until: datetime | None = None,
    shown: ColumnElement[bool] | None = None,
) -> Changes:
    """What changed since the marks: submissions with uploaded documents, and centres with data contexts.

    `until` leaves out submissions that changed later: by a clock that was ahead. `shown` selects submissions.
    """
    zips: dict[ZipKey, State] = {}
    centres: dict[str, int] = {}
    for part in parts:
        zips |= _zips_since(tracker, part, until, shown)
        of_contexts = (
            select(CONTEXT.c.centre, func.max(HISTORY.c.id))
            .join(HISTORY, HISTORY.c.context_id == CONTEXT.c.id)
            .where(HISTORY.c.id > part.mark.contexts, part.of_column(CONTEXT.c.centre))
            .group_by(CONTEXT.c.centre)
        )
        centres |= dict(iter(qc.execute(of_contexts)))
    return Changes(zips, centres)


def _zips_since(
    tracker: Connection, part: Part[ChangeMark], until: datetime | None, shown: ColumnElement[bool] | None
) -> dict[ZipKey, State]:
    mark = part.mark
    # In the state of a document that failed in validation; others of their documents may be further.
    failed_in_part = and_(
        ZipAction.phase_id.between(int(Phase.XML_NAME), int(Phase.XSD)), ZipAction.status_id == int(Status.FAILED)
    )
    query = (
        select(ZipAction.id, ZipAction.todo_id, ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id, _CHANGED)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(or_(ZipAction.phase_id >= int(Phase.UPLOAD), failed_in_part), part.of_zip_actions())
    )
    since = datetime.fromisoformat(mark.zips) if mark.zips else None
    if since is not None:
        query = query.where(since <= _CHANGED if mark.is_open else since < _CHANGED)
    if until is not None:
        query = query.where(until >= _CHANGED)
    if shown is not None:
        query = query.where(shown)
    known = {(state, number) for state, numbers in mark.known.items() for number in numbers}
    return {
        ZipKey(ACTIONS_BY_ID[todo], name): State(Phase(phase), Status(status))
        for number, todo, name, phase, status, changed in tracker.execute(query)
        if changed != since or (f"{phase}/{status}", number) not in known
    }


def _newest(tracker: Connection, qc: Connection, shown: int) -> ChangeMark:
    """The mark of everything; of contexts only up to the `shown` ones while any are being written.

    Rows that are being written have their ids already, and may be committed after rows with higher ones.
    """
    # Read the clock first: the next call finds what changes in the same second after this.
    now = utc_now()
    newest = tracker.scalar(select(func.max(ZipAction.last_update)))
    contexts = newest_history(qc)
    if uploads_are_open(qc.engine):
        contexts = shown
    if newest is None:
        return ChangeMark("", False, contexts)
    last, is_open = min(newest, now), newest >= now
    return ChangeMark(last.isoformat(), is_open, contexts, _states_at(tracker, last) if is_open else {})


def _states_at(tracker: Connection, second: datetime) -> dict[str, list[int]]:
    """The submissions that changed last in a second, by their states; none if there are too many for a mark."""
    query = select(ZipAction.id, ZipAction.phase_id, ZipAction.status_id).where(_CHANGED.in_([second]))
    rows = tracker.execute(query.limit(_MAX_KNOWN + 1)).all()
    states: dict[str, list[int]] = defaultdict(list)
    for number, phase, status in rows[: _MAX_KNOWN if len(rows) <= _MAX_KNOWN else 0]:
        states[f"{phase}/{status}"].append(number)
    return dict(states)
