"""Jobs of ops with known assets: an asset's page shows its jobs, and the schedules and sensors that start them.

Dagster's own asset jobs do not suit a session: all assets of one must have the same partitions, and the web page
launches them for chosen partitions only. So a job keeps its op, and declares which assets its runs materialise. Its
runs, events and launchpad stay those of a job of ops.
"""

from dagster import AssetKey, GraphDefinition, JobDefinition, OpDefinition, in_process_executor
from dagster._core.definitions.assets.job.asset_layer import AssetLayer


def job_of(step: OpDefinition, name: str, assets: tuple[AssetKey, ...], description: str) -> JobDefinition:
    """A job of one step, done in the process of its run, whose runs materialise `assets`."""
    return JobDefinition(
        graph_def=GraphDefinition(name, node_defs=[step]),
        name=name,
        description=description,
        executor_def=in_process_executor,
        asset_layer=AssetLayer.for_external_job(assets),
    )
