"""Whether Dagster shows what the tracker and the QC database have: the rules C20 to C22 of a consistent installation.

It is compared with the events of a rebuilt instance (`rebuild`), so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final

from dagster import DagsterInstance
from sqlalchemy import Connection, Engine

from dcc.operations.consistency.check import check_at_rest
from dcc.operations.consistency.inconsistency import Inconsistency, Wrong, consistency_rule
from dcc.settings import Settings
from dcc_assets.graph import CENTRE_PARTITIONS, FILE_SOURCE_PARTITIONS, ZIP_ACTION_PARTITIONS
from dcc_assets.metadata.centres import centre_reports
from dcc_assets.metadata.documents import data_reports
from dcc_assets.sync.archives import recorded_reports, recorded_source_reports
from dcc_assets.sync.changes import DATA_SHOWN, ChangeWatermark, changes_since
from dcc_assets.sync.document_records import recorded_centres, recorded_data
from dcc_assets.sync.horizon import read_archive
from dcc_dagster.partition_events import PartitionReport, failing_partitions
from dcc_resources.databases import qc_if_made

_SHOW: Final = "Have Dagster shown everything again: dcc instance rebuild"


def check_events(tracker: Engine, settings: Settings, instance: DagsterInstance) -> list[Inconsistency]:
    """The inconsistencies of a Dagster instance; none if all is well, or while a session is active.

    What people changed since the last session, such as by `dcc data undo`, is left out: the next one shows it.
    Everything is only read. The first of each rule are returned, and the number of the others. Memory grows with the
    number of partitions, by their names. Raises DatabaseUnreachableError, SQLAlchemy's errors and those of Dagster's
    storage.
    """

    def look(connection: Connection) -> Iterator[Inconsistency]:
        wanted = read_archive(instance).horizon.shows()
        with qc_if_made(settings) as qc:
            changed = _changed_since_shown(connection, qc, settings, instance)
            shown = _ShownEvents(instance, changed)
            sources = recorded_source_reports(connection, settings)
            zips = recorded_reports(tracker, settings, condition=wanted)
            yield from shown.missing(FILE_SOURCE_PARTITIONS.name, sources)
            yield from shown.missing(ZIP_ACTION_PARTITIONS.name, zips)
            if qc is not None:
                data = data_reports(recorded_data(connection, qc, condition=wanted))
                yield from shown.missing(ZIP_ACTION_PARTITIONS.name, data)
                for built in recorded_centres(qc):
                    yield from shown.missing(CENTRE_PARTITIONS.name, centre_reports(built))

    return check_at_rest(tracker, settings, look)


def _changed_since_shown(
    tracker: Connection, qc: Connection | None, settings: Settings, instance: DagsterInstance
) -> set[tuple[str | None, str]]:
    """The sets and names of the partitions that changed since an instance showed them; none of what it never showed."""
    all_centres = DATA_SHOWN.centres_shown(instance, settings)
    shown = [centres for centres in all_centres if centres.watermark != ChangeWatermark()]
    if qc is None or not shown:
        return set()
    changes = changes_since(tracker, qc, shown)
    zips = {(ZIP_ACTION_PARTITIONS.name, str(key)) for key in changes.zips}
    return zips | {(CENTRE_PARTITIONS.name, name) for name in changes.centres}


class _ShownEvents:
    """An instance's events, read once for each asset and check; it need not show the partitions that `changed`."""

    def __init__(self, instance: DagsterInstance, changed: Collection[tuple[str | None, str]]) -> None:
        self._changed = changed
        self._known = cache(lambda partition_set: set(instance.get_dynamic_partitions(partition_set)))
        self._partitions_of = cache(instance.get_materialized_partitions)
        self._failing = cache(lambda check: failing_partitions(instance, [check]))

    def missing(self, partition_set: str | None, reports: Iterable[PartitionReport]) -> Iterator[Inconsistency]:
        """Differences between the reports and the instance; their partitions are of this set."""
        for report in reports:
            if (partition_set, report.partition) not in self._changed:
                yield from self._partitions(str(partition_set), report)
                yield from self._materialisations(report)
                yield from self._verdicts(report)

    @consistency_rule("C20")
    def _partitions(self, partition_set: str, report: PartitionReport) -> Wrong:
        """Dagster knows the partitions of all file sources, submissions and centres with data."""
        known = self._known(partition_set)
        if report.partition not in known:
            known.add(report.partition)
            yield report.partition, f"It is no partition of {partition_set} in Dagster. {_SHOW}"

    @consistency_rule("C21")
    def _materialisations(self, report: PartitionReport) -> Wrong:
        """Dagster shows what submissions and centres have reached."""
        for materialised in report.materialised:
            if report.partition not in self._partitions_of(materialised.asset):
                asset = materialised.asset.to_user_string()
                yield report.partition, f"Dagster does not show that it has come to {asset}. {_SHOW}"

    @consistency_rule("C22")
    def _verdicts(self, report: PartitionReport) -> Wrong:
        """Dagster's checks fail for what is wrong, and for nothing else."""
        for verdict in report.verdicts:
            fails = (verdict.check, report.partition) in self._failing(verdict.check)
            if fails is verdict.passed:
                verb = "shows a failure of" if fails else "shows no failure of"
                yield report.partition, f"Dagster {verb} {verdict.check.to_user_string()}. {_SHOW}"
