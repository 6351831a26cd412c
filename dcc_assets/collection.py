"""The group `collection`: listings of sources, the submissions in them, and the downloaded archives."""

from collections.abc import Iterator, Sequence
from typing import Final

import dagster as dg

from dcc.databases.transactions import run_reading
from dcc.naming import ARCHIVE_SUFFIXES
from dcc.operations.crawl_requests import sources_to_crawl
from dcc.operations.session_work import SessionWork
from dcc.phases import Phase
from dcc.store.staging import Staging
from dcc_assets import graph
from dcc_assets.metadata.file_sources import found_archive_reports, source_report
from dcc_assets.partitions import chosen_partitions, known_sources, source_partitions
from dcc_assets.sync.archives import note_shown, show_missing
from dcc_assets.sync.overdue import overdue_changes
from dcc_assets.sync.recorder import recorded_work
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionReport, Result, results
from dcc_resources.file_sources import FolderResource, FtpResource, HttpResource, SftpResource
from dcc_resources.session import SessionResource

GROUP: Final = "collection"

FILE_SOURCE_SPEC: Final = graph.asset(
    graph.FILE_SOURCE_LISTINGS,
    GROUP,
    "The archives in the `add`, `edit` and `delete` directories of each file source, as of the last crawl.\n\n"
    "A partition is a file source, `<centre>-<id>` (see `dcc source list`). Materialise a partition to crawl that "
    "source now: new archives become submissions. A source that could not be listed fails its check *reachable*, with "
    "the reason. It does not hold up the others.",
    {"sftp", "ftp"},
    graph.FILE_SOURCE_PARTITIONS,
)
_SUFFIXES: Final = ", ".join(f"`{suffix}`" for suffix in ARCHIVE_SUFFIXES[1:])
ARCHIVE_SPECS: Final = (
    graph.asset(
        graph.ZIP_ACTIONS,
        GROUP,
        "Every archive that a centre has submitted, with its action: add, edit or delete.\n\nA partition is a "
        "submission, `<action>/<file name>`. It exists from the first crawl that finds the archive. A name that does "
        f"not follow `<centre>.<yyyy-mm-dd>.<increment>.impc.zip` (or {_SUFFIXES}) fails the "
        "check *zip_name* and goes no further.\n\n"
        "The checks of a submission show each failure. Of a run with many submissions they show the first 100 passes: "
        "a later submission without a result has passed.",
        {"zip"},
        graph.ZIP_ACTION_PARTITIONS,
        [dg.AssetDep(graph.FILE_SOURCE_LISTINGS, partition_mapping=dg.AllPartitionMapping())],
    ),
    graph.asset(
        graph.ZIP_DOWNLOADS,
        GROUP,
        "The archive of a submission in staging, complete, with its size and MD5 checked.\n\nIf one file source "
        "fails, the session tries the next source that hosts the archive. Materialise a partition to process that "
        "submission again, alone, from the download to the validation.",
        {"zip", "file"},
        graph.ZIP_ACTION_PARTITIONS,
        [graph.ZIP_ACTIONS],
    ),
)
FILE_SOURCE_CHECKS: Final = (
    graph.check(graph.REACHABLE, graph.FILE_SOURCE_PARTITIONS),
    graph.check(graph.CRAWL_OVERDUE, graph.FILE_SOURCE_PARTITIONS),
)
ARCHIVE_CHECKS: Final = tuple(
    graph.check(graph.CHECK_OF_PHASE[phase], graph.ZIP_ACTION_PARTITIONS)
    for phase in (Phase.ZIP_NAME, Phase.DOWNLOAD, Phase.ZIP_MD5)
)


@graph.chosen_assets(
    name="list_file_sources",
    specs=[FILE_SOURCE_SPEC],
    check_specs=FILE_SOURCE_CHECKS,
    description="Lists the file sources whose partitions are chosen.",
)
def chosen_file_sources(
    context: dg.AssetExecutionContext,
    session: SessionResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> Iterator[Result]:
    """Crawl the sources of the run's partitions.

    Raises as `crawl`, NotFoundError for an unknown one, and, once the others are crawled, ConfigurationError for one
    that may not be crawled.
    """
    run, tracker = context.op_execution_context, session.tracker.ready()
    # Outside the session: people are notified of one that broke off.
    chosen = known_sources(tracker, chosen_partitions(context))
    with recorded_work(run, session, sftp, ftp, http, folder) as (work, recorder):
        yield from results(context, crawl(work, recorder, chosen))
    sources_to_crawl(tracker, session.session_settings(), chosen)


def crawl(
    work: SessionWork, recorder: EventRecorder, source_ids: Sequence[int] | None = None
) -> Iterator[PartitionReport]:
    """Crawl all available sources, or those of `source_ids`; record the archives found; report on each source.

    Raises as the crawl.
    """
    staging = Staging(work.settings.staging_directory)
    sources = run_reading(work.tracker, source_partitions)
    recorder.instance.add_dynamic_partitions(str(graph.FILE_SOURCE_PARTITIONS.name), list(sources))
    show_missing(recorder, work)
    listed = []
    for outcome in work.crawl(source_ids):
        listed.append(outcome.partition)
        recorder.record(found_archive_reports(outcome, staging))
        yield source_report(outcome)
    yield from overdue_changes(recorder, work.tracker, work.settings, listed)
    recorder.when_stored(lambda: note_shown(recorder.instance, work))
    work.hand_over_if_due(archives=True)
