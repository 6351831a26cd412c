"""The tracker's reference rows, in the order that carries their meaning (reference tracker, "Reference rows")."""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """Processing phases; the number is the row's id and grows along the pipeline (seed 000 section 5)."""

    DOWNLOAD = 1
    ZIP_NAME = 2
    ZIP_MD5 = 3
    UNZIP = 4
    XML_NAME = 5
    XSD = 6
    UPLOAD = 7
    DATA = 8
    CONTEXT = 9
    OVERVIEW = 10
    QC = 11

    @property
    def short_name(self) -> str:
        """The name in the `phase` table."""
        return self.name.lower()


class Status(IntEnum):
    """Statuses of a phase; the number is the row's id and grows with severity (seed 000 section 5)."""

    PENDING = 1
    RUNNING = 2
    DONE = 3
    CANCELLED = 4
    FAILED = 5

    @property
    def short_name(self) -> str:
        """The name in the `a_status` table."""
        return self.name.lower()
