"""The words that columns of both databases hold where only a few are possible."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class EntityKind(StrEnum):
    """What a document submits as a whole: one entity has versions, of which at most one is current."""

    SPECIMEN = "specimen"
    EXPERIMENT = "experiment"
    LINE = "line"
    HOUSING = "housing"


class Validity:
    """What the integrity rules say of a version of an entity: whether they found an error in it, or above it.

    `INVALID_ANIMAL` is an experiment without one, of which an animal is not valid as it is at present.
    """

    UNJUDGED: Final = 0
    VALID: Final = 1
    INVALID: Final = 2
    INVALID_ANIMAL: Final = 3


class SourceState(StrEnum):
    """States of a file source, as in the tracker's `resource_state`; only available ones are crawled."""

    AVAILABLE = "available"
    MAINTENANCE = "maintenance"
    REMOVED = "removed"


class DocumentAction(StrEnum):
    """What a document did: what its zip's folder says, or the withdrawal of another document."""

    ADD = "add"
    EDIT = "edit"
    DELETE = "delete"
    UNDO = "undo"


class DocumentState(StrEnum):
    """What became of a document: only an applied one has changed any data."""

    APPLIED = "applied"
    HELD = "held"
    REFUSED = "refused"
    UNDONE = "undone"


class MeasurementType(StrEnum):
    """The elements whose values are measurements."""

    SIMPLE = "simpleParameter"
    ONTOLOGY = "ontologyParameter"
    SERIES = "seriesParameter"


class MediaType(StrEnum):
    """The elements that name media files."""

    MEDIA = "mediaParameter"
    SAMPLE = "mediaSampleParameter"
    SERIES = "seriesMediaParameter"


class MetadataOwner(StrEnum):
    """What a metadata row belongs to: see `dcc.qc.models.content.Metadata`."""

    PROCEDURE = "procedure"
    MEDIA = "media"
    SERIES_MEDIA = "series_media"


GENDER_OF_PARENT: Final = {"mother": "female", "father": "male"}
"""The gender that a relative of an animal must have, by the relationship."""


class Severity(StrEnum):
    """How bad a finding is; `unchecked`: the check could not be made, which is nobody's fault."""

    UNCHECKED = "unchecked"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"

    @property
    def fails(self) -> bool:
        """Whether it fails a document."""
        return self in (Severity.ERROR, Severity.FATAL)

    @property
    def rank(self) -> int:
        """Its place among all severities, the worst first."""
        return WORST_FIRST.index(self)


WORST_FIRST: Final = tuple(reversed(Severity))
FAILING: Final = tuple(severity for severity in Severity if severity.fails)
"""The severities that fail a document."""


class Actor(StrEnum):
    """Who must act for a finding or an error to go away."""

    CENTRE = "centre"
    DCC = "DCC"
    REGISTRY = "registry"
    NOBODY = "nobody"


class WaiverEffect(StrEnum):
    """What a waiver makes of findings: none at all, or warnings."""

    WAIVE = "waive"
    WARN = "warn"


class ContextState(StrEnum):
    """State of a data context, in the order of precedence when several are summed up."""

    NO_DATA = "nodata"
    QC_DONE = "qcdone"
    DATA_ADDED = "dataadded"
    DATA_CHANGED = "datachanged"
    DATA_REMOVED = "dataremoved"
    HAS_ISSUES = "hasissues"


class ContextEvent(StrEnum):
    """What happens to a data context: to its data by documents, to its state by people."""

    DATA_ADDED = "dataadded"
    DATA_CHANGED = "datachanged"
    DATA_REMOVED = "dataremoved"
    DONE = "done"
    REOPENED = "reopened"
    ISSUE_RAISED = "issueraised"
    ISSUE_RESOLVED = "issueresolved"


class DeltaStrategy(StrEnum):
    """Which differences between two listings of a source are recorded.

    New archives are always fetched. `disabled`: known archives are not compared, so that none is recorded as changed or
    gone. `initial`: their listing is recorded, not compared. `additive`: both. `full`: additionally, the withdrawal of
    archives that are gone is proposed to a person.
    """

    DISABLED = "disabled"
    INITIAL = "initial"
    ADDITIVE = "additive"
    FULL = "full"

    @property
    def compares(self) -> bool:
        """Whether changed and missing archives are recorded."""
        return self in (DeltaStrategy.ADDITIVE, DeltaStrategy.FULL)


class WithdrawalProposalState(StrEnum):
    """The state of a proposal. `came_back`: a source lists the archive again."""

    OPEN = "open"
    ACCEPTED = "accepted"
    TURNED_DOWN = "turned_down"
    CAME_BACK = "came_back"
