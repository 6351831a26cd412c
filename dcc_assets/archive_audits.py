"""The archive store as an asset, and the job that audits it: it reads copies, and repairs bad ones."""

from collections.abc import Iterator
from typing import Final

import dagster as dg

from dcc.databases.transactions import run_reading
from dcc.operations.archive_audits import AuditResult, audit_archives
from dcc.operations.platform_status import StoreStatus, store_status
from dcc.store.copies import CopyState
from dcc_assets.collection import GROUP
from dcc_assets.graph import ARCHIVE_COPIES, ARCHIVE_REPLICAS, ARCHIVE_STORE, asset, check
from dcc_dagster.metadata import Metadata, table
from dcc_resources.databases import TrackerResource
from dcc_resources.services import StoreResource

AUDIT_JOB: Final = "audit_archives"
LOST_TAG: Final = "dcc/lost_archives"
"""Tag of audits that failed because of lost archives, of which people get a message of its own: their number."""

_LOST_SHOWN: Final = 50


@dg.multi_asset(
    name="audit",
    specs=[
        asset(
            ARCHIVE_STORE,
            GROUP,
            "Every archive that arrived, in each replica of DCC_ARCHIVE_REPLICAS. Materialise it to read "
            "the copies whose turn it is, and to repair bad and missing ones.",
            {"zip", "file"},
        )
    ],
    check_specs=[check(ARCHIVE_COPIES), check(ARCHIVE_REPLICAS)],
    description="Reads the copies of the archive store whose turn it is, and repairs bad and missing ones.",
)
def archive_store(
    context: dg.AssetExecutionContext, tracker: TrackerResource, store: StoreResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Audit the archive store, and show what it holds. Raises Failure for a lost archive or a copy that stays bad."""
    settings, engine = tracker.settings_with(store), tracker.ready()
    done = audit_archives(engine, settings, "the nightly audit")
    for notice in done.caught_up.notices:
        context.log.warning(notice)
    found = run_reading(engine, lambda connection: store_status(connection, settings))
    shown = _figures(found) | _audits(done)
    copies = dg.AssetCheckResult(
        asset_key=ARCHIVE_STORE, check_name=ARCHIVE_COPIES.name, passed=not found.lost, metadata=shown
    )
    yield dg.MaterializeResult(asset_key=ARCHIVE_STORE, metadata=shown, check_results=[copies, _replicas(done)])
    if done.lost:
        context.instance.add_run_tags(context.run.run_id, {LOST_TAG: str(len(done.lost))})
    if not done.is_intact:
        lost = "; ".join(map(str, done.lost))
        raise dg.Failure(
            f"No copy is good of {lost}. See dcc archive status."
            if lost
            else "A copy is still bad: dcc archive repair",
            allow_retries=False,
        )


def _figures(found: StoreStatus) -> Metadata:
    """What `dcc archive status` shows."""
    rows = [
        (
            replica.replica,
            "yes" if replica.required else "no",
            *(replica.copies[state].archives for state in CopyState),
            replica.copies[CopyState.GOOD].size_bytes,
            "" if replica.oldest_check is None else f"{replica.oldest_check:%Y-%m-%d %H:%M} UTC",
        )
        for replica in found.replicas
    ]
    figures: Metadata = {
        "archives": found.archives.archives,
        "bytes": found.archives.size_bytes,
        "archives of the last 7 days": found.week.archives,
        "lost archives": len(found.lost),
        "copies": table(
            ("replica", "required", *(state.value for state in CopyState), "good bytes", "oldest check"), rows
        ),
    }
    if found.lost:
        figures["archives without a good copy"] = table(("archive",), [(str(one),) for one in found.lost[:_LOST_SHOWN]])
    return figures


def _audits(done: AuditResult) -> Metadata:
    rows = [
        (audit.replica, audit.copies, audit.bad, audit.missing, audit.repaired, audit.message or "")
        for audit in done.audits
    ]
    return {"this audit": table(("replica", "read", "bad", "missing", "repaired", "ended early"), rows)}


def _replicas(done: AuditResult) -> dg.AssetCheckResult:
    """A warning at most: other replicas have the archives, and the next audit goes on."""
    return dg.AssetCheckResult(
        asset_key=ARCHIVE_STORE,
        check_name=ARCHIVE_REPLICAS.name,
        passed=not done.unreachable,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"replicas that are away": table(("replica", "reason"), list(done.unreachable.items()))},
    )


audit_job: Final = dg.define_asset_job(
    AUDIT_JOB,
    dg.AssetSelection.assets(ARCHIVE_STORE),
    executor_def=dg.in_process_executor,
    description="Reads a share of the copies in the archive store, so that all are read within DCC_ARCHIVE_AUDIT_DAYS.",
)
