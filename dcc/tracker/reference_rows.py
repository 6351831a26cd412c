"""The rows of the tracker's reference tables, in the order that carries their meaning.

A row's id is its position in its sequence, counted from 1. Rows may be appended, never moved or renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dcc.naming import Action
from dcc.sources.protocols import PROTOCOLS, SourceProtocol


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of a reference table; `rgba` is a status's colour, None for all other rows."""

    short_name: str
    description: str
    rgba: str | None = None


REFERENCE_ROWS: Final[dict[str, tuple[ReferenceRow, ...]]] = {
    "source_protocol": tuple(ReferenceRow(name, PROTOCOLS[name].meaning) for name in SourceProtocol),
    "resource_state": (
        ReferenceRow("available", "Crawled, and used for downloads, in every session."),
        ReferenceRow("maintenance", "Left alone until its centre has it working again."),
        ReferenceRow("removed", "Given up by its centre; kept for the history of what it delivered."),
    ),
    "processing_type": (
        ReferenceRow(Action.ADD.value, "Take in the archive's data, which are new."),
        ReferenceRow(Action.EDIT.value, "Replace earlier data by the archive's."),
        ReferenceRow(Action.DELETE.value, "Withdraw the data that the archive names."),
    ),
    "phase": (
        ReferenceRow("download", "The archive is fetched from a file source into the staging area."),
        ReferenceRow("zip_name", "The archive's name is checked against the naming convention, while crawling."),
        ReferenceRow("zip_md5", "The archive's size and checksum are compared with what its centre published."),
        ReferenceRow("unzip", "The archive's documents are extracted into a folder of their own."),
        ReferenceRow("xml_name", "The document's name is checked against the naming convention."),
        ReferenceRow("xsd", "The document is validated against the XML schema of the exchange format."),
        ReferenceRow("upload", "The document's contents are loaded into the QC database."),
        ReferenceRow("data", "The integrity of the loaded data is checked."),
        ReferenceRow("context", "The data are put into the context of earlier submissions."),
        ReferenceRow("overview", "The overviews that displays and analyses read are built."),
        ReferenceRow("qc", "Data wranglers check the quality of the data."),
    ),
    "a_status": (
        ReferenceRow("pending", "Waits for the phase to begin.", "aaaaaa00"),
        ReferenceRow("running", "The phase is under way.", "0000ff00"),
        ReferenceRow("done", "The phase ended well.", "00ff0000"),
        ReferenceRow("cancelled", "The phase was given up before its end, through no fault of the data.", "77007700"),
        ReferenceRow("failed", "The phase ended with an error.", "ff000000"),
    ),
}
"""Every reference table's rows, in order."""
