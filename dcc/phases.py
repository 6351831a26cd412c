"""Phases, statuses and states, with the ids of their rows in the tracker (`dcc.tracker.database`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, NamedTuple


class _Row(IntEnum):
    """A row of a table of the tracker, by its id."""

    @property
    def short_name(self) -> str:
        """The name in the table."""
        return self.name.lower()


class Phase(_Row):
    """Processing phases; the number is the row's id and grows along the pipeline.

    A phase before others moves their numbers: a revision of the tracker then renumbers all that refer to `phase.id`.
    """

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


KeptPhase = Literal["xsd", "upload", "data", "context", "overview", "qc"]
"""The phases after which staging may forget an archive, by name."""
LastPhase = Literal["zip_name", KeptPhase]
"""The phases that sessions may end with, by name."""


class Status(_Row):
    """Statuses of a phase; the number is the row's id and grows with severity."""

    PENDING = 1
    RUNNING = 2
    DONE = 3
    CANCELLED = 4
    FAILED = 5


UNFINISHED: Final = (Status.PENDING, Status.RUNNING)
"""Statuses of a phase that has not ended."""
UNFAILED: Final = (*UNFINISHED, Status.DONE)
"""Those of a phase that neither failed nor was given up."""


class State(NamedTuple):
    """How far something has come: a phase and a status."""

    phase: Phase
    status: Status

    def __str__(self) -> str:
        return f"({self.phase.short_name}, {self.status.short_name})"

    @property
    def failed(self) -> bool:
        """Whether it ended in a failure."""
        return self.status == Status.FAILED

    @property
    def failed_as_whole(self) -> bool:
        """Whether an archive failed before its documents."""
        return self.failed and self.phase <= Phase.UNZIP

    def is_past(self, phase: Phase) -> bool:
        """Whether it went through a phase."""
        return self.phase > phase or self == (phase, Status.DONE)


STATES: Final = {(phase, status): State(phase, status) for phase in Phase for status in Status}
"""All states, each as one object, by their phase and status."""
