"""All assets, checks, jobs and resources of the Dagster code location."""

import dagster as dg

from dcc.settings import Settings
from dcc_assets.analysis import measurements
from dcc_assets.archive_audits import archive_store, audit_job
from dcc_assets.batches import prepare_batches
from dcc_assets.collection import chosen_file_sources
from dcc_assets.data import chosen_data
from dcc_assets.jobs import crawl_file_sources, load_data, process_zip_actions, show_changes
from dcc_assets.quality_control import chosen_contexts, chosen_qc
from dcc_assets.reference import reference_sets, refresh_reference_data
from dcc_assets.reports import chosen_reports
from dcc_assets.sync.overdue import show_overdue_job
from dcc_assets.validation import chosen_submissions
from dcc_resources.code_location import platform_resources


def asset_definitions(settings: Settings | None = None) -> dg.Definitions:
    """Everything, run in the run's own process; the resources have the values of `settings`."""
    return dg.Definitions(
        assets=[
            chosen_file_sources,
            chosen_submissions,
            chosen_data,
            chosen_contexts,
            chosen_qc,
            chosen_reports,
            measurements,
            archive_store,
            reference_sets,
        ],
        jobs=[
            crawl_file_sources,
            process_zip_actions,
            prepare_batches(),
            load_data,
            show_changes,
            show_overdue_job,
            audit_job,
            refresh_reference_data,
        ],
        resources=platform_resources(settings),
        executor=dg.in_process_executor,
    )
