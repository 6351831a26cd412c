"""The Dagster code location: the assets and jobs of dcc_assets, with what starts them from dcc_sensors."""

from dagster import Definitions

from dcc_assets.jobs import asset_definitions

defs = Definitions.merge(asset_definitions())
