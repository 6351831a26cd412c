"""Metrics of an installation, in the text format of Prometheus: from the tracker, the QC database and the disk."""
