"""Faults of every kind against a whole installation on real servers, and whether it comes out as if nothing had been.

`python -m tests.chaos --help` (or `make chaos`) is the long trial; `test_chaos.py` is a short one with fixed seeds.
"""
