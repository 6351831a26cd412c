"""Alembic migrations of the tracker database.

A new one is a module `versions/NNNN_<what>.py` with `revision` and `down_revision`, its number added to `REVISIONS`;
it must not import the models, which go on changing. On SQLite use `op.batch_alter_table`; the triggers that keep
`last_update` are put back after every upgrade. `tests/tracker/test_schema.py` compares the outcome with the
models on both databases and prints what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
"""All revisions, oldest first."""

HEAD: Final = REVISIONS[-1]
"""The revision that this version of the platform works with."""

VERSIONS: Final = Path(__file__).parent / "versions"
"""Where Alembic finds the revisions."""
