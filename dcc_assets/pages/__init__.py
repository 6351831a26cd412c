"""The pages that `dcc ui` serves beside Dagster's own."""
