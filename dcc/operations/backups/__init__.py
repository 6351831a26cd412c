"""Backups of an installation, their restoration, and moves from one kind of database to the other.

A set is a directory. `tracker.db` and `qc.db` are SQLite databases with the platform's own schema, whatever databases
they were read from. `staging.jsonl.gz` is the list of files in staging, `staging/` has the files themselves if they
were asked for. `manifest.json` is written last and describes the others.
"""
