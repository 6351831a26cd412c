"""Keeps Dagster's events in step with the tracker and the QC database."""
