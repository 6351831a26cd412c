"""The Dagster code location: the assets and jobs of dcc_assets, and what starts them from dcc_sensors."""

from dagster import Definitions

from dcc_assets.jobs import asset_definitions
from dcc_assets.reference_assets import reference_definitions
from dcc_sensors.automation import automation_definitions
from dcc_sensors.reference_watch import reference_automation

defs = Definitions.merge(asset_definitions(), reference_definitions(), automation_definitions(), reference_automation())
