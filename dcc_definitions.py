"""The Dagster code location: the assets and jobs of dcc_assets, their resources, and what starts them."""

from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import forbid_core_dumps, importing_much, keep_freed_memory_together

# Dagster loads this into each process that works for it.
with importing_much():
    from dagster import Definitions

    from dcc.settings import load_settings
    from dcc_assets.definitions import asset_definitions
    from dcc_sensors.definitions import automation_definitions

    keep_freed_memory_together()
    forbid_core_dumps()
    start_logging(plan_from_environment())
    settings = load_settings()
    defs = Definitions.merge(asset_definitions(settings), automation_definitions(settings))
