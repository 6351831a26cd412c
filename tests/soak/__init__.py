"""Weeks of an installation's life in minutes: what grows that should not, and whether all holds together at the end.

`python -m tests.soak --minutes 15` (`make soak`); a few sessions of it are a test.
"""
