"""The jobs, and everything of this package that makes up the Dagster code location."""

from __future__ import annotations

from typing import Final

from dagster import AssetSelection, Definitions, JobDefinition, define_asset_job, in_process_executor

from dcc_assets.catalogue import FILE_SOURCE_LISTINGS, VALIDATED_DOCUMENTS, XML_DOCUMENTS, ZIP_DOWNLOADS
from dcc_assets.file_source_assets import crawl
from dcc_assets.work import PLATFORM, OwnSession
from dcc_assets.zip_assets import process

CRAWL_JOB: Final = "crawl_file_sources"
PROCESS_JOB: Final = "process_zip_actions"

# Without checks: those that a run plans without a partition would stay open for ever. Results are stored all the same.
crawl_job = define_asset_job(
    CRAWL_JOB,
    AssetSelection.assets(FILE_SOURCE_LISTINGS).without_checks(),
    description="Lists all available file sources and registers new zip actions. Downloads nothing.",
)
process_job = define_asset_job(
    PROCESS_JOB,
    AssetSelection.assets(ZIP_DOWNLOADS, XML_DOCUMENTS, VALIDATED_DOCUMENTS).without_checks(),
    description="Downloads, extracts and validates every zip action that waits.",
)


def asset_definitions() -> Definitions:
    """The assets, checks and jobs, run one step after another in the run's own process."""
    return Definitions(
        assets=[crawl, process],
        jobs=[crawl_job, process_job],
        resources={PLATFORM: OwnSession()},
        executor=in_process_executor,
    )


def resolve_job(name: str) -> JobDefinition:
    """A job, ready to be executed in this process."""
    return asset_definitions().resolve_job_def(name)
