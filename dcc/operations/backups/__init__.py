"""Backups of an installation, their restoration, and moves from one kind of database to the other.

A set is a directory: `tracker.db` and `qc.db`, SQLite databases with the platform's own schema, whatever databases they
were read from; `staging.jsonl.gz`, the list of files in staging; `staging/`, the files themselves if they were asked
for; and `manifest.json`, which is written last and describes the others.
"""
