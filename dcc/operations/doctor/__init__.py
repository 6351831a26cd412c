"""Whether an installation is fit to work: small checks, each with a verdict and what to do.

`examining.examine` asks them; `checks.CHECKS` lists those that need no Dagster, `dcc_assets.doctor` those that do.
Nothing is changed by any of them.
"""
