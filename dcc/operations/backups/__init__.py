"""Backups of an installation, their restoration, and moves from one kind of database to the other.

A set is a directory: `tracker.db` and `qc.db`, SQLite databases with the platform's own schema whatever databases they
were read from; `staging.jsonl.gz`, what lay in staging; `staging/`, that itself where it was asked for; and
`manifest.json`, which comes last and says what the others must be.
"""
