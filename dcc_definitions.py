"""The Dagster code location: the assets and jobs of dcc_assets, their resources, and what starts them."""

from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import collect_cycles_rarely, forbid_core_dumps, keep_freed_memory_together

# Dagster loads this into each process that works for it. The imports below take a fifth longer without it.
collect_cycles_rarely()

from dagster import Definitions  # noqa: E402

from dcc.settings import load_settings  # noqa: E402
from dcc_assets.definitions import asset_definitions  # noqa: E402
from dcc_sensors.definitions import automation_definitions  # noqa: E402

keep_freed_memory_together()
forbid_core_dumps()
start_logging(plan_from_environment())
settings = load_settings()
defs = Definitions.merge(asset_definitions(settings), automation_definitions(settings))
