"""Whether an installation is fit to work: small checks, each with a verdict and what to do.

`examination.examine` runs them; `examination.DOCTOR_CHECKS` lists those without Dagster, `dcc_assets.doctor` has the
others. No check changes anything.
"""
