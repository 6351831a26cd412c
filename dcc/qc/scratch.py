"""Scratch QC databases: files in which documents are applied and judged as in a session, and that nobody keeps.

They have the entities of documents, and not their measurements: no rule compares these with those of other documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event

from dcc.databases.engines import disposed, open_database
from dcc.qc.database import QC_DATABASE

EMPTY_TABLES: Final = frozenset(
    {
        *("genotype", "parental_strain", "chromosomal_alteration", "chromosome"),
        *("measurement", "media", "media_association", "dimension", "metadata"),
    }
)
"""The tables that stay empty."""


@contextmanager
def scratch_database(place: Path) -> Iterator[Engine]:
    """A scratch QC database in a file, which must exist."""
    with disposed(open_database(f"sqlite:///{place}", QC_DATABASE)) as engine:
        event.listen(engine, "connect", _forget_safety)
        yield engine


def _forget_safety(connection: Any, record: object) -> None:  # noqa: ARG001
    """Have a scratch database not wait for the disk; it names waivers and snapshots that it does not have."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA foreign_keys = OFF")
