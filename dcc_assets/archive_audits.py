"""The job that audits the archive store: it reads copies, and repairs bad ones."""

from typing import Final

from dagster import Definitions, Failure, OpExecutionContext, in_process_executor, job, op

from dcc.operations.archive_audits import audit_archives
from dcc_resources.databases import TrackerResource
from dcc_resources.store import StoreResource

AUDIT_JOB: Final = "audit_archives"


@op(
    name="audit",
    description="Reads the copies of the archive store whose turn it is, and repairs bad and missing ones.",
)
def _audit(context: OpExecutionContext, tracker: TrackerResource, store: StoreResource) -> None:
    done = audit_archives(tracker.ready(), tracker.settings_with(store), "the nightly audit")
    for one in done.audits:
        context.log.info(
            f"{one.replica}: read {one.copies:,}; {one.bad:,} bad, {one.missing:,} missing, {one.repaired:,} repaired. "
            f"{one.message or ''}"
        )
    for notice in done.caught_up.notices:
        context.log.warning(notice)
    if not done.is_whole:
        lost = "; ".join(map(str, done.lost))
        raise Failure(
            f"No copy is good of {lost}. See dcc archive status."
            if lost
            else "A copy is still bad: dcc archive repair",
            allow_retries=False,
        )


@job(
    name=AUDIT_JOB,
    executor_def=in_process_executor,
    description="Reads a share of the copies in the archive store, so that all are read within DCC_ARCHIVE_AUDIT_DAYS.",
)
def audit_job() -> None:
    """Audit the archive store."""
    _audit()


def archive_audit_definitions() -> Definitions:
    """The job."""
    return Definitions(jobs=[audit_job])
