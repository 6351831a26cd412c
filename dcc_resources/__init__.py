"""Dagster resources: what the asset graph is fed by."""
