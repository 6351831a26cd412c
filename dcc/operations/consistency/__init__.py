"""Whether an installation holds together: the tracker, the staging area and the QC database, looked at as a whole.

Nothing is changed. `checking.check_consistency` is the way in; what Dagster shows is looked at in
`dcc_assets.sync.consistency`.
"""
