"""Alembic migrations of the QC database: as for the tracker (`dcc.tracker.migrations`), which see.

A revision that rebuilds a table on SQLite drops the views on it first, and makes them again. Tables keep the order of
their columns in the models, since rows are written without naming them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006")
"""All revisions, oldest first."""

HEAD: Final = REVISIONS[-1]
"""The revision that this version of the platform works with."""

VERSIONS: Final = Path(__file__).parent / "versions"
"""Where Alembic finds the revisions."""
