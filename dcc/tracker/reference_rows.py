"""The rows of the tracker's reference tables, in the order that carries their meaning.

A row's id is its position in its sequence, counted from 1. Rows may be appended. They are never renamed, and never
moved without a revision that renumbers what refers to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dcc.naming import Action
from dcc.phases import Phase
from dcc.sources.protocols import PROTOCOLS, SourceProtocol
from dcc.vocabulary import SourceState


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of a reference table; `rgba` is a status's colour, None for all other rows."""

    short_name: str
    description: str
    rgba: str | None = None


_PHASES: Final = {
    Phase.DOWNLOAD: "The archive is fetched from a file source into the staging area.",
    Phase.ZIP_NAME: "The archive's name is checked against the naming convention, while crawling.",
    Phase.ZIP_MD5: "The archive's size and checksum are compared with what its centre published.",
    Phase.UNZIP: "The archive's documents are extracted into a folder of their own.",
    Phase.XML_NAME: "The document's name is checked against the naming convention.",
    Phase.XSD: "The document is validated against the XML schema of the exchange format.",
    Phase.UPLOAD: "The document's contents are loaded into the QC database.",
    Phase.DATA: "The integrity of the loaded data is checked.",
    Phase.CONTEXT: "The data are put into the context of earlier submissions.",
    Phase.OVERVIEW: "The overviews that displays and analyses read are built.",
    Phase.QC: "Data wranglers check the quality of the data.",
}

REFERENCE_ROWS: Final[dict[str, tuple[ReferenceRow, ...]]] = {
    "source_protocol": tuple(ReferenceRow(name, PROTOCOLS[name].meaning) for name in SourceProtocol),
    "resource_state": (
        ReferenceRow(SourceState.AVAILABLE.value, "Crawled, and used for downloads, in every session."),
        ReferenceRow(SourceState.MAINTENANCE.value, "Left alone until its centre has it working again."),
        ReferenceRow(SourceState.REMOVED.value, "Given up by its centre; kept for the history of what it delivered."),
    ),
    "processing_type": (
        ReferenceRow(Action.ADD.value, "Take in the archive's data, which are new."),
        ReferenceRow(Action.EDIT.value, "Replace earlier data by the archive's."),
        ReferenceRow(Action.DELETE.value, "Withdraw the data that the archive names."),
    ),
    "phase": tuple(ReferenceRow(phase.short_name, _PHASES[phase]) for phase in Phase),
    "a_status": (
        ReferenceRow("pending", "Waits for the phase to begin.", "aaaaaa00"),
        ReferenceRow("running", "The phase is under way.", "0000ff00"),
        ReferenceRow("done", "The phase ended well.", "00ff0000"),
        ReferenceRow("cancelled", "The phase was given up before its end, through no fault of the data.", "77007700"),
        ReferenceRow("failed", "The phase ended with an error.", "ff000000"),
    ),
}
"""Every reference table's rows, in order."""
