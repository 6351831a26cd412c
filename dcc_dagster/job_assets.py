"""Jobs of ops with known assets: an asset's page shows its jobs, and the schedules and sensors that start them.

Dagster's own asset jobs do not suit a session: all assets of one must have the same partitions, and the web page
launches them for chosen partitions only. So a job keeps its op, and declares which assets its runs materialise. Its
runs, events and launchpad stay those of a job of ops.
"""

from collections.abc import Callable

from dagster import AssetKey, JobDefinition
from dagster._core.definitions.assets.job.asset_layer import AssetLayer


def materialises(*assets: AssetKey) -> Callable[[JobDefinition], JobDefinition]:
    """Declares, as a decorator above `@job`, which assets the job's runs materialise."""

    def of_assets(job: JobDefinition) -> JobDefinition:
        return JobDefinition(
            graph_def=job.graph,
            name=job.name,
            description=job.description,
            executor_def=job.executor_def,
            asset_layer=AssetLayer.for_external_job(assets),
        )

    return of_assets
