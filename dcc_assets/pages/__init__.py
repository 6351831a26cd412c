"""The pages that `dcc ui` serves in addition to Dagster's."""
