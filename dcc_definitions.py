"""The Dagster code location: the assets and jobs of dcc_assets, and what starts them from dcc_sensors."""

from dagster import Definitions

from dcc_assets.jobs import asset_definitions
from dcc_sensors.automation import automation_definitions

defs = Definitions.merge(asset_definitions(), automation_definitions())
