"""Keeps what Dagster shows in step with the tracker and the QC database."""
