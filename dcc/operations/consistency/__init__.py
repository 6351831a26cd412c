"""Whether an installation is consistent: the tracker, the staging area and the QC database together.

Nothing is changed. Begin at `check.check_consistency`; `dcc_assets.sync.consistency` checks what Dagster shows.
"""
